"""Stacks of profiles and of memory's history begin with the program, not with what started it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from harness import python

pytestmark = pytest.mark.native
PROGRAM = """
import json, sys, torch
from torch._C._profiler import _ExperimentalConfig as Config
from torch.profiler import ProfilerActivity as A, profile
def work():
    return torch.ones(64, 64, device="cuda") * 2
torch.cuda.memory._record_memory_history(stacks="python")
kept = work()
with profile(activities=[A.CPU, A.CUDA], with_stack=True, experimental_config=Config(verbose=True)) as found:
    work()
found.export_stacks(sys.argv[1], "self_cpu_time_total")
stacks = [event.stack for event in found.events() if event.name == "aten::mul"]
snapshot = torch.cuda.memory._snapshot()
traced = [entry["frames"] for trace in snapshot["device_traces"] for entry in trace if entry["action"] == "alloc"]
held = [block["frames"] for segment in snapshot["segments"] for block in segment["blocks"] if block.get("frames")]
frames = [[frame["filename"] for frame in frames] for frames in traced + held]
print(json.dumps([stacks, open(sys.argv[1]).read().splitlines(), frames]))
"""


@pytest.mark.parametrize("how", ["a script", pytest.param("a module", marks=pytest.mark.slow)])
def test_stacks_begin_with_the_program(how: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    words = (str(program),) if how == "a script" else ("-m", "program")
    options = ("-m", "torchdevice_cuda", "--driver", "virtual", *words, tmp_path / "stacks")
    stacks, exported, frames = json.loads(python(*options, folder=tmp_path).out)
    assert stacks and exported and frames
    assert all("program.py" in stack[-1] and stack[-1].endswith(": <module>") for stack in stacks), stacks
    assert all(line.startswith("program.py(") for line in exported), exported[:3]
    assert all(names and set(names) == {str(program)} for names in frames), frames
