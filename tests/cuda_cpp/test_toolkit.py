"""Parts of the toolkit that other people's packages use: headers, linkage, flags, discovery."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from harness import CPU, VIRTUAL, child

from torchdevice_cuda.cuda_cpp import flags, linkage, nvcc, own_names, tokens, toolkit, translation

SOURCES = Path(__file__).parent / "toolkit"
PRINTED = {
    "groups": [
        "11 0 0 1 0 1",
        "11 1 0 2 2 1",
        "11 1 0 2 2 1",
        "11 1 3 8 14 1",
        "no error",
        "unspecified launch failure",
    ],
    "numbers": [
        "-15 -35",
        "272 1332",
        "18 39",
        "2.5 4.5",
        "1 2",
        "ffffffff 3c00 3c01 bc01 4c00 2000405 ffff0000 3f800001 ",
        "0.272463 1.959964 4.572825",
    ],
    "collectives": ["293 295 484 1054", "1:1 2:2 3:0 7:5 8:4 9:3 3 4 2 11 19 7 7 3 9 1", "12 19 11 3"],
    "products": ["1 2 9 12", "2 6 15 27", "5 0 7"],
    "ranges": ["5 0 1 1", "0:3 1:1 1:4 2:2 3:0 ", "-7 7"],
    "lockstep": ["3067", "3067", "15 496 1520", "0 0"],
}

#: Which of them use headers that programs of samples do, too.
RARE = {"numbers", "products", "ranges"}


@pytest.mark.parametrize(
    ("name", "threads"),
    [
        *(pytest.param(name, "loops", marks=[pytest.mark.slow] if name in RARE else []) for name in PRINTED),
        pytest.param("lockstep", "fibers", marks=pytest.mark.slow),
    ],
)
def test_a_program_prints_known_results(
    name: str, threads: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHDEVICE_KERNEL_FIBERS", str(int(threads == "fibers")))
    program = tmp_path / name
    assert nvcc.main(["-O0", str(SOURCES / f"{name}.cu"), "-o", str(program)]) == 0
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines() == PRINTED[name]
    if name == "groups":
        assert "that cudaLaunchCooperativeKernel did not launch" in done.stderr
        assert "groups.cu:43: kernel wait_for_all" in done.stderr


# ------------------------------------------------------------- linkage
@pytest.mark.parametrize(
    ("text", "settled"),
    [
        ("__constant__ float table[11];", "static float table[11];"),
        ("static __constant__ int n = 3;", "static  int n = 3;"),
        ("extern __constant__ int n;", "extern  int n;"),
        ("__device__ int counter;", "static int counter;"),
        ("__device__ __constant__ const float pi = 3.f;", "static  const float pi = 3.f;"),
        ("__managed__ int x[2] = {1, 2};", "static int x[2] = {1, 2};"),
        ("namespace n { __device__ pair<int, int> p{1, 2}; }", "namespace n { static pair<int, int> p{1, 2}; }"),
        ("__device__ __attribute__((aligned(16))) float x[4];", "static __attribute__((aligned(16))) float x[4];"),
        ("__device__ int f(int x) { return x; }", " int f(int x) { return x; }"),
        ("inline __device__ T& operator[](int i);", "inline  T& operator[](int i);"),
        ("struct S { __device__ bool operator==(S o) const; };", "struct S {  bool operator==(S o) const; };"),
        ("auto g = [=] __device__ (int i) { return i; };", "auto g = [=]  (int i) { return i; };"),
        ("auto g = [=] __device__ { return 1; };", "auto g = [=]  { return 1; };"),
        ("template <> __device__ int v<3> = 1;", "template <>  int v<3> = 1;"),
        ("template <class T> __device__ std::enable_if_t<(sizeof(T) > 1), T> f(T x);",
         "template <class T>  std::enable_if_t<(sizeof(T) > 1), T> f(T x);"),
    ],
)  # fmt: skip
def test_variables_of_the_gpu_belong_to_their_source(text: str, settled: str) -> None:
    marker = '# 1 "user.cu"\n'
    assert linkage.settle(marker + text, lambda file: False, relocatable=False) == marker + settled
    relocatable = linkage.settle(marker + text, lambda file: False, relocatable=True)
    assert "__" not in relocatable.replace("__attribute__", "")
    assert relocatable.count("static") == text.count("static")


def test_two_sources_define_the_same_constant(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.cu").write_text(
            f"__constant__ float table[2] = {{{len(name)}, 4}};\n__device__ int calls;\n"
            f"__global__ void {name}_kernel(float* x) {{ *x = table[0] + table[1]; ++calls; }}\n"
            f"float {name}() {{ float x; {name}_kernel<<<1, 1>>>(&x); return x; }}\n"
        )
    (tmp_path / "main.cu").write_text(
        '#include <cstdio>\nfloat one();\nfloat two();\nint main() { printf("%g %g\\n", one(), two()); }\n'
    )
    sources = [str(tmp_path / f"{name}.cu") for name in ("one", "two", "main")]
    assert nvcc.main(["-O0", *sources, "-o", str(tmp_path / "program")]) == 0
    done = subprocess.run([str(tmp_path / "program")], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "7 7\n"


# ------------------------------------------------------------- text
@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("void f() { dim3 gridDim(2); g(gridDim); }", 2),
        ("void f(const dim3& gridDim) { g(gridDim); } int h() { return gridDim.x; }", 2),
        ("void f() { dim3 grid(1), blockDim(4); g(blockDim); }", 2),
        ("void f() { config.gridDim = 1; }", 1),
        ("int f() { return blockDim.x * gridDim.y; }", 0),
        ("void f() { const int n = g(1, blockDim.x); dim3 d(1, blockDim.x); }", 0),
        ("int f() { if (n > blockDim.x) return threadIdx.x; else return blockDim.y; }", 0),
    ],
)
def test_variables_of_the_host_hide_cudas(text: str, own: int) -> None:
    found = tokens.tokenize(text)
    names = frozenset({"gridDim", "blockDim", "threadIdx"})
    assert len(own_names.find_own(found, names, translation._depths(found))) == own


def test_names_that_nvcc_accepts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that changes its meaning in a class, and one that C++20 has in the global namespace."""
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-O0 -std=c++20")
    source = tmp_path / "changes.cu"
    source.write_text(
        "#include <math.h>\nfloat lerp(float a, float b, float t) { return a + t * (b - a); }\n"
        "struct A {}; template <class T> struct S { A first; using A = T; };\nint f() { return sizeof(S<int>); }\n"
        "struct G { cudaGraph_t graph; cudaGraphExec_t made; cudaGraphNode_t node; cudaKernelNodeParams p; };\n"
    )
    assert nvcc.main(["-O0", "-c", str(source), "-o", str(tmp_path / "changes.o")]) == 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "darwin", reason="the tables of symbols are ELF's")
