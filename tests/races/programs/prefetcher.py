"""Copy the next batch on a stream of its own while the model computes on this one."""

import torch


class Prefetcher:
    def __init__(self, batches):
        self.batches = iter(batches)
        self.stream = torch.cuda.Stream()
        self.preload()

    def preload(self):
        batch = next(self.batches, None)
        if batch is None:
            self.batch = None
            return
        with torch.cuda.stream(self.stream):
            self.batch = batch.to("cuda", non_blocking=True).mul_(2)

    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)  # sync
        batch = self.batch
        if batch is not None:
            batch.record_stream(torch.cuda.current_stream())  # sync
        self.preload()
        return batch


batches = [torch.full((256, 256), float(i)).pin_memory() for i in range(1, 6)]
weight = torch.eye(256, device="cuda")
prefetcher = Prefetcher(batches)
total = torch.zeros((), device="cuda")
batch = prefetcher.next()
while batch is not None:
    total += (batch @ weight).sum()
    batch = prefetcher.next()
print(total.item())
