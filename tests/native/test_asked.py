"""Calls whose answers an H200 was asked for: what it takes, and its words for what it does not."""

from __future__ import annotations

from harness import VIRTUAL, child
from recorded import asked, find_differences


@child(VIRTUAL)
def test_as_on_an_h200() -> None:
    wrong = find_differences(asked)
    assert not wrong, (len(wrong), dict(list(wrong.items())[:8]))
