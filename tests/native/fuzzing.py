"""Random calls of every binding of the compiled device, with good and bad arguments, from several threads at once.

As a program, under the driver: ``fuzzing.py seconds [seed]``. It prints its seed. What must hold: nothing hangs (the
watchdog shows every thread's stack and ends the process), nothing dies, and the books are even at the end.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

import torchdevice_cuda

THREADS = 4
SETTINGS = (
    *("expandable_segments:True", "expandable_segments:False", "max_split_size_mb:20", "large_segment_size_mb:32"),
    *("garbage_collection_threshold:0.2", "roundup_power2_divisions:4", "roundup_power2_divisions:[1:2,>:8]"),
    *("throw_on_cudamalloc_oom:True", "throw_on_cudamalloc_oom:False", "pinned_max_cached_size_mb:1"),
)
#: What a call may refuse: bad indices, addresses, sizes, pools, and memory that is not there.
REFUSALS = (RuntimeError, TypeError, ValueError, OverflowError, IndexError)


class Player:
    """The calls of one thread, and the objects that only this thread holds."""

    def __init__(self, native: Any, seed: int) -> None:
        self.native, self.random = native, random.Random(seed)
        self.tensors: list[torch.Tensor] = []
        self.blocks: list[int] = []
        self.pools: list[Any] = []
        self.events = [native.Event() for _ in range(3)]
        self.calls = 0

    def device(self) -> int:
        return self.random.choice((0, 0, 0, 1, 1, -1, 2, 63, 64, -7, 2**31 - 1))

    def stream(self) -> int:
        known = self.native.stream_new(0, self.random.randint(-5, 2))
        return self.random.choice((0, known, known, 0x7000, 1, 2**62 + 1, -1))

    def address(self) -> int:
        known = [x.data_ptr() + 512 for x in self.tensors[-2:]]
        return self.random.choice([0, 1, 4096, 2**47, 2**64 - 1, *self.blocks[-2:], *known])

    def pool(self) -> tuple[int, int]:
        return self.random.randint(0, 2), self.random.randint(0, 3)

    # ------------------------------------------------------------------ what is done
    def make(self) -> None:
        size = self.random.choice((0, 1, 100, 5000, 300_000, 3_000_000, 1 << 34))
        self.tensors.append(torch.ones(size, dtype=torch.uint8, device=f"cuda:{self.random.randint(0, 1)}"))

    def compute(self) -> None:
        x = torch.rand(self.random.randint(1, 200), device="cuda", requires_grad=True)
        torch.native_dropout(x * x, 0.5, True)[0].sum().backward()

    def resize(self) -> None:
        if self.tensors:
            self.random.choice(self.tensors).untyped_storage().resize_(self.random.choice((0, 1, 4096, 1 << 21, -1)))

    def drop(self) -> None:
        for held in (self.tensors, self.pools):
            if held:
                held.pop(self.random.randrange(len(held)))

    def record_stream(self) -> None:
        if self.tensors:
            self.tensors[-1].record_stream(torch.cuda.Stream())

    def allocate_raw(self) -> None:
        address = self.native.raw_alloc(self.random.choice((0, 1, 4096, 1 << 22, 1 << 40)), self.device(), 0)
        if address:
            self.blocks.append(address)

    def delete_raw(self) -> None:
        if self.blocks and self.random.random() < 0.8:
            self.native.raw_delete(self.blocks.pop())
        else:
            self.native.raw_delete(self.random.choice((1, 4096, 2**47, 2**64 - 1)))

    def in_pool(self) -> None:
        pool = torch.cuda.MemPool()
        self.pools.append(pool)
        with torch.cuda.use_mem_pool(pool):
            self.make()

    def raw_pool(self) -> None:
        pool, device = self.pool(), self.random.randint(0, 1)
        if self.random.random() < 0.5:
            self.native.pool_begin(device, *pool, self.random.random() < 0.8)
            try:
                self.make()
            finally:
                self.native.pool_end(device, *pool)
                self.native.pool_release(device, *pool)
        else:
            getattr(self.native, self.random.choice(("pool_release", "pool_use_count", "pool_end")))(device, *pool)

    def streams(self) -> None:
        device, stream = self.device(), self.stream()
        before = self.native.stream_set(0, stream)
        try:
            self.native.sleep(self.random.choice((0, 1, 100_000, -5)), device)
            self.native.stream_query(device, stream)
            self.native.stream_priority(device, stream)
            self.native.stream_handle(device, stream)
            self.make()
        finally:
            self.native.stream_set(0, before)

    def event(self) -> None:
        event = self.random.choice(self.events)
        event.record(self.device(), self.stream())
        event.block(self.device(), self.stream())
        _ = event.query(), event.recorded, event.handle, event.elapsed_time(self.events[0])

    def ask(self) -> None:
        name = self.random.choice(("memory_stats", "memory_allocated", "mem_info", "reset_peak_stats", "get_fraction"))
        getattr(self.native, name)(self.device())

    def look(self) -> None:
        for name in ("device_of_address", "segment_of_address", "is_pinned_address"):
            getattr(self.native, name)(self.address())

    def host(self) -> None:
        pinned = torch.ones(self.random.randint(0, 9000)).pin_memory()
        _ = pinned.cuda(non_blocking=True)
        getattr(self.native, self.random.choice(("host_stats", "host_empty_cache", "host_reset_peak_stats")))()

    def generator(self) -> None:
        self.native.next_seed(self.device(), self.random.choice((0, 1, -1, 2**62)))
        torch.cuda.manual_seed(self.random.randint(0, 2**31))

    def history(self) -> None:
        enabled = self.random.choice((False, True, True))
        self.native.record_history(enabled, self.random.choice((1, 50)), self.random.randint(0, 3))

    def settings(self) -> None:
        chosen = self.random.sample(SETTINGS, self.random.randint(0, 3))
        torchdevice_cuda.driver().memory.configure(",".join(chosen))
        self.native.set_caching(self.random.random() < 0.9)
        if self.random.random() < 0.2:
            pool = self.pool()
            self.native.pool_use_on_oom(self.device(), *pool, self.random.random() < 0.5)
            self.native.pool_no_split(self.device(), *pool)

    def clean(self) -> None:
        self.native.empty_cache(*self.random.choice(((0, 0), self.pool())))
        if self.random.random() < 0.1:
            self.native.snapshot()

    def play(self, until: float) -> None:
        """Calls until the time is up, then everything of its own given back."""
        moves: list[Callable[[], None]] = [
            *(self.make, self.compute, self.resize, self.drop, self.drop, self.record_stream, self.allocate_raw),
            *(self.delete_raw, self.in_pool, self.raw_pool, self.streams, self.event, self.ask, self.look),
            *(self.host, self.generator, self.history, self.clean, self.settings),
        ]
        while time.monotonic() < until:
            with contextlib.suppress(*REFUSALS):
                self.random.choice(moves)()
            self.calls += 1
            del self.tensors[:-20]
        for address in self.blocks:
            self.native.raw_delete(address)
        self.tensors.clear()
        self.pools.clear()


def fuzz(seconds: float, seed: int) -> int:
    """Play with several threads; the number of calls. Fails if the books are not even then."""
    print(f"seed {seed}", flush=True)
    native: Any = torchdevice_cuda.driver().native
    torch.ones(1, device="cuda")
    importlib.import_module("torch._inductor")  # torch imports it to read the first stack
    observed: list[object] = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *what: observed.append(torch.cuda.memory_stats(what[0])))
    faulthandler.dump_traceback_later(seconds + 60, exit=True)
    failures: list[BaseException] = []
    players = [Player(native, seed + number) for number in range(THREADS)]

    def work(player: Player) -> None:
        try:
            player.play(time.monotonic() + seconds)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work, args=(player,)) for player in players]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    native.record_history(False)
    for pool in ((a, b) for a in range(3) for b in range(4)):
        for device in (0, 1):
            while native.pool_use_count(device, *pool):
                native.pool_release(device, *pool)
    gc.collect()
    for device in (0, 1):
        native.synchronize(device)
    native.empty_cache()
    native.host_empty_cache()
    for device in (0, 1):
        stats = native.memory_stats(device)
        for name in ("allocation", "active", "segment", "allocated_bytes", "active_bytes", "reserved_bytes"):
            assert {kind: stat["current"] for kind, stat in stats[name].items()} == dict.fromkeys(stats[name], 0), name
        assert not [s for s in native.snapshot()["segments"] if s["device"] == device]
    assert native.host_stats()["allocated_bytes"]["current"] == 0
    faulthandler.cancel_dump_traceback_later()
    return sum(player.calls for player in players)


if __name__ == "__main__":
    chosen = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(2**31)
    print(fuzz(float(sys.argv[1]), chosen), "calls")
