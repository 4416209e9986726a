"""The model of times: layouts of copies, masks of attention, rows of products, the limit of power."""

from __future__ import annotations

import dataclasses
import math

import pytest

from torchdevice_cuda.rehearsal.calls import Call, Shape, list_strides
from torchdevice_cuda.rehearsal.layouts import walk
from torchdevice_cuda.rehearsal.model import Rates, limit_clock
from torchdevice_cuda.rehearsal.prediction import Predictor
from torchdevice_cuda.settings import gpus

IMAGES = (8, 64, 32, 32)
CHANNELS_LAST = list_strides(IMAGES, (1, 3, 2, 0))


def time(name: str, *arguments: object, gpu: str = "h200", is_tf32: bool = False) -> float:
    """Return the nanoseconds of a call."""
    return Predictor(gpus.find(gpu)).time(Call(name, arguments, is_tf32))[0]


@pytest.mark.parametrize(
    "name, target, source",
    [
        ("dense", Shape((64, 64), "float"), Shape((64, 64), "float")),
        ("dense", Shape((64, 64), "float", (1, 64)), Shape((64, 64), "float", (1, 64))),
        ("dense", Shape(IMAGES, "float", CHANNELS_LAST), Shape(IMAGES, "float", CHANNELS_LAST)),
        ("dense", Shape((), "float"), Shape((), "float")),
        ("transposed", Shape((64, 64), "float"), Shape((64, 64), "float", (1, 64))),
        ("transposed", Shape(IMAGES, "float", CHANNELS_LAST), Shape(IMAGES, "float")),
        ("rows", Shape((64, 32), "float"), Shape((64, 32), "float", (64, 1))),
        ("rows", Shape((8, 16, 128, 64), "float"), Shape((8, 16, 128, 64), "float", (131072, 64, 1024, 1))),
        ("expanded", Shape((64, 32), "float"), Shape((32,), "float")),
        ("expanded", Shape((64, 32), "float"), Shape((64, 1), "float")),
    ],
)
def test_names_of_walks(name: str, target: Shape, source: Shape) -> None:
    assert walk(target, source).name == name


def test_a_warp_of_a_transposed_copy_reads_a_sector_for_each_element() -> None:
    target, source = Shape((4096, 4096), "float"), Shape((4096, 4096), "float", (1, 4096))
    assert walk(target, source).traffic == 32 * 4096 * 4096
    # 4.1 TB/s and 1.1 TB/s on an H200 (tests/data/timing-layouts-h200-2.11.json.xz).
    assert 2.5 < time("copy_", target, source, False) / time("copy_", target, target, False) < 5


ATTENTION = {
    "_scaled_dot_product_cudnn_attention": (None, True, 0.0, False),
    "_scaled_dot_product_efficient_attention": (None, True, 0.0, False),
    "_scaled_dot_product_flash_attention": (0.0, False, False),
}


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("length", [1024, 4096])
def test_a_causal_mask_saves_almost_half_of_attention(name: str, length: int) -> None:
    shape = Shape((4, 16, length, 64), "c10::BFloat16")
    rest = list(ATTENTION[name])
    whole = time(name, shape, shape, shape, *rest)
    rest[1 if "flash" in name else 3] = True
    assert 0.45 < time(name, shape, shape, shape, *rest) / whole < 0.9


def test_products_with_unaligned_rows_take_several_times_as_long() -> None:
    def multiply(words: int) -> float:
        a, b = Shape((4096, 768), "c10::BFloat16"), Shape((768, words), "c10::BFloat16", (1, 768))
        return time("mm", a, b)

    assert 5 < multiply(50257) / multiply(50304) < 10  # 3,452 and 455 us, recorded
    gradient = Shape((50257, 4096), "c10::BFloat16", (1, 50257))
    aligned = Shape((50304, 4096), "c10::BFloat16", (1, 50304))
    x = Shape((4096, 768), "c10::BFloat16")
    assert 3.5 < time("mm", gradient, x) / time("mm", aligned, x) < 8  # 2,188 and 399 us


def test_normalization_with_running_statistics_reads_and_writes_once() -> None:
    x, weight = (
        Shape((64, 256, 56, 56), "c10::Half", list_strides((64, 256, 56, 56), (1, 3, 2, 0))),
        Shape((256,), "float"),
    )
    parts = (x, weight, weight, weight, weight)
    took = time("native_batch_norm", *parts, False, 0.1, 1e-5)
    assert math.isclose(took, 2 * x.bytes / 4800 / 0.9, rel_tol=0.25)
    assert took < 0.8 * time("native_batch_norm", *parts, True, 0.1, 1e-5)


def test_the_gradient_of_a_loss_is_filled_with_zeros() -> None:
    scores, index = Shape((4096, 32000), "float"), Shape((4096,), "long int")
    took = time("nll_loss_backward", Shape((), "float"), scores, index, None, 1, -100, Shape((), "float"))
    assert took > 0.8 * scores.bytes / 4800


def test_the_limit_of_power_slows_tensor_cores_only() -> None:
    h100 = gpus.find("h100")
    limited = dataclasses.replace(h100, power_w=500.0)
    assert limit_clock(h100) == 1
    # (500 - 145) / (700 - 145) of the power, of which the clock is the third root.
    assert limit_clock(limited) == pytest.approx(0.8617, abs=1e-3)
    assert limit_clock(dataclasses.replace(h100, power_w=None)) == 1
    before, after = Rates.of(h100), Rates.of(limited)
    assert after.flops["c10::BFloat16"] == pytest.approx(0.8617 * before.flops["c10::BFloat16"], rel=1e-3)
    assert after.flops["float"] == before.flops["float"] and after.bandwidth == before.bandwidth
