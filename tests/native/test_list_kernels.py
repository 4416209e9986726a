"""Operators on lists of tensors: a profile names the kernel that takes a list at once where an H200's profile did."""

from __future__ import annotations

import pytest
import torch
from harness import VIRTUAL, child
from recorded import find_differences, list_kernels

from torchdevice_cuda._compat import torch_release

pytestmark = child(VIRTUAL)

#: Types of the device that the CPU's kernels, which compute here, do not have: refused.
REFUSED = {("_foreach_abs", "bool", "tensor*")}
#: An order of 0 is computed at once since 2.13; the record is of 2.11.
SINCE = {"ord=0": (2, 13)}


def _is_unchanged(name: str) -> bool:
    return not any(torch_release(torch.__version__) >= since and word in name for word, since in SINCE.items())


@pytest.mark.parametrize(("name", "dtype", "kinds"), sorted(REFUSED))
def test_refused_lists(name: str, dtype: str, kinds: str) -> None:
    given = [list_kernels.make_argument(word, getattr(torch, dtype)) for word in kinds.split()]
    with pytest.raises(NotImplementedError, match="not implemented for"):
        getattr(torch, name)(*given)


def test_lists_at_once() -> None:
    wrong = find_differences(list_kernels, _is_unchanged)
    for name, dtype, kinds in REFUSED:
        there, here = wrong.pop(f"{name} {kinds}")
        assert [" ".join(word for word in dtypes.split() if word != dtype) for dtypes in there] == here
    assert wrong == {}
