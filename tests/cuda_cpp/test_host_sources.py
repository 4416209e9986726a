"""Programs of several languages: C and C++ sources beside CUDA C++, and what NVIDIA's own samples look for."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.cuda_programs import compile_and_run

from torchdevice_cuda.cuda_cpp import INCLUDE, barriers, nvcc, translation


def _run(folder: Path, *words: str) -> str:
    return compile_and_run(folder, *words).stdout


def test_sources_of_c_and_cpp_are_the_host_compilers(tmp_path: Path) -> None:
    """Neither sees CUDA's device functions, nor __CUDACC__; C has other keywords, and names without types."""
    (tmp_path / "plain.c").write_text("#ifdef __CUDACC__\n#error\n#endif\nint class(int new) { return new + 1; }\n")
    (tmp_path / "host.cpp").write_text(
        "#include <cuda_runtime.h>\n#ifdef __CUDACC__\n#error\n#endif\n"
        "static unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }\n"
        "int on_host(float* x) { cudaMalloc(&x, 4); return cudaFree(x) == cudaSuccess ? umin(3, 4) : -1; }\n"
    )
    (tmp_path / "main.cu").write_text(
        '#include <cstdio>\nextern "C" int plain(int) __asm__("class");\nint on_host(float*);\n'
        "__global__ void add(int* x) { *x += 1; }\n"
        'int main() { int x = plain(40); add<<<1, 1>>>(&x); printf("%d %d\\n", x, on_host(nullptr)); }\n'
    )
    assert _run(tmp_path, *(str(tmp_path / name) for name in ("plain.c", "host.cpp", "main.cu"))) == "42 3\n"


def test_any_source_is_cuda_cpp_after_x_cu(tmp_path: Path) -> None:
    source = tmp_path / "kernel.cpp"
    source.write_text(
        "#include <cstdio>\n__global__ void add(int* x) { *x += 1; }\n"
        'int main() { int x = 1; add<<<1, 1>>>(&x); printf("%d\\n", x); }\n'
    )
    assert _run(tmp_path, "-x", "cu", str(source)) == "2\n"
    assert nvcc.main(["-c", str(source), "-o", str(tmp_path / "a.o")]) == 1  # C++ has no __global__ functions


def test_a_missing_header_of_a_host_source_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "needs.cpp"
    source.write_text("#include <cudnn.h>\n")
    assert nvcc.main(["-c", str(source), "-o", str(tmp_path / "needs.o")]) == 1
    assert f"{source}:1: error: cudnn.h is not supported here: cuDNN" in capfd.readouterr().err


@pytest.mark.slow
def test_flags_for_the_host_compiler_link_too(tmp_path: Path) -> None:
    source = tmp_path / "threads.cu"
    source.write_text(
        "#include <cstdio>\n#include <omp.h>\nint main() { int n = 0;\n"
        '#pragma omp parallel num_threads(2) reduction(+:n)\n  n += 1;\n  printf("%d\\n", n); }\n'
    )
    assert _run(tmp_path, "-Xcompiler", "-fopenmp", str(source)) == "2\n"


@pytest.mark.slow
def test_programs_find_the_guards_of_nvidias_headers(tmp_path: Path) -> None:
    source = tmp_path / "guards.cu"
    source.write_text(
        "#include <cublas_v2.h>\n#include <cuda_runtime.h>\n#include <cstdio>\n"
        "#if !defined(__CUDA_RUNTIME_H__) || !defined(__CUDA_RUNTIME_API_H__) || !defined(__DRIVER_TYPES_H__)\n#error\n"
        "#endif\n#if !defined(CUBLAS_API_H_) || !defined(CUBLAS_V2_H_)\n#error\n#endif\n"
        "int main() { int mode = -1; cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, 0);\n"
        '  printf("%d %d\\n", mode != cudaComputeModeProhibited, cudaThreadSynchronize()); }\n'
    )
    assert _run(tmp_path, str(source)) == "1 0\n"


def test_programs_of_cublas_need_no_pytorch(tmp_path: Path) -> None:
    """CMake names the folder of the toolkit's headers, which is a link."""
    (tmp_path / "include").symlink_to(INCLUDE)
    source = tmp_path / "handle.cu"
    source.write_text(
        "#include <cublas_v2.h>\n#include <cstdio>\n"
        'int main() { cublasHandle_t handle; printf("%d\\n", cublasCreate(&handle)); }\n'
    )
    assert _run(tmp_path, f"-I{tmp_path}/include", str(source)) == "0\n"


