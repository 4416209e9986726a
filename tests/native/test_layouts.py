"""Results are laid out as CUDA's libraries leave them."""

from __future__ import annotations

import pytest
import torch
from harness import child

from .bare import bare

pytestmark = child(bare())


@pytest.mark.parametrize("full", [False, True])
def test_the_right_side_of_a_singular_value_decomposition(full: bool) -> None:
    x = torch.rand(2, 5, 3, device="cuda")
    u, s, right = torch.linalg.svd(x, full_matrices=full)
    assert u.mT.is_contiguous()
    assert right.is_contiguous()
    torch.testing.assert_close(u[..., :3] @ torch.diag_embed(s) @ right, x)
    assert torch.svd_lowrank(x, q=2)[2].mT.is_contiguous()


@pytest.mark.parametrize("driver", ["gesvd", "gesvdj", "gesvda"])
def test_ways_of_decomposing_that_only_cuda_has(driver: str) -> None:
    x = torch.rand(4, 3, device="cuda")
    torch.testing.assert_close(torch.linalg.svd(x, driver=driver)[1], torch.linalg.svdvals(x.cpu()).cuda())
    torch.testing.assert_close(torch.linalg.svdvals(x, driver=driver), torch.linalg.svdvals(x.cpu()).cuda())


def test_a_way_that_there_is_not() -> None:
    with pytest.raises(RuntimeError, match="unknown svd driver abc in svd_cusolver computation. Check doc at"):
        torch.linalg.svd(torch.rand(4, 3, device="cuda"), driver="abc")


def test_places_are_laid_out_by_columns() -> None:
    x = torch.tensor([[0.0, 1.0, 2.0], [3.0, 0.0, 4.0]], device="cuda")
    assert torch.nonzero(x).stride() == (1, 4)
    assert torch.nonzero(x * 0).stride() == (1, 1)
    assert torch.nonzero_static(x, size=5).stride() == (1, 5)
    assert torch.nonzero_static(x, size=5).tolist() == [[0, 1], [0, 2], [1, 0], [1, 2], [-1, -1]]
    given = torch.empty(4, 2, dtype=torch.int64, device="cuda")
    assert torch.nonzero(x, out=given).stride() == (2, 1)
