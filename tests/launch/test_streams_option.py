"""``--streams`` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import VIRTUAL, python, run_forked
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


SENDING = """
import torch, torch.multiprocessing as mp

def double(received, sent):
    x = received.get()
    sent.put((x * 2).sum().item())
    x += 1
    torch.cuda.synchronize()
    sent.put("done")

if __name__ == "__main__":
    context = mp.get_context("spawn")
    there, back = context.Queue(), context.Queue()
    other = context.Process(target=double, args=(there, back))
    other.start()
    x = torch.arange(10.0, device="cuda") * 3
    there.put(x)
    print(back.get(), back.get(), x.sum().item())
    other.join()
"""


@pytest.mark.slow
def test_memory_that_is_sent_has_its_elements(tmp_path: Path) -> None:
    """Another process does not see what waits in this one, so sending ends that."""
    must_be_ready(VIRTUAL)
    program = tmp_path / "sending.py"
    program.write_text(SENDING)
    done = python("-m", "torchdevice_cuda", "--driver", "virtual", "--streams", "adversarial", program)
    assert done.out == "270.0 done 145.0\n"
