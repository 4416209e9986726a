"""Save checkpoints in a thread that waits for the copy of the weights to the host."""

import threading

import torch

weight = torch.zeros(1 << 16, device="cuda")
host = torch.zeros(1 << 16).pin_memory()
copying = torch.cuda.Stream()
saved = []


def write(copied):
    copied.synchronize()  # sync
    saved.append(host.clone().sum().item())


for _ in range(3):
    weight.add_(1)
    copying.wait_stream(torch.cuda.current_stream())  # sync
    copied = torch.cuda.Event()
    with torch.cuda.stream(copying):
        host.copy_(weight, non_blocking=True)
        copied.record()
    writer = threading.Thread(target=write, args=(copied,))
    writer.start()
    writer.join()
    torch.cuda.synchronize()
print(saved)
