"""Under accelerate all is on the Apple GPU, and answers as if it were where the program believes it to be."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch
from harness import MPS, MPS_FAITHFUL, STOCK, VIRTUAL, child
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from .seeing import as_code_of

warnings.filterwarnings("ignore", message="TypedStorage is deprecated")

#: What a program is told that is not about a device: addresses, lists of others, names of ours.
UNCOMPARED = (
    "data_ptr",
    "_cdata",
    "_version",
    "__",
    "_torch",
    "_typed_storage",
    "_backward_hooks",
    "new",
    "grad",
)
#: Methods that only answer, by how their names begin.
ANSWERING = ("is_", "get_device", "type", "element_size", "storage_type", "nbytes", "has_names")
LEGACY = ("FloatTensor", "DoubleTensor", "LongTensor", "ByteTensor", "BoolTensor")
PLAIN = (bool, int, str, tuple, type(None), torch.device, torch.dtype, torch.layout)


def _asked(value: Any) -> Iterator[tuple[str, str]]:
    """Return the values of all attributes and query methods of a tensor or a storage."""
    for name in dir(value):
        if name.startswith(UNCOMPARED):
            continue
        try:
            found = getattr(value, name)
            if callable(found):
                if not name.startswith(ANSWERING):
                    continue
                found = found()
        except Exception as error:
            found = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        if isinstance(found, PLAIN):
            yield name, repr(found)


#: Before 2.12 storages of no GPU but CUDA's say that they are shared, and only tensors are made to.
OF_STORAGES = frozenset({"is_shared"} if torch.__version__ < torch.torch_version.TorchVersion("2.12") else ())


def answers(x: torch.Tensor) -> dict[str, str]:
    """Collect everything that a program can query about a tensor's device."""
    found = dict(_asked(x))
    for name, storage in (("untyped", x.untyped_storage()), ("typed", x.storage())):
        found.update((f"{name}.{key}", said) for key, said in _asked(storage) if key not in OF_STORAGES)
        found[f"{name} shown"] = repr(storage)
    for name in LEGACY:
        found[f"isinstance {name}"] = str(isinstance(x, getattr(torch, name)))
        found[f"isinstance cuda {name}"] = str(isinstance(x, getattr(torch.cuda, name)))
    found["shown"] = repr(x)
    found["named"] = torch.typename(x)
    found["array"] = str(hasattr(x, "__cuda_array_interface__"))
    found["storage"] = str(torch.is_storage(x.untyped_storage()))
    return found


def _loaded(x: torch.Tensor, **options: Any) -> torch.Tensor:
    file = io.BytesIO()
    torch.save({"x": x}, file)
    file.seek(0)
    loaded: torch.Tensor = torch.load(file, **options)["x"]
    return loaded


def _swapped() -> torch.Tensor:
    x = torch.ones(2)
    x.data = torch.zeros(2)
    return x


#: Tensors that a program believes to be on the CPU.
ON_CPU: dict[str, Callable[[], torch.Tensor]] = {
    "from_numpy": lambda: torch.from_numpy(numpy.ones(2, "float32")),
    "bytes": lambda: torch.from_numpy(numpy.ones(2, "uint8")),
    "factory": lambda: torch.zeros(2),
    "asked for": lambda: torch.zeros(2, device="cpu"),
    "view": lambda: torch.ones(2, 2)[0],
    "detached": lambda: torch.ones(2).detach(),
    "parameter": lambda: nn.Parameter(torch.ones(2)).data,
    "module": lambda: nn.init.ones_(nn.Linear(2, 1).weight).detach(),
    "deep copy": lambda: copy.deepcopy(torch.ones(2)),
    "pickled": lambda: pickle.loads(pickle.dumps(torch.ones(2))),
    "loaded": lambda: _loaded(torch.ones(2)),
    "loaded there": lambda: _loaded(torch.ones(2), map_location="cpu"),
    "like": lambda: torch.ones_like(torch.ones(2)),
    "like by name": lambda: torch.ones_like(input=torch.ones(2)),
    "new": lambda: torch.ones(2).new_zeros(2),
    "new of old": lambda: torch.ones(2).new([1, 2]),
    "as another": lambda: torch.ones(2).to(torch.zeros(1, dtype=torch.int64)),
    "converted": lambda: torch.ones(2, dtype=torch.int64).float(),
    "type": lambda: torch.ones(2).type(torch.LongTensor),
    "swapped": _swapped,
    "there already": lambda: torch.ones(2).cpu().to("cpu"),
    "batch": lambda: next(iter(DataLoader(TensorDataset(torch.ones(4, 2) * 2), 2)))[0],
}


@child(MPS, as_in=STOCK)
@pytest.mark.parametrize("made", ON_CPU)
def test_tensors_that_report_the_cpu(made: str) -> dict[str, str]:
    if torch.cuda.is_available():
        torch.ones(1, device="cuda")  # from here on what is not known is CUDA's
    return answers(ON_CPU[made]())


