"""What the device refused, remembered from one process to the next where the user wants that."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

# A function of torch that the device has, but not for every dtype; who was asked is what the device would see.
BODY = """
from torchdevice_cuda.fallback.guards import Guard
asked = []
def sort(x):
    on_device = torch._C.TensorBase.is_mps.__get__(x)
    asked.append("device" if on_device else "cpu")
    if on_device and x.dtype is torch.int64:
        raise RuntimeError("MPS: sort for int64 is not supported")
    if on_device and len(x) > 4:
        raise RuntimeError("MPSGraph does not support tensor dims larger than INT_MAX")
    return torch._C._VariableFunctions.sort(x)
guarded = Guard(torch.device("mps", 0), lambda *row: None).function("sort", sort)
values = [guarded(torch.tensor([3, 1, 2], device="cuda")).values.tolist() for _ in range(2)]
long = [guarded(torch.arange(5.0, device="cuda")).values.tolist() for _ in range(2)]
small = guarded(torch.ones(2, device="cuda")).values.is_cuda
result = [values, asked[:-5], asked[-5:]]
"""
ASKED = ["device", "cpu", "cpu"]
#: A limit of size is found out each time: the next call may be a smaller one.
SIZES = ["device", "cpu", "device", "cpu", "device"]
KNOWN = ["cpu", "cpu"]


def test_in_memory_each_process_asks(on_mps: Callable, own_cache: dict[str, str], tmp_path: Path) -> None:
    for _ in range(2):
        assert on_mps(BODY, env=own_cache) == [[[1, 2, 3]] * 2, ASKED, SIZES]
    assert not (tmp_path / "refusals.json").exists()


def test_on_disk_the_second_process_never_asks(on_mps: Callable, own_cache: dict[str, str], tmp_path: Path) -> None:
    assert on_mps(BODY, env=own_cache, refusals="disk") == [[[1, 2, 3]] * 2, ASKED, SIZES]
    assert on_mps(BODY, env=own_cache, refusals="disk") == [[[1, 2, 3]] * 2, KNOWN, SIZES]
    assert on_mps(BODY, env=own_cache)[1] == ASKED  # who did not ask for it does not get it
    stored = json.loads((tmp_path / "refusals.json").read_text())
    assert list(stored.values()) == [[["sort", "int64", "mps:0", "no such dtype"]]]
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith("refusals")] == ["refusals.json"]


def test_another_machines_are_not_trusted(on_mps: Callable, own_cache: dict[str, str], tmp_path: Path) -> None:
    on_mps(BODY, env=own_cache, refusals="disk")
    file = tmp_path / "refusals.json"
    (rows,) = json.loads(file.read_text()).values()
    file.write_text(json.dumps({"another machine": rows}))
    assert on_mps(BODY, env=own_cache, refusals="disk")[1] == ASKED
    assert len(json.loads(file.read_text())) == 2  # the other machine's are still there


@pytest.mark.parametrize("broken", ["not JSON", "[]", "rows", "kind"])
def test_a_broken_file_is_ignored_with_one_line(
    on_mps: Callable, run: Callable, emulated: dict[str, str], own_cache: dict[str, str], tmp_path: Path, broken: str
) -> None:
    on_mps(BODY, env=own_cache, refusals="disk")
    file = tmp_path / "refusals.json"
    (key,) = json.loads(file.read_text())
    wrong = {"rows": {key: 5}, "kind": {key: [["sort", "int64", "mps:0", "a rumour"]]}}
    file.write_text(json.dumps(wrong[broken]) if broken in wrong else broken)
    body = "import torch; print(torch.ones(1, device='cuda').sum().item())"
    done = run(body, driver="mps", policy="faithful", refusals="disk", env={**emulated, **own_cache})
    assert done.stdout == "1.0\n"
    assert len([line for line in done.stderr.splitlines() if "refusals.json" in line]) == 1
    assert on_mps(BODY, env=own_cache, refusals="disk")[1] == ASKED


def test_deactivation_forgets_what_is_in_memory(on_mps: Callable, own_cache: dict[str, str]) -> None:
    body = """
    from torchdevice_cuda.fallback.capabilities import refusals
    refusals.add("sort", torch.int64, "mps:0", "no such dtype")
    before = bool(refusals.of("sort"))
    torchdevice_cuda.deactivate()
    result = [before, bool(refusals.of("sort"))]
    """
    assert on_mps(body, env=own_cache, refusals="disk") == [True, False]
