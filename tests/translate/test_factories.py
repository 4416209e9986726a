"""Functions that make tensors."""

from __future__ import annotations

import functools
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from harness import CPU, child
from torch.utils._device import _device_constructors

from .asking import HOST, REQUESTS, on_cuda, same

pytestmark = child(CPU, CPU.when("after"))


def quantized() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.quint8)


#: A function among them is called for the argument.
ARGUMENTS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "_efficientzerotensor": (((2,),), {}),
    "_empty_affine_quantized": (((2,),), {"scale": 1.0, "zero_point": 0, "dtype": torch.quint8}),
    "arange": ((3,), {}),
    "as_tensor": (([1.0, 2.0],), {}),
    "asarray": (([1.0, 2.0],), {}),
    "bartlett_window": ((4,), {}),
    "blackman_window": ((4,), {}),
    "empty": ((2,), {}),
    "empty_permuted": (((2, 3), (1, 0)), {}),
    "empty_quantized": (((2,), quantized), {}),
    "empty_strided": (((2, 3), (1, 2)), {}),
    "eye": ((2,), {}),
    "fft_fftfreq": ((4,), {}),
    "fft_rfftfreq": ((4,), {}),
    "full": (((2,), 3.0), {}),
    "hamming_window": ((4,), {}),
    "hann_window": ((4,), {}),
    "kaiser_window": ((4,), {}),
    "linspace": ((0, 1, 3), {}),
    "logspace": ((0, 1, 3), {}),
    "nested_tensor": (([torch.ones(2), torch.ones(3)],), {}),
    "normal": ((0.0, 1.0, (2,)), {}),
    "ones": ((2,), {}),
    "rand": ((2,), {}),
    "randint": ((5, (2,)), {}),
    "randn": ((2,), {}),
    "randperm": ((4,), {}),
    "range": ((0, 3), {}),
    "scalar_tensor": ((2.0,), {}),
    "sparse_bsc_tensor": (([0, 1], [0], [[[1.0]]]), {"size": (1, 1)}),
    "sparse_bsr_tensor": (([0, 1], [0], [[[1.0]]]), {"size": (1, 1)}),
    "sparse_compressed_tensor": (([0, 1], [0], [1.0]), {"size": (1, 1), "layout": torch.sparse_csr}),
    "sparse_coo_tensor": (([[0]], [1.0], (1,)), {}),
    "sparse_csc_tensor": (([0, 1], [0], [1.0]), {"size": (1, 1)}),
    "sparse_csr_tensor": (([0, 1], [0], [1.0]), {"size": (1, 1)}),
    "tensor": (([1.0, 2.0],), {}),
    "tril_indices": ((2, 2), {}),
    "triu_indices": ((2, 2), {}),
    "zeros": ((2,), {}),
}
#: Constructors whose values are whatever was there.
UNDEFINED = ("empty", "empty_permuted", "empty_strided", "empty_quantized", "_empty_affine_quantized")
DENSE = [name for name in ARGUMENTS if not name.startswith(("sparse_", "nested_"))]
#: Not among the constructors that torch lists, but they take a device.
UNLISTED = ("normal", "_efficientzerotensor", "_empty_affine_quantized")
#: Listed, and tested on their own, or without a device of their own.
APART = {"vander", "complex", "from_file"}


def listed() -> dict[str, Callable[..., torch.Tensor]]:
    """Return the constructors that torch lists: of originals and wrappers, those that it offers."""
    offered = {id(value) for module in (torch, torch.fft, torch.nested) for value in vars(module).values()}
    return {function.__name__: function for function in _device_constructors() if id(function) in offered}


def constructor(name: str) -> Callable[..., torch.Tensor]:
    """Return a constructor with its arguments, less the device."""
    found = listed()
    if name not in found and name not in UNLISTED:
        pytest.skip(f"this torch does not list {name}")
    args, kwargs = ARGUMENTS[name]
    given = [one() if callable(one) else one for one in args]
    return functools.partial(found.get(name) or getattr(torch, name), *given, **kwargs)


def test_every_constructor_is_tested() -> None:
    assert len(listed()) > 35
    assert listed().keys() - ARGUMENTS.keys() - APART == set()


