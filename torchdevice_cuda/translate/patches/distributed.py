"""``torch.distributed``: device requests that do not go through tensors."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed

from ..._compat import nccl_groups, nccl_version, present
from ...drivers.traits import Trait
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import Function, copy_metadata

if TYPE_CHECKING:
    from ...distributed.carriers import Carrier
    from ...distributed.communicator import Communicator


@patch("torch.distributed.distributed_c10d.BarrierOptions", traits=Trait.TRANSLATED)
def barriers(context: Context) -> None:
    """``dist.barrier(device_ids=[0])`` passes CUDA's device to C++, which creates a tensor there."""
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d

    translator = context.translator
    original: Any = distributed_c10d.BarrierOptions
    device = vars(original)["device"]

    class BarrierOptions(original):  # type: ignore[misc]
        """torch's class, with a device that exists."""

        @property
        def device(self) -> Any:
            """Return the device on which the tensor is created."""
            return device.__get__(self)

        @device.setter
        def device(self, asked: torch.device | None) -> None:
            device.__set__(self, asked if asked is None or asked.type == "cpu" else translator.device(asked))

    context.editor.set(distributed_c10d, "BarrierOptions", BarrierOptions)


_GROUPS = "torch.distributed.distributed_c10d"


@patch(f"{_GROUPS}.BackendConfig.__init__", traits=Trait.TRANSLATED)
def unnamed(context: Context) -> None:
    """``init_process_group()`` queries C++ for the accelerator, and uses NCCL if that is CUDA."""
    if not torch.distributed.is_available():
        return
    from torch.distributed.distributed_c10d import Backend, BackendConfig

    original: Function = BackendConfig.__init__

    def __init__(self: Any, backend: Any) -> None:
        original(self, Backend.NCCL if backend == Backend.UNDEFINED else backend)

    context.editor.set(BackendConfig, "__init__", copy_metadata(__init__, original))


_NAMES = (
    "torch._C._distributed_c10d.<nccl_group>",
    "torch._C._distributed_c10d._DEFAULT_PG_NCCL_TIMEOUT",
    "torch._C._distributed_c10d._hash_tensors",
    "torch.distributed.<nccl_group>",
    f"{_GROUPS}.<nccl_group>",
    f"{_GROUPS}._NCCL_AVAILABLE",
    f"{_GROUPS}.default_pg_nccl_timeout",
    "torch.distributed.constants.default_pg_nccl_timeout",
)


def _usable() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_gloo_available()


@patch(*_NAMES, traits=Trait.SUBSTITUTE)
def nccl(context: Context) -> None:
    """A CPU build has no NCCL, and a CUDA build has NCCL but no GPU: the replacement follows its rules over Gloo."""
    if not _usable():
        return
    from torch._C import _distributed_c10d
    from torch.distributed import constants, distributed_c10d

    from ...distributed.options import TIMEOUT

    group = _find_group(context)
    group.__module__ = _GROUPS
    group.carrier = _carrier(context)
    group.device_count = context.driver.device_count
    group.nccl_version = nccl_version(torch.__version__)
    editor = context.editor
    for owner in (_distributed_c10d, torch.distributed, distributed_c10d):
        for name in nccl_groups(distributed_c10d):
            editor.set(owner, name, group)
    editor.set(distributed_c10d, "_NCCL_AVAILABLE", True)
    editor.set(_distributed_c10d, "_DEFAULT_PG_NCCL_TIMEOUT", TIMEOUT)
    # With TORCH_DISTRIBUTED_DEBUG=DETAIL, ranks compare hashes of the tensors that they are about to send.
    editor.set(_distributed_c10d, "_hash_tensors", lambda tensors: hash(tuple(bytes(t.tolist()) for t in tensors)))
    for module in (constants, distributed_c10d):
        editor.set(module, "default_pg_nccl_timeout", TIMEOUT)


def _find_group(context: Context) -> type[Communicator]:
    """Return the class that replaces NCCL's: a rehearsal's other ranks may be simulated."""
    if context.settings.world is not None:
        from ...distributed.simulated import SimulatedNCCL

        return SimulatedNCCL
    from ...distributed.backend import ProcessGroupNCCL

    return ProcessGroupNCCL


