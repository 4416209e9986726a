"""torch.cuda.comm and torch.cuda.nccl."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.cuda.comm as comm
import torch.cuda.nccl as nccl
from harness import CPU, child

from .answers import error

TWO = CPU.with_settings(devices=2)


def lists(tensors: Any) -> list[Any]:
    return [tensor.tolist() for tensor in tensors]


def same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.data_ptr() == other.data_ptr()


# ----------------------------------------------------------------------------- comm
@child(TWO)
def test_broadcast_gives_every_further_device_memory_of_its_own() -> None:
    x = torch.arange(6.0).reshape(3, 2)
    made = comm.broadcast(x, [0, 1])
    assert type(made) is list
    assert made[0] is x
    assert not same_memory(made[1], x)
    assert torch.equal(made[1], x)


@child(TWO)
def test_broadcast_into_tensors_that_are_there() -> None:
    x = torch.arange(6.0).reshape(3, 2)
    assert torch.equal(comm.broadcast(x, out=[torch.empty(3, 2)])[0], x)


@child(TWO)
def test_broadcast_coalesced() -> None:
    x = torch.arange(6.0).reshape(3, 2)
    made = comm.broadcast_coalesced([x, torch.ones(2)], [0, 1])
    assert type(made) is list
    assert [len(tensors) for tensors in made] == [2, 2]
    assert same_memory(made[0][0], x)
    assert not same_memory(made[1][0], x)
    assert made[1][1].tolist() == [1.0, 1.0]


@child(TWO)
def test_scatter_keeps_the_first_part_and_copies_the_others() -> None:
    x = torch.arange(6.0).reshape(3, 2)
    parts = comm.scatter(x, [0, 1], dim=0)
    assert type(parts) is tuple
    assert lists(parts) == [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0]]]
    assert same_memory(parts[0], x)
    assert not same_memory(parts[1], x[2:])


@child(TWO)
def test_scatter_by_sizes() -> None:
    x = torch.arange(6.0).reshape(3, 2)
    assert lists(comm.scatter(x, [0, 1], chunk_sizes=[1, 2])) == [[[0.0, 1.0]], [[2.0, 3.0], [4.0, 5.0]]]


@child(TWO)
def test_scatter_into_tensors_that_are_there() -> None:
    out = [torch.empty(1, 2), torch.empty(2, 2)]
    filled = comm.scatter(torch.arange(6.0).reshape(3, 2), out=out)
    assert filled[1] is out[1]
    assert out[1].tolist() == [[2.0, 3.0], [4.0, 5.0]]


@child(TWO)
def test_gather_puts_the_parts_together() -> None:
    x, target = torch.arange(6.0).reshape(3, 2), torch.empty(3, 2)
    parts = comm.scatter(x, [0, 1])
    assert torch.equal(comm.gather(parts), x)
    assert comm.gather(parts, out=target) is target
    assert torch.equal(target, x)


@child(TWO)
def test_gather_along_another_dimension_to_the_cpu() -> None:
    x = torch.arange(6.0).reshape(3, 2)
    assert comm.gather([x, x], dim=1, destination="cpu").tolist()[0] == [0.0, 1.0, 0.0, 1.0]


@child(TWO)
def test_gather_keeps_the_memory_format() -> None:
    parts = [torch.ones(1, 2, 3, 3).to(memory_format=torch.channels_last)] * 2
    assert comm.gather(parts).is_contiguous(memory_format=torch.channels_last)


def ones() -> torch.Tensor:
    return torch.ones(4, 2)


def meta() -> torch.Tensor:
    return torch.ones(4, 2, device="meta")


#: A call, what it raises, and its words where they are CUDA's own.
COMM_ERRORS: dict[str, tuple[Callable[[], Any], str, str | None]] = {
    "scatter: sizes of another sum": (lambda: comm.scatter(ones(), [0], chunk_sizes=[3]), "RuntimeError", None),
    "scatter: more sizes than devices": (
        lambda: comm.scatter(ones(), [0], chunk_sizes=[1, 3]),
        "RuntimeError",
        "Expected devices and chunk_sizes to be of same length, but got len(devices) = 1 and len(chunk_sizes) = 2",
    ),
    "scatter: devices and out": (lambda: comm.scatter(ones(), [0], out=[ones()]), "RuntimeError", None),
    "scatter: no device": (lambda: comm.scatter(ones(), []), "RuntimeError", None),
    "scatter: out too small": (
        lambda: comm.scatter(ones(), out=[torch.ones(3, 2)]),
        "RuntimeError",
        "Total size for output tensors along scatter dim 0 does not match the source tensor size at dim 0. Expected 4, "
        "but got total size 3",
    ),
    "scatter: out of another shape": (
        lambda: comm.scatter(ones(), out=[torch.ones(4, 3)]),
        "RuntimeError",
        "Output tensor at index 0 has incorrect shape: [4, 3]. Expected same shape except for scatter dim 0 as the "
        "source tensor: [4, 2]",
    ),
    "scatter: no such dimension": (lambda: comm.scatter(ones(), [0], dim=5), "IndexError", None),
    "gather: another shape": (
        lambda: comm.gather([ones(), torch.ones(4, 3)]),
        "RuntimeError",
        "Input tensor at index 1 has invalid shape [4, 3], but expected [4, 2]",
    ),
    "gather: fewer dimensions": (lambda: comm.gather([ones(), torch.ones(4)]), "RuntimeError", None),
    "gather: destination and out": (
        lambda: comm.gather([ones()], destination=0, out=ones()),
        "RuntimeError",
        "'destination' must not be specified when 'out' is specified, but got destination=0",
    ),
    "gather: not on a GPU": (
        lambda: comm.gather([meta()]),
        "RuntimeError",
        "Expected all input tensors to be CUDA tensors, but tensor at index 0 has device meta",
    ),
    "gather: nothing": (lambda: comm.gather([]), "RuntimeError", None),
    "gather: out too small": (
        lambda: comm.gather([ones()], out=torch.ones(3, 2)),
        "RuntimeError",
        "Expected out tensor to have shape [4, 2], but got [3, 2]",
    ),
    "broadcast: neither devices nor out": (lambda: comm.broadcast(ones()), "RuntimeError", None),
    "broadcast: out of another shape": (lambda: comm.broadcast(ones(), out=[torch.ones(2)]), "RuntimeError", None),
    "broadcast: out not on a GPU": (lambda: comm.broadcast(ones(), out=[meta()]), "RuntimeError", None),
    "broadcast: no such device": (
        lambda: comm.broadcast(ones(), [7]),
        "AcceleratorError",
        "CUDA error: invalid device ordinal",
    ),
    "broadcast_coalesced: not on a GPU": (
        lambda: comm.broadcast_coalesced([meta()], [0]),
        "RuntimeError",
        "All tensors must be on devices[0]: 0",
    ),
    "reduce_add: another size": (
        lambda: comm.reduce_add([torch.ones(2), torch.ones(3)]),
        "ValueError",
        "input 1 has invalid size: got 3, but expected 2",
    ),
    "reduce_add: not on a GPU": (
        lambda: comm.reduce_add([meta()]),
        "AssertionError",
        "reduce_add expects all inputs to be on GPUs, but input 0 is on CPU",
    ),
}


@child(CPU)
@pytest.mark.parametrize("case", COMM_ERRORS)
def test_comm_errors(case: str) -> None:
    call, kind, words = COMM_ERRORS[case]
    found = error(call)
    assert found[0] == kind
    assert words is None or found[1] == words


@child(TWO)
def test_reduce_add() -> None:
    x = torch.ones(2)
    assert comm.reduce_add([x]) is x
    assert comm.reduce_add([x, x * 2, x * 3], destination=1).tolist() == [6.0, 6.0]
    assert x.tolist() == [1.0, 1.0], "the inputs stay what they were"


@child(TWO)
def test_reduce_add_coalesced_with_sparse_among_dense() -> None:
    x, sparse = torch.ones(2), torch.eye(2).to_sparse()
    sums = comm.reduce_add_coalesced([[x, sparse, x * 2], [x, sparse, x * 3]])
    assert lists(one.to_dense() for one in sums) == [[2.0, 2.0], [[2.0, 0.0], [0.0, 2.0]], [5.0, 5.0]]


@child(TWO)
def test_reduce_add_coalesced_of_one_device() -> None:
    assert comm.reduce_add_coalesced([[torch.ones(2), torch.ones(2) * 2]])[1].tolist() == [2.0, 2.0]


# ----------------------------------------------------------------------------- nccl
def pair(*values: list[Any]) -> list[torch.Tensor]:
    return [torch.tensor(value) for value in values]


@child(TWO)
def test_all_reduce() -> None:
    tensors = pair([1.0, 2.0], [3.0, 4.0])
    nccl.all_reduce(tensors)
    assert lists(tensors) == [[4.0, 6.0], [4.0, 6.0]]


@child(TWO)
def test_all_reduce_of_maxima_into_others() -> None:
    inputs, outputs = pair([1, 7], [3, 4]), pair([0, 0], [0, 0])
    nccl.all_reduce(inputs, outputs, op=2)
    assert lists(inputs) == [[1, 7], [3, 4]]
    assert lists(outputs) == [[3, 7], [3, 7]]


@child(TWO)
def test_reduce_of_products() -> None:
    output = torch.zeros(2)
    nccl.reduce(pair([1.0, 2.0], [3.0, 4.0]), output, root=1, op=1)
    assert output.tolist() == [3.0, 8.0]


@child(TWO)
def test_reduce_into_the_deprecated_outputs() -> None:
    outputs = [torch.zeros(1), torch.zeros(1)]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        nccl.reduce(pair([1.0], [3.0]), outputs=outputs)
    assert outputs[0].tolist() == [4.0]
    assert seen[0].category is FutureWarning


@child(TWO)
def test_nccl_broadcast() -> None:
    tensors = pair([1.0], [3.0])
    nccl.broadcast(tensors, root=1)
    assert lists(tensors) == [[3.0], [3.0]]


@child(TWO)
def test_all_gather() -> None:
    outputs = [torch.zeros(2), torch.zeros(2)]
    nccl.all_gather(pair([1.0], [3.0]), outputs)
    assert lists(outputs) == [[1.0, 3.0], [1.0, 3.0]]


@child(TWO)
def test_reduce_scatter() -> None:
    outputs = [torch.zeros(1), torch.zeros(1)]
    nccl.reduce_scatter(pair([1.0, 2.0], [3.0, 4.0]), outputs)
    assert lists(outputs) == [[4.0], [6.0]]


@child(CPU)
def test_nccl_version() -> None:
    version = nccl.version()
    assert len(version) == 3
    assert version[0] == 2


@child(CPU)
def test_unique_id() -> None:
    made = nccl.unique_id()
    assert type(made) is bytes
    assert len(made) == 128
    assert nccl.unique_id() != made


AVAILABLE: dict[str, tuple[Callable[[], list[torch.Tensor]], bool]] = {
    "one": (lambda: [torch.ones(2)], True),
    "two on one device": (lambda: [torch.ones(2), torch.ones(2)], False),
    "meta": (lambda: [torch.ones(1, device="meta")], False),
    "not contiguous": (lambda: [torch.ones(2, 2).t()], False),
    "sparse": (lambda: [torch.eye(2).to_sparse()], False),
}


@child(CPU)
@pytest.mark.parametrize("case", AVAILABLE)
def test_nccl_is_available(case: str) -> None:
    make, expected = AVAILABLE[case]
    assert nccl.is_available(make()) is expected


#: A call, what it raises, and its words.
NCCL_ERRORS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "a tensor": (lambda: nccl.all_reduce(torch.ones(2)), "TypeError", "Inputs should be a collection of tensors"),
    "meta": (
        lambda: nccl.all_reduce([torch.ones(1, device="meta")]),
        "RuntimeError",
        "input and output elements have to be cuda dense Tensors",
    ),
    "nothing": (lambda: nccl.all_reduce([]), "RuntimeError", "input sequence can't be empty"),
    "a number": (lambda: nccl.all_reduce([3]), "TypeError", "expected Tensor at 0 (got int)"),
    "more outputs": (
        lambda: nccl.all_reduce([torch.ones(2)], [torch.ones(2), torch.ones(2)]),
        "RuntimeError",
        "inputs and outputs sequences have to be of the same length, but got input of length 1 and output of length 2",
    ),
    "another dtype": (
        lambda: nccl.all_reduce([torch.ones(2)], [torch.ones(2).int()]),
        "RuntimeError",
        "all inputs and outputs must be of the same Tensor dtype",
    ),
    "two on one device": (
        lambda: nccl.all_reduce([torch.ones(2), torch.ones(2)]),
        "RuntimeError",
        "inputs must be on unique devices",
    ),
    "another size": (
        lambda: nccl.all_gather([torch.ones(2)], [torch.ones(3)]),
        "RuntimeError",
        "output must be of size input_size * size_multiplier",
    ),
    "no such root": (lambda: nccl.broadcast([torch.ones(2)], root=2), "RuntimeError", "invalid root"),
    "more streams": (
        lambda: nccl.all_reduce([torch.ones(2)], streams=[None, None]),
        "RuntimeError",
        "number of streams is not equal to number of inputs",
    ),
    "a short id": (
        lambda: nccl.init_rank(2, b"short", 0),
        "RuntimeError",
        "invalid unqiue_id (expected 128 bytes, got 5)",
    ),
}


@child(CPU)
@pytest.mark.parametrize("case", NCCL_ERRORS)
def test_nccl_errors(case: str) -> None:
    call, kind, words = NCCL_ERRORS[case]
    assert error(call) == (kind, words)


@child(CPU)
def test_ranks_are_refused_with_the_way_out() -> None:
    with pytest.raises(RuntimeError, match="torch.distributed"):
        nccl.init_rank(2, nccl.unique_id(), 0)


@child(CPU)
def test_one_tensor_needs_no_other() -> None:
    assert nccl.all_reduce([torch.ones(2)]) is None
