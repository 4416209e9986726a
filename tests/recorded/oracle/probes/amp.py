"""Mixed precision: what autocast casts, keeps and caches, and how gradients are scaled."""

from __future__ import annotations

import threading
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch.amp import autocast

from recorded.oracle.probing import about, every, probe, raises, ramp, warned


def dtypes(*functions: Any) -> list[Any]:
    return [raises(lambda f=f: str(f().dtype)) for f in functions]


@probe()
def low_precision_operators() -> Any:
    x = ramp(4, 4)
    v = ramp(4)
    with autocast("cuda"):
        return dtypes(
            lambda: x @ x,
            lambda: torch.mv(x, v),
            lambda: torch.addmm(x, x, x),
            lambda: torch.addmv(v, x, v),
            lambda: torch.addr(x, v, v),
            lambda: torch.baddbmm(*[x[None]] * 3),
            lambda: torch.einsum("ij,jk", x, x),
            lambda: F.linear(x, x),
            lambda: torch.chain_matmul(x, x),
            lambda: torch.linalg.multi_dot([x, x, x]),
            lambda: F.conv1d(x[None], x[:, :, None]),
            lambda: F.conv_transpose2d(x[None, None], x[None, None]),
            lambda: F.prelu(x, v[:1]),
            lambda: torch.linalg.vecdot(x, x),
            lambda: torch.matmul(v, v),
            lambda: torch.dot(v, v),
            lambda: F.scaled_dot_product_attention(*[x[None, None]] * 3),
            lambda: torch.bmm(x[None], x[None]),
            lambda: torch.mm(x, x.double()),
            lambda: torch.tensordot(x, x, 1),
            lambda: F.bilinear(x, x, x[None], None),
        )


@probe()
def full_precision_operators() -> Any:
    x = ramp(4, 4, dtype=torch.float16).abs() + 0.5
    y = x.clone()
    with autocast("cuda"):
        return dtypes(
            lambda: x.acos(),
            lambda: x.exp(),
            lambda: x.log(),
            lambda: x.pow(2),
            lambda: x**2,
            lambda: 2**x,
            lambda: x.rsqrt(),
            lambda: x.reciprocal(),
            lambda: x.sinh(),
            lambda: x.tan(),
            lambda: F.softplus(x),
            lambda: F.layer_norm(x, (4,)),
            lambda: F.group_norm(x, 2),
            lambda: x.norm(),
            lambda: F.nll_loss(x, torch.zeros(4, dtype=torch.long, device="cuda")),
            lambda: F.mse_loss(x, y),
            lambda: F.l1_loss(x, y),
            lambda: F.smooth_l1_loss(x, y),
            lambda: F.cosine_similarity(x, y),
            lambda: F.poisson_nll_loss(x, y),
            lambda: F.cosine_embedding_loss(x, y, torch.ones(4, device="cuda")),
            lambda: x.cumsum(0),
            lambda: x.cumprod(0),
            lambda: x.sum(),
            lambda: x.prod(),
            lambda: torch.renorm(x, 2, 0, 1.0),
            lambda: torch.cdist(x, y),
            lambda: torch.dist(x, y),
            lambda: F.softmax(x, 0),
            lambda: F.log_softmax(x, 0),
            lambda: x.logsumexp(0),
            lambda: x.mean(),
            lambda: x.std(),
            lambda: F.gelu(x),
            lambda: F.silu(x),
            lambda: F.batch_norm(x, None, None, training=True),
            lambda: x.erfinv(),
            lambda: F.kl_div(x, y),
            lambda: F.huber_loss(x, y),
            lambda: torch.polygamma(1, x),
            lambda: F.rms_norm(x, (4,)),
            lambda: F.instance_norm(x[None]),
        )


@probe()
def losses_refused() -> Any:
    x = torch.full((2,), 0.5, device="cuda")
    with autocast("cuda"):
        return [
            raises(lambda: F.binary_cross_entropy(x.half(), x.half())),
            raises(lambda: torch.nn.BCELoss()(x, x)),
            about(F.binary_cross_entropy_with_logits(x.half(), x)),
        ]


