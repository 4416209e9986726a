"""``--rehearse``: shapes, memory and time without computing large tensors."""

from __future__ import annotations

import re
import resource
import time
import warnings
from pathlib import Path

import pytest
from harness import ChildConfig, child, in_child, python, run_forked

LLAMA = str(Path(__file__).parents[2] / "examples" / "rehearse_llama.py")
ON = ChildConfig("virtual rehearsed", {"driver": "virtual", "gpu": "h200", "rehearse": "on"})
STRICT = ChildConfig("virtual rehearsed strictly", {"driver": "virtual", "gpu": "h200", "rehearse": "strict"})
COMPUTED = ChildConfig("virtual with an H200's clock", {"driver": "virtual", "gpu": "h200", "clock": "gpu"})


# ------------------------------------------------------------------------------------------- large models
def test_a_step_of_seven_billion_parameters_takes_little_memory_here() -> None:
    done = python("-m", "torchdevice_cuda", "--gpu", "h200", "--rehearse", LLAMA, "--steps", "2", timeout=180)
    assert "6.74 billion parameters on NVIDIA H200" in done.out
    steps = [int(ms) for ms in re.findall(r"step \d: (\d+) ms on the GPU", done.out)]
    # 8 * 6.7e9 operations for each of 8192 tokens, at a third of the peak at least and at the peak at most.
    assert len(steps) == 2 and 446 < steps[1] < 3 * 446
    # Parameters, gradients and two moments in bfloat16, and activations.
    peak = float(re.findall(r"peak memory ([\d.]+) GB", done.out)[0])
    assert 4 * 2 * 6.74 < peak < 1.4 * 4 * 2 * 6.74
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 4 << 20  # KiB


@pytest.mark.slow
def test_seven_billion_parameters_in_float32_take_four_gigabytes_and_three_minutes_at_most() -> None:
    options = ("--type", "float32", "--batch", "1", "--steps", "2")
    began = time.monotonic()
    done = python("-m", "torchdevice_cuda", "--gpu", "h200", "--rehearse", LLAMA, *options, timeout=180)
    assert time.monotonic() - began < 180
    # Parameters, gradients and two moments in float32.
    assert float(re.findall(r"peak memory ([\d.]+) GB", done.out)[0]) > 4 * 4 * 6.74
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 4_000_000_000 // 1024  # KiB


def test_memory_ends_where_the_gpus_would() -> None:
    command = ("-m", "torchdevice_cuda", "--gpu", "a100-40", "--rehearse", LLAMA, "--steps", "1")
    done = run_forked(*command, check=False, timeout=180)
    assert done.status == 1
    assert "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate" in done.err
    assert "GPU 0 has a total capacity of 40.00 GiB" in done.err


