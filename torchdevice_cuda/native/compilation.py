"""Compile the sources of parts and link them into libraries."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TextIO

from . import op_table, parts, sealing, toolchain
from .parts import Unit
from .processes import Compilers
from .progress import Progress
from .toolchain import SOURCES, BuildError, Torch

_PACKAGE = SOURCES.parents[1]
_SUFFIXES = (".cpp", ".h", ".jinja", ".toml")
#: Generators of C++ code.
_WRITERS = ("op_table.py", "contract_tables.py")
#: The compiler's output, kept beside the library.
LOG = "build.log"
#: The prefix of a build's working folder. One without a running build belongs to a build that died.
SCRATCH = ".build-"
_LOOK_S = 0.5
#: Stored beside a library: its build time relative to the expected time.
_PACE = "pace"
#: The most memory that a compiler needs.
_JOB_BYTES = 2 << 30
#: PyTorch's headers, precompiled for at least this many units with equal flags: that takes as long as parsing the
#: headers three times.
_HEADERS = "headers"
_COMMON = SOURCES / "common.h"
_SHARED_BY = 6
_HEADERS_S = 17.0


def sources() -> list[tuple[str, str]]:
    """Return every file of a library: its path in the package, and its full path. Called at every start."""
    roots = (SOURCES, _PACKAGE / "contract")
    found = [os.path.join(folder, name) for root in roots for folder, _, names in os.walk(root) for name in names]
    ours = [path for path in found if path.endswith(_SUFFIXES)]
    ours += [str(_PACKAGE / "native" / name) for name in _WRITERS]
    start = len(str(_PACKAGE)) + 1
    return sorted((path[start:].replace(os.sep, "/"), path) for path in ours)


def compile_parts(
    kind: str,
    wanted: Sequence[str],
    torch: Torch,
    cxx: str,
    paths: Mapping[str, Path],
    say: Callable[[str], None],
    terminal: TextIO | None,
) -> None:
    """Create the libraries of these parts at `paths`; each appears there whole or not at all.

    A part is linked with the core, which is at its path unless it is built, too. The compiler's output is stored in
    either case.
    """
    started = time.monotonic()
    units = {name: unit for part in wanted for name, unit in parts.parts_of(kind)[part].units.items()}
    folder = paths[wanted[0]].parent
    jobs = _count_jobs(len(units))
    weights = {name: unit.seconds for name, unit in units.items()}
    if _sharing(units):
        weights[_HEADERS] = _HEADERS_S
    progress = Progress(weights, jobs, _pace(folder.parent), say, terminal)
    count = f"{len(weights)} units, {jobs} at a time" if len(weights) > 1 else "1 unit"
    left = progress.estimate.left()
    say(f"building the native {_what(kind, wanted)} for torch {torch.version}: {count}, about {left:.0f} s, once")
    compilers = Compilers()
    with tempfile.TemporaryDirectory(dir=folder, prefix=SCRATCH, ignore_cleanup_errors=True) as name:
        scratch, log = Path(name), folder / _name_log(wanted)
        try:
            objects = _compile_units(kind, units, jobs, torch, cxx, scratch, compilers, progress)
            made = _link(kind, wanted, torch, cxx, scratch, objects, paths, compilers)
        except BuildError as error:
            raise BuildError(f"{error}{_keep(compilers, scratch, log)}") from error
        finally:
            compilers.stop()
            progress.clear()
        _keep(compilers, scratch, log)
        for part, library in made.items():
            sealing.seal_library(library, paths[part])
        sealing.write_note(folder / _PACE, f"{progress.estimate.pace():.3f}")
    say(f"built in {time.monotonic() - started:.0f} s: {paths[wanted[0]] if len(wanted) == 1 else folder}")


def _name_log(wanted: Sequence[str]) -> str:
    """Name the log: a part that is built later has its own."""
    return LOG if parts.CORE in wanted else f"build-{wanted[0]}.log"


def _count_jobs(units: int) -> int:
    """Return the number of parallel compilers: that of cores, as far as memory allows, or ``MAX_JOBS``."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(ImportError, OSError):
        import psutil

        cores = min(cores, psutil.virtual_memory().available // _JOB_BYTES)
    named = os.environ.get("MAX_JOBS", "")
    if named.isdecimal():
        cores = min(cores, int(named))
    return max(1, min(units, cores))


def _pace(cache: Path) -> float:
    """Return how much longer the last build took here than the units' measured times; 1 if unknown."""
    try:
        notes = sorted(cache.glob(f"*/{_PACE}"), key=lambda path: path.stat().st_mtime)
        found = float(sealing.read_note(notes[-1]))
    except (OSError, ValueError, IndexError):
        return 1.0
    return found if 0.02 < found < 50 else 1.0


def _compile_units(
    kind: str,
    units: Mapping[str, Unit],
    jobs: int,
    torch: Torch,
    cxx: str,
    scratch: Path,
    compilers: Compilers,
    progress: Progress,
) -> dict[str, Path]:
    """Compile units into object files, `jobs` at a time, the longest first."""
    flags = [*toolchain.compile_flags(kind, torch), *toolchain.compile_paths(torch, scratch), *toolchain.tune(cxx)]
    # Import this here: the program may be in the middle of ``import torch``, and a thread that imports something would
    # wait forever for that to end.
    from . import contract_tables

    contract_tables.write_tables(scratch)
    for name, unit in units.items():
        (scratch / f"{name}.cpp").write_text(write_unit(kind, unit), encoding="utf-8")

    sharing = _sharing(units)
    headers = scratch / _COMMON.name

    def compile_one(name: str, words: list[str], out: Path) -> Path:
        progress.estimate.began(name)
        compilers.run([cxx, *flags, *words, "-o", str(out)], f"compiling {name}", out)
        return out

    def start(name: str) -> Future[Path]:
        if name == _HEADERS:
            words = [*_told(units[sharing[0]]), "-x", "c++-header", str(headers)]
            return pool.submit(compile_one, name, words, headers.with_suffix(".h.gch"))
        # A compiler that cannot use the precompiled header reads the header itself.
        included = ["-include", str(headers)] if name in sharing else []
        source = scratch / f"{name}.cpp"
        words = [*_told(units[name]), *included, "-c", str(source)]
        return pool.submit(compile_one, name, words, source.with_suffix(".o"))

    objects: dict[str, Path] = {}
    waiting = sorted(units, key=lambda name: -units[name].seconds)
    if sharing:
        shutil.copy(_COMMON, headers)
        waiting = [_HEADERS, *(name for name in waiting if name not in sharing)]
    # In this order: leaving the pool waits for its threads, which wait for the compilers.
    with ThreadPoolExecutor(jobs) as pool, compilers.ended_by_errors():
        pending = {start(name): name for name in waiting}
        while pending:
            # With a timeout: Python does not notice a signal that arrives as it begins to wait for a lock.
            for future in wait(pending, timeout=_LOOK_S, return_when=FIRST_COMPLETED).done:
                name = pending.pop(future)
                made = future.result()
                progress.ended(name)
                if name == _HEADERS:
                    pending |= {start(name): name for name in sharing}
                else:
                    objects[name] = made
            progress.look()
    return objects


def _told(unit: Unit) -> list[str]:
    """Return a unit's flags: precompiled headers serve units with equal flags."""
    return [unit.level, *unit.flags]


def _sharing(units: Mapping[str, Unit]) -> list[str]:
    """Return the units that share precompiled headers, the longest first; none if that would not save time."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in sorted(units, key=lambda name: -units[name].seconds):
        if units[name].folders != (op_table.TEMPLATE,):
            alike.setdefault(tuple(_told(units[name])), []).append(name)
    most = max(alike.values(), key=len)
    return most if len(most) >= _SHARED_BY else []


def _link(
    kind: str,
    wanted: Sequence[str],
    torch: Torch,
    cxx: str,
    scratch: Path,
    objects: Mapping[str, Path],
    paths: Mapping[str, Path],
    compilers: Compilers,
) -> dict[str, Path]:
    """Link each part into a library in `scratch`, the core first."""
    made: dict[str, Path] = {}
    searched = toolchain.link_paths(torch, cxx)
    for part in sorted(wanted, key=lambda part: part != parts.CORE):
        library = scratch / f"{part}.so"
        words = [str(objects[name]) for name in sorted(parts.parts_of(kind)[part].units)]
        if part != parts.CORE:
            words.append(str(made.get(parts.CORE, paths[parts.CORE])))
        words += ["-o", str(library), *searched]
        words += toolchain.link_flags(parts.name_library(kind, part), scratch, with_torch=kind != parts.CALLS)
        compilers.run([cxx, *words], "linking" if part == parts.CORE else f"linking {part}", library)
        made[part] = library
    return made


def _what(kind: str, wanted: Sequence[str]) -> str:
    if kind == parts.CALLS:
        return "calls"
    if parts.CORE in wanted:
        return f"device ({kind})"
    return f"device's {'part' if len(wanted) == 1 else 'parts'} {', '.join(wanted)}"


def _keep(compilers: Compilers, scratch: Path, log: Path) -> str:
    """Move the log beside the library; return its location, for an error message."""
    try:
        written = scratch / LOG
        written.write_text(compilers.log(), encoding="utf-8", errors="backslashreplace")
        os.replace(written, log)
    except OSError:  # a full disk: the log matters least
        return ""
    return f". All that the compiler said is in {log}"


def write_unit(kind: str, unit: Unit, yaml: Path | None = None) -> str:
    """Write one C++ file with all of a unit; operators are those of the installed torch, or of another's file."""
    sources = parts.list_sources(kind, unit)
    if sources == [op_table.TEMPLATE]:
        return op_table.cpp(yaml or op_table.yaml_path(), SOURCES / op_table.TEMPLATE)
    return "".join(f'#include "{path}"\n' for path in sources)
