"""CUDA's command-line tools: where they are, and compiling a program with nvcc."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path


def find_tool(name: str) -> str:
    """Return the path of a tool of the CUDA toolkit."""
    found = shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")
    if found is None:
        raise FileNotFoundError(f"{name} is not installed: it comes with the CUDA toolkit")
    return found


@functools.cache
def compile_program(source: Path, *options: str) -> Path:
    """Compile a program for the GPU of this machine."""
    program = Path(tempfile.mkdtemp()) / source.stem
    subprocess.run([find_tool("nvcc"), "-arch=native", *options, str(source), "-o", str(program)], check=True)
    return program


def run_program(*words: object) -> str:
    """Run a program; what it prints on both outputs."""
    command = list(map(str, words))
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120).stdout
