"""Compiles the sources and links them into a library."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple, TextIO

from . import op_table, sealing, toolchain
from .processes import Compilers
from .progress import Progress
from .toolchain import SOURCES, BuildError, Torch

_PACKAGE = SOURCES.parent
_SUFFIXES = (".cpp", ".h", ".jinja")
#: What the compiler said, kept beside the library.
LOG = "build.log"
#: How the folder begins in which a build works. One that is there while nobody builds is left from a build that died.
SCRATCH = ".build-"
_LOOK_S = 0.5
#: Beside a library: how much longer it took than was to be expected.
_PACE = "pace"


#: What is no device: a library of a few functions, which needs nothing of torch's.
CALLS = "calls"


class Unit(NamedTuple):
    """Sources that are compiled as one, how much they are optimised, and what else the compiler is told about them."""

    level: str
    parts: tuple[str, ...]
    flags: tuple[str, ...] = ()


# What only one kind of device has.
_ONLY = {
    "cuda": (
        "operators/attention_choice.cpp",
        "operators/cuda_attention.cpp",
        "operators/cuda_recurrent.cpp",
        "operators/cuda_batch_norm.cpp",
        "operators/cuda_linalg.cpp",
        "operators/cuda_small.cpp",
        "operators/cuda_sparse.cpp",
        "operators/cuda_nested.cpp",
        "operators/cuda_products.cpp",
        "operators/cuda_scaled.cpp",
        "operators/cuda_cudnn.cpp",
        "operators/cuda_embedding_bag.cpp",
        "operators/random_operators.cpp",
        "operators/random_samples.cpp",
        "operators/random_counts.cpp",
        "operators/random_rrelu.cpp",
    ),
    "mps": ("operators/attention.cpp", "operators/mps_composites.cpp", "runtime/mps_events.cpp"),
}
_ONLY_KERNELS = {"cuda": ("operators/cuda_ties.cpp",), "mps": ()}
# Loops over random numbers are vectorised: nothing looks at errno or at traps, and numbers do not depend on whether the
# processor has instructions that multiply and add.
_LOOPS = ("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off")
# Graphs: what runs on every replay is with what it calls.
_GRAPHS: dict[str, tuple[str, ...]] = {
    "cuda": ("graphs/journal.cpp", "graphs/node.cpp", "graphs/graph.cpp"),
    "mps": (),
}
_BINDINGS: dict[str, tuple[str, ...]] = {
    "cuda": (
        "bindings/graphs.cpp",
        "bindings/kernels.cpp",
        "bindings/attention.cpp",
        "bindings/profiling.cpp",
        "bindings/counting.cpp",
        "bindings/waiting.cpp",
        "bindings/carried_work.cpp",
        "bindings/collectives.cpp",
        "bindings/agreement.cpp",
        "bindings/remote.cpp",
    ),
    "mps": (),
}
_ALONE: dict[str, dict[str, Unit]] = {
    "cuda": {
        # Kineto's headers go with no others.
        "profiling": Unit("-O1", ("profiling/kineto.cpp", "profiling/events.cpp")),
        "random": Unit(
            "-O3",
            (
                "operators/random_lanes.cpp",
                "operators/random_launch.cpp",
                "operators/random_draws.cpp",
                "operators/random_dropout.cpp",
            ),
            _LOOPS,
        ),
        "lstm": Unit("-O1", ("operators/cuda_lstm.cpp", "operators/cuda_rnn_weights.cpp")),
        "quantized": Unit("-O2", ("operators/cuda_quantizing.cpp", "operators/cuda_quantized.cpp")),
    },
    "mps": {},
}


# What a unit takes, in seconds of one core of 2.5 GHz: estimates are made of it, and what takes longest begins first.
_WEIGHTS: dict[str, dict[str, float]] = {
    "cuda": {
        "module": 60,
        "composites": 49,
        "kernels": 40,
        "operators": 34,
        "random": 19,
        "memory": 19,
        "lstm": 15,
        "quantized": 15,
        "profiling": 10,
        "op_table": 1,
    },
    "mps": {"module": 42, "operators": 21, "memory": 21, "composites": 16, "kernels": 16, "op_table": 1},
    CALLS: {"calls": 5},
}
# Of one that nobody has measured.
_WEIGHT_S = 20.0


def layout(kind: str) -> dict[str, Unit]:
    """What is compiled together.

    PyTorch's headers cost more than these files, so few units read them. What runs on every operator call is optimised
    more, and what calls each other there is in one unit.
    """
    if kind == CALLS:
        return {"calls": Unit("-O2", ("calls/rescue.cpp", "calls/module.cpp"))}
    return {
        "operators": Unit(
            "-O2",
            (
                "operators/widening.cpp",
                "operators/number_sums.cpp",
                "operators/dtypes.cpp",
                "operators/mixed_types.cpp",
                "operators/kernel_names.cpp",
                "operators/alerts.cpp",
                "operators/launches.cpp",
                "operators/shapes.cpp",
                "operators/assertions.cpp",
                "operators/facts.cpp",
                "operators/device_check.cpp",
                "operators/boxed.cpp",
                "operators/registration.cpp",
                "operators/alias.cpp",
                "operators/fft.cpp",
                "bindings/bridge.cpp",
                "runtime/fft_plans.cpp",
                "runtime/generator.cpp",
                *_GRAPHS[kind],
            ),
        ),
        "kernels": Unit(
            "-O2",
            ("operators/kernels.cpp", "operators/conversions.cpp", "operators/direct.cpp", *_ONLY_KERNELS[kind]),
        ),
        "composites": Unit(
            "-O1",
            (
                "operators/composites.cpp",
                "operators/storages.cpp",
                *_ONLY[kind],
                "runtime/exit.cpp",
                "runtime/unwinding.cpp",
            ),
        ),
        **_ALONE[kind],
        "module": Unit(
            "-O1",
            (
                "bindings/module.cpp",
                "bindings/memory.cpp",
                "bindings/history.cpp",
                "calls/rescue.cpp",
                "bindings/streams.cpp",
                "bindings/ipc.cpp",
                *_BINDINGS[kind],
                "runtime/hooks.cpp",
                "runtime/ddp_timer.cpp",
                "runtime/libraries.cpp",
            ),
        ),
        "memory": Unit(
            "-O2",
            (
                "runtime/history.cpp",
                "runtime/limits.cpp",
                "runtime/segments.cpp",
                "runtime/host.cpp",
                "runtime/device_memory.cpp",
                "runtime/reclaiming.cpp",
                "runtime/expandable.cpp",
                "runtime/device_books.cpp",
                "runtime/checkpoints.cpp",
                "runtime/pinned.cpp",
                "runtime/published.cpp",
                "runtime/allocator.cpp",
                "runtime/streams.cpp",
                "runtime/captures.cpp",
                "runtime/tape.cpp",
                "runtime/activities.cpp",
                "runtime/ledger.cpp",
                "runtime/guard.cpp",
                "runtime/device.cpp",
                "runtime/failure.cpp",
                "runtime/shared_memory.cpp",
                "runtime/shared_segments.cpp",
                "runtime/ipc.cpp",
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


def compile_library(
    kind: str, torch: Torch, cxx: str, target: Path, say: Callable[[str], None], terminal: TextIO | None
) -> None:
    """Makes the library `target`; it appears there whole or not at all. What the compiler said is kept either way."""
    started = time.monotonic()
    units, jobs = layout(kind), _jobs(kind)
    weights = {name: _WEIGHTS[kind].get(name, _WEIGHT_S) for name in units}
    progress = Progress(weights, jobs, _pace(target.parent.parent), say, terminal)
    count = f"{len(units)} units, {jobs} at a time" if len(units) > 1 else "1 unit"
    left = progress.estimate.left()
    say(f"building the native {_what(kind)} for torch {torch.version}: {count}, about {left:.0f} s, once")
    compilers = Compilers()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=SCRATCH, ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        try:
            made = _make(kind, torch, cxx, scratch, compilers, progress)
        except BuildError as error:
            raise BuildError(f"{error}{_keep(compilers, scratch, target)}") from error
        finally:
            compilers.stop()
            progress.clear()
        _keep(compilers, scratch, target)
        sealing.seal_library(made, target)
        sealing.write_note(target.with_name(_PACE), f"{progress.estimate.pace():.3f}")
    say(f"built in {time.monotonic() - started:.0f} s: {target}")


def _jobs(kind: str) -> int:
    """How many compilers run at a time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(len(layout(kind)), cores))


