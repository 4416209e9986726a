"""The model of times: its errors at recorded calls, and what it says of others."""

from __future__ import annotations

import configparser
import math
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))

from timing.__main__ import leave_one_out, list_errors  # noqa: E402

from torchdevice_cuda.rehearsal.calls import Call, Shape  # noqa: E402
from torchdevice_cuda.rehearsal.families import find_cost  # noqa: E402
from torchdevice_cuda.rehearsal.model import Rates  # noqa: E402
from torchdevice_cuda.rehearsal.prediction import (  # noqa: E402
    EFFICIENCY,
    Predictor,
    predict_work,
    read_efficiency,
)
from torchdevice_cuda.settings import gpus  # noqa: E402


def test_errors_at_recorded_calls_predicted_without_their_own_recording() -> None:
    errors = sorted(abs(error) for _, error in list_errors(leave_one_out(Rates.of(gpus.find("h200")))))
    assert len(errors) > 4900
    assert errors[len(errors) // 2] < 0.06
    assert sum(error < 0.35 for error in errors) > 0.95 * len(errors)


@pytest.mark.parametrize("name", gpus.names())
def test_every_gpu_has_a_prediction(name: str) -> None:
    half, single = Shape((512, 512), "c10::Half"), Shape((512, 512), "float")
    predictor = Predictor(gpus.find(name))
    for call in (Call("mm", (half, half)), Call("add", (single, single, 1)), Call("_softmax", (single, -1, False))):
        ns, kernels = predictor.time(call)
        assert 500 < ns < 1e8 and kernels >= 1


def test_a_larger_call_takes_longer() -> None:
    predictor = Predictor(gpus.find("a100-80"))
    times = [
        predictor.time(Call("add", (Shape((n,), "float"),) * 2 + (1,)))[0] for n in (1 << 22, 1 << 24, 1 << 26, 1 << 28)
    ]
    assert times == sorted(times) and times[-1] > 3 * times[-2]


def test_an_operator_without_recordings_counts_as_elementwise() -> None:
    predictor = Predictor(gpus.find("h200"))
    ns, _ = predictor.time(Call("an_operator", (Shape((1 << 26,), "float"),)))
    assert math.isclose(ns, 2 * 4 * (1 << 26) / 4800 / 0.9, rel_tol=0.5)


def test_elements_of_a_size_without_recordings_count_as_those_of_the_next() -> None:
    rates, fitted = Rates.of(gpus.find("h200")), read_efficiency()
    work = find_cost(Call("cumsum", (Shape((1 << 20,), "bool"), 0)))
    assert "scan1" not in fitted
    of_2_bytes = {"scan2": fitted["scan2"]}
    renamed = {"scan1": fitted["scan2"]}
    assert (
        predict_work(work, rates, fitted) == predict_work(work, rates, of_2_bytes) == predict_work(work, rates, renamed)
    )
    assert predict_work(work, rates, of_2_bytes) != predict_work(work, rates, {})


def convolve(gpu: str, kind: str, size: int, is_tf32: bool = True) -> float:
    """Return the nanoseconds of a convolution of 64 channels into 256."""
    image, weight = Shape((64, 64, 56, 56), kind), Shape((256, 64, size, size), kind)
    call = Call("cudnn_convolution", (image, weight, (size // 2,) * 2, (1, 1), (1, 1), 1), is_tf32)
    return Predictor(gpus.find(gpu)).time(call)[0]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("name", ["t4", "v100"])
def test_gpus_without_tf32_convolve_in_float32(name: str, size: int) -> None:
    gpu = gpus.find(name)
    arithmetic = 2 * 64 * 56 * 56 * 64 * 256 * size**2 / (gpu.tflops["fp32"] * 1e3)
    memory = 4 * 64 * 56 * 56 * (64 + 256) / gpu.bandwidth_gb_s
    assert 1 < convolve(name, "float", size) / max(arithmetic, memory) < 1.6


@pytest.mark.parametrize("size", [1, 3])
def test_convolutions_without_tf32_take_the_rate_of_float32(size: int) -> None:
    gpu = gpus.find("h200")
    arithmetic = 2 * 64 * 56 * 56 * 64 * 256 * size**2 / (gpu.tflops["fp32"] * 1e3)
    assert 1 < convolve("h200", "float", size, is_tf32=False) / arithmetic < 2.5
    assert convolve("h200", "float", 3) < 0.5 * arithmetic or size == 1


def test_both_types_of_16_bits_convolve_alike() -> None:
    assert convolve("a100-80", "c10::Half", 3) == convolve("a100-80", "c10::BFloat16", 3)


def test_views_take_no_time() -> None:
    assert Predictor(gpus.find("h200")).time(Call("empty_strided", ())) == (0.0, 0.0)


def test_what_was_fitted_is_shipped() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    shipped = config["options.package_data"].get("torchdevice_cuda.rehearsal", "").split()
    assert EFFICIENCY in {path for pattern in shipped for path in EFFICIENCY.parent.glob(pattern)}
