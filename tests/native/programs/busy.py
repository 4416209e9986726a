"""Daemon threads at work on the device while the process ends: ``busy.py work ending``."""

import contextlib
import os
import signal
import sys
import threading
import time
from typing import Any

import torch

work, ending = sys.argv[1:3]


class Slowly(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        while work == "endless backward":
            pass
        if work == "sleeping backward":
            time.sleep(60)
        sum(range(10_000))
        return gradient


def backward() -> None:
    x = torch.ones(3, device="cuda", requires_grad=True)
    Slowly.apply(x).sum().backward()


def kernel() -> None:
    x = torch.ones(1500, 1500, device="cuda")
    _ = x @ x


def operators() -> None:
    x = torch.ones(20, 20, device="cuda")
    _ = x + x


def stream() -> None:
    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        torch.cuda._sleep(10**12)
    other.synchronize()


def out_of_memory() -> None:
    with contextlib.suppress(torch.OutOfMemoryError):
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")


WORK = {"kernel": kernel, "operators": operators, "stream": stream, "out of memory": out_of_memory}


def repeat() -> None:
    while True:
        WORK.get(work, backward)()


torch._C._cuda_attach_out_of_memory_observer(lambda *_: None)
if work == "history":
    torch.cuda.memory._record_memory_history(max_entries=100)
for _ in range(1 if work in ("endless backward", "sleeping backward", "stream") else 3):
    threading.Thread(target=repeat, daemon=True).start()
time.sleep(0.3)
print("ending", flush=True)
print(time.time(), file=sys.stderr, flush=True)
if ending == "exit":
    sys.exit(7)
if ending == "error":
    raise ValueError("the program's own")
if ending == "at once":
    os._exit(7)
if ending in ("SIGTERM", "SIGINT"):
    os.kill(os.getpid(), getattr(signal, ending))
    time.sleep(60)
