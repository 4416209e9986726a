"""Kernels with barriers (samples.cu): NumPy's results, whether their threads are loops or fibers."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import pytest
import torch
from harness import CPU, STORED, VIRTUAL, child

from torchdevice_cuda.cuda_cpp import barriers, flags, nvcc, translation

SAMPLES = Path(__file__).with_name("samples.cu")
#: The kernels that are not split, with the reason.
FIBERS = {"strides": "a barrier in a condition or loop that threads may go through differently"}
Array = Any  # of NumPy


def draw(*shape: int, low: float = 0.0, high: float = 1.0) -> Array:
    return numpy.random.default_rng(sum(shape)).uniform(low, high, shape).astype(numpy.float32)


def draw_ints(*shape: int, high: int = 100) -> Array:
    return numpy.random.default_rng(sum(shape)).integers(0, high, shape, dtype=numpy.int32)


class Case(NamedTuple):
    """A launch: its arguments, which of them are results, and what NumPy computes from the same arguments."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    arguments: list[Any]
    results: tuple[int, ...]
    reference: Callable[..., list[Array]]
    tolerance: float = 0.0


def shift(x: Array, dy: int, dx: int) -> Array:
    """Return neighbors, those of the border repeated."""
    padded = numpy.pad(x, 1, mode="edge")
    return padded[1 + dy : 1 + dy + x.shape[0], 1 + dx : 1 + dx + x.shape[1]]


def hotspot(power: Array, heat: Array, _: Array, steps: int, *size: int) -> list[Array]:
    for _i in range(steps):
        near = shift(heat, 1, 0) + shift(heat, -1, 0) + shift(heat, 0, -1) + shift(heat, 0, 1)
        heat = heat + 0.25 * (power + near - 4 * heat)
    return [heat]


def pathfinder(rows: int, wall: Array, source: Array, *_: Any) -> list[Array]:
    for i in range(rows):
        padded = numpy.pad(source, 1, mode="edge")
        source = numpy.minimum(numpy.minimum(padded[:-2], source), padded[2:]) + wall[i]
    return [source]


def lud(matrix: Array, n: int) -> list[Array]:
    made = matrix.astype(numpy.float64)
    for i in range(n):
        made[i + 1 :, i] /= made[i, i]
        made[i + 1 :, i + 1 :] -= numpy.outer(made[i + 1 :, i], made[i, i + 1 :])
    return [made]


def needle(similarity: Array, scores: Array, width: int, penalty: int) -> list[Array]:
    made = scores.copy()
    for y in range(1, width):
        for x in range(1, width):
            ways = made[y - 1, x - 1] + similarity[y, x], made[y, x - 1] - penalty, made[y - 1, x] - penalty
            made[y, x] = max(ways)
    return [made]


def srad(image: Array, _: Array, columns: int, rows: int, q0: float) -> list[Array]:
    out = numpy.empty_like(image, dtype=numpy.float64)
    for y in range(0, rows, 16):
        for x in range(0, columns, 16):
            t = image[y : y + 16, x : x + 16].astype(numpy.float64)
            n, s, w, e = (shift(t, *d) - t for d in ((-1, 0), (1, 0), (0, -1), (0, 1)))
            g, laplace = (n**2 + s**2 + w**2 + e**2) / t**2, (n + s + w + e) / t
            q = (0.5 * g - laplace**2 / 16) / (1 + 0.25 * laplace) ** 2
            c = numpy.clip(1 / (1 + (q - q0) / (q0 * (1 + q0))), 0, 1)
            south, east = shift(c, 1, 0), shift(c, 0, 1)
            out[y : y + 16, x : x + 16] = t + 0.125 * (c * n + south * s + c * w + east * e)
    return [out]


def kmeans(x: Array, centres: Array, *_: Any) -> list[Array]:
    labels = ((x[:, None].astype(numpy.float64) - centres) ** 2).sum(-1).argmin(1)
    return [labels, numpy.bincount(labels, minlength=len(centres))]


def convolve(image: Array, *_: Any) -> list[Array]:
    weights = [0.05, 0.09, 0.12, 0.15, 0.18, 0.15, 0.12, 0.09, 0.05]
    return [numpy.stack([numpy.convolve(row.astype(numpy.float64), weights, "same") for row in image])]


