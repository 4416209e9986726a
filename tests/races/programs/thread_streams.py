"""Threads have the default stream as their current one, unless they choose their own."""

import threading

import torch

parts = [torch.full((1 << 14,), float(i), device="cuda") for i in range(3)]
results, done = [None] * 3, [None] * 3
begun = torch.cuda.current_stream().record_event()


def work(i):
    stream = torch.cuda.Stream()
    stream.wait_event(begun)  # sync
    with torch.cuda.stream(stream):
        results[i] = (parts[i] * 2 + 1).sqrt()
        done[i] = stream.record_event()


threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for i in range(3):
    torch.cuda.current_stream().wait_event(done[i])  # sync
    results[i].record_stream(torch.cuda.current_stream())
print([round(r.sum().item(), 2) for r in results])
