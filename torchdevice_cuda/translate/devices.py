"""The hot path: from the device a program names to the device its tensor lives on.

Answers are kept per request, so that a call costs one dictionary look-up; what cannot be kept (the ``cpu:-1`` toggle,
integers, which mean the current accelerator) is worked out each time.
"""

from __future__ import annotations

import logging
import re
import sys
import weakref
from typing import TYPE_CHECKING, Any

import torch

from .policy import CPU, Override, Request, default_policy, destination

if TYPE_CHECKING:
    from ..drivers import Driver
    from ..settings import Settings

_log = logging.getLogger("torchdevice_cuda")
_TOGGLE = "cpu:-1"
_SWEEP_EVERY = 4096


class Translator:
    """Device translation for one activation."""

    def __init__(self, driver: Driver, settings: Settings) -> None:
        self.driver = driver
        self.accelerator = driver.device_type
        self.policy = default_policy(driver.redirects_by_default, settings.allow_redirects, settings.policy)
        self.override = Override()
        #: Where requests for no device go, or ``None`` to leave them to torch.
        self.unasked: torch.device | None = None
        if self.accelerator != CPU and destination(Request(None), self.accelerator, self.policy, False).type != CPU:
            self.unasked = torch.device(self.accelerator)
        self.cache: dict[Any, torch.device] = {}
        #: The requests in the cache that name CUDA, where CUDA's memory and the CPU's are the same.
        self.cuda_requests: set[Any] = set()
        self.marks = Marks()
        self._sites: set[tuple[str, int]] = set()

    def device(self, asked: Any) -> torch.device:
        """Where a request goes; torch's and CUDA's own errors for what is no device or does not exist."""
        known = self.cache.get(asked) if isinstance(asked, (str, torch.device)) else None
        return known if known is not None else self.resolve(asked)

    def resolve(self, asked: Any) -> torch.device:
        """The same, worked out from scratch."""
        if asked == _TOGGLE and isinstance(asked, str):
            self.override.toggle()
            self.cache.clear()
            return torch.device(CPU)
        if isinstance(asked, int) and not isinstance(asked, bool):
            device = torch.device("cuda", asked)
        else:
            device = torch.device(asked)
        if device.type == "cuda" and device.index is not None:
            self.driver.check(device.index)
        found = destination(Request(device.type, device.index), self.accelerator, self.policy, self.override.on)
        if found == Request(device.type, device.index):
            translated = device
        else:
            translated = torch.device(found.type) if found.index is None else torch.device(found.type, found.index)
            self._log(device, translated)
        if isinstance(asked, (str, torch.device)):
            if device.type == "cuda":
                self.cuda_requests.add(asked)
            self.cache[asked] = translated
        return translated

    def names_cuda(self, asked: Any) -> bool:
        """Whether a request that has been translated names CUDA."""
        return asked.__class__ is int or asked in self.cuda_requests

    def injects(self) -> bool:
        """Whether requests for no device go to the accelerator here and now.

        Not while the program has chosen a device for a block, not in a forked child (an accelerator does not survive a
        fork) and not in a worker that prepares data.
        """
        return (
            self.unasked is not None
            and torch.utils._device.CURRENT_DEVICE is None
            and not self.driver.in_bad_fork()
            and torch.utils.data.get_worker_info() is None
        )

    def _log(self, asked: torch.device, given: torch.device) -> None:
        """Say once per call site what was redirected."""
        if not _log.isEnabledFor(logging.INFO):
            return
        frame = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("torch", "torchdevice_cuda"):
            frame = frame.f_back
        if frame is None:
            return
        site = (frame.f_code.co_filename, frame.f_lineno)
        if site not in self._sites:
            self._sites.add(site)
            _log.info("%s:%d: %s goes to %s", *site, asked, given)


_HOST_FULL = re.compile(r"DefaultCPUAllocator: .*you tried to allocate (\d+) bytes")


def host_allocation_error(driver: Driver, error: RuntimeError) -> Exception:
    """CUDA's out-of-memory error for the host allocator's own; any other error is returned as it is."""
    match = _HOST_FULL.search(str(error))
    return driver.memory.out_of_memory(int(match[1]), driver.current_device()) if match else error


class Marks:
    """Tensors known to be "on CUDA" where CUDA's memory and the CPU's are the same.

    A tensor made for CUDA and one made for the CPU are alike on the ``cpu`` driver; moving between the two must copy
    (a program writes into the one and reads the other), moving to where the tensor is must not. Marks are kept beside
    the tensors, weakly: an attribute would change how they pickle.
    """

    def __init__(self) -> None:
        self._refs: dict[int, weakref.ref[torch.Tensor]] = {}
        self._until_sweep = _SWEEP_EVERY

    def add(self, tensor: torch.Tensor) -> torch.Tensor:
        """Mark a tensor, and return it."""
        self._refs[id(tensor)] = weakref.ref(tensor)
        self._until_sweep -= 1
        if not self._until_sweep:
            self._sweep()
        return tensor

    def __contains__(self, tensor: torch.Tensor) -> bool:
        reference = self._refs.get(id(tensor))
        return reference is not None and reference() is tensor

    def discard(self, tensor: torch.Tensor) -> None:
        """Forget a tensor."""
        self._refs.pop(id(tensor), None)

    def _sweep(self) -> None:
        """Drop what has died; as often as the number of the living asks for, so that the cost per mark is constant."""
        self._refs = {key: reference for key, reference in list(self._refs.items()) if reference() is not None}
        self._until_sweep = max(_SWEEP_EVERY, len(self._refs))
