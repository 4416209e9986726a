"""The stand-in for flash_attn, compared with attention in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from harness import VIRTUAL, child

from .reference import assert_close, attend, compare, draw

PLACE = VIRTUAL.with_settings(gpu="h200", stand_ins=("flash_attn",))
#: Queries and keys, heads of both, and what is asked for.
CASES: list[tuple[tuple[int, int], tuple[int, int], dict[str, Any]]] = [
    ((17, 17), (4, 4), {}),
    ((17, 17), (4, 2), {"causal": True}),
    ((5, 17), (4, 1), {"causal": True}),
    ((17, 5), (2, 2), {"causal": True}),  # rows without any key
    ((1, 17), (4, 2), {"causal": True}),
    ((17, 17), (2, 2), {"window_size": (3, 2)}),
    ((9, 17), (2, 2), {"window_size": (4, -1)}),
    ((9, 17), (2, 2), {"window_size": (4, 1), "causal": True}),
    ((17, 5), (2, 2), {"window_size": (2, 5)}),  # a window of all keys is none
    ((17, 17), (2, 2), {"softcap": 3.0, "causal": True}),
    ((9, 17), (2, 2), {"alibi_slopes": True}),
    ((17, 17), (4, 2), {"alibi_slopes": True, "causal": True, "softmax_scale": 0.3}),
]


def options(given: dict[str, Any], heads: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments of flash_attn and of the reference."""
    ours, theirs = dict(given), {}
    names = {"causal": "causal", "window_size": "window", "softcap": "softcap", "softmax_scale": "scale"}
    for name in given.keys() & names.keys():
        theirs[names[name]] = given[name]
    if "alibi_slopes" in given:
        slopes = 0.5 ** torch.arange(1, heads + 1)
        ours["alibi_slopes"], theirs["slopes"] = slopes.cuda(), slopes.double()
    return ours, theirs


def whole(window: tuple[int, int], keys: int) -> tuple[int, int]:
    left, right = (-1 if size >= keys else size for size in window)
    return left, right


@child(PLACE)
def test_attention_of_a_batch() -> None:
    from flash_attn import flash_attn_func, flash_attn_kvpacked_func, flash_attn_qkvpacked_func

    for (queries, keys), (heads, groups), given in CASES:
        ours, theirs = options(given, heads)
        if "window" in theirs:
            theirs["window"] = whole(theirs["window"], keys)

        def expected(q: Any, k: Any, v: Any, theirs: Any = theirs) -> Any:
            return torch.stack([attend(*each, **theirs) for each in zip(q, k, v, strict=True)])

        q, k, v = draw(2, queries, heads, 32), draw(2, keys, groups, 32), draw(2, keys, groups, 32, seed=1)
        compare(lambda *x, ours=ours: flash_attn_func(*x, **ours), expected, q, k, v)
        kv = torch.stack((k, v), 2)
        compare(
            lambda q, kv, ours=ours: flash_attn_kvpacked_func(q, kv, **ours),
            lambda q, kv, expected=expected: expected(q, kv[:, :, 0], kv[:, :, 1]),
            *(q, kv),
        )
        if queries == keys and heads == groups:
            compare(
                lambda x, ours=ours: flash_attn_qkvpacked_func(x, **ours),
                lambda x, expected=expected: expected(*x.unbind(2)),
                torch.stack((q, k, v), 2),
            )


@child(PLACE)
def test_attention_of_sequences() -> None:
    from flash_attn import flash_attn_varlen_func, flash_attn_varlen_kvpacked_func, flash_attn_varlen_qkvpacked_func

    ends = [0, 3, 3, 12], [0, 7, 9, 20]
    starts = [torch.tensor(each, dtype=torch.int32, device="cuda") for each in ends]
    for given in ({}, {"causal": True}, {"window_size": (3, 1)}, {"alibi_slopes": True}, {"softcap": 2.0}):
        ours, theirs = options(given, 4)

        def expected(q: Any, k: Any, v: Any, theirs: Any = theirs, ends: Any = ends) -> Any:
            bounds = zip(*ends, *(each[1:] for each in ends), strict=False)
            return torch.cat([attend(q[a:c], k[b:d], v[b:d], **theirs) for a, b, c, d in bounds])

        q, k, v = draw(12, 4, 24), draw(20, 2, 24), draw(20, 2, 24, seed=1)
        compare(lambda *x, ours=ours: flash_attn_varlen_func(*x, *starts, 9, 11, **ours), expected, q, k, v)
        compare(
            lambda q, kv, ours=ours: flash_attn_varlen_kvpacked_func(q, kv, *starts, 9, 11, **ours),
            lambda q, kv, expected=expected: expected(q, *kv.unbind(1)),
            *(q, torch.stack((k, v), 1)),
        )
        same = [ends[0], ends[0]]
        compare(
            lambda x, ours=ours: flash_attn_varlen_qkvpacked_func(x, starts[0], 9, **ours),
            lambda x, expected=expected, same=same: expected(*x.unbind(1), ends=same),
            torch.stack((q, draw(12, 4, 24, seed=2), draw(12, 4, 24, seed=3)), 1),
        )