def attract(bodies: Array, *_: Any) -> list[Array]:
    at, mass = bodies[:, :3].astype(numpy.float64), bodies[:, 3]
    between = at[None] - at[:, None]
    return [(between * (mass[None] / ((between**2).sum(-1) + 0.01) ** 1.5)[..., None]).sum(1)]


def add_strides(x: Array, blocks: int, width: int) -> Array:
    """Return the sum of every block's elements, which are some widths apart."""
    starts = [range(width * block, len(x), width * blocks) for block in range(blocks)]
    return numpy.array([sum(x[i : i + width].sum(dtype=float) for i in each) for each in starts])


def softmax(x: Array, *_: Any) -> list[Array]:
    powers = numpy.exp(x.astype(numpy.float64) - x.max(1, keepdims=True))
    return [powers / powers.sum(1, keepdims=True)]


def relax(labels: Array, linked: Array, *_: Any) -> list[Array]:
    made, rounds = labels.copy(), 0
    while True:
        near = numpy.minimum(made, numpy.where(linked > 0, numpy.append(made[1:], 10**6), 10**6))
        before = numpy.append(10**6, made[:-1])
        near = numpy.minimum(near, numpy.where(numpy.append(0, linked[:-1]) > 0, before, 10**6))
        rounds += 1
        if (near == made).all():
            return [made, numpy.array([rounds])]
        made = near


