"""Calls with drawn devices, as literals that a child process can be given; and what came of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st

#: A request: how it is spelled, and its text or number.
Spelled = tuple[str, Any]
_NAMES = [
    "cuda",
    "cuda:0",
    "cpu",
    "cpu:0",
    "meta",
    "cuda:1",
    "cuda:7",
    "cuda:-1",
    "cuda:-2",
    "cpu:1",
    "cuda:256",
    "CUDA",
]
_NAMES += ["cuda:", "cuda:00", "cuda:x", " cuda", "cuda ", "cuda:0:0", "gpu", "", ":", "cpu:x", "None"]
SPELLINGS = st.one_of(
    st.tuples(st.just("str"), st.sampled_from(_NAMES)),
    st.tuples(st.just("str"), st.text(max_size=4)),
    st.tuples(st.just("device"), st.sampled_from(["cuda", "cuda:0", "cpu", "cpu:0", "meta"])),
    st.tuples(st.just("int"), st.sampled_from([0, 1, 7, -1, 255, 256, 2**31, 2**40, 2**70])),
    st.tuples(st.just("other"), st.sampled_from(["None", "True", "1.5", "[]", "{}", "('cuda', 0)", "{'cuda'}", "3j"])),
)


def request(spelled: Spelled) -> Any:
    """Return the request that a spelling stands for."""
    kind, value = spelled
    if kind == "device":
        return torch.device(value)
    return {"None": None, "True": True, "1.5": 1.5, "3j": 3j}.get(value, value) if kind == "other" else value


def _model() -> torch.nn.Module:
    return torch.nn.Linear(2, 2)


#: Ways of asking, by name: each gives a tensor.
WAYS: dict[str, Callable[[Any], torch.Tensor]] = {
    "zeros": lambda device: torch.zeros(2, device=device),
    "tensor": lambda device: torch.tensor([1.0], device=device),
    "arange": lambda device: torch.arange(3, device=device),
    "zeros_like": lambda device: torch.zeros_like(torch.ones(2), device=device),
    "new_zeros": lambda device: torch.ones(2).new_zeros(2, device=device),
    "to": lambda device: torch.ones(2).to(device),
    "to by name": lambda device: torch.ones(2).to(device=device),
    "module": lambda device: next(_model().to(device).parameters()),
    "module by name": lambda device: next(_model().to(device=device).parameters()),
    "made there": lambda device: torch.nn.Linear(2, 2, device=device).weight,
}


def outcome(call: Callable[[], torch.Tensor]) -> list[Any]:
    """Return a call's result, or its error's message."""
    try:
        made = call()
    except Exception as error:
        return [type(error).__name__, str(error).partition("\n")[0]]
    return ["made", str(made.dtype), list(made.shape)]


def ask(spellings: list[Spelled]) -> list[list[Any]]:
    """Try each request in each form."""
    return [
        [way, spelled, *outcome(lambda ask=ask, spelled=spelled: ask(request(spelled)))]
        for (way, ask), spelled in itertools.product(WAYS.items(), spellings)
    ]
