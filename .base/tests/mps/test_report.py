"""The report of what left the Apple GPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

BODY = """
import warnings
warnings.simplefilter("ignore")
x = torch.ones(100, device="cuda", dtype=torch.float64)
for _ in range(3):
    torch.mode(x)
"""
DONE = "\nresult = None"
LEFT = [
    ["3", "aten::mode", "CPU", "the GPU's backend has no kernel"],
    ["1", "float64", "float32", "the GPU has no float64"],
]


def _tables(text: str) -> list[list[list[str]]]:
    """The rows of each table, cells apart, without title and head."""
    return [[re.split(r"\s{2,}", line) for line in part.splitlines()[2:-1]] for part in text.split("\n\n")]


def test_departures_are_a_second_table(on_mps: Callable, tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    on_mps(BODY + DONE, report=str(file))
    requests, left = _tables(file.read_text())
    assert [row[:3] for row in requests] == [["1", "cuda", "cuda:0 (mps:0)"]]
    assert left == LEFT and file.read_text().endswith("4 departures in all\n")
    assert "what left cuda:0 (mps:0)" in file.read_text()


def test_departures_on_a_page(on_mps: Callable, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    on_mps(BODY + DONE, report=str(page))
    rows = re.findall(r"<tr>(<td>.*)</tr>", page.read_text())
    cells = [re.findall(r"<td>(.*?)</td>", row) for row in rows]
    assert [[cell.replace("&#x27;", "'") for cell in row] for row in cells[1:]] == LEFT
    assert cells[0][1:3] == ["cuda", "cuda:0 (mps:0)"] and page.read_text().count("<table>") == 2


def test_a_program_that_sees_the_device_as_it_is(on_mps: Callable, tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    on_mps(BODY + DONE, report=str(file), identity="native")
    assert _tables(file.read_text())[0][0][1:3] == ["cuda", "mps"]


def test_without_departures_there_is_one_table(on_mps: Callable, tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    on_mps("torch.ones(2, device='cuda') + 1" + DONE, report=str(file))
    assert len(_tables(file.read_text())) == 1


def test_deactivation_writes_and_forgets_them(on_mps: Callable, tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    body = f"""
    torch.mode(torch.ones(3, device="cuda"))
    torchdevice_cuda.deactivate()
    from torchdevice_cuda.report.departures import departures
    result = [open({str(file)!r}).read(), departures.rows()]
    """
    text, rows = on_mps(body, report=str(file))
    assert "aten::mode" in text and rows == []
