"""The redirection table where there is an accelerator: every cell, through every way of asking, on real tensors."""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch
from harness import ACCELERATING, FAITHFUL, ChildConfig, child
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch.utils.data import DataLoader, RandomSampler, WeightedRandomSampler

accelerating = child(*ACCELERATING)
#: The arguments that a request is made of: none, or a device.
Asked = dict[str, Any]


def real(x: torch.Tensor) -> str:
    """Return the type of the device that really holds a tensor."""
    return torch._C.TensorBase.device.__get__(x).type


def gpu(place: ChildConfig) -> str:
    """Return the type of the accelerator's tensors."""
    return "mps" if place.driver == "mps" else "cuda"


def _kind(asked: Asked) -> str:
    return torch.device(asked["device"]).type


def _entering(asked: Asked, x: torch.Tensor) -> torch.Tensor:
    return x.to(**asked) if asked else x


def _legacy(asked: Asked) -> torch.Tensor:
    return (torch if not asked or _kind(asked) == "cpu" else torch.cuda).LongTensor([1, 2])


def _converted(asked: Asked) -> torch.Tensor:
    types = {"cpu": torch.FloatTensor, "cuda": torch.cuda.FloatTensor, "mps": "torch.cuda.FloatTensor"}
    return torch.zeros(2).type(types[_kind(asked)]) if asked else torch.FloatTensor(2)


def _by_default(asked: Asked) -> torch.Tensor:
    torch.set_default_device(asked.get("device"))
    try:
        return torch.zeros(2)
    finally:
        torch.set_default_device(None)


def _in_context(asked: Asked) -> torch.Tensor:
    with torch.device(asked["device"]) if asked else contextlib.nullcontext():
        return torch.zeros(2)


def _loaded(asked: Asked) -> torch.Tensor:
    file = io.BytesIO()
    torch.save(torch._C._VariableFunctions.zeros(2), file)
    file.seek(0)
    return torch.load(file, map_location=asked.get("device"))


def _emptied(asked: Asked) -> torch.Tensor:
    return nn.Linear(2, 2, device="meta").to_empty(**(asked or {"device": torch.zeros(1).device})).weight


#: Ways of asking.
WAYS: dict[str, Callable[[Asked], torch.Tensor]] = {
    "factory": lambda asked: torch.zeros(2, **asked),
    "tensor": lambda asked: torch.tensor([1.0, 2.0], **asked),
    "to": lambda asked: _entering(asked, torch.ones(2)),
    "new": lambda asked: torch.ones(2).new_zeros(2, **asked),
    "module": lambda asked: nn.Linear(2, 2, **asked).weight,
    "module to": lambda asked: (nn.Linear(2, 2).to(**asked) if asked else nn.Linear(2, 2)).weight,
    "context": _in_context,
    "as_tensor": lambda asked: torch.as_tensor(numpy.ones(2, "float32"), **asked),
    "load": _loaded,
    "legacy": _legacy,
    "type": _converted,
    "parameter": lambda asked: _entering(asked, nn.Parameter(torch.Tensor(2))),
    "randperm": lambda asked: torch.randperm(3, **asked),
    "entering": lambda asked: _entering(asked, torch.from_numpy(numpy.ones(2))),
    "dlpack": lambda asked: _entering(asked, torch.from_dlpack(numpy.ones(2, "float32"))),
    "dlpack of old": lambda asked: _entering(asked, torch.utils.dlpack.from_dlpack(numpy.ones(2, "float32"))),
    "default": _by_default,
    "empty": _emptied,
}
#: A request, whether it is for a ``torch.device``, and whether it is for home.
REQUESTS: dict[str, tuple[str | None, bool, bool]] = {
    "none": (None, False, True),
    "cpu": ("cpu", False, True),
    "cpu:0": ("cpu:0", False, True),
    "mps": ("mps", False, False),
    "mps:0": ("mps:0", False, False),
    "cuda": ("cuda", False, False),
    "cuda:0": ("cuda:0", False, False),
    "device(cuda)": ("cuda", True, False),
    "device(cpu)": ("cpu", True, True),
    "device(mps)": ("mps", True, False),
}


@child(*ACCELERATING, *FAITHFUL)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("request_", REQUESTS)
def test_every_cell(place: ChildConfig, request_: str, way: str) -> None:
    name, as_device, for_home = REQUESTS[request_]
    asked = {} if name is None else {"device": torch.device(name) if as_device else name}
    stays = place.settings.get("policy") != "accelerate" and for_home
    assert real(WAYS[way](asked)) == ("cpu" if stays else gpu(place))


