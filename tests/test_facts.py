"""torch.cuda answers as a real GPU's did: expressions, and what they gave there (tools/facts.py)."""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import Any

import pytest
import torch
from harness import CPU, MPS_FAITHFUL, VIRTUAL, Finished, Place, run_forked
from harness.places import must_be_ready
from harness.processes import ROOT

from torchdevice_cuda._compat import accelerator_error, torch_release

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
# What releases before one have not, or have otherwise.
BEFORE: dict[tuple[int, int], dict[str, str]] = {
    (2, 10): dict.fromkeys((name for name in RECORDED if "_set_memory_metadata" in name), "new"),
    (2, 8): {
        **dict.fromkeys(("c.CUDAGraph().instantiate()", "c.CUDAGraph().raw_cuda_graph()"), "new"),
        **dict.fromkeys(("c.Event(1, 2, 3, 4).query()", "c.Event(external=True).query()"), "no external events"),
    },
    (2, 7): {"sorted(c.host_memory_stats())": "new"},
}
for first, new in BEFORE.items():
    if torch_release(torch.__version__) < first:
        KNOWN |= new
#: The type of CUDA's errors in this release, and texts that are others in a Python or a torch.
ERROR = {"AcceleratorError": accelerator_error().__name__}
WORDS: dict[str, str] = {}
if sys.version_info >= (3, 13):
    WORDS["property of '"] = "property '' of '"
if torch_release(torch.__version__) < (2, 8):
    WORDS["event_flag=0"] = "event_flag=1"  # torch.Event times unless it is told not to


def expected(outcome: list[Any]) -> list[Any]:
    """A recorded outcome as this release of torch and this Python word it."""
    kind, value = outcome
    for old, new in WORDS.items():
        value = value.replace(old, new) if isinstance(value, str) else value
    return [ERROR.get(kind, kind), value]


@cache
def compared(driver: str) -> Finished:
    """The comparison on a driver, which is made once, even where it fails: its exit status says if anything differs."""
    launcher = ("-m", "torchdevice_cuda", "--driver", driver)
    comparing = (ROOT / "tools" / "facts.py", "--compare", FILE, "--json")
    return run_forked(*launcher, *comparing, environment=PLACES[driver].full_environment(), check=False)


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
    if name in found:
        wanted, got = found[name]
        assert got == expected(wanted)
