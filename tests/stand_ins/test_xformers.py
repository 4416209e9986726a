"""The stand-in for xformers, compared with attention in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from harness import VIRTUAL, child

from .reference import assert_close, attend, compare, draw

PLACE = VIRTUAL.with_settings(stand_ins=("xformers",))
INF = math.inf


def expect(bias: Any = None, **options: Any) -> Any:
    """Return the reference for tensors of a batch."""

    def expected(q: Any, k: Any, v: Any) -> Any:
        return torch.stack([attend(*each, bias=bias, **options) for each in zip(q, k, v, strict=True)])

    return expected


@child(PLACE)
def test_attention_of_a_batch() -> None:
    from xformers.ops import LowerTriangularMask, memory_efficient_attention, memory_efficient_attention_backward
    from xformers.ops import MemoryEfficientAttentionFlashAttentionOp as Op
    from xformers.ops import memory_efficient_attention_forward_requires_grad as forward

    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        q, k, v = (draw(2, 9, 2, 16, dtype=dtype, seed=seed) for seed in range(3))
        compare(lambda *x: memory_efficient_attention(*x, scale=0.4, op=Op), expect(scale=0.4), q, k, v)
        compare(
            lambda *x: memory_efficient_attention(*x, attn_bias=LowerTriangularMask()), expect(causal=True), q, k, v
        )
    values = draw(2, 9, 2, 24)
    compare(memory_efficient_attention, expect(), *(x.half() for x in (q, k)), values)
    flat = [draw(3, 9, 16, seed=seed) for seed in range(3)]
    one_head = expect()
    compare(memory_efficient_attention, lambda *x: one_head(*(t.unsqueeze(2) for t in x)).squeeze(2), *flat)
    grouped = [draw(2, 9, 2, 3, 16, seed=seed) for seed in range(3)]
    compare(
        memory_efficient_attention, lambda *x: one_head(*(t.flatten(2, 3) for t in x)).unflatten(2, (2, 3)), *grouped
    )
    leaves = [x.float().cuda() for x in (q, k, v)]
    out, sums = forward(*leaves)
    assert sums.shape == (2, 2, 9)
    gradients = memory_efficient_attention_backward(torch.ones_like(out), out, sums, *leaves)
    wide = [x.double().requires_grad_() for x in (q, k, v)]
    expect()(*wide).sum().backward()
    for one, other in zip(gradients, wide, strict=True):
        assert_close(one, other.grad, torch.float32)
    dropped = memory_efficient_attention(*[torch.ones(1, 64, 1, 16, device="cuda")] * 3, p=0.5)
    assert 0.6 < dropped.mean() < 1.4 and dropped.unique().numel() > 5


@child(PLACE)
def test_a_bias_that_is_a_tensor() -> None:
    from xformers.ops import LowerTriangularMask, memory_efficient_attention

    q, k, v = (draw(1, 9, 2, 16, dtype=torch.float32, seed=seed) for seed in range(3))
    bias = draw(1, 2, 9, 9, dtype=torch.float32)

    def expected(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return attend(q[0], k[0], v[0], bias=bias[0])[None]

    def causal(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return attend(q[0], k[0], v[0], bias=bias[0], causal=True)[None]

    compare(lambda q, k, v, b: memory_efficient_attention(q, k, v, b), expected, q, k, v, bias)
    add = LowerTriangularMask().add_bias
    compare(lambda q, k, v, b: memory_efficient_attention(q, k, v, add(b)), causal, q, k, v, bias)


@child(PLACE)
def test_masks() -> None:
    """Rows are queries; x is a key that is seen."""
    from xformers.ops.fmha import attn_bias as masks

    seqlens = masks.BlockDiagonalMask.from_seqlens([2, 1], [3, 2])
    padded = ([2, 1], 4, [3, 2])
    gaps = ([2, 1], [1, 5, 8], [3, 2])
    table = torch.tensor([[1], [0]], dtype=torch.int32, device="cuda")
    first = torch.tensor([[1], [0]], dtype=torch.int32, device="cuda")
    drawn: list[tuple[Any, str]] = [
        (masks.LowerTriangularMask(), "x... xx.. xxx."),
        (masks.LowerTriangularFromBottomRightMask(), "xx.. xxx. xxxx"),
        (masks.LowerTriangularFromBottomRightMask().make_local_attention(2), "xx.. .xx. ..xx"),
        (masks.LocalAttentionFromBottomRightMask(1, 0), "xx.. .xx. ..xx"),
        (masks.LocalAttentionFromBottomRightMask(0, 1), ".xx. ..xx ...x"),
        (seqlens, "xxx.. xxx.. ...xx"),
        (seqlens.make_causal(), "x.... xx... ...x."),
        (seqlens.make_causal_from_bottomright(), "xx... xxx.. ...xx"),
        (seqlens.make_local_attention(1), "x.... .x... ...x."),
        (seqlens.make_local_attention_from_bottomright(1), ".x... ..x.. ....x"),
        (masks.BlockDiagonalPaddedKeysMask.from_seqlens(*padded), "xxx..... xxx..... ....xx.."),
        (masks.BlockDiagonalCausalWithOffsetPaddedKeysMask.from_seqlens(*padded), "xx...... xxx..... ....xx.."),
        (
            masks.BlockDiagonalLocalAttentionPaddedKeysMask.from_seqlens_local(*padded, 0, 1),
            ".xx..... ..x..... .....x..",
        ),
        (
            masks.BlockDiagonalCausalLocalAttentionPaddedKeysMask.from_seqlens_local(*padded, 1),
            ".x...... ..x..... .....x..",
        ),
        (masks.BlockDiagonalGappyKeysMask.from_seqlens(*gaps), ".xxx.... .xxx.... .....xx."),
        (masks.BlockDiagonalCausalWithOffsetGappyKeysMask.from_seqlens(*gaps), ".xx..... .xxx.... .....xx."),
        (masks.PagedBlockDiagonalPaddedKeysMask.from_seqlens([2, 1], [3, 2], table, 4), "....xxx. ....xxx. xx......"),
        (
            masks.PagedBlockDiagonalCausalWithOffsetPaddedKeysMask.from_seqlens([2, 1], [3, 2], table, 4),
            "....xx.. ....xxx. xx......",
        ),
        (
            masks.PagedBlockDiagonalGappyKeysMask.from_seqlens([2, 1], [1, 0], [2, 3], first, 4),
            ".....xx. .....xx. xxx.....",
        ),
    ]
    for mask, rows in drawn:
        wanted = [[0.0 if sign == "x" else -INF for sign in row] for row in rows.split()]
        shape = len(wanted), len(wanted[0])
        assert mask.materialize(shape).tolist() == wanted, type(mask).__name__
        assert mask.to("cpu").materialize((2, *shape)).tolist() == [wanted, wanted]
    assert isinstance(seqlens.make_causal(), masks.BlockDiagonalMask)


@child(PLACE)
def test_attention_of_sequences() -> None:
    from xformers.ops import fmha, memory_efficient_attention

    parts = [draw(1, 3, 2, 16), draw(2, 4, 2, 16)]
    mask, joined = fmha.BlockDiagonalMask.from_tensor_list([x.cuda() for x in parts])
    assert joined.shape == (1, 11, 2, 16)
    out = mask.split(memory_efficient_attention(joined, joined, joined, mask.make_causal()))
    assert [x.shape for x in out] == [x.shape for x in parts]
    for found, part in zip(out, parts, strict=True):
        wide = part.double()
        assert_close(found, expect(causal=True)(wide, wide, wide), torch.float16)
    q, k, v = draw(1, 3, 2, 16), draw(1, 8, 2, 16), draw(1, 8, 2, 16, seed=1)
    padded = fmha.attn_bias.BlockDiagonalCausalWithOffsetPaddedKeysMask.from_seqlens([2, 1], 4, [3, 2])
    bias = padded.materialize((3, 8)).double()
    compare(lambda *x: memory_efficient_attention(*x, attn_bias=padded), expect(bias=bias), q, k, v)
    empty = fmha.attn_bias.BlockDiagonalPaddedKeysMask.from_seqlens([2, 1], 4, [3, 0])
    compare(
        lambda *x: memory_efficient_attention(*x, attn_bias=empty),
        expect(bias=empty.materialize((3, 8)).double()),
        *(q, k, v),
    )


@child(PLACE)
def test_attention_to_parts_is_merged() -> None:
    from xformers.ops.fmha import memory_efficient_attention_partial as partial
    from xformers.ops.fmha import merge_attentions

    q, k, v = (draw(2, 9, 2, 16, dtype=torch.float32, seed=seed) for seed in range(3))
    parts = [partial(q.cuda(), k[:, s].cuda(), v[:, s].cuda()) for s in (slice(0, 4), slice(4, 9))]
    out, sums = merge_attentions(*zip(*parts, strict=True))
    assert_close(out, expect()(q.double(), k.double(), v.double()), torch.float32)
    assert sums is not None and sums.shape == (2, 2, 9)


@child(PLACE)
def test_arguments_are_refused_in_xformers_words() -> None:
    from xformers.ops import fmha, memory_efficient_attention

    x = torch.zeros(2, 4, 2, 8, device="cuda")
    mask = fmha.BlockDiagonalMask.from_seqlens([4])
    bias = torch.zeros(2, 1, 4, 4, device="cuda")
    wrong: list[tuple[type[Exception], str, tuple[Any, ...]]] = [
        (ValueError, "should all have BMGHK, BMHK or BMK shape", (x, x[0], x)),
        (ValueError, "all have the same dtype", (x, x.half(), x)),
        (ValueError, "We don't support broadcasting", (x, x[:, :, :1], x[:, :, :1])),
        (ValueError, "Expected batch_size=1", (x, x, x, mask)),
        (ValueError, r"Invalid shape for attention bias: .* \(expected \(2, 2, 4, 4\)\)", (x, x, x, bias)),
        (ValueError, "should be on the same device", (*[x[:1]] * 3, mask.to("cpu"))),
        (ValueError, "Invalid dropout probability", (x, x, x, None, 1.5)),
        (NotImplementedError, "No operator found for `memory_efficient_attention_forward`", (*[x.double()] * 3,)),
    ]
    for kind, message, arguments in wrong:
        with pytest.raises(kind, match=message):
            memory_efficient_attention(*arguments)
    with pytest.raises(ValueError, match="Expected `num_keys >= num_queries`"):
        fmha.BlockDiagonalMask.from_seqlens([4], [3]).make_causal_from_bottomright()
