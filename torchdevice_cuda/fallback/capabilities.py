"""Which operators the backend lacks, and which it turned out to lack for a dtype."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator

import torch

_has = torch._C._dispatch_has_kernel_for_dispatch_key
#: An operator with one of these is made of others: it works wherever those do.
_EXPLICIT = "CompositeExplicitAutograd"
_COMPOSITE = ("CompositeImplicitAutograd", _EXPLICIT)
#: Operators that are about the CPU itself, or about nothing at all; a kernel elsewhere would make torch choose them.
_LEFT_ALONE = ("_test", "_foobar", "_make_dep_token", "_fused_sdp_choice", "quantized_", "to_mkldnn", "mkldnn_")
_LEFT_ALONE_END = ("_for_cpu", "_for_cpu_backward")


def missing(key: str) -> Iterator[str]:
    """The operators of the running torch that the CPU computes and a dispatch key's backend does not."""
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        namespace, _, plain = name.partition("::")
        base = plain.partition(".")[0]
        if namespace != "aten" or base.startswith(_LEFT_ALONE) or base.endswith(_LEFT_ALONE_END):
            continue
        if _lacking(name, key) or (_has(name, _EXPLICIT) and not _has(name, key) and _lacking(_with_out(name), key)):
            yield name


def _lacking(name: str | None, key: str) -> bool:
    return (
        name is not None
        and _has(name, "CPU")
        and not _has(name, key)
        and not any(_has(name, other) for other in _COMPOSITE)
    )


def _with_out(name: str) -> str | None:
    """The operator that writes into ``out`` what this one returns: some make room and leave the work to that one.

    Going to the CPU there would take the empty room along.
    """
    base, _, overload = name.partition(".")
    found = f"{base}.{overload}_out" if overload else f"{base}.out"
    return found if found in _names() else None


@functools.cache
def _names() -> frozenset[str]:
    return frozenset(torch._C._dispatch_get_all_op_names())


def cut_off(key: str) -> Iterator[str]:
    """Operators made of others that the backend replaced by a kernel of its own, and thereby cut off from autograd.

    torch sends ``linalg_svd`` to the CPU as a whole on MPS: it runs, and its gradients are lost.
    """
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        if not (name.startswith("aten::") and _has(name, key) and _has(name, "CompositeImplicitAutograd")):
            continue
        if not _has(name, "Autograd") and not _has(name, f"Autograd{key}"):
            yield name


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
