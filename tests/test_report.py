"""The report of what went where."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from harness import CPU, in_child, python

import torchdevice_cuda


def make() -> list[torch.Tensor]:
    return [torch.zeros(2, device="cuda") for _ in range(3)]


def move() -> None:
    torch.ones(1).to("cuda"), torch.ones(1, device="cpu")


def ask() -> None:
    """Eight requests, from two lines."""
    make()
    make()
    move()


def first_line(function: object) -> int:
    """The line below a function's first, where its body is."""
    return function.__code__.co_firstlineno + 1  # type: ignore[attr-defined]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "report.txt"


def test_requests_are_counted_by_call_site(file: Path) -> None:
    in_child(ask, CPU.but(report=str(file)))
    rows = [line.split() for line in file.read_text().splitlines()]
    cells = [row for row in rows if len(row) == 4 and row[0].isdigit()]
    counted = {(row[1], row[2], int(row[3].rpartition(":")[2])): int(row[0]) for row in cells}
    assert counted == {
        ("cuda", "cpu", first_line(make)): 6,
        ("cuda", "cpu", first_line(move)): 1,
        ("cpu", "cpu", first_line(move)): 1,
    }
    assert {row[3].rpartition(":")[0] for row in cells} == {__file__}
    assert rows[-1] == ["8", "device", "requests", "in", "all"]


def test_a_page(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    in_child(ask, CPU.but(report=str(page)))
    assert page.read_text().startswith("<!doctype html>")
    assert page.read_text().count("<tr>") == 4


def test_standard_error() -> None:
    options = ("--driver", "cpu", "--report", "-")
    done = python("-m", "torchdevice_cuda", *options, "-c", "import torch; torch.zeros(1, device='cuda')")
    assert "1 device requests in all" in done.err


def ask_with_a_child() -> None:
    torch.zeros(1, device="cuda")
    activated = "import torchdevice_cuda; torchdevice_cuda.activate(driver='cpu'); import torch"
    subprocess.run([sys.executable, "-c", f"{activated}; torch.zeros(1, device='cuda')"], check=True)


def test_children_write_beside_it(tmp_path: Path) -> None:
    in_child(ask_with_a_child, CPU.within(TORCHDEVICE_REPORT=str(tmp_path / "report.txt")))
    assert len(list(tmp_path.glob("report*.txt"))) == 2


def deactivate_and_read(file: str) -> str:
    torch.zeros(1, device="cuda")
    torchdevice_cuda.deactivate()
    return Path(file).read_text()


@pytest.mark.parametrize("order", ["before", "after"])
def test_deactivation_writes_it(file: Path, order: str) -> None:
    assert "1 device requests" in in_child(deactivate_and_read, CPU.but(report=str(file)).when(order), str(file))
