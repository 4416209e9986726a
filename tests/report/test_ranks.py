"""A program of several ranks, started by torchrun, has one report."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import python

from .reading import read

pytestmark = [pytest.mark.native, pytest.mark.slow]

PROGRAM = """
import os, torch, torch.distributed as dist
dist.init_process_group("nccl")
rank = dist.get_rank()
x = torch.full((4,), float(rank), device=f"cuda:{rank}")
dist.all_reduce(x)
assert x[0].item() == 1.0
dist.destroy_process_group()
"""


def test_ranks_have_one_report(tmp_path: Path) -> None:
    program, file = tmp_path / "ranks.py", tmp_path / "report.json"
    program.write_text(PROGRAM)
    options = ("--driver", "virtual", "--devices", "2", "--report", str(file))
    run = ("-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone", str(program))
    done = python("-m", "torchdevice_cuda", *options, *run, timeout=240)
    assert done.status == 0, done
    document = read(file)
    assert sorted(process.rank for process in document.processes if process.rank is not None) == [0, 1]
    assert {process.state for process in document.processes} == {"ended"}
    assert {(row.name, row.calls) for row in document.work if row.kind == "wait" and row.site.line == 7} == {
        ("aten::_local_scalar_dense", 2)
    }
    assert len(document.memory) == 2
