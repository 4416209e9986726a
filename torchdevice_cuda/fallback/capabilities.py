"""Which operators the backend lacks, and which it turned out to lack for a dtype."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import torch

_has = torch._C._dispatch_has_kernel_for_dispatch_key
#: The backend's dispatch keys, by the layout of tensors, and the CPU's for the same.
_AT_HOME = {"MPS": "CPU", "SparseMPS": "SparseCPU", "SparseCsrMPS": "SparseCsrCPU"}
#: An operator with one of these is made of others: it works wherever those do. Of sparse tensors only the first says
#: so: where the CPU has a kernel for them beside the second, that one is for dense tensors.
_COMPOSITE = {"MPS": ("CompositeImplicitAutograd", "CompositeExplicitAutograd")}
_COMPOSITE_SPARSE = ("CompositeImplicitAutograd",)
#: Operators that are about the CPU itself, or about nothing at all; a kernel elsewhere would make torch choose them.
_LEFT_ALONE = (
    *("_test", "_foobar", "_make_dep_token", "_fused_sdp_choice", "quantized_", "to_mkldnn", "mkldnn_"),
    *("_pin_memory", "is_pinned"),
)
_LEFT_ALONE_END = ("_for_cpu", "_for_cpu_backward")
#: Operators of linear algebra, none of them cheap, that gradients of others are made of.
_MAY_REFUSE = (
    "_linalg_det _linalg_det.result _linalg_solve_ex _linalg_solve_ex.result linalg_cholesky_ex linalg_cholesky_ex.L "
    "linalg_inv_ex linalg_inv_ex.inverse linalg_lu_factor_ex linalg_lu_factor_ex.out linalg_qr linalg_qr.out "
    "linalg_solve_triangular linalg_solve_triangular.out"
).split()


def keys() -> list[str]:
    """The backend's dispatch keys that the running torch knows."""

    def known(key: str) -> bool:
        try:
            _has("aten::add.Tensor", key)
        except RuntimeError:
            return False
        return True

    return [key for key in _AT_HOME if known(key)]


def missing(key: str) -> Iterator[str]:
    """The operators of the running torch that the CPU computes and a dispatch key's backend does not."""
    at_home, composite = _AT_HOME[key], _COMPOSITE.get(key, _COMPOSITE_SPARSE)
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        namespace, _, plain = name.partition("::")
        base = plain.partition(".")[0]
        if namespace != "aten" or base.startswith(_LEFT_ALONE) or base.endswith(_LEFT_ALONE_END):
            continue
        if _has(name, at_home) and not _has(name, key) and not any(_has(name, other) for other in composite):
            yield name


def cut_off(key: str) -> Iterator[str]:
    """Operators made of others that the backend replaced by a kernel of its own, and thereby cut off from autograd.

    torch sends ``linalg_svd`` to the CPU as a whole on MPS: it runs, and its gradients are lost.
    """
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        if not (name.startswith("aten::") and _has(name, key) and _has(name, "CompositeImplicitAutograd")):
            continue
        if not _has(name, "Autograd") and not _has(name, f"Autograd{key}"):
            yield name


def limited(key: str) -> Iterator[str]:
    """Operators that the backend has and may refuse.

    None before torch 2.10, where a kernel cannot call the one that it overrides.
    """
    if hasattr(torch.library, "get_kernel"):
        yield from (f"aten::{name}" for name in _MAY_REFUSE if _has(f"aten::{name}", key))


class Refusals:
    """What the device refused at run time, by operator, dtype and device, so that it is not asked twice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, torch.dtype | None, str], str] = {}

    def add(self, name: str, dtype: torch.dtype | None, device: str, kind: str) -> None:
        """Remember a refusal."""
        with self._lock:
            self._known[name, dtype, device] = kind

    def kind(self, name: str, dtype: torch.dtype | None, device: str) -> str | None:
        """How this was refused before, ``None`` if it never was."""
        return self._known.get((name, dtype, device))

    def __bool__(self) -> bool:
        return bool(self._known)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._known.clear()


#: The refusals of this process.
refusals = Refusals()
