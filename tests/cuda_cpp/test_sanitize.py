"""``--sanitize`` finds errors of kernels besides those that tests/cuda_cpp/wrong.cu has, and none in right ones."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from harness import CPU, VIRTUAL, ChildConfig, run_forked
from harness.places import must_be_ready

from torchdevice_cuda.cuda_cpp import nvcc

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="lines are looked up by a tool of Linux's compilers")
SOURCE = Path(__file__).parent / "sanitized.cu"
ALL = "memcheck,racecheck,initcheck,synccheck"
#: The kernels in the order of the program's cases, with what is found in them: the level and parts of the message.
CASES: dict[str, tuple[str, ...]] = {
    "between_blocks": ("Error: Race reported between Write access and Write access by thread [0,0,0] of block",),
    "neighbor": (
        "Warning: Race reported between Read access and Write access",
        "Error: Race reported between Read access and Write access by thread [31,0,0] of block [0,0,0]",
    ),
    "disjoint": (),
    "same_value": ("Error: Leaked 4096 bytes",),
    "atomics": (),
    "plain_sum": ("Error: Race reported between Read access and Write access by thread [0,0,0] of block [0,0,0]",),
    "with_fence": (),
    "without_fence": ("Error: Race reported between Read access and Write access by thread [0,0,0] of block [0,0,0]",),
    "flag": (),
    "unordered_threads": ("Error: Race reported between Write access and Read access by thread [0,0,0]",),
    "ordered_threads": (),
    "grid_sync": (),
    "cas_loop": (),
    "written": (),
    "unwritten": ("Error: Uninitialized __global__ memory read of size 4 bytes at 0x",),
    "unwritten_shared": ("Error: Uninitialized __shared__ memory read of size 4 bytes at 0x",),
    "ended": (
        "Warning: Barrier error detected. Divergent thread(s) in block: 1 of 64 threads have ended before "
        "__syncthreads, the first of them [2,0,0]",
    ),
    "two_lines": ("Error: Barrier error detected. Divergent thread(s) in warp: thread [16,0,0] waits at ",),
    "two_warps": ("Error: Barrier error detected. Divergent thread(s) in block: thread [32,0,0] waits at ",),
    "shuffle_ended": (
        "Warning: Barrier error detected. Divergent thread(s) in warp: the mask 0xffffffff names threads that have "
        "ended, the first of them [40,0,0]",
    ),
    "small_block": (),
    "first_block": (),
    "copies": (),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("sanitized") / "sanitized"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TORCHDEVICE_SANITIZE", ALL)
        assert nvcc.main([str(SOURCE), "-o", str(made)]) == 0
    return made


def run_case(program: Path, name: str, tools: str, file: str = "") -> subprocess.CompletedProcess[str]:
    words = [str(program), str([*CASES].index(name))]
    environment = {**os.environ, "TORCHDEVICE_SANITIZE": tools, "TORCHDEVICE_SANITIZE_FILE": file}
    return subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment, check=False)


def test_findings_are_those_of_the_kernels(program: Path) -> None:
    for name, expected in CASES.items():
        done = run_case(program, name, ALL)
        lines = done.stderr.splitlines()
        assert len(lines) == len(expected), (name, lines)
        for line, part in zip(lines, expected, strict=True):
            assert part in line, (name, line)
            assert re.search(rf"sanitized\.cu:\d+: (kernel {name}|kernel unwritten|Error: Leaked)", line), (name, line)
        assert "sync: no error" in done.stdout
        assert done.returncode == any("Error: " in part for part in expected), name


def test_a_tool_that_is_off_finds_nothing(program: Path) -> None:
    for name, tool in {
        "plain_sum": "racecheck",
        "unwritten": "initcheck",
        "ended": "synccheck",
        "same_value": "memcheck",
    }.items():
        others = ",".join(one for one in ALL.split(",") if one != tool)
        assert (run_case(program, name, tool).stderr == "", run_case(program, name, others).stderr) == (False, ""), name


def test_a_seed_is_an_order_of_blocks(program: Path) -> None:
    first = {seed: run_case(program, "first_block", f"racecheck:{seed}").stdout for seed in range(6)}
    assert "first: 0\n" in run_case(program, "first_block", "racecheck").stdout
    assert len(set(first.values())) > 2
    assert all(run_case(program, "first_block", f"racecheck:{seed}").stdout == text for seed, text in first.items())


def test_findings_go_to_a_file(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "findings.jsonl"
    file.touch()
    run_case(program, "plain_sum", ALL, str(file))
    found = json.loads(file.read_text())
    text = found.pop("text")
    line = SOURCE.read_text().splitlines().index("  if (threadIdx.x == 0) *sum += blockIdx.x;") + 1
    assert str(SOURCE).endswith(found.pop("file"))
    assert found == {
        "tool": "racecheck", "level": "error", "kernel": "plain_sum", "line": line,
        "block": [1, 0, 0], "thread": [0, 0, 0],
    }  # fmt: skip
    assert text.startswith("Error: Race reported between ")


UNCHECKED = """
__global__ void nothing() {}
int main() {
  for (int i = 0; i < 3; ++i) nothing<<<1, 32>>>();
  return cudaDeviceSynchronize();
}
"""


def test_kernels_compiled_without_checks_warn_once(tmp_path: Path) -> None:
    source, program = tmp_path / "nothing.cu", tmp_path / "nothing"
    source.write_text(UNCHECKED)
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("TORCHDEVICE_SANITIZE", raising=False)
        assert nvcc.main([str(source), "-o", str(program)]) == 0
    said = {}
    (file := tmp_path / "findings.jsonl").touch()
    for tools in ("memcheck", "none", ""):
        environment = {**os.environ, "TORCHDEVICE_SANITIZE": tools, "TORCHDEVICE_SANITIZE_FILE": str(file)}
        done = subprocess.run([str(program)], capture_output=True, text=True, timeout=60, env=environment, check=True)
        said[tools] = done.stderr.splitlines()
    (line,) = said.pop("memcheck")
    assert line.startswith(f"torchdevice_cuda: --sanitize does not check the kernels of {program}: it was compiled ")
    assert said == {"none": [], "": []}
    assert json.loads(file.read_text()) == {"unchecked": str(program)}


KERNEL = """
import torch
kernel = torch.cuda._compile_kernel(
    "__global__ void copies(const float* in, float* out, int n) {\\n"
    "  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = in[i];\\n"
    "}",
    "copies",
)
def copies(x, y, n):
    kernel(grid=(1, 1, 1), block=(32, 1, 1), args=[x, y, n])
    torch.cuda.synchronize()
