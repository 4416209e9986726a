"""A checkpoint written on a real GPU by tools/make_checkpoint.py loads, and training goes on from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from conftest import EMULATION, ROOT, TRUE_TO_IDENTITY

FILE = ROOT / "tests" / "data" / "checkpoint-cuda.pt"
pytestmark = pytest.mark.skipif(
    not FILE.exists(), reason=f"no {FILE.name}: tools/make_checkpoint.py writes it on a GPU"
)

#: How a program may say where the checkpoint goes -> the device type its CUDA tensors then have.
LOCATIONS = {
    "": "cuda",
    "map_location='cuda'": "cuda",
    "map_location='cuda:0'": "cuda",
    "map_location='cpu'": "cpu",
    "map_location=torch.device('cuda')": "cuda",
    "map_location=torch.device('cuda', 0)": "cuda",
    "map_location=torch.device('cpu')": "cpu",
    "map_location={'cuda:0': 'cpu'}": "cpu",
    "map_location={'cuda:0': 'cuda:0'}": "cuda",
    "map_location={'cuda:1': 'cuda:0'}": "cuda",
    "map_location=lambda storage, location: storage": "cpu",
    "map_location=lambda storage, location: storage.cuda()": "cuda",
    "map_location=lambda storage, location: None": "cuda",
    "mmap=True": "cuda",
    "mmap=True, map_location='cpu'": "cpu",
    "mmap=True, map_location='cuda'": "cuda",
    "weights_only=False": "cuda",
}

PROGRAM = f"""
import sys
sys.path.insert(0, {str(ROOT / "tools")!r})
import torch
from make_checkpoint import build, evaluate, train

FILE = {str(FILE)!r}
"""


@pytest.fixture
def train_on(run: Callable[..., Any], place: dict[str, str]) -> Callable[[str], Any]:
    """Run a program that has the checkpoint."""
    return lambda body: run(PROGRAM + _dedented(body), env=EMULATION.get(place["driver"]), **place)


def test_the_file_was_written_on_a_gpu() -> None:
    """Its storages are tagged with CUDA's device: a file written elsewhere would prove nothing."""
    import zipfile

    with zipfile.ZipFile(FILE) as archive:
        pickled = archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))
    assert b"cuda:0" in pickled
    assert FILE.stat().st_size < 100 * 1024


def test_everything_loads_and_training_goes_on(train_on: Callable[[str], Any]) -> None:
    program = """
        import math
        saved = torch.load(FILE)
        model, optimizer, scaler = build("cuda")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scaler.load_state_dict(saved["scaler"])
        torch.set_rng_state(saved["cpu_rng"])
        # The CPU's generator is named: without one, some policies draw on the device.
        assert torch.rand(4, generator=torch.default_generator).tolist() == saved["next_cpu_random"]

        # The model is the one that was saved: it gives the loss that it gave there.
        before = evaluate(model, saved["data"])
        assert math.isclose(before, saved["loss"], rel_tol=1e-3), (before, saved["loss"])
        assert scaler.get_scale() == saved["scaler"]["scale"]
        assert optimizer.state_dict()["state"].keys() == saved["optimizer"]["state"].keys()

        losses = train(model, optimizer, scaler, saved["data"], 20)
        assert all(math.isfinite(loss) for loss in losses), losses
        assert losses[-1] < losses[0] < saved["losses"][0], (losses, saved["losses"])
        assert evaluate(model, saved["data"]) < before
        steps = {entry["step"].item() for entry in optimizer.state_dict()["state"].values()}
        assert steps == {len(saved["losses"]) + 20}, steps
    """
    train_on(program)


def test_cuda_random_state_is_restored(train_on: Callable[[str], Any]) -> None:
    program = """
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
        torch.cuda.set_rng_state(saved["cuda_rng"])
        kept = torch.cuda.get_rng_state()
        expected = torch.rand(8, device="cuda")
        torch.cuda.set_rng_state(kept)
        assert torch.equal(torch.rand(8, device="cuda"), expected)
    """
    train_on(program)


def test_every_way_to_say_where(train_on: Callable[[str], Any], place: dict[str, str]) -> None:
    """One process loads the file in each way; the values are always the same."""
    identity = place["driver"] in TRUE_TO_IDENTITY
    # Where requests for the CPU go to the accelerator, what is loaded for it does too.
    at_home = "cuda" if place.get("policy") == "accelerate" else "cpu"
    lines = []
    for arguments, kind in LOCATIONS.items():
        call = f"torch.load(FILE{', ' + arguments if arguments else ''})"
        expected = ("cuda" if kind == "cuda" else at_home) if identity else "cpu"
        lines.append(f"check(lambda: {call}, {expected!r}, {call!r})")
    program = """
        stock = {}

        def check(load, kind, how):
            saved = load()
            inputs, labels = saved["data"]
            tensors = [*saved["model"].values(), inputs, labels]
            found = {tensor.device.type for tensor in tensors}
            assert found == {kind}, (how, found)
            values = [tensor.tolist() for tensor in tensors]
            assert stock.setdefault("values", values) == values, how
            model, optimizer, scaler = build("cuda")
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
            assert saved["cpu_rng"].device.type in ("cpu", kind), how
            data = inputs.to("cuda"), labels.to("cuda")
            assert abs(evaluate(model, data) - saved["loss"]) < 1e-3, how
    """
    train_on(_dedented(program) + "\n".join(lines))


def _dedented(text: str) -> str:
    import textwrap

    return textwrap.dedent(text)
