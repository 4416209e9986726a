"""Bags of embeddings on the virtual GPU: besides the sums, what CUDA says of indices and bags."""

from __future__ import annotations

import pytest
import torch
from harness import VIRTUAL, child
from torch.nn import functional

pytestmark = child(VIRTUAL)
INDICES, OFFSETS = [1, 2, 0, 3, 1, 1], [0, 2, 2, 5]


def weight() -> torch.Tensor:
    return (torch.arange(12.0) / 3).view(4, 3)


def on_gpu(values: list[int], dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype, device="cuda")


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("bits", [32, 64])
def test_says_which_bag_and_how_many(mode: int, bits: int) -> None:
    """As an H200 does, whatever is made of the bags; the CPU leaves it empty where it does not need it."""
    dtype = getattr(torch, f"int{bits}")
    for padding, sizes in ((None, [2, 0, 3, 1]), (1, [1, 0, 2, 0])):
        for last in (False, True):
            offsets = on_gpu([*OFFSETS, 6] if last else OFFSETS, dtype)
            indices = on_gpu(INDICES, dtype)
            _, bags, counts, largest = torch.embedding_bag(
                weight().cuda(), indices, offsets, False, mode, False, None, last, padding
            )
            assert bags.tolist() == [0, 0, 2, 2, 2, 3]
            assert counts.shape == offsets.shape
            assert counts.tolist()[:4] == sizes
            assert largest.shape == ((4, 3) if mode == 2 else (0,))
            assert mode < 2 or largest[:, 0].tolist() == [2, -1, 3, -1 if padding == 1 else 1]
            assert bags.dtype == counts.dtype == largest.dtype == dtype


def test_the_first_bag_begins_at_the_first_index() -> None:
    """An H200 does not look at the first offset, and the CPU refuses."""
    for first in (1, 3):
        got = torch.embedding_bag(weight().cuda(), on_gpu(INDICES), on_gpu([first, 4]), False, 0)
        wanted = functional.embedding_bag(torch.tensor(INDICES), weight(), torch.tensor([0, 4]), mode="sum")
        assert torch.equal(got[0].cpu(), wanted)
        assert got[1].tolist() == [0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize("last", [False, True])
def test_of_rows_of_indices_as_many_count_as_there_are_rows(last: bool) -> None:
    """Match values of an H200; the CPU uses all indices. The last bag ends with the last index, whatever offset is
    given."""
    rows = torch.tensor([[1, 2], [0, 4], [3, 3]], device="cuda")
    w = torch.arange(15.0, device="cuda").view(5, 3)
    for mode, first, second, whole in (
        (0, [9.0, 11.0, 13.0], [0.0, 1.0, 2.0], [9.0, 12.0, 15.0]),
        (1, [4.5, 5.5, 6.5], [0.0, 1.0, 2.0], [3.0, 4.0, 5.0]),
        (2, [6.0, 7.0, 8.0], [0.0, 1.0, 2.0], [6.0, 7.0, 8.0]),
    ):
        made, bags, counts, _ = torch.embedding_bag(w, rows, on_gpu([0, 2]), False, mode, False, None, last)
        assert made.tolist() == ([whole] if last else [first, second])
        assert bags.tolist() == ([0, 0, 0] if last else [0, 0, 1])
        assert counts.tolist()[: len(made)] == ([3] if last else [2, 1])
        assert torch.embedding_bag(w, rows, on_gpu([0]), False, mode, False, None, True)[0].shape == (0, 3)
    for weights in (torch.full((3, 2), 2.0, device="cuda"), torch.full((6,), 2.0, device="cuda")):
        doubled = torch.embedding_bag(w, rows, on_gpu([0, 2]), False, 0, False, weights)[0]
        assert doubled.tolist() == [[18.0, 22.0, 26.0], [0.0, 2.0, 4.0]]


@child(VIRTUAL, alone=True)
@pytest.mark.parametrize("mode", ["sum", "max"])
def test_a_bag_that_ends_before_it_begins_is_asserted(mode: str) -> None:
    """The call gives what it has room for, and the device is lost; the CPU raises, or computes."""
    indices, w = on_gpu([1, 2, 0]), weight().cuda()
    assert functional.embedding_bag(indices, w, on_gpu([0, 2, 1]), mode=mode).shape == (3, 3)
    with pytest.raises(RuntimeError, match="CUDA error: device-side assert triggered"):
        torch.cuda.synchronize()


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("last", [False, True])
def test_gradients_are_the_cpus(mode: str, last: bool) -> None:
    found = []
    for device in ("cpu", "cuda"):
        w = weight().to(device).requires_grad_()
        offsets = torch.tensor([*OFFSETS, 6] if last else OFFSETS, device=device)
        indices = torch.tensor(INDICES, device=device)
        out = functional.embedding_bag(indices, w, offsets, mode=mode, include_last_offset=last, padding_idx=2)
        out.pow(2).sum().backward()
        found.append((out.detach().cpu(), w.grad.cpu()))
    torch.testing.assert_close(found[1], found[0])


def test_is_captured() -> None:
    w, indices, offsets = weight().cuda(), on_gpu(INDICES), on_gpu(OFFSETS)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = torch.embedding_bag(w, indices, offsets, False, 0)
    indices.fill_(3)
    graph.replay()
    assert torch.equal(out[0], torch.embedding_bag(w, indices, offsets, False, 0)[0])
    assert out[2].tolist() == [2, 0, 3, 1]