@child(PLACE)
def test_sums_and_probabilities() -> None:
    from flash_attn import flash_attn_func, flash_attn_varlen_func

    q, k, v = draw(2, 5, 2, 32), draw(2, 7, 2, 32), draw(2, 7, 2, 32, seed=1)
    on_gpu = [x.cuda() for x in (q, k, v)]
    out, sums, probabilities = flash_attn_func(*on_gpu, return_attn_probs=True)
    scores = torch.einsum("bqhd,bkhd->bhqk", q.double(), k.double()) / math.sqrt(32)
    assert sums.dtype == torch.float32 and probabilities.shape == (0,)
    assert_close(sums, scores.logsumexp(-1), torch.float32)
    starts = torch.tensor([0, 5], dtype=torch.int32, device="cuda"), torch.tensor([0, 7], dtype=torch.int32).cuda()
    flat = [x[0] for x in on_gpu]
    _, packed, _ = flash_attn_varlen_func(*flat, *starts, 5, 7, return_attn_probs=True)
    assert packed.shape == (2, 5) and torch.equal(packed, sums[0])
    out, _, probabilities = flash_attn_func(*on_gpu, dropout_p=0.4, return_attn_probs=True)
    assert probabilities.shape == (2, 2, 128, 128) and probabilities.dtype == torch.float16
    kept = probabilities[:, :, :5, :7].cpu().double()
    assert 0.2 < (kept < 0).double().mean() < 0.6
    assert_close(kept.abs(), scores.softmax(-1), torch.float16)
    assert_close(out, torch.einsum("bhqk,bkhd->bqhd", kept.clamp(min=0) / 0.6, v.double()), torch.float16)
    rows = flash_attn_func(*(x.cuda() for x in (k, q, v[:, :5])), causal=True, return_attn_probs=True)[1]
    assert torch.isinf(rows[:, :, :2]).all() and (rows[:, :, :2] > 0).all() and torch.isfinite(rows[:, :, 2:]).all()
    ones = torch.ones(1, 64, 2, 16, device="cuda", dtype=torch.float16)
    dropped = flash_attn_func(ones, ones, ones, dropout_p=0.5)
    assert 0.6 < dropped.float().mean() < 1.4 and dropped.unique().numel() > 5


@child(PLACE)
def test_attention_to_a_cache() -> None:
    from flash_attn import flash_attn_with_kvcache
    from flash_attn.layers.rotary import apply_rotary_emb_torch

    used, angle = [3, 9], draw(16, 8, dtype=torch.float32)
    cos, sin = angle.cos().half(), angle.sin().half()
    lengths = torch.tensor(used, dtype=torch.int32, device="cuda")
    for interleaved, causal in ((True, True), (False, False)):
        q, new = draw(2, 3, 4, 32), (draw(2, 3, 2, 32), draw(2, 3, 2, 32, seed=1))
        caches = draw(2, 16, 2, 32, seed=2), draw(2, 16, 2, 32, seed=3)
        on_gpu = [x.cuda() for x in caches]
        out, sums = flash_attn_with_kvcache(
            *(q.cuda(), *on_gpu, *(x.cuda() for x in new), cos.cuda(), sin.cuda(), lengths),
            causal=causal,
            rotary_interleaved=interleaved,
            return_softmax_lse=True,
        )
        assert sums.shape == (2, 4, 3)
        for row, length in enumerate(used):
            here = [slice(length, length + 3), slice(length, length + 3) if causal else [length] * 3]
            tables = [(cos.double()[each], sin.double()[each]) for each in here]
            key = apply_rotary_emb_torch(new[0][row].double(), *tables[0], interleaved)
            query = apply_rotary_emb_torch(q[row].double(), *tables[1], interleaved)
            assert_close(on_gpu[0][row, length : length + 3], key, torch.float16)
            assert torch.equal(on_gpu[1][row, length : length + 3].cpu(), new[1][row])
            keys, values = (
                torch.cat((caches[i][row, :length].double(), (key, new[1][row].double())[i])) for i in (0, 1)
            )
            assert_close(out[row], attend(query, keys, values, causal=causal), torch.float16)
            assert torch.equal(on_gpu[0][row, :length].cpu(), caches[0][row, :length])


