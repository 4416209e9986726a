"""Compiles the sources and links them into a library."""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from . import op_table, toolchain
from .toolchain import SOURCES, Torch

_PACKAGE = SOURCES.parent
_SUFFIXES = (".cpp", ".h", ".jinja")
#: What the compiler said, kept beside the library.
LOG = "build.log"
# The last bytes of a complete library, after which nothing may follow: a short write cannot carry them.
_SEAL = b"\ntorchdevice-native:"


class Unit(NamedTuple):
    """Sources that are compiled as one, and how much they are optimised."""

    level: str
    parts: tuple[str, ...]


# Operators that only one kind of device has.
_ONLY = {
    "cuda": (
        "operators/cuda_attention.cpp",
        "operators/cuda_recurrent.cpp",
        "operators/cuda_batch_norm.cpp",
        "operators/cuda_small.cpp",
        "operators/cuda_products.cpp",
        "operators/cuda_cudnn.cpp",
    ),
    "mps": ("operators/mps_composites.cpp",),
}


def layout(kind: str) -> dict[str, Unit]:
    """What is compiled together.

    PyTorch's headers cost more than these files, so few units read them. The slowest first, so that two cores finish
    together. What runs on every operator call is optimised more, and what calls each other there is in one unit.
    """
    return {
        "operators": Unit(
            "-O2",
            (
                "operators/facts.cpp",
                "operators/device_check.cpp",
                "operators/boxed.cpp",
                "operators/registration.cpp",
                "operators/alias.cpp",
                "operators/fft.cpp",
                "bindings/bridge.cpp",
                "runtime/fft_plans.cpp",
                "runtime/generator.cpp",
            ),
        ),
        "kernels": Unit("-O2", ("operators/kernels.cpp", "operators/direct.cpp")),
        "composites": Unit(
            "-O1", ("operators/composites.cpp", "operators/attention.cpp", *_ONLY[kind], "runtime/exit.cpp")
        ),
        "module": Unit(
            "-O1", ("bindings/module.cpp", "bindings/memory.cpp", "bindings/streams.cpp", "runtime/hooks.cpp")
        ),
        "memory": Unit(
            "-O2",
            (
                "runtime/history.cpp",
                "runtime/limits.cpp",
                "runtime/segments.cpp",
                "runtime/device_memory.cpp",
                "runtime/device_books.cpp",
                "runtime/pinned.cpp",
                "runtime/allocator.cpp",
                "runtime/streams.cpp",
                "runtime/guard.cpp",
                "runtime/device.cpp",
            ),
        ),
        "op_table": Unit("-O1", (op_table.TEMPLATE,)),
    }


def sources() -> list[tuple[str, str]]:
    """Every file that a library is made of: its path in the package, and where it is. Asked for at every start."""
    found = [os.path.join(folder, name) for folder, _, names in os.walk(SOURCES) for name in names]
    ours = [path for path in found if path.endswith(_SUFFIXES)] + [str(_PACKAGE / "op_table.py")]
    start = len(str(_PACKAGE)) + 1
    return sorted((path[start:].replace(os.sep, "/"), path) for path in ours)


def compile_library(kind: str, torch: Torch, cxx: str, target: Path, say: Callable[[str], None]) -> None:
    """Makes the library `target`; it appears there whole or not at all."""
    started = time.monotonic()
    units = layout(kind)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    jobs = max(1, min(len(units), cores))
    say(f"building the native device ({kind}) for torch {torch.version}: {len(units)} units, {jobs} at a time")
    log: list[str] = []
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as scratch_name:
        scratch = Path(scratch_name)
        flags = [*toolchain.compile_flags(kind, torch), *toolchain.compile_paths(torch, scratch)]

        def run(command: list[str], what: str) -> None:
            log.append(f"$ {shlex.join(command)}\n{toolchain.run(command, what).stderr}")

        # Written here: the program may be in the middle of ``import torch``, and a thread that imports something would
        # wait for that to end, for ever.
        for name, unit in units.items():
            (scratch / f"{name}.cpp").write_text(_text(unit), encoding="utf-8")

        def one(name: str, unit: Unit) -> Path:
            source = scratch / f"{name}.cpp"
            out = source.with_suffix(".o")
            run([cxx, *flags, unit.level, "-c", str(source), "-o", str(out)], f"compiling {name}")
            return out

        objects = []
        with ThreadPoolExecutor(jobs) as pool:
            pending = {pool.submit(one, name, unit): name for name, unit in units.items()}
            try:
                for number, future in enumerate(as_completed(pending), 1):
                    objects.append(future.result())
                    spent = time.monotonic() - started
                    say(f"  [{number}/{len(pending)}] {pending[future]} ({spent:.0f} s)")
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        made = scratch / target.name
        linked = [*map(str, sorted(objects)), "-o", str(made), *toolchain.link_paths(torch, cxx)]
        run([cxx, *linked, *toolchain.link_flags()], "linking")
        _seal(made)
        target.with_name(LOG).write_text("".join(log), encoding="utf-8")
        os.replace(made, target)
    say(f"built in {time.monotonic() - started:.0f} s: {target}")


def _text(unit: Unit) -> str:
    """One C++ file that is all of the unit's."""
    if unit.parts == (op_table.TEMPLATE,):
        return op_table.cpp(op_table.yaml_path(), SOURCES / op_table.TEMPLATE)
    return "".join(f'#include "{part}"\n' for part in unit.parts)


def _seal(path: Path) -> None:
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(_SEAL + b"%020d" % size)
        file.flush()
        os.fsync(file.fileno())
    path.chmod(0o755)


def is_sealed(path: Path) -> bool:
    """Is the library complete?"""
    size = path.stat().st_size
    seal = _SEAL + b"%020d" % (size - len(_SEAL) - 20)
    with path.open("rb") as file:
        file.seek(max(0, size - len(seal)))
        return file.read() == seal
