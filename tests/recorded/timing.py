"""Times of a GPU: kernels, copies and training steps. A case's name holds its arguments.

A case's `us` is the device time of one call: events round a train of calls that the host issues while the GPU spins,
the median of three trains. `host_us` is what the host needs to issue one, `wall_us` one call and a synchronization.
`work` lists the kernels of one call with their operators, as a profiler saw them.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from recorded._timing_calls import (
    LINALG,
    POINTWISE,
    POOLS,
    ROWS,
    Call,
    draw,
    make_attention,
    make_convolution,
    make_copy,
    make_optimizer,
    make_pointwise,
    make_pool,
    make_product,
    make_rows,
)
from recorded._timing_models import make_training

RECORD = "timing-h200-2.11.json.xz"
K, M = 1024, 1024 * 1024
#: Operators that take much longer than element-wise ones are not recorded in the largest size.
SLOW = ("sort", "nonzero", "cumsum")
#: Backwards, of the gradient with respect to the input.
BACKWARDS = (
    "softmax",
    "log_softmax",
    "layer_norm",
    "rms_norm",
    "batch_norm",
    "embedding",
    "cross_entropy",
    "index_select",
)
POINTWISE_BACKWARDS = ("gelu", "relu", "silu", "tanh", "dropout")

SIZES = (1 * K, 64 * K, 256 * K, 1 * M, 4 * M, 16 * M, 64 * M)
SHAPES = ("256x256", "1024x1024", "4096x1024", "32768x256", "8192x4096", "512x50257", "131072x64", "64x65536")
PRODUCTS = tuple(
    f"{m}x{k}x{n}"
    for m, k, n in (
        (128, 128, 128),
        (256, 256, 256),
        (384, 384, 384),
        (512, 512, 512),
        (768, 768, 768),
        (1024, 1024, 1024),
        (1536, 1536, 1536),
        (2048, 2048, 2048),
        (3072, 3072, 3072),
        (4096, 4096, 4096),
        (6144, 6144, 6144),
        (8192, 8192, 8192),
        (1, 4096, 4096),
        (8, 4096, 11008),
        (16, 4096, 4096),
        (32, 1024, 1024),
        (64, 2048, 8192),
        (128, 768, 3072),
        (128, 4096, 4096),
        (256, 1024, 4096),
        (512, 768, 768),
        (1024, 768, 2304),
        (2048, 1024, 1024),
        (4096, 768, 3072),
        (4096, 3072, 768),
        (4096, 768, 32000),
        (8192, 512, 512),
        (8192, 1024, 4096),
        (8192, 4096, 1024),
        (16384, 256, 256),
        (65536, 64, 64),
        (64, 65536, 64),
        (256, 32768, 256),
        (1000, 1000, 1000),
        (2000, 3000, 1000),
        (100, 100, 10000),
        (5000, 500, 500),
        (768, 4096, 3072),
        (1024, 8192, 1024),
        (333, 777, 555),
    )
)
BATCHES = tuple(
    f"{b}x{m}x{k}x{n}"
    for b, m, k, n in (
        (64, 512, 64, 512),
        (64, 512, 512, 64),
        (16, 1024, 128, 1024),
        (128, 128, 64, 128),
        (96, 256, 64, 256),
        (8, 2048, 64, 2048),
        (256, 64, 64, 64),
        (1024, 32, 32, 32),
        (12, 1024, 1024, 64),
        (32, 512, 512, 512),
        (4, 4096, 128, 4096),
        (2048, 16, 64, 16),
    )
)
CONVOLUTIONS = (
    "32x64x56 -> 64 k3 s1 g1",
    "32x128x28 -> 128 k3 s1 g1",
    "32x256x14 -> 256 k3 s1 g1",
    "32x512x7 -> 512 k3 s1 g1",
    "32x3x224 -> 64 k7 s2 g1",
    "32x64x56 -> 128 k3 s2 g1",
    "32x128x28 -> 256 k3 s2 g1",
    "32x256x56 -> 64 k1 s1 g1",
    "32x64x56 -> 256 k1 s1 g1",
    "32x512x28 -> 128 k1 s1 g1",
    "32x144x56 -> 144 k3 s1 g144",
    "32x384x14 -> 384 k3 s1 g384",
    "8x64x128 -> 64 k3 s1 g1",
    "4x128x64 -> 128 k3 s1 g1",
    "1x64x56 -> 64 k3 s1 g1",
    "128x64x56 -> 64 k3 s1 g1",
    "128x256x14 -> 256 k3 s1 g1",
    "64x32x32 -> 64 k3 s1 g1",
    "256x16x32 -> 32 k3 s1 g1",
    "16x320x64 -> 320 k3 s1 g1",
    "16x3x512 -> 32 k3 s2 g1",
    "32x64x56 -> 64 k5 s1 g1",
    "2x4x64 -> 320 k3 s1 g1",
    "32x256x28 -> 256 k3 s1 g32",
)
ATTENTIONS = (
    "8x16x1024x64",
    "8x16x1024x64 causal",
    "2x32x4096x128",
    "2x32x4096x128 causal",
    "32x12x128x64",
    "8x12x512x64 causal",
    "64x8x256x32",
    "1x16x8192x64 causal",
    "16x16x512x64",
    "4x8x2048x128 causal",
    "1x32x1024x128",
    "12x12x197x64",
)
IMAGES = ("32x64x112", "32x256x56", "64x128x28", "8x32x224", "256x512x7")
STEPS = (
    *(
        ("gpt step", shape, amp)
        for amp in ("amp=False", "amp=True")
        for shape in (
            "8x512 d768 h12 n12",
            "4x256 d512 h8 n6",
            "16x128 d256 h4 n4",
            "2x1024 d1024 h16 n8",
            "4x2048 d768 h12 n4",
            "32x256 d384 h6 n6",
        )
    ),
    *(("resnet18 step", b, amp) for amp in ("amp=False", "amp=True") for b in ("8", "32", "64", "128")),
    *(("resnet34 step", b, amp) for amp in ("amp=False", "amp=True") for b in ("16", "64")),
    *(
        ("lstm step", shape, amp)
        for amp in ("amp=False", "amp=True")
        for shape in ("64x100 d512", "32x50 d256", "128x35 d650", "16x200 d1024")
    ),
    *(("mlp step", w, amp) for amp in ("amp=False", "amp=True") for w in ("256", "1024", "4096", "8192")),
)


#: Steps, batch, inputs, hidden, layers.
NETWORKS = (
    "50x32x256x256x2",
    "100x64x512x512x2",
    "200x16x1024x1024x2",
    "35x128x640x640x2",
    "20x256x128x512x1",
    "128x8x512x1536x1",
    "64x64x768x768x3",
    "300x32x80x320x4",
)


def make_network(kind: str, dtype: str, shape: str) -> Call:
    """Make the forward and backward pass of a recurrent network."""
    steps, batch, inputs, hidden, layers = map(int, shape.split("x"))
    module = getattr(torch.nn, kind)(inputs, hidden, layers).cuda()
    x = torch.randn(steps, batch, inputs, device="cuda", requires_grad=True)

    def call() -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16, enabled=dtype == "bf16"):
            y: torch.Tensor = module(x)[0]
        y.sum().backward()
        return y

    return call


def list_calls() -> Iterator[tuple[str, Callable[[], Call]]]:
    """List the cases: a name, and what makes the call to time."""
    for name, kind, n in itertools.product(POINTWISE, ("f32", "bf16", "i64"), SIZES):
        if kind == "i64" and name not in ("add", "copy_", "fill_", "gt", "sum", "cumsum", "sort", "where", "cat"):
            continue
        if not (name in SLOW and n > 16 * M):
            yield f"{name} {kind} {n}", partial(make_pointwise, name, kind, str(n))
    for name, kind, n in itertools.product(POINTWISE_BACKWARDS, ("f32", "bf16"), SIZES[2::2]):
        yield f"{name} backward {kind} {n}", partial(make_pointwise, f"{name} backward", kind, str(n))
    for name, kind, shape in itertools.product(ROWS, ("f32", "bf16"), SHAPES):
        yield f"{name} {kind} {shape}", partial(make_rows, name, kind, shape)
    for name, kind, shape in itertools.product(BACKWARDS, ("f32", "bf16"), SHAPES):
        yield f"{name} backward {kind} {shape}", partial(make_rows, f"{name} backward", kind, shape)
    for kind, shape in itertools.product(("f32", "tf32", "bf16", "f16"), PRODUCTS):
        yield f"mm {kind} {shape}", partial(make_product, "mm", kind, shape)
    for name, kind, shape in itertools.product(("linear", "mm tn"), ("f32", "tf32", "bf16"), PRODUCTS[::2]):
        yield f"{name} {kind} {shape}", partial(make_product, name, kind, shape)
    for shape in PRODUCTS[3:8]:
        yield f"mm f64 {shape}", partial(make_product, "mm", "f64", shape)
    for kind, shape in itertools.product(("f32", "tf32", "bf16"), BATCHES):
        yield f"bmm {kind} {shape}", partial(make_product, "bmm", kind, shape)
    for name, kind, shape, layout in itertools.product(
        ("conv", "conv backward"), ("f32", "bf16"), CONVOLUTIONS, ("", " nhwc")
    ):
        yield f"{name} {kind} {shape}{layout}", partial(make_convolution, name, kind, shape + layout)
    for name, kind, shape in itertools.product(("sdpa", "sdpa backward"), ("f32", "bf16"), ATTENTIONS):
        yield f"{name} {kind} {shape}", partial(make_attention, name, kind, shape)
    for name, n in itertools.product(
        ("h2d pinned", "h2d pageable", "d2h pinned", "d2h pageable"), (*SIZES[:6], 2 * K, 16 * K)
    ):
        yield f"{name} f32 {n}", partial(make_copy, name, "f32", str(n))
    for name, n in itertools.product(LINALG, (64, 128, 512, 1024)):
        yield f"{name} f32 {n}", lambda name=name, n=n: partial(LINALG[name], draw("f32", n, n))  # type: ignore[misc]
    for name, kind, shape in itertools.product(POOLS, ("f32", "bf16"), IMAGES):
        yield f"{name} {kind} {shape}", partial(make_pool, name, kind, shape)
    for name, kind, shape in itertools.product(
        ("max_pool", "avg_pool", "upsample", "batch_norm2d", "group_norm"), ("f32", "bf16"), IMAGES[::2]
    ):
        yield f"{name} backward {kind} {shape}", partial(make_pool, f"{name} backward", kind, shape)
    for (name, how), shape in itertools.product(
        (
            ("AdamW", "foreach"),
            ("AdamW", "fused"),
            ("SGD", "foreach"),
            ("SGD", "fused"),
            ("clip", "foreach"),
        ),
        ("50x1000000", "200x10000", "20x100000", "8x8000000"),
    ):
        yield f"{name} {how} {shape}", partial(make_optimizer, name, how, shape)
    for kind, dtype, shape in itertools.product(("LSTM", "GRU", "RNN"), ("f32", "bf16"), NETWORKS):
        if kind != "RNN" or dtype == "f32":
            yield f"{kind} {dtype} {shape}", partial(make_network, kind, dtype, shape)
    for name, shape, amp in STEPS:
        yield f"{name} {shape} {amp}", partial(make_training, name, shape, amp)


def time_calls(call: Call, calls: int) -> tuple[float, float]:
    """Return the device's and the host's microseconds for each of some calls; the GPU spins while they are issued."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    torch.cuda._sleep(2_000_000)
    start.record()
    began = time.perf_counter()
    for _ in range(calls):
        call()
    issued = time.perf_counter() - began
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3 / calls, issued * 1e6 / calls