def test_kernels_whose_loops_do_not_compile_are_listed_as_fibers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "divided.cu"
    source.write_text("__global__ void k(int* x) { x[threadIdx.x] = 1; __syncthreads(); x[threadIdx.x] = 2; }\n")
    written = barriers.Kernels.choose

    def choose(self: barriers.Kernels, kernel: translation.Kernel) -> barriers.Choice:
        choice = written(self, kernel)
        return barriers.Choice(choice.name, choice.line, f"{choice.body} undeclared;", "")

    monkeypatch.setattr(barriers.Kernels, "choose", choose)
    assert nvcc.main(["-O0", "--resource-usage", "-c", str(source), "-o", str(tmp_path / "divided.o")]) == 0
    assert "kernel k (line 1): its threads are fibers: the loops do not compile: " in capfd.readouterr().err


def test_kernels_read_the_gpus_clock(tmp_path: Path) -> None:
    """A kernel that spins for a time of the reported clock rate takes that long, and the host's clock() is C's."""
    source = tmp_path / "spins.cu"
    source.write_text(
        "#include <cstdio>\n#include <ctime>\n"
        "__device__ bool is_over(clock_t begin, clock_t ticks) { return clock() - begin >= ticks; }\n"
        "__global__ void spin(clock_t ticks, long long* between) {\n"
        "  const clock_t begin = clock(); const long long exact = clock64();\n"
        "  while (!is_over(begin, ticks)) {} *between = clock64() - exact; }\n"
        "int main() { int rate; cudaDeviceGetAttribute(&rate, cudaDevAttrClockRate, 0);\n"
        "  long long between = 0; timespec a, b; clock_gettime(CLOCK_MONOTONIC, &a);\n"
        "  spin<<<1, 1>>>(clock_t(rate) * 20, &between); clock_gettime(CLOCK_MONOTONIC, &b);\n"
        "  const double ms = (b.tv_sec - a.tv_sec) * 1e3 + (b.tv_nsec - a.tv_nsec) * 1e-6;\n"
        '  printf("%d %d %d\\n", ms >= 20, between <= ms * rate, clock() < CLOCKS_PER_SEC * 3600); }\n'
    )
    assert _run(tmp_path, str(source)) == "1 1 1\n"


@pytest.mark.slow
def test_programs_see_the_capability_that_they_are_compiled_for(tmp_path: Path) -> None:
    text = (
        "#include <cuda_runtime.h>\nint NAME() { cudaDeviceProp p; cudaGetDeviceProperties(&p, 0); return p.major; }\n"
    )
    (tmp_path / "host.cpp").write_text(text.replace("NAME", "of_host"))
    main = '#include <cstdio>\nint of_host();\nint main() { printf("%d %d\\n", of_host(), of_source()); }\n'
    (tmp_path / "main.cu").write_text(text.replace("NAME", "of_source") + main)
    assert _run(tmp_path, "-arch=sm_80", str(tmp_path / "host.cpp"), str(tmp_path / "main.cu")) == "8 8\n"


@pytest.mark.slow
def test_cublas_copies_vectors_and_matrices(tmp_path: Path) -> None:
    source = tmp_path / "copies.cu"
    source.write_text(
        "#include <cublas_v2.h>\n#include <cstdio>\nint main() { float in[6] = {1, 2, 3, 4, 5, 6}, out[8] = {}, *d;\n"
        "  cudaMalloc(&d, 8 * sizeof(float));\n"
        "  int wrong = cublasSetMatrix(2, 2, sizeof(float), in, 3, d, 2);  // columns 1 2 and 4 5\n"
        "  wrong += cublasGetVector(2, sizeof(float), d, 2, out, 3);\n"
        "  wrong += cublasGetVector(2, sizeof(float), d + 1, 2, out + 1, 3);\n"
        '  for (float x : out) printf("%g ", x); printf("%d\\n", wrong);\n'
        "  return cublasSetVector(1, 0, in, 1, d, 1) != CUBLAS_STATUS_INVALID_VALUE; }\n"
    )
    assert _run(tmp_path, str(source)) == "1 2 0 4 5 0 0 0 0\n"