def vote(x: Array, _: Array, n: int) -> list[Array]:
    out = numpy.zeros(len(x), dtype=numpy.int64)
    for i in range(n):
        warp = x[i // 32 * 32 : min(n, i // 32 * 32 + 32)]
        if i >= 32:
            out[i] = sum((warp > 3 * step).sum() for step in range(1, i // 32 + 1))
        elif x[i] % 2 == 0:
            out[i] = 1
    return [out]


def make_cases() -> dict[str, Case]:
    zeros = functools.partial(numpy.zeros, dtype=numpy.float32)
    scores = numpy.zeros((17, 17), numpy.int32)
    scores[0], scores[:, 0] = -10 * numpy.arange(17), -10 * numpy.arange(17)
    square, tall = draw(16, 16) + 4 * numpy.eye(16, dtype=numpy.float32), draw(40, 52, low=1, high=2)
    image, labels = draw(32, 48, low=1, high=2), draw_ints(200, high=10**5)
    return {
        "hotspot": Case((5, 4), (16, 16), 0, [draw(40, 52), tall, zeros((40, 52)), 2, 40, 52], (2,), hotspot, 1e-5),
        "pathfinder": Case((4,), (64,), 0, [4, draw_ints(4, 200), draw_ints(200), draw_ints(200) * 0, 200], (3,),
                           pathfinder),
        "lud_diagonal": Case((1,), (16,), 0, [square, 16], (0,), lud, 1e-5),
        "needle": Case((1,), (16,), 0, [draw_ints(17, 17, high=20) - 8, scores, 17, 10], (1,), needle),
        "srad": Case((3, 2), (16, 16), 0, [image, zeros((32, 48)), 48, 32, 0.05], (1,), srad, 1e-5),
        "backprop": Case((1, 4), (16, 16), 0, [draw(64), draw(64, 16), zeros((4, 16)), 16], (2,),
                         lambda x, w, *_: [(x[:, None] * w).reshape(4, 16, 16).sum(1)], 1e-5),
        "kmeans": Case((4,), (64,), 5 * 3 * 4 + 20,
                       [draw(250, 3), draw(5, 3), draw_ints(250) * 0, draw_ints(5) * 0, 250, 5, 3], (2, 3), kmeans),
        "reduction": Case((3,), (256,), 1024, [draw(5000), zeros(3), 5000], (1,),
                          lambda x, *_: [add_strides(x, 3, 512)], 1e-5),
        "reduction_groups": Case((2,), (96,), 0, [draw(1000), zeros(2), 1000], (1,),
                                 lambda x, *_: [add_strides(x, 2, 96)], 1e-5),
        "scan": Case((1,), (64,), 512, [draw(128), zeros(128), 128], (1,),
                     lambda x, *_: [numpy.cumsum(x, dtype=float) - x], 1e-5),
        "scan_shuffles": Case((1,), (160,), 0, [draw_ints(150), draw_ints(150) * 0, 150], (1,),
                              lambda x, *_: [numpy.cumsum(x)]),
        "transpose": Case((3, 2), (16, 4), 0, [draw(30, 40), zeros((40, 30)), 40, 30], (1,), lambda x, *_: [x.T]),
        "histogram": Case((3,), (96,), 0, [draw_ints(2000).astype(numpy.uint8), draw_ints(256) * 0, 2000], (1,),
                          lambda x, *_: [numpy.bincount(x, minlength=256)]),
        "scalar_products": Case((2,), (64,), 0, [draw(5, 300), draw(5, 300) + 1, zeros(5), 5, 300], (2,),
                                lambda a, b, *_: [(a.astype(float) * b).sum(1)], 1e-5),
        "convolution_rows": Case((3, 2), (16, 4), 0, [draw(8, 96), zeros((8, 96)), 96, 8, 96], (1,), convolve, 1e-5),
        "bitonic_sort": Case((1,), (128,), 0, [draw_ints(256, high=1000), 256], (0,), lambda x, n: [numpy.sort(x)]),
        "nbody": Case((2,), (32,), 512, [draw(64, 4), zeros((64, 3)), 64], (1,), attract, 1e-4),
        "softmax": Case((6,), (64,), 0, [draw(6, 150), zeros((6, 150)), 150], (1,), softmax, 1e-5),
        "moments": Case((5,), (96,), 0, [draw(4, 500), zeros((4, 2)), 4, 500], (1,),
                        lambda x, *_: [numpy.stack([x.mean(1, dtype=float), (x.astype(float) ** 2).mean(1)], 1)], 1e-5),
        "relax": Case((1,), (200,), 0, [labels, draw_ints(200, high=4), 200, draw_ints(1)], (0, 3), relax),
        "lanes": Case((1,), (128,), 0, [draw_ints(128, high=16), draw_ints(128) * 0, 110], (1,), vote),
        "strides": Case((1,), (64,), 0, [draw(256), zeros(256), 256], (1,),
                        lambda x, *_: [x.reshape(4, 64)[:, ::-1].ravel()]),
    }  # fmt: skip


def run_sample(case: Case, kernel: Any) -> list[Array]:
    arguments = [torch.from_numpy(a.copy()).cuda() if isinstance(a, numpy.ndarray) else a for a in case.arguments]
    sizes = [(*size, 1, 1)[:3] for size in (case.grid, case.block)]
    kernel(grid=sizes[0], block=sizes[1], args=arguments, shared_mem=case.shared)
    return [arguments[i].cpu().numpy() for i in case.results]


def compile_samples(names: list[str]) -> dict[str, Any]:
    """Compile all kernels at once, as `torch.cuda._compile_kernel` compiles one."""
    from torch.cuda._utils import _cuda_load_module, _nvrtc_compile

    code, _ = _nvrtc_compile(SAMPLES.read_text(), names[0], nvcc_options=["--std=c++17"])
    return _cuda_load_module(code, names)


@functools.cache
def choose() -> dict[str, barriers.Choice]:
    """Return how the threads of each kernel run."""
    command, found = flags.read(["-c", str(SAMPLES)]), translation.Findings()
    scratch = Path(os.environ.get("TMPDIR", "/tmp"))
    text = nvcc.preprocess(SAMPLES, command, scratch)
    translation.translate(text, translation.is_below(*nvcc.others_roots(command.reading)), findings=found)
    return {choice.name: choice for choice in found.choices}


def test_kernels_that_can_be_split_are() -> None:
    chosen = choose()
    assert set(chosen) == set(make_cases())
    assert {name: c.reason.split(", line")[0] for name, c in chosen.items() if c.reason} == FIBERS
    assert sum(not choice.reason for choice in chosen.values()) == 21


@pytest.mark.slow
@child(VIRTUAL, CPU, *STORED)
def test_loops_and_fibers_give_what_numpy_gives() -> None:
    cases, made = make_cases(), {}
    for fibers in ("0", "1"):
        os.environ["TORCHDEVICE_KERNEL_FIBERS"] = fibers
        kernels = compile_samples(list(cases))
        for name, case in cases.items():
            made[name, fibers] = run_sample(case, kernels[name])
    for name, case in cases.items():
        expected = case.reference(*case.arguments)
        for loop, fiber, reference in zip(made[name, "0"], made[name, "1"], expected, strict=True):
            assert loop.tobytes() == fiber.tobytes(), name
            scale = case.tolerance * max(1.0, float(numpy.abs(reference).max()))
            assert numpy.abs(loop.astype(numpy.float64) - reference).max() <= scale, name
