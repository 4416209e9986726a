"""Calls of a callable: PyTorch's own samples where it has some, and arguments guessed from names otherwise."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from listing import Callable_, resolve

#: A call that is ready: what to call, with what.
Call = Callable[[], Any]
MOST = 60
#: Parameters that take a tensor.
TENSORS = """
self input x other tensor a b A B mat1 mat2 vec target source src data y values value value_ value1 sample q
query key mask_tensor loss weight outputs x1 x2 output param logits probs loc scale rate concentration df
logvar mu covariance_matrix vec1 vec2 grad_output t obj concentration1 concentration0 temperature
"""


def numbers(device: str, *shape: int, dtype: Any = torch.float32) -> Any:
    """Numbers that are the same everywhere."""
    count = 1
    for size in shape:
        count *= size
    return (((torch.arange(count) * 37) % 23).float() / 8 + 0.25).to(dtype).reshape(shape).to(device)


def named(device: str) -> dict[str, Any]:
    """Arguments by the names that torch gives parameters."""
    t = functools.partial(numbers, device)
    square = t(3, 3)
    net = torch.nn.Linear(3, 3)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(numbers("cpu", *p.shape))
    net = net.to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    tensors = dict.fromkeys(TENSORS.split(), square)
    values: dict[str, Any] = {
        **tensors,
        "index": torch.zeros(3, 3, dtype=torch.long, device=device),
        "mask": square > 1,
        "condition": square > 1,
        "indices": torch.zeros(1, 2, dtype=torch.long, device=device),
        "dim": 0,
        "dims": (0, 1),
        "axis": 0,
        "dim0": 0,
        "dim1": 1,
        "size": (3, 3),
        "shape": (3, 3),
        "sizes": (3, 3),
        "n": 3,
        "N": 3,
        "m": 3,
        "k": 1,
        "p": 2.0,
        "num": 3,
        "steps": 3,
        "start": 0,
        "end": 3,
        "step": 1,
        "device": device,
        "dtype": torch.float32,
        "fill_value": 1.0,
        "num_samples": 2,
        "seed": 3,
        "tensors": [square, square],
        "tensor_list": [square],
        "args": (),
        "kwargs": {},
        "fn": torch.sin,
        "func": torch.sin,
        "function": torch.sin,
        "f": torch.sin,
        "model": net,
        "module": net,
        "mod": net,
        "parameters": list(net.parameters()),
        "params": list(net.parameters()),
        "optimizer": optimizer,
        "in_features": 3,
        "out_features": 3,
        "in_channels": 3,
        "out_channels": 3,
        "kernel_size": 1,
        "num_features": 3,
        "num_channels": 3,
        "num_groups": 1,
        "normalized_shape": 3,
        "num_embeddings": 3,
        "embedding_dim": 3,
        "embed_dim": 4,
        "num_heads": 2,
        "input_size": 3,
        "hidden_size": 3,
        "d_model": 4,
        "nhead": 2,
        "lr": 0.1,
        "name": "weight",
        "names": None,
        "lambd": 0.5,
        "alpha": 1.0,
        "beta": 1.0,
        "upscale_factor": 1,
        "downscale_factor": 1,
        "output_size": 3,
        "scale_factor": 2,
        "negative_slope": 0.1,
        "threshold": 0.5,
        "padding": 1,
        "in1_features": 3,
        "in2_features": 3,
        "groups": 1,
        "num_layers": 1,
        "step_size": 1,
        "gamma": 0.5,
        "milestones": [1],
        "lr_lambda": lambda epoch: 0.5,
        "T_max": 3,
        "T_0": 3,
        "total_iters": 2,
        "max_lr": 0.1,
        "base_lr": 0.01,
        "total_steps": 3,
        "schedulers": [],
        "low": 0.0,
        "high": 1.0,
        "mean": 0.0,
        "std": 1.0,
        "mode": True,
        "enabled": True,
        "amount": 1,
        "dataset": torch.utils.data.TensorDataset(torch.arange(4.0)),
        "data_source": [1, 2, 3, 4],
        "sampler": [0, 1],
        "batch_size": 2,
        "drop_last": False,
        "weights": [0.5, 0.5],
        "generator": None,
        "lengths": [2, 2],
        "batch": [torch.ones(2)],
        "hidden": None,
        "sequences": [square, square],
        "device_type": "cuda" if device == "cuda" else "cpu",
        "validator": None,
        "mantissa": square,
        "exponent": torch.ones(3, 3, dtype=torch.int, device=device),
        "boundaries": t(3),
        "n_fft": 3,
        "window_length": 3,
        "M": 3,
        "sorted_sequence": t(3),
        "split_size_or_sections": 1,
        "chunks": 1,
        "repeats": 2,
        "shifts": 1,
        "min": 0.0,
        "max": 1.0,
        "bins": 3,
        "diagonal": 0,
        "offset": 0,
        "equation": "ij->ji",
        "operands": square,
        "blocksize": (1, 1),
        "ord": 2,
        "q_scale": 1.0,
        "zero_point": 0,
        "callback": lambda *a: None,
        "hook": lambda *a: None,
        "attr": "x",
        "state_dict": net.state_dict(),
        "string": "x",
        "path": "x",
        "key_": "x",
        "base_distribution": torch.distributions.Normal(t(3), t(3)),
        "transforms": [],
        "transform": torch.distributions.ExpTransform(),
        "total_count": 3,
        "constraint": torch.distributions.constraints.real,
        "exponent_": 2,
        "sample_shape": (2,),
        "expand_shape": (3, 3),
        "event_dim": 1,
        "reinterpreted_batch_ndims": 1,
        "df1": t(3),
        "df2": t(3),
        "mixture_distribution": torch.distributions.Categorical(t(3)),
        "component_distribution": torch.distributions.Normal(t(3), t(3)),
        "p_": torch.distributions.Normal(t(3), t(3)),
        "world_size": 1,
        "rank": 0,
        "group": None,
        "root": net,
        "graph": None,
        "max_norm": 1.0,
        "clip_value": 1.0,
        "r": 1,
        "count": 1,
        "backend": "eager",
        "num_threads": 1,
        "new_threshold": 1.0,
        "abs": True,
        "unsafe": True,
    }
    return values


def positional(device: str) -> list[tuple[Any, ...]]:
    """Arguments for functions that say nothing of theirs."""
    t = numbers(device, 3, 3)
    whole = torch.ones(3, 3, dtype=torch.long, device=device)
    vector = numbers(device, 3)
    return [
        (),
        (t,),
        (t, t),
        (t, 0),
        (t, 1.0),
        (t, t, t),
        (whole,),
        (whole, whole),
        (t > 1,),
        (t, t > 1, 1.0),
        (t, (3, 3)),
        (t, 0, whole),
        (t, 0, whole, t),
        (t, 0, whole, 1.0),
        (t, 0, 1),
        (t, 0, 0, 1),
        (vector,),
        (vector, vector),
        (t, vector),
        (3,),
        ((3, 3),),
        (0, 3, 1),
        ([t, t],),
        ([t, t], 0),
        ([t], [t]),
        ([t], 1.0),
        (t, t, 0.5),
        (t, None, None),
        ("x",),
        (True,),
        (device,),
        (torch.float32,),
        (t, torch.float32),
        (t, device),
        (t, 1.0, 0),
        (t, [1, 1]),
        (t, "sum"),
        (t, t, vector),
        (3, 3),
        (t[None], t[None]),
        (t[None], t[None], t[None]),
        (t[None, None], (2, 2)),
        (t[None], 1),
        (t, (0, 1)),
        (lambda: None,),
        (t, 0.1, 0, torch.quint8),
        (whole, 3),
        (t, whole),
        (vector, whole[0]),
        (0,),
        (1.0,),
        (None,),
    ]


def guesses(target: Any, device: str, *, bound: bool = False) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments that a callable may take, likeliest first."""
    known = named(device)
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    if parameters and bound and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in plain if p.default is p.empty]
    only = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    device_too = {"device": device} if any(p.name == "device" for p in parameters) else {}
    if parameters:
        words = {name: known.get(name) for name in only}
        guess = tuple(known.get(p.name, numbers(device, 3, 3)) for p in needed)
        yield guess, {**words, **({} if "device" in [p.name for p in needed] else device_too)}
        yield guess, words
    for args in positional(device):
        yield args, {}
    if device_too:
        for args in positional(device):
            yield args, device_too


