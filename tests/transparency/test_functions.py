"""Functions of torch: their names, help, copies and pickles; the errors of calls, and what calls leave as it was."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import pydoc
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import CPU, STOCK, child

from .seeing import CUDA, attempt

pytestmark = child(CPU, CPU.when("after dynamo").rarely(), as_in=STOCK)


FACTORIES = (
    "arange as_tensor asarray bartlett_window blackman_window empty empty_like empty_permuted empty_strided eye "
    "frombuffer from_file from_numpy full full_like hamming_window hann_window kaiser_window linspace logspace normal "
    "ones ones_like rand rand_like randint randint_like randn randn_like randperm range scalar_tensor "
    "sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor "
    "sparse_csr_tensor tensor tril_indices triu_indices zeros zeros_like"
).split()
METHODS = (
    "cpu cuda is_pinned new_empty new_empty_strided new_full new_ones new_tensor new_zeros numpy pin_memory "
    "record_stream to type"
).split()


def functions() -> dict[str, Any]:
    """Everything of torch that translation stands in front of and a program may hold."""
    found = {f"torch.{name}": getattr(torch, name) for name in FACTORIES}
    found |= {f"Tensor.{name}": getattr(torch.Tensor, name) for name in METHODS}
    found |= {f"fft.{name}": getattr(torch.fft, name) for name in ("fftfreq", "rfftfreq")}
    for name in ("to", "cuda", "cpu", "to_empty"):
        found[f"Module.{name}"] = getattr(torch.nn.Module, name)
    for name in (
        "load save set_default_device set_default_tensor_type get_autocast_dtype is_autocast_enabled "
        "set_autocast_enabled set_autocast_dtype get_rng_state manual_seed"
    ).split():
        found[f"torch.{name}"] = getattr(torch, name)
    found["GradScaler"] = torch.amp.GradScaler
    found["DataParallel"] = torch.nn.DataParallel
    found["nested.nested_tensor"] = torch.nested.nested_tensor
    return found


def test_signatures() -> dict[str, str]:
    return {name: attempt(lambda f=f: inspect.signature(f)) for name, f in functions().items()}


def test_names() -> dict[str, list[Any]]:
    # Builtins of torch say that they belong to no module; what a program may build on is that pickle finds them.
    return {name: [f.__name__, f.__doc__, callable(f)] for name, f in functions().items()}


def test_qualified_names() -> dict[str, list[Any]]:
    # Functions of C are pickled in another way than Python's: their qualified names are where pickle must find them.
    in_python = {name: f for name, f in functions().items() if name.split(".")[0] in ("Module", "GradScaler", "nested")}
    return {name: [f.__module__, f.__qualname__] for name, f in in_python.items()}


def test_help_shows_the_documentation() -> dict[str, bool]:
    return {name: (f.__doc__ or "").strip()[:40] in pydoc.render_doc(f) for name, f in functions().items()}


def test_help_of_classes() -> dict[str, bool]:
    return {word: word in pydoc.render_doc(torch.Generator) for word in ("manual_seed", "get_state")}


def test_pickled_functions_come_back() -> dict[str, str]:
    seen = {}
    for name, f in functions().items():
        seen[name] = attempt(lambda f=f: pickle.loads(pickle.dumps(f)) is f)
    return seen


def test_copies_of_functions_are_the_function() -> dict[str, bool]:
    return {name: copy.deepcopy(f) is f and copy.copy(f) is f for name, f in functions().items()}


def test_deepcopy_of_tensors() -> dict[str, Any]:
    x = torch.ones(2, device=CUDA, requires_grad=True)
    twin = copy.deepcopy(x)
    return {
        "the same": twin is x,
        "requires_grad": twin.requires_grad,
        "values": twin.tolist(),
        "attributes": list(vars(x)),
    }


def test_deepcopy_of_modules() -> bool:
    model = torch.nn.Linear(2, 2).to(CUDA)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.weight.zero_()
    return bool(model.weight.abs().sum() > 0)


def test_pickled_tensors_have_the_same_bytes() -> dict[str, Any]:
    x = torch.arange(4.0).to(CUDA)
    buffer = io.BytesIO()
    torch.save(x, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=True)
    address = str(x.untyped_storage()._cdata).encode()  # it names the storage, and has as many digits as it has
    return {
        "length": len(pickle.dumps(x).replace(address, b"")),
        "values": pickle.loads(pickle.dumps(x)).tolist(),
        "saved and loaded": loaded.tolist(),
        "attributes": vars(x),
    }


def test_a_device_is_matched() -> int | None:
    match torch.device("cuda:0"):
        case torch.device(type="cuda", index=index):
            return index
        case _:
            return None


def test_devices_are_torchs() -> dict[str, Any]:
    return {
        "a class": type(torch.device) is type,
        "repr": repr(torch.device("cuda:0")),
        "pickled": pickle.loads(pickle.dumps(torch.device("cuda", 1))) == torch.device("cuda:1"),
        "an instance": isinstance(torch.device("cuda"), torch.device),
        "or nothing": str(torch.device | None),
    }


def test_overrides_know_the_functions() -> dict[str, Any]:
    overridable = torch.overrides.get_overridable_functions()
    testing = torch.overrides.get_testing_overrides()
    return {
        "zeros_like is overridable": torch.zeros_like in overridable[torch],
        "Tensor.to is overridable": torch.Tensor.to in overridable[torch.Tensor],
        "zeros_like has a test": torch.zeros_like in testing,
        "Tensor.to has a test": torch.Tensor.to in testing,
        "Tensor.to is a method": torch.overrides.is_tensor_method_or_property(torch.Tensor.to),
        "name of Tensor.to": torch.overrides.resolve_name(torch.Tensor.to),
        "name of zeros_like": torch.overrides.resolve_name(torch.zeros_like),
        "zeros is ignored": torch.zeros in torch.overrides.get_ignored_functions(),
    }


# ------------------------------------------------------------------------------- calls
def ones() -> torch.Tensor:
    return torch.ones(2)


BAD_CALLS: dict[str, Callable[[], Any]] = {
    "zeros()": lambda: torch.zeros(),
    "zeros('a')": lambda: torch.zeros("a"),
    "zeros(device=1.5)": lambda: torch.zeros(2, device=1.5),
    "zeros(device=[])": lambda: torch.zeros(2, device=[]),
    "zeros(device='gpu')": lambda: torch.zeros(2, device="gpu"),
    "zeros(nonsense=1)": lambda: torch.zeros(2, nonsense=1),
    "zeros(-1)": lambda: torch.zeros(-1),
    "zeros_like()": lambda: torch.zeros_like(),
    "zeros_like(3)": lambda: torch.zeros_like(3),
    "as_tensor()": lambda: torch.as_tensor(),
    "tensor(device={})": lambda: torch.tensor([1.0], device={}),
    "empty(out=3)": lambda: torch.empty(2, device="cpu", out=3),
    "to()": lambda: ones().to(),
    "to('nowhere')": lambda: ones().to("nowhere"),
    "to(1.5)": lambda: ones().to(1.5),
    "to(nonsense=1)": lambda: ones().to(device="cpu", nonsense=1),
    "to(None)": lambda: ones().to(None),
    "to([])": lambda: ones().to([]),
    "to of a number": lambda: torch.Tensor.to(3, "cpu"),
    "new_zeros()": lambda: ones().new_zeros(),
    "new_zeros(device='gpu')": lambda: ones().new_zeros(2, device="gpu"),
    "cpu(1)": lambda: ones().cpu(1),
    "cpu(3, 4)": lambda: ones().cpu(3, 4),
}


@pytest.mark.parametrize("call", BAD_CALLS)
def test_bad_calls_raise_torchs_errors(call: str) -> str:
    # The beginning: builtins print their overloads behind it.
    return attempt(BAD_CALLS[call])[:45]


NO_DEVICE: dict[str, Callable[[], torch.Tensor]] = {
    "zeros": lambda: torch.zeros(2, device=None),
    "to a dtype": lambda: ones().to(None, torch.float64),
    "to a dtype by name": lambda: ones().to(device=None, dtype=torch.float64),
    "to nothing": lambda: ones().to(None, None),
    "zeros_like": lambda: torch.zeros_like(ones(), device=None),
    "new_zeros": lambda: ones().new_zeros(2, device=None),
    "as_tensor": lambda: torch.as_tensor([1], device=None),
    "tensor": lambda: torch.tensor([1], device=None, dtype=None),
}


@pytest.mark.parametrize("call", NO_DEVICE)
def test_none_is_not_a_device(call: str) -> tuple[str, str]:
    made = NO_DEVICE[call]()
    return str(made.device), str(made.dtype)


class _Scriptable(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.zeros(2, device=x.device)


def test_paths_are_paths() -> dict[str, Any]:
    """A folder called "cuda" stays one."""
    with tempfile.TemporaryDirectory(prefix="cuda") as folder:
        path = Path(folder, "cuda:0")
        path.mkdir()
        torch.save({"cuda": "cuda:0", "path": str(path)}, path / "cuda.pt")
        (path / "cuda").write_bytes(bytes(8))
        torch.jit.save(torch.jit.script(_Scriptable()), str(path / "cuda.jit"))
        return {
            "load": {k: v.replace(folder, "") for k, v in torch.load(path / "cuda.pt").items()},
            "mapped": {k: v.replace(folder, "") for k, v in torch.load(str(path / "cuda.pt"), mmap=True).items()},
            "from_file": torch.from_file(str(path / "cuda"), size=2).tolist(),
            "storage": torch.UntypedStorage.from_file(str(path / "cuda"), shared=False, nbytes=8).nbytes(),
            "script": type(torch.jit.load(str(path / "cuda.jit"))).__name__,
        }


def test_weights_only_is_the_default() -> dict[str, str]:
    buffer = io.BytesIO()
    torch.save(Path("cuda"), buffer)
    buffer.seek(0)
    return {
        "error": attempt(lambda: torch.load(buffer)).split(":")[0],
        "signature": str(inspect.signature(torch.load)),
    }


def test_formats_and_strides_are_kept() -> dict[str, list[int]]:
    x = torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)
    wide = torch.arange(6.0).reshape(2, 3).t()
    made = {
        "to": x.to(CUDA),
        "to another format": x.to(CUDA, memory_format=torch.contiguous_format),
        "to a dtype": x.to(CUDA, torch.float64, False, True),
        "to, copied": x.to(CUDA, copy=True),
        "transposed": wide.to(CUDA),
        "transposed, to a dtype": wide.to(CUDA, torch.float64),
        "empty": torch.empty(2, 3, 4, 5, device=CUDA, memory_format=torch.channels_last),
        "empty_strided": torch.empty_strided((2, 3), (1, 2), device=CUDA),
        "ones_like": torch.ones_like(x, memory_format=torch.contiguous_format),
    }
    return {name: list(tensor.stride()) for name, tensor in made.items()}


def test_out_is_filled() -> list[float]:
    out = torch.empty(3, device=CUDA)
    torch.zeros(3, out=out)
    torch.arange(3, out=out)
    return out.tolist()


def test_requires_grad_and_no_dtype() -> dict[str, bool]:
    made = torch.ones(2, device=CUDA, requires_grad=True)
    return {
        "requires_grad": made.requires_grad,
        "a leaf": made.is_leaf,
        "the default dtype": torch.ones(2, device=CUDA, dtype=None).dtype is torch.float32,
    }
