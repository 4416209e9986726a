"""The hot path: from the device a program names to the device its tensor lives on.

Answers are kept per request, so that a call costs one dictionary look-up; what cannot be kept (the ``cpu:-1`` toggle,
integers, which mean the current accelerator) is worked out each time.
"""

from __future__ import annotations

import logging
import operator
import os
import re
import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from ..report import Counters
from .callers import asked_by_program, verdicts
from .policy import CPU, FAITHFUL, Override, Request, default_policy, destination

if TYPE_CHECKING:
    from ..drivers import Driver
    from ..settings import Settings

_log = logging.getLogger("torchdevice_cuda")
_TOGGLE = "cpu:-1"
_worker_info = torch.utils.data.get_worker_info
_function_modes = torch._C._is_torch_function_mode_enabled
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
        #: Tensors that went to the accelerator unasked: to the program they are the CPU's.
        self.at_home = Marks()
        #: Counts every request where the user asked for a report; answers are not kept then.
        self._disguised = self.accelerator not in ("cuda", CPU) and settings.identity == "cuda"
        self.counters = None
        if settings.report:
            self.counters = Counters(driver.name, self._shown(torch.device(self.accelerator, 0)))
        self._sites: set[tuple[str, int, str]] = set()
        self.forked = False
        if self.unasked is not None and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_in_child(self))

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
        found = destination(
            Request(device.type, device.index), self.accelerator, self.policy, self.override.on or self._stays_home()
        )
        redirected = found != Request(device.type, device.index)
        moved_off_cpu = redirected and device.type == CPU
        if moved_off_cpu and not asked_by_program():
            return device
        if redirected:
            translated = torch.device(found.type) if found.index is None else torch.device(found.type, found.index)
            self.log(str(device), translated)
        else:
            translated = device
        if self.counters is not None:
            site = _call_site()
            self.counters.count(str(device), self._shown(translated), f"{site[0]}:{site[1]}" if site else "torch")
        if isinstance(asked, (str, torch.device)):
            if device.type == "cuda":
                self._cuda_requests.add(asked)
            # Torch's own requests for the CPU are meant: who asks is looked at each time.
            logged = redirected and _log.isEnabledFor(logging.INFO)
            if self.counters is None and not moved_off_cpu and not logged:
                self.cache[asked] = translated
                if device.type == "cuda":
                    self.on_cuda[asked] = translated
        return translated

    def _shown(self, device: torch.device) -> str:
        """A device in a report: what the program is told it is, then what it really is where that is something else."""
        if not self._disguised or device.type != self.accelerator:
            return str(device)
        index = device.index or 0
        return f"cuda:{index} ({device.type}:{index})"

    def names_cuda(self, asked: Any) -> bool:
        """Whether a request that has been translated names CUDA; an integer always does."""
        if asked.__class__ is str or asked.__class__ is torch.device:
            return asked in self._cuda_requests
        return isinstance(asked, str) and asked in self._cuda_requests or as_device(asked).type == "cuda"

    def names_accelerator(self, asked: Any) -> bool:
        """Whether a request names CUDA, or this machine's accelerator by its own name."""
        return self.names_cuda(asked) or (self.accelerator != CPU and as_device(asked).type == self.accelerator)

    def is_at_home(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor on the accelerator, or the one it is a view of, is the CPU's to the program."""
        return tensor in self.at_home or (tensor._base is not None and tensor._base in self.at_home)

    def injects(self) -> bool:
        """Whether requests for no device go to the accelerator here and now.

        Not while the program has chosen a device for a block, not in a forked child (an accelerator does not survive a
        fork) and not in a worker that prepares data.
        """
        return (
            self.unasked is not None
            # With torch.device(...) and set_default_device(...) are function modes; the program's own have been called.
            and not _function_modes()
            and not self._stays_home()
            and asked_by_program()
        )

    def injects_for(self, frame: FrameType) -> bool:
        """The same for a request made by this frame, as far as that can be told at once; ``False`` says nothing."""
        return bool(
            verdicts[frame.f_globals.get("__name__")]
            and self.unasked is not None
            and not self.forked
            and not _function_modes()
            and _worker_info() is None
            and not _log.isEnabledFor(logging.INFO)
        )

    def _stays_home(self) -> bool:
        """Whether this process prepares data or was forked: requests for the CPU are meant there."""
        return self.unasked is not None and ((self.forked and self.driver.in_bad_fork()) or _worker_info() is not None)

    def stay_home(self) -> None:
        """From now on leave what does not name CUDA on the CPU: for forked children and workers."""
        self.policy, self.unasked = FAITHFUL, None
        self.cache.clear()

    def log(self, asked: str, given: torch.device) -> None:
        """Say once per call site what was redirected."""
        if not _log.isEnabledFor(logging.INFO):
            return
        place = _call_site()
        if place is None:
            return
        site = (*place, asked)
        if site not in self._sites:
            self._sites.add(site)
            _log.info("%s:%d: %s goes to %s", *site, given)


def _call_site() -> tuple[str, int] | None:
    """File and line of the program that made the request; ``None`` if torch made it by itself."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("torch", "torchdevice_cuda"):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _in_child(translator: Translator) -> Callable[[], None]:
    """What a forked child runs: it decides anew. Holds the translator weakly, fork handlers live for ever."""
    reference = weakref.ref(translator)

    def forked() -> None:
        living = reference()
        if living is not None:
            living.forked = True
            living.cache.clear()

    return forked


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


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """A tensor's memory on the host; ``None`` for what has none of its own (sparse tensors, wrappers of others).

    What is no tensor has none either: a call with it goes on to torch's own error.
    """
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided or tensor.device.type != "cpu":
        return None
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None


class Marks:
    """Tensors known to be "on CUDA" where CUDA's memory and the CPU's are the same.

    A tensor made for CUDA and one made for the CPU are alike on the ``cpu`` driver; moving between the two must copy
    (a program writes into the one and reads the other), moving to where the tensor is must not. Marks are kept beside
    the tensors, weakly: an attribute would change how they pickle.

    What a move to CUDA made is known by its memory too, so that a module's parameters (which take the memory over) and
    whatever shares it (``detach()``, ``state_dict()``, views) are on CUDA: ``{k: v.cpu() for k, v in state.items()}``
    is how programs take a snapshot. Factories mark the tensor alone, which is all that their speed allows.
    """

    def __init__(self) -> None:
        #: The living marks, by ``id``; hot paths read and write it themselves and then see to :attr:`limit`.
        self.refs: dict[int, weakref.ref[torch.Tensor]] = {}
        self.limit = _SWEEP_ABOVE
        #: The living storages that moves made, by address.
        self._storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def add(self, tensor: torch.Tensor) -> torch.Tensor:
        """Mark a tensor, and return it."""
        self.refs[id(tensor)] = weakref.ref(tensor)
        if len(self.refs) > self.limit:
            self.sweep()
        return tensor

    def add_moved(self, tensor: torch.Tensor) -> torch.Tensor:
        """Mark a tensor in memory of its own, with all that will share the memory, and return it."""
        storage = _storage(tensor)
        if storage is not None:
            address, storages = storage._cdata, self._storages
            storages[address] = weakref.ref(storage, lambda _: storages.pop(address, None))
        return self.add(tensor)

    def __contains__(self, tensor: torch.Tensor) -> bool:
        reference = self.refs.get(id(tensor))
        if reference is not None and reference() is tensor:
            return True
        storage = _storage(tensor) if self._storages else None
        return storage is not None and storage._cdata in self._storages

    def sweep(self) -> None:
        """Drop what has died; as often as the number of the living asks for, so that the cost per mark is constant."""
        for key, reference in list(self.refs.items()):
            # Another thread may have marked a new tensor at the address meanwhile.
            if reference() is None and self.refs.get(key) is reference:
                del self.refs[key]
        self.limit = max(_SWEEP_ABOVE, 2 * len(self.refs))
