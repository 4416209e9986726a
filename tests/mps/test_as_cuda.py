"""A program sees the same on the Apple GPU as on CUDA: the questions are also put to the virtual GPU, which is one."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from harness import MPS_FAITHFUL, VIRTUAL, ChildConfig, child, together

from . import as_cuda
from .seeing import as_code_of

on_mps = child(MPS_FAITHFUL)
CASES = {name: function for name, function in vars(as_cuda).items() if name.startswith("case_")}


def _answer(place: ChildConfig, case: str) -> Any:
    return together(place, list(CASES.values()))[case].checked()


@pytest.mark.native
@pytest.mark.mps
@pytest.mark.parametrize("case", CASES)
def test_same_as_cuda(case: str) -> None:
    reference = _answer(VIRTUAL, case)
    assert "mps:0" not in json.dumps(reference)
    assert _answer(MPS_FAITHFUL, case) == reference


@child(VIRTUAL)
def test_the_reference_says_cuda() -> None:
    assert torch.ones(1, device="cuda").device.type == "cuda"


def _device_of(x: Any) -> str:
    return str(x.device)


@on_mps
def test_torch_sees_the_truth() -> None:
    assert as_code_of(_device_of, "torch.some.module")(torch.Generator("cuda")) == "mps"


@on_mps
def test_code_without_a_module_sees_cuda() -> None:
    assert as_code_of(_device_of, None)(torch.ones(1, device="cuda")) == "cuda:0"


@on_mps
def test_the_default_generator_is_the_devices_own() -> None:
    same = torch.cuda.default_generators[0]
    torch.mps.manual_seed(5)
    assert same.initial_seed() == 5
    drawn = torch.rand(2, device="cuda", generator=same)
    other = torch.Generator("cuda").manual_seed(5)
    assert torch.equal(drawn, torch.rand(2, device="cuda", generator=other))


def _holding(found: list[dict[str, Any]], t: torch.Tensor) -> list[str]:
    """Return the kinds of the segments in which a tensor is."""
    address = t.data_ptr()
    return [s["segment_type"] for s in found if s["address"] <= address < s["address"] + s["total_size"]]


@on_mps
def test_snapshots_list_what_tensors_hold() -> None:
    x, y = torch.empty(3 << 20, dtype=torch.uint8, device="cuda"), torch.empty(8, device="cuda")
    z = x[1 << 20 :]
    found = torch.cuda.memory_snapshot()
    assert _holding(found, x) == ["large"]
    assert _holding(found, y) == ["small"]
    assert _holding(found, z) == ["large"]


@on_mps
def test_snapshots_add_up() -> None:
    kept = [torch.empty(3 << 20, dtype=torch.uint8, device="cuda"), torch.empty(8, device="cuda")]
    found = torch.cuda.memory_snapshot()
    assert sum(s["allocated_size"] for s in found) == torch.cuda.memory_allocated()
    assert sum(s["total_size"] for s in found) == torch.cuda.memory_reserved()
    assert all(sum(b["size"] for b in s["blocks"]) == s["total_size"] for s in found)
    del kept


def _tracing() -> bool:
    """Return whether torch.mps's signposts are on: only trying shows it."""
    try:
        torch.mps.profiler.start()
    except RuntimeError:
        return True
    torch.mps.profiler.stop()
    return False


@on_mps
def test_profilers_start_and_stop() -> None:
    """``torch.cuda.profiler`` starts and stops torch.mps's signposts; starting twice is no error, as on CUDA."""
    assert not _tracing()
    torch.cuda.profiler.start()
    torch.cuda.profiler.start()
    assert _tracing()
    torch.cuda.profiler.stop()
    torch.cuda.profiler.stop()
    assert not _tracing()


@on_mps
def test_profilers_as_a_context() -> None:
    with torch.cuda.profiler.profile():
        assert _tracing()
    assert not _tracing()
