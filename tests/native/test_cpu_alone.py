"""Operators for which there are kernels for the CPU alone: CUDA has none, so neither has the virtual GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from harness import VIRTUAL, child

pytestmark = child(VIRTUAL)


def _own() -> object:
    library = torch.library.Library("cpu_alone", "FRAGMENT")
    library.define("plus_one(Tensor a) -> Tensor")
    library.impl("plus_one", lambda a: a + 1, "CPU")
    assert torch.ops.cpu_alone.plus_one(torch.ones(1)).item() == 2
    return torch.ops.cpu_alone.plus_one(torch.ones(1, device="cuda"))


REFUSED: dict[str, Callable[[], object]] = {
    "aten::histogram.bin_ct": lambda: torch.histogram(torch.randn(4, device="cuda"), 4),
    "aten::to_mkldnn": lambda: torch.randn(4, device="cuda").to_mkldnn(),
    "aten::mkldnn_linear": lambda: torch.ops.aten.mkldnn_linear(
        torch.ones(2, 2, device="cuda"), torch.ones(2, 2, device="cuda")
    ),
    "cpu_alone::plus_one": _own,
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_in_the_dispatchers_words(name: str) -> None:
    with pytest.raises(NotImplementedError) as caught:
        REFUSED[name]()
    assert str(caught.value).startswith(
        f"Could not run '{name}' with arguments from the 'CUDA' backend. This could be because the operator doesn't "
        "exist for this backend, or was omitted during the selective/custom build process (if using custom build)."
    )
    assert f"'{name}' is only available for these backends: [" in str(caught.value)


def test_a_kernel_of_cudas_own_is_called() -> None:
    library = torch.library.Library("for_both", "FRAGMENT")
    library.define("plus_one(Tensor a) -> Tensor")
    library.impl("plus_one", lambda a: a + 1, "CPU")
    library.impl("plus_one", lambda a: a + 2, "CUDA")
    assert torch.ops.for_both.plus_one(torch.ones(1, device="cuda")).item() == 3
