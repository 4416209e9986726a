"""Names of ``torch._C`` that a release of torch uses and torchdevice_cuda lacks: using one raises an error.

A later release uses functions that did not exist before. A CPU build lacks them; a CUDA build has them, and they would
call NVIDIA's driver. Both raise the same error, when they are used and not while torch is imported.
"""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import Any, NoReturn

from ..report.unsupported import met

_MODULE = "torch._C"
_IMPORT = re.compile(rf"cannot import name '(\w+)' from '{re.escape(_MODULE)}'")
# The names of CUDA's part of torch._C. Every build has names of other parts that mention CUDA.
_OF_CUDA = re.compile(r"_(?:cuda_|Cuda|CUDA|nccl_|gds_|cudnn_)")

_provided: list[str] = []


def refusal(name: str) -> NotImplementedError:
    """Return the error for using a name that is not implemented."""
    version = getattr(sys.modules.get("torch.version"), "__version__", "")
    met(f"torch._C.{name}", f"torch {version} has it, and this version of torchdevice_cuda does not")
    return NotImplementedError(
        f"torch {version} asks for torch._C.{name}, which this version of torchdevice_cuda does not have; "
        "please report it with the program's call"
    )


class Refusing(type):
    """The type of a stub: a class, since torch derives from some of these names and calls others."""

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:  # noqa: D102
        raise refusal(cls._absent)

    _absent: str


def stand_in(name: str) -> type:
    """Return a stub for a name that is not implemented; using it raises."""
    return Refusing(name, (), {"__module__": _MODULE, "__doc__": f"Not available: {name}.", "_absent": name})


def lacking_in(error: AttributeError | ImportError) -> str | None:
    """Return the name whose absence from ``torch._C`` caused this error."""
    if isinstance(error, AttributeError):
        return error.name if error.obj is sys.modules[_MODULE] else None
    found = _IMPORT.match(str(error))
    return found[1] if found else None


def provide(name: str) -> None:
    """Add a stub to ``torch._C``."""
    setattr(sys.modules[_MODULE], name, stand_in(name))
    _provided.append(name)


def forget() -> None:
    """Remove the stubs."""
    torch_c = sys.modules[_MODULE]
    while _provided:
        delattr(torch_c, _provided.pop())


def unanswered(torch_c: ModuleType, answered: set[str]) -> list[str]:
    """Return names of CUDA's part that a CUDA build has and torchdevice_cuda lacks."""
    return [name for name in vars(torch_c) if _OF_CUDA.match(name) and name not in answered]
