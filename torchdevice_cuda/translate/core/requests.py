"""The hot path: from the device that a program names to the device of its tensor.

Answers are cached per request, so that a call costs one dictionary lookup. Requests that cannot be cached (the
``cpu:-1`` toggle, integers, which mean the current accelerator) are resolved each time.
"""

from __future__ import annotations

import contextvars
import logging
import operator
import os
import weakref
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from ...drivers.traits import Trait
from .apparent_devices import ApparentDevices
from .callers import asked_by_program, asks_first, program_site, verdicts
from .marks import Marks
from .policy import ACCELERATORS, CPU, FAITHFUL, Override, Request, default_policy, destination

if TYPE_CHECKING:
    from ...drivers import Driver
    from ...report import Counters
    from ...settings import Settings

_log = logging.getLogger("torchdevice_cuda")
#: Returns the CPU and toggles the override. torch does not accept it as a device, so it works only as text.
TOGGLE = "cpu:-1"
_worker = torch.utils.data._utils.worker
_function_modes = torch._C._is_torch_function_mode_enabled


#: Set while requests for the CPU are taken literally, whatever the override is.
cpu_is_meant: contextvars.ContextVar[bool] = contextvars.ContextVar("cpu_is_meant", default=False)


class Translator:
    """Device translation for one activation."""

    def __init__(self, driver: Driver, settings: Settings, counters: Counters | None = None) -> None:
        self.driver = driver
        self.accelerator = driver.device_type
        self.policy = default_policy(driver.redirects_by_default, settings.allow_redirects, settings.policy)
        if self.accelerator != CPU and not driver.device_count():
            self.policy = FAITHFUL  # the program sees no device: there is nowhere to redirect to
        self.override = Override()
        #: The target of requests for no device, or ``None`` to leave them to torch.
        self.default_target: torch.device | None = None
        if self.accelerator != CPU and destination(Request(None), self.accelerator, self.policy, False).type != CPU:
            self.default_target = torch.device(self.accelerator)
        #: Answers by request (strings and ``torch.device``), and those among them whose request names the accelerator.
        #: Hot paths read both; a redirection that is logged at each of its call sites is in neither.
        self.cache: dict[Any, torch.device] = {}
        self.on_gpu: dict[Any, torch.device] = {}
        self._gpu_requests: set[Any] = set()
        self.marks = Marks()
        self.apparent_devices = ApparentDevices(vars(torch._C.TensorBase)[f"is_{self.accelerator}"].__get__)
        self._disguised = Trait.DISGUISED in driver.traits
        #: Whether tensors report apparent devices to the program.
        self.tracks_apparent_devices = self._disguised and self.default_target is not None
        #: Counts every request if the user requested a report; answers are not cached then.
        self.counters = counters
        #: The last module that was constructed with the toggle as its device.
        self._toggled_for: list[weakref.ref[Any]] = []
        self._sites: set[tuple[str, int, str]] = set()
        self.forked = False
        if self.default_target is not None and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_in_child(self))

    def device(self, asked: Any) -> torch.device:
        """Return the target of a request; raise torch's or CUDA's own error for an invalid device."""
        known = self.cache.get(asked) if isinstance(asked, (str, torch.device)) else None
        return known if known is not None else self.resolve(asked)

    def resolve(self, asked: Any) -> torch.device:
        """Resolve a request without the cache."""
        if isinstance(asked, str) and asked == TOGGLE:
            if asks_first(self._toggled_for):
                self.override.toggle()
                self.cache.clear()
            return torch.device(CPU)
        device = as_device(asked)
        if device.type == "cuda" and device.index is not None:
            self.driver.check(device.index)
        for_now = cpu_is_meant.get()
        is_meant = for_now or self.override.on or self._stays_on_cpu()
        found = destination(Request(device.type, device.index), self.accelerator, self.policy, is_meant)
        redirected = found != Request(device.type, device.index)
        moved_off_cpu = redirected and device.type == CPU
        if moved_off_cpu and not asked_by_program():
            return device
        if redirected:
            # A target always has a type; an index is kept only if nothing is redirected.
            translated = torch.device(found.type or CPU)
            self.log(str(device), translated)
        else:
            translated = device
        self.count(device, translated)
        if isinstance(asked, (str, torch.device)):
            if device.type in ACCELERATORS:
                self._gpu_requests.add(asked)
            # Torch's own requests for the CPU are taken literally, so the caller is checked each time.
            logged = redirected and _log.isEnabledFor(logging.INFO)
            if self.counters is None and not moved_off_cpu and not logged and not for_now:
                self.cache[asked] = translated
                if device.type in ACCELERATORS:
                    self.on_gpu[asked] = translated
        return translated

    def count(self, asked: Any, given: torch.device) -> None:
        """Count a request for the report, if there is one; ``None`` stands for no device."""
        if self.counters is not None:
            site = program_site()
            words = "no device" if asked is None else str(as_device(asked))
            self.counters.count(words, self._shown(given), f"{site[0]}:{site[1]}" if site else "torch")

    def count_unnamed(self, made: Any) -> None:
        """Count a request of the program for no device, by its result; torch makes many such requests itself."""
        if isinstance(made, torch.Tensor) and asked_by_program():
            self.count(None, made.device)

    def _shown(self, device: torch.device) -> str:
        """Return a device as reports show it: the apparent one, then the real one if they differ."""
        if device.type == "cuda" and device.index is None:
            return f"cuda:{self.driver.current_device()}"
        if not self._disguised or device.type != self.accelerator:
            return str(device)
        index = device.index or 0
        return f"cuda:{index} ({device.type}:{index})"

    def names_accelerator(self, asked: Any) -> bool:
        """Return whether a translated request names the accelerator by any name; an integer always does."""
        if asked.__class__ is str or asked.__class__ is torch.device:
            return asked in self._gpu_requests
        return isinstance(asked, str) and asked in self._gpu_requests or as_device(asked).type in ACCELERATORS

    def believes_in_cpu(self) -> bool:
        """Return whether the program sees all accelerator tensors as the CPU's, since it has not requested CUDA yet."""
        return self.tracks_apparent_devices and not self.apparent_devices.cuda_named

    def applies_default_target(self) -> bool:
        """Return whether requests for no device go to the accelerator here and now.

        They do not while the program has chosen a device for a block, in a forked child (an accelerator does not
        survive a fork), and in a worker that prepares data.
        """
        return (
            self.default_target is not None
            # ``with torch.device(...)`` and ``set_default_device(...)`` are function modes; the program's own modes
            # were called before.
            and not _function_modes()
            and not self._stays_on_cpu()
            and asked_by_program()
        )

    def injects_for(self, frame: FrameType) -> bool:
        """Return whether the default target applies to a request by this frame, as far as that is known at once."""
        return bool(
            verdicts[frame.f_globals.get("__name__")]
            and self.default_target is not None
            and not self.forked
            and not _function_modes()
            and _worker._worker_info is None
            and not _log.isEnabledFor(logging.INFO)
        )

    def _stays_on_cpu(self) -> bool:
        """Return whether this process prepares data or was forked: requests for the CPU are taken literally there."""
        return self.default_target is not None and (
            (self.forked and self.driver.in_bad_fork()) or _worker._worker_info is not None
        )

    def stay_on_cpu(self) -> None:
        """Leave requests that do not name CUDA on the CPU from now on: for forked children and workers."""
        self.policy, self.default_target = FAITHFUL, None
        self.cache.clear()

    def log(self, asked: str, given: torch.device) -> None:
        """Log a redirection once per call site."""
        if not _log.isEnabledFor(logging.INFO):
            return
        place = program_site()
        if place is None:
            return
        site = (*place, asked)
        if site not in self._sites:
            self._sites.add(site)
            _log.info("%s:%d: %s goes to %s", *site, given)


def _in_child(translator: Translator) -> Callable[[], None]:
    """Return the fork handler that resets the cache in a child; it holds the translator weakly."""
    reference = weakref.ref(translator)

    def forked() -> None:
        living = reference()
        if living is not None:
            living.forked = True
            living.cache.clear()

    return forked


def as_device(asked: Any) -> torch.device:
    """Return a request as torch parses it. An integer is an accelerator's index, which here means CUDA's."""
    if isinstance(asked, (str, torch.device)):
        return torch.device(asked)
    if isinstance(asked, bytes):
        return torch.device(asked.decode())
    if hasattr(asked, "__index__") and not isinstance(asked, bool):
        return torch.device("cuda", operator.index(asked))
    return torch.device(asked)


def names_a_device(asked: Any) -> bool:
    """Return whether torch would accept this as a device; torch raises its own error for anything else."""
    if isinstance(asked, (str, torch.device, bytes)):
        return True
    return hasattr(asked, "__index__") and not isinstance(asked, (bool, torch.Tensor))
