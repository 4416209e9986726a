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
def test_a_minute_leaves_nothing_behind() -> None:
    done = python(SOAK, "--seconds", "60", "--steps", "500", check=False, timeout=400)
    assert done.status == 0, done
    assert done.out.startswith("seed ")


@pytest.mark.parametrize("driver", ["virtual", pytest.param("mps", marks=pytest.mark.mps), "cpu"])
def test_ten_thousand_steps_of_training_hold_what_a_thousand_hold(driver: str) -> None:
    """Memory of the process and of the device, descriptors and threads."""
    done = python(SOAK, "--seconds", "0", "--steps", "10000", "--places", driver, check=False, timeout=2400)
    assert done.status == 0, done
    assert f"| {driver}, training | 10000 |" in done.out


@pytest.mark.parametrize("plant", ["descriptor", "thread", "device memory"])
def test_a_leak_of_training_is_found(plant: str) -> None:
    words = ("--seconds", "0", "--steps", "300", "--places", "virtual", "--plant", plant)
    done = python(SOAK, *words, check=False, timeout=400)
    assert done.status == 1, done
    assert re.search(f"FAILED: virtual, training: {re.escape(PLANTS[plant][1])}", done.out), done


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_leak_is_found(plant: str) -> None:
    place, said = PLANTS[plant]
    done = python(
        SOAK, "--seconds", "30", "--steps", "0", "--places", place, "--plant", plant, check=False, timeout=400
    )
    assert done.status == 1, done
    assert re.search(f"FAILED: .*{re.escape(said)}", done.out, re.DOTALL), done
