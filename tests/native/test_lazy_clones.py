"""``torch._lazy_clone``: what is only read goes on sharing its memory, what is written gets its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from harness import VIRTUAL, child

pytestmark = child(VIRTUAL)


def _pair() -> tuple[torch.Tensor, torch.Tensor]:
    tensor = torch.arange(4.0, device="cuda")
    return tensor, torch._lazy_clone(tensor)


def _shared(tensor: torch.Tensor, clone: torch.Tensor) -> bool:
    same: bool = torch._C._data_address(clone) == torch._C._data_address(tensor)
    assert torch._C._is_cow_tensor(clone) == same
    return same


READS: dict[str, Callable[[torch.Tensor], object]] = {
    "added": lambda t: t + 1,
    "summed": lambda t: t.sum(),
    "multiplied": lambda t: t @ t,
    "concatenated": lambda t: torch.cat([t, t]),
    "brought home": lambda t: t.cpu(),
    "viewed": lambda t: t.view(2, 2),
    "written elsewhere": lambda t: torch.zeros(4, device="cuda").add_(t),
    "copied elsewhere": lambda t: torch.zeros(4, device="cuda").copy_(t),
    "sorted": lambda t: t.sort(),
}
WRITES: dict[str, Callable[[torch.Tensor], object]] = {
    "added to": lambda t: t.add_(1),
    "filled": lambda t: t.fill_(7),
    "copied to": lambda t: t.copy_(torch.full((4,), 7.0)),
    "an output": lambda t: torch.sin(torch.ones(4, device="cuda"), out=t),
    "an output of its own": lambda t: torch.add(t, 1, out=t),
    "of a list": lambda t: torch._foreach_add_([t], 1.0),
    "by indices": lambda t: t.__setitem__(torch.tensor([1], device="cuda"), 7.0),
    "running statistics": lambda t: torch.nn.functional.batch_norm(
        torch.randn(3, 4, device="cuda"), t, torch.ones(4, device="cuda"), training=True
    ),
}


@pytest.mark.parametrize("how", READS)
def test_reading_keeps_it_lazy(how: str) -> None:
    tensor, clone = _pair()
    READS[how](clone)
    assert _shared(tensor, clone)


@pytest.mark.parametrize("how", WRITES)
def test_writing_parts_them(how: str) -> None:
    tensor, clone = _pair()
    WRITES[how](clone)
    assert not _shared(tensor, clone)
    assert tensor.tolist() == [0, 1, 2, 3]
    assert clone.tolist() != [0, 1, 2, 3]


def test_a_loop_of_several_threads_parts_nothing() -> None:
    tensor, clone = _pair()
    with pytest.raises(RuntimeError, match="Materializing a storage in the loop function of at::parallel_for"):
        torch._test_parallel_materialize(clone, 1, False)
    assert _shared(tensor, clone)
    clone.add_(1)  # outside of it they part
    torch._test_parallel_materialize(clone, 1, False)
