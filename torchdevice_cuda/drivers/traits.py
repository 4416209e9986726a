"""Traits: properties of a driver's devices that decide how torch has to be changed for them.

A driver declares its traits; a patch says which ones it is for. Neither knows the other's name.
"""

from __future__ import annotations

import enum


class Trait(enum.Flag):
    """One fact about a driver's devices each."""

    #: There is no CUDA GPU: torch.cuda is answered by us, and so is what torch asks of CUDA elsewhere.
    SUBSTITUTE = enum.auto()
    #: A "cuda" tensor is really a tensor of another device type: requests for CUDA are translated.
    TRANSLATED = enum.auto()
    #: Requests follow the redirection table: those for CUDA, for the CPU and for no device.
    REDIRECTS = enum.auto()
    #: The devices are main memory, and the host's processor computes on them.
    HOST_MEMORY = enum.auto()
    #: A "cuda" tensor is a CPU tensor: only a mark beside it tells that the program put it on CUDA.
    CPU_TENSORS = enum.auto()
    #: A tensor on the device tells the program that it is CUDA's, and torch the truth.
    DISGUISED = enum.auto()
    #: The backend lacks operators and dtypes that CUDA has: it refuses, and what it refuses goes elsewhere.
    PARTIAL = enum.auto()
    #: Memory of the device reaches no other process: not a forked child, not a worker, not a receiver.
    UNSHARED = enum.auto()
    #: A copy that does not wait can be overtaken by what the program does next.
    RACING_COPIES = enum.auto()
    #: The device is compiled by us and registered with torch, which was built without it.
    NATIVE = enum.auto()
    #: Requests that do not name CUDA go to the accelerator. Declared by no driver: it is the policy in force.
    ACCELERATES = enum.auto()
    #: Requests are counted for a report. Declared by no driver: the user asks for it.
    COUNTED = enum.auto()
    #: torch.compile generates Triton for the device. Declared by no driver: the user asks for it.
    TRITON_CODE = enum.auto()


NONE = Trait(0)
