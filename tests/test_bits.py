"""Bits of sums, scans, softmax and losses, compared with an H200's (tests/recorded/bits.py)."""

from __future__ import annotations

import pytest
from harness import VIRTUAL, python
from harness.places import must_be_ready
from harness.processes import ROOT


@pytest.mark.native
@pytest.mark.slow
def test_bits_are_as_expected() -> None:
    must_be_ready(VIRTUAL)
    done = python(ROOT / "tools" / "record", "compare", "bits", "--driver", "virtual", check=False, timeout=600)
    assert done.status == 0, done
