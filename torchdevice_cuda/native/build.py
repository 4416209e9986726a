"""Compiles the host-memory device for the torch that is installed, once, and finds it again.

    python -m torchdevice_cuda.native.build [--as mps] [--force]

``library(kind)`` gives the path of the compiled module, building it if need be. What is built is kept in the user's
cache under a key of everything it depends on: the sources, torch and its C++ ABI, the compiler, and Python's ABI. Ten
processes that need it at once build it once: they meet at a file lock.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from types import ModuleType

from ..settings import cache_dir
from . import op_table

KINDS = ("cuda", "mps")
_HERE = Path(__file__).resolve().parent
_SOURCES = _HERE / "csrc"
# What is compiled together: PyTorch's headers cost more than these files, so few units read them. The slowest first, so
# that two cores finish together. What runs on every operator call is optimised more.
_UNITS = {
    "operators": (
        "-O2",
        (
            "operators/boxed.cpp",
            "operators/alias.cpp",
            "bindings/bridge.cpp",
            "operators/fft_plans.cpp",
            "runtime/generator.cpp",
        ),
    ),
    "kernels": ("-O2", ("operators/kernels.cpp", "operators/direct.cpp")),
    "composites": ("-O1", ("operators/composites.cpp", "runtime/exit.cpp")),
    "module": ("-O1", ("bindings/module.cpp", "runtime/hooks.cpp")),
    "memory": ("-O2", ("runtime/allocator.cpp", "runtime/streams.cpp", "runtime/guard.cpp", "runtime/device.cpp")),
}
# Changes when libraries are linked differently, so that those of before are not taken for these.
_LINKING = "shared C++ library"
# The last bytes of a complete library, after which nothing may follow: a short write cannot carry them.
_SEAL = b"\ntorchdevice-native:"


class BuildError(RuntimeError):
    """The native part could not be built or found; the message says what to do."""


@dataclasses.dataclass(frozen=True)
class Torch:
    """What a build needs to know of the installed torch; found without importing it."""

    root: Path
    version: str
    cxx11_abi: bool

    @property
    def number(self) -> int:
        """The release as one number, 213 for 2.13."""
        major, minor = self.version.split(".")[:2]
        return int(major) * 100 + int(minor)


def _torch() -> Torch:
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.origin:
        raise BuildError("torch is not installed")
    root = Path(spec.origin).parent
    version = ""
    for line in (root / "version.py").read_text(encoding="utf-8").splitlines():
        if line.startswith("__version__"):
            version = line.split("=", 1)[1].strip().strip("'\"")
    if not version:
        raise BuildError(f"cannot read torch's version from {root / 'version.py'}")
    return Torch(root, version, _uses_cxx11_abi(root))


@functools.cache
def _uses_cxx11_abi(root: Path) -> bool:
    loaded = sys.modules.get("torch")
    flag = getattr(getattr(loaded, "_C", None), "_GLIBCXX_USE_CXX11_ABI", None)
    if flag is not None:
        return bool(flag)
    # Symbols that take a std::string carry the ABI in their name.
    library = root / "lib" / ("libc10.so" if platform.system() == "Linux" else "libc10.dylib")
    with contextlib.suppress(OSError):
        return b"__cxx11" in library.read_bytes()
    return True


def compiler() -> str:
    """The C++ compiler: $CXX, or the first of the usual names that is on the path."""
    named = os.environ.get("CXX", "").strip()
    for candidate in (named,) if named else ("g++", "clang++", "c++"):
        found = shutil.which(candidate)
        if found:
            return found
    wanted = f"CXX={named!r} is not on the path" if named else "none of g++, clang++, c++ is on the path"
    raise BuildError(
        f"a C++17 compiler is needed to build the native device, and {wanted}. Install one (Debian/Ubuntu: "
        "apt-get install g++; Fedora: dnf install gcc-c++; macOS: xcode-select --install) or set CXX."
    )


def has_compiler() -> bool:
    """Could `library` build, as far as the compiler goes?"""
    with contextlib.suppress(BuildError):
        return bool(compiler())
    return False


@functools.cache
def _compiler_identity(path: str) -> str:
    try:
        out = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildError(f"{path} --version failed: {error}") from error
    return out.splitlines()[0] if out else path


def _extra_flags() -> list[str]:
    return os.environ.get("TORCHDEVICE_NATIVE_CXXFLAGS", "").split()


def _key(kind: str, torch: Torch) -> str:
    """Everything a library depends on but the compiler."""
    digest = hashlib.sha256()
    facts = [torch.version, str(torch.cxx11_abi), repr(_UNITS), _LINKING, *_flags(kind, torch)]
    facts += [sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag or "", platform.machine()]
    for fact in facts:
        digest.update(fact.encode() + b"\0")
    for path in sorted([*_SOURCES.rglob("*.cpp"), *_SOURCES.rglob("*.h"), _HERE / "op_table.py"]):
        digest.update(path.relative_to(_HERE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:20]


def _soname(kind: str) -> str:
    return f"_hostdevice_{kind}" + (sysconfig.get_config_var("EXT_SUFFIX") or ".so")


def refusal(path: Path) -> str:
    """Why a cached library may not be loaded; empty if it may."""
    try:
        status = path.lstat()
    except OSError:
        return "missing"
    if not path.is_file() or path.is_symlink():
        return "not a plain file"
    if hasattr(os, "getuid"):
        for p, s in ((path, status), (path.parent, path.parent.stat())):
            if s.st_uid not in (os.getuid(), 0):
                return f"{p} belongs to another user"
            if s.st_mode & 0o022:
                return f"{p} can be written by others"
    size = status.st_size
    seal = _SEAL + b"%020d" % (size - len(_SEAL) - 20)
    with path.open("rb") as file:
        file.seek(max(0, size - len(seal)))
        if file.read() != seal:
            return "truncated"
    return ""


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        if sys.platform == "win32":
            import msvcrt

            while True:
                try:
                    msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
                    break
                except OSError:
                    time.sleep(0.2)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _flags(kind: str, torch: Torch) -> list[str]:
    flags = [
        "-std=c++20" if torch.number >= 212 else "-std=c++17",
        "-fPIC",
        "-fvisibility=hidden",
        "-w",
        f"-DHOSTDEVICE_{kind.upper()}",
        f"-DHOSTDEVICE_TORCH={torch.number}",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.cxx11_abi)}",
        "-DNDEBUG",
        "-DAT_PER_OPERATOR_HEADERS",
    ]
    include = torch.root / "include"
    for path in (
        include,
        include / "torch" / "csrc" / "api" / "include",
        sysconfig.get_path("include"),
        _SOURCES,
    ):
        flags.append(f"-I{path}")
    return flags + _extra_flags()


def _shared_cxx_library(cxx: str) -> list[str]:
    """The C++ library that torch uses, by its file.

    Some compilers link it statically unless told so; two copies of it in one process do not share their locales, and
    the first number that is formatted ends the process.
    """
    if platform.system() != "Linux":
        return []
    asked = [cxx, "-print-file-name=libstdc++.so.6"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return [found] if os.path.isabs(found) else []


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-40:])
        raise BuildError(f"{what} failed ({command[0]} returned {done.returncode}):\n{tail}")


def _compile(kind: str, torch: Torch, cxx: str, target: Path, say: Callable[[str], None]) -> None:
    started = time.monotonic()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    jobs = max(1, min(len(_UNITS), cores))
    say(f"building the native device ({kind}) for torch {torch.version}: {len(_UNITS) + 1} units, {jobs} at a time")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as scratch_name:
        scratch = Path(scratch_name)
        units = {}
        for name, (level, parts) in _UNITS.items():
            unit = scratch / f"unit_{name}.cpp"
            unit.write_text("".join(f'#include "{part}"\n' for part in parts), encoding="utf-8")
            units[unit] = level
        table = scratch / "op_table.cpp"
        table.write_text(op_table.cpp(op_table.yaml_path()), encoding="utf-8")
        units[table] = "-O1"
        flags = _flags(kind, torch)
        objects = []

        def one(source: Path) -> Path:
            out = source.with_suffix(".o")
            _run([cxx, *flags, units[source], "-c", str(source), "-o", str(out)], f"compiling {source.stem}")
            return out

        with ThreadPoolExecutor(jobs) as pool:
            pending = {pool.submit(one, unit): unit for unit in units}
            try:
                for number, future in enumerate(as_completed(pending), 1):
                    objects.append(future.result())
                    spent = time.monotonic() - started
                    say(f"  [{number}/{len(pending)}] {pending[future].stem} ({spent:.0f} s)")
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        made = scratch / target.name
        libraries = torch.root / "lib"
        link = [cxx, "-shared", *map(str, sorted(objects)), "-o", str(made), f"-L{libraries}"]
        link += ["-lc10", "-ltorch_cpu", "-ltorch_python", f"-Wl,-rpath,{libraries}", *_shared_cxx_library(cxx)]
        link += _extra_flags()
        if platform.system() == "Darwin":
            link += ["-undefined", "dynamic_lookup"]
        _run(link, "linking")
        size = made.stat().st_size
        with made.open("ab") as file:
            file.write(_SEAL + b"%020d" % size)
            file.flush()
            os.fsync(file.fileno())
        made.chmod(0o755)
        os.replace(made, target)
    say(f"built in {time.monotonic() - started:.0f} s: {target}")


def _say(line: str) -> None:
    print(f"torchdevice_cuda: {line}", file=sys.stderr, flush=True)


def library(kind: str, *, build: bool = True, force: bool = False, say: Callable[[str], None] | None = None) -> Path:
    """The compiled module for `kind` ("cuda" or "mps").

    With ``build=False`` nothing is compiled: BuildError says that it is not there. ``say`` gets progress lines
    (standard error by default).
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    say = say or _say
    torch = _torch()
    home = cache_dir()
    stem = f"{kind}-{_key(kind, torch)}"
    if not build or not has_compiler():
        # An image may have been built where there was a compiler, and run where there is none: any compiler's will do.
        there = {path: refusal(path) for path in sorted(home.glob(f"{stem}-*/{_soname(kind)}"))}
        usable = [path for path, why in there.items() if not why]
        if usable and not force:
            return usable[0]
        if not build:
            why = next(iter(there.values()), "missing")
            raise BuildError(f"the native device is not built ({why}); python -m torchdevice_cuda --build builds it")
    cxx = compiler()
    directory = home / f"{stem}-{hashlib.sha256(_compiler_identity(cxx).encode()).hexdigest()[:8]}"
    target = directory / _soname(kind)
    if not refusal(target) and not force:
        return target
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise BuildError(f"cannot write to the cache {home}: {error}. Set TORCHDEVICE_CACHE_DIR.") from error
    if hasattr(os, "getuid") and directory.stat().st_uid == os.getuid():
        directory.chmod(0o700)
    with _locked(home / f"{kind}.lock"):
        why = refusal(target)
        if why or force:
            if why not in ("", "missing"):
                say(f"not using {target}: {why}; building it again")
            _compile(kind, torch, cxx, target, say)
            why = refusal(target)
            if why:
                raise BuildError(f"the library just built cannot be used: {why}")
    return target


def load(kind: str, *, build: bool = True) -> ModuleType:
    """Imports the compiled module (after torch, whose libraries it needs). Does not install the device."""
    name = f"_hostdevice_{kind}"
    if name in sys.modules:
        return sys.modules[name]
    path = library(kind, build=build)
    import torch  # noqa: F401  (its shared libraries must be loaded first)

    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BuildError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
    return module


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m torchdevice_cuda.native.build", description=__doc__)
    parser.add_argument("--as", dest="kind", choices=KINDS, default="cuda", help="the device type (default: cuda)")
    parser.add_argument("--force", action="store_true", help="build even if it is there")
    options = parser.parse_args(arguments)
    try:
        print(library(options.kind, force=options.force))
    except BuildError as error:
        print(f"torchdevice_cuda: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