def train() -> tuple[int, list[int]]:
    """Train a small model; return its peak memory, and shapes, strides and types of what is left, as numbers."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(256, 4, 1024, 0.0, batch_first=True)
    model = nn.Sequential(nn.Embedding(1000, 256), nn.TransformerEncoder(layer, 2), nn.Linear(256, 1000)).cuda()
    optimizer, scaler = torch.optim.AdamW(model.parameters()), torch.amp.GradScaler("cuda")
    tokens = torch.randint(1000, (8, 128), device="cuda")
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    moments = [s["exp_avg"] for s in optimizer.state.values()]
    seen = [n for p in [*model.parameters(), *moments] for n in (*p.shape, *p.stride())]
    return torch.cuda.max_memory_allocated(), [*seen, int(scaler.get_scale()), torch.cuda.memory_allocated()]


def test_peak_memory_and_shapes_are_those_of_the_computed_program() -> None:
    computed, rehearsed = in_child(train, COMPUTED), in_child(train, ON)
    assert rehearsed[1] == computed[1]
    assert rehearsed[0] == pytest.approx(computed[0], rel=0.02)


# ------------------------------------------------------------------------------------------- values
def read(call: object) -> tuple[object, list[str]]:
    """Return what a function returns, and its warnings."""
    assert callable(call)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = call()
    return value, [str(one.message) for one in caught]


@child(ON)
def test_small_tensors_are_computed() -> None:
    import torch

    counter = torch.zeros(3, device="cuda")
    large = torch.zeros(1 << 20, device="cuda")
    for _ in range(5):
        counter += 1
        large.mul_(2)
    assert read(counter.tolist) == ([5, 5, 5], [])
    assert read(torch.arange(10, device="cuda").sum().item) == (45, [])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        counter.add_(1)
        large.add_(1)
    graph.replay()
    assert read(counter.tolist) == ([6, 6, 6], [])


@child(ON)
def test_values_that_were_not_computed_stand_for_finite_ones() -> None:
    import torch

    x = torch.randn(1 << 20, device="cuda")
    loss = x.mean()
    value, said = read(loss.item)
    assert value == 1 and len(said) == 1 and f"{__file__}:" in said[0]
    assert "the program reads values that this rehearsal did not compute" in said[0]
    assert (loss * 2).item() == 2 and x[5].item() == 1
    assert not torch.isnan(x).any().item() and torch.isfinite(x).all().item()
    assert x.argmax().item() == 0 and x.cpu()[7] == 1
    loss.fill_(7)  # overwritten with a known value
    assert read(loss.item) == (7, [])
    del loss
    assert read(torch.ones((), device="cuda").item) == (1, [])  # the same memory


@child(ON)
def test_a_line_warns_once() -> None:
    import torch

    x = torch.randn(1 << 20, device="cuda")
    _, said = read(lambda: [x.sum().item() for _ in range(3)])
    assert len(said) == 1


@child(ON)
def test_results_whose_size_depends_on_elements_have_the_largest() -> None:
    import torch

    x = torch.randn(300, 400, device="cuda")
    found, said = read(lambda: (torch.nonzero(x), x[x > 0], torch.unique(x), torch.masked_select(x, x > 0)))
    assert [tuple(t.shape) for t in found] == [(120000, 2), (120000,), (120000,), (120000,)]
    assert said and "the size of a result of nonzero depends on values" in said[0]
    assert read(lambda: torch.tensor([0, 3], device="cuda").nonzero().tolist()) == ([[1]], [])


@child(ON)
def test_results_in_given_tensors_have_their_shapes() -> None:
    import torch

    x, out = torch.randn(1000, 100, device="cuda"), torch.empty(0, device="cuda")
    torch.cat([x, x], out=out)
    assert out.shape == (2000, 100) and torch.arange(10**6, device="cuda").shape == (10**6,)
    values, indices = x.topk(5)
    assert (values.shape, indices.dtype, x.sort().values.shape) == ((1000, 5), torch.int64, (1000, 100))
    assert torch.multinomial(x.abs(), 3).shape == (1000, 3)


@child(ON)
def test_wrong_calls_are_errors() -> None:
    import torch

    x = torch.randn(1000, 1000, device="cuda")
    with pytest.raises(RuntimeError, match="at least two devices, cuda:0 and cpu"):
        x + torch.ones(1000)
    with pytest.raises(RuntimeError):
        x @ torch.ones(3, 3, device="cuda")
    with pytest.raises(RuntimeError, match="not implemented for 'Long'"):
        x.long() @ x.long()
    with pytest.raises(NotImplementedError, match="a rehearsal cannot infer the results of .*sparse"):
        x.to_sparse() @ x


@child(ON)
def test_networks_keep_their_layouts() -> None:
    import torch
    from torch import nn

    lstm = nn.LSTM(64, 128, 2, batch_first=True).cuda()
    out, _ = lstm(torch.randn(16, 32, 64, device="cuda", requires_grad=True))
    out.sum().backward()
    assert out.shape == (16, 32, 128) and lstm.weight_hh_l1.grad.shape == (512, 128)
    conv = nn.Sequential(nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64)).cuda().to(memory_format=torch.channels_last)
    image = torch.randn(4, 3, 64, 64, device="cuda").to(memory_format=torch.channels_last)
    assert conv(image).is_contiguous(memory_format=torch.channels_last)


@child(ON)
def test_a_profiler_gets_predicted_durations() -> None:
    import torch
    from torch.profiler import ProfilerActivity, profile

    x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        x @ x
        torch.cuda.synchronize()
    product = next(event for event in found.key_averages() if event.key == "virtual aten::mm")
    assert 140 < product.device_time_total < 400  # microseconds at the peak of an H200: 139


@child(STRICT)
def test_strictly_a_read_is_an_error() -> None:
    import torch

    import torchdevice_cuda

    x = torch.randn(1 << 20, device="cuda")
    with pytest.raises(torchdevice_cuda.UncomputedValueError, match=re.escape(__file__)):
        x.sum().item()
    with pytest.raises(torchdevice_cuda.UncomputedValueError, match="the size of a result of nonzero"):
        x.nonzero()
    assert torch.arange(4, device="cuda").sum().item() == 6


def test_the_option_takes_a_value_after_an_equals_sign_only() -> None:
    code = "import torch, torchdevice_cuda; print(torch.cuda.get_device_name())"
    assert python("-m", "torchdevice_cuda", "--rehearse", "-c", code).out == "NVIDIA H200\n"
    done = python("-m", "torchdevice_cuda", "--rehearse=maybe", "-c", code, check=False)
    assert done.status != 0 and "--rehearse='maybe'" in done.err and "off, on, strict" in done.err
