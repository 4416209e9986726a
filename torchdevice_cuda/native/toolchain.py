"""The tools that compile the native device: the installed torch, a compiler and its flags."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from .. import _compat

#: The C++ sources; includes are relative to it.
SOURCES = Path(__file__).resolve().parent / "csrc"
#: The limit of a compiler run, and of a wait for another process's build: nothing waits forever.
PATIENCE_S = 1800.0
# torch's libraries that a library of this package needs. They are loaded before it, under these names: `load` imports
# torch first. So their paths are not stored, and one library serves every environment that has this torch.
_TORCH_LIBRARIES = ("-lc10", "-ltorch_cpu", "-ltorch_python")

# pybind11 of older releases separates modules of different compilers: its macro, and the name in a library.
_NAMES_COMPILER = b"define PYBIND11_BUILD_ABI"
_INTERNALS = re.compile(rb"__pybind11_internals_v\d+_gcc_libstdcpp(_cxxabi\d+)__")
# c10::detail::torchCheckFail(char const*, char const*, unsigned, std::string const&) with the old ABI of std::string.
_OLD_ABI = b"_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"


class BuildError(RuntimeError):
    """The native part could not be built, found or loaded; the message says what to do, in one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


@dataclasses.dataclass(frozen=True)
class Torch:
    """Properties of the installed torch that a build needs; found without importing it."""

    root: Path
    version: str
    cxx11_abi: bool
    #: The compiler's name in its pybind11, if it matters: modules with equal names share torch's types.
    pybind_abi: str = ""

    @property
    def include(self) -> Path:
        """Return the folder of its headers."""
        return self.root / "include"


def installed_torch() -> Torch:
    """Return the torch that ``import torch`` would import."""
    try:
        spec = importlib.util.find_spec("torch")
    except ValueError:  # another module has that name
        spec = None
    if spec is None or not spec.origin:
        raise BuildError("torch is not installed: pip install torch")
    root = Path(spec.origin).parent
    version = ""
    for line in (root / "version.py").read_text(encoding="utf-8").splitlines():
        if line.startswith("__version__"):
            version = line.split("=", 1)[1].strip().strip("'\"")
    if not version:
        raise BuildError(f"cannot read torch's version from {root / 'version.py'}: pip install --force-reinstall torch")
    return Torch(root, version, _uses_cxx11_abi(root), _pybind_abi(root))


@functools.cache
def _uses_cxx11_abi(root: Path) -> bool:
    loaded = sys.modules.get("torch")
    flag = getattr(getattr(loaded, "_C", None), "_GLIBCXX_USE_CXX11_ABI", None)
    if flag is not None:
        return bool(flag)
    if platform.system() != "Linux":
        return False  # only GNU's library has this choice, and torch returns False elsewhere
    # The name of a function that takes a std::string depends on the ABI. Use a function of torch itself: its libraries
    # may contain the C++ library's names of both kinds.
    with contextlib.suppress(OSError):
        return _OLD_ABI not in (root / "lib" / "libc10.so").read_bytes()
    return True


@functools.cache
def _pybind_abi(root: Path) -> str:
    loaded = sys.modules.get("torch")
    flag = getattr(getattr(loaded, "_C", None), "_PYBIND11_BUILD_ABI", None)
    if flag is not None:
        return str(flag)
    # Later releases have a pybind11 that ignores the compiler, so their large library is not read.
    with contextlib.suppress(OSError):
        if _NAMES_COMPILER in (root / "include" / "pybind11" / "detail" / "internals.h").read_bytes():
            found = _INTERNALS.search((root / "lib" / "libtorch_python.so").read_bytes())
            return found[1].decode() if found else ""
    return ""


def compiler() -> str:
    """Return the C++ compiler: $CXX, or the first of the usual names that is on the path."""
    named = os.environ.get("CXX", "").strip()
    for candidate in (named,) if named else ("g++", "clang++", "c++"):
        found = shutil.which(candidate)
        if found and not _only_asks(found):
            return found
    wanted = f"CXX={named!r} is not on the path" if named else "none of g++, clang++, c++ is on the path"
    raise BuildError(
        f"a C++17 compiler is needed to build the native device, and {wanted}. Install one{_how_to_install()}, set "
        "CXX, or have it compiled: a wheel of torchdevice-cuda-native (docs/native-wheels.md)."
    )


#: The command that installs a compiler, by this machine's package manager.
_INSTALLERS = {
    "apt-get": "apt-get install g++",
    "dnf": "dnf install gcc-c++",
    "zypper": "zypper install gcc-c++",
    "apk": "apk add g++",
    "pacman": "pacman -S gcc",
}


def _how_to_install() -> str:
    """Return the command that installs a compiler on this machine, in parentheses; empty if it is unknown."""
    if platform.system() == "Darwin":
        return " (xcode-select --install)"
    found = [command for name, command in _INSTALLERS.items() if shutil.which(name)]
    return f" ({found[0]})" if found else ""


