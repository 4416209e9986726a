"""A folder that is laid out as CUDA's toolkit is: a compiler, headers, libraries.

It is made in the cache, once for each interpreter and version: a script that runs our compiler, a link to our headers,
and empty archives where CUDA's libraries would be, whose functions are in the headers.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from pathlib import Path

from .. import folders
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
    """A shell's script: the interpreter is the one that made it, and looks at nothing of the program's."""
    path = shlex.quote(str(_PACKAGES))
    return (
        "#!/bin/sh\n"
        f"TORCHDEVICE_TOOLKIT_VERSION={version} TORCHDEVICE_AUTO= \\\n"
        f'PYTHONPATH={path} exec {shlex.quote(sys.executable)} -s -m torchdevice_cuda.kernels.nvcc "$@"\n'
    )


def provide(version: str) -> Path:
    """The toolkit's folder; `version` is CUDA's, which the compiler claims to be of."""
    script = _script(version)
    key = hashlib.sha256(f"{script}{INCLUDE}{_LIBRARIES}".encode()).hexdigest()[:16]
    root = folders.cache_dir() / f"toolkit-{key}"
    if not (root / "complete").exists():
        for folder in ("bin", "lib64"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        for name in _LIBRARIES:
            (root / "lib64" / f"lib{name}.a").write_bytes(_ARCHIVE)
        _link(root / "include", INCLUDE)
        nvcc = root / "bin" / f".nvcc-{os.getpid()}"
        nvcc.write_text(script, encoding="utf-8")
        nvcc.chmod(0o755)
        os.replace(nvcc, root / "bin" / "nvcc")
        (root / "complete").touch()
    return root


def _link(link: Path, target: Path) -> None:
    made = link.with_name(f".{link.name}-{os.getpid()}")
    made.unlink(missing_ok=True)
    made.symlink_to(target, target_is_directory=True)
    os.replace(made, link)
