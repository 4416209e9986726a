"""``torch.distributed.rpc``: sending CUDA tensors to another process."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from ...drivers.traits import Trait
from ...report.unsupported import not_supported
from ..core.context import Context
from ..core.entering import entering
from ..core.registry import patch
from ..core.wrapping import Function, copy_metadata

_OPTIONS = "torch.distributed.rpc.options"
_CLASS = f"{_OPTIONS}.TensorPipeRpcBackendOptions"
_BACKENDS = "torch.distributed.rpc.backend_registry"


@patch(
    f"{_BACKENDS}.init_backend",
    "torch._C._distributed_rpc[<device>]",
    traits=Trait.SUBSTITUTE | Trait.NATIVE,
    without=Trait.TRANSLATED,
)
def channels(context: Context) -> None:
    """TensorPipe sends CUDA tensors through NVIDIA's channels: the device's memory uses the CPU's channels instead.

    They are registered when a program starts RPC, because few programs do.
    """
    registered = False

    @context.editor.later
    def register() -> None:
        nonlocal registered
        native: Any = context.driver.native
        send = getattr(native, "send_tensors", None)
        if send is not None and not registered:
            send(True)
            context.editor.undone("torch._C._distributed_rpc[cuda]", lambda: send(False))
        registered = True

    def change(module: ModuleType) -> None:
        original: Function = vars(module)["init_backend"]

        def init_backend(*args: Any, **kwargs: Any) -> Any:
            register()
            return original(*args, **kwargs)

        context.editor.set(module, "init_backend", copy_metadata(init_backend, original))

    context.editor.on_undo(context.when_imported(_BACKENDS, context.editor.later(change)))


@patch(f"{_CLASS}.__init__", f"{_CLASS}.set_device_map", traits=Trait.SUBSTITUTE | Trait.TRANSLATED)
def device_maps(context: Context) -> None:
    """TensorPipe has no channels for the device type that replaces CUDA, and ends the process without one."""

    def refuse() -> None:
        raise not_supported(
            "torch.distributed.rpc with device maps",
            "RPC with device maps needs TensorPipe's channels for NVIDIA GPUs, and torchdevice_cuda has no such GPU. "
            "Send tensors of the CPU, or use torch.distributed's collectives.",
        )

    def change(module: ModuleType) -> None:
        owner: Any = module.TensorPipeRpcBackendOptions
        begin: Function = owner.__init__
        add: Function = owner.set_device_map

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            if kwargs.get("device_maps"):
                refuse()
            begin(self, *args, **kwargs)

        def set_device_map(self: Any, to: str, device_map: Any) -> None:
            refuse()

        context.editor.set(owner, "__init__", copy_metadata(__init__, begin), f"{_CLASS}.__init__")
        context.editor.set(owner, "set_device_map", copy_metadata(set_device_map, add), f"{_CLASS}.set_device_map")

    context.editor.on_undo(context.when_imported(_OPTIONS, context.editor.later(change)))


_INTERNAL = "torch.distributed.rpc.internal"
_PICKLER = f"{_INTERNAL}._InternalRPCPickler"


@patch(f"{_PICKLER}._tensor_receiver", traits=Trait.ACCELERATES | Trait.SUBSTITUTE)
def sent_tensors(context: Context) -> None:
    """RPC sends CPU tensors only: redirected ones are sent from the CPU, and follow the policy at their destination."""
    is_cpu, on_gpu, enter = context.translator.apparent_devices.is_cpu, context.on_gpu, entering(context)
    home, cpu = torch._C.TensorBase.to, torch.device("cpu")

    def change(module: ModuleType) -> None:
        owner: Any = module._InternalRPCPickler
        reducers: dict[Any, Function] = module._internal_rpc_pickler._dispatch_table
        reduce, receive = reducers[torch.Tensor], owner._tensor_receiver

        def _tensor_reducer(tensor: torch.Tensor) -> Any:
            return reduce(home(tensor, cpu) if on_gpu(tensor) and is_cpu(tensor) else tensor)

        def _tensor_receiver(cls: Any, tensor_index: int) -> torch.Tensor:
            return enter(receive(tensor_index))

        context.editor.item(reducers, torch.Tensor, _tensor_reducer)
        context.editor.set(owner, "_tensor_receiver", classmethod(_tensor_receiver), f"{_PICKLER}._tensor_receiver")

    context.editor.on_undo(context.when_imported(_INTERNAL, context.editor.later(change)))