def _pace(cache: Path) -> float:
    """How much longer compiling took here the last time than where units were weighed; 1 where nothing is known."""
    try:
        notes = sorted(cache.glob(f"*/{_PACE}"), key=lambda path: path.stat().st_mtime)
        found = float(sealing.read_note(notes[-1]))
    except (OSError, ValueError, IndexError):
        return 1.0
    return found if 0.02 < found < 50 else 1.0


def _make(kind: str, torch: Torch, cxx: str, scratch: Path, compilers: Compilers, progress: Progress) -> Path:
    """The library, in `scratch`."""
    units = layout(kind)
    flags = [*toolchain.compile_flags(kind, torch), *toolchain.compile_paths(torch, scratch)]
    # Written here: the program may be in the middle of ``import torch``, and a thread that imports something would
    # wait for that to end, for ever.
    for name, unit in units.items():
        (scratch / f"{name}.cpp").write_text(_text(unit), encoding="utf-8")

    def one(name: str, unit: Unit) -> Path:
        progress.estimate.began(name)
        source = scratch / f"{name}.cpp"
        out = source.with_suffix(".o")
        compilers.run(
            [cxx, *flags, unit.level, *unit.flags, "-c", str(source), "-o", str(out)], f"compiling {name}", out
        )
        return out

    objects: list[Path] = []
    # In this order: leaving the pool waits for its threads, which wait for the compilers.
    with ThreadPoolExecutor(_jobs(kind)) as pool, compilers.ended_by_errors():
        first = sorted(units, key=lambda name: -_WEIGHTS[kind].get(name, _WEIGHT_S))
        pending = {pool.submit(one, name, units[name]): name for name in first}
        while len(objects) < len(units):
            # Not without end: Python does not see a signal that comes as it begins to wait for a lock.
            for future in wait(pending, timeout=_LOOK_S, return_when=FIRST_COMPLETED).done:
                name = pending.pop(future)
                objects.append(future.result())
                progress.ended(name)
            progress.look()
    made = scratch / "library.so"
    linked = [*map(str, sorted(objects)), "-o", str(made), *toolchain.link_paths(torch, cxx)]
    compilers.run([cxx, *linked, *toolchain.link_flags(kind != CALLS)], "linking", made)
    return made


def _what(kind: str) -> str:
    return "calls" if kind == CALLS else f"device ({kind})"


def _keep(compilers: Compilers, scratch: Path, target: Path) -> str:
    """Puts the log beside the library; where that is, for an error's last words."""
    log = target.with_name(LOG)
    try:
        written = scratch / LOG
        written.write_text(compilers.log(), encoding="utf-8", errors="backslashreplace")
        os.replace(written, log)
    except OSError:  # a full disk: the log is the least of what is missing
        return ""
    return f". All that the compiler said is in {log}"


def _text(unit: Unit) -> str:
    """One C++ file that is all of the unit's."""
    if unit.parts == (op_table.TEMPLATE,):
        return op_table.cpp(op_table.yaml_path(), SOURCES / op_table.TEMPLATE)
    return "".join(f'#include "{part}"\n' for part in unit.parts)
