"""Published measurements of other GPUs than the recorded one, and what a rehearsal predicts for them."""

from __future__ import annotations

import dataclasses
import json
import statistics
import subprocess
import sys
from pathlib import Path

PROGRAMS = Path(__file__).with_name("programs.py")
_CONVNETS = "https://github.com/NVIDIA/DeepLearningExamples/tree/master/PyTorch/Classification/ConvNets/resnet50v1.5"
_GPT2 = "https://github.com/karpathy/build-nanogpt"
_TIMM = "https://github.com/huggingface/pytorch-image-models/blob/main/results"
_RTX_4090 = f"{_TIMM}/benchmark-infer-amp-nhwc-pt240-cu124-rtx4090.csv"
_RTX_3090 = f"{_TIMM}/benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv"
_TITAN = "https://github.com/pytorch/torchtitan/blob/main/benchmarks/llama3_h100_202412_torchtitan.md"
_FSDP = "https://arxiv.org/abs/2304.11277"
#: The source's cards have more and slower memory than the H100 of the profiles.
_H100_96 = str(Path(__file__).with_name("h100-96.toml"))


@dataclasses.dataclass(frozen=True)
class Published:
    """A published rate of one GPU: units of work a second, or of memory."""

    gpu: str
    program: str
    figure: float
    unit: str
    source: str
    work: float  # units of a step; 0: the figure is the step's peak
    world: str = ""


#: Multiplications and additions of a sequence with the recomputed forward pass, in TFLOP (the source's way to count).
_OF_175B = 4 * 2 * 174.6e9 * 2048 * (1 + 2048 / (6 * 12288)) / 1e12
PUBLISHED = (
    Published("v100", "resnet50 fp32 112", 367, "images/s", _CONVNETS, 112),
    Published("v100", "resnet50 amp 256", 1200, "images/s", _CONVNETS, 256),
    Published("a100-80", "resnet50 tf32 256", 938, "images/s", _CONVNETS, 256),
    Published("a100-80", "resnet50 amp 256", 2470, "images/s", _CONVNETS, 256),
    Published("v100", "resnet50 inference fp32 64", 1200, "images/s", _CONVNETS, 64),
    Published("v100", "resnet50 inference amp 64", 2984, "images/s", _CONVNETS, 64),
    Published("t4", "resnet50 inference fp32 64", 428, "images/s", _CONVNETS, 64),
    Published("t4", "resnet50 inference amp 64", 1165, "images/s", _CONVNETS, 64),
    Published("rtx-4090", "resnet50 inference amp 512", 5088.39, "images/s", _RTX_4090, 512),
    Published("rtx-3090", "resnet50 amp 512", 1218.01, "images/s", _RTX_3090, 512),
    Published("a100-80", "gpt2 fp32", 16.4e3, "tokens/s", _GPT2, 16 * 1024),
    Published("a100-80", "gpt2 tf32", 49.2e3, "tokens/s", _GPT2, 16 * 1024),
    Published("a100-80", "gpt2 bf16", 54.6e3, "tokens/s", _GPT2, 16 * 1024),
    Published(_H100_96, "llama3 8b", 5762, "tokens/s", _TITAN, 2 * 8192, "8"),
    Published(_H100_96, "llama3 8b", 5605, "tokens/s", _TITAN, 2 * 8192, "128"),
    Published(_H100_96, "llama3 8b", 82.4, "GiB", _TITAN, 0, "8"),
    Published(_H100_96, "llama3 8b", 67.0, "GiB", _TITAN, 0, "128"),
    Published("a100-80", "gpt 175b 1", 173, "TFLOP/s", _FSDP, _OF_175B, "128,network=31"),
    Published("a100-80", "gpt 175b 2", 186, "TFLOP/s", _FSDP, 2 * _OF_175B, "128,network=31"),
)


def rehearse(gpu: str, program: str, world: str) -> dict[str, float]:
    """Return the milliseconds of a step and its peak memory."""
    options = ["--gpu", gpu, "--rehearse", *(["--world", world] if world else [])]
    command = [sys.executable, "-W", "ignore", "-m", "torchdevice_cuda", *options, str(PROGRAMS), program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def print_published(only: str = "") -> None:
    """Print a table of Markdown, and the median error of rates."""
    print("| GPU | ranks | program | published | predicted | error | source |")
    print("| --- | ---: | --- | ---: | ---: | ---: | --- |")
    results: dict[tuple[str, str, str], dict[str, float]] = {}
    errors = []
    for each in PUBLISHED:
        if only and only not in f"{each.gpu} {each.program}":
            continue
        key = (each.gpu, each.program, each.world)
        results[key] = results.get(key) or rehearse(*key)
        value = each.work / results[key]["ms"] * 1e3 if each.work else results[key]["peak"]
        error = value / each.figure - 1
        if each.work:
            errors.append(abs(error))
        card, ranks = Path(each.gpu).stem, each.world.partition(",")[0] or "1"
        print(
            f"| {card} | {ranks} | {each.program} | {each.figure:,.4g} {each.unit} | {value:,.4g} {each.unit} | "
            f"{error:+.0%} | {each.source} |",
            flush=True,
        )
    if errors:
        print(f"\n{len(errors)} rates: median error {statistics.median(errors):.0%}, largest {max(errors):.0%}")
