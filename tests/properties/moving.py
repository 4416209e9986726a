"""Calls of ``Tensor.to`` with drawn arguments, by position and by name; and what came of them."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st

#: An argument, by a word that a child process can be given.
_DEVICES = {"device": torch.device, "name": str, "index": lambda _: 0}
_VALUES: dict[str, Any] = {
    "float16": torch.float16,
    "int64": torch.int64,
    "true": True,
    "false": False,
    "none": None,
    "channels_last": torch.channels_last,
    "preserve": torch.preserve_format,
    "text": "no device",
    "number": 1.5,
}
# Without the index: where no device belongs, torch takes a number for a tensor of one.
_ALL = ["device", "name", *_VALUES, "other", "other there"]
_DEVICE, _DTYPE, _SWITCH = (
    st.sampled_from([*_DEVICES]),
    st.sampled_from(["float16", "int64"]),
    st.sampled_from(["true", "false"]),
)
_FORMAT = st.sampled_from(["channels_last", "preserve"])
#: By name: what belongs there.
_NAMED = {"device": _DEVICE, "dtype": _DTYPE, "non_blocking": _SWITCH, "copy": _SWITCH, "memory_format": _FORMAT}


def _begin(*forms: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    """Return the first arguments of a form, as many as there may be."""
    return st.integers(0, len(forms)).flatmap(lambda number: st.tuples(*forms[:number]).map(list))


_POSITIONAL = st.one_of(
    _begin(_DEVICE, _DTYPE, _SWITCH, _SWITCH),
    _begin(_DTYPE, _SWITCH, _SWITCH),
    _begin(st.sampled_from(["other", "other there"]), _SWITCH, _SWITCH),
)
_FITTING = st.tuples(_POSITIONAL, st.fixed_dictionaries({}, optional=_NAMED))
_ANY = st.sampled_from(_ALL)
_WILD = st.tuples(
    st.lists(_ANY, max_size=5), st.dictionaries(st.sampled_from([*_NAMED, "other", "tensor"]), _ANY, max_size=4)
)
#: ``(positional words, words by name)``: of torch's forms, and of none.
CALLS = st.one_of(_FITTING, _FITTING, _WILD)


def value(word: str, device: str) -> Any:
    """Return the value that a word stands for on this device."""
    if word == "other":
        return torch.ones(1, dtype=torch.float16)
    if word == "other there":
        return torch.ones(1, dtype=torch.float16, device=device)
    # The CPU has no index of its own: an integer is an accelerator's.
    if word == "index" and device == "cpu":
        return torch.device("cpu")
    return _DEVICES[word](device) if word in _DEVICES else _VALUES[word]


def move(calls: list[Any], device: str) -> list[list[Any]]:
    """Try each call on this device: return the error's type, or a description of the tensor."""
    found = []
    for words, named in calls:
        start = torch.arange(16.0).reshape(1, 2, 2, 4)
        try:
            args = [value(word, device) for word in words]
            moved = start.to(*args, **{name: value(word, device) for name, word in named.items()})
        except Exception as error:
            # Of two faults in a call, one being the device's name, either may be seen first.
            found.append(["an error"] if "text" in words or "text" in named.values() else [type(error).__name__])
            continue
        layout = moved.is_contiguous(memory_format=torch.channels_last)
        found.append([str(moved.dtype), list(moved.shape), layout, moved.float().sum().item()])
    return found
