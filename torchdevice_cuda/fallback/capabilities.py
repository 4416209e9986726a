"""Operators that the backend lacks, and dtypes that it refused at run time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection

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
#: The backend's dispatch keys, by the layout of tensors, and the corresponding CPU keys.
_ON_CPU = {"MPS": "CPU", "SparseMPS": "SparseCPU", "SparseCsrMPS": "SparseCsrCPU"}
#: An operator with one of these keys is composed of others and works wherever they do. For sparse tensors only the
#: first key implies that: a CPU kernel for them beside the second key means that the composition is for dense tensors.
_EXPLICIT = "CompositeExplicitAutograd"
COMPOSITE = ("CompositeImplicitAutograd", _EXPLICIT, "CompositeExplicitAutogradNonFunctional")
_COMPOSITE = {"MPS": ("CompositeImplicitAutograd", _EXPLICIT)}
_COMPOSITE_SPARSE = ("CompositeImplicitAutograd",)
#: Operators about the CPU itself, or about nothing at all; with a kernel elsewhere torch would choose them there.
_LEFT_ALONE = (
    *("_test", "_foobar", "_make_dep_token", "_fused_sdp_choice", "quantized_", "to_mkldnn", "mkldnn_"),
    *("_pin_memory", "is_pinned"),
)
_LEFT_ALONE_END = ("_for_cpu", "_for_cpu_backward")
#: Linear algebra operators, none of them cheap, that gradients of others use; two of them treat CPU memory as the
#: GPU's.
_MAY_REFUSE = (
    "_linalg_det _linalg_det.result _linalg_solve_ex _linalg_solve_ex.result linalg_cholesky_ex linalg_cholesky_ex.L "
    "linalg_inv_ex linalg_inv_ex.inverse linalg_lu_factor_ex linalg_lu_factor_ex.out linalg_lu_solve "
    "linalg_lu_solve.out linalg_qr linalg_qr.out linalg_solve_triangular linalg_solve_triangular.out"
).split()
#: Namespaces of torch's own operators with CPU kernels.
_OF_TORCH = frozenset(
    "_quantized aten c10d mkl mkldnn mkldnn_prepacked onednn quantization quantized quantized_decomposed sparse".split()
)
#: Libraries whose operators for the CPU are written in Python, with others for CUDA.
_IN_PYTHON = frozenset({"bitsandbytes"})
#: Composite operators of which a part uses a function that only the CPU and CUDA have.
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
    # Some operators only allocate and call the one that writes into ``out``. A fallback of the latter alone would copy
    # the uninitialized memory, too.
    explicit = with_kernel(_EXPLICIT) - with_kernel(key) if key == "MPS" else frozenset[str]()
    makes_room = {name for name in explicit if _with_out(name) in lacking}
    stubbed = {name for name in explicit if name.removeprefix("aten::").partition(".")[0] in _STUBBED}
    return sorted(filter(wanted, lacking | makes_room | stubbed))


def of_libraries(known: Collection[str]) -> list[str]:
    """Return operators of libraries other than torch with a compiled CPU kernel and none for the GPU, less ``known``.

    As on CUDA, operators whose kernel for the CPU is written in Python are refused; bitsandbytes has its own for CUDA,
    which are not registered here.
    """
    lacking = with_kernel("CPU") - with_kernel("MPS") - with_kernel(COMPOSITE[0]) - with_kernel(_EXPLICIT)
    written: Collection[str] = torch.library._impls

    def wanted(name: str) -> bool:
        namespace, _, plain = name.partition("::")
        return namespace in _IN_PYTHON or (namespace not in _OF_TORCH and f"{namespace}/{plain}/CPU" not in written)

    return sorted(name for name in lacking.difference(known) if wanted(name))


def _with_out(name: str) -> str:
    """Return the operator that writes the result of this one into ``out``, if there is one."""
    base, _, overload = name.partition(".")
    return f"{base}.{overload}_out" if overload else f"{base}.out"


def cut_off(key: str) -> list[str]:
    """Return composite operators that the backend replaced by its own kernel, and thereby cut off from autograd.

    On MPS torch computes all of ``linalg_svd`` on the CPU: it runs, but its gradients are lost.
    """
    formulas = with_kernel("Autograd") | with_kernel(f"Autograd{key}")
    replaced = with_kernel(key) & with_kernel("CompositeImplicitAutograd") - formulas
    return sorted(name for name in replaced if name.startswith("aten::"))


def limited(key: str) -> list[str]:
    """Return operators that the backend has and may refuse; none if a kernel cannot call the one that it overrides."""
    if not kernels_can_be_called():
        return []
    return sorted({f"aten::{name}" for name in _MAY_REFUSE} & with_kernel(key))


class Refusals:
    """The device's refusals at run time, by operator, dtype and device, so that a call is refused only once.

    A limit of shapes or options belongs to one call, not to the operator, and is not cached.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, dict[Subject, str]] = {}
        self._key: str | None = None

    def of(self, name: str) -> dict[Subject, str]:
        """Return the refusals of one operator: always the same dictionary, to which later ones are added."""
        with self._lock:
            return self._known.setdefault(name, {})

    def keep(self, device: str) -> None:
        """Share refusals with other processes from now on, for this kind of device on this machine."""
        with self._lock:
            self._key = f"{device}, {stored.host()}"
            for (name, dtype, on), kind in self._stored(self._key).items():
                self._known.setdefault(name, {})[dtype, on] = kind

    def add(self, name: str, dtype: torch.dtype | None, device: str, kind: str) -> None:
        """Cache a refusal."""
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
        """Clear the cache; the file on disk stays."""
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