def _carrier(context: Context) -> Carrier:
    """Return the carrier that moves the driver's tensors to the host."""
    from ...distributed.carriers import Aliased, Carrier, Copied, Same

    if context.settings.world is not None:
        return Carrier()
    if Trait.HOST_MEMORY not in context.traits:
        return Copied()
    if context.driver.native is not None and context.settings.streams is not None:
        from ...distributed.deferral import Deferring

        return Deferring(context.driver.native)
    if context.driver.native is not None:
        return Aliased(context.driver.native)
    made = Same()
    context.driver.streams.elsewhere = made.wait
    return made


_GROUP = f"{_GROUPS}.ProcessGroup"


@patch(f"{_GROUP}._register_backend", "torch.ops.c10d[<key>]", traits=Trait.SUBSTITUTE)
def kernels(context: Context) -> None:
    """Collectives find the backend that Python created, and move the accelerator's tensors to the host.

    The kernels are registered with the first process group that needs them, because few programs create one.
    """
    if not _usable():
        return
    from torch._C._distributed_c10d import ProcessGroup

    from ...distributed import groups

    carrier = _find_group(context).carrier
    original: Function = ProcessGroup._register_backend
    editor, lock, kind = context.editor, threading.Lock(), context.driver.device_type
    on_cpu, registered = Trait.CPU_TENSORS in context.traits, False
    # Simulated groups have no Gloo for CPU tensors either.
    others = {} if context.settings.world is None else {"CPU": torch.device("cpu")}

    def left(operator: str) -> None:
        if context.left is not None:
            context.left(operator, "CPU", "process groups have no backend for the GPU")

    @editor.later
    def register() -> None:
        from ...distributed.kernels import kernel, register
        from ...wrapper_tensors.doubles import homes

        nonlocal registered
        with lock:
            if not registered:
                # A Gloo group has a backend for CUDA, and none for the device type that replaces it.
                asked = torch.device("cpu" if on_cpu else "cuda")
                told = None if Trait.HOST_MEMORY in context.traits else left
                for key, device in {kind.upper(): asked, **others}.items():
                    undo = register(key, device, carrier, told)
                    editor.undone(f"torch.ops.c10d[{key}]", undo)
                # The dispatcher passes Python kernels the tensors that C++ knows, which contain no float64.
                if kind in homes:
                    homes[kind].between = lambda name: kernel(name, asked, carrier, told)
                registered = True

    def _register_backend(self: Any, device: Any, backend_type: Any, backend: Any = None) -> None:
        ours = groups.taken(self, backend)
        # CPU tensors go to Gloo unchanged.
        if not on_cpu or ours:
            register()
        original(self, device, backend_type, backend)

    editor.set(
        ProcessGroup, "_register_backend", copy_metadata(_register_backend, original), f"{_GROUP}._register_backend"
    )


@patch(
    f"{_GROUP}._get_backend",
    f"{_GROUP}._start_coalescing",
    f"{_GROUP}._end_coalescing",
    f"{_GROUP}.split_group",
    traits=Trait.SUBSTITUTE,
)
def methods(context: Context) -> None:
    """Calls of a group's backend in C++ must reach the Gloo group inside the NCCL group."""
    if not _usable():
        return
    from torch._C._distributed_c10d import ProcessGroup

    from ...distributed import groups, splitting

    kinds = frozenset({"cuda", context.driver.device_type})

    def redirect(name: str, ours: Function) -> None:
        original: Function | None = getattr(ProcessGroup, name, None)
        if original is None:
            return

        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            backend = groups.backend_of(self)
            given = NotImplemented if backend is None else ours(self, backend, *args, **kwargs)
            return original(self, *args, **kwargs) if given is NotImplemented else given

        context.editor.set(ProcessGroup, name, copy_metadata(method, original), f"{_GROUP}.{name}")

    # A tensor's device is the one that replaces CUDA.
    redirect("_get_backend", lambda group, backend, device: backend.host if device.type in kinds else NotImplemented)
    redirect("_start_coalescing", lambda group, backend, device: backend._start_coalescing())
    redirect("_end_coalescing", lambda group, backend, device: backend._end_coalescing())
    redirect("split_group", splitting.split)


