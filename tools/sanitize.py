"""Runs tests on the native device compiled with a sanitizer, and shows what it reports of our code.

    python tools/sanitize.py thread                          # tests/native and the fuzzer
    python tools/sanitize.py address tests/native/test_memory.py -k pools

Python, torch and OpenMP are not compiled so: what they do without calling the C library is not seen. A report counts
if one of the accesses that it is about (the first frame that is not the sanitizer's own) is in our library. Nothing of
ours is suppressed; what is, is in sanitize-thread.supp. Reports of others are counted, and shown with ``--all``.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
_BEGINS = re.compile(r"^(?:WARNING: ThreadSanitizer|==\d+==ERROR: \w+Sanitizer|\S+: runtime error:)", re.MULTILINE)
_FRAME = re.compile(r"^ +#(\d+) (.*)$", re.MULTILINE)
# By its sources: it is loaded as an open file, under a number.
_OURS = re.compile(r"_hostdevice_|csrc/")
# The sanitizer's stand-ins for functions of the C and C++ libraries: the access is their caller's.
_STAND_IN = re.compile(r"lib[at]san|libubsan|operator new|operator delete")


class Sanitizer(NamedTuple):
    """A sanitizer: compiler flags, preloaded libraries, and the options that its runtime reads."""

    flags: str
    libraries: tuple[str, ...]
    options: dict[str, str]


_SUPPRESSIONS = Path(__file__).with_name("sanitize-thread.supp")
# Tests ask for more memory than there is.
_COMMON = "allocator_may_return_null=1"
SANITIZERS = {
    "thread": Sanitizer(
        "-fsanitize=thread -g1",
        ("libtsan.so",),
        {"TSAN_OPTIONS": f"{_COMMON} history_size=4 exitcode=0 suppressions={_SUPPRESSIONS}"},
    ),
    # Python leaks memory of its own on purpose.
    "address": Sanitizer(
        "-fsanitize=address,undefined -fno-sanitize=vptr -g1",
        ("libasan.so", "libubsan.so"),
        {"ASAN_OPTIONS": f"{_COMMON} detect_leaks=0 exitcode=66", "UBSAN_OPTIONS": "print_stacktrace=1"},
    ),
}


def _runtime(name: str) -> str:
    compiler = os.environ.get("CXX", "g++")
    found = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def environment(sanitizer: Sanitizer, log: Path) -> dict[str, str]:
    """The environment of a process that loads the library compiled so; reports go to files that begin with ``log``."""
    options = {name: f"{value} log_path={log}" for name, value in sanitizer.options.items()}
    return {
        **os.environ,
        **options,
        "TORCHDEVICE_NATIVE_CXXFLAGS": sanitizer.flags,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "PYTHONMALLOC": "malloc",
    }


def reports(text: str) -> list[str]:
    """Return the reports in what a sanitizer wrote."""
    starts = [found.start() for found in _BEGINS.finditer(text)]
    return [text[start:end] for start, end in itertools.pairwise([*starts, len(text)])]


def is_ours(report: str) -> bool:
    """Is an access that the report is about in our library?"""
    if "runtime error:" in report.splitlines()[0]:
        return "csrc/" in report.splitlines()[0]
    for stack in report.split("\n\n")[:2]:
        frames = [frame for _, frame in _FRAME.findall(stack) if not _STAND_IN.search(frame)]
        if frames and _OURS.search(frames[0]):
            return True
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sanitizer", choices=sorted(SANITIZERS))
    parser.add_argument("--all", action="store_true", help="show reports of other libraries too")
    arguments, rest = parser.parse_known_args()
    sanitizer = SANITIZERS[arguments.sanitizer]
    with tempfile.TemporaryDirectory() as folder:
        given = environment(sanitizer, Path(folder, "report"))
        build = [sys.executable, "-m", "torchdevice_cuda", "--driver", "virtual", "--build"]
        subprocess.run(build, env=given, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        given["LD_PRELOAD"] = " ".join(map(_runtime, sanitizer.libraries))
        tests = rest or ["tests/native", "--deselect", "tests/native/test_build.py", "-m", "not mps and not slow"]
        status = subprocess.run([sys.executable, "-m", "pytest", "-n", "0", *tests], env=given, cwd=ROOT).returncode
        found = [
            report for path in sorted(Path(folder).iterdir()) for report in reports(path.read_text(errors="replace"))
        ]
    ours = [report for report in found if is_ours(report)]
    for report in found if arguments.all else ours:
        print(report)
    print(f"{len(ours)} reports of our code, {len(found) - len(ours)} of others; pytest ended with {status}")
    return 1 if ours or status else 0


if __name__ == "__main__":
    raise SystemExit(main())
