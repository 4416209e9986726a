"""Measure builds of CUDA C++ sources, beside g++'s of the same text with empty kernels.

    python tools/bench/kernel_builds.py [--json] [--flag=-O3 ...] [--include FOLDER ...] a.cu b.cu ...

The sources are those of real packages (``python tools/packages --work FOLDER fused-ssim ...`` fetches some). Each is
built twice by the replacement for nvcc, into an empty cache: as it is, all of which counts, and with the bodies of its
``__global__`` functions emptied, of which only the compiler's own work on the translated text counts, at plain ``-O3``.
Processor time counts, and the most memory that one compiler had.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from torchdevice_cuda.cuda_cpp import nvcc, tokens

#: What torch's build functions and setup.py files of such packages pass.
_FLAGS = ("-O3", "--expt-relaxed-constexpr", "--use_fast_math", "-std=c++17", "-D_GLIBCXX_USE_CXX11_ABI=1")


def empty_kernels(text: str) -> tuple[str, int]:
    """Return CUDA C++ without the bodies of its ``__global__`` functions, and how many there were."""
    pieces = tokens.tokenize(text)
    emptied: list[tuple[int, int, str]] = []
    for at, piece in enumerate(pieces):
        if piece.text != "__global__":
            continue
        end = at
        while end < len(pieces) and pieces[end].text not in ("{", ";"):
            end = tokens.closing(pieces, end) + 1 if pieces[end].text == "(" else end + 1
        if end < len(pieces) and pieces[end].text == "{":
            emptied.append((end, tokens.closing(pieces, end) + 1, "{}"))
    made, _ = tokens.replace(pieces, emptied, [])
    return "".join(piece.text for piece in made), len(emptied)


def spend(who: int) -> float:
    """Return the processor time so far of this process or of its children."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def build_here(words: list[str]) -> None:
    """Build in this process, which was started for it; print what it took."""
    compiling = 0.0
    run = nvcc.run_compiler

    def run_compiler(words: list[str]) -> subprocess.CompletedProcess[str]:
        nonlocal compiling
        before = spend(resource.RUSAGE_CHILDREN)
        done = run(words)
        if "-c" in words:
            compiling = spend(resource.RUSAGE_CHILDREN) - before
        return done

    nvcc.run_compiler = run_compiler
    before = spend(resource.RUSAGE_SELF)
    status = nvcc.main(words)
    if status:
        sys.exit(status)
    whole = spend(resource.RUSAGE_SELF) - before + spend(resource.RUSAGE_CHILDREN)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(json.dumps({"whole_s": whole, "compiling_s": compiling, "memory": most}))


def build(source: Path, flags: list[str], level: str = "") -> dict[str, float]:
    """Build a source in a process of its own, with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TORCHDEVICE_CACHE_DIR": folder, "TORCHDEVICE_KERNEL_OPTIMIZATION": level}
        words = [*flags, "-c", str(source), "-o", f"{folder}/made.o"]
        command = [sys.executable, __file__, "--build-here", *words]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(f"{source}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(source: Path, flags: list[str]) -> dict[str, object]:
    """Return a row of the table."""
    text, kernels = empty_kernels(source.read_text(encoding="utf-8"))
    if not kernels:
        sys.exit(f"{source}: no __global__ function has its body in this file")
    emptied = source.with_name(f"{source.stem}.emptied.cu")  # its folder has the headers
    emptied.write_text(text, encoding="utf-8")
    try:
        empty = build(emptied, flags, "3")
    finally:
        emptied.unlink()
    full = build(source, flags)
    return {
        "source": source.name,
        "kernels": kernels,
        "cpu_s": round(full["whole_s"], 1),
        "compiler_s": round(full["compiling_s"], 1),
        "empty_s": round(empty["compiling_s"], 1),
        "ratio": round(full["whole_s"] / empty["compiling_s"], 2),
        "gb": round(full["memory"] / 1e9, 2),
        "empty_gb": round(empty["memory"] / 1e9, 2),
    }


def main() -> None:
    """Measure, and print a table or JSON."""
    if sys.argv[1:2] == ["--build-here"]:
        return build_here(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--flag", action="append", default=[], help=f"for nvcc, in place of {' '.join(_FLAGS)}")
    parser.add_argument("--include", action="append", default=[], help="a folder of headers")
    parser.add_argument("sources", nargs="+", type=Path)
    options = parser.parse_args()
    from torch.utils import cpp_extension

    folders = [*options.include, *cpp_extension.include_paths()]
    flags = [*(options.flag or _FLAGS), *(f"-I{folder}" for folder in folders)]
    flags += [f"-I{sysconfig.get_path('include')}", "-gencode=arch=compute_90,code=sm_90"]
    rows = [measure(source.resolve(), flags) for source in options.sources]
    if options.json:
        print(json.dumps(rows))
        return None
    print(f"{'source':32} kernels  all s  compiler s  empty s  ratio    GB  empty GB")
    for row in rows:
        print(
            f"{row['source']:32} {row['kernels']:7} {row['cpu_s']:6} {row['compiler_s']:11} {row['empty_s']:8} "
            f"{row['ratio']:6} {row['gb']:5} {row['empty_gb']:9}",
            flush=True,
        )
    return None


if __name__ == "__main__":
    main()