def test_pytorchs_headers_export_none_of_its_names(tmp_path: Path) -> None:
    """The linker would take a CUDA build's functions, which want a real driver, where names are the same."""
    from torch.utils.cpp_extension import include_paths

    headers = [
        path.relative_to(nvcc.INCLUDE) for part in ("ATen", "c10") for path in (nvcc.INCLUDE / part).rglob("*.*h")
    ]
    source, library = tmp_path / "all.cu", tmp_path / "all.so"
    source.write_text("".join(f"#include <{header}>\n" for header in headers))
    compiled = [f"-I{path}" for path in include_paths()]
    options = ["-O0", "-std=c++20", "-shared", "-Xcompiler", "-fPIC,-fkeep-inline-functions"]
    assert nvcc.main([*options, *compiled, str(source), "-o", str(library)]) == 0
    exported = subprocess.run(["nm", "-DC", "--defined-only", str(library)], capture_output=True, text=True, check=True)
    names = [line.split(maxsplit=2)[2] for line in exported.stdout.splitlines()]
    of_pytorch = [name for name in names if name.startswith(("c10::cuda::", "at::cuda::", "at::CUDAGeneratorImpl::"))]
    assert "c10::cuda::on_host::getCurrentCUDAStream(signed char)" in of_pytorch
    assert [name for name in of_pytorch if "::on_host::" not in name] == []


