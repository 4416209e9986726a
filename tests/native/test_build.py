"""The build: once for many processes, refused when it is not to be trusted, clear when it cannot be done."""

from __future__ import annotations

import collections
import dataclasses
import os
import re
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import filelock
import psutil
import pytest
from harness import run

from native.compilers import Bench
from torchdevice_cuda.native import build, compilation, op_table, parts, places, toolchain

ROOT = Path(__file__).resolve().parents[2]
CSRC = toolchain.SOURCES


def quietly(kind: str = "cuda", **how: bool) -> Path:
    return build.library(kind, say=lambda line: None, **how)


def test_ten_processes_build_once(bench: Bench) -> None:
    code = "from torchdevice_cuda.native import build; print(build.library('cuda', say=lambda line: None))"

    def one(_: int) -> str:
        return run([sys.executable, "-c", code], environment=dict(os.environ), folder=ROOT).out.strip()

    with ThreadPoolExecutor(10) as pool:
        paths = set(pool.map(one, range(10)))
    assert len(paths) == 1 and bench.links == 1
    assert not build.flaw(Path(paths.pop()))


def test_a_build_in_the_middle_of_importing_torch_ends(bench: Bench) -> None:
    """The driver is chosen while torch is being imported: what compiles meanwhile may import nothing."""
    code = "import torchdevice_cuda; torchdevice_cuda.activate(driver='virtual'); import torch"
    done = run([sys.executable, "-c", code], environment=dict(os.environ), folder=ROOT, timeout=60)
    assert not done.killed
    assert bench.links == 1


def test_it_says_how_far_it_is_and_is_built_once(bench: Bench) -> None:
    said: list[str] = []
    path = build.library("cuda", say=said.append)
    assert any("[1/" in line for line in said) and any(line.startswith("built in") for line in said)
    said.clear()
    assert build.library("cuda", say=said.append) == path and bench.links == 1 and not said
    assert build.library("cuda", force=True, say=said.append) == path and bench.links == 2 and said


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCHDEVICE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(build.BuildError, match=r"C\+\+17 compiler.*no-such-compiler.*Install one"):
        build.library("cuda")
    assert not build.has_compiler()


