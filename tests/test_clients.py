"""Real libraries and programs written for CUDA, unmodified; see clients/README.md."""

from __future__ import annotations

import functools
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from harness import ChildConfig, python
from harness.places import must_be_ready

pytestmark = pytest.mark.slow

CLIENTS = Path(__file__).parent / "clients"
#: Each program, and the libraries it needs.
PROGRAMS: dict[str, tuple[str, ...]] = {
    "accelerate_fp16": ("accelerate",),
    "diffusers_unet": ("diffusers",),
    "geometric_gcn": ("torch_geometric",),
    "lightning_gpu": ("lightning",),
    "peft_lora": ("peft", "transformers"),
    "tensordict_cudagraphs": ("tensordict",),
    "timm_classifier": ("timm", "torchvision"),
    "torchmetrics_classifier": ("torchmetrics",),
    "torchvision_detection": ("torchvision",),
    "torchvision_images": ("torchvision",),
    "transformers_trainer": ("transformers", "accelerate"),
}
#: How far float32 results may be from stock torch's on the CPU; the cpu driver runs the very same kernels.
TOLERANCE = {"cpu": 0.0}
OTHER_TOLERANCE = 1e-4
#: Programs whose numbers come from a CUDA generator, and drivers where that is not the CPU's sequence (nor is CUDA's).
DRAWS_ON_DEVICE = {"diffusers_unet"}
OWN_SEQUENCE = {"virtual", "mps"}
TIMEOUT = 600


def _run(program: str, *launcher: str, **environment: str) -> dict[str, Any]:
    """Run a client program and return what it reports."""
    path = CLIENTS / f"{program}.py"
    done = python(*launcher, path, environment={"HF_HUB_OFFLINE": "1", **environment}, timeout=TIMEOUT)
    return json.loads(done.out.rpartition("RESULT ")[2])


@functools.cache
def _stock(program: str) -> dict[str, Any]:
    """Return the program's report on stock torch, on the CPU."""
    return _run(program, CLIENT_DEVICE="cpu")


def _require(libraries: tuple[str, ...]) -> None:
    missing = [library for library in libraries if importlib.util.find_spec(library) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (the extra 'clients' has them)")


def test_every_program_is_run() -> None:
    assert {path.stem for path in CLIENTS.glob("[!_]*.py")} == set(PROGRAMS)


@pytest.mark.parametrize("program", PROGRAMS)
def test_client(program: str, place: ChildConfig) -> None:
    _require(PROGRAMS[program])
    must_be_ready(place)
    identity = {} if place.driver == "cpu" else {"CLIENT_IDENTITY": "cuda"}
    options = [part for name, value in place.settings.items() for part in (f"--{name}", value)]
    reported = _run(program, "-m", "torchdevice_cuda", *options, **identity, **place.full_environment())
    if "skipped" in reported:
        pytest.skip(reported["skipped"])
    # Under accelerate what names no device is drawn on the device too: models start from other numbers.
    draws_on_device = program in DRAWS_ON_DEVICE or place.settings.get("policy") == "accelerate"
    if place.driver in OWN_SEQUENCE and draws_on_device:
        return  # its own assertions hold: losses finite and falling
    tolerance = TOLERANCE.get(str(place.driver), OTHER_TOLERANCE)
    _compare(reported["float32"], _stock(program)["float32"], tolerance, "float32")


def _compare(ours: Any, stock: Any, tolerance: float, where: str) -> None:
    """Compare structures, with every number within the tolerance."""
    if isinstance(stock, dict):
        assert ours.keys() == stock.keys(), where
        for key in stock:
            _compare(ours[key], stock[key], tolerance, f"{where}.{key}")
    else:
        assert ours == pytest.approx(stock, rel=tolerance, abs=tolerance), where