@probe()
def promotions() -> Any:
    x, h, b = ramp(3), ramp(3).half(), ramp(3).bfloat16()
    with autocast("cuda"):
        return dtypes(
            lambda: x + h,
            lambda: torch.cat([x, h]),
            lambda: torch.stack([h, x]),
            lambda: torch.addcmul(x, h, h),
            lambda: torch.addcdiv(h, x, h),
            lambda: torch.atan2(h, x),
            lambda: torch.dot(h, x),
            lambda: torch.cross(h, x, dim=0),
            lambda: torch.cat([h, b]),
            lambda: torch.addcmul(h, b, b),
            lambda: torch.index_put(x, (torch.tensor([0], device="cuda"),), h[:1]),
            lambda: torch.scatter_add(x, 0, torch.zeros(3, dtype=torch.long, device="cuda"), h),
        )


@probe()
def nested_and_disabled() -> Any:
    x = ramp(4, 4)
    out = []
    with autocast("cuda"):
        out.append(str((x @ x).dtype))
        with autocast("cuda", dtype=torch.bfloat16):
            out += [str((x @ x).dtype), str(torch.get_autocast_dtype("cuda"))]
        with autocast("cuda", enabled=False):
            out += [str((x @ x).dtype), torch.is_autocast_enabled("cuda"), raises(lambda: x @ x.half())]
        out += [str((x @ x).dtype), str(torch.get_autocast_dtype("cuda"))]
    return [*out, torch.is_autocast_enabled("cuda")]


@probe()
def unsupported_dtypes() -> Any:
    def use(dtype: torch.dtype) -> Any:
        with autocast("cuda", dtype=dtype):
            return [torch.is_autocast_enabled("cuda"), str((ramp(2, 2) @ ramp(2, 2)).dtype)]

    return [
        warned(lambda d=d: raises(lambda: use(d)))
        for d in (torch.float32, torch.float64, torch.int8, torch.float8_e4m3fn)
    ]


@probe()
def arguments() -> Any:
    return [
        raises(lambda: autocast()),
        raises(lambda: autocast("cuda", dtype="half")),
        raises(lambda: autocast(3)),
        raises(lambda: autocast("cuda", enabled=None).__enter__() and None),
        str(autocast("cuda").fast_dtype),
        autocast("cuda").device,
        autocast("cuda")._cache_enabled,
        raises(lambda: autocast(torch.device("cuda"))),
    ]


@probe()
def cache_of_weights() -> Any:
    w = torch.nn.Parameter(ramp(256, 256))
    x = ramp(2, 256)
    with autocast("cuda"):
        a = F.linear(x, w).grad_fn.next_functions
        b = F.linear(x, w).grad_fn.next_functions
        shared = any(p is q and p is not None for (p, _), (q, _) in zip(a, b, strict=True))
        with torch.no_grad():
            w.add_(1)
        late = float(F.linear(x, w).sum())
        torch.clear_autocast_cache()
        fresh = float(F.linear(x, w).sum())
    with autocast("cuda", cache_enabled=False):
        c = F.linear(x, w).grad_fn.next_functions
        d = F.linear(x, w).grad_fn.next_functions
    return [
        shared,
        late == fresh,
        any(p is q and p is not None for (p, _), (q, _) in zip(c, d, strict=True)),
        torch.is_autocast_cache_enabled(),
    ]


@probe()
def other_device_types_stay() -> Any:
    x = ramp(2, 2)
    with autocast("cpu", dtype=torch.bfloat16):
        a = [
            str((x @ x).dtype),
            str((x.cpu() @ x.cpu()).dtype),
            torch.is_autocast_enabled("cuda"),
            torch.is_autocast_enabled("cpu"),
            torch.is_autocast_enabled(),
        ]
    with autocast("cuda", dtype=torch.bfloat16):
        b = [
            str((x @ x).dtype),
            str((x.cpu() @ x.cpu()).dtype),
            torch.is_autocast_enabled("cuda"),
            torch.is_autocast_enabled("cpu"),
            torch.is_autocast_enabled(),
        ]
    return [a, b]


@probe()
def backward_under_autocast() -> Any:
    lin = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).cuda()
    with torch.no_grad():
        for p in lin.parameters():
            p.copy_(ramp(*p.shape) / 8)
    with autocast("cuda"):
        out = lin(ramp(3, 4))
        loss = F.cross_entropy(out, torch.tensor([0, 1, 0], device="cuda"))
    loss.backward()
    return [str(out.dtype), str(loss.dtype), [str(p.grad.dtype) for p in lin.parameters()]]


