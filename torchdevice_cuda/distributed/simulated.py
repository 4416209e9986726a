"""Process groups of a rehearsal: one rank runs, and the others are taken to hold what it holds (``--world``).

A collective takes the time that :mod:`..rehearsal.network` predicts, on a stream of its group. Large tensors are not
touched; small ones get their values, unless what they derive from was not computed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch._C import _distributed_c10d as c10d
from torch._C._distributed_c10d import HashStore, ProcessGroupGloo

from .._compat import process_groups_ask_backends
from ..rehearsal import network as links
from . import rules
from .communicator import Communicator, made
from .options import TIMEOUT, read_options
from .reductions import flat, kind_of

if TYPE_CHECKING:
    from ..native.interface import Native
    from ..rehearsal.network import Network
    from ..settings.world import World

Tensors = Sequence[torch.Tensor]
Combine = Callable[[torch.Tensor], "torch.Tensor | None"]
#: A tensor that is written, the tensor whose values it gets (``None``: unknown ones), and what becomes of them.
Write = tuple[torch.Tensor, "torch.Tensor | None", Combine]
_copy: Any = torch._C.TensorBase.copy_


def _keep(values: torch.Tensor) -> torch.Tensor:
    return values


def _is_on_gpu(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cuda"


def _bytes(tensors: Tensors) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


class SimulatedGroup:
    """The collectives of a group."""

    world: ClassVar[World]
    network: ClassVar[Network]
    native: ClassVar[Native]
    host: Any
    _coalesced: list[tuple[str, int, Tensors]] | None

    def _simulate(self, rank: int, size: int) -> None:
        if size > self.world.size:
            raise ValueError(
                f"a process group of {size} ranks, but --world simulates {self.world.size}; use --world {size}"
            )
        self.native.load_part("distributed")  # the timer of DistributedDataParallel
        self._rank, self._size = rank, size
        self._streams: dict[torch.device, torch.cuda.Stream] = {}
        self._coalesced = None
        made.backend = self

    def rank(self) -> int:
        """Return the rank that runs."""
        return self._rank

    def size(self) -> int:
        """Return the number of ranks."""
        return self._size

    @property
    def _ranks(self) -> Sequence[int]:
        """Return the ranks of the world that are in this group."""
        return getattr(self.options, "global_ranks_in_group", None) or range(self._size)  # type: ignore[attr-defined]

    # ------------------------------------------------------------------ values
    def _combine(self, op: Any) -> Combine:
        """Return what a reduction makes of values that all ranks have; ``None`` if that is not known."""
        kind: Any = c10d.ReduceOp.RedOpType
        size, name = self._size, kind_of(op)
        if name == kind.SUM:
            return lambda values: values * size
        if name == kind.PRODUCT:
            return lambda values: values**size
        return _keep if name in (kind.AVG, kind.MIN, kind.MAX, kind.BAND, kind.BOR) else lambda values: None

    def _write(self, output: torch.Tensor, source: torch.Tensor | None, combine: Combine) -> None:
        on_gpu, native = _is_on_gpu(output), self.native
        if on_gpu and native.is_large(output):
            return
        values = None
        if source is not None and not (_is_on_gpu(source) and native.is_uncomputed(source)):
            values = combine(self._lend(source))
        if values is not None and values.numel() == output.numel():
            with torch.no_grad():
                _copy(self._lend(output), values.reshape(output.shape))
        if on_gpu:
            native.set_computed(output, values is not None)

    def _lend(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a host tensor over the same memory: the clock does not time what the simulation computes."""
        if not _is_on_gpu(tensor):
            return tensor.detach()
        lent: list[torch.Tensor] = torch.ops.hostdevice_cuda.to_cpu.default([tensor])
        return lent[0]

    # -------------------------------------------------------------------- time
    def _run(
        self, kind: str, count: int, given: Tensors, writes: Sequence[Write] = (), results: Tensors | None = None
    ) -> Any:
        """Return the work of a collective of so many bytes: write the values, and take the time."""
        began = time.perf_counter_ns()
        if kind != links.BARRIER:
            rules.check(*(tensor for tensor in given if _is_on_gpu(tensor)))
        for write in writes:
            self._write(*write)
        outputs = results or [write[0] for write in writes] or list(given)
        if self._coalesced is not None:
            self._coalesced.append((kind, count, outputs))
            return self._complete([], 0, outputs, began)
        return self._complete([kind], self.network.time(kind, count, self._ranks), outputs, began)

    def _complete(self, kinds: Sequence[str], ns: float, outputs: Tensors, began: int) -> Any:
        device = next((t.device for t in outputs if _is_on_gpu(t)), None)
        future: torch.futures.Future[list[torch.Tensor]]
        if device is None:
            future = torch.futures.Future()
            future.set_result(list(outputs))
            return _to_work(future)
        future = torch.futures.Future(devices=[device])
        stream = self._streams.get(device) or self._open_stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            if kinds:
                name = f"nccl:{'+'.join(kinds)}"
                self.native.add_work(name, device.index, round(ns), time.perf_counter_ns() - began, True)
            if _callback_work is not None and links.ALL_REDUCE not in kinds:
                # A future would record the waiting streams in the allocator, which NCCL's work does not.
                return _callback_work(_Waiting(stream.record_event(), outputs))
            # Those who wait for the future wait for the stream that is current here.
            future.set_result(list(outputs))
        return _to_work(future)

    def _open_stream(self, device: torch.device) -> torch.cuda.Stream:
        stream = self._streams[device] = torch.cuda.Stream(device)
        return stream

    def complete(self, work: Any) -> None:
        """Do nothing: there is nothing to wait for."""

    def _start_coalescing(self) -> None:
        self._coalesced = []

    def _end_coalescing(self) -> Any:
        """Return one work for all calls since coalescing began; messages in both directions overlap."""
        began = time.perf_counter_ns()
        calls, self._coalesced = self._coalesced or [], None
        totals: Counter[str] = Counter()
        for kind, count, _ in calls:
            totals[kind] += count
        times = {kind: self.network.time(kind, count, self._ranks) for kind, count in totals.items()}
        both = max(times.pop(links.SEND, 0.0), times.pop(links.RECEIVE, 0.0))
        return self._complete(list(totals), sum(times.values()) + both, [t for call in calls for t in call[2]], began)

    # -------------------------------------------------------------- reductions
    def allreduce(self, tensors: Tensors, opts: Any = None) -> Any:
        """Reduce tensors for every rank."""
        combine = self._combine((opts or c10d.AllreduceOptions()).reduceOp)
        return self._run(links.ALL_REDUCE, _bytes(tensors), tensors, [(t, t, combine) for t in tensors])

    allreduce_coalesced = allreduce

    def reduce(self, tensors: Tensors, opts: Any) -> Any:
        """Reduce a tensor for one rank."""
        combine = self._combine(opts.reduceOp) if opts.rootRank == self._rank else _keep
        return self._run(links.REDUCE, _bytes(tensors), tensors, [(t, t, combine) for t in tensors])

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> Any:
        """Reduce one tensor of a list for each rank."""
        combine, given = self._combine((opts or c10d.ReduceScatterOptions()).reduceOp), inputs[-1]
        write = (rules.only(outputs), given[self._rank], combine)
        return self._run(links.REDUCE_SCATTER, _bytes(given), [*outputs, *given], [write])

    def _reduce_scatter_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Any:
        """Reduce a tensor and return each rank's part."""
        return self.reduce_scatter_tensor_coalesced([output], [input], opts)

    def reduce_scatter_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        """Reduce and scatter several tensors."""
        combine = self._combine((opts or c10d.ReduceScatterOptions()).reduceOp)
        for output, whole in zip(outputs, inputs, strict=True):
            if output.dtype != whole.dtype:
                raise TypeError("input tensor must be the same type as the output tensor.")
            if whole.numel() != output.numel() * self._size:
                raise ValueError("input tensor must be the same size as output size times world size")
        writes = [(out, self._part(whole), combine) for out, whole in zip(outputs, inputs, strict=True)]
        return self._run(links.REDUCE_SCATTER, _bytes(inputs), [*outputs, *inputs], writes)

    def _part(self, whole: torch.Tensor) -> torch.Tensor:
        """Return this rank's part of a tensor with one of each rank."""
        count = whole.numel() // self._size
        return flat(whole).narrow(0, self._rank * count, count)

    # ------------------------------------------------------------------ moving
    def broadcast(self, tensors: Tensors, opts: Any = None) -> Any:
        """Send one rank's tensor to every rank, which have it."""
        return self._run(links.BROADCAST, _bytes(tensors), tensors, [(t, t, _keep) for t in tensors])

    def allgather(
        self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None, stacked: torch.Tensor | None = None
    ) -> Any:
        """Gather all ranks' tensors in every rank's list, and in the tensor that the work shows, if it is given."""
        given, wanted = rules.only(inputs), outputs[-1]
        writes: list[Write] = [(t, given, _keep) for t in wanted]
        results = None if stacked is None else [stacked]
        if stacked is not None:
            writes.append((stacked, given, self._repeat))
        return self._run(links.ALL_GATHER, _bytes(wanted), [*wanted, given], writes, results)

    def _allgather_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Any:
        """Gather all ranks' tensors in one tensor of every rank."""
        return self.allgather_into_tensor_coalesced([output], [input], opts)

    def allgather_into_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        """Gather several tensors."""
        for output, given in zip(outputs, inputs, strict=True):
            if given.dtype != output.dtype:
                raise TypeError("output tensor must have the same type as input tensor")
            if given.numel() * self._size != output.numel():
                raise ValueError("output tensor size must be equal to world_size times input tensor size")
        writes: list[Write] = [(out, given, self._repeat) for out, given in zip(outputs, inputs, strict=True)]
        return self._run(links.ALL_GATHER, _bytes(outputs), [*outputs, *inputs], writes)

    allgather_coalesced = allgather_into_tensor_coalesced

    def _repeat(self, values: torch.Tensor) -> torch.Tensor:
        return values.reshape(-1).repeat(self._size)

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Any:
        """Gather all ranks' tensors on one rank."""
        given = rules.only(inputs)
        wanted = outputs[0] if outputs and opts.rootRank == self._rank else []
        count = _bytes(inputs) * self._size
        return self._run(links.GATHER, count, [*wanted, given], [(t, given, _keep) for t in wanted])

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Any:
        """Send each rank one of one rank's tensors."""
        output = rules.only(outputs)
        given = inputs[0][self._rank] if inputs and opts.rootRank == self._rank else None
        return self._run(links.SCATTER, _bytes(outputs) * self._size, outputs, [(output, given, _keep)])

    def alltoall_base(
        self, output: torch.Tensor, input: torch.Tensor, received: Sequence[int], sent: Sequence[int], opts: Any = None
    ) -> Any:
        """Send a part of one tensor to each rank; each rank sends what this one sends to itself."""
        is_even = not received and not sent
        write = (output, self._part(input) if is_even else None, self._repeat)
        return self._run(links.ALL_TO_ALL, _bytes([input]), [output, input], [write])

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        """Send a tensor to each rank; each rank sends what this one sends to itself."""
        own = inputs[self._rank]
        writes: list[Write] = [(out, own if out.numel() == own.numel() else None, _keep) for out in outputs]
        return self._run(links.ALL_TO_ALL, _bytes(inputs), [*outputs, *inputs], writes)

    def send(self, tensors: Tensors, dst: int, tag: int = 0) -> Any:
        """Send to one rank."""
        return self._run(links.SEND, _bytes(tensors), tensors)

    def recv(self, tensors: Tensors, src: int = -1, tag: int = 0) -> Any:
        """Receive from one rank what is not known."""
        return self._run(links.RECEIVE, _bytes(tensors), tensors, [(t, None, _keep) for t in tensors])

    recv_anysource = recv

    def barrier(self, opts: Any = None) -> Any:
        """Wait until all ranks have arrived, and all work of the device is done."""
        began = time.perf_counter_ns()
        device = getattr(opts, "device", None)
        if device is None or device.type != "cuda":
            return self._complete([], 0, [], began)
        tensor = torch.empty(0, device=device)
        work = self._complete([links.BARRIER], self.network.time(links.BARRIER, 1, self._ranks), [tensor], began)
        torch.cuda.synchronize(device)
        return work