@contextlib.contextmanager
def _override() -> Iterator[torch.Tensor]:
    """Return the tensor that turned the override on; it is turned off at the end."""
    try:
        yield torch.zeros(1, device="cpu:-1")
    finally:
        torch.zeros(1, device="cpu:-1")


@accelerating
def test_the_toggle_gives_the_cpu() -> None:
    with _override() as first:
        assert real(first) == "cpu"
        assert real(torch.zeros(1, device="cpu")) == "cpu"
        assert real(torch.ones(1, device="cuda").cpu()) == "cpu"


@accelerating
def test_the_toggle_is_for_the_cpu_alone(place: ChildConfig) -> None:
    with _override():
        assert real(torch.zeros(1)) == gpu(place)
        assert real(torch.zeros(1, device="cuda")) == gpu(place)


@accelerating
def test_the_second_toggle_turns_it_off(place: ChildConfig) -> None:
    with _override():
        pass
    assert real(torch.zeros(1, device="cpu")) == gpu(place)


@accelerating
def test_the_request_that_toggles_off_is_on_the_cpu() -> None:
    torch.zeros(1, device="cpu:-1")
    assert real(torch.zeros(1, device="cpu:-1")) == "cpu"


@accelerating
def test_other_devices_pass_through() -> None:
    assert str(torch.zeros(2, device="meta").device) == "meta"


# ------------------------------------------- requests that torch's own code makes are not redirected


@accelerating
def test_samplers_draw_on_the_cpu() -> None:
    generator = torch.Generator().manual_seed(0)
    assert sorted(RandomSampler(range(4), generator=generator)) == [0, 1, 2, 3]
    assert len(list(WeightedRandomSampler([0.5, 0.5], 3, generator=generator))) == 3


@accelerating
def test_optimizers_count_on_the_cpu(place: ChildConfig) -> None:
    p = nn.Parameter(torch.ones(2))
    assert real(p) == gpu(place)
    adam = torch.optim.Adam([p])
    p.sum().backward()
    adam.step()
    assert real(adam.state[p]["step"]) == "cpu"


@accelerating
def test_printing() -> None:
    assert repr(torch.ones(2) / 3) == "tensor([0.3333, 0.3333], device='cuda:0')"


LEAVING: dict[str, Callable[[torch.Tensor], list[float]]] = {
    "numpy": lambda x: x.numpy().tolist(),
    "asarray": lambda x: numpy.asarray(x).tolist(),
    "tolist": lambda x: x.tolist(),
    "dlpack": lambda x: numpy.from_dlpack(x).tolist(),
}
ENTERING: dict[str, Callable[[], torch.Tensor]] = {
    "from_numpy": lambda: torch.from_numpy(numpy.ones(2, "float32")),
    "frombuffer": lambda: torch.frombuffer(bytearray(8), dtype=torch.float32),
    "pickle": lambda: pickle.loads(pickle.dumps(torch.arange(3.0))),
    "deepcopy": lambda: copy.deepcopy(torch.arange(3.0)),
}


@accelerating
@pytest.mark.parametrize("way", LEAVING)
def test_data_leaves(way: str) -> None:
    assert LEAVING[way](torch.arange(3.0)) == [0, 1, 2]


@accelerating
@pytest.mark.parametrize("way", ENTERING)
def test_data_enters(place: ChildConfig, way: str) -> None:
    assert real(ENTERING[way]()) == gpu(place)


@accelerating
@pytest.mark.parametrize("ordered", [True, False])
def test_lengths_of_padded_sequences_meet_the_rest(ordered: bool) -> None:
    packed = pack_padded_sequence(torch.ones(2, 3, 4), torch.tensor([3, 1]), batch_first=True, enforce_sorted=ordered)
    padded, lengths = pad_packed_sequence(packed, batch_first=True)
    mask = torch.arange(3)[None, :] < lengths[:, None]
    assert mask.tolist() == [[True] * 3, [True, False, False]]
    assert padded[mask].shape[0] == 4


@accelerating
@pytest.mark.parametrize("pinned", [False, True])
def test_batches_meet_the_rest(place: ChildConfig, pinned: bool) -> None:
    """Labels that collating makes of numbers, and pinned batches, can be compared with what was brought to the CPU."""
    rows = [(torch.ones(2) * n, n, float(n)) for n in range(4)]
    ((x, label, weight),) = DataLoader(rows, 4, pin_memory=pinned)
    home = x.cuda(non_blocking=True).sum(1).cpu() / 2
    assert (home == label).all()
    assert (home == weight).all()
    if place.driver == "mps":  # whose memory is the host's
        assert label.is_pinned() == pinned


