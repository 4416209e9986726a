"""Kernels with barriers become loops over threads where all threads reach each barrier, and fibers elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness import STORED, VIRTUAL, child
from harness.processes import ROOT

from torchdevice_cuda.cuda_cpp import flags, lockstep, nvcc, tokens, translation, units


def split(body: str, before: str = "") -> tuple[str, str]:
    """Return the text of a kernel with this body, and why it is not split."""
    source = f"{before} __global__ void k(float* x, int n, const int* flags) {{ __shared__ float s[64]; {body} }}"
    findings = translation.Findings()
    text = "".join(translation.rewritten(tokens.tokenize(source), findings=findings))
    return text, findings.choices[0].reason


@pytest.mark.parametrize(
    "body",
    [
        "s[threadIdx.x] = x[threadIdx.x]; __syncthreads(); x[threadIdx.x] = s[0];",
        "for (int i = 0; i < n; ++i) { s[threadIdx.x] += i; __syncthreads(); }",
        "for (int i = blockIdx.x; i < n; i += gridDim.x) { __syncthreads(); if (i == 3) break; }",
        "int i; for (i = 0; i < 4; i++) s[i] = 0; for (i = 0; i < n; i++) __syncthreads();",
        "int k = n; while (k > 1) { k = (k + 1) / 2; __syncthreads(); }",
        "if (n > 4) { __syncthreads(); } else if (flags[blockIdx.x]) { __syncthreads(); }",
        "if (threadIdx.x >= n) return; __syncthreads(); x[threadIdx.x] = s[0];",
        "if (n < 2) return; __syncthreads();",
        "__shared__ int done; do { __syncthreads(); if (threadIdx.x == 0) done = 1; __syncthreads(); } while (!done);",
        "float v = x[threadIdx.x]; if (threadIdx.x < 32) v += __shfl_down_sync(~0u, v, 1); x[threadIdx.x] = v;",
        "float v = 0; for (int i = threadIdx.x / 32; i < n; ++i) v += __shfl_xor_sync(~0u, v, 1);",
        "int i = threadIdx.x; while (__syncthreads_or(i < n)) i += 64;",
        "auto f = [&](int i) { return s[i]; }; __syncthreads(); x[0] = f(1); __syncthreads(); x[1] = f(2);",
    ],
)
def test_kernels_that_are_split(body: str) -> None:
    text, reason = split(body)
    assert not reason
    assert "run_block" not in text and "host_cuda::Loops" in text


@pytest.mark.parametrize(
    ("body", "divided"),
    [
        ("volatile float* v = s; v[0] += v[1];", "auto read = v[0] + (v[1]); step(0); v[0] = read; step(1);"),
        ("volatile float* v = s; v[0] = n = v[1];", "auto read = v[1]; step(0); v[0] = n = read; step(1);"),
        ("float volatile *v = s, *w = s; w[n]--; n = v[0];", "auto read = w[n] - (1); step(0); w[n] = read; step(1);"),
        (
            "volatile float* v = s; if (n) v[0] = v[1];",
            "{ if (n) { auto read = v[1]; step(0); v[0] = read; step(1); } step(2); }",
        ),
        ("volatile float* v = s; v[0] = 1; s[0] = 2;", ""),
        ("volatile float* v = s; n = v[0]; s[0] += s[1];", ""),
        ("volatile int v = 1; x[0] += x[v];", ""),
    ],
)
def test_statements_on_volatile_memory_are_divided(body: str, divided: str) -> None:
    source = tokens.tokenize(f"__global__ void k(float* x, int n) {{ __shared__ float s[64]; {body} }}")
    made = "".join(token.text for token in tokens.replace(source, lockstep.list_replacements(source), [])[0])
    made = made.replace("host_cuda_read_0", "read").replace("host_cuda_step_sync", "step")
    assert divided in made
    assert ("step" in made) == bool(divided)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("if (threadIdx.x < n) __syncthreads();", "threads may go through differently"),
        ("for (int i = threadIdx.x; i < n; ++i) __syncthreads();", "threads may go through differently"),
        ("for (int i = 0; i < x[threadIdx.x]; ++i) __syncthreads();", "threads may go through differently"),
        ("for (int i = 0; i < n; ++i) { __syncthreads(); if (s[threadIdx.x] > 1) break; }", "differently"),
        ("int i = 0; if (threadIdx.x == 0) i = 1; if (i) __syncthreads();", "differently"),
        ("int i = n; i -= atomicAdd(&n, 1); while (i) { __syncthreads(); }", "differently"),
        ("switch (n) { case 1: __syncthreads(); }", "switch"),
        ("again: __syncthreads(); if (n) goto again;", "label"),
        ("auto f = [&] { __syncthreads(); }; f();", "lambda"),
        ("float v = n ? __shfl_sync(~0u, x[0], 1) : 0;", "not always computed"),
        ("float& r = s[(int)s[0]]; float q[2]; float& p = q[n]; __syncthreads(); r = p;", "reference"),
    ],
)
def test_kernels_that_are_fibers(body: str, reason: str) -> None:
    text, found = split(body)
    assert reason in found
    assert "run_block<false>" in text


def test_functions_with_barriers_are_split_with_their_kernels() -> None:
    add = "template <class T> __attribute__((always_inline)) T add(T v, int n) { for (int i = 0; i < n; ++i) "
    add += "{ v += __shfl_xor_sync(~0u, v, 1); } __syncthreads(); return v; } "
    text, reason = split("float v = add(x[threadIdx.x], n); x[threadIdx.x] = v;", add)
    assert not reason
    assert "Each<T> add_loops(::host_cuda::Loops& hc, const int hc_d, const ::host_cuda::Each<T>&" in text
    _, reason = split("float v = add(x[threadIdx.x], threadIdx.x); x[threadIdx.x] = v;", add)
    assert "add waits as often as n says" in reason
    _, reason = split("struct S { void f(); }; x[0] = 1; g.f(); ", "struct G { void f() { __syncthreads(); } } g; ")
    assert "an operation that waits" in reason


def test_statements_stay_on_their_lines() -> None:
    source = "__global__ void k(int* x) {\n  int a = x[threadIdx.x],\n      b = 2;\n"
    source += "  __syncthreads();\n\n  x[0] = a + b;\n}\nint z;"
    text = "".join(translation.rewritten(tokens.tokenize(source)))
    assert [text.split("\n").index(line) for line in text.split("\n") if "x[0] = a" in line] == [5]
    assert text.split("\n")[7] == "int z;"


def compile_verbosely(text: str, folder: Path) -> str:
    """Compile kernels with nvcc; return what it prints about them."""
    source = folder / "k.cu"
    source.write_text(text)
    words = ["-Xptxas", "-v", "-O0", "-c", str(source), "-o", str(folder / "k.o")]
    variables = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "HOME": str(folder)}
    command = [sys.executable, "-m", "torchdevice_cuda.cuda_cpp.nvcc", *words]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stderr


def test_pointers_that_are_constants_are_passed(tmp_path: Path) -> None:
    text = "__device__ void add(int* const v, const int* const __restrict__ w, const int n) {\n"
    text += "  v[threadIdx.x] += w[n]; __syncthreads(); }\n"
    text += "__global__ void k(int* x) { __shared__ int s[32]; add(s, x, threadIdx.x); x[0] = s[1]; }\n"
    assert "kernel k (line 3): its threads are loops" in compile_verbosely(text, tmp_path)


def test_nvcc_says_how_threads_run(tmp_path: Path) -> None:
    said = compile_verbosely(
        "__global__ void k(int n) { if (threadIdx.x < n) __syncthreads(); }\n"
        "__global__ void l() { __syncthreads(); }\n",
        tmp_path,
    )
    assert "kernel k (line 1): its threads are fibers: a barrier in a condition" in said
    assert "kernel l (line 2): its threads are loops" in said


def test_kernels_with_long_comments_and_macros_of_the_system_are_split(tmp_path: Path) -> None:
    comment = "/*" + "\n" * 20 + "*/"  # the preprocessor skips the lines with a marker
    text = (
        "#include <cassert>\n"
        + "__global__ void k(float* x) { @ __syncthreads(); @ assert(x != NULL); @ } @".replace("@", comment)
    )
    assert "kernel k (line 2): its threads are loops" in compile_verbosely(text, tmp_path)


def test_an_unknown_construct_is_compiled_with_fibers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def run_compiler(words: list[str]) -> subprocess.CompletedProcess[str]:
        text = Path(words[-1]).read_text()
        tried.append("run_block" in text)
        return subprocess.CompletedProcess(words, 0 if tried[-1] else 1, "", "" if tried[-1] else "wrong")

    monkeypatch.setattr(nvcc, "run_compiler", run_compiler)
    text = '# 1 "k.cu"\n__global__ void l() { __syncthreads(); }\n'
    nvcc.compile_translated(text, flags.read(["-c", "k.cu"]), tmp_path / "k.ii", [])
    assert tried == [False, True]


@pytest.mark.parametrize(
    ("said", "given", "level"),
    [
        ("", [], ["-O3", *nvcc._THIN]),
        ("", ["-O3"], [*nvcc._THIN, "-O3"]),
        ("", ["-O2"], ["-O2"]),
        ("1", ["-O2", "-g"], ["-g", "-O1"]),
        ("3", ["-O2"], ["-O3"]),
    ],
)
def test_optimization_levels(said: str, given: list[str], level: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "identify_compiler", lambda: "g++ 12")
    monkeypatch.setenv("TORCHDEVICE_KERNEL_OPTIMIZATION", said)
    assert nvcc.choose_level(given) == level
    monkeypatch.setenv("TORCHDEVICE_KERNEL_OPTIMIZATION", "fast")
    with pytest.raises(
        flags.Unknown, match="TORCHDEVICE_KERNEL_OPTIMIZATION='fast' cannot be read; allowed: 0, 1, 2, 3"
    ):
        nvcc.choose_level(given)


def test_the_same_source_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHDEVICE_CACHE_DIR", str(tmp_path / "cache"))
    output, built = tmp_path / "k.o", []

    def build() -> str:
        built.append(1)
        output.write_bytes(b"object %d" % len(built))
        return "a warning" if len(built) == 3 else ""

    for text, flag, expected in [
        ("a", "-O3", 1),
        ("a", "-O3", 1),
        ("a", "-O0", 2),
        ("b", "", 3),
        ("b", "", 4),
        ("b", "", 4),
    ]:
        assert bool(units.compile_once(text, [flag], output, build)) == (text == "b" and expected == 3)
        assert output.read_bytes() == b"object %d" % expected
    monkeypatch.setattr(units, "LIMIT", 100)
    units.compile_once("c", [], output, build)
    assert sum(path.stat().st_size for path in (tmp_path / "cache" / "units").iterdir()) <= 100


@child(VIRTUAL, *STORED)
def test_lanes_that_do_not_come_end_a_split_kernel() -> None:
    import torch

    source = """
    extern "C" __global__ void half_missing(int* x) {
      int v = x[threadIdx.x];
      if (threadIdx.x < 16) v += __shfl_down_sync(0xffffffffu, v, 1);
      __syncthreads();
      x[threadIdx.x] = v;
    }"""
    kernel = torch.cuda._compile_kernel(source, "half_missing")
    x = torch.arange(32, dtype=torch.int32, device="cuda")
    with pytest.raises(RuntimeError, match="unspecified launch failure"):
        kernel(block=(32, 1, 1), args=[x])
        torch.cuda.synchronize()


ENDING = r"""
#include <cstdio>
__global__ void shuffle(int* x, int n) {
  volatile int* shown = x;
  if (threadIdx.x < n) x[threadIdx.x] = __shfl_up_sync(0xffffffff, threadIdx.x, 1);
  if (threadIdx.x == 0) shown[31] = shown[30] + 1;
}
__global__ void vote(int* x, int n) {
  if (threadIdx.x >= n) {
    x[threadIdx.x] = 7;
  } else {
    const unsigned odd = __ballot_sync(0xffffffff, threadIdx.x % 2);
    x[threadIdx.x] = __popc(odd) + __shfl_sync(0xffffffff, threadIdx.x, 4);
  }
}
__global__ void meet_elsewhere(int* x, int n) {
  int v = threadIdx.x;
  if (threadIdx.x < n) v = __shfl_up_sync(0xffffffff, v, 1);
  for (int i = 0; i < 2; ++i) v += __any_sync(0xffffffff, v > 30);
  x[threadIdx.x] = v;
}
int main() {
  int x[64] = {};
  shuffle<<<1, 32>>>(x, 20);
  vote<<<1, 32>>>(x + 32, 20);
  printf("%d %d %d %d %s\n", x[19], x[31], x[51], x[52], cudaGetErrorName(cudaDeviceSynchronize()));
  meet_elsewhere<<<1, 32>>>(x, 20);
  printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
"""


@pytest.mark.parametrize("fibers", ["0", pytest.param("1", marks=pytest.mark.slow)])
def test_lanes_that_end_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fibers: str) -> None:
    """A GPU lets the others go on when a lane ends. Loops cannot know that it will, and see if it comes elsewhere."""
    (tmp_path / "ending.cu").write_text(ENDING)
    monkeypatch.setenv("TORCHDEVICE_KERNEL_FIBERS", fibers)
    assert nvcc.main(["-O0", str(tmp_path / "ending.cu"), "-o", str(tmp_path / "ending")]) == 0
    done = subprocess.run([str(tmp_path / "ending")], capture_output=True, text=True, check=True)
    ended, met = done.stdout.splitlines()
    assert ended == "18 1 14 7 cudaSuccess"
    if fibers == "0":
        assert met == "cudaErrorLaunchFailure"
        assert "ending.cu:18: kernel meet_elsewhere" in done.stderr
        assert "if they come to it elsewhere, compile it with TORCHDEVICE_KERNEL_FIBERS=1" in done.stderr
