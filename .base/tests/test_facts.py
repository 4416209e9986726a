"""torch.cuda answers as a real GPU's did: expressions, and what they gave there (tools/facts.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from conftest import ROOT, clean_environment

RECORDED = json.loads((Path(__file__).parent / "data" / "facts-cuda.json").read_text())
DRIVERS = ("cpu", "virtual")
# Facts a driver does not share, with the reason.
KNOWN = {
    "memory_allocated(99)": "CUDA prints the index as the character with that code",
    "memory_allocated('cuda:99')": "CUDA prints the index as the character with that code",
    "[k.__name__ for k in c.Stream.__mro__]": "the methods are Python's, in a class of their own",
    "[k.__name__ for k in c.Event.__mro__]": "the methods are Python's, in a class of their own",
}


@cache
def differences(driver: str) -> dict[str, list]:
    command = [sys.executable, "-m", "torchdevice_cuda", "--driver", driver, str(ROOT / "tools" / "facts.py")]
    recorded = str(ROOT / "tests" / "data" / "facts-cuda.json")
    done = subprocess.run(
        [*command, "--compare", recorded, "--json"], capture_output=True, text=True, env=clean_environment()
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("name", RECORDED)
def test_fact(driver: str, name: str, request: pytest.FixtureRequest) -> None:
    if driver == "virtual":
        request.getfixturevalue("native_library")
    if name in KNOWN:
        assert name in differences(driver), "no longer different: take it off the list"
        return
    wanted, found = differences(driver).get(name, (None, None))
    assert found == wanted