def list_work(call: Call) -> list[list[Any]]:
    """Return the kernels of one call: operator, shapes, types, other arguments, kernel, count, nanoseconds in all."""
    with torch.profiler.profile(record_shapes=True) as profile:
        call()
        torch.cuda.synchronize()
    events = profile.profiler.kineto_results.events()
    operators = {
        e.correlation_id(): e for e in events if "CPU" in str(e.device_type()) and e.name().startswith("aten::")
    }
    calls: dict[str, list[Any]] = {}
    for e in events:
        if "CUDA" not in str(e.device_type()) or e.duration_ns() == 0:
            continue
        launch = operators.get(e.linked_correlation_id())
        described: list[Any] = ["", [], [], []]
        if launch is not None:
            scalars = [str(v)[:40] for v in launch.concrete_inputs()]
            described = [launch.name(), launch.shapes(), launch.dtypes(), scalars]
        entry = calls.setdefault(repr((described, e.name())), [*described, e.name()[:80], 0, 0])
        entry[5] += 1
        entry[6] += e.duration_ns()
    return list(calls.values())


def measure(
    make: Callable[[], Call], train_us: float = 20_000, list_work: Callable[[Call], list[Any]] = list_work
) -> dict[str, Any]:
    """Return a case's times; a train of calls takes about `train_us`."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    call = make()
    call()
    call()
    peak = torch.cuda.max_memory_allocated()
    us, _ = time_calls(call, 3)
    calls = max(3, min(200, int(train_us / max(us, 1))))
    trains = [time_calls(call, calls) for _ in range(3)]
    walls = []
    for _ in range(3):
        torch.cuda.synchronize()
        began = time.perf_counter()
        call()
        torch.cuda.synchronize()
        walls.append((time.perf_counter() - began) * 1e6)
    return {
        "us": round(statistics.median(us for us, _ in trains), 3),
        "host_us": round(statistics.median(host for _, host in trains), 1),
        "wall_us": round(statistics.median(walls), 1),
        "peak_mib": round(peak / M, 1),
        "work": list_work(call),
    }


def in_tf32(make: Callable[[], Call]) -> Callable[[], Call]:
    """Make the call with TF32 products."""

    def make_in_tf32() -> Call:
        torch.backends.cuda.matmul.allow_tf32 = True
        return make()

    return make_in_tf32


def make(name: str) -> Call:
    """Return the call of a case."""
    return next(make() for case, make in list_calls() if case == name)


def list_cases() -> dict[str, Callable[[], Any]]:
    """Return the cases by name."""
    return {name: partial(measure, in_tf32(make) if " tf32 " in name else make) for name, make in list_calls()}
