"""Prefetch dictionaries of tensors on a side stream, with one event for each batch."""

import torch

host = [
    {"x": torch.full((512, 64), float(i + 1)).pin_memory(), "y": torch.full((512,), float(i)).pin_memory()}
    for i in range(4)
]
stream = torch.cuda.Stream()
total = torch.zeros((), device="cuda")


def fetch(batch):
    with torch.cuda.stream(stream):
        moved = {key: value.to("cuda", non_blocking=True) for key, value in batch.items()}
        event = torch.cuda.Event()
        event.record(stream)
    return moved, event


waiting = fetch(host[0])
for i in range(len(host)):
    batch, event = waiting
    if i + 1 < len(host):
        waiting = fetch(host[i + 1])
    torch.cuda.current_stream().wait_event(event)  # sync
    for value in batch.values():
        value.record_stream(torch.cuda.current_stream())  # sync
    total += (batch["x"].sum(1) - batch["y"]).sum()
    del batch, value
print(total.item())
