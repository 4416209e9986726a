"""Which operators the backend lacks, and which it turned out to lack for a dtype."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Iterator

import torch

from ..drivers.refusals import NO_DTYPE, NO_KERNEL, NO_SIZE
from . import stored

_log = logging.getLogger("torchdevice_cuda")
#: Where refusals are kept on disk, and those that hold for every call of an operator with a dtype.
FILE = "refusals.json"
KINDS = (NO_KERNEL, NO_DTYPE)
#: dtype and device of a call, and both with the operator's name
Subject = tuple[torch.dtype | None, str]
Refused = tuple[str, torch.dtype | None, str]
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
    """What the device refused at run time, by operator, dtype and device, so that it is not asked twice.

    A limit of size is one call's, not the operator's, and is not remembered.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, dict[Subject, str]] = {}
        self._key: str | None = None

    def of(self, name: str) -> dict[Subject, str]:
        """What was refused of one operator, and how; the same dictionary each time, also for what is yet to come."""
        with self._lock:
            return self._known.setdefault(name, {})

    def keep(self, device: str) -> None:
        """From now on share what is refused with other processes, for this kind of device on this machine."""
        with self._lock:
            self._key = f"{device}, {stored.host()}"
            for (name, *subject), kind in self._stored(self._key).items():
                self._known.setdefault(name, {})[tuple(subject)] = kind

    def add(self, name: str, dtype: torch.dtype | None, device: str, kind: str) -> None:
        """Remember a refusal."""
        if kind == NO_SIZE:
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
        """What other processes have found refused; nothing where the file holds anything else."""
        found: dict[Refused, str] = {}
        try:
            for name, dtype, device, kind in stored.load(FILE, key) or ():
                known = getattr(torch, dtype, None) if dtype else None
                if kind not in KINDS or (dtype and not isinstance(known, torch.dtype)):
                    raise ValueError(f"{dtype!r}, {kind!r}")
                found[name, known, device] = kind
        except (TypeError, ValueError) as error:
            _log.warning("the refusals in %s are ignored: %s", FILE, error)
            return {}
        return found


def _plain(dtype: torch.dtype | None) -> str:
    """A dtype's name, empty for none."""
    return "" if dtype is None else str(dtype).removeprefix("torch.")


#: The refusals of this process.
refusals = Refusals()
