"""Kernels of the collective operators, through which every caller reaches a process group: Python, C++, compiled code.

torch's own would pass the accelerator's tensors to Gloo unchanged. The Gloo of a CPU build has no kernels for CUDA, and
the process dies of a null pointer; that of a CUDA build would call NVIDIA's driver.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch._C import _distributed_c10d as c10d
from torch._C._distributed_c10d import Backend, ProcessGroup, ReduceOp
from torch.utils._pytree import tree_leaves, tree_map_only

from .._compat import knows_dispatch_key, reduction_number
from . import carriers, groups, rules
from .carriers import Accesses, Aliased, Carrier

if TYPE_CHECKING:
    from .backend import ProcessGroupNCCL

_has = torch._C._dispatch_has_kernel_for_dispatch_key
_Kind: Any = ReduceOp.RedOpType
#: Called with the operator that leaves the accelerator, if one does.
Left = Callable[[str], None] | None


class Call(NamedTuple):
    """The backend's call for an operator: its method, arguments by the operator's names, and options."""

    method: str
    arguments: tuple[str, ...]
    options: str | None
    #: whether it writes, and whether it waits for a call of one other process
    writes: bool = True
    arrives: bool = False
    #: the ranks whose first argument it writes, if not all: the root's, or that of the other ranks
    writes_on: str = ""


_CALLS = {
    "allreduce_": Call("allreduce", ("tensors",), "AllreduceOptions"),
    "allreduce_coalesced_": Call("allreduce_coalesced", ("tensors",), "AllreduceCoalescedOptions"),
    "broadcast_": Call("broadcast", ("tensors",), "BroadcastOptions", writes_on="others"),
    "reduce_": Call("reduce", ("tensors",), "ReduceOptions", writes_on="root"),
    "allgather_": Call("allgather", ("output_tensors", "input_tensors"), "AllgatherOptions"),
    "_allgather_base_": Call("_allgather_base", ("output_tensor", "input_tensor"), "AllgatherOptions"),
    "allgather_coalesced_": Call("allgather_coalesced", ("output_lists", "input_list"), "AllgatherOptions"),
    "allgather_into_tensor_coalesced_": Call(
        "allgather_into_tensor_coalesced", ("outputs", "inputs"), "AllgatherOptions"
    ),
    "reduce_scatter_": Call("reduce_scatter", ("output_tensors", "input_tensors"), "ReduceScatterOptions"),
    "_reduce_scatter_base_": Call("_reduce_scatter_base", ("output_tensor", "input_tensor"), "ReduceScatterOptions"),
    "reduce_scatter_tensor_coalesced_": Call(
        "reduce_scatter_tensor_coalesced", ("outputs", "inputs"), "ReduceScatterOptions"
    ),
    "gather_": Call("gather", ("output_tensors", "input_tensors"), "GatherOptions"),
    "scatter_": Call("scatter", ("output_tensors", "input_tensors"), "ScatterOptions"),
    "alltoall_": Call("alltoall", ("output_tensors", "input_tensors"), "AllToAllOptions"),
    "alltoall_base_": Call(
        "alltoall_base", ("output", "input", "output_split_sizes", "input_split_sizes"), "AllToAllOptions"
    ),
    "barrier": Call("barrier", (), "BarrierOptions", writes=False),
    "send": Call("send", ("tensors", "dst", "tag"), None, writes=False, arrives=True),
    "recv_": Call("recv", ("tensors", "src", "tag"), None, arrives=True),
    "recv_any_source_": Call("recv_anysource", ("tensors", "tag"), None, arrives=True),
}
#: Operator arguments that are attributes of the options.
_ATTRIBUTES = {
    "root_rank": "rootRank",
    "root_tensor": "rootTensor",
    "async_op": "asyncOp",
    "device_ids": "device_ids",
}
#: Operators that Python cannot call on a backend for several tensors: it calls these for one at a time.
_ONE_BY_ONE = {
    "allgather_into_tensor_coalesced": "_allgather_base",
    "reduce_scatter_tensor_coalesced": "_reduce_scatter_base",
}


def _tensors(value: Any) -> list[torch.Tensor]:
    """Return the tensors of arguments, in their order."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _plain(backend: Any, call: Call, args: Sequence[Any], options: tuple[Any, ...], carrier: Carrier) -> Any:
    """Call another backend, such as Gloo's, on the accelerator's tensors: its own rules hold."""
    given = _tensors(list(args))
    carrier.wait_to_read(given)
    lent = carrier.lend(given)
    brought = [one.contiguous() if one.layout is torch.strided else one for one in lent]
    known = iter(brought)
    handed: list[Any] = tree_map_only(torch.Tensor, lambda _: next(known), list(args))
    single = _ONE_BY_ONE.get(call.method)
    calls = zip(*handed, strict=True) if single else [handed]
    parts = [getattr(Backend, single or call.method)(backend, *one, *options) for one in calls]
    count = len(_tensors(args[0])) if call.writes else 0

    def back() -> None:
        for target, source in zip(lent[:count], brought, strict=False):
            if target is not source:
                target.copy_(source)

    moved = any(target is not source for target, source in zip(lent[:count], brought, strict=False))
    return carrier.work(carriers.Call(parts, given[:count], lent[:count], back if moved else None, call.arrives))


