"""Every call that may be tried of a callable, in an order that does not depend on the device."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import parameters
import recipes
import samples
import specials
import torch
import values
from listing import Callable_, resolve
from parameters import Parameter
from values import Maker

#: A call: by what it is found again, and what makes it, arguments and all.
Call = tuple[str, Callable[[], Any]]
#: How many ways to fill a list of parameters are tried, and how many objects of a class.
MOST, OBJECTS = 110, 3


def choices(parameter: Parameter, depth: int) -> list[Maker]:
    """List the values to try for a parameter."""
    found: list[Maker] = []
    for kind in parameter.classes:
        if kind in recipes.by_class():
            found.append(recipes.by_class()[kind])
        elif kind.__module__.startswith("torch") and kind not in (
            torch.Tensor,
            torch.device,
            torch.dtype,
            torch.Generator,
        ):
            if members := list(getattr(kind, "__members__", {}).values()):
                found += [values.constant(member) for member in members[:3]]
            elif depth and kind is not torch.nn.Module:
                found.append(functools.partial(one_of, kind, depth=depth - 1))
    return [*found, *values.makers(parameter.name, parameter.type, parameter.classes)]


def orders(sizes: list[int]) -> Iterator[tuple[int, ...]]:
    """Yield a choice for each parameter: all of one kind, then one different from the others, then two."""
    seen = set()
    many = max(sizes, default=1)
    first = tuple(0 for _ in sizes)
    same = (tuple(min(i, size - 1) for size in sizes) for i in range(many))
    others = ((*first[:p], i, *first[p + 1 :]) for i in range(1, many) for p, size in enumerate(sizes) if i < size)
    pairs = itertools.product(*(range(min(size, 4)) for size in sizes))
    for order in itertools.chain([first], same, others, itertools.islice(pairs, 64)):
        if order not in seen:
            seen.add(order)
            yield order


Filled = tuple[str, Callable[[str], tuple[list[Any], dict[str, Any]]]]


def fillings(rows: list[list[Parameter]], depth: int, loose: bool, own: list[Maker] | None = None) -> Iterator[Filled]:
    """Arguments for lists of parameters: a key and what makes them."""
    for number, row in enumerate(rows):
        needed = [p for p in row if p.needed]
        placed = [p for p in row if not p.needed and p.name in ("device", "device_type")][:1]
        for wanted in ([*needed, *placed], needed) if placed else (needed,):
            makers = [choices(p, depth) for p in wanted]
            mark = f"{number}{'d' if len(wanted) > len(needed) else ''}"
            for order in itertools.islice(orders([len(each) for each in makers]), MOST):
                chosen = [each[i] for each, i in zip(makers, order, strict=True)]
                yield f"{mark}:{'.'.join(map(str, order))}", functools.partial(made, wanted, chosen)
        # An optional argument that is not: functions check that one of several is given.
        for p in [p for p in row if not p.needed][:8]:
            for i, make in enumerate(choices(p, depth)[:3]):
                firsts = [choices(q, depth)[0] for q in needed]
                yield f"{number}+{p.name}{i}", functools.partial(made, [*needed, p], [*firsts, make], named=p.name)
    if loose:
        for count in (1, 2, 3, 0):
            for i, make in enumerate(
                [*(own or []), *values.ANYTHING, *values.WORLD] if count < 3 else values.WORLD[:7]
            ):
                yield f"*{count}.{i}", functools.partial(made, [Parameter("")] * count, [make] * count)


def made(
    wanted: list[Parameter], chosen: list[Maker], device: str, named: str | None = None
) -> tuple[list[Any], dict[str, Any]]:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for p, make in zip(wanted, chosen, strict=True):
        if not p.placed and (p.keyword or p.name in ("device", "device_type", named)):
            kwargs[p.name] = make(device)
        else:
            args.append(make(device))
    return args, kwargs


def filled(name: str, target: Any, namespace: str, depth: int = 2) -> Iterator[Filled]:
    rows = parameters.overloads(name, target, namespace)
    yield from fillings(rows, depth, loose=rows == [[]] or parameters.takes_any(target))


def one_of(owner: type, device: str, depth: int = 1) -> Any:
    """Return an object of a class, the first that its constructor gives."""
    last: Exception = TypeError(f"no {owner.__name__} was made")
    for _, make in itertools.islice(filled(owner.__name__, owner, "", depth), 40):
        try:
            args, kwargs = make(device)
            return owner(*args, **kwargs)
        except Exception as error:
            last = error
    raise last


def objects(name: str, owner: Any, device: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Objects of a class, each with a key, by recipe, from samples and from guessed arguments."""
    recipe = recipes.RECIPES.get(name) or recipes.by_class().get(owner)
    if recipe is not None:
        yield "recipe", functools.partial(recipe, device)
    if not isinstance(owner, type):
        return
    if issubclass(owner, torch.nn.Module):
        for key, module, _ in samples.of_module(owner, device):
            yield key, functools.partial(lambda x: x, module)
    for key, optimizer in samples.of_optimizer(owner, device):
        yield key, functools.partial(lambda x: x, optimizer)
    count = 0
    for key, make in itertools.islice(filled(name, owner, ""), 80):
        args: list[Any]
        try:
            args, kwargs = make("cpu")
            owner(*args, **kwargs)
        except Exception:
            continue
        yield key, functools.partial(constructed, owner, make, device)
        count += 1
        if count == OBJECTS:
            return


