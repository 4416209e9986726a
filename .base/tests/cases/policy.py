"""The redirection table through real tensors, on the ``cpu`` driver: the column for machines without an accelerator."""

from __future__ import annotations

import io
import threading
from typing import Any

import torch
from torch import nn

CPU = torch.device("cpu")
FORMS: tuple[Any, ...] = (
    None,
    "cpu",
    "cpu:0",
    "cpu:-1",
    "cpu:-1",
    "mps",
    "mps:0",
    "cuda",
    "cuda:0",
    torch.device("cpu"),
    torch.device("cpu", 0),
    torch.device("mps"),
    torch.device("mps", 0),
    torch.device("cuda"),
    torch.device("cuda", 0),
    0,
)
NAMED = tuple(form for form in FORMS if form is not None)


def attempt(call: Any) -> str:
    """The error of a call, kind and text."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def case_factories() -> None:
    for form in FORMS:
        for make in (
            lambda d: torch.zeros(2, device=d),
            lambda d: torch.tensor([1.0], device=d),
            lambda d: torch.as_tensor([1.0], device=d),
            lambda d: torch.rand(2, device=d),
            lambda d: torch.zeros_like(torch.ones(1), device=d),
            lambda d: torch.ones(1).new_zeros(2, device=d),
            lambda d: nn.Linear(1, 1, device=d).weight,
        ):
            assert make(form).device == CPU, form


def case_moves() -> None:
    for form in NAMED:
        x = torch.ones(2)
        assert x.to(form).device == x.to(device=form).device == CPU, form
        assert x.to(form, torch.float64).dtype is torch.float64, form
        assert nn.Linear(1, 1).to(form).weight.device == CPU, form
        assert nn.Linear(1, 1).to(device=form).weight.device == CPU, form
    for form in ("cuda", "cuda:0", torch.device("cuda"), 0, None):
        assert torch.ones(2).cuda(form).device == CPU and nn.Linear(1, 1).cuda(form).weight.device == CPU
    assert torch.ones(2).cpu().device == CPU and nn.Linear(1, 1).cpu().weight.device == CPU


def case_loading() -> None:
    buffer = io.BytesIO()
    torch.save(torch.ones(2), buffer)
    for form in (None, "cpu", "mps", "cuda", "cuda:0", torch.device("cuda", 0), torch.device("mps"), CPU):
        buffer.seek(0)
        assert torch.load(buffer, map_location=form).device == CPU, form


def case_defaults_and_contexts() -> None:
    for form in ("cpu", "cpu:0", "mps", "mps:0", "cuda", "cuda:0", torch.device("cuda", 0), torch.device("mps"), CPU):
        try:
            torch.set_default_device(form)
            assert torch.zeros(2).device == CPU and torch.tensor([1.0]).device == CPU, form
        finally:
            torch.set_default_device(None)
        with torch.device(form):
            assert torch.zeros(2).device == CPU and nn.Linear(1, 1).weight.device == CPU, form


def case_bad_requests() -> dict[str, str]:
    x = torch.ones(1)
    bad = ("cuda:99", "cuda:x", "gpu", "cuda:-1", "cuda:0:1", "", True, 1.5, [], {}, 99, torch.device("cuda", 99))
    seen = {}
    for request in bad:
        seen[f"zeros {request!r}"] = attempt(lambda r=request: torch.zeros(1, device=r))
        seen[f"like {request!r}"] = attempt(lambda r=request: torch.zeros_like(x, device=r))
        if request not in ([], {}, True, 1.5):  # stock torch reads the last two as something else
            seen[f"to {request!r}"] = attempt(lambda r=request: x.to(r))
    return seen


def case_other_devices_pass_through() -> None:
    assert torch.zeros(2, device="meta").device.type == "meta" and torch.ones(1).to("meta").is_meta
    assert "xpu" in attempt(lambda: torch.zeros(1, device="xpu")).lower()


def case_toggling_from_threads() -> None:
    """An even number of toggles from many threads leaves the override as it was, whatever their order."""
    from torchdevice_cuda.translate.policy import Override

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
