"""With --sanitize wrong kernels are reported as compute-sanitizer reports them on an H200."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from harness import VIRTUAL, Finished, run_forked
from harness.places import must_be_ready
from recorded import read_record, sanitizer

from torchdevice_cuda.cuda_cpp import nvcc

#: What memcheck and racecheck said of each kernel; `bare` is what the GPU said without them.
RECORD = read_record(sanitizer.RECORD)
_RACE = re.compile(
    r"wrong\.cu:(\d+): kernel \w+: block: \[0,0,0\], thread: \[\d+,0,0\] (Error|Warning): Race reported between (\w+) "
    r"access and (\w+) access by thread \[\d+,0,0\] at \S*wrong\.cu:(\d+), at __shared__ 0x"
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="lines are looked up by a tool of Linux's compilers")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("wrong") / "wrong"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TORCHDEVICE_SANITIZE", "memcheck")
        assert nvcc.main([str(sanitizer.SOURCE), "-o", str(made)]) == 0
    return made


def said(program: Path, name: str, tools: str) -> subprocess.CompletedProcess[str]:
    words = [str(program), str(RECORD[name]["case"])]
    environment = {**os.environ, "TORCHDEVICE_SANITIZE": tools}
    return subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment, check=False)


@pytest.mark.parametrize("name", [name for name, record in RECORD.items() if "said" in record])
def test_memory_that_is_not_the_kernels_is_reported_as_by_memcheck(program: Path, name: str) -> None:
    done, record = said(program, name, "memcheck"), RECORD[name]["said"]
    assert done.returncode == 1
    block, thread = (",".join(map(str, record[key])) for key in ("block", "thread"))
    assert f"wrong.cu:{record['line']}: kernel {name}: block: [{block}], thread: [{thread}] " in done.stderr
    if name == "shared_past":  # an array whose size is known is looked at by its index
        assert "index 32 is out of the array's bounds" in done.stderr
    else:
        assert re.search(rf"{record['what']}: access to 0x\w+ {record['why']}", done.stderr), done.stderr
    if record["size"] and name != "null_read":  # from there, every allocation is equally far
        assert re.search(
            rf"and is {record['where']} the nearest allocation at 0x\w+ of size {record['size']} bytes", done.stderr
        ), done.stderr
    wrong = "misaligned address" if name == "misaligned" else "an illegal memory access was encountered"
    assert f"sync: {wrong}" in done.stdout


@pytest.mark.parametrize("name", [name for name, record in RECORD.items() if "races" in record])
def test_races_are_those_that_racecheck_reports_and_the_kernel_goes_on(program: Path, name: str) -> None:
    done = said(program, name, "racecheck")
    assert "sync: no error" in done.stdout
    found = {
        (level, *sorted([(first, int(a)), (second, int(b))]))
        for a, level, first, second, b in _RACE.findall(done.stderr)
    }
    expected = {(level, *sorted([(first, a), (second, b)])) for level, first, a, second, b in RECORD[name]["races"]}
    # What it calls an error has pairs within a warp as well, which it does not list.
    assert found - expected <= {("Warning", *rest) for _, *rest in expected}
    assert expected <= found, done.stderr
    assert done.stderr.count("\n") == len(found), done.stderr
    assert done.returncode == any(level == "Error" for level, *_ in found)


PAST_THE_END = """
import torch
kernel = torch.cuda._compile_kernel(
    "__global__ void copies(const float* in, float* out, int n) {\\n"
    "  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = in[i];\\n"
    "}",
    "copies",
)
x, y = torch.ones(100, device="cuda"), torch.zeros(128, device="cuda")
for right in (x, torch.full((100,), 2.0).pin_memory()):  # of these nothing is said
    kernel(grid=(1, 1, 1), block=(32, 1, 1), args=[right, y, 100])
    assert torch.equal(y[:100].cpu(), right.cpu())
kernel(grid=(1, 1, 1), block=(32, 1, 1), args=[x, y, 128])
try:
    torch.cuda.synchronize()
except RuntimeError as error:
    print(error)
"""


def run_checked(code: str) -> Finished:
    must_be_ready(VIRTUAL)
    return run_forked(
        "-m", "torchdevice_cuda", "--driver", "virtual", "--sanitize", "memcheck", "-c", code, check=False
    )


@pytest.mark.native
def test_a_kernel_that_reads_past_a_tensor_is_told_its_line() -> None:
    done = run_checked(PAST_THE_END)
    assert done.out.startswith("CUDA error: an illegal memory access was encountered")
    assert re.search(
        r"copies\.cu:2: kernel copies: block: \[0,0,0\], thread: \[4,0,0\] Invalid __global__ read of size 4 bytes: "
        r"access to 0x\w+ is out of bounds and is 1 bytes after the nearest allocation at 0x\w+ of size 400 bytes\n",
        done.err,
    ), done.err
    assert done.status == 1


ASSEMBLY = """
import torch
kernel = torch.cuda._compile_kernel(r'''extern "C" __global__ void assembly(const int* x, int* o) {
  int v = __shfl_up_sync(0xffffffff, x[threadIdx.x], 1);
  asm volatile("{ .reg .b32 t; add.cc.u32 t, %1, -1; addc.u32 %0, %1, 0; }" : "=r"(v) : "r"(v));
  asm volatile("redux.sync.add.s32 %0, %0, 0xffffffff;" : "+r"(v));
  o[threadIdx.x] = v;
  if (o[32])
    asm volatile("ld.global.s32 %0, [%1];" : "=r"(v) : "l"(x + 1000));
  o[threadIdx.x] = v;
}
''', "assembly")
x, o = torch.arange(32, dtype=torch.int32, device="cuda"), torch.zeros(33, dtype=torch.int32, device="cuda")
kernel(grid=(1, 1, 1), block=(32, 1, 1), args=[x, o])
print(o.tolist())
kernel(grid=(1, 1, 1), block=(32, 1, 1), args=[x, torch.ones_like(o)])
"""


@pytest.mark.slow
@pytest.mark.native
def test_assembly_of_checked_kernels_is_watched() -> None:
    done = run_checked(ASSEMBLY)
    # What lane i - 1 had, and one more if that is not zero.
    total = sum(i - 1 + (i > 1) for i in range(1, 32))
    assert done.out == f"{[total] * 32 + [0]}\n"
    assert "assembly.cu:7: kernel assembly: block: [0,0,0]" in done.err
    assert "Invalid __global__ read of size 4 bytes" in done.err