#: And on CUDA.
ON_CUDA: dict[str, Callable[[], torch.Tensor]] = {
    "moved": lambda: torch.ones(2).cuda(),
    "like by name": lambda: torch.ones_like(input=torch.ones(2).cuda()),
    "to": lambda: torch.ones(2).to("cuda"),
    "factory": lambda: torch.ones(2, device="cuda"),
    "result": lambda: torch.ones(2, device="cuda") * 2,
    "module": lambda: nn.init.ones_(nn.Linear(2, 1).cuda().weight).detach(),
    "deep copy": lambda: copy.deepcopy(torch.ones(2).cuda()),
    "loaded": lambda: _loaded(torch.ones(2).cuda()),
    "loaded there": lambda: _loaded(torch.ones(2), map_location="cuda"),
    "as another": lambda: torch.ones(2).to(torch.ones(1, device="cuda")),
    "new": lambda: torch.ones(2, device="cuda").new_ones(2),
    "legacy": lambda: torch.cuda.LongTensor([1, 2]),
    "swapped": lambda: setattr(x := torch.ones(2), "data", torch.ones(2).cuda()) or x,
}
#: What is not known of a result of an operator: it is of both types.
UNKNOWN = {"result": "isinstance FloatTensor"}


@child(MPS, MPS_FAITHFUL, as_in=VIRTUAL)
@pytest.mark.parametrize("made", ON_CUDA)
def test_tensors_that_report_cuda(made: str) -> dict[str, str]:
    found = answers(ON_CUDA[made]())
    found.pop(UNKNOWN.get(made, ""), None)
    return found


#: Factories that are given a tensor, and what the program does with it.
GIVEN: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "tensor": torch.tensor,
    "as_tensor": torch.as_tensor,
    "as_tensor by name": lambda x: torch.as_tensor(data=x),
    "as_tensor of another type": lambda x: torch.as_tensor(x, dtype=torch.float16),
    "as_tensor on the cpu": lambda x: torch.as_tensor(x, device="cpu"),
    "as_tensor on cuda": lambda x: torch.as_tensor(x, device="cuda"),
    "asarray": torch.asarray,
    "asarray on the cpu": lambda x: torch.asarray(x, device="cpu"),
    "asarray on cuda": lambda x: torch.asarray(x, device="cuda"),
    "asarray copied": lambda x: torch.asarray(x, copy=True),
    "sparse": lambda x: torch.sparse_coo_tensor(torch.tensor([[0, 1]], device=x.device), x, (2,)),
    "nested": lambda x: torch.nested.nested_tensor([x]),
    "within": lambda x: _within(torch.device("cpu"), torch.as_tensor, x),
    "list": lambda x: torch.tensor([x[0], x[1]]),
}


def _within(device: torch.device, make: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    with device:
        return make(x)


@child(MPS, as_in=VIRTUAL)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("on", ["cpu", "cuda"])
@pytest.mark.parametrize("made", GIVEN)
def test_tensors_given_to_factories_keep_their_device(made: str, on: str) -> list[object]:
    torch.ones(1, device="cuda")
    x = torch.ones(2, device=on)
    y = GIVEN[made](x)
    shares_memory = y.layout is torch.strided and not y.is_nested and y.data_ptr() == x.data_ptr()
    return [str(y.device), str(x.device), shares_memory, str(y.dtype)]


@child(MPS, as_in=VIRTUAL)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_parameters_keep_their_device_and_gradient(device: str) -> list[object]:
    weight = nn.Linear(2, 2).cuda().weight
    copy_there = torch.as_tensor(weight, device=device)
    (copy_there * 2).sum().backward()
    assert weight.grad is not None
    return [str(weight.device), str(copy_there.device), weight.grad.tolist(), copy_there.requires_grad]


@child(MPS, as_in=VIRTUAL)
def test_an_array_that_would_have_to_be_copied() -> str:
    with pytest.raises(ValueError, match="can't alias tensor") as refused:
        torch.asarray(torch.ones(2, device="cuda"), device="cpu", copy=False)
    return str(refused.value)


def _kinds(*tensors: torch.Tensor) -> list[str]:
    return [x.device.type for x in tensors]


@child(MPS, alone=True)
def test_results_are_the_cpus_until_the_program_asks_for_cuda() -> None:
    x = torch.ones(2)
    before = x * 2
    assert _kinds(x, before, before + x) == ["cpu", "cpu", "cpu"]
    assert before.is_cpu
    y = before.cuda()
    y.zero_()
    assert before.tolist() == [2, 2]  # it was copied
    assert _kinds(x, before, y, y * 2, before.view(2)) == ["cpu", "cpu", "cuda", "cuda", "cpu"]


@child(MPS)
def test_a_module_that_moves() -> None:
    model = nn.Linear(2, 2)
    assert _kinds(*model.parameters()) == ["cpu", "cpu"]
    model.cuda()
    assert _kinds(*model.parameters()) == ["cuda", "cuda"]
    model.to("cpu")
    assert _kinds(*model.parameters()) == ["cpu", "cpu"]


@child(MPS)
def test_torch_is_told_the_truth() -> None:
    x = torch.ones(2)
    assert as_code_of(_kinds, "torch.inner")(x) == ["mps"]
    assert as_code_of(lambda t: (t.is_cpu, t.get_device()), "torch.inner")(x) == (False, 0)


def _branches(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.is_cpu and x.get_device() == -1 and x.device.type == "cpu" else x * 3


@child(MPS, alone=True)
def test_compiled_code_sees_what_the_program_sees() -> None:
    x = torch.ones(2)
    assert torch.compile(_branches, backend="eager", fullgraph=True)(x).tolist() == _branches(x).tolist()


@child(MPS)
def test_no_tensor_is_kept_alive() -> None:
    from torchdevice_cuda.translate.core.apparent_devices import Memories

    memories = Memories()
    for _ in range(20000):
        memories.add(torch.empty(1))
    assert len(memories.refs) < 10000
