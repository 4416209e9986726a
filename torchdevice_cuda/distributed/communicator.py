"""The methods of an NCCL process group besides collectives, and code that its collectives share."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch._C import _DistBackendError
from torch._C._distributed_c10d import Backend, PrefixStore, ProcessGroupGloo, Store

from ..drivers.errors import cuda_error
from . import addresses, agreement, environment, membership, rules, watchdog
from .agreement import Kind
from .carriers import Call, Carrier
from .options import NCCLConfig, Options, read_options
from .reductions import Reduction

if TYPE_CHECKING:
    from torch._C._distributed_c10d import ErrorType

Tensors = Sequence[torch.Tensor]
#: The methods of C++'s class: a group's own methods are NCCL's.
_gloo: Any = Backend
#: A tag that no rank ever sends.
_NEVER_SENT = 0x7DC0DE
_numbers = itertools.count()
#: The last backend that this thread created, until its group is known: it must be kept alive.
made = threading.local()


class Communicator(ProcessGroupGloo):
    """A Gloo group that reports NCCL as its backend."""

    Options: ClassVar[Any] = Options
    NCCLConfig = NCCLConfig
    NCCL_CTA_POLICY_DEFAULT, NCCL_CTA_POLICY_EFFICIENCY, NCCL_CTA_POLICY_ZERO = range(3)
    supports_splitting = True
    supports_coalescing = True
    supports_time_estimate = False
    supports_shrinking = False
    #: The parts that depend on the driver; set when it is known.
    carrier: ClassVar[Carrier]
    device_count: ClassVar[Callable[[], int]]
    nccl_version: ClassVar[tuple[int, int, int]]

    def _shutdown(self) -> None:
        """End a group as NCCL's does in torch 2.6; Gloo's ends with its object."""

    def __init__(
        self,
        store: Store,
        rank: int,
        size: int,
        options: Any = None,
        device_id: torch.device | None = None,
        *,
        timeout: timedelta | None = None,
    ) -> None:
        options = read_options(options, timeout)
        if type(self).device_count() == 0:
            raise ValueError("ProcessGroupNCCL is only supported with GPUs, no GPUs found!")
        read = environment.read()
        # torchrun may pass one store to restarted workers: it contains addresses of workers that have ended.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        own, found = PrefixStore(f"attempt_{attempt}/", store), addresses.options(options._timeout)
        keys = membership.check(own, rank, size, options.global_ranks_in_group)
        if found is None:
            super().__init__(own, rank, size, timeout=options._timeout)
        else:
            super().__init__(own, rank, size, found)
        self._options = options
        #: A group that compares the ranks' calls before it calls this one, if there is one.
        self.checking: Backend | None = None
        self.coalesced: list[Any] | None = None
        self.streams: dict[int | None, int] = {}
        self._splits = 0
        self._number = next(_numbers)
        self.bound_device_id = device_id
        self.agreement = agreement.join(own, rank, size, self, keys)
        #: The buffer of a receive that no rank sends to.
        self._nothing = torch.ops.aten.empty.memory_format([1], dtype=torch.uint8, device=torch.device("cpu"))
        if self.agreement is not None:
            weakref.finalize(self, self.carrier.watch(self, self.agreement))
            watchdog.watch(self, self.agreement)
        self._unchecked: weakref.finalize[Any, Communicator] | None = None
        self._set_enable_nan_check(read.checks_nan)
        if read.times:
            self._enable_collectives_timing()
        made.backend = self

    @property
    def host(self) -> Backend:
        """Return the host's process group."""
        return self.checking or self

    # ------------------------------------------------------------------ questions
    @property
    def options(self) -> Any:
        """Return the options that it was created with."""
        return self._options

    @property
    def uid(self) -> int:
        """Return the number of the group in the process, in the order of creation."""
        return self._number

    def name(self) -> str:
        """Return ``nccl``."""
        return "nccl"

    _get_backend_name = name

    @classmethod
    def get_build_nccl_version(cls) -> tuple[int, int, int]:
        """Return the version that this release of torch is built with."""
        return cls.nccl_version

    get_runtime_nccl_version = get_build_nccl_version

    def comm_split_count(self) -> int:
        """Return the number of groups that were split off."""
        return self._splits

    def count_split(self) -> None:
        """Count another group that was split off."""
        self._splits += 1

    def split(self, store: Store, ranks: Sequence[int], options: Any) -> Communicator | None:
        """Return the group of some ranks of this one, on those ranks."""
        self.count_split()
        ranks = sorted(ranks)
        place = ranks.index(self.rank()) if self.rank() in ranks else None
        return None if place is None else type(self)(store, place, len(ranks), options)

    def perform_nocolor_split(self, device: torch.device) -> None:
        """Do nothing: NCCL needs the call from ranks that are in no part; the host does not."""
        self.count_split()

    def eager_connect_single_device(self, device: torch.device | None = None) -> None:
        """Do nothing: Gloo has connected already."""

    def _is_initialized(self) -> bool:
        return True

    def get_error(self) -> ErrorType:
        """Return the error of NCCL's watchdog: here errors reach the waiting call."""
        from torch._C._distributed_c10d import ErrorType  # 2.6 has neither it nor its caller

        return ErrorType.SUCCESS

    def _add_ephemeral_timeout(self, timeout: timedelta) -> None:
        """Do nothing: NCCL extends the next calls' time, but here every call has the group's whole timeout."""

    def _set_default_timeout(self, timeout: timedelta) -> None:
        super()._set_default_timeout(timeout)
        self._options._timeout = timeout

    def _set_enable_nan_check(self, enable_nan_check: bool) -> None:
        """Set whether values are checked before they are sent; calls of the compiled part alone are not."""
        if enable_nan_check == (self._unchecked is not None):
            return
        if self._unchecked is not None:
            self._unchecked()
            self._unchecked = None
        else:
            self.carrier.coalesce(1)
            self._unchecked = weakref.finalize(self, self.carrier.coalesce, -1)

    def _enable_collectives_timing(self) -> None:
        """Make works measure their duration."""
        self.carrier.time(True)

    def _group_start(self) -> None:
        """Do nothing: NCCL groups calls, but the host begins each at once."""

    def _group_end(self) -> None:
        """Do nothing: no call was held back."""

    @property
    def mem_allocator(self) -> Any:
        """Return the allocator of registered memory that NCCL would use."""
        raise RuntimeError("NCCL mem allocator is not supported in this NCCL version")

    def register_mem_pool(self, pool: Any, symm: bool = False) -> None:
        """Do nothing: only NCCL needs registered memory."""

    def deregister_mem_pool(self, pool: Any) -> None:
        """Do nothing: no memory was registered."""

    # ----------------------------------------------------------------- coalescing
    def _start_coalescing(self) -> None:
        self.coalesced = []
        self.carrier.coalesce(1)

    def _end_coalescing(self) -> Any:
        """Return one work for all calls since coalescing began."""
        if self.coalesced is not None:
            self.carrier.coalesce(-1)
        works, self.coalesced = self.coalesced or [], None
        return self.carrier.join(self, works)

    # --------------------------------------------------------------- of every call
    def work(self, *call: Any, arrives: bool = False, results: Sequence[torch.Tensor] | None = None) -> Any:
        """Return work for the program, from the host's work: the members of a ``carriers.Call``."""
        work = self.carrier.work(Call(*call)._replace(arrives=arrives, agreement=self.agreement, results=results))
        if self.coalesced is not None and not self.carrier.is_within_call():
            self.coalesced.append(work)
        return work

    def complete(self, work: Any) -> None:
        """Wait for the work of a synchronous call, if the program's wait would be Gloo's own."""
        self.carrier.complete(work, self.agreement)

    def close_connections(self) -> None:
        """Fail all pending calls, here and on the other ranks."""
        with contextlib.suppress(RuntimeError):
            other = (self.rank() + 1) % self.size()
            _gloo.recv(self, [self._nothing], other, _NEVER_SENT).wait(timedelta(milliseconds=1))

    def reduces(self, kind: Kind, asked: Reduction, root: int | None = None, tensors: int = 1) -> None:
        """Raise if another rank's call differs; the host is about to reduce one of several tensors."""
        if self.agreement is not None and self.checking is None:
            self.agreement.reduces(kind, asked.dtype, asked.buffer.numel(), asked.number, root, tensors)

    def moves(self, kind: Kind, count: int = 0, root: int | None = None, tensors: int = 1) -> None:
        """Raise if another rank's call differs; the host is about to move this many bytes."""
        if self.agreement is not None and self.checking is None:
            self.agreement.moves(kind, count, root, tensors)

    def sends(self, to: int, count: int) -> None:
        """Raise if the other rank expects something else; the host is about to send bytes to it."""
        if self.agreement is not None and self.checking is None and to != self.rank():
            self.agreement.sends(to, count)

    def wants(self, source: int, count: int) -> None:
        """Raise if the other rank sends something else; the host is about to receive bytes from it."""
        if self.agreement is not None and self.checking is None and source != self.rank():
            self.agreement.wants(source, count)

    def fail(self, text: str) -> None:
        """Raise an error of this rank's arguments, also on the other ranks."""
        if self.agreement is not None:
            self.agreement.fail(text)
        raise RuntimeError(text)

    def check_numbers(self, *tensors: torch.Tensor) -> None:
        """Raise for tensors with a NaN, if that check is enabled: on a GPU a kernel checks and asserts."""
        if self._unchecked is not None:
            for tensor in tensors:
                if tensor.is_floating_point() and bool(torch.isnan(tensor).any()):
                    raise cuda_error(710)

    def check_bound(self, tensor: torch.Tensor) -> None:
        """Raise for tensors on another device than the one that the group was created for."""
        bound = self.bound_device_id
        if bound is not None and tensor.device.type == bound.type and tensor.device != bound:
            raise _DistBackendError(
                "Attempt to perform collective on tensor not on device passed to init_process_group"
            )

    def check(self, *tensors: torch.Tensor) -> None:
        """Raise for tensors that NCCL does not move."""
        rules.check(*tensors)
        for tensor in tensors:
            self.check_bound(tensor)
            rules.check_type(rules.parts(tensor.dtype))
