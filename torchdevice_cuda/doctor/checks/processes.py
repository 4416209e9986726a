"""Other processes: forked, spawned, and the workers of a DataLoader."""

from __future__ import annotations

import contextlib
import multiprocessing
import queue
import sys
import time
from multiprocessing.process import BaseProcess
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from ..asking import Finding, NotHereError, expect, main, question

_ANSWER_S = 50


def _compute(answers: Any) -> None:
    """In another process: send the CPU's and the device's results, or their errors."""
    found = []
    for place in ("cpu", "cuda"):
        try:
            found.append(str((torch.arange(4.0, device=place) + 1).sum().item()))
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    answers.put(found)


def _asked(method: str) -> list[str]:
    context: Any = multiprocessing.get_context(method)
    answers = context.Queue()
    child: BaseProcess = context.Process(target=_compute, args=(answers,), daemon=True)
    child.start()
    found: list[str] = []
    started = time.monotonic()
    while not found and time.monotonic() - started < _ANSWER_S:
        alive = child.is_alive()  # checked first: what it sent before it ended is in the queue then
        with contextlib.suppress(queue.Empty):
            found = answers.get(timeout=0.5)
        if not alive:
            break
    if found:
        child.join(5)
    ended = child.exitcode
    child.kill()
    how = f"gave no answer within {_ANSWER_S} s" if ended is None else f"ended with {ended}, without an answer"
    expect(found, f"a child by {method} {how}")
    return found


@question
def forked() -> Finding:
    if "fork" not in multiprocessing.get_all_start_methods():
        raise NotHereError("this system has no fork")
    torch.ones(1, device="cuda").sum().item()  # initialize the device before the fork
    on_cpu, on_gpu = _asked("fork")
    expect(on_cpu == "10.0", f"on the CPU of a forked child: {on_cpu}")
    refused = "Cannot re-initialize CUDA in forked subprocess"
    expect(refused in on_gpu, f"on CUDA of a forked child, which CUDA refuses: {on_gpu}")
    return None


@question
def spawned() -> Finding:
    found = _asked("spawn")
    expect(found == ["10.0", "10.0"], f"on the CPU and on CUDA of a spawned child: {found}")
    return None


def _loaded(method: str | None, workers: int) -> Finding:
    data = TensorDataset(torch.arange(64.0).reshape(16, 4), torch.arange(16))
    loader = DataLoader(
        data, batch_size=4, num_workers=workers, pin_memory=True, multiprocessing_context=method, timeout=_ANSWER_S
    )
    total, seen = torch.zeros((), device="cuda"), []
    for inputs, labels in loader:
        total += inputs.to("cuda", non_blocking=True).sum()
        seen += labels.tolist()
    expect(seen == list(range(16)), f"the labels are {seen}")
    expect(total.item() == 2016.0, f"the sum of the batches is {total.item()}, of 2016")
    return None


@question
def workers_as_they_come() -> Finding:
    return _loaded(None, 2)


@question
def workers_forked() -> Finding:
    if sys.platform != "darwin":
        raise NotHereError("which they are by default on this system, or not at all")
    return _loaded("fork", 1)


if __name__ == "__main__":
    main()