def constructed(owner: Any, make: Any, device: str) -> Any:
    args, kwargs = make(device)
    value = owner(*args, **kwargs)
    return value.to(device) if isinstance(value, torch.nn.Module) else value


def called(target: Any, make: Any, device: str) -> Any:
    args, kwargs = make(device)
    return target(*args, **kwargs)


def called_of(get: Callable[[], Any], method: str, make: Any, device: str) -> Any:
    bound = getattr(get(), method)
    args, kwargs = make(device)
    return bound(*args, **kwargs)


def calls(entry: Callable_, device: str, chosen: str | None = None) -> Iterator[Call]:
    """Every call that may be tried of a callable; with a choice, at least the one that is chosen."""
    target = resolve(entry.name)
    for i, special in enumerate(specials.SPECIAL.get(entry.name, ())):
        yield f"special {i}", functools.partial(special, device)
    if entry.kind == "class":
        yield from of_class(entry, target, device, chosen)
    elif entry.kind == "function":
        if sampled(chosen):
            for key, (args, kwargs) in samples.of_operator(entry.name, device):
                yield key, functools.partial(target, *args, **kwargs)
        for key, make in filled(entry.name, target, entry.namespace):
            yield key, functools.partial(called, target, make, device)
    elif entry.namespace == "torch.Tensor":
        yield from of_tensor(entry, target, device, chosen)
    else:
        yield from of_method(entry, target, device, chosen)


def sampled(chosen: str | None) -> bool:
    """Return whether a call may use PyTorch's own samples."""
    return chosen is None or chosen.startswith(("sample", "module"))


def of_class(entry: Callable_, target: Any, device: str, chosen: str | None) -> Iterator[Call]:
    if isinstance(target, type) and issubclass(target, torch.nn.Module) and sampled(chosen):
        for key, module, (args, kwargs) in samples.of_module(target, device):
            yield key, functools.partial(module, *args, **kwargs)
    if isinstance(target, type):
        for key, optimizer in samples.of_optimizer(target, device):
            yield key, functools.partial(stepped, optimizer)
    for key, make in filled(entry.name, target, entry.namespace):
        yield key, functools.partial(constructed, target, make, device)
    if recipe := recipes.RECIPES.get(entry.name):
        yield "recipe", functools.partial(recipe, device)


def stepped(optimizer: Any) -> Any:
    """Run an optimizer's step and return its parameters."""
    optimizer.step(lambda: torch.tensor(1.0))
    return [p.detach() for group in optimizer.param_groups for p in group["params"]]


def of_tensor(entry: Callable_, target: Any, device: str, chosen: str | None) -> Iterator[Call]:
    if sampled(chosen):
        for key, (args, kwargs) in samples.of_operator(entry.name, device):
            yield key, functools.partial(target, *args, **kwargs)
    rows = parameters.overloads(entry.name, target, entry.namespace)
    rows = [row[1:] if row and row[0].name in ("self", "input") else row for row in rows]
    ways = list(fillings(rows, 1, loose=rows == [[]]))
    for i, own in enumerate(values.WORLD):
        for key, make in ways if i in (0, 1, 5) else ways[:25]:
            get = functools.partial(own, device)
            yield f"{i}/{key}", functools.partial(called_of, get, entry.name.rpartition(".")[2], make, device)


def of_method(entry: Callable_, target: Any, device: str, chosen: str | None) -> Iterator[Call]:
    where, _, method = entry.name.rpartition(".")
    owner = resolve(where)
    fixed = isinstance(inspect.getattr_static(owner, method), (staticmethod, classmethod))
    if not fixed:
        if isinstance(owner, type) and issubclass(owner, torch.nn.Module) and method == "forward" and sampled(chosen):
            for key, module, (args, kwargs) in samples.of_module(owner, device):
                yield key, functools.partial(module.forward, *args, **kwargs)
        rows = parameters.overloads(entry.name, target, entry.namespace)
        rows = [row[1:] if row and row[0].name == "self" else row for row in rows]
        recipe = recipes.RECIPES.get(where)
        for key, get in objects(where, owner, device):
            if chosen is not None and not chosen.startswith(f"{key}/"):
                continue
            own = [recipe] if recipe else []
            for way, make in fillings(rows, 1, rows == [[]] or parameters.takes_any(target), own):
                yield f"{key}/{way}", functools.partial(called_of, get, method, make, device)
    for key, make in filled(entry.name, target, entry.namespace):
        yield key, functools.partial(called, target, make, device)