@pytest.mark.parametrize("name", ARGUMENTS)
def test_constructor(name: str) -> None:
    """A constructor ignores requests and creates the object that it creates without a device."""
    make = constructor(name)
    for request in REQUESTS:
        torch.manual_seed(7)
        made = make(device=request)
        assert made.device == HOST, request
        torch.manual_seed(7)
        assert name in UNDEFINED or same(made, make()), request


@pytest.mark.parametrize("name", DENSE)
def test_a_constructor_uses_the_requested_device(name: str) -> None:
    make = constructor(name)
    assert on_cuda(make(device="cuda"))
    assert not on_cuda(make())


LIKES: dict[str, tuple[Any, ...]] = {
    "zeros_like": (),
    "ones_like": (),
    "full_like": (2.0,),
    "rand_like": (),
    "randn_like": (),
    "randint_like": (5,),
    "empty_like": (),
}


@pytest.mark.parametrize("model", ["cpu", "cuda"])
@pytest.mark.parametrize("name", LIKES)
def test_like(name: str, model: str) -> None:
    x, function, more = torch.ones(2, 3, device=model), getattr(torch, name), LIKES[name]
    for request in REQUESTS:
        made = function(x, *more, device=request, dtype=torch.float64)
        assert made.shape == x.shape, request
        assert made.dtype is torch.float64, request
        assert made.device == HOST, request
    assert on_cuda(function(x, *more)) == on_cuda(x), "it is where its model is"
    assert on_cuda(function(x, *more, device="cuda"))
    assert not on_cuda(function(x, *more, device="cpu"))


def test_like_by_name() -> None:
    assert torch.zeros_like(input=torch.ones(2), device="cuda").tolist() == [0.0, 0.0]


NEW: dict[str, tuple[Any, ...]] = {
    "new_zeros": (3,),
    "new_ones": (3,),
    "new_empty": (3,),
    "new_full": ((3,), 2.0),
    "new_tensor": ([1.0],),
    "new_empty_strided": ((2, 3), (1, 2)),
}


@pytest.mark.parametrize("model", ["cpu", "cuda"])
@pytest.mark.parametrize("name", NEW)
def test_new(name: str, model: str) -> None:
    x = torch.ones(2, device=model)
    make, args = getattr(x, name), NEW[name]
    for request in REQUESTS:
        assert make(*args, device=request, dtype=torch.float64).dtype is torch.float64, request
    assert on_cuda(make(*args)) == on_cuda(x)
    assert on_cuda(make(*args, device="cuda"))


def test_normal_of_numbers() -> None:
    torch.manual_seed(1)
    first = torch.normal(0.0, 1.0, (3,), device="cuda")
    torch.manual_seed(1)
    assert torch.equal(first, torch.normal(0.0, 1.0, (3,)))


def test_normal_of_tensors() -> None:
    assert torch.normal(torch.zeros(2, device="cuda"), 1.0).shape == (2,)
    assert torch.normal(0.0, torch.ones(2)).shape == (2,)


# --------------------------------------------------------------------- data that is there
def test_data_of_the_host_is_shared() -> None:
    array = np.arange(3.0)
    assert torch.from_numpy(array).data_ptr() == array.ctypes.data
    assert torch.frombuffer(bytearray(8), dtype=torch.float32).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", ["as_tensor", "asarray", "tensor"])
def test_data_that_goes_to_another_device_is_copied(name: str) -> None:
    function, array = getattr(torch, name), np.arange(3.0)
    for moved in (function(array, device="cuda"), function(torch.from_numpy(array), device="cuda")):
        moved.add_(1)
        assert array.tolist() == [0.0, 1.0, 2.0]
        assert on_cuda(moved)


def test_as_tensor_of_what_is_there_is_itself() -> None:
    there, here = torch.ones(2, device="cuda"), torch.ones(2)
    assert torch.as_tensor(there, device="cuda") is there
    assert torch.as_tensor(there) is there
    assert torch.as_tensor(here, device="cpu") is here
    assert torch.as_tensor(there, device="cpu").data_ptr() != there.data_ptr()


