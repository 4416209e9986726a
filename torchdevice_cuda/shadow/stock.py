"""The installed torch's own code of ``torch.cuda``, executed in the modules that the shadow tree serves.

Most of torch.cuda is a thin layer over ``torch._C``, whose CUDA part torchdevice_cuda implements. So a served file
contains only what differs. The rest, and whatever a later release adds, is stock's code: names, signatures and members
are those of the installed release.
"""

from __future__ import annotations

import importlib.machinery
import sys
from pathlib import Path
from typing import Any

from .absent import lacking_in, provide


def root() -> Path:
    """Return the folder of ``torch.cuda`` in the installed torch."""
    return Path(sys.modules["torch"].__path__[0], "cuda")


def file_of(module: str) -> Path:
    """Return the file of a module of ``torch.cuda``, which may not exist in every release."""
    path = root().joinpath(*module.split(".")[2:])
    return path / "__init__.py" if path.is_dir() else path.with_name(f"{path.name}.py")


def execute(namespace: dict[str, Any]) -> None:
    """Execute stock's file of a module in its namespace; later definitions in the served file replace stock's."""
    module: str = namespace["__name__"]
    loader = importlib.machinery.SourceFileLoader(module, str(file_of(module)))
    code = loader.get_code(module)
    assert code is not None  # a source file has code
    lacking: set[str] = set()
    while True:
        try:
            exec(code, namespace)
            return
        except (AttributeError, ImportError) as error:
            # A base class or function of a later release: code that uses it raises when it is called, the rest works.
            name = lacking_in(error)
            if name is None or name in lacking:
                raise
            lacking.add(name)
            provide(name)