@child(PLACE)
def test_caches_of_other_orders() -> None:
    from flash_attn import flash_attn_varlen_func, flash_attn_with_kvcache

    q, caches = draw(2, 1, 2, 16), (draw(3, 12, 2, 16), draw(3, 12, 2, 16, seed=1))
    index = torch.tensor([2, 0], dtype=torch.int32, device="cuda")
    first = torch.tensor([1, 4], dtype=torch.int32, device="cuda")
    on_gpu = q.cuda(), *(x.cuda() for x in caches)
    out = flash_attn_with_kvcache(*on_gpu, cache_seqlens=9, cache_batch_idx=index, cache_leftpad=first)
    for row, (batch, start) in enumerate(((2, 1), (0, 4))):
        keys = [x[batch, start:9].double() for x in caches]
        assert_close(out[row], attend(q[row].double(), *keys), torch.float16)
    pages = draw(4, 256, 2, 16), draw(4, 256, 2, 16, seed=1)
    table = torch.tensor([[3, 0], [1, 2]], dtype=torch.int32, device="cuda")
    used = torch.tensor([300, 20], dtype=torch.int32, device="cuda")
    on_gpu = q.cuda(), *(x.cuda() for x in pages)
    new = draw(2, 1, 2, 16, seed=5).cuda()
    out = flash_attn_with_kvcache(*on_gpu, new, new, cache_seqlens=used, block_table=table)
    for row, (blocks, length) in enumerate((((3, 0), 300), ((1, 2), 20))):
        keys = [torch.cat((torch.cat([x[b] for b in blocks])[:length], new[row].cpu())).double() for x in pages]
        assert_close(out[row], attend(q[row].double(), *keys), torch.float16)
    assert torch.equal(on_gpu[1][0, 44], new[0, 0]) and torch.equal(on_gpu[2][1, 20], new[1, 0])
    starts = [torch.tensor(each, dtype=torch.int32, device="cuda") for each in ([0, 1, 2], [0, 300, 320])]
    again = flash_attn_varlen_func(
        on_gpu[0].flatten(0, 1), *(x.cuda() for x in pages), *starts, 1, 300, causal=True, block_table=table
    )
    keys = [torch.cat((x[3], x[0]))[:300].double() for x in pages]
    assert_close(again[0:1], attend(q[0].double(), *keys), torch.float16)


@child(PLACE)
def test_rotary_embeddings() -> None:
    from flash_attn.layers.rotary import apply_rotary_emb, apply_rotary_emb_qkv_, apply_rotary_emb_torch

    angle = draw(20, 8, dtype=torch.float32)
    cos, sin = angle.cos(), angle.sin()
    tables = cos.cuda(), sin.cuda()
    wide = cos.double(), sin.double()
    for interleaved in (False, True):
        x = draw(2, 9, 3, 24, dtype=torch.float32)
        compare(
            lambda x, i=interleaved: apply_rotary_emb(x, *tables, i, seqlen_offsets=4),
            lambda x, i=interleaved: apply_rotary_emb_torch(x, *(t[4:13] for t in wide), i),
            x,
        )
        offsets = torch.tensor([0, 7], device="cuda", dtype=torch.int32)
        found = apply_rotary_emb(x.cuda(), *tables, interleaved, seqlen_offsets=offsets)
        each = [
            apply_rotary_emb_torch(x[b].double(), *(t[o : o + 9] for t in wide), interleaved)
            for b, o in ((0, 0), (1, 7))
        ]
        assert_close(found, torch.stack(each), torch.float32)
        starts = torch.tensor([0, 4, 9], dtype=torch.int32, device="cuda")
        found = apply_rotary_emb(x[0].cuda(), *tables, interleaved, cu_seqlens=starts, max_seqlen=5)
        parts = [
            apply_rotary_emb_torch(x[0, a:b].double(), *(t[: b - a] for t in wide), interleaved)
            for a, b in ((0, 4), (4, 9))
        ]
        assert_close(found, torch.cat(parts), torch.float32)
        changed = x.cuda()
        assert apply_rotary_emb(changed, *tables, interleaved, inplace=True).data_ptr() == changed.data_ptr()
        assert torch.equal(changed, apply_rotary_emb(x.cuda(), *tables, interleaved))
        qkv = torch.stack((x, x, x), 2).cuda()
        apply_rotary_emb_qkv_(qkv, *tables, interleaved=interleaved)
        assert torch.equal(qkv[:, :, 0], changed) and torch.equal(qkv[:, :, 1], changed)
        assert torch.equal(qkv[:, :, 2].cpu(), x)