@probe()
def recurrent_layers() -> Any:
    out = []
    for make in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
        layer = make(4, 4, device="cuda")
        with autocast("cuda"):
            y, h = layer(ramp(3, 2, 4))
        out.append([str(y.dtype), str((h[0] if isinstance(h, tuple) else h).dtype)])
    for cell in (torch.nn.LSTMCell, torch.nn.GRUCell):
        with autocast("cuda"):
            y = cell(4, 4, device="cuda")(ramp(2, 4))
        out.append(str((y[0] if isinstance(y, tuple) else y).dtype))
    return out


@probe()
def modules() -> Any:
    x = ramp(2, 4, 8)
    made = [
        torch.nn.MultiheadAttention(8, 2, batch_first=True, device="cuda"),
        torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, device="cuda"),
        torch.nn.BatchNorm1d(4, device="cuda"),
        torch.nn.Embedding(4, 8, device="cuda"),
        torch.nn.LayerNorm(8, device="cuda"),
    ]
    with autocast("cuda"):
        out = [
            str(made[0](x, x, x)[0].dtype),
            str(made[1](x).dtype),
            str(made[2](x.half()).dtype),
            str(made[3](torch.zeros(2, dtype=torch.long, device="cuda")).dtype),
            str(made[4](x.half()).dtype),
        ]
        for m in made[:2]:
            m.eval()
        with torch.no_grad():
            out += [str(made[0](x, x, x)[0].dtype), str(made[1](x).dtype)]
    return out


@probe()
def custom_functions() -> Any:
    seen: list[Any] = []

    class Cast(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float16)
        def forward(ctx: Any, x: Any, n: Any) -> Any:
            seen.append([str(x.dtype), torch.is_autocast_enabled("cuda"), n])
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx: Any, g: Any) -> Any:
            seen.append([str(g.dtype), torch.is_autocast_enabled("cuda")])
            return g * 2, None

    x = ramp(3).requires_grad_()
    with autocast("cuda"):
        y = Cast.apply(x, 3)
    y.float().sum().backward()
    z = Cast.apply(x, 4)
    return [seen, str(y.dtype), str(z.dtype), x.grad]


@probe()
def threads() -> Any:
    out: list[Any] = []
    with autocast("cuda"):
        t = threading.Thread(
            target=lambda: out.append([torch.is_autocast_enabled("cuda"), str((ramp(2, 2) @ ramp(2, 2)).dtype)])
        )
        t.start()
        t.join()
    return out


@probe()
def deprecated_names() -> Any:
    return [
        warned(lambda: type(torch.cuda.amp.autocast()).__name__),
        warned(lambda: type(torch.cuda.amp.GradScaler()).__name__),
        warned(lambda: torch.is_autocast_cpu_enabled()),
        warned(lambda: str(torch.get_autocast_gpu_dtype())),
        warned(lambda: torch.set_autocast_gpu_dtype(torch.float16)),
        warned(lambda: torch.cuda.amp.common.amp_definitely_not_available()),
    ]


@probe()
def casting_functions_of_tensors() -> Any:
    x = ramp(3)
    with autocast("cuda"):
        return dtypes(
            lambda: x.half() * x,
            lambda: x.double() @ x.double(),
            lambda: x.double()[None] @ x.double()[:, None],
            lambda: x.sum(dtype=torch.float64),
            lambda: x.half().sum(dtype=torch.float16),
            lambda: F.softmax(x.half(), 0, dtype=torch.float16),
            lambda: x.half().cumsum(0),
            lambda: x.int() @ x.int(),
            lambda: torch.ones(2, 2, device="cuda").mm(torch.ones(2, 2)),
            lambda: x.cpu() @ x.cpu(),
        )


@probe()
def inplace_and_out() -> Any:
    a, b = ramp(2, 2), ramp(2, 2).half()
    with autocast("cuda"):
        return [
            raises(lambda: torch.mm(a, a, out=a)),
            raises(lambda: torch.mm(b, b, out=torch.empty(2, 2, device="cuda"))),
            raises(lambda: a.addmm_(b, b)),
            raises(lambda: a.addmm_(a, a)),
            raises(lambda: b.exp_()),
            raises(lambda: b.add_(a)),
            raises(lambda: a.addcmul_(b, b)),
        ]


@probe()
def supported() -> Any:
    return [
        torch.amp.is_autocast_available("cuda"),
        torch.amp.is_autocast_available("cpu"),
        raises(lambda: torch.amp.is_autocast_available("bogus")),
        torch.cuda.is_bf16_supported(),
        list(every(("cuda", "cpu"), lambda d: str(torch.get_autocast_dtype(d)))),
        raises(lambda: torch.get_autocast_dtype("bogus")),
    ]