def test_a_built_library_needs_no_compiler(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image is built where there is a compiler and run where there is none."""
    path = quietly()
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert build.library("cuda") == build.library("cuda", build=False) == path


def test_kinds(bench: Bench) -> None:
    assert quietly("mps") != quietly()
    with pytest.raises(ValueError, match="cuda, mps"):
        build.library("tpu")


def test_a_build_that_never_ends_is_not_waited_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    path = build.library("cuda", say=said.append)
    monkeypatch.setattr(toolchain, "PATIENCE_S", 0.3)
    with filelock.FileLock(path.parent / "lock"):
        assert build.library("cuda", say=said.append) == path  # what is there needs no lock
        path.unlink()
        with pytest.raises(build.BuildError, match=r"(?s)another process .* holds .*lock.*TORCHDEVICE_CACHE_DIR"):
            build.library("cuda", say=said.append)
        assert said[-1].endswith("waiting for it")
        monkeypatch.setattr(build, "_WAITING_S", 0.1)
        with pytest.raises(build.BuildError, match="another process"):
            build.library("cuda", say=said.append)
        assert re.fullmatch(r"still waiting for the process that holds \S+/lock \(\d+ s\)", said[-1])
        # Another library is another matter.
        monkeypatch.setenv("TORCHDEVICE_NATIVE_CXXFLAGS", "-DOTHER")
        assert build.library("cuda", say=said.append) != path
    monkeypatch.delenv("TORCHDEVICE_NATIVE_CXXFLAGS")
    assert build.library("cuda", say=said.append) == path


def test_compiler_output_is_kept(bench: Bench) -> None:
    bench.set("echo x.cpp:1:2: warning: something >&2")
    path = quietly()
    assert len(compiler_output(path)) == len(parts.parts_of("cuda")[parts.CORE].units) + 1  # and the linker


def test_headers_are_compiled_once_where_many_units_share_them(bench: Bench) -> None:
    """Precompile headers for all parts together; the core alone has too few units for that to pay."""

    def commands() -> list[list[str]]:
        log = build.library("cuda").parent / compilation.LOG
        return [words for line in log.read_text().splitlines() if "-print-file-name" not in (words := line.split())]

    quietly()
    assert not any("-include" in words or "c++-header" in words for words in commands())
    build.libraries("cuda", force=True, say=lambda line: None)
    (headers,) = (words for words in commands() if "c++-header" in words)
    units = [words for words in commands() if "-c" in words]
    included = [words for words in units if "-include" in words]
    (level,) = (word for word in headers if word.startswith("-O"))
    assert len(included) >= compilation._SHARED_BY and all(level in words for words in included)
    assert len(included) < len(units), "what is compiled otherwise reads them"


def test_memory_and_max_jobs_limit_the_compilers(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables of torch's own builds and the memory of compilers limit the jobs; at least one runs."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    free = dataclasses.make_dataclass("Memory", ["available"])
    for available, named, wanted in ((64 << 30, "", 5), (64 << 30, "2", 2), (5 << 30, "", 2), (0, "0", 1)):
        monkeypatch.setattr(psutil, "virtual_memory", lambda available=available: free(available))
        monkeypatch.setenv("MAX_JOBS", named)
        assert compilation._count_jobs(5) == wanted


def compiler_output(library: Path) -> list[str]:
    """Return the compiler's output without its command lines."""
    return [line for line in logged(library) if not line.startswith("$ ")]


def logged(library: Path) -> list[str]:
    """Return the logs of the core and of parts that were built later."""
    return [line for log in sorted(library.parent.glob("build*.log")) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("kind", build.KINDS)
def test_the_compiler_has_nothing_to_say(kind: str) -> None:
    """Check the build that all tests use: every warning is on, except for other projects' headers."""
    library = build.libraries(kind)[parts.CORE]
    commands = [line for line in logged(library) if line.startswith("$ ")]
    for name in (name for part in parts.parts_of(kind).values() for name in part.units):
        told = [line.split() for line in commands if f"/{name}.cpp" in line]
        assert told, name  # more than once where a part was built again
        assert all({"-Wall", "-Wextra"} <= set(words) and "-w" not in words for words in told)
    assert compiler_output(library) == []


# ---- one library for every place -----------------------------------------------------------------------------------


def load_in(environment: dict[str, str], code: str) -> list[str]:
    """Loads the library in another process, which may not build it; what `code` prints."""
    program = "from torchdevice_cuda.native import build\nnative = build.load('cuda', build=False)\n" + code
    done = run([sys.executable, "-c", program], environment={**os.environ, **environment}, folder="/")
    assert done.status == 0, done.err
    return done.out.split()


def test_another_clone_has_the_same_library(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "torchdevice_cuda", tmp_path / "torchdevice_cuda")
    where = "print(build.__file__, native.__file__)"
    package, library = load_in({"PYTHONPATH": str(tmp_path)}, where)
    assert Path(package).is_relative_to(tmp_path) and Path(library) == build.library("cuda")
    touched = tmp_path / "torchdevice_cuda" / "native" / "csrc" / "core" / "runtime" / "device.cpp"
    touched.write_text(touched.read_text() + "\n")
    with pytest.raises(AssertionError, match="not built"):
        load_in({"PYTHONPATH": str(tmp_path)}, where)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_another_environment_has_the_same_library(tmp_path: Path) -> None:
    """The library that was built with one environment's torch runs with the torch of another."""
    ours = toolchain.installed_torch().root

    def link(source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)

    shutil.copytree(ours, tmp_path / "torch", copy_function=link, ignore=shutil.ignore_patterns("include", "test"))
    code = (
        "import torch; from native.bare import use_cuda; use_cuda()\n"
        "assert (torch.ones(3, device='cuda:0') + 1).cpu().tolist() == [2, 2, 2]\n"
        "print(native.__file__, *{line.split()[-1] for line in open('/proc/self/maps') if '/libtorch' in line})"
    )
    library, *torches = load_in({"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT), str(ROOT / "tests")])}, code)
    assert Path(library) == build.library("cuda")
    assert torches and all(Path(path).is_relative_to(tmp_path) for path in torches)


def test_the_library_knows_no_folder() -> None:
    library = build.library("cuda")
    content = library.read_bytes()
    assert b"csrc/core/operators/" in content  # what its errors call their source
    for folder in (ROOT, toolchain.installed_torch().root, library.parent):
        assert os.fsencode(folder) + b"/" not in content


def test_the_key_of_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = toolchain.installed_torch()
    key = places.find_key("cuda", torch)
    assert places.find_key("mps", torch) != key
    elsewhere = dataclasses.replace(torch, root=Path("/elsewhere"))
    assert places.find_key("cuda", elsewhere) == key
    for other in (
        toolchain.Torch(torch.root, "2.6.0", torch.cxx11_abi),
        toolchain.Torch(torch.root, torch.version, not torch.cxx11_abi),
        toolchain.Torch(torch.root, torch.version, torch.cxx11_abi, "_cxxabi1011"),
    ):
        assert places.find_key("cuda", other) != key
    monkeypatch.setenv("TORCHDEVICE_NATIVE_CXXFLAGS", "-O0")
    assert places.find_key("cuda", torch) != key


def test_the_compilers_name_in_pybind11(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older releases keep modules of different compilers apart: process groups were of an unknown type there."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    header, library = tmp_path / "include/pybind11/detail/internals.h", tmp_path / "lib/libtorch_python.so"
    for path in (header, library):
        path.parent.mkdir(parents=True)
    library.write_bytes(b"\0__pybind11_internals_v4_gcc_libstdcpp_cxxabi1011__\0")
    for text, expected in ((b"", ""), (b"#define PYBIND11_BUILD_ABI", "_cxxabi1011")):
        header.write_bytes(text)
        toolchain._pybind_abi.cache_clear()
        assert toolchain._pybind_abi(tmp_path) == expected
    made = toolchain.Torch(tmp_path, "2.6.0", False, "_cxxabi1011")
    assert '-DPYBIND11_BUILD_ABI="_cxxabi1011"' in toolchain.compile_flags("cuda", made)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="GNU's C++ library")
def test_the_abi_of_a_torch_that_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wheels of 2.6 use the old one, though the C++ library's own symbols in them have the new one's names."""
    real = toolchain.installed_torch()
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    toolchain._uses_cxx11_abi.cache_clear()
    assert toolchain.installed_torch() == real
    for name, new in (("jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", True), ("jRKSs", False)):
        library = tmp_path / name / "lib" / "libc10.so"
        library.parent.mkdir(parents=True)
        symbols = ["_ZNSt11logic_errorC1ERKNSt7__cxx1112basic_string", f"_ZN3c106detail14torchCheckFailEPKcS2_{name}"]
        library.write_bytes("\0".join(symbols).encode())
        assert toolchain._uses_cxx11_abi(tmp_path / name) is new


def test_the_key_is_cheap() -> None:
    """Compute the key in a hundredth of the start time, because every start needs it; take the best of several tries,
    because the machine has other work."""
    torch = toolchain.installed_torch()
    times = []
    for _ in range(20):
        started = time.perf_counter()
        places.find_key("cuda", torch)
        times.append(time.perf_counter() - started)
    assert min(times) < 0.02


# ---- the sources ---------------------------------------------------------------------------------------------------


def test_every_source_is_compiled() -> None:
    there = {path.relative_to(CSRC).as_posix() for path in CSRC.rglob("*") if path.is_file()}
    compiled: dict[str, list[str]] = {
        kind: [
            source
            for part in parts.parts_of(kind).values()
            for unit in part.units.values()
            for source in parts.list_sources(kind, unit)
        ]
        for kind in build.KINDS
    }
    assert set().union(*compiled.values()) == {name for name in there if not name.endswith(".h")}
    # Two parts freeze calls, and two infer results without computing them; none is linked against another.
    shared = {"nodes/node.cpp", "inference/inference.cpp"}
    for names in compiled.values():
        assert {name for name, count in collections.Counter(names).items() if count > 1} <= shared


def test_versions_of_torch_are_told_apart_in_one_file() -> None:
    asks = {
        path.name for path in CSRC.rglob("*.*") if "TORCH_VERSION" in path.read_text() or "_SINCE(" in path.read_text()
    }
    assert asks == {"compat.h"}


def test_rooms_include_only_what_is_below_them() -> None:
    rooms = ["runtime", "operators", "kernels", "bindings"]
    for number, room in enumerate(rooms):
        for path in (CSRC / "core" / room).iterdir():
            for above in rooms[number + 1 :]:
                assert f'#include "{above}/' not in path.read_text(), f"{path.name} knows {above}"


def test_the_core_knows_no_part_and_no_part_another() -> None:
    folders = [part for part in parts.parts_of("cuda") if part != parts.CORE]
    for folder in (parts.CORE, *folders):
        for path in (CSRC / folder).rglob("*.*"):
            for other in folders:
                assert other == folder or f'#include "{other}/' not in path.read_text(), f"{path.name} knows {other}"


def test_operator_table() -> None:
    rows = {row.name: row for row in op_table.rows(op_table.yaml_path())}
    assert len(rows) > 2000
    assert rows["mm"].method == "wrapper_CUDA_mm" and set(rows["mm"].flags) >= {"kDeviceCheck", "kMpsKernel"}
    assert "kDeviceCheck" not in rows["add.Tensor"].flags
    assert rows["index_select"].method == "wrapper_CUDA__index_select"
    assert "kMpsKernel" not in rows["linalg_eig"].flags
    text = op_table.cpp(op_table.yaml_path(), CSRC / op_table.TEMPLATE)
    assert '    {"mm", "wrapper_CUDA_mm", kDeviceCheck | kMpsKernel' in text
    assert text.count("wrapper_CUDA_") == len(rows) and "{{" not in text and text.endswith("hostdevice\n")
