"""A library for macOS, made by hand: two functions with a text each, a table of Python's methods, three symbols."""

from __future__ import annotations

import struct
from pathlib import Path

_TEXT, _DATA, _LINKEDIT = 0x4000, 0x8000, 0xC000
_STRINGS = 0x5000


def _place(register: int, at: int, target: int) -> bytes:
    """Return the two instructions that put an address into a register."""
    pages = (target >> 12) - (at >> 12)
    page = 0x90000000 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5 | register
    return struct.pack("<II", page, 0x91000000 | (target & 0xFFF) << 10 | register << 5 | register)


def _section(name: bytes, segment: bytes, at: int, size: int) -> bytes:
    return struct.pack("<16s16sQQIIIIIIII", name, segment, at, size, at, 0, 0, 0, 0, 0, 0, 0)


def _segment(name: bytes, at: int, size: int, *sections: bytes) -> bytes:
    length = 72 + sum(map(len, sections))
    head = struct.pack("<II16sQQQQIIII", 0x19, length, name, at, size, at, size, 7, 5, len(sections), 0)
    return head + b"".join(sections)


def library(path: Path, texts: dict[str, str], methods: dict[str, int], undefined: str) -> Path:
    """Write one whose functions refer to these texts, and whose table has these methods with these flags."""
    strings, at = b"\0", {}
    for text in (*texts.values(), *methods):
        at[text] = _STRINGS + len(strings)
        strings += text.encode() + b"\0"
    code, symbols = b"", []
    for name, text in texts.items():
        symbols.append((name, 0x0F, 1, _TEXT + len(code)))
        code += _place(8, _TEXT + len(code), at[text]) + struct.pack("<I", 0xD65F03C0)
    # As on the disk: the upper bits of a pointer are the loader's.
    table = b"".join(struct.pack("<QQiiQ", at[name] | 1 << 52, 0, flags, 0, 0) for name, flags in methods.items())
    names, entries = b"\0", b""
    for name, kind, section, value in [*symbols, (undefined, 0x01, 0, 0)]:
        entries += struct.pack("<IBBHQ", len(names), kind, section, 0, value)
        names += name.encode() + b"\0"
    sections = [
        _section(b"__text", b"__TEXT", _TEXT, len(code)),
        _section(b"__cstring", b"__TEXT", _STRINGS, len(strings)),
    ]
    count = len(symbols)
    commands = [
        _segment(b"__TEXT", 0, _DATA, *sections),
        _segment(b"__DATA", _DATA, 0x4000, _section(b"__data", b"__DATA", _DATA, len(table))),
        _segment(b"__LINKEDIT", _LINKEDIT, len(entries) + len(names)),
        struct.pack("<IIIIII", 2, 24, _LINKEDIT, count + 1, _LINKEDIT + len(entries), len(names)),
        struct.pack("<II18I", 0xB, 80, 0, 0, 0, count, count, 1, *([0] * 12)),
    ]
    header = struct.pack("<IiiIIIII", 0xFEEDFACF, 0x0100000C, 0, 6, len(commands), sum(map(len, commands)), 0x85, 0)
    image = bytearray(_LINKEDIT)
    for start, content in ((0, header + b"".join(commands)), (_TEXT, code), (_STRINGS, strings), (_DATA, table)):
        image[start : start + len(content)] = content
    path.write_bytes(bytes(image) + entries + names)
    return path
