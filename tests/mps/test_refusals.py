"""The cache of refusals, which outlives the process if the user chooses so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import ChildConfig, in_child, together

import torchdevice_cuda
from torchdevice_cuda.fallback.capabilities import refusals
from torchdevice_cuda.fallback.guards import Guard

from .caches import cached_in
from .seeing import real

pytestmark = [pytest.mark.native, pytest.mark.mps]
#: Who computes, of those that are asked: first the device, which refuses, then the CPU at once.
ASKED = ["mps", "cpu", "cpu"]
#: A limit of size is found out each time: the next call may be a smaller one.
SIZES = ["mps", "cpu", "mps", "cpu", "mps"]
#: Nobody asks a device that is known to refuse.
KNOWN = ["cpu", "cpu"]


def work() -> dict[str, Any]:
    """Return a function that the device has, but not for every dtype, nor for every size: who was asked for it."""
    asked: list[str] = []

    def sort(x: torch.Tensor) -> Any:
        asked.append(real(x))
        if real(x) == "mps" and x.dtype is torch.int64:
            raise RuntimeError("MPS: sort for int64 is not supported")
        if real(x) == "mps" and len(x) > 4:
            raise RuntimeError("MPSGraph does not support tensor dims larger than INT_MAX")
        return torch._C._VariableFunctions.sort(x)

    guarded = Guard(torch.device("mps", 0), lambda *row: None).function("sort", sort)
    for _ in range(2):
        assert guarded(torch.tensor([3, 1, 2], device="cuda")).values.tolist() == [1, 2, 3]
    dtypes = asked.copy()
    for _ in range(2):
        assert guarded(torch.arange(5.0, device="cuda")).values.tolist() == [0, 1, 2, 3, 4]
    assert guarded(torch.ones(2, device="cuda")).values.is_cuda
    return {"dtypes": dtypes, "sizes": asked[len(dtypes) :]}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Run a first process, which writes its refusals to disk."""
    folder = tmp_path_factory.mktemp("first")
    assert in_child(work, cached_in(folder).with_settings(refusal_cache="disk")) == {"dtypes": ASKED, "sizes": SIZES}
    assert [entry.name for entry in folder.glob("refusals*")] == ["refusals.json"]
    return (folder / "refusals.json").read_text()


def test_in_memory_each_process_asks(tmp_path: Path) -> None:
    place = cached_in(tmp_path)
    for _ in range(2):
        assert in_child(work, place) == {"dtypes": ASKED, "sizes": SIZES}
    assert not (tmp_path / "refusals.json").exists()


def test_contents_of_the_disk_cache(first: str) -> None:
    assert list(json.loads(first).values()) == [[["sort", "int64", "mps:0", "no such dtype"]]]


def test_on_disk_the_second_process_never_asks(first: str, tmp_path: Path) -> None:
    place = cached_in(tmp_path).with_settings(refusal_cache="disk")
    (tmp_path / "refusals.json").write_text(first)
    assert in_child(work, place) == {"dtypes": KNOWN, "sizes": SIZES}
    assert (tmp_path / "refusals.json").read_text() == first


def test_the_disk_cache_is_off_by_default(first: str, tmp_path: Path) -> None:
    place = cached_in(tmp_path)
    (tmp_path / "refusals.json").write_text(first)
    assert in_child(work, place)["dtypes"] == ASKED


def test_another_machines_are_not_trusted(first: str, tmp_path: Path) -> None:
    file, (rows,) = tmp_path / "refusals.json", json.loads(first).values()
    file.write_text(json.dumps({"another machine": rows}))
    assert in_child(work, cached_in(tmp_path).with_settings(refusal_cache="disk"))["dtypes"] == ASKED
    assert len(json.loads(file.read_text())) == 2  # the other machine's are still there


#: What activates later, so that what is printed meanwhile can be told from the rest.
LATER = ChildConfig("mps, later", order="after", environment={"TORCHDEVICE_EMULATE_MPS": "1"}, needs=("mps",))


def begin() -> float:
    torchdevice_cuda.activate(driver="mps", policy="faithful", refusal_cache="disk")
    return torch.ones(1, device="cuda").sum().item()


@pytest.mark.parametrize("broken", ["not JSON", "[]", "rows", "kind"])
def test_a_broken_file_is_ignored_with_one_line(first: str, tmp_path: Path, broken: str) -> None:
    (key,) = json.loads(first)
    wrong = {"rows": {key: 5}, "kind": {key: [["sort", "int64", "mps:0", "a rumour"]]}}
    (tmp_path / "refusals.json").write_text(json.dumps(wrong[broken]) if broken in wrong else broken)
    done = together(cached_in(tmp_path, LATER), [begin, work])
    assert done["begin"].checked() == 1
    assert len([line for line in done["begin"].err.splitlines() if "refusals.json" in line]) == 1
    assert done["work"].checked()["dtypes"] == ASKED


def forget() -> None:
    refusals.add("sort", torch.int64, "mps:0", "no such dtype")
    assert refusals.of("sort")
    torchdevice_cuda.deactivate()
    assert not refusals.of("sort")


def test_deactivation_forgets_what_is_in_memory(tmp_path: Path) -> None:
    in_child(forget, cached_in(tmp_path).with_settings(refusal_cache="disk"))
