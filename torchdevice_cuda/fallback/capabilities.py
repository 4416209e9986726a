"""Which operators the backend lacks, and which it turned out to lack for a dtype."""

from __future__ import annotations

import threading

import torch

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


def _with(key: str) -> frozenset[str]:
    """The operators that have a kernel at a dispatch key."""
    return frozenset(torch._C._dispatch_get_registrations_for_dispatch_key(key))


def keys() -> list[str]:
    """The backend's dispatch keys that the running torch knows."""

    def known(key: str) -> bool:
        try:
            torch._C._dispatch_has_kernel_for_dispatch_key("aten::add.Tensor", key)
        except RuntimeError:
            return False
        return True

    return [key for key in _AT_HOME if known(key)]


def missing(key: str) -> list[str]:
    """The operators of the running torch that the CPU computes and a dispatch key's backend does not."""
    composite = frozenset().union(*map(_with, _COMPOSITE.get(key, _COMPOSITE_SPARSE)))

    def wanted(name: str) -> bool:
        namespace, _, plain = name.partition("::")
        base = plain.partition(".")[0]
        return namespace == "aten" and not base.startswith(_LEFT_ALONE) and not base.endswith(_LEFT_ALONE_END)

    return sorted(filter(wanted, _with(_AT_HOME[key]) - _with(key) - composite))


def cut_off(key: str) -> list[str]:
    """Operators made of others that the backend replaced by a kernel of its own, and thereby cut off from autograd.

    torch sends ``linalg_svd`` to the CPU as a whole on MPS: it runs, and its gradients are lost.
    """
    replaced = _with(key) & _with("CompositeImplicitAutograd") - _with("Autograd") - _with(f"Autograd{key}")
    return sorted(name for name in replaced if name.startswith("aten::"))


def limited(key: str) -> list[str]:
    """Operators that the backend has and may refuse.

    None before torch 2.10, where a kernel cannot call the one that it overrides.
    """
    if not hasattr(torch.library, "get_kernel"):
        return []
    return sorted({f"aten::{name}" for name in _MAY_REFUSE} & _with(key))


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
