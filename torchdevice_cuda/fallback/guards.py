"""Functions and operators that the backend has, but not for every dtype: what it refuses runs on the CPU.

The backend says so only when it is called. Functions are guarded where programs call them, at no cost to anything else;
operators that backward passes and other operators call are guarded in the dispatcher. A refusal (see
``drivers.refusals``) is remembered by name, dtype and device, so that the device is asked once; every other error goes
on unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..drivers.refusals import NO_DOUBLE, NO_DTYPE, NO_KERNEL, refusal
from . import cpu
from .capabilities import refusals

#: Functions whose operators have limits on MPS in some version of macOS or torch that CUDA does not have, by the module
#: that holds them; methods of the names under ``torch`` too.
LIMITED = {
    "torch": (
        "argsort bincount bucketize cholesky cholesky_inverse cummax cummin cumprod cumsum det dot histc index_reduce "
        "inverse isin kthvalue logcumsumexp logdet lu_solve lu_unpack median nanmedian nanquantile quantile qr renorm "
        "scatter_reduce searchsorted slogdet sort std std_mean topk unique unique_consecutive var var_mean"
    ).split(),
    "torch.linalg": (
        "cholesky cholesky_ex cond det inv inv_ex lu lu_factor lu_factor_ex lu_solve matrix_power matrix_rank pinv qr "
        "slogdet solve solve_ex solve_triangular tensorinv tensorsolve"
    ).split(),
    "torch.nn.functional": (
        "adaptive_avg_pool1d conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
        "scaled_dot_product_attention"
    ).split(),
    "torch._C._nn": ["adaptive_avg_pool2d", "adaptive_max_pool2d"],
}
#: Methods only: what is done in place, and conversions, which a GPU that can hold a dtype (float8) may not have.
METHODS = "bfloat16 cumprod_ cumsum_ float half index_reduce_ renorm_ scatter_reduce_".split()
#: What a dtype or an operator is refused for is refused again; a shape or an option is another one next time.
_LASTING = frozenset({NO_KERNEL, NO_DTYPE})


def _first(args: tuple, kwargs: dict[str, Any], device_type: str) -> torch.Tensor | None:
    """The first tensor on the device among the arguments of a call."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor) and value.device.type == device_type:
            return value
    return None


def guard(
    name: str, original: Callable[..., Any], device: torch.device, left: Callable[[str, str, str], None]
) -> Callable[..., Any]:
    """A function that goes to the CPU where the device refuses; ``left`` is told when it does."""

    in_place = name.endswith("_")

    def on_cpu(args: tuple, kwargs: dict[str, Any], kind: str) -> Any:
        left(name, "CPU", kind)
        out = kwargs.get("out")
        at_home = {key: cpu.home(value, device) for key, value in kwargs.items()}
        brought = cpu.home(args, device)
        given = original(*brought, **at_home)
        if in_place:
            cpu.write_back(args[0], brought[0])
            return args[0]
        if out is not None:
            cpu.write_back(out, at_home["out"])
            return out
        return torch.utils._pytree.tree_map(lambda value: cpu.away(value, device), given)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if refusals:
            subject = _first(args, kwargs, device.type)
            known = refusals.kind(name, subject.dtype, str(device)) if subject is not None else None
            if known is not None:
                return on_cpu(args, kwargs, known)
        try:
            return original(*args, **kwargs)
        except (RuntimeError, TypeError) as error:
            kind = refusal(error)
            subject = _first(args, kwargs, device.type)
            # float64 has a setting of its own.
            if kind in (None, NO_DOUBLE) or subject is None:
                raise
        if kind in _LASTING:
            refusals.add(name, subject.dtype, str(device), kind)
        return on_cpu(args, kwargs, kind)

    return wrapper


def guard_operator(op: Any, native: Any, device: torch.device, left: Callable[[str, str, str], None]) -> Any:
    """A kernel that asks the backend's own, and goes to the CPU where that refuses."""
    name, shape = op.name(), cpu.Shape.of(op)
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.MPS)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        subject = _first(args, kwargs, device.type)
        dtype = subject.dtype if subject is not None else None
        kind = refusals.kind(name, dtype, str(device))
        if kind is None:
            try:
                return native.call_boxed(keys, *args, **kwargs)
            except (RuntimeError, TypeError) as error:
                kind = refusal(error)
                if kind in (None, NO_DOUBLE):
                    raise
            if kind in _LASTING:
                refusals.add(name, dtype, str(device), kind)
        left(name, "CPU", kind)
        return cpu.compute(shape, device, args, kwargs)

    return kernel
