"""Workers, forked and spawned children, under both policies."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp
from harness import MPS, MPS_FAITHFUL, VIRTUAL, ChildConfig, child, in_child, outcome
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

#: Workers take their time to start: under the policy that is not the default, rarely.
everywhere = child(MPS, MPS_FAITHFUL.rarely())
by_both_methods = pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
#: Where a tensor really is that was asked for without a device, by the policy; it says that it is the CPU's.
UNASKED = {"accelerate": "mps:0", "faithful": "cpu"}


def real(x: torch.Tensor) -> str:
    """Return a tensor's real device."""
    return str(torch._C.TensorBase.device.__get__(x))


class Made(Dataset):
    """Made in the workers, which stay on the CPU."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        x, y = torch.full((2,), float(index)), torch.tensor(index, device="cpu")
        assert x.is_cpu
        assert y.is_cpu
        assert torch.ones(2).numpy().sum() == 2
        return {"x": x, "y": y}


def _load(data: Dataset, method: str, **options: Any) -> DataLoader:
    """Have two forked workers load, or one that is spawned: it takes as long to start as all else here."""
    workers = {"fork": 2, "spawn": 1}[method]
    return DataLoader(data, batch_size=4, num_workers=workers, multiprocessing_context=method, **options)


@everywhere
@by_both_methods
def test_workers_with_tensors_that_are_held(place: ChildConfig, method: str) -> None:
    held = TensorDataset(torch.arange(16.0).reshape(8, 2), torch.arange(8))
    batches = list(_load(held, method, shuffle=True, generator=torch.Generator().manual_seed(1)))
    assert real(batches[0][0]) == UNASKED[place.settings["policy"]]
    assert sorted(torch.cat([y for _, y in batches]).tolist()) == list(range(8))
    assert held.tensors[0].device == torch.zeros(1).device  # the dataset itself was not changed


@everywhere
@by_both_methods
def test_workers_with_tensors_that_they_make(place: ChildConfig, method: str) -> None:
    first, second = _load(Made(), method)
    assert real(first["x"]) == UNASKED[place.settings["policy"]]
    assert second["y"].tolist() == [4, 5, 6, 7]


@everywhere
@by_both_methods
def test_batches_that_are_pinned(method: str) -> None:
    batch = next(iter(_load(Made(), method, pin_memory=True)))
    assert batch["x"].is_pinned()
    assert str(batch["x"].cuda(non_blocking=True).device) == "cuda:0"


def _forked(after_use: bool = True) -> dict[str, Any]:
    """Return a forked child's own report."""
    if after_use:
        torch.ones(1, device="cuda")
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        try:
            a, b = torch.zeros(2), torch.ones(2, device="cpu")
            said = {"unasked": str(a.device), "cpu": str(b.device), "sum": (a + b).tolist(), "error": None}
            try:
                torch.zeros(1, device="cuda")
            except RuntimeError as error:
                said["error"] = str(error)
            os.write(writer, json.dumps(said).encode())
        finally:
            os._exit(0)
    os.waitpid(process, 0)
    return json.loads(os.read(reader, 4096))


@everywhere
def test_a_forked_child_stays_home() -> None:
    said = _forked()
    assert said["unasked"] == "cpu"
    assert said["cpu"] == "cpu"
    assert said["sum"] == [1, 1]


@everywhere
def test_a_forked_child_is_refused_the_gpu() -> None:
    assert _forked()["error"].startswith("Cannot re-initialize CUDA in forked subprocess")


def _untouched() -> dict[str, Any]:
    return _forked(after_use=False)


@pytest.mark.native
@pytest.mark.mps
def test_a_child_is_refused_the_gpu_though_nobody_has_used_it() -> None:
    """To ask whether there is one has brought Metal up, which does not survive a fork."""
    assert in_child(_untouched, MPS_FAITHFUL)["error"].startswith("Cannot re-initialize CUDA in forked subprocess")


@everywhere
def test_the_parent_of_a_forked_child_goes_on() -> None:
    _forked()
    assert (torch.ones(1, device="cuda") + 1).tolist() == [2]


def _use(queue: Any, x: torch.Tensor, parameter: nn.Parameter, on_cpu: torch.Tensor) -> None:
    y = x + 1
    queue.put(
        {
            "received": [str(t.device) for t in (x, parameter, x.view(2), on_cpu)],
            "device": str(y.device),
            "values": y.tolist(),
            "unasked": real(torch.zeros(1)),
            "parameter": isinstance(parameter, nn.Parameter) and parameter.requires_grad,
        }
    )


@everywhere
def test_a_spawned_child_has_the_gpu(place: ChildConfig) -> None:
    context = mp.get_context("spawn")
    queue = context.Queue()
    x, parameter = torch.ones(2, device="cuda"), nn.Parameter(torch.ones(1, device="cuda"))
    process = context.Process(target=_use, args=(queue, x, parameter, torch.ones(2)))
    process.start()
    said = queue.get(timeout=100)
    process.join()
    assert said["received"] == ["cuda:0", "cuda:0", "cuda:0", "cpu"]
    assert said["device"] == "cuda:0"
    assert said["values"] == [2, 2]
    assert said["unasked"] == UNASKED[place.settings["policy"]]
    assert said["parameter"]


def _produce(queue: Any, done: Any) -> None:
    for number in range(2):
        queue.put((number, torch.full((2,), float(number)), nn.Parameter(torch.ones(1))))
    done.wait(60)


@everywhere
@by_both_methods
def test_tensors_through_queues(method: str) -> None:
    context = mp.get_context(method)
    queue, done = context.Queue(), context.Event()
    process = context.Process(target=_produce, args=(queue, done))
    process.start()
    got = [queue.get(timeout=100) for _ in range(2)]
    done.set()
    process.join()
    for wanted, (number, x, parameter) in enumerate(got):
        assert number == wanted
        assert (x + torch.ones(2)).tolist() == [number + 1] * 2  # what arrives can meet what is made here
        assert type(parameter) is nn.Parameter
        assert parameter.requires_grad


def _square(x: torch.Tensor) -> torch.Tensor:
    return (x * x).sum()


@everywhere
@by_both_methods
def test_tensors_through_pools(method: str) -> None:
    with mp.get_context(method).Pool({"fork": 2, "spawn": 1}[method]) as pool:
        assert [value.item() for value in pool.map(_square, [torch.ones(2) * n for n in range(3)])] == [0, 2, 8]


def share() -> None:
    torch.ones(1).share_memory_()
    torch.ones(1).share_memory_()


def _warnings(place: ChildConfig) -> int:
    done = outcome(share, place)
    done.checked()
    return done.err.count("memory of the GPU is not shared")


@pytest.mark.native
@pytest.mark.mps
def test_sharing_the_gpus_memory_is_warned_about_once() -> None:
    assert _warnings(MPS) == 1


@child(VIRTUAL, MPS, MPS_FAITHFUL)
@pytest.mark.filterwarnings("ignore:memory of the GPU is not shared")
def test_sharing_the_gpus_memory_does_nothing() -> None:
    """As CUDA's documentation says; a subclass that handles functions is asked, as ever."""
    x = torch.ones(2, device="cuda")
    assert x.share_memory_() is x
    asked = []

    class Watching(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append(function.__name__)
            return super().__torch_function__(function, types, args, kwargs or {})

    x.as_subclass(Watching).share_memory_()
    assert "share_memory_" in asked


@pytest.mark.native
@pytest.mark.mps
def test_sharing_what_is_on_the_cpu_is_not() -> None:
    assert _warnings(MPS_FAITHFUL) == 0
