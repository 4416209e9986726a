"""Every name of torch.cuda is there, of the same kind, with the same signature and members (tools/gap.py)."""

from __future__ import annotations

import types

import torch
from harness import CPU, child, python
from harness.processes import ROOT

GAP, DATA = ROOT / "tools" / "gap.py", ROOT / "tests" / "data"
SURFACE = DATA / "surface-2.13.0.json"


def test_no_gap_to_the_surface_of_this_torch() -> None:
    done = python("-m", "torchdevice_cuda", "--driver", "cpu", GAP, SURFACE)
    assert "0 missing, 0 different" in done.out


def test_the_tool_sees_a_gap() -> None:
    """Stock torch without CUDA has dummies: the comparison that finds nothing here must find those."""
    done = python(GAP, SURFACE, check=False)
    assert done.status == 1
    assert "missing member: torch.cuda.streams.Stream.priority" in done.out


@child(CPU)
def test_c_names_of_cuda_builds_are_there() -> None:
    names = (DATA / "cuda-only-c-names-2.13.0.txt").read_text().split()
    assert len(names) > 100
    assert [name for name in names if not hasattr(torch._C, name)] == []


@child(CPU)
def test_no_two_names_share_a_function() -> None:
    """The compiler refuses a function that it finds under two names."""
    names: dict[int, list[str]] = {}
    for name, value in vars(torch.cuda).items():
        if isinstance(value, types.FunctionType):
            names.setdefault(id(value), []).append(name)
    assert len(names) > 50
    assert [shared for shared in names.values() if len(shared) > 1] == []
