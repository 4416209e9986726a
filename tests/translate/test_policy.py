"""The redirection table through real tensors, on the ``cpu`` driver: the column for machines without an accelerator."""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness import CPU, STOCK, child, outcome
from torch import nn

from torchdevice_cuda.translate.core.policy import Override

from .asking import HOST

BOTH = (CPU, CPU.with_settings(policy="accelerate"))
#: What a program may write where a device is asked for. "cpu:-1" turns the override over.
FORMS: dict[str, Any] = {
    "None": None,
    "cpu": "cpu",
    "cpu:0": "cpu:0",
    "cpu:-1": "cpu:-1",
    "cpu:-1 again": "cpu:-1",
    "mps": "mps",
    "mps:0": "mps:0",
    "cuda": "cuda",
    "cuda:0": "cuda:0",
    "device cpu": torch.device("cpu"),
    "device cpu:0": torch.device("cpu", 0),
    "device mps": torch.device("mps"),
    "device mps:0": torch.device("mps", 0),
    "device cuda": torch.device("cuda"),
    "device cuda:0": torch.device("cuda", 0),
    "0": 0,
}
NAMED = [form for form in FORMS if form != "None"]
#: Those that torch.device takes as well.
DEVICES = [form for form in NAMED if "-1" not in form and form != "0"]
FACTORIES: dict[str, Callable[[Any], torch.Tensor]] = {
    "zeros": lambda device: torch.zeros(2, device=device),
    "tensor": lambda device: torch.tensor([1.0], device=device),
    "as_tensor": lambda device: torch.as_tensor([1.0], device=device),
    "rand": lambda device: torch.rand(2, device=device),
    "zeros_like": lambda device: torch.zeros_like(torch.ones(1), device=device),
    "new_zeros": lambda device: torch.ones(1).new_zeros(2, device=device),
    "Linear": lambda device: nn.Linear(1, 1, device=device).weight,
}


@child(*BOTH)
@pytest.mark.parametrize("form", FORMS)
def test_factories(form: str) -> None:
    for name, make in FACTORIES.items():
        assert make(FORMS[form]).device == HOST, name


@child(*BOTH)
@pytest.mark.parametrize("form", NAMED)
def test_moves(form: str) -> None:
    x, to = torch.ones(2), FORMS[form]
    assert x.to(to).device == HOST
    assert x.to(device=to).device == HOST
    assert x.to(to, torch.float64).dtype is torch.float64
    assert nn.Linear(1, 1).to(to).weight.device == HOST
    assert nn.Linear(1, 1).to(device=to).weight.device == HOST


@child(*BOTH)
@pytest.mark.parametrize("form", ["None", "0", "cuda", "cuda:0", "device cuda"])
def test_cuda(form: str) -> None:
    assert torch.ones(2).cuda(FORMS[form]).device == HOST
    assert nn.Linear(1, 1).cuda(FORMS[form]).weight.device == HOST


@child(*BOTH)
def test_cpu() -> None:
    assert torch.ones(2).cpu().device == HOST
    assert nn.Linear(1, 1).cpu().weight.device == HOST


@child(*BOTH)
@pytest.mark.parametrize("form", ["None", *(form for form in DEVICES if "cpu:0" not in form)])
def test_loading(form: str) -> None:
    buffer = io.BytesIO()
    torch.save(torch.ones(2), buffer)
    buffer.seek(0)
    assert torch.load(buffer, map_location=FORMS[form]).device == HOST


@child(*BOTH)
@pytest.mark.parametrize("form", DEVICES)
def test_default_devices(form: str) -> None:
    torch.set_default_device(FORMS[form])
    try:
        assert torch.zeros(2).device == HOST
        assert torch.tensor([1.0]).device == HOST
    finally:
        torch.set_default_device(None)


@child(*BOTH)
@pytest.mark.parametrize("form", DEVICES)
def test_device_contexts(form: str) -> None:
    with torch.device(FORMS[form]):
        assert torch.zeros(2).device == HOST
        assert nn.Linear(1, 1).weight.device == HOST


