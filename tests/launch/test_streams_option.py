"""``--streams`` on the command line."""

from __future__ import annotations

import pytest
from harness import VIRTUAL, run_forked
from harness.places import must_be_ready

pytestmark = VIRTUAL.marks
RACE = """
import torch
landed = torch.zeros(4).pin_memory()
landed.copy_(torch.ones(4, device="cuda"), non_blocking=True)
print(landed.sum().item())
"""


@pytest.mark.parametrize(("order", "printed"), [("eager", "4.0"), ("adversarial", "0.0"), ("adversarial:1", "0.0")])
def test_a_copy_is_awaited_or_not(order: str, printed: str) -> None:
    must_be_ready(VIRTUAL)
    done = run_forked("-m", "torchdevice_cuda", "--driver", "virtual", "--streams", order, "-c", RACE)
    assert done.out == f"{printed}\n"


@pytest.mark.parametrize("order", ["random", "adversarial:", "adversarial:-1", "adversarial:x", "eager:1"])
def test_other_values_are_refused(order: str) -> None:
    done = run_forked("-m", "torchdevice_cuda", "--streams", order, "-c", "pass", check=False)
    assert done.status == 2
    assert "adversarial:SEED" in done.err
