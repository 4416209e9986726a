"""Launches of compiled kernels: arguments and memory as C++ wants them, and what went wrong as CUDA says it."""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from ...drivers.errors import cuda_error
from ...settings.sanitizer import MEMCHECK
from . import build
from .ir import Type, Unsupported
from .translate import Translation, translate

if TYPE_CHECKING:
    from ...rehearsal.kernels import Counts

#: First addresses, and sizes.
Ranges = Sequence[tuple[int, int]]
_BAD_ADDRESS, _ASSERTION, _NO_PROGRESS, _MISALIGNED = 1, 2, 3, 5
#: CUDA's codes.
_ADDRESS_ERRORS = {_BAD_ADDRESS: 700, _MISALIGNED: 716}
_INTEGERS, _ALL_BITS = {"i1", "i8", "i16", "i32", "i64"}, (1 << 64) - 1
_FLOATS = {"f16": "<e6x", "f32": "<f4x", "f64": "<d"}
_WRITE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
_REFRESH = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
#: The launches that run, by address: what gives each of them a new table of memory.
_refreshing: dict[int, Callable[[], None]] = {}


def _write(text: int, length: int) -> None:
    """Write what a kernel prints."""
    sys.stdout.write(ctypes.string_at(text, length).decode(errors="replace"))


def _refresh(launch: int) -> None:
    """Give a launch a table of all memory that is accessible by now."""
    _refreshing[launch]()


_WRITING, _REFRESHING = _WRITE(_write), _REFRESH(_refresh)
#: The same, of a launch that only counts.
_IGNORING_WRITE, _IGNORING_REFRESH = _WRITE(lambda text, length: None), _REFRESH(lambda launch: None)
#: The types of products, by the type of their elements; those of eight bits have no rate of their own.
_PRODUCTS = {"tf32": "tf32", "f16": "c10::Half", "bf16": "c10::BFloat16", "f64": "double", "f32": "float"}


class _Launch(ctypes.Structure):
    """``struct Launch`` of ``runtime/memory.h``."""

    _fields_ = (
        ("grid", ctypes.c_int32 * 3),
        ("threads", ctypes.c_int32),
        ("arguments", ctypes.c_char_p),
        ("table", ctypes.c_void_p),
        ("refresh", _REFRESH),
        ("write", _WRITE),
        ("failure", ctypes.c_int32),
        ("site", ctypes.c_int32),
        ("program", ctypes.c_int32 * 3),
        ("reserved", ctypes.c_int32),
        ("address", ctypes.c_uint64),
        ("started", ctypes.c_int64),
        ("ended", ctypes.c_int64),
        ("signals", ctypes.c_void_p),
        ("error", ctypes.c_void_p * 3),
        ("counts", ctypes.c_void_p),
    )


_PYTHON = ("PyGILState_Ensure", "PyErr_CheckSignals", "PyErr_Fetch", "PyGILState_Release")
#: ``struct Signals``: Python's functions for the thread that handles its signals.
_SIGNALS = (ctypes.c_void_p * len(_PYTHON))(
    *(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in _PYTHON)
)


def _raise(error: Sequence[int | None]) -> None:
    """Raise what a handler of a signal raised while a kernel ran."""
    ctypes.pythonapi.PyErr_Restore(*(ctypes.c_void_p(one) for one in error))


def _write_table(ranges: Ranges, is_exact: bool) -> ctypes.Array[ctypes.c_char]:
    """Return ``struct Table``: ranges in order, those that overlap as one, and unless ``is_exact`` those that touch."""
    merged: list[list[int]] = []
    for first, size in sorted(ranges):
        if merged and first + is_exact <= merged[-1][0] + merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], first + size - merged[-1][0])
        elif size:
            merged.append([first, size])
    flat = [number for pair in merged for number in pair]
    return ctypes.create_string_buffer(struct.pack(f"<{len(flat) + 1}Q", len(merged), *flat))


def _choose_packer(type_: Type) -> Callable[[Any], bytes]:
    """Return what writes an argument into the eight bytes of its slot."""
    element = type_.element
    if type_.is_pointer or element.startswith("desc<"):
        return struct.Struct("<Q").pack
    if element in _INTEGERS:
        return lambda value: (int(value) & _ALL_BITS).to_bytes(8, "little")
    if element == "bf16":
        return lambda value: struct.pack("<f", value)[2:].ljust(8, b"\0")
    if element in _FLOATS:
        return struct.Struct(_FLOATS[element]).pack
    raise Unsupported(f"an argument of the type {element}")