@patch(f"{_GROUP}.barrier", traits=Trait.TRANSLATED)
def barriers_of_groups(context: Context) -> None:
    """``group.barrier()`` creates a tensor in C++, on CUDA for NCCL groups if the program names no device."""
    if not _usable():
        return
    from torch._C._distributed_c10d import BarrierOptions, ProcessGroup

    from ...distributed import groups

    original: Function = ProcessGroup.barrier
    translator = context.translator

    def barrier(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = args[0] if args else kwargs.get("opts", kwargs.get("timeout"))
        options = given if isinstance(given, BarrierOptions) else BarrierOptions()
        if options is not given and given is not None:
            options.timeout = given
        asked = options.device
        if (asked is None and groups.backend_of(self) is not None) or (asked is not None and asked.type == "cuda"):
            options.device = translator.device(torch.device("cuda", 0))
        return original(self, options)

    context.editor.set(ProcessGroup, "barrier", copy_metadata(barrier, original), f"{_GROUP}.barrier")


_CALLED = "torch._C._distributed_c10d.ReduceOp.RedOpType.__call__"
#: Methods of all releases that take a reduction.
_REDUCING_METHODS = (
    "allreduce",
    "allreduce_coalesced",
    "reduce",
    "reduce_scatter",
    "_reduce_scatter_base",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor_coalesced",
)


@patch(
    "torch._C._distributed_c10d._make_nccl_premul_sum",
    "torch.distributed._make_nccl_premul_sum",
    _CALLED,
    f"{_GROUP}.<reduction>",
    traits=Trait.SUBSTITUTE,
)
def factors(context: Context) -> None:
    """The dispatcher does not pass a reduction's factor to Python: it is recorded where a program passes it.

    Methods are wrapped when the first factor is created; few programs have one.
    """
    if not _usable():
        return
    from torch._C import _distributed_c10d
    from torch._C._distributed_c10d import ProcessGroup

    from ...distributed import groups

    original: Function | None = getattr(_distributed_c10d, "_make_nccl_premul_sum", None)
    if original is None:
        return
    editor, lock = context.editor, threading.Lock()
    wrapped = False

    def noting(name: str, method: Function) -> Function:
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            options = kwargs.get("opts", args[-1] if args else None)
            groups.noted.reduction = getattr(options, "reduceOp", None)
            try:
                return method(self, *args, **kwargs)
            finally:
                groups.noted.reduction = None

        return copy_metadata(wrapper, method)

    @editor.later
    def wrap() -> None:
        nonlocal wrapped
        with lock:
            for name in () if wrapped else present(ProcessGroup, _REDUCING_METHODS):
                editor.set(ProcessGroup, name, noting(name, getattr(ProcessGroup, name)), f"{_GROUP}.{name}")
            wrapped = True

    def making(function: Function) -> Function:
        def make(*args: Any, **kwargs: Any) -> Any:
            wrap()
            return function(*args, **kwargs)

        return copy_metadata(make, function)

    replacement = making(original)
    for owner in (_distributed_c10d, torch.distributed):
        editor.set(owner, "_make_nccl_premul_sum", replacement)
    # Since 2.12: ReduceOp.PREMUL_SUM(factor).
    kind: Any = _distributed_c10d.ReduceOp.RedOpType
    if "__call__" in vars(kind):  # every class has its metaclass's __call__
        editor.set(kind, "__call__", making(kind.__call__), _CALLED)


@patch("torch.nn.parallel.distributed.DistributedDataParallel.__init__", traits=Trait.CPU_TENSORS)
def data_parallel(context: Context) -> None:
    """``DistributedDataParallel(model, device_ids=[0])`` is refused for modules on the CPU, which replaces CUDA."""
    if not torch.distributed.is_available():
        return
    from torch.nn.parallel import DistributedDataParallel

    original: Function = DistributedDataParallel.__init__

    def __init__(
        self: Any, module: Any, device_ids: Any = None, output_device: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        # Inputs are on the device already. torch refuses several devices with its own error.
        if device_ids is not None and len(device_ids) == 1:
            device_ids = output_device = None
        original(self, module, device_ids, output_device, *args, **kwargs)

    context.editor.set(DistributedDataParallel, "__init__", copy_metadata(__init__, original))
