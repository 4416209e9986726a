"""What triton's driver for NVIDIA's GPUs asks the GPU, and what it is answered here."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..drivers import Driver
    from ..drivers.base import DeviceProperties

#: What a cubin says of its kernels: registers, bytes of stack, threads of a block at most, by NVIDIA's numbers.
_REGISTERS, _FRAME, _MOST_THREADS = 0x2F, 0x11, 0x05
#: An attribute's value follows it, with its size.
_SIZED = 4
_MOST_THREADS_OF_A_BLOCK = 1024


def _sections(cubin: bytes) -> Iterator[tuple[str, bytes]]:
    """The named parts of an ELF file of 64 bits."""
    start, size, count, names_at = (
        struct.unpack_from("<Q", cubin, 0x28)[0],
        *struct.unpack_from("<HHH", cubin, 0x3A),
    )
    headers = [struct.unpack_from("<IIQQQQ", cubin, start + index * size) for index in range(count)]
    names = headers[names_at][4]
    for name, _, _, _, offset, length in headers:
        end = cubin.index(b"\0", names + name)
        yield cubin[names + name : end].decode(), cubin[offset : offset + length]


def _attributes(section: bytes) -> Iterator[tuple[int, bytes]]:
    """Attributes and their values, of a part in NVIDIA's format."""
    at = 0
    while at + 4 <= len(section):
        form, attribute, size = struct.unpack_from("<BBH", section, at)
        at += 4
        if form == _SIZED:
            yield attribute, section[at : at + size]
            at += size


def resources(cubin: bytes) -> tuple[int, int, int]:
    """Registers of a thread, words that it spills, and threads that a block may have, as the compiler wrote them."""
    registers = frame = 0
    threads = _MOST_THREADS_OF_A_BLOCK
    for name, section in _sections(cubin):
        if not name.startswith(".nv.info"):
            continue
        for attribute, value in _attributes(section):
            if attribute == _REGISTERS and len(value) == 8:
                registers = max(registers, struct.unpack("<II", value)[1])
            elif attribute == _FRAME and len(value) == 8:
                frame = max(frame, struct.unpack("<II", value)[1])
            elif attribute == _MOST_THREADS and len(value) == 12:
                x, y, z = struct.unpack("<III", value)
                threads = x * y * z
    return registers, frame // 4, threads


class Utilities:
    """``driver.active.utils``: what is a C module over libcuda on the GPU."""

    def __init__(self, driver: Driver, answers: int) -> None:
        """``answers``: how many things ``load_binary`` says; releases differ."""
        self._driver, self._answers = driver, answers

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[int, ...]:
        """A module, a function, and what the function uses. Nothing is loaded: nothing here runs it."""
        return (id(kernel), id(kernel), *resources(kernel))[: self._answers]

    def unload_module(self, module: int) -> None:
        """Nothing was loaded."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        """The properties that triton knows."""
        facts: DeviceProperties = self._driver.facts(device)
        return {
            "max_shared_mem": facts.shared_memory_per_block_optin,
            "max_num_regs": facts.regs_per_multiprocessor,
            "multiprocessor_count": facts.multi_processor_count,
            "warpSize": facts.warp_size,
            "sm_clock_rate": facts.clock_rate,
            "mem_clock_rate": facts.memory_clock_rate,
            "mem_bus_width": facts.memory_bus_width,
        }

    def get_device_capability(self, device: int) -> tuple[int, int]:
        """The compute capability claimed."""
        facts = self._driver.facts(device)
        return facts.major, facts.minor

    def set_printf_fifo_size(self, size: int) -> None:
        """What kernels print is written at once."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError(f"triton asks NVIDIA's driver for {name}, and there is none: the GPU is emulated")

        return refuse


#: Makes a launcher for a kernel's source and metadata.
Launcher = Callable[[Any, Any], Callable[..., None]]
