"""torch.cuda answers as a real GPU's did: expressions, and what they gave there (tools/facts.py)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
import torch
from harness import CPU, MPS_FAITHFUL, VIRTUAL, Finished, Place, python
from harness.places import must_be_ready
from harness.processes import ROOT

from torchdevice_cuda._compat import torch_release

FILE = ROOT / "tests" / "data" / "facts-cuda.json"
RECORDED = json.loads(FILE.read_text())
PLACES = {str(place.driver): place for place in (CPU, VIRTUAL, MPS_FAITHFUL)}
# Facts a driver does not share, with the reason.
KNOWN = {
    "memory_allocated(99)": "CUDA prints the index as the character with that code",
    "memory_allocated('cuda:99')": "CUDA prints the index as the character with that code",
    "[k.__name__ for k in c.Stream.__mro__]": "the methods are Python's, in a class of their own",
    "[k.__name__ for k in c.Event.__mro__]": "the methods are Python's, in a class of their own",
}
# Words of stock's that are others since the facts were recorded, with torch 2.11: the release's own are right.
REWORDED: dict[tuple[int, int], dict[str, str]] = {
    (2, 13): {'c.caching_allocator_alloc(16, stream="x")': "an article in the text"},
    (2, 14): {
        "c.CUDAGraph().raw_cuda_graph()": "another text",
        "c.CUDAGraph().replay()": "instantiates first, which has a text of its own",
    },
}
for since, reworded in REWORDED.items():
    if torch_release(torch.__version__) >= since:
        KNOWN |= reworded


@cache
def compared(driver: str) -> Finished:
    """The comparison on a driver, which is made once, even where it fails: its exit status says if anything differs."""
    launcher = ("-m", "torchdevice_cuda", "--driver", driver)
    comparing = (ROOT / "tools" / "facts.py", "--compare", FILE, "--json")
    return python(*launcher, *comparing, environment=PLACES[driver].full_environment(), check=False)


def differences(driver: str) -> dict[str, list[Any]]:
    """What differs on a driver: the recorded outcome and the one found."""
    done = compared(driver)
    assert done.out, done
    return json.loads(done.out)


@pytest.mark.parametrize("where", [pytest.param(place, marks=place.marks, id=str(place)) for place in PLACES.values()])
@pytest.mark.parametrize("name", RECORDED)
def test_fact(where: Place, name: str) -> None:
    must_be_ready(where)
    found = differences(str(where.driver))
    if name in KNOWN:
        assert name in found, "no longer different: take it off the list"
        return
    wanted, got = found.get(name, (None, None))
    assert got == wanted