def moved(value: Any, device: str) -> Any:
    from torch.utils._pytree import tree_map

    return tree_map(lambda x: x.to(device) if isinstance(x, (torch.Tensor, torch.nn.Module)) else x, value)


@functools.cache
def samples_by_name() -> dict[str, Any]:
    """PyTorch's samples of operators."""
    from torch.testing._internal.common_methods_invocations import op_db

    found: dict[str, Any] = {}
    for op in op_db:
        if not op.variant_test_name:
            found.setdefault(op.name, op)
    return found


@functools.cache
def modules_by_class() -> dict[type, Any]:
    """PyTorch's samples of modules."""
    from torch.testing._internal.common_modules import module_db

    return {info.module_cls: info for info in module_db}


def sampled(name: str, target: Any, device: str) -> Iterator[Call]:
    """Calls with PyTorch's own samples."""
    short = name.removeprefix("torch.Tensor.").removeprefix("torch.")
    op = samples_by_name().get(short) or samples_by_name().get(short.removesuffix("_"))
    if op is None:
        return
    torch.manual_seed(1)
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float32, requires_grad=False), 2):
        first, args, kwargs = moved((sample.input, tuple(sample.args), dict(sample.kwargs)), device)
        yield functools.partial(target, first, *args, **kwargs)


def module_sampled(owner: type, device: str) -> Iterator[Any]:
    """A module with PyTorch's own sample of its arguments, and the inputs for it."""
    info = modules_by_class().get(owner)
    if info is None:
        return
    torch.manual_seed(1)
    for sample in itertools.islice(info.module_inputs_func(info, "cpu", torch.float32, False, True), 2):
        made = owner(*sample.constructor_input.args, **sample.constructor_input.kwargs).to(device)
        given = sample.forward_input
        yield made, moved((given.args, given.kwargs), device) if given else ((), {})


