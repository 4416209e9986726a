"""The MPS column of the redirection table, every cell, through real tensors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

# What each way of asking gives: where the data really is, by the request that was made.
ASK = """
import io
import warnings
import numpy
import torchdevice_cuda

def real(x):
    return torch._C.TensorBase.device.__get__(x).type

WAYS = {
    "factory": lambda d: torch.zeros(2, **d),
    "tensor": lambda d: torch.tensor([1.0, 2.0], **d),
    "to": lambda d: torch.ones(2).to(**d) if d else torch.ones(2),
    "new": lambda d: torch.ones(2).new_zeros(2, **d) if d else torch.zeros(2),
    "module": lambda d: torch.nn.Linear(2, 2, **d).weight,
    "module to": lambda d: torch.nn.Linear(2, 2).to(**d).weight if d else torch.nn.Linear(2, 2).weight,
    "context": lambda d: context(d),
    "as_tensor": lambda d: torch.as_tensor(numpy.ones(2, "float32"), **d),
    "load": lambda d: load(d),
    "legacy": lambda d: legacy(d),
    "type": lambda d: torch.zeros(2).type(TYPES[kind(d)]) if d else torch.FloatTensor(2),
    "parameter": lambda d: torch.nn.Parameter(torch.Tensor(2)).to(**d) if d else torch.nn.Parameter(torch.Tensor(2)),
    "randperm": lambda d: torch.randperm(3, **d),
    "entering": lambda d: entering(d, torch.from_numpy(numpy.ones(2))),
    "dlpack": lambda d: entering(d, torch.from_dlpack(numpy.ones(2, "float32"))),
    "dlpack of old": lambda d: entering(d, torch.utils.dlpack.from_dlpack(numpy.ones(2, "float32"))),
    "default": lambda d: default(d),
    "empty": lambda d: torch.nn.Linear(2, 2, device="meta").to_empty(**(d or {"device": torch.zeros(1).device})).weight,
}
TYPES = {"cpu": torch.FloatTensor, "cuda": torch.cuda.FloatTensor, "mps": "torch.cuda.FloatTensor"}

def kind(d):
    return torch.device(d["device"]).type

def legacy(d):
    if not d:
        return torch.LongTensor([1, 2])
    return getattr(torch if kind(d) == "cpu" else torch.cuda, "LongTensor")([1, 2])

def entering(d, x):
    return x.to(**d) if d else x

def default(d):
    torch.set_default_device(d.get("device"))
    made = torch.zeros(2)
    torch.set_default_device(None)
    return made

def context(d):
    if not d:
        return torch.zeros(2)
    with torch.device(d["device"]):
        return torch.zeros(2)

def load(d):
    file = io.BytesIO()
    torch.save(torch._C._VariableFunctions.zeros(2), file)
    file.seek(0)
    return torch.load(file, map_location=d.get("device"))

warnings.simplefilter("ignore")  # float64 becomes float32

REQUESTS = {"none": {}, "cpu": {"device": "cpu"}, "cpu:0": {"device": "cpu:0"}, "mps": {"device": "mps"}, "mps:0": {"device": "mps:0"},
            "cuda": {"device": "cuda"}, "cuda:0": {"device": "cuda:0"},
            "device(cuda)": {"device": torch.device("cuda")}, "device(cpu)": {"device": torch.device("cpu")}}
"""

TABLE = ASK + "result = {asked: {way: real(make(d)) for way, make in WAYS.items()} for asked, d in REQUESTS.items()}"
HOME = {"none", "cpu", "cpu:0", "device(cpu)"}


@pytest.mark.parametrize("policy", ["accelerate", "faithful"])
def test_every_cell(on_mps: Callable, policy: str) -> None:
    for asked, given in on_mps(TABLE, policy=policy).items():
        expected = "cpu" if policy == "faithful" and asked in HOME else "mps"
        assert given == dict.fromkeys(given, expected), asked


def test_the_toggle(on_mps: Callable) -> None:
    body = """
    real = lambda x: torch._C.TensorBase.device.__get__(x).type
    result = [real(torch.zeros(1, device="cpu:-1")), real(torch.zeros(1, device="cpu")), real(torch.zeros(1)),
              real(torch.ones(1, device="cuda").cpu()), real(torch.zeros(1, device="cuda")),
              real(torch.zeros(1, device="cpu:-1")), real(torch.zeros(1, device="cpu"))]
    """
    assert on_mps(body, policy="accelerate") == ["cpu", "cpu", "mps", "cpu", "mps", "cpu", "mps"]


def test_other_devices_pass_through(on_mps: Callable) -> None:
    assert on_mps('result = str(torch.zeros(2, device="meta").device)', policy="accelerate") == "meta"


def test_torch_means_what_it_says(on_mps: Callable) -> None:
    """Requests that torch's own code makes are not redirected: samplers, optimizers and printing work on the CPU."""
    body = """
    from torch.utils.data import RandomSampler, WeightedRandomSampler
    real = lambda x: torch._C.TensorBase.device.__get__(x).type
    generator = torch.Generator().manual_seed(0)
    order = list(RandomSampler(range(4), generator=generator))
    weighted = list(WeightedRandomSampler([0.5, 0.5], 3, generator=generator))
    p = torch.nn.Parameter(torch.ones(2))
    adam = torch.optim.Adam([p]); p.sum().backward(); adam.step()
    result = [sorted(order), len(weighted), real(p), real(adam.state[p]["step"]), repr(torch.ones(2) / 3)]
    """
    order, weighted, parameter, step, shown = on_mps(body, policy="accelerate")
    assert (order, weighted, parameter, step) == ([0, 1, 2, 3], 3, "mps", "cpu")
    assert shown == "tensor([0.3333, 0.3333], device='cuda:0')"


