"""A checkpoint written on a real GPU loads, and training goes on from it."""

from __future__ import annotations

import math
import zipfile
from typing import Any

import pytest
import torch
from harness import EVERYWHERE, ChildConfig, child
from harness.processes import ROOT
from recorded.checkpoint import build, evaluate, train

FILE = ROOT / "tests" / "data" / "checkpoint-cuda.pt"


def test_the_file_was_written_on_a_gpu() -> None:
    """Its storages are tagged with CUDA's device: a file written elsewhere would prove nothing."""
    with zipfile.ZipFile(FILE) as archive:
        pickled = archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))
    assert b"cuda:0" in pickled
    assert FILE.stat().st_size < 100 * 1024


def restored() -> tuple[dict[str, Any], Any, Any, Any]:
    """Load a checkpoint, and a model, an optimizer and a scaler that continue from it."""
    saved = torch.load(FILE)
    model, optimizer, scaler = build("cuda")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    scaler.load_state_dict(saved["scaler"])
    return saved, model, optimizer, scaler


@child(*EVERYWHERE)
def test_the_model_is_the_one_that_was_saved() -> None:
    saved, model, optimizer, scaler = restored()
    assert math.isclose(evaluate(model, saved["data"]), saved["loss"], rel_tol=1e-3)
    assert scaler.get_scale() == saved["scaler"]["scale"]
    assert optimizer.state_dict()["state"].keys() == saved["optimizer"]["state"].keys()


@child(*EVERYWHERE)
def test_training_goes_on() -> None:
    saved, model, optimizer, scaler = restored()
    before = evaluate(model, saved["data"])
    losses = train(model, optimizer, scaler, saved["data"], 20)
    assert all(math.isfinite(loss) for loss in losses)
    assert losses[-1] < losses[0] < saved["losses"][0]
    assert evaluate(model, saved["data"]) < before
    steps = {entry["step"].item() for entry in optimizer.state_dict()["state"].values()}
    assert steps == {len(saved["losses"]) + 20}


@child(*EVERYWHERE)
def test_the_cpus_random_state_is_restored() -> None:
    saved = torch.load(FILE)
    torch.set_rng_state(saved["cpu_rng"])
    # The CPU's generator is named: without one, some policies draw on the device.
    assert torch.rand(4, generator=torch.default_generator).tolist() == saved["next_cpu_random"]


@child(*EVERYWHERE)
def test_cudas_random_state_is_restored() -> None:
    saved = torch.load(FILE)
    draws = []
    for _ in range(2):
        torch.cuda.set_rng_state(saved["cuda_rng"])
        torch.cuda.set_rng_state_all([saved["cuda_rng"]])
        draws.append(torch.rand(8, device="cuda"))
        torch.rand(8, device="cuda")
    assert torch.equal(*draws)
    torch.cuda.manual_seed(1)
    assert not torch.equal(torch.rand(8, device="cuda"), draws[0])


@child(*EVERYWHERE)
def test_cudas_random_state_is_kept() -> None:
    torch.cuda.set_rng_state(torch.load(FILE)["cuda_rng"])
    kept = torch.cuda.get_rng_state()
    expected = torch.rand(8, device="cuda")
    torch.cuda.set_rng_state(kept)
    assert torch.equal(torch.rand(8, device="cuda"), expected)


#: How a program may say where the checkpoint goes, and the device type its CUDA tensors then have.
LOCATIONS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "cuda"),
    "cuda": ({"map_location": "cuda"}, "cuda"),
    "cuda:0": ({"map_location": "cuda:0"}, "cuda"),
    "cpu": ({"map_location": "cpu"}, "cpu"),
    "device cuda": ({"map_location": torch.device("cuda")}, "cuda"),
    "device cuda:0": ({"map_location": torch.device("cuda", 0)}, "cuda"),
    "device cpu": ({"map_location": torch.device("cpu")}, "cpu"),
    "cuda:0 to cpu": ({"map_location": {"cuda:0": "cpu"}}, "cpu"),
    "cuda:0 to cuda:0": ({"map_location": {"cuda:0": "cuda:0"}}, "cuda"),
    "cuda:1 to cuda:0": ({"map_location": {"cuda:1": "cuda:0"}}, "cuda"),
    "storage": ({"map_location": lambda storage, location: storage}, "cpu"),
    "storage.cuda()": ({"map_location": lambda storage, location: storage.cuda()}, "cuda"),
    "a function that leaves it": ({"map_location": lambda storage, location: None}, "cuda"),
    "mapped": ({"mmap": True}, "cuda"),
    "mapped, cpu": ({"mmap": True, "map_location": "cpu"}, "cpu"),
    "mapped, cuda": ({"mmap": True, "map_location": "cuda"}, "cuda"),
    "not only weights": ({"weights_only": False}, "cuda"),
}


def tensors(saved: dict[str, Any]) -> list[torch.Tensor]:
    return [*saved["model"].values(), *saved["data"]]


@child(*EVERYWHERE)
@pytest.mark.parametrize("location", LOCATIONS)
def test_every_way_to_say_where(place: ChildConfig, location: str) -> None:
    options, kind = LOCATIONS[location]
    if place.driver == "cpu":
        kind = "cpu"
    saved = torch.load(FILE, **options)
    assert {tensor.device.type for tensor in tensors(saved)} == {kind}
    if place.settings.get("policy") == "accelerate":  # and wherever it says that it is
        assert {torch._C.TensorBase.device.__get__(tensor).type for tensor in tensors(saved)} == {"mps"}
    assert saved["cpu_rng"].device.type in ("cpu", kind)
    values = [tensor.tolist() for tensor in tensors(saved)]
    assert values == [tensor.tolist() for tensor in tensors(torch.load(FILE))]
    model, optimizer, _ = build("cuda")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    inputs, labels = saved["data"]
    assert abs(evaluate(model, (inputs.to("cuda"), labels.to("cuda"))) - saved["loss"]) < 1e-3
