"""Prefetchers as repositories for CUDA have them: copies on a side stream beside the work; events between threads."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator

import torch
from harness import CPU, VIRTUAL, child

BATCHES, SHAPE = 12, (4, 3, 8, 8)
#: Cycles of the device's clock in a millisecond.
MILLISECOND = 1_500_000


def _batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(0)
    return [(torch.randint(256, SHAPE, dtype=torch.uint8), torch.full((SHAPE[0],), i)) for i in range(BATCHES)]


class Prefetcher:
    """The next batch is on its way, and normalised, while the last is worked on (the one of apex's examples)."""

    def __init__(self, loader: list[tuple[torch.Tensor, torch.Tensor]], half: bool = False) -> None:
        self.loader = iter(loader)
        self.stream = torch.cuda.Stream()
        self.mean = torch.tensor([0.485 * 255, 0.456 * 255, 0.406 * 255]).cuda().view(1, 3, 1, 1)
        self.std = torch.tensor([0.229 * 255, 0.224 * 255, 0.225 * 255]).cuda().view(1, 3, 1, 1)
        self.type = torch.half if half else torch.float
        self.preload()

    def preload(self) -> None:
        try:
            self.next_input, self.next_target = next(self.loader)
        except StopIteration:
            self.next_input = self.next_target = None
            return
        with torch.cuda.stream(self.stream):
            self.next_input = self.next_input.pin_memory().cuda(non_blocking=True)
            self.next_target = self.next_target.pin_memory().cuda(non_blocking=True)
            self.next_input = self.next_input.float().sub_(self.mean).div_(self.std).to(self.type)

    def next(self) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        torch.cuda.current_stream().wait_stream(self.stream)
        found, target = self.next_input, self.next_target
        if found is not None:
            found.record_stream(torch.cuda.current_stream())
            target.record_stream(torch.cuda.current_stream())
        self.preload()
        return found, target


def _ahead(loader: list[tuple[torch.Tensor, torch.Tensor]]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Return a generator that is one batch ahead (the one of timm)."""
    stream, first = torch.cuda.Stream(), True
    mean = torch.full((1, 3, 1, 1), 100.0, device="cuda")
    found = target = torch.empty(0)
    for next_input, next_target in loader:
        with torch.cuda.stream(stream):
            next_input = next_input.cuda(non_blocking=True)
            next_target = next_target.cuda(non_blocking=True)
            next_input = next_input.float().sub_(mean)
        if not first:
            yield found, target
        else:
            first = False
        torch.cuda.current_stream().wait_stream(stream)
        found, target = next_input, next_target
    yield found, target


@child(VIRTUAL, CPU)
def test_every_batch_comes_as_it_was() -> None:
    mean = torch.tensor([0.485 * 255, 0.456 * 255, 0.406 * 255]).view(1, 3, 1, 1)
    std = torch.tensor([0.229 * 255, 0.224 * 255, 0.225 * 255]).view(1, 3, 1, 1)
    for half in (False, True):
        prefetcher, kept = Prefetcher(_batches(), half), []
        x, y = prefetcher.next()
        while x is not None:
            kept.append((x.clone(), y))
            del x  # its memory is the next batch's, once this stream is done with it
            x, y = prefetcher.next()
        assert len(kept) == BATCHES
        for (x, y), (image, target) in zip(kept, _batches(), strict=True):
            wanted = image.float().sub_(mean).div_(std)
            assert torch.equal(x.cpu(), wanted.half() if half else wanted)
            assert torch.equal(y.cpu(), target)
    for (x, y), (image, target) in zip(_ahead(_batches()), _batches(), strict=True):
        assert torch.equal(x.cpu(), image.float() - 100)
        assert torch.equal(y.cpu(), target)


@child(VIRTUAL)
def test_copies_run_beside_the_work() -> None:
    """20 ms on a side stream beside 20 ms here take little more than 20 ms; one after the other, 40 ms."""
    side, begin, end = torch.cuda.Stream(), *(torch.cuda.Event(enable_timing=True) for _ in range(2))
    taken = []
    for beside in (True, False):
        torch.cuda.synchronize()
        begin.record()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side if beside else torch.cuda.current_stream()):
            torch.cuda._sleep(20 * MILLISECOND)
        torch.cuda._sleep(20 * MILLISECOND)
        torch.cuda.current_stream().wait_stream(side)
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end))
    assert 19 < taken[0] < 36
    assert taken[1] > 39


@child(VIRTUAL, CPU)
def test_events_go_between_threads() -> None:
    """A thread loads and hands over batches with events; another waits for the events on a stream of its own."""
    full: queue.Queue[tuple[torch.Tensor, torch.cuda.Event] | None] = queue.Queue(maxsize=2)
    sums: list[float] = []
    done = torch.cuda.Event()

    def load() -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for image, _ in _batches():
                torch.cuda._sleep(MILLISECOND)
                moved, event = image.pin_memory().cuda(non_blocking=True), torch.cuda.Event()
                event.record()
                full.put((moved, event))
        full.put(None)

    def work() -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            while (found := full.get()) is not None:
                moved, event = found
                stream.wait_event(event)
                moved.record_stream(stream)
                sums.append(moved.long().sum().item())
            torch.cuda._sleep(5 * MILLISECOND)
            done.record(stream)

    threads = [threading.Thread(target=target) for target in (load, work)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    done.synchronize()
    assert done.query()
    assert time.monotonic() - began > 0.005
    assert sums == [image.long().sum().item() for image, _ in _batches()]
