"""Operators that the backend lacks, and dtypes that it refused at run time."""

from __future__ import annotations

import logging
import threading

import torch

from .._compat import kernels_can_be_called, knows_dispatch_key
from . import stored
from .refusals import LASTING

_log = logging.getLogger("torchdevice_cuda")
#: The file of refusals on disk.
FILE = "refusals.json"
#: dtype and device of a call, and both with the operator's name
Subject = tuple[torch.dtype | None, str]
Refused = tuple[str, torch.dtype | None, str]
#: The backend's dispatch keys, by the layout of tensors, and the CPU's for the same.
_ON_CPU = {"MPS": "CPU", "SparseMPS": "SparseCPU", "SparseCsrMPS": "SparseCsrCPU"}
#: An operator with one of these is made of others: it works wherever those do. Of sparse tensors only the first says
#: so: where the CPU has a kernel for them beside the second, that one is for dense tensors.
_EXPLICIT = "CompositeExplicitAutograd"
COMPOSITE = ("CompositeImplicitAutograd", _EXPLICIT, "CompositeExplicitAutogradNonFunctional")
_COMPOSITE = {"MPS": ("CompositeImplicitAutograd", _EXPLICIT)}
_COMPOSITE_SPARSE = ("CompositeImplicitAutograd",)
#: Operators that are about the CPU itself, or about nothing at all; a kernel elsewhere would make torch choose them.
_LEFT_ALONE = (
    *("_test", "_foobar", "_make_dep_token", "_fused_sdp_choice", "quantized_", "to_mkldnn", "mkldnn_"),
    *("_pin_memory", "is_pinned"),
)
_LEFT_ALONE_END = ("_for_cpu", "_for_cpu_backward")
#: Operators of linear algebra, none of them cheap, that gradients of others are made of; two of them take the CPU's
#: memory for the GPU's.
_MAY_REFUSE = (
    "_linalg_det _linalg_det.result _linalg_solve_ex _linalg_solve_ex.result linalg_cholesky_ex linalg_cholesky_ex.L "
    "linalg_inv_ex linalg_inv_ex.inverse linalg_lu_factor_ex linalg_lu_factor_ex.out linalg_lu_solve "
    "linalg_lu_solve.out linalg_qr linalg_qr.out linalg_solve_triangular linalg_solve_triangular.out"
).split()
#: Operators made of others, of which one asks for a function that the CPU and CUDA alone have.
_STUBBED = frozenset({"kaiser_window"})


def with_kernel(key: str) -> frozenset[str]:
    """Return the operators that have a kernel at a dispatch key."""
    return frozenset(torch._C._dispatch_get_registrations_for_dispatch_key(key))


def keys() -> list[str]:
    """Return the backend's dispatch keys that the running torch knows."""
    return [key for key in _ON_CPU if knows_dispatch_key(key)]


def missing(key: str) -> list[str]:
    """Return the operators of the running torch that the CPU computes and a dispatch key's backend does not."""
    composite = frozenset().union(*map(with_kernel, _COMPOSITE.get(key, _COMPOSITE_SPARSE)))

    def wanted(name: str) -> bool:
        namespace, _, plain = name.partition("::")
        base = plain.partition(".")[0]
        return namespace == "aten" and not base.startswith(_LEFT_ALONE) and not base.endswith(_LEFT_ALONE_END)

    lacking = with_kernel(_ON_CPU[key]) - with_kernel(key) - composite
    # Some operators only make room and leave the work to the one that writes into ``out``. Going to the CPU there would
    # take the empty room along.
    explicit = with_kernel(_EXPLICIT) - with_kernel(key) if key == "MPS" else frozenset[str]()
    makes_room = {name for name in explicit if _with_out(name) in lacking}
    stubbed = {name for name in explicit if name.removeprefix("aten::").partition(".")[0] in _STUBBED}
    return sorted(filter(wanted, lacking | makes_room | stubbed))


def _with_out(name: str) -> str:
    """Return the operator that writes into ``out`` what this one returns, if there is one."""
    base, _, overload = name.partition(".")
    return f"{base}.{overload}_out" if overload else f"{base}.out"


def cut_off(key: str) -> list[str]:
    """Operators made of others that the backend replaced by a kernel of its own, and thereby cut off from autograd.

    torch sends ``linalg_svd`` to the CPU as a whole on MPS: it runs, and its gradients are lost.
    """
    formulas = with_kernel("Autograd") | with_kernel(f"Autograd{key}")
    replaced = with_kernel(key) & with_kernel("CompositeImplicitAutograd") - formulas
    return sorted(name for name in replaced if name.startswith("aten::"))


def limited(key: str) -> list[str]:
    """Operators that the backend has and may refuse; none where a kernel cannot call the one that it overrides."""
    if not kernels_can_be_called():
        return []
    return sorted({f"aten::{name}" for name in _MAY_REFUSE} & with_kernel(key))


class Refusals:
    """The device's refusals at run time, by operator, dtype and device, so that a call is refused only once.

    A limit of shapes or options is one call's, not the operator's, and is not remembered.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, dict[Subject, str]] = {}
        self._key: str | None = None

    def of(self, name: str) -> dict[Subject, str]:
        """Return the refusals of one operator: always the same dictionary, which later ones are added to."""
        with self._lock:
            return self._known.setdefault(name, {})

    def keep(self, device: str) -> None:
        """Share refusals with other processes from now on, for this kind of device on this machine."""
        with self._lock:
            self._key = f"{device}, {stored.host()}"
            for (name, dtype, on), kind in self._stored(self._key).items():
                self._known.setdefault(name, {})[dtype, on] = kind

    def add(self, name: str, dtype: torch.dtype | None, device: str, kind: str) -> None:
        """Remember a refusal."""
        if kind not in LASTING:
            return
        with self._lock:
            self._known.setdefault(name, {})[dtype, device] = kind
            if self._key is not None:
                mine = {(op, *subject): how for op, known in self._known.items() for subject, how in known.items()}
                kept = self._stored(self._key) | mine
                rows = [[row[0], _plain(row[1]), row[2], why] for row, why in kept.items()]
                stored.save(FILE, self._key, sorted(rows))

    def clear(self) -> None:
        """Forget everything; what is on disk stays there."""
        with self._lock:
            for known in self._known.values():
                known.clear()
            self._key = None

    def _stored(self, key: str) -> dict[Refused, str]:
        """Read the refusals of other processes; empty if the file has other contents."""
        found: dict[Refused, str] = {}
        try:
            for name, dtype, device, kind in stored.load(FILE, key) or ():
                known = getattr(torch, dtype, None) if dtype else None
                if kind not in LASTING or (dtype and not isinstance(known, torch.dtype)):
                    raise ValueError(f"{dtype!r}, {kind!r}")
                found[name, known, device] = kind
        except (TypeError, ValueError) as error:
            _log.warning("the refusals in %s are ignored: %s", FILE, error)
            return {}
        return found


def _plain(dtype: torch.dtype | None) -> str:
    """Return a dtype's name, empty for none."""
    return "" if dtype is None else str(dtype).removeprefix("torch.")


#: The refusals of this process.
refusals = Refusals()
