"""Every operation of the language: kernels that are compiled for the host, compared with Triton's interpreter."""

from __future__ import annotations

import functools
import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import pytest
from harness import VIRTUAL, python
from harness.places import must_be_ready

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("triton") is None, reason="not installed: triton (the extra 'clients')"
    ),
]

PROGRAMS = Path(__file__).parent / "programs"
CASES = (
    "integers floats functions limits library bits conversions out_of_range eight_bits random_numbers wide_shifts "
    "masks masks_of_rows strides indices overlapping atomics narrow_atomics locks pointers descriptors "
    "given_descriptors grids arguments booleans reductions three_dimensions scans sorting shapes gathers products "
    "half_products batched_products loops branches calls broadcasts early_calls"
).split()
#: Sums of products: the order of their terms shows.
ROUGH = {"products": 1e-4}


@functools.cache
def run_program(name: str, how: str, *arguments: str, gpu: str = "h200") -> dict[str, Any]:
    """Return what a program prints where kernels run in this way."""
    must_be_ready(VIRTUAL)
    line = ("-m", "torchdevice_cuda", "--driver", "virtual", "--gpu", gpu, "--triton", how, PROGRAMS / name)
    done = python(*line, *arguments, environment=VIRTUAL.full_environment(), timeout=900)
    found: dict[str, Any] = json.loads(done.out.strip().splitlines()[-1])
    return found


def are_close(ours: Any, theirs: Any, tolerance: float) -> bool:
    if ours == theirs:
        return True
    one, other = float(ours), float(theirs)
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return isinstance(theirs, float) and abs(one - other) <= tolerance * (1 + abs(other))


@pytest.mark.parametrize("case", CASES)
def test_compiled_kernels_agree_with_the_interpreter(case: str) -> None:
    ours, theirs = (run_program("language.py", how)["found"][case] for how in ("compiled", "interpreted"))
    assert isinstance(ours, list), ours
    assert isinstance(theirs, list), theirs
    assert [len(one) for one in ours] == [len(one) for one in theirs]
    tolerance = ROUGH.get(case, 1e-5)
    wrong = [
        (number, place, one, other)
        for number, (some, others) in enumerate(zip(ours, theirs, strict=True))
        for place, (one, other) in enumerate(zip(some, others, strict=True))
        if not are_close(one, other, tolerance)
    ]
    assert wrong == []


def test_every_kernel_of_the_language_is_compiled() -> None:
    found = run_program("language.py", "compiled")
    assert sorted(found["found"]) == sorted(CASES)
    assert found["interpreted"] == []


OTHERS = ["scaled_products", "maps", "packed_maps", "products_of_four_bits", "updates_through_descriptors", "polls"]


@pytest.mark.parametrize("function", OTHERS)
def test_functions_that_the_interpreter_lacks_are_torchs(function: str) -> None:
    assert run_program("language.py", "compiled")[function] < 1e-5


def test_descriptors_that_are_given_are_compiled_for_gpus_without_tensor_maps() -> None:
    found = run_program("language.py", "compiled", "given_descriptors", gpu="a100-80")
    assert found["found"] == {"given_descriptors": run_program("language.py", "compiled")["found"]["given_descriptors"]}
    assert found["interpreted"] == []
