"""Read a library for macOS: its symbols, texts, references, and tables of Python methods.

Read with LIEF, which knows the format. The rest is what no library has: which texts the code of a function refers to.
Code for arm64 makes an address of two parts, the page (``adrp``) and the place in it (``add``).
"""

from __future__ import annotations

import bisect
import functools
import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import lief
import numpy

#: Pointers in data: while a library lies on the disk their upper bits say how the loader finds the next one.
_ADDRESS = (1 << 36) - 1
_POINTER = 8
#: How Python calls a function of C that has no argument, or one. With others the table does not say how many.
_ARGUMENTS = {0x04: 0, 0x08: 1}


class Library:
    """The arm64 part of a Mach-O library."""

    def __init__(self, path: Path) -> None:
        parsed = lief.MachO.parse(str(path), config=lief.MachO.ParserConfig.quick)
        binary = parsed and parsed.take(lief.MachO.Header.CPU_TYPE.ARM64)
        if binary is None:
            raise ValueError(f"{path} is no library for macOS on arm64")
        self._starts: dict[tuple[str, str], int] = {}
        self._bytes: dict[tuple[str, str], bytes] = {}
        #: The oldest macOS that its load commands allow.
        self.least_macos = tuple(binary.build_version.minos[:2]) if binary.has_build_version else (0, 0)
        with path.open("rb") as file:
            for section in binary.sections:
                key = (section.segment_name, section.name)
                if key in _READ:
                    file.seek(binary.fat_offset + section.offset)
                    self._starts[key], self._bytes[key] = section.virtual_address, file.read(section.size)
        self.addresses: dict[str, int] = {}
        self.undefined: set[str] = set()
        self.exported: set[str] = set()
        for symbol in binary.symbols:
            if symbol.category == lief.MachO.Symbol.CATEGORY.UNDEFINED:
                self.undefined.add(symbol.name)
            else:
                self.addresses[symbol.name] = symbol.value
                if symbol.category == lief.MachO.Symbol.CATEGORY.EXTERNAL:
                    self.exported.add(symbol.name)

    @functools.cached_property
    def texts(self) -> frozenset[str]:
        """Every text of its code."""
        return frozenset(_decoded(text) for text in self._bytes.get(_TEXTS, b"").split(b"\0"))

    @functools.cached_property
    def selectors(self) -> frozenset[str]:
        """Every name of a method of Objective-C's that it knows."""
        return frozenset(_decoded(text) for text in self._bytes.get(_SELECTORS, b"").split(b"\0"))

    @functools.cached_property
    def _functions(self) -> list[tuple[int, str]]:
        begin = self._starts.get(_CODE, 0)
        end = begin + len(self._bytes.get(_CODE, b""))
        return sorted((at, name) for name, at in self.addresses.items() if begin <= at < end)

    def _instructions(self, index: int) -> tuple[int, numpy.ndarray]:
        """Return a function's address and its instructions, which end where the next function begins."""
        begin, start, code = self._functions[index][0], self._starts[_CODE], self._bytes[_CODE]
        beyond = bisect.bisect_right(self._functions, begin, key=lambda function: function[0])
        end = self._functions[beyond][0] if beyond < len(self._functions) else start + len(code)
        return begin, numpy.frombuffer(code, "<u4", (end - begin) // 4, begin - start)

    def texts_of(self, functions: str) -> dict[str, list[str]]:
        """Return the texts that functions whose names match refer to, and by which."""
        wanted, found = re.compile(functions), defaultdict(list)
        for index, (_, name) in enumerate(self._functions):
            if wanted.search(name):
                for text in set(self._referred(*self._instructions(index))):
                    found[text].append(name)
        return dict(found)

    def _referred(self, begin: int, code: numpy.ndarray) -> Iterator[str]:
        texts, start = self._bytes[_TEXTS], self._starts[_TEXTS]
        pages: dict[int, int] = {}
        is_page, is_place = (code & 0x9F000000) == 0x90000000, (code & 0xFFC00000) == 0x91000000
        for position in numpy.nonzero(is_page | is_place)[0].tolist():
            word = int(code[position])
            if is_page[position]:
                distance = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
                distance -= (distance & 1 << 20) << 1
                pages[word & 31] = ((begin + 4 * position) & ~0xFFF) + (distance << 12)
            elif (word >> 5 & 31) in pages:
                at = pages[word >> 5 & 31] + (word >> 10 & 0xFFF) - start
                # A register may hold something else by now: what is no beginning of a text was none.
                if 0 <= at < len(texts) and (at == 0 or texts[at - 1] == 0):
                    yield _decoded(texts[at : texts.index(b"\0", at)])

    def arguments_of(self, names: Iterable[str]) -> dict[str, int | None]:
        """Return the number of arguments of Python methods in C that are in a table; ``None`` if it is not stated."""
        texts, start = self._bytes[_TEXTS], self._starts[_TEXTS]
        at = {start + texts.find(b"\0%b\0" % name.encode()) + 1: name for name in names if name in self.texts}
        found: dict[str, int | None] = {}
        for data in (self._bytes[key] for key in _TABLES if key in self._bytes):
            pointers = numpy.frombuffer(data, "<u8", len(data) // _POINTER) & _ADDRESS
            for position in numpy.nonzero(numpy.isin(pointers, list(at)))[0].tolist():
                if (position + 3) * _POINTER <= len(data):
                    (flags,) = struct.unpack_from("<i", data, (position + 2) * _POINTER)
                    found[at[int(pointers[position])]] = _ARGUMENTS.get(flags)
        return found


_CODE = ("__TEXT", "__text")
_TEXTS = ("__TEXT", "__cstring")
_SELECTORS = ("__TEXT", "__objc_methname")
_TABLES = (("__DATA", "__data"), ("__DATA", "__const"), ("__DATA_CONST", "__const"))
_READ = {_CODE, _TEXTS, _SELECTORS, *_TABLES}


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")
