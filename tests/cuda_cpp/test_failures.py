"""Kernels that fail say where: kernel, block, thread, file and line; and the device is told, as on a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from harness import CPU, VIRTUAL, child, outcome

WRONG = r"""
extern "C" __global__ void stuck(int* x) {
  if (threadIdx.x < 8) __syncthreads();
  else x[0] = __shfl_sync(0xffffffff, x[0], 0);
}
extern "C" __global__ void asserts(int* x) {
  assert(threadIdx.x != 3);
  x[threadIdx.x] = 1;
}
"""


def launch(name: str) -> Any:
    """In a library of its own: what has failed stays so."""
    kernel = torch.cuda._compile_kernel(WRONG.lstrip(), name)
    x = torch.zeros(64, dtype=torch.int32, device="cuda")
    kernel(grid=(1, 1, 1), block=(16, 1, 1), args=[x])
    with pytest.raises(RuntimeError) as raised:
        kernel(grid=(1, 1, 1), block=(1, 1, 1), args=[x])
    return str(raised.value)


def everything() -> dict[str, str]:
    return {name: launch(name) for name in ("stuck", "asserts")}


def test_a_failure_names_its_thread_and_line() -> None:
    done = outcome(everything, CPU)
    assert done.value == {
        "stuck": "CUDA error: unspecified launch failure",
        "asserts": "CUDA error: device-side assert triggered",
    }
    for line in (
        "stuck.cu:2: kernel stuck: block: [0,0,0], thread: [0,0,0] waits in __syncthreads for threads that do not come"
        "; thread [15,0,0] waits in __shfl_sync at line 3",
        "asserts.cu:6: asserts: block: [0,0,0], thread: [3,0,0] Assertion `threadIdx.x != 3` failed.",
    ):
        assert line in done.err, done.err


@child(VIRTUAL, alone=True)
def test_a_failed_assertion_ends_the_context() -> None:
    assert "device-side assert" in launch("asserts")
    for waits in (torch.cuda.synchronize, lambda: torch.ones(2, device="cuda").cpu()):
        with pytest.raises(
            RuntimeError, match="CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert'"
        ):
            waits()


@child(CPU)
def test_bad_source_shows_the_compilers_words_on_the_programs_lines() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)Kernel compilation failed:.*broken\.cu:2:\d+: error: .*nothing"):
        torch.cuda._compile_kernel("__global__ void broken(int* x) {\n  x[0] = nothing;\n}", "broken")
    with pytest.raises(
        RuntimeError, match=r"ptx\.cu:2:\d+: error: .*the PTX instruction movs\.u32 is not supported here"
    ):
        unused = 'template <class T> __device__ void unused(T* x) { asm("movz.u32 %0, 1;" : "=r"(x[0])); }\n'
        torch.cuda._compile_kernel(
            f'{unused}__global__ void ptx(int* x) {{ asm("movs.u32 %0, 1;" : "=r"(x[0])); }}', "ptx"
        )


@child(CPU)
def test_thread_0_may_write_what_the_others_have_just_read() -> None:
    # As pointnet2's sampling does, without a barrier between reading and writing: on a GPU it comes late enough.
    kernel = torch.cuda._compile_kernel(
        """__global__ void late(int* x) {
             __shared__ int s;
             int sum = 0;
             for (int round = 1; round < 50; ++round) {
               if (threadIdx.x == 0) s = round;
               __syncthreads();
               sum += s;
             }
             x[threadIdx.x] = sum;
           }""",
        "late",
    )
    x = torch.zeros(64, dtype=torch.int32, device="cuda")
    kernel(grid=(1, 1, 1), block=(64, 1, 1), args=[x])
    assert x.unique().tolist() == [sum(range(1, 50))]
