"""Questions that a program can ask of CUDA: each case returns the answers, which are equal on every implementation."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.nn import parallel


def _x() -> torch.Tensor:
    return torch.ones(2, 2, device="cuda")


def _c() -> torch.Tensor:
    return torch.ones(2, 2)


def _linear() -> nn.Linear:
    return nn.Linear(2, 2).cuda()


class Sub(torch.Tensor):
    """A tensor of the program's own."""


def _places(tensors: Iterable[Any]) -> list[str]:
    return [str(tensor.device) for tensor in tensors]


def _refusal(make: Callable[[], object]) -> list[str]:
    """Return the error that a call ends in."""
    try:
        return ["none", str(make())]
    except Exception as error:
        return [type(error).__name__, str(error)]


def _saved(value: object, **options: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


def _loaded(value: object, **options: Any) -> torch.Tensor:
    return torch.load(io.BytesIO(_saved(value)), **options)


def _stepped() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = _linear()
    optimizer = torch.optim.AdamW(model.parameters())
    model(_x()).sum().backward()
    optimizer.step()
    return model, optimizer


# --------------------------------------------------------------------------------------- how it looks


def case_repr() -> list[str]:
    x = _x()
    return [repr(t) for t in (x, x.half(), x.long(), x * 0 == 1, x[:0], x.requires_grad_(False), _linear().weight.grad)]


def case_repr_of_a_parameter() -> str:
    return repr(nn.Parameter(torch.ones(2, device="cuda")))


def case_repr_of_storages() -> list[str]:
    return [repr(_x().untyped_storage()), repr(_x().storage())]


def case_f_strings() -> list[str]:
    x = _x()
    return [f"{x.sum()}", f"{x.sum():.1f}", f"{x.device}", f"{x.device!r}"]


# -------------------------------------------------------------------------------------- its device


def case_equality() -> list[bool]:
    x = _x()
    return [x.device == torch.device("cuda:0"), x.device == torch.device("cuda"), x.device == _c().device]


def case_hash() -> int | None:
    return {torch.device("cuda", 0): 1}.get(_x().device)


def case_parts() -> list[object]:
    x = _x()
    return [x.device.type, x.device.index, str(x.device).split(":"), x.get_device(), torch.get_device(x)]


def case_flags() -> list[bool]:
    x = _x()
    return [x.is_cuda, x.is_cpu, x.is_mps, x.is_xpu, x.is_meta, _c().is_cuda]


def case_indices() -> list[int]:
    x = _x()
    return [torch._utils._get_device_index(x.device), torch.cuda.current_device(), torch.cuda.device_of(x).idx]


def case_accelerator() -> list[object]:
    return [str(torch.accelerator.current_accelerator()), torch.accelerator.current_device_index()]


def case_device_modules() -> list[str]:
    return [torch.get_device_module(_x().device).__name__, torch.get_device_module().__name__]


def case_default_device() -> list[str]:
    torch.set_default_device("cuda")
    try:
        return [str(torch.get_default_device()), *_places([torch.zeros(1), nn.Linear(1, 1).weight])]
    finally:
        torch.set_default_device(None)


def case_device_contexts() -> list[str]:
    with torch.device("cuda"):
        return [str(torch.zeros(1).device), str(torch.get_default_device())]


def case_current_device() -> int:
    with torch.cuda.device(_x().device):
        return torch.cuda.current_device()


def case_streams() -> list[str]:
    return _places([torch.cuda.current_stream(), torch.cuda.Stream(), torch.Stream()])


# ---------------------------------------------------------------------------- what comes of it, where


def case_like() -> list[str]:
    return _places(f(_x()) for f in (torch.empty_like, torch.zeros_like, torch.rand_like))


def case_new() -> list[str]:
    x = _x()
    return _places([x.new_zeros(2), x.new_tensor([1.0]), x.new(2), x.new_zeros(2, device="cpu")])


def case_results() -> list[str]:
    x = _x()
    return _places([x + 1, x @ x, x.sum(), x.T, x[0], x.data, x.detach(), x.nonzero(), x.argmax()])


def case_made_for_it() -> list[str]:
    return _places(f([1.0], device=_x().device) for f in (torch.tensor, torch.as_tensor))


def case_moved() -> list[str]:
    x, c = _x(), _c()
    return _places([c.to(x.device), x.to(c.device), c.to(x), c.to(0), c.cuda(x.device), c.type_as(x)])


def case_traced() -> str:
    return str(torch.jit.trace(lambda t: t * 2, _x())(_x()).device)


def case_compiled() -> str:
    return str(torch.compile(lambda t: torch.zeros(2, device=t.device) + t, backend="eager")(_x()).device)


def _within(transform: Callable[..., Any]) -> list[list[object]]:
    seen: list[list[object]] = []

    def look(t: torch.Tensor) -> torch.Tensor:
        seen.append([str(t.device), t.is_cuda])
        return t.sum()

    transform(look)(_x())
    return seen


def case_vmap() -> list[list[object]]:
    return _within(torch.vmap)


def case_grad() -> list[list[object]]:
    return _within(torch.func.grad)


def case_autocast() -> list[object]:
    x = _x()
    with torch.autocast(x.device.type):
        return [str((x @ x).dtype), torch.is_autocast_enabled("cuda")]


# ------------------------------------------------------------------------------ modules and optimizers


def case_modules() -> list[str]:
    return _places([*_linear().parameters(), *nn.BatchNorm1d(2).to("cuda").buffers()])


def case_modules_made_on_it() -> str:
    return str(nn.Linear(2, 2, device="cuda").weight.device)


def case_state_dict() -> dict[str, str]:
    return {name: str(value.device) for name, value in _linear().state_dict().items()}


def case_optimizer_state() -> list[str]:
    return _places(value for state in _stepped()[1].state_dict()["state"].values() for value in state.values())


def case_gradients() -> list[str]:
    return _places(p.grad for p in _stepped()[0].parameters())


def case_hooks() -> list[str]:
    seen: list[str] = []
    t = torch.ones(2, device="cuda", requires_grad=True)
    t.register_hook(lambda g: seen.append(str(g.device)))
    (t * 2).sum().backward()
    return seen


def case_parameters() -> list[object]:
    return [*_places([nn.Parameter(_x()), nn.Buffer(_x())]), nn.Parameter(_x()).is_cuda]


def case_data_parallel_modules() -> list[str]:
    linear = _linear()
    return [str(parallel.DataParallel(linear)(_c()).device), str(parallel.DataParallel(linear).src_device_obj)]


def case_data_parallel() -> str:
    return str(parallel.data_parallel(_linear(), _c()).device)


def case_data_parallel_of_a_module_elsewhere() -> list[str]:
    return _refusal(lambda: parallel.data_parallel(nn.Linear(2, 2), _c()))


def case_scattered() -> list[str]:
    return _places([parallel.scatter(_c(), [0])[0], parallel.replicate(_linear(), [0])[0].weight])


def case_gathered() -> list[str]:
    # torch takes what names no device for the current one.
    return _places(parallel.gather([_x()], device) for device in (0, "cuda:0", "cpu", torch.ones(3, 3)))


# ------------------------------------------------------------------------------------------- its types


def case_subclasses() -> list[object]:
    x = _x().as_subclass(Sub)
    return [str(x.device), x.is_cuda, type(x + 1).__name__]


def case_legacy_classes() -> list[bool]:
    tensors, kinds = (_x(), _c(), _x().half()), (torch.cuda.FloatTensor, torch.FloatTensor)
    return [isinstance(t, kind) for t in tensors for kind in kinds]


def case_type_names() -> list[str]:
    x = _x()
    return [*(t.type() for t in (x, x.half(), x.long(), x.bool(), _c())), torch.typename(x)]


def case_sparse() -> list[object]:
    x = _x().to_sparse()
    return [str(x.device), x.is_cuda, x.type()]


def case_storages() -> list[list[object]]:
    storages = (_x().storage(), _x().untyped_storage(), _c().untyped_storage())
    return [[str(storage.device), storage.is_cuda] for storage in storages]


def case_storage_types() -> list[object]:
    storage = _x().storage()
    return [storage.type(), isinstance(storage, torch.cuda.FloatStorage), _x().is_shared()]


def case_storage_moves() -> list[str]:
    return _places([_c().untyped_storage().cuda(), _x().untyped_storage().cpu(), _c().storage().cuda()])


# ------------------------------------------------------------------------------------------ generators


def case_generators() -> list[str]:
    return _places(torch.Generator(device) for device in ("cuda", "cuda:0", torch.device("cuda", 0), 0, "cpu"))


def case_default_generators() -> list[str]:
    return _places(torch.cuda.default_generators)


def case_generator_copies() -> list[str]:
    g = torch.Generator("cuda")
    return _places([copy.deepcopy(g), g.clone_state(), pickle.loads(pickle.dumps(g))])


def case_generator_class() -> list[object]:
    g = torch.Generator("cuda")
    return [isinstance(g, torch.Generator), type(g).__name__]


def case_a_generator_of_the_gpu_for_the_cpu() -> list[str]:
    return _refusal(lambda: torch.rand(3, generator=torch.Generator("cuda")))


def case_a_generator_of_the_cpu_for_the_gpu() -> list[str]:
    return _refusal(lambda: torch.rand(3, device="cuda", generator=torch.Generator()))


# --------------------------------------------------------------------------------- in and out of torch


def case_dlpack() -> list[object]:
    x = _x()
    return [*map(int, x.__dlpack_device__()), str(torch.from_dlpack(x).device)]


def case_array_interface() -> list[bool]:
    x, name = _x(), "__cuda_array_interface__"
    return [hasattr(x, name), hasattr(_c(), name), x.__cuda_array_interface__["data"][0] == x.data_ptr()]


def case_array_interface_of_a_parameter() -> list[str]:
    return _refusal(lambda: _linear().weight.__cuda_array_interface__)


def case_numpy() -> list[str]:
    return _refusal(_x().numpy)


def case_numpy_by_force() -> list[list[float]]:
    return _x().numpy(force=True).tolist()


def case_pickles() -> list[object]:
    x = _x()
    return [str(pickle.loads(pickle.dumps(x)).device), b"mps" in pickle.dumps(_linear()), str(copy.deepcopy(x).device)]


def case_checkpoints() -> list[object]:
    x = _x()
    return [*_places([_loaded(x), _loaded(x, map_location="cpu")]), b"mps" in _saved([x, x.device])]


def case_old_checkpoints() -> bool:
    return b"mps" in _saved(_linear().state_dict(), _use_new_zipfile_serialization=False)


def case_tags() -> list[str]:
    return [torch.serialization.location_tag(t.untyped_storage()) for t in (_x(), _c())]


# ---------------------------------------------------------------------------------------------- errors


def case_huge() -> list[str]:
    return _refusal(lambda: torch.empty(1 << 60, dtype=torch.uint8, device="cuda"))


def case_division_of_integers() -> str:
    return _refusal(lambda: _x().long() // 0)[0]


def case_division() -> bool:
    return bool((_x() / 0).isinf().all())
