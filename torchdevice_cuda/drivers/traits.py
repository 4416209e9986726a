"""Traits: properties of a driver's devices that determine how torch must be changed for them.

A driver declares its traits; a patch declares which ones it needs. Neither knows the other's name.
"""

from __future__ import annotations

import enum


class Trait(enum.Flag):
    """Properties of a driver's devices."""

    #: There is no CUDA GPU: torchdevice_cuda implements torch.cuda and torch's other uses of CUDA.
    SUBSTITUTE = enum.auto()
    #: A "cuda" tensor is really a tensor of another device type: requests for CUDA are translated.
    TRANSLATED = enum.auto()
    #: Requests follow the policy: those for CUDA, for the CPU and for no device.
    REDIRECTS = enum.auto()
    #: The devices are in main memory, and the host's processor computes.
    HOST_MEMORY = enum.auto()
    #: A "cuda" tensor is a CPU tensor: only a mark beside it records that the program put it on CUDA.
    CPU_TENSORS = enum.auto()
    #: A tensor on the device reports CUDA to the program, and its real device to torch.
    DISGUISED = enum.auto()
    #: The backend lacks operators and dtypes of CUDA: what it refuses is computed elsewhere.
    PARTIAL = enum.auto()
    #: No other process can access device memory: no forked child, worker or receiver.
    UNSHARED = enum.auto()
    #: The program's next call can overtake an asynchronous copy.
    RACING_COPIES = enum.auto()
    #: The device is compiled by torchdevice_cuda and registered with torch, which was built without it.
    NATIVE = enum.auto()
    #: Requests that do not name CUDA go to the accelerator. No driver declares it: the policy in force adds it.
    ACCELERATES = enum.auto()
    #: Requests are counted for a report. No driver declares it: the user requests it.
    COUNTED = enum.auto()
    #: torch.compile generates Triton for the device. No driver declares it: the user requests it.
    TRITON_CODE = enum.auto()


NONE = Trait(0)
