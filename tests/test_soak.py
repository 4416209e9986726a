"""The soak (tools/soak): a short one, and that it finds what is planted."""

from __future__ import annotations

import re

import pytest
from harness import python
from harness.processes import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.native]
SOAK = ROOT / "tools" / "soak"
#: What is planted, where, and how it is reported.
PLANTS = {
    "thread": ("cpu", "threads went from"),
    "descriptor": ("cpu", "descriptors went from"),
    "memory": ("cpu", "resident MiB went from"),
    "device memory": ("virtual", "device bytes went from"),
    "child": ("cpu", "children went from"),
    "file": ("cpu", "temporary files went from"),
    "hang": ("cpu", "Timeout (0:00:20)!"),
}


@pytest.mark.mps
def test_nothing_is_left_behind_in_a_minute() -> None:
    done = python(SOAK, "--seconds", "60", check=False, timeout=400)
    assert done.status == 0, done
    assert done.out.startswith("seed ")


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_leak_is_found(plant: str) -> None:
    place, said = PLANTS[plant]
    done = python(SOAK, "--seconds", "30", "--places", place, "--plant", plant, check=False, timeout=400)
    assert done.status == 1, done
    assert re.search(f"FAILED: .*{re.escape(said)}", done.out, re.DOTALL), done
