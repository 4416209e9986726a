"""A child that was forked after CUDA was used is told so in CUDA's words, where there is nothing to break too."""

from __future__ import annotations

import torch
from harness import CPU, VIRTUAL, child, in_fork

WORDS = "Cannot re-initialize CUDA in forked subprocess"


@child(CPU, VIRTUAL, alone=True)
def test_a_fork_after_use_is_a_bad_one() -> None:
    torch.cuda.init()
    assert torch.cuda._is_in_bad_fork() is False
    assert in_fork(torch.cuda._is_in_bad_fork) is True
    assert in_fork(torch.cuda.is_initialized) is False
    assert torch.cuda.is_initialized() is True


@child(CPU, VIRTUAL, alone=True)
def test_a_fork_before_use_is_none() -> None:
    assert in_fork(torch.cuda._is_in_bad_fork) is False
    assert in_fork(torch.cuda.init) is None


@child(CPU, VIRTUAL, alone=True)
def test_a_bad_fork_is_refused_in_cudas_words() -> None:
    torch.cuda.init()
    assert in_fork(torch.cuda.init).startswith(f"RuntimeError: {WORDS}")
    assert in_fork(torch.cuda.synchronize).startswith(f"RuntimeError: {WORDS}")


@child(VIRTUAL, alone=True)
def test_a_bad_fork_makes_no_tensors_there() -> None:
    torch.zeros(1, device="cuda")
    assert in_fork(lambda: torch.zeros(1, device="cuda").tolist()).startswith(f"RuntimeError: {WORDS}")


@child(CPU, VIRTUAL, alone=True)
def test_a_bad_fork_computes_on_the_cpu() -> None:
    torch.cuda.init()
    assert in_fork(lambda: (torch.ones(2) * 2).tolist()) == [2.0, 2.0]
