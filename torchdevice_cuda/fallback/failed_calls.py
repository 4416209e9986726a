"""CUDA's words for a call that failed on the Apple GPU, worked out after it failed: one that succeeds costs nothing.

Metal's error does not name the argument that is on the CPU, CUDA's does: the call is made again, and each operator
compares devices as CUDA does before it computes. A dtype that the CPU refuses in a fallback is refused in the name of
CUDA's kernel.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..contract import read_kernel_names
from .devices import composed_on_cuda, is_cpu, is_stranger, mixed

if TYPE_CHECKING:
    from .operators import Operator

#: What the Apple GPU's backend says of a CPU tensor.
_ELSEWHERE = re.compile(
    r"Placeholder storage has not been allocated on MPS device!|Passed CPU tensor to MPS op"
    r"|Expected all tensors to be on the same device, but found at least two devices"
)
_NO_DTYPE = re.compile(r'^"(\w+)" not implemented for \'')
_COMPOSITE = (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.CompositeExplicitAutograd)
_has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
_read_kernel_names = functools.cache(read_kernel_names)


class _MixedError(RuntimeError):
    """An operator has tensors of two devices; CUDA's error is the cause."""


class _Comparing(TorchDispatchMode):
    """Compare the devices of each operator's arguments before it is called."""

    def __torch_dispatch__(self, func: Operator, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        # Their parts compare devices, whatever kernel the Apple GPU has for the whole.
        if func.name() in composed_on_cuda():
            key = next((key for key in _COMPOSITE if _has_kernel(func.name(), key.name)), None)
            if key is not None:
                with self:
                    return func._op_dk(key, *args, **kwargs)
        if any(map(is_stranger, (*args, *kwargs.values()))) and (error := mixed(func, args, kwargs)) is not None:
            raise _MixedError from error
        return func(*args, **kwargs)


def find_mixed(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BaseException | None:
    """Return CUDA's error for a call with tensors of two devices; ``None`` if no operator of it has such."""
    try:
        with torch.no_grad(), _Comparing():  # type: ignore[no-untyped-call]
            function(*args, **kwargs)
    except _MixedError as error:
        return error.__cause__
    except Exception:
        pass  # it fails as it did before
    return None


def _name_kernel(name: str, function: str) -> str:
    """Return CUDA's name of a kernel of the CPU that refuses a dtype."""
    found = _read_kernel_names().get(name)
    if found is None:
        return name.replace("cpu", "cuda")
    base = function.removesuffix("_")
    return next((found[key] for key in (base, base.removesuffix("_ex"), "") if key in found), name)


def _is_on_gpu(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return not is_cpu(value)
    return isinstance(value, (list, tuple)) and any(map(_is_on_gpu, value))


def explain(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], error: BaseException) -> BaseException:
    """Return the error that CUDA raises for a failed call of a C function; the same error if nothing is known."""
    text = error.args[0] if error.args and isinstance(error.args[0], str) else ""
    if _ELSEWHERE.match(text):
        return find_mixed(function, args, kwargs) or error
    refused = _NO_DTYPE.match(text)
    if refused and any(map(_is_on_gpu, (*args, *kwargs.values()))):
        name = _name_kernel(refused[1], getattr(function, "__name__", ""))
        error.args = (f'"{name}"{text[refused.end(1) + 1 :]}',)
    return error
