"""Actions that the processes of the soak repeat: each leaves only warm caches behind."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator

import torch

Action = Callable[[random.Random], None]
#: More bytes than a processor addresses: PyTorch's allocator for ARM reserves 16 TiB without memory behind them.
_TOO_MUCH = 1 << 58


def train(dice: random.Random) -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 5)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(dice.randrange(1, 4)):
        optimizer.zero_grad()
        loss = model(torch.randn(2, 3, 8, 8, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
    assert loss.item() >= 0


def train_on(steps: int) -> Iterator[int]:
    """Train one model for so many steps, in mixed precision, with a schedule, an event and a metric in each."""
    layers = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Dropout(), torch.nn.Flatten()
    model = torch.nn.Sequential(*layers, torch.nn.Linear(144, 5)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    scaler = torch.amp.GradScaler("cuda", init_scale=256.0)
    side, done = torch.cuda.Stream(), torch.cuda.Event()
    for step in range(steps):
        with torch.cuda.stream(side):
            images = torch.randn(2, 3, 8, 8).pin_memory().to("cuda", non_blocking=True)
            done.record()
        done.wait()
        with torch.autocast("cuda"):
            loss = torch.nn.functional.cross_entropy(model(images), torch.tensor([1, 3], device="cuda"))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        assert loss.item() >= 0
        yield step


def threads(dice: random.Random) -> None:
    """Four of them compute on streams of their own, while this one asks for figures."""
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        own = random.Random(seed)
        try:
            for _ in range(own.randrange(1, 20)):
                with torch.cuda.stream(torch.cuda.Stream()):
                    x = torch.randn(own.randrange(1, 5000), device="cuda")
                    assert (x - x).sum().item() == 0
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(dice.randrange(1 << 30),)) for _ in range(4)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        torch.cuda.memory_stats()
        torch.cuda.memory_allocated()
        workers[0].join(0.001)
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]


def forks(dice: random.Random) -> None:
    """A child without a GPU, which ends in one way or another."""
    ending = dice.choice(["returns", "quits", "killed"])
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            torch.ones(3).add_(1)
            if ending == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
        os._exit(7)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == (-signal.SIGKILL if ending == "killed" else 7), status


def _on_the_host(queue: multiprocessing.SimpleQueue[float]) -> None:
    queue.put(torch.ones(5).sum().item())


def workers(dice: random.Random) -> None:
    """A process of multiprocessing that answers."""
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=_on_the_host, args=(queue,))
    process.start()
    assert queue.get() == 5
    process.join()
    process.close()
    queue.close()


def loading(dice: random.Random) -> None:
    data = torch.utils.data.TensorDataset(torch.arange(8.0).cpu())
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=1)
    assert sum(batch.cuda().sum().item() for (batch,) in loader) == 28


def out_of_memory(dice: random.Random) -> None:
    """CUDA's error, and everything goes on."""
    try:
        torch.empty(_TOO_MUCH, device="cuda", dtype=torch.uint8)
    except (torch.cuda.OutOfMemoryError, RuntimeError):
        pass
    else:
        raise AssertionError("there is no such memory")
    assert torch.ones(4, device="cuda").sum().item() == 4


def streams(dice: random.Random) -> None:
    side, start, end = torch.cuda.Stream(), *(torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    with torch.cuda.stream(side):
        side.wait_event(start)
        x = torch.ones(100, device="cuda") * 2
    torch.cuda.current_stream().wait_stream(side)
    end.record()
    torch.cuda.synchronize()
    assert start.elapsed_time(end) >= 0
    assert x.sum().item() == 200


def figures(dice: random.Random) -> None:
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.memory_summary()
    torch.cuda.memory_snapshot()
    torch.cuda.empty_cache()


def history(dice: random.Random) -> None:
    torch.cuda.memory._record_memory_history(max_entries=dice.choice([1, 10, 1000]))
    try:
        threads(dice)
        torch.cuda.memory._snapshot()
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)


def pools(dice: random.Random) -> None:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.ones(1 << 16, device="cuda")
    assert x.sum().item() == 1 << 16


def graphs(dice: random.Random) -> None:
    """While another thread waits for the device a capture fails, and a program that catches that goes on."""
    x, graph = torch.zeros(4, device="cuda"), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    try:
        with torch.cuda.graph(graph):
            y = x + 1
    except RuntimeError as error:
        assert "graph capture" in str(error)
        y = x + 1
    else:
        x.fill_(dice.randrange(9))
        graph.replay()
    assert torch.equal(y, x + 1)


def errors(dice: random.Random) -> None:
    """A program's own exception, through frames that hold tensors."""
    with contextlib.suppress(ZeroDivisionError):
        x = torch.ones(1000, device="cuda")
        x / (1 // 0)


_EVERYWHERE: tuple[Action, ...] = (
    train,
    threads,
    forks,
    workers,
    loading,
    out_of_memory,
    streams,
    figures,
    errors,
    graphs,
)
ACTIONS: dict[str, tuple[Action, ...]] = {
    "cpu": _EVERYWHERE,
    "mps": _EVERYWHERE,
    "virtual": (*_EVERYWHERE, history, pools),
}


# ------------------------------------------------------------------------------ planted leaks
_kept: list[object] = []


def _leak_thread() -> None:
    threading.Thread(target=threading.Event().wait, daemon=True).start()


def _leak_child() -> None:
    child = os.fork()
    if not child:
        signal.pause()
    _kept.append(child)


#: What the soak has to find, by the name under which it is planted: one in each round.
PLANTS: dict[str, Callable[[], object]] = {
    "thread": _leak_thread,
    "descriptor": lambda: _kept.append(os.open(os.devnull, os.O_RDONLY)),
    "memory": lambda: _kept.append(bytearray(os.urandom(4 << 20))),
    "device memory": lambda: _kept.append(torch.ones(1 << 14, device="cuda")),
    "child": _leak_child,
    "file": lambda: open(
        os.path.join(os.environ["TMPDIR"], f"left-{len(os.listdir(os.environ['TMPDIR']))}"), "w"
    ).close(),
    "hang": lambda: threading.Event().wait(),
}


def settle() -> None:
    """Give back what only waits to be given back."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).malloc_trim(0)
