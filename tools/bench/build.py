"""Measure a build of the native device, beside one compilation of ``#include <torch/extension.h>``.

    python tools/bench/build.py [--json] [--jobs 2] [--only core]

Both are built in one run, into a cache of their own: the core as a first run builds it, and every part together as
``--build`` does. Processor time counts: a ratio of it does not depend on the machine. The wall time is for so many
compilers at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from torchdevice_cuda.native import build, parts, processes, toolchain

_YARDSTICK = "#include <torch/extension.h>"


def measure(work: Callable[[], object]) -> tuple[float, float]:
    """Return the processor time of child processes and the wall time of some work, in seconds."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, time.perf_counter() - started


def compile_yardstick(folder: Path) -> None:
    """Compile a file that includes all of torch's headers, as an extension of a user's does."""
    torch, source, made = toolchain.installed_torch(), folder / "yardstick.cpp", folder / "yardstick.o"
    source.write_text(_YARDSTICK + "\n")
    flags = [*toolchain.compile_flags("cuda", torch), *toolchain.compile_paths(torch, folder)]
    command = [toolchain.compiler(), *flags, "-O0", "-c", str(source), "-o", str(made)]
    processes.Compilers().run(command, "compiling", made)


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--jobs", type=int, default=2, help="compilers at a time")
    parser.add_argument("--only", choices=("core",), help="leave the other parts out")
    options = parser.parse_args()
    os.environ["MAX_JOBS"] = str(options.jobs)
    with tempfile.TemporaryDirectory() as name:
        os.environ["TORCHDEVICE_CACHE_DIR"] = name

        def build_parts(wanted: list[str] | None) -> tuple[float, float]:
            return measure(lambda: build.libraries("cuda", wanted, force=True, say=lambda line: None))

        yardstick, _ = measure(lambda: compile_yardstick(Path(name)))
        found = {"core": build_parts([parts.CORE])}
        if options.only is None:
            found["everything"] = build_parts(None)
    rows = [
        {"what": what, "cpu_s": round(spent, 1), "wall_s": round(wall, 1), "ratio": round(spent / yardstick, 2)}
        for what, (spent, wall) in found.items()
    ]
    if options.json:
        print(json.dumps(rows))
        return
    print(f"{_YARDSTICK}: {yardstick:.1f} s of processor time; {options.jobs} compilers at a time")
    for row in rows:
        print(f"{row['what']:12} {row['cpu_s']:6} s of processor time, {row['ratio']:5} of those, {row['wall_s']:6} s")


if __name__ == "__main__":
    main()
