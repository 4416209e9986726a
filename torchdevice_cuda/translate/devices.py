"""The hot path: from the device a program names to the device its tensor lives on.

Answers are kept per request, so that a call costs one dictionary look-up; what cannot be kept (the ``cpu:-1`` toggle,
integers, which mean the current accelerator) is worked out each time.
"""

from __future__ import annotations

import logging
import operator
import re
import sys
import weakref
from typing import TYPE_CHECKING, Any

import torch

from .callers import asked_by_program
from .policy import CPU, FAITHFUL, Override, Request, default_policy, destination

if TYPE_CHECKING:
    from ..drivers import Driver
    from ..settings import Settings

_log = logging.getLogger("torchdevice_cuda")
_TOGGLE = "cpu:-1"
_SWEEP_ABOVE = 4096


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
        #: Answers by request (strings and ``torch.device``), and those among them whose request names CUDA. Hot paths
        #: read both; a redirection that is to be logged at each of its call sites is in neither.
        self.cache: dict[Any, torch.device] = {}
        self.on_cuda: dict[Any, torch.device] = {}
        self._cuda_requests: set[Any] = set()
        self.marks = Marks()
        self._sites: set[tuple[str, int, str]] = set()

    def device(self, asked: Any) -> torch.device:
        """Where a request goes; torch's and CUDA's own errors for what is no device or does not exist."""
        known = self.cache.get(asked) if isinstance(asked, (str, torch.device)) else None
        return known if known is not None else self.resolve(asked)

    def resolve(self, asked: Any) -> torch.device:
        """The same, worked out from scratch."""
        if asked.__class__ is str and asked == _TOGGLE:
            self.override.toggle()
            self.cache.clear()
            return torch.device(CPU)
        device = as_device(asked)
        if device.type == "cuda" and device.index is not None:
            self.driver.check(device.index)
        found = destination(Request(device.type, device.index), self.accelerator, self.policy, self.override.on)
        redirected = found != Request(device.type, device.index)
        moved_off_cpu = redirected and device.type == CPU
        if moved_off_cpu and not asked_by_program():
            return device
        if redirected:
            translated = torch.device(found.type) if found.index is None else torch.device(found.type, found.index)
            self.log(str(device), translated)
        else:
            translated = device
        if isinstance(asked, (str, torch.device)):
            if device.type == "cuda":
                self._cuda_requests.add(asked)
            # Torch's own requests for the CPU are meant: who asks is looked at each time.
            if not moved_off_cpu and not (redirected and _log.isEnabledFor(logging.INFO)):
                self.cache[asked] = translated
                if device.type == "cuda":
                    self.on_cuda[asked] = translated
        return translated

    def names_cuda(self, asked: Any) -> bool:
        """Whether a request that has been translated names CUDA; an integer always does."""
        if asked.__class__ is str or asked.__class__ is torch.device:
            return asked in self._cuda_requests
        return isinstance(asked, str) and asked in self._cuda_requests or as_device(asked).type == "cuda"

    def injects(self) -> bool:
        """Whether requests for no device go to the accelerator here and now.

        Not while the program has chosen a device for a block, not in a forked child (an accelerator does not survive a
        fork) and not in a worker that prepares data.
        """
        return (
            self.unasked is not None
            and torch.utils._device.CURRENT_DEVICE is None
            and asked_by_program()
            and not self.driver.in_bad_fork()
            and torch.utils.data.get_worker_info() is None
        )

    def stay_home(self) -> None:
        """From now on leave what does not name CUDA on the CPU: for forked children and workers."""
        self.policy, self.unasked = FAITHFUL, None
        self.cache.clear()

    def log(self, asked: str, given: torch.device) -> None:
        """Say once per call site what was redirected."""
        if not _log.isEnabledFor(logging.INFO):
            return
        frame = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("torch", "torchdevice_cuda"):
            frame = frame.f_back
        if frame is None:
            return
        site = (frame.f_code.co_filename, frame.f_lineno, asked)
        if site not in self._sites:
            self._sites.add(site)
            _log.info("%s:%d: %s goes to %s", *site, given)


def as_device(asked: Any) -> torch.device:
    """A request as torch reads it. An integer is an accelerator's index, which here means CUDA's."""
    if isinstance(asked, (str, torch.device)):
        return torch.device(asked)
    if isinstance(asked, bytes):
        return torch.device(asked.decode())
    if hasattr(asked, "__index__") and not isinstance(asked, bool):
        return torch.device("cuda", operator.index(asked))
    return torch.device(asked)


def names_a_device(asked: Any) -> bool:
    """Whether torch would read this as a device; what it would not is left to torch, whose error says so."""
    if isinstance(asked, (str, torch.device, bytes)):
        return True
    return hasattr(asked, "__index__") and not isinstance(asked, (bool, torch.Tensor))


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
        #: The living marks, by ``id``; hot paths read and write it themselves and then see to :attr:`limit`.
        self.refs: dict[int, weakref.ref[torch.Tensor]] = {}
        self.limit = _SWEEP_ABOVE

    def add(self, tensor: torch.Tensor) -> torch.Tensor:
        """Mark a tensor, and return it."""
        self.refs[id(tensor)] = weakref.ref(tensor)
        if len(self.refs) > self.limit:
            self.sweep()
        return tensor

    def __contains__(self, tensor: torch.Tensor) -> bool:
        reference = self.refs.get(id(tensor))
        return reference is not None and reference() is tensor

    def sweep(self) -> None:
        """Drop what has died; as often as the number of the living asks for, so that the cost per mark is constant."""
        for key, reference in list(self.refs.items()):
            # Another thread may have marked a new tensor at the address meanwhile.
            if reference() is None and self.refs.get(key) is reference:
                del self.refs[key]
        self.limit = max(_SWEEP_ABOVE, 2 * len(self.refs))