#: Since 2.8; only the futures of reductions have readers in C++, in DistributedDataParallel.
_callback_work: Any = getattr(c10d, "PythonCallbackWork", None)


class _Waiting:
    """What a wait for a work does: the current stream waits. It keeps the tensors until then."""

    def __init__(self, done: torch.cuda.Event, outputs: Tensors) -> None:
        self._done, self._outputs = done, tuple(outputs)

    def __call__(self, timeout: object) -> bool:
        self._done.wait()
        self._outputs = ()
        return True


def _to_work(future: Any) -> Any:
    return c10d._create_work_from_future(future)  # type: ignore[attr-defined]  # not in the stubs


class SimulatedNCCL(SimulatedGroup, Communicator):
    """``ProcessGroupNCCL`` of a rehearsal."""

    def __init__(
        self,
        store: Any,
        rank: int,
        size: int,
        options: Any = None,
        device_id: torch.device | None = None,
        *,
        timeout: timedelta | None = None,
    ) -> None:
        options = read_options(options, timeout)
        _initialize(self, options._timeout, rank, size)
        self._options = options
        self.checking = None
        self._splits, self._number = 0, 0
        self._unchecked = None
        self.bound_device_id = device_id
        self._simulate(rank, size)

    def _set_enable_nan_check(self, enable_nan_check: bool) -> None:
        """Do nothing: values are not computed."""


class SimulatedGloo(SimulatedGroup, ProcessGroupGloo):
    """``ProcessGroupGloo`` of a rehearsal."""

    bound_device_id: Any = None
    checking: Any = None

    def __init__(self, store: Any, rank: int, size: int, *_: Any, timeout: timedelta = TIMEOUT, **__: Any) -> None:
        _initialize(self, timeout, rank, size)
        self._simulate(rank, size)

    @property
    def host(self) -> Any:
        """Return the group that C++ knows."""
        return self


def _initialize(group: Any, timeout: timedelta, rank: int, size: int) -> None:
    """Let the part in C++ be a group that connects to no other rank."""
    options: Any = ProcessGroupGloo._Options()  # type: ignore[attr-defined]  # not in the stubs
    options._threads = 1
    options._timeout = timeout
    device: dict[str, Any] = {"hostname": "127.0.0.1"}
    if process_groups_ask_backends(torch.__version__):
        device["lazy_init"] = True  # connects with the first call, which never comes
    else:
        rank, size = 0, 1
    options._devices = [ProcessGroupGloo.create_device(**device)]
    ProcessGroupGloo.__init__(group, HashStore(), rank, size, options)
