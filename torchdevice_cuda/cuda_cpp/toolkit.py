"""A folder that is laid out as CUDA's toolkit is: a compiler, headers, libraries.

It is made in the cache, once for each interpreter and version: a script that runs our compiler, a link to our headers,
and empty archives where CUDA's libraries would be, whose functions are in the headers. Builds execute it by its
path, so every file is compared with what it should be before the path is given out.
"""

from __future__ import annotations

import hashlib
import shlex
import sys
from pathlib import Path

from .. import trust
from ..settings import folders
from .nvcc import INCLUDE

# Every member of the package is found from here, whatever the working folder.
_PACKAGES = Path(__file__).resolve().parents[2]
_LIBRARIES = (
    "cudart",
    "cudart_static",
    "cudadevrt",
    "cuda",
    "c10_cuda",
    "torch_cuda",
    "torch_cuda_linalg",
    "nvrtc",
    "nvToolsExt",
)
_ARCHIVE = b"!<arch>\n"


def _script(version: str) -> str:
    """Return a shell's script: the interpreter is the one that made it, and looks at nothing of the program's."""
    path = shlex.quote(str(_PACKAGES))
    return (
        "#!/bin/sh\n"
        f"TORCHDEVICE_TOOLKIT_VERSION={version} TORCHDEVICE_AUTO= \\\n"
        f'PYTHONPATH={path} exec {shlex.quote(sys.executable)} -s -m torchdevice_cuda.cuda_cpp.nvcc "$@"\n'
    )


def provide(version: str) -> Path:
    """Return the toolkit's folder; `version` is CUDA's, which the compiler claims to be of."""
    script = _script(version)
    key = hashlib.sha256(f"{script}{INCLUDE}{_LIBRARIES}".encode()).hexdigest()[:16]
    cache = folders.cache_dir()
    root = cache / f"toolkit-{key}"
    for name in _LIBRARIES:
        trust.provide(root / "lib64" / f"lib{name}.a", _ARCHIVE, cache)
    trust.provide_link(root / "include", INCLUDE, cache)
    trust.provide(root / "bin" / "nvcc", script.encode(), cache, 0o755)
    return root