@child(PLACE)
def test_padding_is_removed_and_put_back() -> None:
    from flash_attn.bert_padding import pad_input, unpad_input, unpad_input_for_concatenated_sequences

    x = torch.arange(1.0, 21.0, device="cuda").view(2, 5, 2).requires_grad_()
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], device="cuda")
    tokens, indices, starts, longest, used = unpad_input(x, mask)
    assert tokens.shape == (8, 2) and starts.tolist() == [0, 3, 8] and longest == 5 and used.tolist() == [3, 5]
    assert starts.dtype == used.dtype == torch.int32
    back = pad_input(tokens, indices, 2, 5)
    assert torch.equal(back, x * mask[..., None])
    back.sum().backward()
    assert x.grad is not None and torch.equal(x.grad, mask[..., None].expand(2, 5, 2).float())
    lengths = torch.tensor([[2, 1, 0, 0, 0], [5, 0, 0, 0, 0]], device="cuda")
    tokens, indices, starts, longest = unpad_input_for_concatenated_sequences(x, lengths)
    assert starts.tolist() == [0, 2, 3, 8] and longest == 5 and indices.tolist() == [0, 1, 2, 5, 6, 7, 8, 9]


@child(PLACE)
def test_arguments_are_refused_in_flash_attns_words() -> None:
    from flash_attn import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache

    x = torch.zeros(1, 4, 3, 32, device="cuda", dtype=torch.float16)
    starts = torch.tensor([0, 4], device="cuda")
    wrong: list[tuple[type[Exception], str, Any]] = [
        (
            RuntimeError,
            "FlashAttention only support fp16 and bf16 data type",
            lambda: flash_attn_func(*[x.float()] * 3),
        ),
        (RuntimeError, "query and key must have the same dtype", lambda: flash_attn_func(x, x.bfloat16(), x)),
        (RuntimeError, "must divide number of heads", lambda: flash_attn_func(x, x[:, :, :2], x[:, :, :2])),
        (RuntimeError, "head dimension at most 256", lambda: flash_attn_func(*[x.repeat(1, 1, 1, 9)] * 3)),
        (RuntimeError, "v must have shape", lambda: flash_attn_func(x, x, x[:, :2])),
        (RuntimeError, "Softcapping does not support dropout", lambda: flash_attn_func(x, x, x, 0.1, softcap=1.0)),
        (RuntimeError, "must have dtype fp32", lambda: flash_attn_func(x, x, x, alibi_slopes=x[0, 0, :, 0])),
        (
            RuntimeError,
            "cu_seqlens_q must have dtype int32",
            lambda: flash_attn_varlen_func(*[x[0]] * 3, starts, starts, 4, 4),
        ),
        (RuntimeError, "seqlens_k must also be passed in", lambda: flash_attn_with_kvcache(x, x, x, x, x)),
        (
            NotImplementedError,
            "Could not run 'flash_attn::_flash_attn_forward'",
            lambda: flash_attn_func(*[x.cpu()] * 3),
        ),
    ]
    for kind, message, call in wrong:
        with pytest.raises(kind, match=message):
            call()


@child(VIRTUAL.with_settings(stand_ins=("flash_attn",)))
def test_an_older_gpu_is_refused() -> None:
    from flash_attn import flash_attn_func

    x = torch.zeros(1, 4, 3, 32, device="cuda", dtype=torch.float16)
    with pytest.raises(RuntimeError, match="only supports Ampere GPUs or newer"):
        flash_attn_func(x, x, x)


@child(PLACE)
def test_sequences_are_captured_in_a_graph() -> None:
    from flash_attn import flash_attn_varlen_func

    q = draw(12, 2, 16).cuda()
    starts = torch.tensor([0, 4, 12], dtype=torch.int32, device="cuda")
    wanted = flash_attn_varlen_func(q, q, q, starts, starts, 8, 8, causal=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = flash_attn_varlen_func(q, q, q, starts, starts, 8, 8, causal=True)
    graph.replay()
    assert torch.equal(out, wanted)
