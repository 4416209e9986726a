"""The page of instructions is the table's."""

from __future__ import annotations

from harness.tools import tool


def test_page_is_current() -> None:
    page = tool("ptx_table.py")

    text = page.PAGE.read_text(encoding="utf-8")
    assert page.fill(text) == text, "python tools/ptx_table.py --write"
