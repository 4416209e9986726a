"""A folder that is laid out as CUDA's toolkit is: a compiler, headers, libraries.

It is made in the cache, once for each interpreter and version: a script that runs our compiler, a link to our headers,
and empty archives where CUDA's libraries would be, whose functions are in the headers. Builds execute it by its
path, so every file is compared with what it should be before the path is given out.

    export CUDA_HOME=$(python -m torchdevice_cuda.cuda_cpp.toolkit) && export PATH=$CUDA_HOME/bin:$PATH

is for builds that do not import PyTorch, as CMake's.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
from pathlib import Path

from .. import _compat, trust
from ..settings import folders
from . import INCLUDE

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
    "cublas",
    "cublas_static",
    "curand",
    "curand_static",
    "culibos",
)
_ARCHIVE = b"!<arch>\n"


def _script(version: str) -> str:
    """Return a shell's script: the interpreter is the one that made it, and looks at nothing of the program's."""
    path = shlex.quote(str(_PACKAGES))
    return (
        "#!/bin/sh\n"
        f"TORCHDEVICE_TOOLKIT_VERSION={version} TORCHDEVICE_AUTO= \\\n"
        f"PYTHONPATH={path} exec {shlex.quote(sys.executable)} -s -m torchdevice_cuda.cuda_cpp.nvcc \\\n"
        '  --torchdevice-toolkit="${0%/bin/nvcc}" "$@"\n'
    )


def _version_file(version: str) -> str:
    """Return the file in which builds look for the toolkit's version."""
    parts = {"cuda": "CUDA SDK", "cuda_cudart": "CUDA Runtime (cudart)", "cuda_nvcc": "CUDA NVCC"}
    return json.dumps({key: {"name": name, "version": f"{version}.0"} for key, name in parts.items()}, indent=3) + "\n"


def search_path(home: Path) -> str:
    """Return ``PATH`` with the toolkit's programs first."""
    programs = str(home / "bin")
    others = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder != programs]
    return os.pathsep.join([programs, *others])


def provide(version: str) -> Path:
    """Return the toolkit's folder; `version` is CUDA's, which the compiler claims to be of."""
    script = _script(version)
    facts = _version_file(version)
    key = hashlib.sha256(f"{script}{INCLUDE}{_LIBRARIES}{facts}".encode()).hexdigest()[:16]
    cache = folders.cache_dir()
    root = cache / f"toolkit-{key}"
    for name in _LIBRARIES:
        trust.provide(root / "lib64" / f"lib{name}.a", _ARCHIVE, cache)
    trust.provide(root / "version.json", facts.encode(), cache)
    trust.provide(root / "version.txt", f"CUDA Version {version}.0\n".encode(), cache)
    trust.provide_link(root / "include", INCLUDE, cache)
    trust.provide_link(root / "lib", root / "lib64", cache)
    trust.provide(root / "nvvm" / "libdevice" / "empty", b"", cache)  # CMake looks for the folder
    trust.provide(root / "bin" / "nvcc", script.encode(), cache, 0o755)
    return root


def main() -> int:
    """Print the folder for the installed PyTorch."""
    import importlib.metadata

    try:
        release = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        print(
            "torchdevice_cuda: PyTorch is not installed; its version decides which CUDA the toolkit is", file=sys.stderr
        )
        return 1
    try:
        print(provide(_compat.cuda_version(release)))
    except (OSError, folders.SettingsError) as error:
        print(f"torchdevice_cuda: the toolkit cannot be written: {error}; set TORCHDEVICE_CACHE_DIR", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
