"""How much code kernels are is estimated from the text; the compiler says how often it instantiated them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness.processes import ROOT

from torchdevice_cuda.cuda_cpp import instances, nvcc, tokens, translation

_BODY = "{ x[threadIdx.x] = T(N) + x[threadIdx.x + 1]; }"
_SINGLE = "{ x[0] = 1; }"
_SOURCE = """
template <class T, int N> __global__ void scale(T* x) @BODY
__global__ void single(int* x) @SINGLE
#define SWITCH(is, NAME, ...) if (is) { constexpr int NAME = 1; __VA_ARGS__ } \\
  else { constexpr int NAME = 0; __VA_ARGS__ }
template <class T, int K> void launch(T* x, bool is) { SWITCH(is, L, { scale<T, K + 8 * L><<<1, 32>>>(x); }) }
template <class T> void choose(T* x, int n, bool is) {
  if (n == 2) launch<T, 2>(x, is);
  else if (n == 3) launch<T, 3>(x, is);
  else launch<T, 4>(x, is);
}
template <class T> void never(T* x) { scale<T, 99><<<1, 32>>>(x); }
template void choose<float>(float* x, int n, bool is);
template void choose<double>(double* x, int n, bool is);
void run(int* x) { single<<<1, 1>>>(x); choose(x, 2, true); }
""".replace("@BODY", _BODY).replace("@SINGLE", _SINGLE)


def build(source: Path, *words: str, **variables: str) -> str:
    """Compile a source; return the messages."""
    command = [sys.executable, "-m", "torchdevice_cuda.cuda_cpp.nvcc", *words, "-c", str(source)]
    command += ["-o", str(source.with_suffix(".o"))]
    kept = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "HOME": str(source.parent)}
    done = subprocess.run(command, env={**kept, **variables}, capture_output=True, text=True, check=True)
    return done.stderr


def count_tokens(body: str) -> int:
    """Count the tokens of a body without its last brace."""
    return sum(token.kind != "space" for token in tokens.tokenize(body)) - 1


def test_instances_are_those_of_the_compiler(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(_SOURCE)
    build(source, "-O0")
    symbols = subprocess.run(["nm", "-C", str(source.with_suffix(".o"))], capture_output=True, text=True, check=True)
    made = sum(line[17:].startswith("W void scale<") and "lambda" not in line for line in symbols.stdout.splitlines())
    assert made == 18
    expanded = nvcc.run_compiler(["-E", "-P", "-x", "c++", str(source)]).stdout
    findings = translation.Findings()
    translation.rewritten(tokens.tokenize(expanded), findings=findings)
    assert findings.size == made * count_tokens(_BODY) + count_tokens(_SINGLE)


def test_functions_that_name_each_other_end() -> None:
    text = """
    template <int N> __global__ void k() { if (N) k<N - 1>(); }
    template <int N> void a();
    template <int N> void b() { a<N>(); }
    template <int N> void a() { b<N - 1>(); k<N><<<1, 1>>>(); }
    template void a<3>();
    """
    findings = translation.Findings()
    translation.rewritten(tokens.tokenize(text), findings=findings)
    assert findings.size > 0


@pytest.mark.parametrize(
    ("words", "level", "is_quick"),
    [
        (["-O3"], "", True),
        pytest.param([], "", True, marks=pytest.mark.slow),
        (["-O0"], "", False),
        pytest.param(["-O3"], "0", False, marks=pytest.mark.slow),
    ],
)
def test_many_instances_are_compiled_for_a_short_build(
    words: list[str], level: str, is_quick: bool, tmp_path: Path
) -> None:
    statements = "x[0] = N;" * (instances.MANY // 7 // 8 + 1)
    launches = "".join(f"k<{i}><<<1, 1>>>(x);" for i in range(8))
    source = tmp_path / "k.cu"
    source.write_text(
        f"template <int N> __global__ void k(int* x) {{ {statements} }} void run(int* x) {{ {launches} }}"
    )
    said = build(source, "--resource-usage", *words, TORCHDEVICE_KERNEL_OPTIMIZATION=level)
    assert ("compiled by -Og, which takes less time" in said) == is_quick, said
