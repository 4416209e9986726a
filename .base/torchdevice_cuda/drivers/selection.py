"""Which driver a process gets, and why."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..settings import Settings
    from .base import Driver


class DriverUnavailable(RuntimeError):
    """The driver that was asked for cannot work on this machine."""


@dataclasses.dataclass(frozen=True)
class Machine:
    """What this machine's torch can reach; read from ``torch._C``, which exists before torch.cuda does."""

    cuda_build: bool
    cuda_devices: int
    mps_build: bool = False
    mps_available: bool = False

    @classmethod
    def look(cls, torch_c: ModuleType) -> Machine:
        """Ask the compiled part of torch."""
        built = bool(getattr(torch_c, "_has_cuda", False))
        count = getattr(torch_c, "_cuda_getDeviceCount", None)
        mps_built, mps = bool(getattr(torch_c, "_has_mps", False)), getattr(torch_c, "_mps_is_available", None)
        return cls(
            cuda_build=built,
            cuda_devices=count() if built and count is not None else 0,
            mps_build=mps_built,
            mps_available=bool(mps_built and mps is not None and mps()),
        )


def _cuda(settings: Settings, machine: Machine) -> tuple[Callable[..., Driver] | None, str]:
    from .cuda import CudaDriver

    if machine.cuda_devices:
        return CudaDriver, f"torch sees {machine.cuda_devices} CUDA GPU(s)"
    return None, "no CUDA GPU answers" if machine.cuda_build else "this torch is built without CUDA"


def _mps(settings: Settings, machine: Machine) -> tuple[Callable[..., Driver] | None, str]:
    from ..native import build
    from .mps import MpsDriver

    if machine.mps_available and not settings.emulate_mps:
        return MpsDriver, "torch sees an Apple GPU"
    if settings.emulate_mps:
        try:
            build.library("mps", build=settings.build)
        except build.BuildError as error:
            return None, str(error)
        return MpsDriver, "TORCHDEVICE_EMULATE_MPS=1: a device in host memory answers as the Apple GPU"
    return None, "no Apple GPU answers" if machine.mps_build else "this torch is built without MPS"


def _virtual(settings: Settings, machine: Machine) -> tuple[Callable[..., Driver] | None, str]:
    from ..native import build
    from .virtual import VirtualDriver

    try:
        build.library("cuda", build=settings.build)
    except build.BuildError as error:
        return None, str(error)
    return VirtualDriver, "the native device is built"


def _cpu(settings: Settings, machine: Machine) -> tuple[Callable[..., Driver] | None, str]:
    from .cpu import CpuDriver

    return CpuDriver, "the CPU is always there"


_Candidate = Callable[["Settings", Machine], "tuple[Callable[..., Driver] | None, str]"]
#: In the order in which ``auto`` tries them.
CANDIDATES: dict[str, _Candidate] = {"cuda": _cuda, "mps": _mps, "virtual": _virtual, "cpu": _cpu}


def _hint() -> None:
    """Tell, once for a process and its children, how to get more than the CPU."""
    if os.environ.setdefault(_HINTED, str(os.getpid())) == str(os.getpid()):
        print(
            "torchdevice_cuda: using the cpu driver; python -m torchdevice_cuda --build, once, gives a virtual GPU",
            file=sys.stderr,
        )


_HINTED = "_TORCHDEVICE_HINTED"


def select(settings: Settings, torch_c: ModuleType) -> Driver:
    """The driver for these settings on this machine; :class:`DriverUnavailable` where the one asked for cannot work."""
    machine = Machine.look(torch_c)
    if settings.driver != "auto":
        candidate = CANDIDATES.get(settings.driver)
        if candidate is None:
            raise DriverUnavailable(
                f"driver {settings.driver!r} is not part of this version; there are: {', '.join(CANDIDATES)}"
            )
        make, reason = candidate(settings, machine)
        if make is None:
            raise DriverUnavailable(f"driver {settings.driver!r} was asked for, but {reason}")
        return make(settings, f"asked for ({reason})")
    passed_over: list[str] = []
    for name, candidate in CANDIDATES.items():
        make, reason = candidate(settings, machine)
        if make is not None:
            if name == "cpu" and not settings.build:
                _hint()
            driver = make(settings, reason)
            driver.passed_over = tuple(passed_over)
            return driver
        passed_over.append(f"not {name}: {reason}")
    raise AssertionError("the cpu driver is always available")
