"""Subclasses, torch functions and modes: they see the functions of torch."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest
import torch
from harness import CPU, STOCK, child
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from .seeing import CUDA, steady

pytestmark = child(CPU, CPU.when("after dynamo").rarely(), as_in=STOCK)


def _named(func: Any) -> str:
    """Return a function by the attribute of torch that it is: the identity that programs compare with."""
    for owner, prefix in ((torch, "torch"), (torch.Tensor, "Tensor"), (torch.fft, "fft"), (torch.nn.functional, "F")):
        name = getattr(func, "__name__", "")
        if getattr(owner, name, None) is func:
            return f"{prefix}.{name}"
    return "something else"


def _shape(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_shape(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _shape(entry) for key, entry in value.items()}
    return "tensor" if isinstance(value, torch.Tensor) else steady(str(value))


SEEN: list[Any] = []


class _Recording(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        SEEN.append([_named(func), [t.__name__ for t in types], _shape(args), _shape(kwargs or {})])
        return super().__torch_function__(func, types, args, kwargs)


class _Alike:
    """Not a tensor, but answers torch's functions."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> str:
        return f"{_named(func)} {len(args)} {sorted(kwargs or {})}"


def _calls(x: torch.Tensor, moves: bool = True) -> dict[str, list[Any]]:
    """Return the classes and shapes of what calls give."""
    results = {
        "zeros_like": torch.zeros_like(x),
        "rand_like": torch.rand_like(x, dtype=torch.float64),
        "to a dtype": x.to(torch.float64),
        "to a tensor": x.to(torch.zeros(1)),
        "new_zeros": x.new_zeros(2),
        "new_tensor": x.new_tensor([1.0]),
        "cpu": x.cpu(),
        "type": x.type("torch.DoubleTensor"),
        "as_tensor": torch.as_tensor(x),
        "normal": torch.normal(x, 1.0),
        "asarray": torch.asarray(x),
    }
    if moves:
        results |= {"to a device": x.to(CUDA), "to a device by name": x.to(device=CUDA, non_blocking=True)}
    return {name: [type(made).__name__, list(made.shape)] for name, made in results.items()}


def test_subclass_sees_the_functions() -> dict[str, Any]:
    x = torch.ones(2).as_subclass(_Recording)
    SEEN.clear()
    results = _calls(x)
    return {"results": results, "seen": SEEN[:]}


def test_subclass_sees_cuda() -> dict[str, Any]:
    x = torch.ones(2).as_subclass(_Recording)
    SEEN.clear()
    move = x.cuda if CUDA == "cuda" else x.cpu
    kinds = [type(made).__name__ for made in (move(), move())]
    return {"kinds": kinds, "seen": [[types, args, kwargs] for _, types, args, kwargs in SEEN]}


class _Plain(torch.Tensor):
    pass


