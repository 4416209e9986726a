"""Attention: results, layouts, which kernel is taken."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from recorded.oracle.probing import about, probe, raises, ramp, warned
from recorded.oracle.scenes import filled


@probe()
def attention() -> Any:
    q = ramp(1, 2, 4, 8) / 8
    mask = torch.ones(4, 4, dtype=torch.bool, device="cuda").tril()
    f = F.scaled_dot_product_attention
    return [
        f(q, q, q)[0, 0, 0],
        f(q, q, q, is_causal=True)[0, 0, 1],
        f(q, q, q, attn_mask=mask)[0, 0, 1],
        f(q, q, q, scale=0.5)[0, 0, 0],
        f(q, q[:, :1], q[:, :1], enable_gqa=True)[0, 1, 0],
        about(f(q.half(), q.half(), q.half())),
        about(f(q.transpose(1, 2), q.transpose(1, 2), q.transpose(1, 2))),
        raises(lambda: f(q, q, q, attn_mask=mask, is_causal=True)),
        raises(lambda: f(q, q.half(), q)),
        raises(lambda: f(q, q.cpu(), q)),
        raises(lambda: f(q, q[..., :4], q)),
        raises(lambda: f(q, q, q, attn_mask=torch.ones(3, 3, device="cuda"))),
        raises(lambda: f(q.long(), q.long(), q.long())),
        raises(lambda: f(q, q, q, dropout_p=1.5)),
        f(q, q, q, attn_mask=torch.full((4, 4), float("-inf"), device="cuda"))[0, 0, 0],
    ]


@probe()
def attention_backends() -> Any:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def use(backend: Any, dtype: torch.dtype, dim: int = 64, **options: Any) -> Any:
        q = torch.ones(1, 1, 8, dim, device="cuda", dtype=dtype)
        with sdpa_kernel(backend):
            return about(F.scaled_dot_product_attention(q, q, q, **options))

    B = SDPBackend  # noqa: N806
    mask = {"attn_mask": torch.zeros(8, 8, device="cuda", dtype=torch.float16)}
    return [
        [str(b), str(d), raises(lambda b=b, d=d: use(b, d))]
        for b in (B.MATH, B.FLASH_ATTENTION, B.EFFICIENT_ATTENTION)
        for d in (torch.float32, torch.float16, torch.bfloat16, torch.float64)
    ] + [
        raises(lambda: use(B.FLASH_ATTENTION, torch.float16, **mask)),
        raises(lambda: use(B.EFFICIENT_ATTENTION, torch.float16, **mask)),
        raises(lambda: use(B.FLASH_ATTENTION, torch.float16, 300)),
        raises(lambda: use([], torch.float16)),
        raises(lambda: sdpa_kernel("bogus").__enter__()),
    ]


@probe()
def attention_selection() -> Any:
    c = torch.backends.cuda
    q = torch.ones(1, 1, 8, 64, device="cuda", dtype=torch.float16)
    p = c.SDPAParams(q, q, q, None, 0.0, False, False)
    f = c.SDPAParams(q.float(), q.float(), q.float(), None, 0.0, False, False)
    return [
        c.can_use_flash_attention(p),
        c.can_use_efficient_attention(p),
        c.can_use_flash_attention(f),
        c.can_use_efficient_attention(f),
        c.is_flash_attention_available(),
        warned(lambda: c.can_use_flash_attention(f, True)),
        torch._fused_sdp_choice(q, q, q),
        torch._fused_sdp_choice(q.float(), q.float(), q.float()),
        torch._fused_sdp_choice(q.double(), q.double(), q.double()),
        c.flash_sdp_enabled(),
        c.mem_efficient_sdp_enabled(),
        c.math_sdp_enabled(),
        c.cudnn_sdp_enabled(),
        c.fp16_bf16_reduction_math_sdp_allowed(),
    ]


@probe()
def attention_layers() -> Any:
    m = filled(torch.nn.MultiheadAttention(8, 2, batch_first=True))
    x = ramp(2, 3, 8) / 4
    y, w = m(x, x, x)
    m.eval()
    with torch.no_grad():
        fast, _ = m(x, x, x, need_weights=False)
    t = filled(torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True))
    z = t(x)
    t.eval()
    with torch.no_grad():
        quick = t(x)
    pad = torch.tensor([[False, False, True], [False, True, True]], device="cuda")
    return [
        y[0, 0],
        w[0],
        fast[0, 0],
        torch.allclose(z, quick, atol=1e-4),
        z[0, 0],
        m(x, x, x, key_padding_mask=pad)[1][1],
        raises(lambda: m(x, x.cpu(), x)),
        raises(lambda: m(x[..., :4], x, x)),
        raises(lambda: m(x, x, x, attn_mask=torch.ones(2, 2, device="cuda"))),
    ]
