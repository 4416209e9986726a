"""Parameters of a callable: from its signature, schemas or docstring, or torch's table of overridable functions."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import typing
from typing import Any

#: What stands before an operator's name in the schemas, by namespace.
PREFIXES = {
    "torch.special": "special_", "torch.linalg": "linalg_", "torch.fft": "fft_", "torch.sparse": "sparse_",
    "torch.nested": "nested_",
}  # fmt: skip
#: ``name(self: torch._C.Node, arg0: int = 3) -> bool``, as pybind11 writes it.
BOUND = re.compile(r"^\s*(?:\d+\. )?\w+\((.*)\) -> ", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter: what is known of it."""

    name: str
    #: its type, as text; and the classes that it names
    type: str = ""
    classes: tuple[type, ...] = ()
    needed: bool = True
    keyword: bool = False
    #: whether it cannot be given by name
    placed: bool = False


def classes_in(hint: Any) -> tuple[type, ...]:
    """Return the classes that an annotation names."""
    if isinstance(hint, type) and not typing.get_args(hint):
        return (hint,)
    inner = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if origin in (typing.Union, getattr(__import__("types"), "UnionType", None)) or origin is typing.Annotated:
        return tuple(found for part in inner for found in classes_in(part) if found is not type(None))
    return (origin,) if isinstance(origin, type) else ()


def of_signature(target: Any) -> list[Parameter] | None:
    """Return the parameters of a Python function."""
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return None
    try:
        hints = typing.get_type_hints(target.__init__ if isinstance(target, type) else target)
    except Exception:
        hints = {}
    found = []
    for p in signature.parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        hint = hints.get(p.name, p.annotation)
        text = "" if hint is p.empty else str(p.annotation if isinstance(p.annotation, str) else hint)
        found.append(
            Parameter(
                p.name,
                text,
                classes_in(hint),
                p.default is p.empty,
                p.kind is p.KEYWORD_ONLY,
                p.kind is p.POSITIONAL_ONLY,
            )
        )
    return found


def takes_any(target: Any) -> bool:
    """Return whether it takes any number of arguments."""
    try:
        return any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return False


def split(text: str) -> list[str]:
    """Return the parts between commas that are in no brackets."""
    parts, depth, part = [], 0, ""
    for letter in text:
        depth += (letter in "[({<") - (letter in "])}>")
        if letter == "," and not depth:
            parts.append(part)
            part = ""
        else:
            part += letter
    return [each.strip() for each in (*parts, part) if each.strip()]


def of_docstring(target: Any) -> list[list[Parameter]]:
    """Return the parameters of a function of pybind11, overload by overload."""
    import torch

    found = []
    for inside in BOUND.findall(getattr(target, "__doc__", None) or ""):
        row = []
        for part in split(inside):
            name, _, rest = part.partition(":")
            if name.startswith("*") or name == "..." or not re.fullmatch(r"\w+", name.strip()):
                continue
            text, _, default = rest.partition(" = ")
            text = text.strip()
            found_class = functools.reduce(
                lambda owner, word: getattr(owner, word, None), text.split(".")[1:] or ["?"], torch
            )
            kinds = (found_class,) if isinstance(found_class, type) else ()
            row.append(Parameter(name.strip(), text, kinds, not default))
        found.append(row)
    return found


@functools.lru_cache(4096)
def of_schemas(name: str) -> list[list[Parameter]]:
    """Return the parameters of an operator, overload by overload."""
    import torch

    namespace, _, short = name.rpartition(".")
    found = []
    for full in dict.fromkeys((PREFIXES.get(namespace, "") + short, short, f"_{short}")):
        for schema in torch._C._jit_get_schemas_for_operator(f"aten::{full}"):
            if any(
                argument.name == "out" or argument.is_out
                for argument in schema.arguments
                if hasattr(argument, "is_out")
            ):
                continue
            if schema.overload_name.endswith("out") or any(a.name == "out" for a in schema.arguments):
                continue
            found.append(
                [Parameter(a.name, str(a.type), (), not a.has_default_value(), a.kwarg_only) for a in schema.arguments]
            )
        if found:
            break
    return found


@functools.cache
def overrides() -> dict[Any, Any]:
    import torch

    return dict(torch.overrides.get_testing_overrides())


def overloads(name: str, target: Any, namespace: str) -> list[list[Parameter]]:
    """Every list of parameters that a callable is known to take, the surest first."""
    found = []
    python = of_signature(target) if not isinstance(target, type) or "__init__" in vars(target) else None
    if python is None and isinstance(target, type):
        python = of_signature(target)
    plain = bool(python) or (python is not None and not takes_any(target))
    if plain:
        found.append(python)
    if namespace in ("torch", "torch.Tensor", "torch.nn.functional", "torch.functional", *PREFIXES) and not isinstance(
        target, type
    ):
        found += of_schemas(name)
    documented = of_docstring(target.__init__ if isinstance(target, type) else target)
    found += [row[1:] if row and row[0].name == "self" else row for row in documented]
    if not plain:
        try:
            stand_in = overrides().get(target)
        except TypeError:
            stand_in = None
        if stand_in is not None:
            found.append(of_signature(stand_in) or [])
    return [row for row in found if row is not None] or [[]]