def test_values_are_read_as_another_type(tmp_path: Path) -> None:
    source = tmp_path / "pun.cu"
    source.write_text(
        "#include <cstdio>\n__global__ void k(int* bits, float* value) { *bits = 0; *value = 1; bits[1] = *bits; }\n"
        'int main() { int room[2]; k<<<1, 1>>>(room, (float*)room); printf("%x", room[1]); }\n'
    )
    assert nvcc.main(["-O3", str(source), "-o", str(tmp_path / "pun")]) == 0
    assert subprocess.run([str(tmp_path / "pun")], capture_output=True, text=True, check=True).stdout == "3f800000"


def test_every_missing_header_is_named_with_its_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.h").write_text("#include <cusparse.h>\n")
    source = tmp_path / "needs.cu"
    source.write_text('#include "own.h"\n#include <cudnn.h>\n#include <cutlass/gemm/gemm.h>\n#include <nvjpeg.h>\n')
    assert nvcc.main(["-c", str(source), "-o", str(tmp_path / "needs.o")]) == 1
    printed = capfd.readouterr().err
    assert f"{tmp_path}/own.h:1: error: cusparse.h is not supported here: cuSPARSE" in printed
    assert f"{source}:2: error: cudnn.h is not supported here: cuDNN" in printed
    assert f"{source}:3: error: cutlass/gemm/gemm.h is not supported here: CUTLASS" in printed
    assert f"{source}:4: error: nvjpeg.h is not supported here: a library of CUDA's toolkit" in printed


# ------------------------------------------------------------- flags and discovery
def test_flags_of_cmake(tmp_path: Path) -> None:
    (tmp_path / "includes.rsp").write_text('-isystem=/opt/"a b"/include -I/usr/x\n')
    words = (
        f"-forward-unknown-to-host-compiler --options-file {tmp_path}/includes.rsp -rdc=true --keep --keep-dir tmp -v"
    )
    words += " -MD -MT a.o -MF a.d -x cu -c a.cu -o a.o --generate-code=arch=compute_80,code=[compute_80,sm_80]"
    command = flags.read(words.split())
    assert command.reading == ["-isystem", "/opt/a b/include", "-I/usr/x", "-MD", "-MT", "a.o", "-MF", "a.d"]
    assert (command.is_relocatable, command.is_verbose, command.architecture) == (True, True, 800)
    assert (command.sources, command.output) == (["a.cu"], "a.o")


def test_a_device_link_writes_an_object(tmp_path: Path) -> None:
    made = tmp_path / "linked.o"
    assert nvcc.main(["-dlink", "a.o", "b.o", "-o", str(made)]) == 0
    assert made.stat().st_size > 0


@child(CPU, VIRTUAL)
def test_setup_files_find_the_toolkit() -> None:
    import torchdevice_cuda

    before = (os.environ.get("CUDA_HOME"), os.environ["PATH"])
    from torch.utils import cpp_extension

    home = cpp_extension._find_cuda_home()
    assert home == cpp_extension.CUDA_HOME == os.environ["CUDA_HOME"]
    assert shutil.which("nvcc") == os.path.join(home, "bin", "nvcc")
    said = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    assert f"release {torch.version.cuda}," in said
    assert f'"version": "{torch.version.cuda}.0"' in Path(home, "version.json").read_text()
    torchdevice_cuda.deactivate()
    assert (os.environ.get("CUDA_HOME"), os.environ["PATH"]) == before


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs CMake")
def test_cmake_builds_a_program(tmp_path: Path) -> None:
    home = toolkit.provide("13.0")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(scale LANGUAGES CXX)\nfind_package(CUDAToolkit REQUIRED)\n"
        "enable_language(CUDA)\nadd_executable(scale scale.cu)\n"
        "target_link_libraries(scale CUDA::cudart CUDA::cublas)\n"
    )
    (tmp_path / "scale.cu").write_text(
        "#include <cstdio>\n__global__ void scale(float* x) { x[threadIdx.x] *= 2; }\n"
        'int main() { float x[4] = {0, 0, 0, 21}; scale<<<1, 4>>>(x); printf("%g\\n", x[3]); }\n'
    )
    environment = {**os.environ, "CUDA_HOME": str(home), "PATH": toolkit.search_path(home)}
    for command in (["-S", ".", "-B", "build", "-DCMAKE_CUDA_ARCHITECTURES=80"], ["--build", "build"]):
        subprocess.run(["cmake", *command], cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=300)
    assert subprocess.run([tmp_path / "build" / "scale"], capture_output=True, check=True).stdout == b"42\n"
