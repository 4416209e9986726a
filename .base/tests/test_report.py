"""The report of what went where."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = """
def make():
    return [torch.zeros(2, device="cuda") for _ in range(3)]  # line 4 of this program
make(), make()
torch.ones(1).to("cuda"), torch.ones(1, device="cpu")
"""


def test_requests_are_counted_by_call_site(run: Callable, tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    run(PROGRAM, report=str(file))
    lines = [line.split() for line in file.read_text().splitlines()]
    counted = {
        (row[1], row[2], row[3].rpartition(":")[2]): int(row[0]) for row in lines if len(row) == 4 and row[0].isdigit()
    }
    assert counted == {("cuda", "cpu", "4"): 6, ("cuda", "cpu", "6"): 1, ("cpu", "cpu", "6"): 1}, file.read_text()
    assert lines[-1] == ["8", "device", "requests", "in", "all"]


def test_page_and_standard_error(run: Callable, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    run(PROGRAM, report=str(page))
    assert page.read_text().startswith("<!doctype html>") and page.read_text().count("<tr>") == 4
    assert "8 device requests in all" in run(PROGRAM, report="-").stderr


def test_children_write_beside_it(run: Callable, tmp_path: Path) -> None:
    child = (
        "import torchdevice_cuda; torchdevice_cuda.activate(driver='cpu'); import torch; torch.zeros(1, device='cuda')"
    )
    run(
        f"""
        import subprocess, sys
        torch.zeros(1, device="cuda")
        subprocess.run([sys.executable, "-c", {child!r}], check=True)
        """,
        env={"TORCHDEVICE_REPORT": str(tmp_path / "report.txt")},
    )
    assert len(list(tmp_path.glob("report*.txt"))) == 2


@pytest.mark.parametrize("order", ["before", "after"])
def test_deactivation_writes_it(run: Callable, tmp_path: Path, order: str) -> None:
    file = tmp_path / "report.txt"
    run(
        f"torch.zeros(1, device='cuda'); torchdevice_cuda.deactivate(); assert '1 device requests' in open({str(file)!r}).read()",
        report=str(file),
        order=order,
    )