class Compiled:
    """A kernel that was compiled for the host."""

    def __init__(
        self, ttir: str, name: str, contracts: bool, tools: Collection[str] = (), is_counted: bool = False
    ) -> None:
        """Compile a kernel, for these tools or to be counted; raise `Unsupported` where that is not possible."""
        translation: Translation = translate(ttir, is_sanitized=bool(tools), is_counted=is_counted)
        self._is_exact = MEMCHECK in tools or is_counted
        self._product_type = translation.product_type
        self._name, self._sites = name, translation.sites
        self._packers = [_choose_packer(type_) for type_ in translation.arguments]
        self._run = build.load(translation, contracts)
        self._run.argtypes, self._run.restype = (ctypes.c_void_p,), ctypes.c_int

    def check_arguments(self, count: int) -> None:
        """Raise `Unsupported` where the arguments are not those of the TTIR."""
        if count != len(self._packers):
            raise Unsupported(f"{count} arguments for {len(self._packers)} of its TTIR")

    def count(self, grid: tuple[int, int, int], arguments: Sequence[Any], ranges: Ranges) -> Counts | None:
        """Return what all programs of a grid do, by some of them; the kernel is compiled to be counted."""
        from ...rehearsal.kernels import TYPES, Counts  # most programs count none

        packed = b"".join([pack(value) for pack, value in zip(self._packers, arguments, strict=True)])
        table = _write_table(ranges, self._is_exact)
        launch = _Launch((ctypes.c_int32 * 3)(*grid), 1, packed)
        launch.table, launch.refresh, launch.write = ctypes.addressof(table), _IGNORING_REFRESH, _IGNORING_WRITE
        counted = (ctypes.c_double * 6)()
        launch.counts = ctypes.addressof(counted)
        if self._run(ctypes.addressof(launch)):
            return None  # the launch itself says what is wrong
        traffic, memory, footprint, operations, products, scattered = counted
        type_ = TYPES.index(_PRODUCTS.get(self._product_type, "c10::BFloat16" if self._product_type else "float"))
        return Counts(traffic, memory, footprint, operations, products, float(type_), scattered)

    def run(
        self,
        grid: tuple[int, int, int],
        arguments: Sequence[Any],
        ranges: Ranges,
        list_accessible: Callable[[], Ranges],
        threads: int,
    ) -> None:
        """Run all programs of a grid; raise CUDA's error for what fails in one of them."""
        packed = b"".join([pack(value) for pack, value in zip(self._packers, arguments, strict=True)])
        tables = [_write_table(ranges, self._is_exact)]
        launch = _Launch((ctypes.c_int32 * 3)(*grid), threads, packed)
        launch.table = ctypes.addressof(tables[0])

        def refresh() -> None:
            tables.append(_write_table([*ranges, *list_accessible()], self._is_exact))
            launch.table = ctypes.addressof(tables[-1])

        launch.refresh, launch.write = _REFRESHING, _WRITING
        if threading.current_thread() is threading.main_thread():
            launch.signals = ctypes.addressof(_SIGNALS)
        address = ctypes.addressof(launch)
        _refreshing[address] = refresh
        try:
            failure = self._run(address)
        finally:
            del _refreshing[address]
        if launch.error[0]:
            _raise(launch.error)
        if failure:
            raise self._describe(failure, launch)

    def _describe(self, failure: int, launch: _Launch) -> Exception:
        """Return the error of a launch that failed."""
        where, _, said = self._sites[launch.site].partition("\0")
        program = tuple(launch.program)
        if failure in _ADDRESS_ERRORS:
            place = f"the Triton kernel {self._name} at {where}, program {program}, address {launch.address:#x}"
            return cuda_error(_ADDRESS_ERRORS[failure], place)
        if failure == _ASSERTION:
            # A GPU writes it down as it happens, and the error that the program gets does not say it.
            block = ",".join(map(str, program))
            print(f"{where}: unknown: block: [{block}], thread: [0,0,0] Assertion `{said}` failed.", file=sys.stderr)
            return cuda_error(710)
        if failure == _NO_PROGRESS:
            return RuntimeError(
                f"the Triton kernel {self._name} does not end: at {where}, program {program} waits for another, and "
                "none has ended for ten seconds"
            )
        return RuntimeError(f"the Triton kernel {self._name} needs a larger stack than this system gives a thread")
