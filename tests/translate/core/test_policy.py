"""Test the redirection table cell by cell, and the override."""

from __future__ import annotations

import threading

import pytest

from torchdevice_cuda.translate.core.policy import (
    ACCELERATE,
    ACCELERATORS,
    FAITHFUL,
    Override,
    Request,
    default_policy,
    destination,
)

#: What the program asks for; where it goes on MPS, on CUDA, with the CPU alone; and under the policy ``faithful``.
TABLE: dict[tuple[str | None, int | None], tuple[list[Request], list[Request]]] = {
    (None, None): ([Request("mps"), Request("cuda"), Request("cpu")], [Request("cpu")] * 3),
    ("cpu", None): ([Request("mps"), Request("cuda"), Request("cpu")], [Request("cpu")] * 3),
    ("cpu", 0): ([Request("mps"), Request("cuda"), Request("cpu")], [Request("cpu")] * 3),
    ("cpu", -1): ([Request("cpu")] * 3, [Request("cpu")] * 3),
    ("mps", None): ([Request("mps"), Request("cuda"), Request("cpu")],) * 2,
    ("mps", 0): ([Request("mps"), Request("cuda"), Request("cpu")],) * 2,
    ("cuda", None): ([Request("mps"), Request("cuda"), Request("cpu")],) * 2,
    ("cuda", 1): ([Request("mps"), Request("cuda", 1), Request("cpu")],) * 2,
    ("meta", None): ([Request("meta")] * 3,) * 2,
    ("xpu", 2): ([Request("xpu", 2)] * 3,) * 2,
}


@pytest.mark.parametrize("asked", TABLE)
def test_each_cell(asked: tuple[str | None, int | None]) -> None:
    accelerating, faithful = TABLE[asked]
    for policy, wanted in ((ACCELERATE, accelerating), (FAITHFUL, faithful)):
        found = [destination(Request(*asked), kind, policy, False) for kind in ("mps", "cuda", "cpu")]
        assert found == wanted


@pytest.mark.parametrize("asked", TABLE)
def test_the_override_is_of_explicit_requests_for_the_cpu(asked: tuple[str | None, int | None]) -> None:
    for kind in ("mps", "cuda", "cpu"):
        without = destination(Request(*asked), kind, ACCELERATE, False)
        wanted = Request("cpu") if asked[0] == "cpu" else without
        assert destination(Request(*asked), kind, ACCELERATE, True) == wanted


def test_accelerators_are_those_of_the_table() -> None:
    assert {kind for kind, _ in TABLE if kind in ACCELERATORS} == {"mps", "cuda"} == ACCELERATORS


@pytest.mark.parametrize(
    ("redirects", "allowed", "chosen", "policy"),
    [
        (False, False, None, "faithful"),
        (True, False, None, "accelerate"),
        (False, True, None, "accelerate"),
        (True, True, "faithful", "faithful"),
        (False, False, "accelerate", "accelerate"),
    ],
)
def test_the_policy_in_force(redirects: bool, allowed: bool, chosen: str | None, policy: str) -> None:
    assert default_policy(redirects, allowed, chosen) == policy


def test_the_override_is_turned_over() -> None:
    override = Override()
    assert override.on is False
    assert override.toggle() is True
    assert override.on is True
    assert override.toggle() is False
    override.toggle()
    override.reset()
    assert override.on is False


def test_turning_it_over_from_threads() -> None:
    override = Override()
    threads = [threading.Thread(target=lambda: [override.toggle() for _ in range(2001)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert override.on is False
