"""Two threads share a ring of buffers: one event says filled, another says free."""

import queue
import threading

import torch

ring = [torch.zeros(1 << 15, device="cuda") for _ in range(2)]
torch.cuda.synchronize()
filled, free = queue.Queue(), queue.Queue()
for number in range(2):
    free.put((number, None))


def produce():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(6):
            number, event = free.get(timeout=20)
            if event is not None:
                stream.wait_event(event)  # sync
            ring[number].fill_(float(i))
            filled.put((number, stream.record_event()))


thread = threading.Thread(target=produce)
thread.start()
sums = []
mine = torch.cuda.Stream()
with torch.cuda.stream(mine):
    for _ in range(6):
        number, event = filled.get(timeout=20)
        mine.wait_event(event)  # sync
        sums.append(ring[number].sum())
        free.put((number, mine.record_event()))
thread.join()
mine.synchronize()
print([s.item() for s in sums])
