"""The report of what left the Apple GPU."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import MPS_FAITHFUL, in_child

import torchdevice_cuda

from .seeing import left

pytestmark = [pytest.mark.native, pytest.mark.mps]
LEFT = [
    ["3", "aten::mode", "CPU", "the GPU's backend has no kernel"],
    ["1", "float64", "float32", "the GPU has no float64"],
]


def leave() -> None:
    warnings.simplefilter("ignore")
    x = torch.ones(100, device="cuda", dtype=torch.float64)
    for _ in range(3):
        torch.mode(x)


def stay() -> None:
    torch.ones(2, device="cuda").add_(1)


def leave_and_deactivate(file: str) -> tuple[str, list[Any]]:
    """What the report says then, and what is still remembered."""
    torch.mode(torch.ones(3, device="cuda"))
    torchdevice_cuda.deactivate()
    return Path(file).read_text(), left()


def _tables(text: str) -> list[list[list[str]]]:
    """The rows of each table, cells apart, without title and head."""
    return [[re.split(r"\s{2,}", line) for line in part.splitlines()[2:-1]] for part in text.split("\n\n")]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of a program that makes one request and leaves the GPU four times."""
    file = tmp_path_factory.mktemp("text") / "report.txt"
    in_child(leave, MPS_FAITHFUL.but(report=str(file)))
    return file.read_text()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same as a page."""
    file = tmp_path_factory.mktemp("page") / "report.html"
    in_child(leave, MPS_FAITHFUL.but(report=str(file)))
    return file.read_text()


def test_requests_name_both_devices(text: str) -> None:
    requests, _ = _tables(text)
    assert [row[:3] for row in requests] == [["1", "cuda", "cuda:0 (mps:0)"]]


def test_departures_are_a_second_table(text: str) -> None:
    _, departures = _tables(text)
    assert departures == LEFT
    assert "what left cuda:0 (mps:0)" in text


def test_departures_are_summed_up(text: str) -> None:
    assert text.endswith("4 departures in all\n")


def _cells(page: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(<td>.*)</tr>", page)
    return [[cell.replace("&#x27;", "'") for cell in re.findall(r"<td>(.*?)</td>", row)] for row in rows]


def test_departures_on_a_page(page: str) -> None:
    assert _cells(page)[1:] == LEFT
    assert page.count("<table>") == 2


def test_requests_on_a_page(page: str) -> None:
    assert _cells(page)[0][1:3] == ["cuda", "cuda:0 (mps:0)"]


def test_a_program_that_sees_the_device_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    in_child(leave, MPS_FAITHFUL.but(report=str(file), identity="native"))
    assert _tables(file.read_text())[0][0][1:3] == ["cuda", "mps"]


def test_without_departures_there_is_one_table(tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    in_child(stay, MPS_FAITHFUL.but(report=str(file)))
    assert len(_tables(file.read_text())) == 1


def test_deactivation_writes_and_forgets_them(tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    written, remembered = in_child(leave_and_deactivate, MPS_FAITHFUL.but(report=str(file)), str(file))
    assert "aten::mode" in written
    assert remembered == []