@child(*BOTH)
def test_other_devices_pass_through() -> None:
    assert torch.zeros(2, device="meta").device.type == "meta"
    assert torch.ones(1).to("meta").is_meta
    with pytest.raises(Exception, match="(?i)xpu"):
        torch.zeros(1, device="xpu")


@child(*BOTH)
def test_toggling_from_threads() -> None:
    """An even number of toggles from many threads leaves the override as it was, whatever their order."""
    override = Override()

    def work() -> None:
        for _ in range(1000):
            override.toggle()
            torch.zeros(1, device="cpu:-1")
            override.toggle()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not override.on


# ------------------------------------------------------------------------- bad requests
ORDINAL = "CUDA error: invalid device ordinal"
#: A request, the error of torch or CUDA, and its words.
BAD: dict[str, tuple[Any, str, str]] = {
    "cuda:99": ("cuda:99", "AcceleratorError|RuntimeError", ORDINAL),
    "99": (99, "AcceleratorError|RuntimeError", ORDINAL),
    "device cuda:99": (torch.device("cuda", 99), "AcceleratorError|RuntimeError", ORDINAL),
    "cuda:x": ("cuda:x", "RuntimeError", "Invalid device string: 'cuda:x'"),
    "cuda:-1": ("cuda:-1", "RuntimeError", "Invalid device string: 'cuda:-1'"),
    "cuda:0:1": ("cuda:0:1", "RuntimeError", "Invalid device string: 'cuda:0:1'"),
    "gpu": ("gpu", "RuntimeError", "Expected one of cpu, cuda,"),
    "empty": ("", "RuntimeError", "Device string must not be empty"),
}
#: No requests at all; to Tensor.to they are something else.
NO_REQUESTS: dict[str, Any] = {"True": True, "1.5": 1.5, "[]": [], "{}": {}}
CALLS: dict[str, Callable[[Any], torch.Tensor]] = {
    "zeros": lambda device: torch.zeros(1, device=device),
    "zeros_like": lambda device: torch.zeros_like(torch.ones(1), device=device),
    "to": lambda device: torch.ones(1).to(device),
}


@child(CPU)
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("call", CALLS)
def test_bad_requests_get_the_errors_of_torch_and_cuda(call: str, bad: str) -> None:
    request, kinds, words = BAD[bad]
    with pytest.raises(Exception) as raised:  # noqa: PT011  (its name is compared: torch may have made a subclass)
        CALLS[call](request)
    assert type(raised.value).__name__ in kinds.split("|")
    assert words in str(raised.value)


@child(CPU, as_in=STOCK)
@pytest.mark.parametrize("bad", NO_REQUESTS)
@pytest.mark.parametrize("call", [call for call in CALLS if call != "to"])
def test_invalid_requests_raise_torchs_error(call: str, bad: str) -> list[str]:
    with pytest.raises(TypeError) as raised:
        CALLS[call](NO_REQUESTS[bad])
    return str(raised.value).splitlines()[:1]


# ------------------------------------------------------------------------------ the log
class Keep(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def line() -> int:
    return sys._getframe(1).f_lineno


@child(CPU.with_settings(log_level="INFO"), alone=True)
def test_redirections_are_logged_once_per_call_site() -> None:
    kept = Keep()
    logging.getLogger("torchdevice_cuda").addHandler(kept)
    for _ in range(3):
        here = line()
        torch.zeros(1, device="cuda")
        torch.zeros(1, device="cuda")
        torch.ones(1).to("cuda:0")
        nn.Linear(1, 1).to("mps")
        torch.zeros(1)
        torch.zeros(1, device="cpu")
        torch.ones(1).cpu()
    went = ["cuda goes to cpu", "cuda goes to cpu", "cuda:0 goes to cpu", "mps goes to cpu"]
    assert kept.texts == [f"{__file__}:{here + number}: {text}" for number, text in enumerate(went, start=1)]


def move_to_cuda() -> None:
    torch.zeros(1, device="cuda").cuda().cpu()


def test_no_logging_by_default() -> None:
    done = outcome(move_to_cuda, CPU)
    done.checked()
    assert "goes to" not in done.err
    assert "goes to" not in done.out
