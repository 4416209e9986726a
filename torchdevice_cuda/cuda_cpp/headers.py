"""The headers that a source of CUDA C++ includes, found without the preprocessor."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

from . import INCLUDE, assembly, refusals

_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
_TORCHS = ("torch/", "ATen/", "c10/", "pybind11/", "Python.h", "THC/")


def _walk_files(source: Path, folders: list[Path]) -> Iterator[tuple[Path, str, list[tuple[int, str, bool]]]]:
    """Yield a source and the program's headers: path, text, includes (line, name, whether the program has it)."""
    waiting, seen = [source], {source}
    while waiting and len(seen) <= 500:
        path = waiting.pop()
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        inner: list[Path] = []
        includes: list[tuple[int, str, bool]] = []
        for found in _INCLUDED.finditer(text):
            near = [path.parent] if found[1] == '"' else []
            known = [] if found[2].startswith(_TORCHS) else [folder / found[2] for folder in [*near, *folders]]
            own = next((one.resolve() for one in known if one.is_file()), None)
            includes.append((text.count("\n", 0, found.start(2)) + 1, found[2], own is not None))
            if own is not None and own not in seen:
                seen.add(own)
                inner.append(own)
        yield path, text, includes
        waiting.extend(reversed(inner))


@dataclasses.dataclass
class Included:
    """Headers of PyTorch that a source includes, or a header that it includes; whether one has PTX."""

    names: list[str] = dataclasses.field(default_factory=list)  # by the program
    ours: list[str] = dataclasses.field(default_factory=list)  # by the toolkit only
    has_assembly: bool = False


def find_included(source: Path, reading: list[str]) -> Included:
    """Find PyTorch's headers that are read."""
    found = Included()
    for path, text, includes in _walk_files(source, _folders(reading)):
        names = found.ours if path.is_relative_to(INCLUDE) else found.names
        names += [name for _, name, _ in includes if name.startswith(_TORCHS)]
        found.has_assembly = found.has_assembly or assembly.is_present(text)
    found.names = list(dict.fromkeys(found.names))
    found.ours = [name for name in dict.fromkeys(found.ours) if name not in found.names]
    return found


def list_missing(source: Path, reading: list[str]) -> list[str]:
    """Return a line for each header of CUDA's toolkit that the source includes and that is not here."""
    lines = []
    for path, _, includes in _walk_files(source, _folders(reading)):
        for line, name, is_own in includes:
            why = "" if is_own or (INCLUDE / name).exists() else refusals.header(name)
            if why:
                lines.append(f"{path}:{line}: error: {name} is not supported here: {why}")
    return lines


def _folders(reading: list[str]) -> list[Path]:
    """Folders of the program's headers."""
    folders = []
    words = iter(reading)
    for word in words:
        if word == "-isystem":
            folders.append(Path(next(words, "")))
        elif word.startswith("-I"):
            folders.append(Path(word[2:] or next(words, "")))
    return [folder for folder in folders if not (folder / "ATen" / "ATen.h").exists() and folder != INCLUDE]
