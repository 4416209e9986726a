"""CUDA's refusals during capture, as far as the called operators reveal them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ...report.unsupported import not_supported
from .captures import UNSUPPORTED
from .mode import uncapturable
from .operators import MASKS, Facts

if TYPE_CHECKING:
    from ..streams import Capture
    from .draws import Draws
    from .journal import Journal

Arguments = tuple[Any, ...]
Keywords = dict[str, Any]

PAGEABLE = (
    "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. Please use "
    "tensor.pin_memory() or allocate the tensor with pin_memory=True."
)


#: Namespaces of the operators that communicate with other processes.
COLLECTIVES = ("c10d::", "_c10d_functional::", "_c10d_functional_autograd::")


class Refusals:
    """The refusals of one capture. ``shared``: GPU memory and host memory cannot be told apart."""

    def __init__(self, capture: Capture, journal: Journal, draws: Draws, shared: bool, accelerates: bool) -> None:
        self._capture, self._journal, self._draws = capture, journal, draws
        self._shared = shared
        #: whether redirected data is on the GPU, too
        self._accelerates = accelerates

    def check(self, facts: Facts, given: list[torch.Tensor], args: Arguments, kwargs: Keywords) -> None:
        """Raise CUDA's error if the host would wait for the GPU, or if its memory may not stay valid."""
        if facts.name.startswith(COLLECTIVES):
            raise uncapturable(f"the collective {facts.name}")
        known = self._shared and all(map(self._journal.is_value, given))
        if facts.waits_in(args, kwargs) and not known:
            raise self._capture.fail(UNSUPPORTED)
        if self._shared:
            self._refuse_pinned_copy(facts, args, kwargs)
            return
        generator = facts.generator_of(args, kwargs)
        if generator is not None and generator.device.type != "cpu" and not self._draws.knows(generator):
            raise RuntimeError("Attempt to increase offset for a CUDA generator not in capture mode.")
        if facts.name == "aten::lift_fresh" and not self._accelerates:
            raise RuntimeError(PAGEABLE)
        hosts = [tensor for tensor in given if tensor.device.type == "cpu"]
        if facts.indexes and any(tensor.dtype not in MASKS for tensor in hosts[:-1] or hosts if tensor.dim()):
            raise RuntimeError(PAGEABLE)
        if facts.copies:
            self._refuse_copy(hosts, args, kwargs)

    def _refuse_copy(self, hosts: list[torch.Tensor], args: Arguments, kwargs: Keywords) -> None:
        """Refuse a copy between the host and the GPU."""
        asked = kwargs.get("device")
        leaves = isinstance(asked, torch.device) and asked.type == "cpu"
        if leaves or not all(tensor.is_pinned() for tensor in hosts):
            raise RuntimeError(PAGEABLE)
        if hosts and len(args) > 1 and _waits(args, kwargs):
            raise self._capture.fail(UNSUPPORTED)

    def _refuse_pinned_copy(self, facts: Facts, args: Arguments, kwargs: Keywords) -> None:
        """Refuse a copy if only pinned memory is known to be the host's."""
        if facts.name != "aten::copy_" or not _waits(args, kwargs):
            return
        one, other = args[0], args[1]
        if one.is_pinned() != other.is_pinned() and not any(map(self._journal.is_value, (one, other))):
            raise self._capture.fail(UNSUPPORTED)


def _waits(args: Arguments, kwargs: Keywords) -> bool:
    """Return whether ``copy_(self, src, non_blocking)`` is blocking."""
    return not (args[2] if len(args) > 2 else kwargs.get("non_blocking"))


def check_layout(name: str, found: list[torch.Tensor]) -> None:
    """Raise for tensors whose memory a graph cannot store."""
    for tensor in found:
        if tensor.layout is not torch.strided:
            raise not_supported(
                f"{name} in a capture",
                f"{name} is given or makes a tensor of layout {tensor.layout}, which a CUDA graph cannot keep in "
                "one place on this driver of torchdevice_cuda: use dense tensors in the capture",
            )
