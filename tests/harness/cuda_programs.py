"""Programs of CUDA C++ that a test compiles and runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

from torchdevice_cuda.cuda_cpp import nvcc

#: What programs with cooperative groups begin with.
GROUPS = "#include <cooperative_groups.h>\n#include <cstdio>\nnamespace cg = cooperative_groups;\n"


def compile_and_run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Compile with these words of a command line, and run the program."""
    program = folder / "program"
    assert nvcc.main(["-O0", *words, "-o", str(program)]) == 0
    return subprocess.run([str(program)], capture_output=True, text=True, timeout=60, check=True)


def run_text(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Compile and run the text of a source."""
    source = folder / "program.cu"
    source.write_text(text)
    return compile_and_run(folder, str(source))
