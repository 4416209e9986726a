"""The native part, compiled and linked for a Mac on any machine; whether all that it takes from elsewhere is there."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from checks import Result
from macho import Library
from torch_facts import YAML
from wheels import Wheel

from torchdevice_cuda.native import compilation, contract_tables, parts, toolchain

#: What the library is linked with on a Mac.
LIBRARIES = ("libc10", "libtorch_cpu", "libtorch_python")
_TARGET = "aarch64-macos.14.0"
#: Quickly, and without the checks that zig adds where nothing is optimised.
_QUICK = ("-O0", "-g0", "-fno-sanitize=undefined")
#: The C++ library's own names and the linker's. Which of the former are asked for is up to its headers, and the
#: compiler's are not Apple's.
_OF_THE_COMPILER = re.compile(r"__Z(N|NK|T[ISV]N?)?St|__Z(dl|da|nw|na)|___dso_handle$")
#: No unit takes longer, not on a busy machine either.
PATIENCE_S = 1800


def compiled(wheel: Wheel, others: Iterable[Wheel], kinds: Sequence[str] = ("cuda", parts.CALLS)) -> Result:
    """Every unit compiles against a wheel's headers, each part links, and torch, the system or Python has the rest."""
    check = "the native part for macOS"
    if importlib.util.find_spec("ziglang") is None:
        return Result(check, str(wheel), 0, ["ziglang is not installed; pip install -e '.[mac-native]'"])
    wrong: list[str] = []
    objects: list[Library] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel.unpack(folder, "torch/include/", YAML)
        torch = toolchain.Torch(folder / "torch", str(wheel.version), cxx11_abi=False)
        contract_tables.write_tables(folder)
        for kind in kinds:
            for part, content in parts.parts_of(kind).items():
                print(f"{check}: {wheel}, {kind}: {part}", file=sys.stderr, flush=True)
                names = list(content.units)
                compile_unit = functools.partial(_object, kind, torch=torch, folder=folder)
                with ThreadPoolExecutor(os.cpu_count()) as pool:
                    made = dict(zip(names, pool.map(compile_unit, names, content.units.values()), strict=True))
                failed = [f"{unit}: {line}" for unit, (_, errors) in made.items() for line in errors]
                wrong += failed or _linked(parts.name_library(kind, part), [out for out, _ in made.values()], folder)
                objects += [Library(out) for out, errors in made.values() if not errors]
    defined = {symbol for one in objects for symbol in one.exported}
    needed = {symbol for one in objects for symbol in one.undefined} - defined
    wrong += sorted(f"nobody has {symbol}" for symbol in lacking(needed, wheel, others))
    return Result(check, str(wheel), len(needed), wrong)


def _object(kind: str, name: str, unit: parts.Unit, torch: toolchain.Torch, folder: Path) -> tuple[Path, list[str]]:
    """Compile one unit; return the object file and the errors."""
    source, out = folder / f"{kind}-{name}.cpp", folder / f"{kind}-{name}.o"
    source.write_text(compilation.write_unit(kind, unit, folder / YAML), encoding="utf-8")
    flags = [*toolchain.compile_flags(kind, torch), *toolchain.compile_paths(torch, folder), *_QUICK]
    return out, _errors([*flags, "-c", str(source), "-o", str(out)])


def _linked(library: str, objects: Sequence[Path], folder: Path) -> list[str]:
    """Link a part; return the errors. Symbols of others are looked up when it is loaded, and by `lacking` here."""
    flags = toolchain.link_flags(library, with_torch=False, system="Darwin")
    errors = _errors([*map(str, objects), *flags, "-o", str(folder / f"{library}.dylib")])
    return [f"{library}: {line}" for line in errors]


def _errors(words: Sequence[str]) -> list[str]:
    """Run zig's compiler for macOS; return what it says if it fails."""
    command = [sys.executable, "-m", "ziglang", "c++", "-target", _TARGET, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    if not done.returncode:
        return []
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    return errors[:5] or [done.stderr[-300:]]


def lacking(needed: set[str], wheel: Wheel, others: Iterable[Wheel]) -> set[str]:
    """The symbols that nobody has: not torch, not Python, not the system that other libraries for macOS take from."""
    left = {symbol for symbol in needed - _of_the_system() if not _OF_THE_COMPILER.match(symbol)}
    for name in LIBRARIES:
        library = wheel.library(f"torch/lib/{name}.dylib")
        left -= library.exported | library.undefined
    for other in others:
        for name in (*other.matching("", ".dylib"), *other.matching("", ".so")):
            left -= other.library(name).undefined if left else set()
    # A symbol of C has an underscore more than its name.
    return {symbol for symbol in left if not hasattr(ctypes.pythonapi, symbol.removeprefix("_"))}


def _of_the_system() -> set[str]:
    """Return the names of macOS's C library, from the compiler's own list."""
    import ziglang

    found: set[str] = set()
    for path in Path(ziglang.__file__).parent.rglob("libSystem.tbd"):
        found.update(path.read_text(encoding="utf-8").replace(",", " ").replace("'", " ").split())
    return found
