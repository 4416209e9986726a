"""``ProcessGroupNCCL`` without NCCL: its rules for tensors, and Gloo for communication.

NCCL sends memory in its order and knows no shapes: so these pass flat views to Gloo. Data that is only moved is passed
as bytes, since Gloo knows fewer dtypes than NCCL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceOptions,
    AllToAllOptions,
    Backend,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)

from . import rules
from .agreement import Kind, describe_exchange
from .communicator import Communicator
from .reductions import Finish, Reduction, flat, kind_of

Tensors = Sequence[torch.Tensor]
#: The methods of C++'s class: a group's own methods are NCCL's.
_gloo: Any = Backend


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return flat(tensor).view(torch.uint8)


def _root(opts: Any) -> int:
    """Return the rank that has or gets the data. ``rootTensor`` is from when a process had several GPUs."""
    return int(opts.rootRank + getattr(opts, "rootTensor", 0))


def _options(kind: Callable[[], Any], given: Any, **changed: Any) -> Any:
    """Return options for the host's call, with the program's timeout."""
    made = kind()
    made.timeout = given.timeout
    for name, value in changed.items():
        setattr(made, name, value)
    return made


def _all(steps: Sequence[Finish | None]) -> Finish | None:
    """Return all given steps as one."""
    taken = [step for step in steps if step is not None]
    if len(taken) < 2:
        return taken[0] if taken else None

    def take() -> None:
        for step in taken:
            step()

    return take


class ProcessGroupNCCL(Communicator):
    """NCCL's process group. It is itself a Gloo group, for C++ code that uses a backend for more than collectives."""

    # ------------------------------------------------------------------ reductions
    def allreduce(self, tensors: Tensors, opts: Any = None) -> Any:
        """Reduce a tensor for every rank."""
        tensor = rules.only(tensors)
        if tensor.layout is not torch.strided:
            raise RuntimeError(
                "NCCL does not support all_reduce with sparse tensors. Please use dense tensors instead."
            )
        opts = opts or AllreduceOptions()
        tensor = rules.real(tensor, kind_of(opts.reduceOp))
        rules.check(tensor)
        return self._reduce_all([tensor], opts)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Any:
        """Reduce several tensors for every rank."""
        rules.check_alike(tensors)
        return self._reduce_all(tensors, opts or AllreduceOptions())

    def _check_reduced(self, tensors: Tensors, opts: Any) -> None:
        kind = kind_of(opts.reduceOp)
        for tensor in tensors:
            rules.check_float8(tensor.dtype)
            self.check_bound(tensor)
            rules.check_type(tensor.dtype)
            rules.gloo_kind(kind, tensor.dtype)

    def _reduce_all(self, tensors: Tensors, opts: Any) -> Any:
        self._check_reduced(tensors, opts)
        lent = self.carrier.lend(tensors)
        self.check_numbers(*lent)
        asked = [Reduction(one, opts.reduceOp, self.size()) for one in lent]
        parts = [part for one in asked for part in self._gloo_allreduce(one, opts, tensors=len(asked))]
        return self.work(parts, tensors, lent, _all([one.settled() for one in asked]))

    # Gloo's calls: first compared with the other ranks' calls, and omitted if there is nothing to send.
    def _gloo_allreduce(self, asked: Reduction, opts: Any, kind: Kind = Kind.ALLREDUCE, tensors: int = 1) -> list[Any]:
        self.reduces(kind, asked, tensors=tensors)
        if not asked.buffer.numel():
            return []
        return [_gloo.allreduce(self.host, [asked.buffer], _options(AllreduceOptions, opts, reduceOp=asked.op))]

    def _gloo_reduce(self, asked: Reduction, root: int, opts: Any, tensors: int = 1) -> list[Any]:
        self.reduces(Kind.REDUCE, asked, root, tensors)
        if not asked.buffer.numel():
            return []
        made = _options(ReduceOptions, opts, reduceOp=asked.op, rootRank=root)
        return [_gloo.reduce(self.host, [asked.buffer], made)]

    def reduce(self, tensors: Tensors, opts: Any = None) -> Any:
        """Reduce a tensor for one rank; the others keep their tensors."""
        opts = opts or ReduceOptions()
        tensor = rules.real(rules.only(tensors), kind_of(opts.reduceOp))
        rules.check(tensor)
        self._check_reduced([tensor], opts)
        lent = self.carrier.lend([tensor])
        self.check_numbers(*lent)
        # Gloo writes into the tensors of all ranks.
        asked = Reduction(lent[0], opts.reduceOp, self.size(), apart=self.rank() != _root(opts))
        parts = self._gloo_reduce(asked, _root(opts), opts)
        return self.work(parts, [tensor], lent, asked.settled() if self.rank() == _root(opts) else None)

    def _reduce_scatter_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Any:
        """Reduce a tensor and return each rank's part."""
        if input.dtype != output.dtype:
            raise TypeError("input tensor must be the same type as the output tensor.")
        if input.numel() != output.numel() * self.size():
            raise ValueError("input tensor must be the same size as output size times world size")
        return self.reduce_scatter_tensor_coalesced([output], [input], opts)

    def reduce_scatter_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        """Reduce and scatter several tensors."""
        opts = opts or ReduceScatterOptions()
        kind = kind_of(opts.reduceOp)
        outputs = [rules.real(tensor, kind) for tensor in outputs]
        inputs = [rules.real(tensor, kind) for tensor in inputs]
        rules.check(*outputs, *inputs)
        self._check_reduced([*outputs, *inputs], opts)
        lent, brought = self.carrier.lend(outputs), self.carrier.lend(inputs)
        self.check_numbers(*brought)
        begun = [
            self._scatter_reduced(mine, flat(whole), opts, len(inputs))
            for mine, whole in zip(lent, brought, strict=True)
        ]
        parts = [part for found, _ in begun for part in found]
        return self.work(parts, outputs, lent, _all([step for _, step in begun]))

    def _scatter_reduced(
        self, mine: torch.Tensor, whole: torch.Tensor, opts: Any, tensors: int = 1
    ) -> tuple[list[Any], Finish]:
        """Reduce all parts of a host tensor on every rank, as Gloo does, and take this rank's."""
        asked = Reduction(whole, opts.reduceOp, self.size(), apart=True)

        def take() -> None:
            asked.copy(flat(mine), asked.buffer.chunk(self.size())[self.rank()])

        return self._gloo_allreduce(asked, opts, Kind.REDUCE_SCATTER, tensors), take

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> Any:
        """Reduce one tensor of each rank's list for each rank; sizes may differ."""
        opts = opts or ReduceScatterOptions()
        kind = kind_of(opts.reduceOp)
        output, given = rules.real(rules.only(outputs), kind), [rules.real(one, kind) for one in inputs[-1]]
        rules.check(output)
        self._check_reduced([output, *given], opts)
        is_even = rules.same_sizes(given)
        if not is_even and given[self.rank()].numel() != output.numel():
            raise ValueError("Tensor input and output of _reduce_oop must have the same number of elements ")
        lent, brought = self.carrier.lend([output]), self.carrier.lend(given)
        self.check_numbers(*brought)
        if is_even:
            parts, step = self._scatter_reduced(lent[0], torch.cat([one.reshape(-1) for one in brought]), opts)
            return self.work(parts, [output], lent, step)
        asked = [Reduction(one.contiguous(), opts.reduceOp, self.size(), apart=True) for one in brought]
        parts = [part for root, one in enumerate(asked) for part in self._gloo_reduce(one, root, opts, len(asked))]

        def take() -> None:
            asked[self.rank()].copy(flat(lent[0]), asked[self.rank()].buffer)

        return self.work(parts, [output], lent, take)

    # ------------------------------------------------------------------- moving
    def broadcast(self, tensors: Tensors, opts: Any = None) -> Any:
        """Send one rank's tensor to every rank."""
        opts = opts or BroadcastOptions()
        tensor = rules.only(tensors)
        self.check(tensor)
        lent = self.carrier.lend([tensor])
        if self.rank() == _root(opts):
            self.check_numbers(*lent)
        return self.work(self._gloo_broadcast(lent[0], _root(opts), opts), [tensor], lent)

    def _gloo_broadcast(self, tensor: torch.Tensor, root: int, opts: Any, tensors: int = 1) -> list[Any]:
        given = _bytes(tensor)
        self.moves(Kind.BROADCAST, given.numel(), root, tensors)
        if not given.numel():
            return []
        return [_gloo.broadcast(self.host, [given], _options(BroadcastOptions, opts, rootRank=root))]

    def allgather(
        self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None, stacked: torch.Tensor | None = None
    ) -> Any:
        """Gather all ranks' tensors in every rank's list; sizes may differ, else ``stacked`` may be given."""
        opts = opts or AllgatherOptions()
        tensor, wanted = rules.only(inputs), list(outputs[-1])
        self.check(tensor)
        is_even = rules.same_sizes(wanted)
        if not is_even and wanted[self.rank()].numel() != tensor.numel():
            raise ValueError("Tensor input and output of _broadcast_oop must have the same number of elements ")
        if not is_even:
            rules.check(*wanted)
        elif wanted[0].numel() != tensor.numel() or len(wanted) != self.size():
            raise RuntimeError("output tensors must be as many as there are ranks, each as large as the input tensor")
        lent, given = self.carrier.lend(wanted), self.carrier.lend([tensor])[0]
        self.check_numbers(given)
        if not is_even:
            return self._gather_uneven(wanted, lent, given, opts)
        # NCCL, too, gathers in one tensor, which its work shows. The outputs may have another dtype, or gaps.
        stacked = rules.stack(wanted, tensor) if stacked is None else stacked
        room = self.carrier.lend([stacked])[0]

        def put() -> None:
            for one, part in zip(lent, room.unbind(), strict=True):
                one.copy_(part)

        parts = self._gloo_gather(room, given, opts)
        return self.work(parts, [*wanted, stacked], [*lent, room], put, results=[stacked])

    def _gather_uneven(self, wanted: Tensors, lent: list[torch.Tensor], given: torch.Tensor, opts: Any) -> Any:
        flat(lent[self.rank()]).copy_(flat(given))
        parts = [part for root, one in enumerate(lent) for part in self._gloo_broadcast(one, root, opts, len(lent))]
        return self.work(parts, wanted, lent)

    def _gloo_gather(self, room: torch.Tensor, given: torch.Tensor, opts: Any, tensors: int = 1) -> list[Any]:
        brought = _bytes(given)
        self.moves(Kind.ALLGATHER, brought.numel(), tensors=tensors)
        if not brought.numel():
            return []
        rooms = list(_bytes(room).chunk(self.size()))
        return [_gloo.allgather(self.host, [rooms], [brought], _options(AllgatherOptions, opts))]

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Any:
        """Raise, as NCCL does."""
        raise NotImplementedError("ProcessGroupNCCL does not support allgather_coalesced")

    def _allgather_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Any:
        """Gather all ranks' tensors in one tensor of every rank."""
        rules.check(input, output)
        if input.dtype != output.dtype:
            raise TypeError("output tensor must have the same type as input tensor")
        if input.numel() * self.size() != output.numel():
            raise ValueError("output tensor size must be equal to world_size times input tensor size")
        return self.allgather_into_tensor_coalesced([output], [input], opts)

    def allgather_into_tensor_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        """Gather several tensors."""
        opts = opts or AllgatherOptions()
        self.check(*inputs, *outputs)
        lent, brought = self.carrier.lend(outputs), self.carrier.lend(inputs)
        self.check_numbers(*brought)
        # The input may be a part of the output: Gloo first copies it there, onto itself.
        parts = [
            part
            for room, given in zip(lent, brought, strict=True)
            for part in self._gloo_gather(room, given, opts, len(inputs))
        ]
        return self.work(parts, outputs, lent)

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Any:
        """Gather all ranks' tensors on one rank."""
        opts = opts or GatherOptions()
        tensor = rules.only(inputs)
        self.check(tensor)
        wanted = rules.check_root("gather", "output", outputs, tensor, self.rank(), self.size(), opts.rootRank)
        lent, given = self.carrier.lend(wanted), self.carrier.lend([tensor])[0]
        self.check_numbers(given)
        self.moves(Kind.GATHER, given.numel() * given.element_size(), opts.rootRank)
        rooms = [[_bytes(one) for one in lent]] if wanted else []
        made = _options(GatherOptions, opts, rootRank=opts.rootRank)
        parts = [_gloo.gather(self.host, rooms, [_bytes(given)], made)] if tensor.numel() else []
        return self.work(parts, wanted, lent)

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any = None) -> Any:
        """Send each rank one of one rank's tensors."""
        opts = opts or ScatterOptions()
        tensor = rules.only(outputs)
        given = rules.check_root("scatter", "input", inputs, tensor, self.rank(), self.size(), opts.rootRank)
        self.check(tensor, *given)
        lent, brought = self.carrier.lend([tensor]), self.carrier.lend(given)
        self.check_numbers(*brought)
        self.moves(Kind.SCATTER, lent[0].numel() * lent[0].element_size(), opts.rootRank)
        rows = [[_bytes(one) for one in brought]] if given else []
        made = _options(ScatterOptions, opts, rootRank=opts.rootRank)
        parts = [_gloo.scatter(self.host, [_bytes(lent[0])], rows, made)] if tensor.numel() else []
        return self.work(parts, [tensor], lent)

    def alltoall_base(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        opts: Any = None,
    ) -> Any:
        """Send a part of one tensor to each rank."""
        self.check(output, input)
        even = not output_split_sizes and not input_split_sizes
        received = rules.check_splits(output, output_split_sizes, self.size(), even)
        sent = rules.check_splits(input, input_split_sizes, self.size(), even)
        lent, given = self.carrier.lend([output]), self.carrier.lend([input])[0]
        return self.work([self._exchange(lent[0], given, received, sent, opts)], [output], lent)

    def _exchange(
        self, room: torch.Tensor, given: torch.Tensor, received: list[int], sent: list[int], opts: Any
    ) -> Any:
        """Exchange parts of host tensors, given their numbers of elements."""
        width = given.element_size()
        self.check_numbers(given)
        self.moves(Kind.ALLTOALL)
        own = self.rank()
        if sent[own] != received[own]:
            self.fail(describe_exchange(own, sent[own] * width, own, received[own] * width))
        for other, (out, back) in enumerate(zip(sent, received, strict=True)):
            self.sends(other, out * width)
            self.wants(other, back * width)
        return _gloo.alltoall_base(
            self.host,
            _bytes(room),
            _bytes(given),
            [count * width for count in received],
            [count * width for count in sent],
            _options(AllToAllOptions, opts or AllToAllOptions()),
        )

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Any:
        """Send a tensor to each rank."""
        self.check(*outputs, *inputs)
        if any(tensor.device != outputs[0].device for tensor in (*outputs, *inputs)):
            raise RuntimeError("Tensors must be on the same device")
        lent = self.carrier.lend(outputs)
        given = torch.cat([flat(one) for one in self.carrier.lend(inputs)])
        counts = [one.numel() for one in lent]
        room = rules.new_empty(given, sum(counts))
        part = self._exchange(room, given, counts, [one.numel() for one in inputs], opts)

        def put() -> None:
            for one, piece in zip(lent, room.split(counts), strict=True):
                flat(one).copy_(piece)

        return self.work([part], outputs, lent, put)

    # ------------------------------------------------------------- one to another
    def send(self, tensors: Tensors, dst: int, tag: int = 0) -> Any:
        """Send to one rank. NCCL has no tags: tensors are received in the order in which they are sent."""
        tensor = rules.only(tensors)
        rules.check_sent(tensor)
        rules.check_type(rules.parts(tensor.dtype))
        lent = self.carrier.lend([tensor])
        self.check_numbers(*lent)
        given = _bytes(lent[0])
        self.sends(dst, given.numel())
        # Gloo sends when the other rank receives.
        parts = [_gloo.send(self.host, [given], dst, 0)] if tensor.numel() else []
        return self.work(parts, arrives=True)

    def recv(self, tensors: Tensors, src: int, tag: int = 0) -> Any:
        """Receive a tensor from one rank."""
        tensor = rules.only(tensors)
        rules.check_sent(tensor)
        rules.check_type(rules.parts(tensor.dtype))
        lent = self.carrier.lend([tensor])
        room = _bytes(lent[0])
        self.wants(src, room.numel())
        parts = [_gloo.recv(self.host, [room], src, 0)] if tensor.numel() else []
        return self.work(parts, [tensor], lent, arrives=True)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Any:
        """Raise, as NCCL does."""
        raise NotImplementedError("ProcessGroupNCCL does not support recvAnysource")

    def barrier(self, opts: Any = None) -> Any:
        """Wait until all ranks have arrived."""
        self.moves(Kind.BARRIER)
        return self.work([_gloo.barrier(self.host, _options(BarrierOptions, opts or BarrierOptions()))])