def instances(owner: type, device: str) -> Iterator[Any]:
    """Objects of a class."""
    for made, _ in module_sampled(owner, device):
        yield made
        return
    for args, kwargs in itertools.islice(guesses(owner, device), MOST):
        try:
            made = owner(*args, **kwargs)
        except Exception:
            continue
        yield moved(made, device) if isinstance(made, torch.nn.Module) else made
        return


def calls(entry: Callable_, device: str) -> Iterator[Call]:
    """Every call that may be tried of a callable, in an order that does not depend on the device."""
    target = resolve(entry.name)
    if entry.kind == "class":
        if isinstance(target, type) and issubclass(target, torch.nn.Module):
            for made, (args, kwargs) in module_sampled(target, device):
                yield functools.partial(made, *args, **kwargs)
        for args, kwargs in itertools.islice(guesses(target, device), MOST):
            yield functools.partial(target, *args, **kwargs)
        return
    yield from sampled(entry.name, target, device)
    if entry.kind == "function":
        for args, kwargs in itertools.islice(guesses(target, device), MOST):
            yield functools.partial(target, *args, **kwargs)
        return
    if entry.namespace == "torch.Tensor":
        for args, kwargs in itertools.islice(guesses(target, device, bound=True), MOST):
            yield functools.partial(target, numbers(device, 3, 3), *args, **kwargs)
        for args in positional(device):
            yield functools.partial(target, *args)
        return
    owner = resolve(entry.name.rpartition(".")[0])
    method = entry.name.rpartition(".")[2]
    if not isinstance(inspect.getattr_static(owner, method), (staticmethod, classmethod)):
        if isinstance(owner, type) and issubclass(owner, torch.nn.Module) and method == "forward":
            for made, (args, kwargs) in module_sampled(owner, device):
                yield functools.partial(made.forward, *args, **kwargs)
        for made in instances(owner, device):
            bound = getattr(made, method)
            for args, kwargs in itertools.islice(guesses(bound, device), MOST):
                yield functools.partial(bound, *args, **kwargs)
    for args, kwargs in itertools.islice(guesses(target, device), MOST):
        yield functools.partial(target, *args, **kwargs)
