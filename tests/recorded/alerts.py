"""Alerts: which calls raise where deterministic algorithms are wanted, and which where waiting for the GPU is an error.

The answer is the name that the first error begins with, or None; and whether the second is raised.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import torch
from torch.nn import functional

RECORD = "alerts-h200.json"
LISTED_ON_DEVICE = True
GPU = "cuda"
SYNCHRONIZING = "called a synchronizing CUDA operation"
Call = Callable[[], object]


def _g(*sizes: int) -> torch.Tensor:
    """Return a tensor whose gradient is wanted."""
    return torch.randn(*sizes, device=GPU, requires_grad=True)


def _backward(function: Callable[..., torch.Tensor], *args: object, **kwargs: object) -> Call:
    return lambda: function(*(a() if callable(a) else a for a in args), **kwargs).sum().backward()


def _ctc(log_probabilities: torch.Tensor) -> torch.Tensor:
    lengths = (torch.tensor([5], device=GPU), torch.tensor([2], device=GPU))
    return functional.ctc_loss(log_probabilities.log_softmax(2), torch.tensor([[1, 2]], device=GPU), *lengths)


def nondeterministic() -> dict[str, Call]:
    """By name; each is called with deterministic algorithms wanted."""
    f, x, i1 = functional, torch.randn(4, 4, device=GPU), torch.tensor([0, 1, 1, 2], device=GPU)
    rows = torch.zeros(2, 4, dtype=torch.long, device=GPU)
    target = torch.zeros(1, 2, 2, dtype=torch.long, device=GPU)
    grid = torch.zeros(1, 2, 2, 2, device=GPU)
    volumes = torch.zeros(1, 2, 2, 2, 3, device=GPU)
    starts = torch.tensor([0, 2], device=GPU)
    pads = {"reflect": (1, 2, 3), "replicate": (1, 2), "circular": (2,)}
    modes = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3, "nearest": 2, "area": 2, "nearest-exact": 2}
    pooled = {"avg_pool": (2, 3), "max_pool": (1, 2, 3), "adaptive_avg_pool": (1, 2, 3), "adaptive_max_pool": (1, 2, 3)}
    side = {"avg_pool": 4, "max_pool": 4, "adaptive_avg_pool": 5, "adaptive_max_pool": 5}
    return {
        "mm": lambda: x @ x,
        "bincount": lambda: torch.bincount(i1),
        "bincount weights": lambda: torch.bincount(i1, torch.ones(4, device=GPU)),
        "kthvalue": lambda: x.kthvalue(2),
        "median": lambda: x.median(),
        "median dim": lambda: x.median(0),
        "nanmedian dim": lambda: x.nanmedian(0),
        "mode": lambda: x.mode(0),
        "put_": lambda: x.clone().put_(i1, x[0]),
        "put_ acc": lambda: x.clone().put_(i1, x[0], accumulate=True),
        "histc": lambda: torch.histc(x),
        **{
            f"scatter_reduce {how}": lambda how=how: x.clone().scatter_reduce_(0, rows, x[:2], how)
            for how in ("sum", "prod", "mean", "amax")
        },
        "scatter_reduce prod fn 1d": lambda: torch.zeros(4, device=GPU).scatter_reduce(0, i1, x[0], "prod"),
        "scatter": lambda: torch.zeros(4, device=GPU).scatter(0, i1, x[0]),
        "scatter reduce=multiply": lambda: torch.ones(4, device=GPU).scatter(0, i1, x[0], reduce="multiply"),
        "scatter reduce=add": lambda: torch.ones(4, device=GPU).scatter(0, i1, x[0], reduce="add"),
        "scatter_add 2d": lambda: x.clone().scatter_add_(0, rows, x[:2]),
        **{
            f"index_reduce {how}": lambda how=how: x.clone().index_reduce_(0, i1, x, how)
            for how in ("prod", "mean", "amax")
        },
        "index_add": lambda: x.clone().index_add_(0, i1, x),
        "index_put acc": lambda: x.clone().index_put_((i1,), x, accumulate=True),
        "cumsum": lambda: torch.cumsum(x, 0),
        **{
            f"{kind}{n}d bw": _backward(getattr(f, f"{kind}{n}d"), _g(1, 1, *[side[kind]] * n), 2)
            for kind, dimensions in pooled.items()
            for n in dimensions
        },
        "fractional2d bw": _backward(f.fractional_max_pool2d, _g(1, 1, 6, 6), 2, output_size=3),
        "fractional3d bw": _backward(f.fractional_max_pool3d, _g(1, 1, 6, 6, 6), 2, output_size=3),
        "max_unpool2d": lambda: f.max_unpool2d(*f.max_pool2d(x[None, None], 2, return_indices=True), 2),
        **{
            f"interpolate {mode} bw": _backward(f.interpolate, _g(1, 1, *[4] * n), scale_factor=2, mode=mode)
            for mode, n in modes.items()
        },
        **{
            f"interpolate aa {mode} bw": _backward(f.interpolate, _g(1, 1, 8, 8), size=4, mode=mode, antialias=True)
            for mode in ("bilinear", "bicubic")
        },
        **{
            f"{mode} pad {n} bw": _backward(f.pad, _g(1, 1, *[4] * n), [1] * 2 * n, mode=mode)
            for mode, dimensions in pads.items()
            for n in dimensions
        },
        "ops replication_pad2d bw": lambda: torch.ops.aten.replication_pad2d_backward(
            torch.randn(1, 1, 6, 6, device=GPU), x[None, None], [1] * 4
        ),
        "nll 1d": lambda: f.nll_loss(x, i1),
        "nll 2d": lambda: f.nll_loss(torch.randn(1, 3, 2, 2, device=GPU), target),
        "nll 2d none": lambda: f.nll_loss(torch.randn(1, 3, 2, 2, device=GPU), target, reduction="none"),
        "ctc": lambda: _ctc(torch.randn(5, 1, 4, device=GPU)),
        "ctc bw": lambda: _ctc(_g(5, 1, 4)).backward(),
        **{
            f"embedding_bag {mode} bw": _backward(f.embedding_bag, i1, _g(4, 3), starts, mode=mode)
            for mode in ("sum", "mean", "max")
        },
        "embedding bw": _backward(f.embedding, i1, _g(4, 3)),
        "grid_sample bw": _backward(f.grid_sample, _g(1, 1, 4, 4), grid, align_corners=False),
        "grid_sample 3d bw": _backward(f.grid_sample, _g(1, 1, 4, 4, 4), volumes, align_corners=False),
        "gather bw": _backward(torch.gather, _g(4), 0, i1),
        "take bw": _backward(torch.take, _g(4), i1),
        "deconv bw": _backward(f.conv_transpose2d, _g(1, 1, 4, 4), x[None, None]),
    }


def synchronizing() -> dict[str, Call]:
    """By name; each is called where calls that synchronise are errors."""
    f, x, i1, y = (
        functional,
        torch.randn(4, 4, device=GPU),
        torch.tensor([0, 1, 1, 2], device=GPU),
        torch.rand((), device=GPU),
    )
    host, number, pinned = torch.ones(4), torch.tensor(2.0), torch.ones(4).pin_memory()
    mask, square, indices = x > 0, torch.eye(4, device=GPU) * 3, i1.cpu()
    host_mask, one = mask.cpu(), torch.tensor(1, device=GPU)
    sparse = x.to_sparse()
    event = torch.cuda.Event()
    event.record()

    def put(i: object, value: object) -> None:
        x.clone()[i] = value  # type: ignore[index,assignment]

    return {
        "item": lambda: y.item(),
        "bool": lambda: bool(y),
        "tolist": lambda: x.tolist(),
        "repr": lambda: repr(x),
        "cpu": lambda: x.cpu(),
        "cpu nonblocking": lambda: x.to("cpu", non_blocking=True),
        "h2d": lambda: host.to(GPU),
        "h2d nonblocking": lambda: host.to(GPU, non_blocking=True),
        "h2d pinned": lambda: pinned.to(GPU),
        "h2d pinned nonblocking": lambda: pinned.to(GPU, non_blocking=True),
        "d2h pinned": lambda: torch.empty(4).pin_memory().copy_(x[0]),
        "h2d empty": lambda: torch.ones(0).to(GPU),
        "h2d cast": lambda: host.to(GPU, torch.half),
        "d2d": lambda: x.clone().copy_(x),
        "tensor()": lambda: torch.tensor([1.0], device=GPU),
        "full": lambda: torch.full((2,), 1.0, device=GPU),
        "randperm": lambda: torch.randperm(20, device=GPU),
        "nonzero": lambda: x.nonzero(),
        "nonzero_static": lambda: torch.nonzero_static(x, size=3),
        "argwhere": lambda: torch.argwhere(x),
        "where1": lambda: torch.where(mask),
        "where3": lambda: torch.where(mask, x, x),
        "torch.where cpu scalar": lambda: torch.where(mask, x, number),
        "masked_select": lambda: x.masked_select(mask),
        "x[mask]": lambda: x[mask],
        "x[mask_cpu]": lambda: x[host_mask],
        "x[ind]": lambda: x[i1],
        "x[ind_cpu]": lambda: x[indices],
        "x[list]": lambda: x[[0, 1]],
        "x[int]": lambda: x[0],
        "x[0-dim cuda]": lambda: x[one],
        "x[None, mask1]": lambda: x[:, mask[0]],
        "put mask number": lambda: put(mask, 1.0),
        "put mask tensor": lambda: put(mask, y),
        "put mask cpu number": lambda: put(mask, number),
        "put maskcpu y": lambda: put(host_mask, y),
        "put ind y": lambda: put(i1, y),
        "put ind number": lambda: put(i1, 1.0),
        "put indcpu y": lambda: put(indices, y),
        "put int number": lambda: put(0, 1.0),
        "masked_fill": lambda: x.masked_fill(mask, 1.0),
        "masked_fill tensor": lambda: x.masked_fill(mask, y),
        "masked_fill cpu": lambda: x.masked_fill(mask, number),
        "masked_scatter": lambda: x.masked_scatter(mask, x),
        "unique": lambda: i1.unique(),
        "unique_consecutive": lambda: i1.unique_consecutive(),
        "unique dim": lambda: x.unique(dim=0),
        "unique_consecutive dim": lambda: x.unique_consecutive(dim=0),
        "index_fill y": lambda: x.index_fill(0, i1, y),
        "index_put_ acc mask number": lambda: x.clone().index_put_((mask,), number, True),
        "bincount": lambda: i1.bincount(),
        "histc": lambda: x.histc(),
        "histc range": lambda: x.histc(4, 0, 1),
        "repeat_interleave": lambda: torch.repeat_interleave(x, i1, 0),
        "repeat_interleave size": lambda: torch.repeat_interleave(x, i1, 0, output_size=4),
        "one_hot": lambda: f.one_hot(i1),
        "one_hot n": lambda: f.one_hot(i1, 4),
        "equal": lambda: torch.equal(x, x.clone()),
        "equal same": lambda: torch.equal(x, x),
        "equal shapes": lambda: torch.equal(x, x[0]),
        "allclose": lambda: torch.allclose(x, x),
        "any": lambda: x.any(),
        "multinomial": lambda: torch.multinomial(x.abs(), 2),
        "normal": lambda: torch.normal(x, x.abs()),
        "sort": lambda: x.sort(),
        "inv": lambda: torch.linalg.inv(square),
        "inv_ex": lambda: torch.linalg.inv_ex(square),
        "solve": lambda: torch.linalg.solve(square, x),
        "cholesky": lambda: torch.linalg.cholesky(square),
        "svd": lambda: torch.linalg.svd(x),
        "eigh": lambda: torch.linalg.eigh(x),
        "eig": lambda: torch.linalg.eig(x),
        "qr": lambda: torch.linalg.qr(x),
        "det": lambda: torch.linalg.det(x),
        "lstsq": lambda: torch.linalg.lstsq(x, x),
        "pinv": lambda: torch.linalg.pinv(x),
        "matrix_exp": lambda: torch.matrix_exp(x),
        "to_sparse": lambda: x.to_sparse(),
        "to_csr": lambda: x.to_sparse_csr(),
        "to_dense": lambda: sparse.to_dense(),
        "combinations": lambda: torch.combinations(x[0]),
        "cartesian": lambda: torch.cartesian_prod(x[0], x[0]),
        "clip_grad": lambda: torch.nn.utils.clip_grad_norm_([_g(3)], 1.0),
        "embedding": lambda: f.embedding(i1, x),
        "dropout": lambda: f.dropout(x),
        "ce": lambda: f.cross_entropy(x, i1),
        "bw": lambda: (_g(3) ** 2).sum().backward(),
        "x + s": lambda: x + number,
        "linspace tensors": lambda: torch.linspace(y, y + 1, 4),
        "deepcopy": lambda: x.__deepcopy__({}),
        "stream.synchronize": lambda: torch.cuda.current_stream().synchronize(),
        "event.synchronize": lambda: event.synchronize(),
        "cuda.synchronize": lambda: torch.cuda.synchronize(),
        "empty_cache": lambda: torch.cuda.empty_cache(),
    }


def find_error(call: Call) -> str | None:
    """Return the message of the RuntimeError that a call raises, if it does."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return None


def find_alert(call: Call) -> str | None:
    """Return what a call is named in the alert, if it is not deterministic."""
    torch.use_deterministic_algorithms(True)
    try:
        error = find_error(call)
    finally:
        torch.use_deterministic_algorithms(False)
    return error and error.partition(" does not have a deterministic implementation")[0]


def is_synchronizing(call: Call) -> bool:
    """Tell whether a call waits for the GPU."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        error = find_error(call)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert error in (None, SYNCHRONIZING), error
    return error is not None


def prepare() -> None:
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # without it products are alerts of cuBLAS's


def list_cases() -> dict[str, Callable[[], object]]:
    alerts = {f"nondeterministic {name}": partial(find_alert, call) for name, call in nondeterministic().items()}
    waits = {f"synchronizing {name}": partial(is_synchronizing, call) for name, call in synchronizing().items()}
    return {**alerts, **waits}
