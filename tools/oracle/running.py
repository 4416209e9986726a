"""Runs probes: those of an area in one process, in the order of the file; each that is to be alone in its own."""

from __future__ import annotations

import gc
import json
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import torch
from probing import PROBES, Probe, answer

HERE = Path(__file__).resolve().parent
LOST = "ProcessDied"
#: What takes long to import and does not touch the device: forks of a process that has it need not.
HEAVY = {
    "compiling": ("torch._dynamo", "torch._functorch.aot_autograd", "torch.export"),
    "sharding": ("torch.distributed.fsdp", "torch.distributed.tensor", "torch.distributed.checkpoint"),
}


def load() -> dict[str, Probe]:
    """Imports every file of probes."""
    for module in pkgutil.iter_modules([str(HERE / "probes")]):
        import_module(f"probes.{module.name}")
    return PROBES


def chosen(only: list[str]) -> list[str]:
    """The probes that are asked for: all, areas, or some by name."""
    known = load()
    names = [name for name in known if not only or name in only or name.partition(".")[0] in only]
    unknown = [word for word in only if not any(word in (name, name.partition(".")[0]) for name in known)]
    if unknown:
        raise SystemExit(f"no such probe or area: {', '.join(unknown)}")
    return names


def reset() -> None:
    """Puts back what a probe may have left behind; it may be the device that is broken."""
    torch.set_default_device(None)
    steps: Iterable[Callable[[], Any]] = (
        lambda: torch.distributed.destroy_process_group() if torch.distributed.is_initialized() else None,
        gc.collect,
        lambda: torch.set_default_dtype(torch.float32),
        lambda: torch.set_grad_enabled(True),
        lambda: torch.set_autocast_enabled("cuda", False),
        lambda: torch.set_autocast_dtype("cuda", torch.float16),
        torch.clear_autocast_cache,
        lambda: torch.use_deterministic_algorithms(False),
        lambda: torch.set_float32_matmul_precision("highest"),
        lambda: torch.cuda.set_sync_debug_mode(0),
        lambda: torch.cuda.set_device(0),
        lambda: torch.cuda.set_stream(torch.cuda.default_stream()),
        lambda: torch.cuda.set_per_process_memory_fraction(1.0),
        torch.cuda.synchronize,
        torch.cuda.empty_cache,
        lambda: torch.manual_seed(20240229),
    )
    for step in steps:
        try:
            step()
        except Exception as error:
            print(f"not put back: {error}", file=sys.stderr)


def ask(names: list[str], path: Path) -> None:
    """Asks one probe after another in this process, and writes each answer down when it is known."""
    with path.open("w") as file:
        for name in names:
            if not PROBES[name].alone:
                reset()
            start = time.perf_counter()
            found = answer(PROBES[name])
            file.write(json.dumps([name, found, round(time.perf_counter() - start, 2)]) + "\n")
            file.flush()


class Process(Protocol):
    """What asks a unit of probes."""

    def poll(self) -> int | None:
        """The exit status, once there is one."""

    def kill(self) -> None:
        """Ends it."""


class Fork:
    """A child of a process that has imported torch, and not used the device."""

    def __init__(self, names: list[str], path: Path) -> None:
        self.pid = os.fork()
        if not self.pid:
            status = 1
            try:
                ask(names, path)
                status = 0
            finally:
                os._exit(status)

    def poll(self) -> int | None:
        ended, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if ended else None

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def spawn(launcher: list[str]) -> Callable[[list[str], Path], Process]:
    """Starts processes that import torch themselves: where a fork may not use the device."""
    environment = {**os.environ, "ORACLE_LAUNCHER": " ".join(launcher)}

    def start(names: list[str], path: Path) -> Process:
        command = [sys.executable, *launcher, str(HERE / "__main__.py"), "ask", "--answers", str(path)]
        return subprocess.Popen([*command, "--names", ",".join(names)], env=environment, stdout=subprocess.DEVNULL)

    return start


def preload(names: list[str]) -> None:
    """Imports what forks for these probes need."""
    for area in sorted({name.partition(".")[0] for name in names} & HEAVY.keys()):
        for module in HEAVY[area]:
            import_module(module)
    gc.collect()
    gc.freeze()  # what the imports made need not be looked through before every probe


def units(names: list[str]) -> list[list[str]]:
    """What shares a process. Areas come first: they take longest."""
    areas: dict[str, list[str]] = {}
    for name in names:
        if not PROBES[name].alone:
            areas.setdefault(name.partition(".")[0], []).append(name)
    return [*areas.values(), *([name] for name in names if PROBES[name].alone)]


def read_answers(path: Path) -> dict[str, Any]:
    """The answers of a file that another process has written or is writing."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {row[0]: row[1:] for row in map(json.loads, filter(lambda line: line.endswith("]"), lines))}


def all_answers(
    names: list[str], start: Callable[[list[str], Path], Process], *, jobs: int = 1, patience: float = 300.0
) -> Iterator[tuple[str, Any, float]]:
    """Every probe's answer and its seconds. One that ends its process, or that takes longer than ``patience``
    seconds, is said to have; the others of the unit go on in another."""
    waiting = units(names)
    quiet = [unit for unit in waiting if any(PROBES[name].quiet for name in unit)]
    waiting = [unit for unit in waiting if unit not in quiet]
    busy: list[tuple[list[str], Path, Process, float, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        number = 0
        while waiting or busy or quiet:
            if not waiting and not busy:
                waiting, quiet, jobs = quiet, [], 1
            while waiting and len(busy) < jobs:
                number += 1
                path = Path(folder) / str(number)
                unit = waiting.pop(0)
                busy.append((unit, path, start(unit, path), time.monotonic(), 0))
            time.sleep(0.02)
            still = []
            for unit, path, process, since, told in busy:
                status = process.poll()
                answers = read_answers(path)
                if len(answers) > told:
                    since, told = time.monotonic(), len(answers)
                if status is None and time.monotonic() - since < patience:
                    still.append((unit, path, process, since, told))
                    continue
                if status is None:
                    process.kill()
                yield from ((name, *row) for name, row in answers.items())
                rest = [name for name in unit if name not in answers]
                if rest:
                    yield rest[0], [LOST, "it took too long" if status is None else f"status {status}"], 0.0
                if rest[1:]:
                    waiting.insert(0, rest[1:])
            busy = still