def test_as_tensor_takes_its_options_by_name_only() -> None:
    assert torch.as_tensor([1, 2], dtype=torch.float64, device=torch.device("cuda:0")).dtype is torch.float64
    with pytest.raises(TypeError):
        torch.as_tensor([1, 2], torch.float64, "cuda")


def test_asarray_shares_or_says_that_it_cannot() -> None:
    there, here = torch.ones(2, device="cuda"), torch.ones(2)
    assert torch.asarray(there, device="cuda").data_ptr() == there.data_ptr()
    with pytest.raises(ValueError, match="alias"):
        torch.asarray(here, device="cuda", copy=False)


def test_tensor_always_copies() -> None:
    there = torch.ones(2, device="cuda")
    assert torch.tensor(there, device="cuda").data_ptr() != there.data_ptr()


@pytest.mark.parametrize("request_", [None, "cuda", "cuda:0", "cpu"])
def test_from_file(request_: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "data"))
        Path(path).write_bytes(torch.arange(3.0).numpy().tobytes())
        assert torch.from_file(path, size=3, device=request_).tolist() == [0.0, 1.0, 2.0]
        device = None if request_ is None else torch.device(request_)
        assert torch.from_file(path, size=3, device=device).tolist() == [0.0, 1.0, 2.0]


def test_numpy_and_dlpack() -> None:
    x = torch.ones(2, device="cuda")
    assert x.cpu().numpy().tolist() == [1.0, 1.0]
    assert np.asarray(x.cpu()).shape == (2,)
    assert torch.from_dlpack(x.cpu()).tolist() == [1.0, 1.0]


# ------------------------------------------------------------------------ random numbers
def test_drawing_for_cuda_leaves_the_cpus_sequence_alone() -> None:
    torch.manual_seed(3)
    first = torch.rand(4, device="cuda")
    host = torch.get_rng_state()
    assert not torch.equal(first, torch.rand(4, device="cuda"))
    assert torch.equal(host, torch.get_rng_state())


def test_cudas_seed_repeats_what_it_draws() -> None:
    torch.manual_seed(3)
    first = torch.rand(4, device="cuda")
    torch.cuda.manual_seed(3)
    assert torch.equal(first, torch.rand(4, device="cuda"))


def test_a_generator_of_ones_own() -> None:
    mine = torch.Generator(device="cuda").manual_seed(5)
    first = torch.randn(4, device="cuda", generator=mine)
    mine.manual_seed(5)
    assert torch.equal(first, torch.randn(4, device="cuda", generator=mine))


def test_cudas_state_repeats_what_it_draws() -> None:
    state = torch.cuda.get_rng_state()
    first = torch.randperm(9, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(first, torch.randperm(9, device="cuda"))


def test_likes_draw_where_their_model_is() -> None:
    model, state = torch.rand(4, device="cuda"), torch.cuda.get_rng_state()
    assert torch.rand_like(model).shape == (4,)
    assert not torch.equal(torch.cuda.get_rng_state(), state)


# ----------------------------------------------------------------------- legacy classes
def test_legacy_classes_make_tensors() -> None:
    x = torch.cuda.FloatTensor([1.0, 2.0])
    assert x.tolist() == [1.0, 2.0]
    assert on_cuda(x)
    assert torch.cuda.LongTensor(2, 3).shape == (2, 3)
    assert torch.cuda.HalfTensor(2).dtype is torch.float16
    assert torch.cuda.FloatTensor().numel() == 0


def test_instances_of_legacy_classes() -> None:
    x = torch.cuda.FloatTensor([1.0, 2.0])
    assert isinstance(x, torch.cuda.FloatTensor)
    assert isinstance(x, torch.Tensor)
    assert isinstance(torch.zeros(1, device="cuda"), torch.cuda.FloatTensor)
    assert not isinstance(x, torch.cuda.DoubleTensor)
    assert not isinstance(torch.ones(2), torch.cuda.FloatTensor)


# -------------------------------------------------------------------------------- memory
def test_out_of_memory_is_cudas_error_on_cuda_only() -> None:
    with pytest.raises(torch.cuda.OutOfMemoryError, match=r"^CUDA out of memory\. Tried to allocate"):
        torch.empty(1 << 60, device="cuda", dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="DefaultCPUAllocator"):
        torch.empty(1 << 60, dtype=torch.uint8)