def _stacked(outputs: Sequence[Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Return the tensor that the work of ``allgather`` shows, where NCCL's does."""
    wanted = outputs[-1] if outputs else ()
    return (rules.stack(wanted, inputs[0]),) if wanted and inputs and rules.same_sizes(wanted) else ()


def _accesses(call: Call, handed: Sequence[Any], options: tuple[Any, ...], rank: int) -> Accesses:
    first, *others = [_tensors(one) for one in handed] or [[]]
    stacked = _tensors(options)
    given = [tensor for one in (first, *others, stacked) for tensor in one]
    outputs = first + stacked if call.writes else []
    is_written = not call.writes_on or (options[0].rootRank == rank) == (call.writes_on == "root")
    written = outputs if is_written else []
    read = [tensor for tensor in given if not any(tensor is one for one in written)]
    return Accesses(given, stacked or outputs, written, read, handed[1] if call.arrives else None)


def _call(
    backend: ProcessGroupNCCL, call: Call, handed: Sequence[Any], options: tuple[Any, ...], carrier: Carrier
) -> Any:
    """Call a method of the backend, at once or later."""
    method = getattr(backend, call.method)
    if not carrier.is_observed():
        return method(*handed, *options)
    accesses = _accesses(call, handed, options, backend.rank())
    work = carrier.defer(backend, method, [*handed, *options], accesses)
    if work is None:
        work = method(*handed, *options)
        carrier.observe(backend, work, accesses)
    return work


def kernel(name: str, device: torch.device, carrier: Carrier, left: Left) -> Callable[..., Any]:
    """Return the kernel of one collective operator for one device type; it calls ``left`` when it runs."""
    call = _CALLS[name]
    schema = getattr(torch.ops.c10d, name).default._schema
    places = {argument.name: place for place, argument in enumerate(schema.arguments)}
    alone = len(schema.returns) == 1
    wanted = [places[argument] for argument in call.arguments]
    group_at, reduce_at, timeout_at = (places.get(what) for what in ("process_group", "reduce_op", "timeout"))
    assert group_at is not None
    made = getattr(c10d, call.options) if call.options else None
    settings = [
        (places[argument], attribute)
        for argument, attribute in _ATTRIBUTES.items()
        if argument in places and hasattr(made, attribute)
    ]
    unbox = ProcessGroup.unbox

    def collect(*args: Any) -> Any:
        if left is not None:
            left(f"c10d::{name}")
        group = unbox(args[group_at])
        options: tuple[Any, ...] = ()
        if made is not None:
            opts = made()
            # Arguments with their defaults are omitted from a call, and have them in the options.
            count = len(args)
            for place, attribute in settings:
                if place < count:
                    setattr(opts, attribute, args[place])
            if timeout_at is not None and timeout_at < count and args[timeout_at] >= 0:
                opts.timeout = timedelta(milliseconds=args[timeout_at])
            if reduce_at is not None:
                opts.reduceOp = reduction(args[reduce_at])
            options = (opts,)
        handed = [args[place] for place in wanted]
        backend = groups.backend_of(group)
        if backend is not None and call.method == "allgather":
            options += _stacked(*handed)

        def begin() -> Any:
            if backend is not None:
                return _call(backend, call, handed, options, carrier)
            return _plain(group._get_backend(device), call, handed, options, carrier)

        work = carrier.begin(_tensors([handed, options]), begin) if carrier.captures() else begin()
        # Releases before 2.8 do not set it.
        if backend is not None and options and getattr(options[0], "asyncOp", True) is False:
            backend.complete(work)
        return work.boxed() if alone else (args[0], work.boxed())

    return collect


_REDUCTIONS = {kind: ReduceOp(kind) for kind in _Kind.__members__.values() if kind != _Kind.PREMUL_SUM}


def reduction(boxed: Any) -> Any:
    """Return a reduction as backends take it. Python's call noted what the dispatcher does not pass."""
    number = reduction_number(boxed)
    if number is None or _Kind(number) == _Kind.PREMUL_SUM:
        return getattr(groups.noted, "reduction", None) or _REDUCTIONS[_Kind.SUM]
    return _REDUCTIONS[_Kind(number)]


#: The namespace of operators for calls that the compiled part leaves to Python.
_SLOW = "torchdevice_cuda"


def _quicken(carrier: Carrier, slow: Callable[..., Any]) -> Callable[[], None] | None:
    """Let the compiled part reduce tensors that need no rules here, if possible; return the function that ends it.

    Half of the cost of a small all_reduce beyond Gloo's own was Python, and Gloo's thread waiting for the GIL.
    """
    if not isinstance(carrier, Aliased):
        return None
    library = torch.library.Library(_SLOW, "FRAGMENT")
    library.define(str(torch.ops.c10d.allreduce_.default._schema).removeprefix("c10d::"))
    library.impl("allreduce_", slow, "CUDA")
    carrier.native.use_quick_allreduce(f"{_SLOW}::allreduce_")

    def end() -> None:
        carrier.native.use_quick_allreduce(None)
        library._destroy()

    return end


def register(key: str, device: torch.device, carrier: Carrier, left: Left) -> Callable[[], None]:
    """Register the kernels at a dispatch key, for tensors of a device type; return the function that removes them."""
    library = torch.library.Library("c10d", "IMPL")
    with warnings.catch_warnings():
        # torch warns once that kernels are overridden; torch's would end the process.
        warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel")
        for name in _CALLS:
            if _has(f"c10d::{name}", "CUDA"):
                library.impl(name, kernel(name, device, carrier, left), key)
        # A release without sparse tensors on the device has no key for them.
        if knows_dispatch_key(f"Sparse{key}") and _has("c10d::allreduce_", f"Sparse{key}"):
            library.impl("allreduce_", kernel("allreduce_", device, carrier, left), f"Sparse{key}")
        end = _quicken(carrier, kernel("allreduce_", device, carrier, left))

    def undo() -> None:
        if end is not None:
            end()
        library._destroy()

    return undo
