"""The report of what left the Apple GPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import MPS_FAITHFUL, in_child

import torchdevice_cuda
from torchdevice_cuda.report import page, text
from torchdevice_cuda.report.document import Document, from_json

from .seeing import left

pytestmark = [pytest.mark.native, pytest.mark.mps]
LEFT = {
    ("aten::mode", "CPU", "the GPU's backend has no kernel"): 3,
    ("float64", "float32", "the GPU has no float64"): 1,
}


def leave() -> None:
    warnings.simplefilter("ignore")
    x = torch.ones(100, device="cuda", dtype=torch.float64)
    for _ in range(3):
        torch.mode(x)


def stay() -> None:
    torch.ones(2, device="cuda").add_(1)


def leave_and_deactivate(file: str) -> tuple[str, list[Any]]:
    """Return the report after deactivation, and the fallbacks that are still stored."""
    torch.mode(torch.ones(3, device="cuda"))
    torchdevice_cuda.deactivate()
    return Path(file).read_text(), left()


def _read(file: Path) -> Document:
    return from_json(file.read_text())


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Document:
    """Return the report of a program that makes one request and leaves the GPU four times."""
    file = tmp_path_factory.mktemp("report") / "report.json"
    in_child(leave, MPS_FAITHFUL.with_settings(report=str(file)))
    return _read(file)


def test_requests_name_both_devices(document: Document) -> None:
    assert [(row.count, row.asked, row.given) for row in document.requests] == [(1, "cuda", "cuda:0 (mps:0)")]


def test_departures_are_counted_timed_and_placed(document: Document) -> None:
    assert {(row.what, row.where, row.why): row.count for row in document.departures} == LEFT
    line = leave.__code__.co_firstlineno
    found = {row.what: row for row in document.departures}
    assert found["aten::mode"].site == f"{__file__}:{line + 4}"
    assert found["float64"].site == f"{__file__}:{line + 2}"
    assert found["aten::mode"].seconds > 0


@pytest.mark.parametrize("render", [text.plain, page.page])
def test_departures_are_shown(document: Document, render: Callable[[Document], str]) -> None:
    shown = render(document)
    assert "What left the GPU: 3" in shown
    assert "float64 that lost precision, or stayed on the CPU: 1" in shown
    assert "not counted on the mps driver" in shown
    assert "What ran on the GPU:" not in shown, "nothing is said of what is not counted"


def test_a_program_that_sees_the_device_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    in_child(leave, MPS_FAITHFUL.with_settings(report=str(file), identity="native"))
    assert [(row.asked, row.given) for row in _read(file).requests] == [("cuda", "mps")]


def test_without_departures_nothing_is_said_of_any(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    in_child(stay, MPS_FAITHFUL.with_settings(report=str(file)))
    assert _read(file).departures == ()
    assert "What left the GPU: " not in text.plain(_read(file))


def test_deactivation_writes_and_forgets_them(tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    written, remembered = in_child(leave_and_deactivate, MPS_FAITHFUL.with_settings(report=str(file)), str(file))
    assert "aten::mode" in written
    assert remembered == []