def _only_asks(found: str) -> bool:
    """Return whether a macOS compiler is a stub: without the command line tools it opens a dialog that offers them."""
    if platform.system() != "Darwin" or Path(found).parent != Path("/usr/bin"):
        return False
    asked = ["/usr/bin/xcode-select", "-p"]
    try:
        return subprocess.run(asked, capture_output=True, check=False, timeout=30).returncode != 0
    except (OSError, subprocess.SubprocessError):
        return True


def has_compiler() -> bool:
    """Return whether there is a compiler."""
    with contextlib.suppress(BuildError):
        return bool(compiler())
    return False


def _extra_flags() -> list[str]:
    return os.environ.get("TORCHDEVICE_NATIVE_CXXFLAGS", "").split()


def compile_flags(kind: str, torch: Torch) -> list[str]:
    """Return the compiler flags other than paths."""
    return [
        f"-std={_compat.cxx_standard(torch.version)}",
        "-fPIC",
        # The exported names are chosen when a library is linked.
        *(["-fno-semantic-interposition"] if platform.system() == "Linux" else []),
        # A warning never ends a build, since compilers differ. The tests require none.
        "-Wall",
        "-Wextra",
        # Methods that only some versions of torch declare cannot be marked override.
        "-Wno-inconsistent-missing-override",
        f"-DHOSTDEVICE_{kind.upper()}",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.cxx11_abi)}",
        *([f'-DPYBIND11_BUILD_ABI="{torch.pybind_abi}"'] if torch.pybind_abi else []),
        "-DNDEBUG",
        "-DAT_PER_OPERATOR_HEADERS",
        *_extra_flags(),
    ]


def compile_paths(torch: Torch, scratch: Path) -> list[str]:
    """Return the compiler's paths. None is in the library, which names its sources by their paths in the package."""
    python = Path(sysconfig.get_path("include"))
    foreign = (torch.include, torch.include / "torch" / "csrc" / "api" / "include", python)
    shown = {SOURCES: "csrc", torch.include: "torch/include", python: "python", scratch: "units"}
    return [
        f"-I{SOURCES}",
        f"-I{SOURCES / 'core'}",
        # Tables generated for the build.
        f"-I{scratch}",
        # As system headers, which cause no warnings.
        *(word for path in foreign for word in ("-isystem", str(path))),
        # Headers that some versions of torch lack; torch's own header is found first.
        "-idirafter",
        str(SOURCES / "missing"),
        *(f"-ffile-prefix-map={path}={name}" for path, name in shown.items()),
    ]


# Names that parts call in the core; in any library, Python's init function and names that compiled CUDA C++ needs.
_EXPORTS = "{ global: PyInit_*; torchdevice_*; *10hostdevice*; local: *; };\n"


def link_flags(
    name: str, scratch: Path | None = None, *, with_torch: bool = True, system: str | None = None
) -> list[str]:
    """Return the linker flags other than paths, for this system or another one.

    Parts find the core by its `name`, in any folder.
    """
    libraries = _TORCH_LIBRARIES if with_torch else ()
    if (system or platform.system()) == "Darwin":
        # Symbols of the interpreter are resolved when the library is loaded.
        own = [f"-Wl,-install_name,@rpath/{name}", "-undefined", "dynamic_lookup"]
    else:
        own = [f"-Wl,-soname,{name}", "-Wl,-Bsymbolic"]
        if scratch is not None:
            exported = scratch / "exports"
            exported.write_text(_EXPORTS, encoding="utf-8")
            own.append(f"-Wl,--version-script={exported}")
    return ["-shared", *libraries, *own, *_extra_flags()]


def tune(cxx: str) -> list[str]:
    """Return flags that make a compiler faster without changing its output: GCC collects garbage less often."""
    name = Path(cxx).name
    if "g++" not in name or "clang" in name:
        return []
    return ["--param", "ggc-min-heapsize=1000000", "--param", "ggc-min-expand=300"]


def link_paths(torch: Torch, cxx: str) -> list[str]:
    """Return the folders that the linker searches."""
    return [f"-L{torch.root / 'lib'}", *_shared_cxx_library(cxx)]


def _shared_cxx_library(cxx: str) -> list[str]:
    """Return the C++ library that torch uses, as a file.

    Some compilers link it statically by default; two copies of it in one process do not share their locales, and
    formatting the first number ends the process.
    """
    if platform.system() != "Linux":
        return []
    asked = [cxx, "-print-file-name=libstdc++.so.6"]
    try:
        answer = subprocess.run(asked, capture_output=True, check=False, timeout=30, stdin=subprocess.DEVNULL).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildError(f"{cxx} does not answer: {error}; set CXX to another compiler") from error
    found = os.fsdecode(answer).strip()
    return [found] if os.path.isabs(found) else []
