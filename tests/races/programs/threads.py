"""A producer thread fills tensors on its stream; the consumer waits for its event."""

import queue
import threading

import torch

handed = queue.Queue()


def produce():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(4):
            x = torch.full((1 << 16,), float(i), device="cuda").mul_(2)
            ready = torch.cuda.Event()
            ready.record()
            handed.put((x, ready))
    handed.put(None)


producer = threading.Thread(target=produce)
producer.start()
sums = []
while (item := handed.get(timeout=20)) is not None:
    x, ready = item
    torch.cuda.current_stream().wait_event(ready)  # sync
    x.record_stream(torch.cuda.current_stream())  # sync
    sums.append(x.sum())
    del x, item
producer.join()
print([s.item() for s in sums])
