"""The page of instructions is the table's."""

from __future__ import annotations


def test_page_is_current() -> None:
    from ptx_table import PAGE, fill

    text = PAGE.read_text(encoding="utf-8")
    assert fill(text) == text, "python tools/ptx_table.py --write"