def test_data_leaves_and_enters(on_mps: Callable) -> None:
    body = """
    import copy, pickle
    import numpy
    real = lambda x: torch._C.TensorBase.device.__get__(x).type
    x = torch.arange(3.0)
    entered = [torch.from_numpy(numpy.ones(2, "float32")), torch.frombuffer(bytearray(8), dtype=torch.float32),
               pickle.loads(pickle.dumps(x)), copy.deepcopy(x)]
    result = [x.numpy().tolist(), numpy.asarray(x).tolist(), x.tolist(), numpy.from_dlpack(x).tolist(),
              [real(t) for t in entered]]
    """
    *left, entered = on_mps(body, policy="accelerate")
    assert left == [[0, 1, 2]] * 4 and entered == ["mps"] * 4


def test_lengths_of_padded_sequences_meet_the_rest(on_mps: Callable) -> None:
    body = """
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
    x = torch.ones(2, 3, 4)
    for ordered in (True, False):
        packed = pack_padded_sequence(x, torch.tensor([3, 1]), batch_first=True, enforce_sorted=ordered)
        padded, lengths = pad_packed_sequence(packed, batch_first=True)
        mask = torch.arange(3)[None, :] < lengths[:, None]
        result = [mask.tolist(), padded[mask].shape[0]]
    """
    assert on_mps(body, policy="accelerate") == [[[True] * 3, [True, False, False]], 4]


def test_batches_meet_the_rest(on_mps: Callable) -> None:
    """Labels that collating makes of numbers, and pinned batches, can be compared with what was brought to the CPU."""
    body = """
    from torch.utils.data import DataLoader
    rows = [(torch.ones(2) * n, n, float(n)) for n in range(4)]
    result = []
    for pinned in (False, True):
        for x, label, weight in DataLoader(rows, 4, pin_memory=pinned):
            home = x.cuda(non_blocking=True).sum(1).cpu() / 2
            result.append([(home == label).all().item(), (home == weight).all().item(), label.is_pinned()])
    """
    assert on_mps(body, policy="accelerate") == [[True, True, False], [True, True, True]]


def test_legacy_types_stay_types(on_mps: Callable) -> None:
    body = """
    import pickle
    x = torch.FloatTensor([1, 2])
    stored = torch.FloatStorage([1.0, 2.0])
    around = torch.FloatTensor(stored); stored[0] = 5.0
    torch.set_default_tensor_type(torch.DoubleTensor)
    double = torch.get_default_dtype()
    torch.set_default_tensor_type("torch.FloatTensor")
    result = [isinstance(torch.zeros(1, device="cpu:-1"), torch.FloatTensor), isinstance(x, torch.LongTensor),
              isinstance(x, torch.cuda.FloatTensor), x.type(torch.LongTensor).dtype == torch.int64,
              pickle.loads(pickle.dumps(torch.FloatTensor)) is torch.FloatTensor, around[0].item(), str(double),
              type(torch.Tensor([1.0])) is torch.Tensor, str(torch.get_default_dtype())]
    """
    expected = [True, False, True, True, True, 5.0, "torch.float64", True, "torch.float32"]
    assert on_mps(body, policy="accelerate") == expected


def test_packed_sequences_take_lengths_from_anywhere(on_mps: Callable) -> None:
    body = """
    from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
    lengths = torch.tensor([3, 1])
    packed = pack_padded_sequence(torch.ones(2, 3, 4), lengths, batch_first=True)
    out, _ = torch.nn.LSTM(4, 5, batch_first=True)(packed)
    padded, again = pad_packed_sequence(out, batch_first=True)
    result = [type(out) is PackedSequence, out.is_cuda, list(padded.shape), again.tolist()]
    """
    assert on_mps(body, policy="accelerate") == [True, True, [2, 3, 5], [3, 1]]


def test_generators_of_the_cpu_draw_there(on_mps: Callable) -> None:
    body = """
    real = lambda x: torch._C.TensorBase.device.__get__(x).type
    g = torch.Generator().manual_seed(0)
    first = torch.randn(3, generator=g)
    drawn = [first, torch.randint(9, (3,), generator=g, device="cpu"), torch.randperm(4, generator=g),
             torch.empty(3).normal_(generator=g), torch.multinomial(torch.ones(4), 2, generator=g),
             torch.nn.init.normal_(torch.empty(2), generator=g),
             torch.normal(torch.zeros(2), torch.ones(2), generator=g),
             torch.bernoulli(torch.full((3,), 0.5), generator=g)]
    expected = torch._C._VariableFunctions.randn(3, generator=torch.Generator().manual_seed(0))
    result = [[real(x) for x in drawn], torch.equal(first, expected.cuda())]
    """
    assert on_mps(body, policy="accelerate") == [["mps"] * 8, True]


def test_random_states_that_were_loaded(on_mps: Callable) -> None:
    body = """
    import io
    file = io.BytesIO(); torch.save([torch.get_rng_state(), torch.cuda.get_rng_state()], file); file.seek(0)
    a = torch._C._VariableFunctions.rand(2), torch.rand(2, device="cuda")
    cpu, cuda = torch.load(file)
    torch.set_rng_state(cpu); torch.cuda.set_rng_state(cuda)
    b = torch._C._VariableFunctions.rand(2), torch.rand(2, device="cuda")
    result = [x.tolist() == y.tolist() for x, y in zip(a, b)]
    """
    assert on_mps(body, policy="accelerate") == [True, True]
