"""Programs of CUDA C++ that a test compiles and runs."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import Any

from torchdevice_cuda.cuda_cpp import nvcc


@functools.cache
def load_kernels(source: str, *names: str) -> dict[str, Any]:
    """Compile kernels in a child, all at once: ``torch.cuda._compile_kernel`` compiles the whole for each of them."""
    from torch.cuda._utils import _cuda_load_module, _nvrtc_compile

    code, _ = _nvrtc_compile(source, names[0], nvcc_options=["--std=c++17"])
    kernels: dict[str, Any] = _cuda_load_module(code, list(names))
    return kernels


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
