"""GPU profiles: the device claims to be a certain GPU, as a real one of its kind describes itself."""

from __future__ import annotations

import pytest
import torch
from harness import CPU, MPS_FAITHFUL, VIRTUAL, child, run_forked
from recorded import read_record

import torchdevice_cuda
from torchdevice_cuda import settings
from torchdevice_cuda.settings import gpus

#: What ``torch.cuda.get_device_properties`` gave on a real one, less what differs from one to the next.
RECORDED = read_record("h200-properties.json")["properties"]
#: Memory is the host's on the one, the Mac's on the other.
LACKING = {"cpu": {"total_memory"}, "mps": {"total_memory", "shared_memory_per_block"}}


@child(*(place.with_settings(gpu="h200") for place in (CPU, VIRTUAL, MPS_FAITHFUL)))
def test_properties_are_those_of_a_real_one() -> None:
    real = RECORDED
    driver = torchdevice_cuda.activation.driver().name
    properties = torch.cuda.get_device_properties(0)
    found = {name: getattr(properties, name) for name in real}
    assert {name for name in real if real[name] != found[name]} <= LACKING.get(driver, set())
    assert torch.cuda.get_device_name() == "NVIDIA H200"
    assert torch.cuda.get_device_capability() == (9, 0)
    assert torch.cuda.mem_get_info()[1] == properties.total_memory


@child(VIRTUAL.with_settings(gpu="t4", memory="64MiB", capability="8.0"))
def test_single_choices_win() -> None:
    properties = torch.cuda.get_device_properties(0)
    assert (properties.name, properties.major, properties.minor) == ("Tesla T4", 8, 0)
    assert properties.multi_processor_count == 40
    with pytest.raises(torch.cuda.OutOfMemoryError, match="total capacity of 64.00 MiB"):
        torch.empty(65 << 20, dtype=torch.uint8, device="cuda")


@child(VIRTUAL.with_settings(gpu="a100-80"))
def test_capability_dependent_properties_follow_it() -> None:
    assert torch.cuda.is_bf16_supported()
    assert torch.cuda.is_bf16_supported(including_emulation=False)
    assert torch.cuda.get_device_properties(0).shared_memory_per_block_optin == 163 << 10


def _advance(count: int, multiprocessors: int, threads: int) -> int:
    """Return how far drawing so many numbers moves a CUDA generator: blocks of 256 threads draw four at a time."""
    blocks = min(multiprocessors * (threads // 256), -(-count // 256))
    return -(-count // (256 * blocks * 4)) * 4


@child(*(VIRTUAL.with_settings(gpu=key) for key in ("t4", "rtx-5090")), VIRTUAL)
@pytest.mark.parametrize("count", [100, 1_000_000, 3_000_000])
def test_large_draws_follow(count: int) -> None:
    """A GPU's numbers depend on how many threads draw them; where none was chosen they are an H200's."""
    gpu = torchdevice_cuda.activation.current_settings().profile or gpus.find("h200")
    torch.cuda.manual_seed(1)
    torch.rand(count, device="cuda")
    wanted = _advance(count, gpu.multiprocessors, gpu.architecture.threads)
    assert torch.cuda.default_generators[0].get_offset() == wanted


def test_children_see_the_same() -> None:
    """Interpreters that the program starts too."""
    child_code = "import torch; print(torch.cuda.get_device_name())"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child_code!r}], check=True)"
    assert run_forked("-m", "torchdevice_cuda", "--driver", "cpu", "--gpu", "l4", "-c", code).out.strip() == "NVIDIA L4"


@pytest.mark.parametrize("text", ["rtx-4090", "RTX 4090", "rtx4090", " Rtx_4090 "])
def test_spellings(text: str) -> None:
    assert settings.load({"gpu": text}, {}).gpu == "rtx-4090"


@pytest.mark.parametrize(("text", "near"), [("h2000", "h200"), ("a100", "a100-80"), ("rtx 4091", "rtx-4090")])
def test_an_unknown_name_gets_the_nearest(text: str, near: str) -> None:
    with pytest.raises(settings.SettingsError) as caught:
        settings.load({"gpu": text}, {})
    words = str(caught.value)
    assert words.startswith(f"--gpu={text!r} cannot be read; allowed: a profile such as")
    assert near in words.partition("the nearest are ")[2].split(", ")