class _Disabled(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


def test_subclass_without_torch_function() -> dict[str, Any]:
    x = torch.ones(2).as_subclass(_Plain)
    return {"calls": _calls(x), "moved": type(x.detach().to(CUDA)).__name__}


def test_subclass_with_torch_function_disabled() -> dict[str, Any]:
    # Between like devices stock torch gives the tensor itself; between CUDA and the CPU there is a copy.
    return _calls(torch.ones(2).as_subclass(_Disabled), moves=False)


@pytest.mark.parametrize("kind", ["Parameter", "Buffer"])
def test_calls_of_parameters_and_buffers(kind: str) -> dict[str, Any]:
    # Not moved: a parameter on CUDA has a copy on the CPU, which is no parameter.
    return _calls(getattr(torch.nn, kind)(torch.ones(2)), moves=False)


def test_parameters_and_buffers_stay_what_they_are() -> dict[str, Any]:
    model, parameter = torch.nn.Module(), torch.nn.Parameter(torch.ones(2))
    model.p, model.b = parameter, torch.nn.Buffer(torch.ones(2))
    model.to(CUDA)
    return {
        "parameter": type(model.p).__name__,
        "buffer": type(model.b).__name__,
        "buffers": list(model._buffers),
        "the same": model.p is parameter,
        "a leaf": parameter.is_leaf,
    }


def test_tensor_likes() -> dict[str, Any]:
    x = _Alike()
    return {
        "zeros_like": torch.zeros_like(x),
        "ones_like": torch.ones_like(x, device=CUDA),
        "full_like": torch.full_like(x, 2.0, dtype=torch.float32),
    }


class _Mode(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append([_named(func), _shape(args), _shape(kwargs or {})])
        return func(*args, **(kwargs or {}))


def test_function_mode_sees_the_functions() -> dict[str, Any]:
    x = torch.ones(2)
    with _Mode() as mode:
        torch.zeros(3)
        torch.zeros(3, device=CUDA)
        torch.rand(2, 3, device=CUDA, dtype=torch.float64)
        torch.tensor([1.0], device=CUDA)
        torch.as_tensor([1.0])
        torch.fft.fftfreq(4)
        torch.arange(0, 3, 1)
        _calls(x)
    before = len(mode.seen)
    torch.zeros(3)
    return {"seen": mode.seen, "nothing afterwards": len(mode.seen) == before}


def test_nested_function_modes() -> dict[str, Any]:
    with _Mode() as outer, _Mode() as inner, torch.device("meta"):
        torch.zeros(3)
    return {"outer": outer.seen, "inner": inner.seen}


def test_a_mode_ends_with_an_error() -> list[Any]:
    mode = _Mode()
    with contextlib.suppress(ZeroDivisionError), mode:
        raise ZeroDivisionError
    torch.zeros(3)
    return mode.seen


def test_disabled_function_modes() -> dict[str, Any]:
    with _Mode() as all_of_them, torch._C.DisableTorchFunction():
        torch.zeros(3)
    with _Mode() as subclasses, torch._C.DisableTorchFunctionSubclass():
        torch.zeros(3)
    return {"all": all_of_them.seen, "subclasses": subclasses.seen}


class _Replace(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.zeros:
            return "replaced"
        if func is torch.Tensor.to:
            return "moved"
        return func(*args, **(kwargs or {}))


def test_function_mode_replaces_results() -> dict[str, Any]:
    with _Replace():
        return {
            "zeros": torch.zeros(3),
            "zeros on CUDA": torch.zeros(3, device=CUDA),
            "to": torch.ones(1).to(CUDA),
            "another": torch.ones(1).tolist(),
        }


class _Log(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def test_dispatch_modes() -> list[str]:
    with _Log() as mode:
        torch.zeros(3, device=CUDA)
        torch.ones_like(torch.empty(2, device=CUDA))
        torch.ones(2).to(torch.float64)
    return mode.seen


def test_default_device() -> dict[str, str]:
    seen = {"at first": str(torch.get_default_device())}
    torch.set_default_device(CUDA)
    try:
        made = {
            "zeros": torch.zeros(2),
            "tensor": torch.tensor([1.0]),
            "module": torch.nn.Linear(2, 2).weight,
            "rand": torch.rand(2),
            "eye": torch.eye(2),
            "randperm": torch.randperm(3),
            "asked for": torch.zeros(2, device="cpu"),
            "from_numpy": torch.from_numpy(torch.ones(2).cpu().numpy()),
        }
        with torch.device("meta"):
            made["meta"] = torch.zeros(2)
        made["after meta"] = torch.zeros(2)
        seen |= {name: steady(str(tensor.device)) for name, tensor in made.items()}
    finally:
        torch.set_default_device(None)
    return {**seen, "at last": str(torch.get_default_device()), "made at last": str(torch.zeros(1).device)}


def test_threads_have_modes_of_their_own() -> dict[str, Any]:
    made: list[Any] = []
    with _Mode() as mode:
        thread = threading.Thread(target=lambda: made.append(torch.zeros(2, device=CUDA).tolist()))
        thread.start()
        thread.join()
    return {"made": made, "seen": mode.seen}