"""


@pytest.mark.parametrize("config", [pytest.param(place, marks=place.marks, id=place.name) for place in (CPU, VIRTUAL)])
def test_a_program_with_findings_ends_with_an_error(config: ChildConfig) -> None:
    code = KERNEL + (
        "x, y = torch.ones(100, device='cuda'), torch.zeros(200, device='cuda')\n"
        "copies(x, y[:100], 100)\n"
        "kernel(grid=(2, 1, 1), block=(32, 1, 1), args=[x, y, 100])\n"  # both blocks write the same numbers
        "kernel(grid=(2, 1, 1), block=(32, 1, 1), args=[y, y[1:], 100])\n"
        "torch.cuda.synchronize(); print(y.sum().item() > 0)\n"
    )
    must_be_ready(config)
    words = ("-m", "torchdevice_cuda", "--driver", config.name, "--sanitize", "racecheck", "-c", code)
    done = run_forked(*words, check=False)
    assert done.out == "True\n"
    assert "copies.cu:2: kernel copies: block: [1,0,0], thread: [" in done.err
    assert done.err.endswith("torchdevice_cuda: --sanitize found 1 error and 1 warning\n"), done.err
    assert done.status == 1


@pytest.mark.parametrize("tools", ["memchek", "racecheck,", "racecheck:first"])
def test_an_unknown_tool_is_one_error(tools: str) -> None:
    done = run_forked("-m", "torchdevice_cuda", "--sanitize", tools, "-c", "", check=False)
    assert done.status == 2
    assert f"--sanitize={tools!r} cannot be read; allowed: names (memcheck, racecheck, initcheck, " in done.err
    assert tools != "memchek" or "did you mean memcheck?" in done.err


RIGHT = """
import sys
import torch
import test_samples
from recorded import kernels as forty
for case in forty.CASES:
    forty.run(case, forty.compiled()[case.name])
cases = test_samples.make_cases()
samples = test_samples.compile_samples(list(cases))
for name, case in cases.items():
    test_samples.run_sample(case, samples[name])
print("done")
"""


@pytest.mark.slow
@pytest.mark.native
def test_right_kernels_have_no_findings() -> None:
    must_be_ready(VIRTUAL)
    here = Path(__file__).parent
    paths = {"PYTHONPATH": os.pathsep.join(map(str, (here.parents[1], here.parent, here)))}
    words = ("-m", "torchdevice_cuda", "--driver", "virtual", "--sanitize", ALL, "-c", RIGHT)
    done = run_forked(*words, environment=paths, check=False)
    *warnings, count = done.err.splitlines()
    # Two lanes of a warp have ended, which a GPU accepts.
    assert ["kernel lanes: " in line for line in warnings] == [True], done.err
    assert count == "torchdevice_cuda: --sanitize found 0 errors and 1 warning"
    assert (done.out, done.status) == ("done\n", 0)


@pytest.mark.slow
def test_libraries_have_no_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHDEVICE_SANITIZE", ALL)
    for name in ("cub", "curand"):
        program = tmp_path / name
        assert nvcc.main([str(SOURCE.with_name("libraries") / f"{name}.cu"), "-o", str(program)]) == 0
        done = subprocess.run([str(program)], capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stderr) == (0, ""), name
