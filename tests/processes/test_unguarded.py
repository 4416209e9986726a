"""Programs that start processes without a guard, which spawned children import again."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import python

EMULATED = {"TORCHDEVICE_EMULATE_MPS": "1"}
DRIVERS = ["cpu", pytest.param("mps", marks=[pytest.mark.native, pytest.mark.mps])]
PROGRAM = """
import multiprocessing
multiprocessing.set_start_method("spawn", force=True)  # the default on macOS
import torch
from torch.utils.data import DataLoader, TensorDataset
print("started", flush=True)
for (batch,) in DataLoader(TensorDataset(torch.ones(4, 2)), num_workers=1):
    print(batch.device)
"""


@pytest.mark.parametrize("driver", DRIVERS)
def test_an_unguarded_program_gets_pythons_error_and_advice(tmp_path: Path, driver: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = python("-m", "torchdevice_cuda", "--driver", driver, program, environment=EMULATED, check=False)
    assert done.status == 1
    assert done.out == "started\nstarted\n"  # the program and one child, which starts none
    assert done.err.count("has finished its bootstrapping phase") == 1
    advice = [line for line in done.err.splitlines() if line.startswith("torchdevice_cuda: a process that this")]
    assert len(advice) == 1
    assert "num_workers=0" in advice[0]