@accelerating
def test_legacy_types_know_their_tensors() -> None:
    x = torch.FloatTensor([1, 2])
    assert isinstance(x, torch.FloatTensor)
    assert isinstance(x.view(2).detach() * 2, torch.FloatTensor)
    assert not isinstance(x, torch.LongTensor)
    assert isinstance(x.cuda(), torch.cuda.FloatTensor)
    assert not isinstance(x.cuda(), torch.FloatTensor)
    assert isinstance(x.cuda() * 2, torch.cuda.FloatTensor)
    with _override() as home:
        assert isinstance(home, torch.FloatTensor)


@accelerating
def test_legacy_types_convert() -> None:
    assert torch.FloatTensor([1, 2]).type(torch.LongTensor).dtype is torch.int64


@accelerating
def test_legacy_types_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(torch.FloatTensor)) is torch.FloatTensor


@accelerating
def test_legacy_types_around_a_storage() -> None:
    stored = torch.FloatStorage([1.0, 2.0])
    around = torch.FloatTensor(stored)
    stored[0] = 5.0
    assert around[0].item() == 5


@accelerating
def test_legacy_types_as_the_default() -> None:
    torch.set_default_tensor_type(torch.DoubleTensor)
    try:
        assert torch.get_default_dtype() is torch.float64
    finally:
        torch.set_default_tensor_type("torch.FloatTensor")
    assert torch.get_default_dtype() is torch.float32


@accelerating
def test_the_oldest_type() -> None:
    assert type(torch.Tensor([1.0])) is torch.Tensor


@accelerating
def test_packed_sequences_take_lengths_from_anywhere() -> None:
    packed = pack_padded_sequence(torch.ones(2, 3, 4), torch.tensor([3, 1]), batch_first=True)
    out, _ = nn.LSTM(4, 5, batch_first=True)(packed)
    assert type(out) is PackedSequence
    assert out.is_cuda
    padded, lengths = pad_packed_sequence(out, batch_first=True)
    assert padded.shape == (2, 3, 5)
    assert lengths.tolist() == [3, 1]


#: Draws with a generator of the CPU.
DRAWN: dict[str, Callable[[torch.Generator], torch.Tensor]] = {
    "randn": lambda g: torch.randn(3, generator=g),
    "randint": lambda g: torch.randint(9, (3,), generator=g, device="cpu"),
    "normal_": lambda g: torch.empty(3).normal_(generator=g),
    "multinomial": lambda g: torch.multinomial(torch.ones(4), 2, generator=g),
    "init": lambda g: nn.init.normal_(torch.empty(2), generator=g),
    "normal": lambda g: torch.normal(torch.zeros(2), torch.ones(2), generator=g),
    "bernoulli": lambda g: torch.bernoulli(torch.full((3,), 0.5), generator=g),
}


@accelerating
@pytest.mark.parametrize("drawn", DRAWN)
def test_draws_of_the_cpus_generators_are_for_the_gpu(place: ChildConfig, drawn: str) -> None:
    assert real(DRAWN[drawn](torch.Generator().manual_seed(0))) == gpu(place)


@accelerating
@pytest.mark.parametrize("asked", [{}, {"device": "cpu"}], ids=str)
def test_permutations_of_the_cpus_generators_are_the_cpus(asked: Asked) -> None:
    """They are indices that a program draws on the host: a generator of the CPU names the CPU."""
    drawn = torch.randperm(8, generator=torch.Generator().manual_seed(0), **asked)
    expected = torch._C._VariableFunctions.randperm(8, generator=torch.Generator().manual_seed(0))
    assert real(drawn) == "cpu"
    assert torch.equal(drawn, expected)


@accelerating
def test_generators_of_the_cpu_draw_there() -> None:
    drawn = torch.randn(3, generator=torch.Generator().manual_seed(0))
    expected = torch._C._VariableFunctions.randn(3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(drawn, expected.cuda())


@accelerating
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_random_states_that_were_loaded(device: str) -> None:
    draw = {"cpu": torch._C._VariableFunctions.rand, "cuda": lambda n: torch.rand(n, device="cuda")}[device]
    of = torch if device == "cpu" else torch.cuda
    file = io.BytesIO()
    torch.save(of.get_rng_state(), file)
    file.seek(0)
    drawn = draw(2).tolist()
    of.set_rng_state(torch.load(file))
    assert draw(2).tolist() == drawn
