"""Python equivalents of torch's C++ bindings: enums, argument errors, submodules.

Programs see their appearance (``repr`` of an enum member, ``__members__``, the type of an error), so the Python
replacements share it. This module defines no ``torch._C`` names itself.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, SupportsIndex, SupportsInt


class PybindObject:
    """The base of classes that C++ defines on CUDA builds."""

    def _pybind11_conduit_v1_(self, *args: Any) -> None:
        """Return None: there is no C++ object to pass to another extension."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")


PybindObject.__name__ = PybindObject.__qualname__ = "pybind11_object"  # programs see it among a class's bases


class PybindEnum:
    """A C++ enum: members by name, any integer as a value, equal to its value."""

    __members__: dict[str, PybindEnum] = {}
    _pybind11_conduit_v1_ = PybindObject._pybind11_conduit_v1_

    def __init__(self, value: SupportsInt | SupportsIndex) -> None:
        if isinstance(value, float) or not (hasattr(value, "__index__") or hasattr(value, "__int__")):
            kind = type(self)
            raise TypeError(
                "__init__(): incompatible constructor arguments. The following argument types are supported:\n"
                f"    1. {kind.__module__}.{kind.__qualname__}(value: typing.SupportsInt)\n\n"
                f"Invoked with: {value!r}"
            )
        self.__value = int(value)

    @property
    def value(self) -> int:
        """Return the number."""
        return self.__value

    @property
    def name(self) -> str:
        """Return the member's name; ``???`` for a number that has none."""
        return next((name for name, member in self.__members__.items() if member.value == self.__value), "???")

    def __int__(self) -> int:
        return self.__value

    __index__ = __int__

    def __hash__(self) -> int:
        return hash(self.__value)

    def __eq__(self, other: object) -> bool:
        return self.__value == (other.value if isinstance(other, type(self)) else other)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}.{self.name}: {self.__value}>"

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __reduce__(self) -> tuple[type[PybindEnum], tuple[int]]:
        return type(self), (self.__value,)


def enum(module: str, name: str, members: Mapping[str, int]) -> type[PybindEnum]:
    """Return a C++ enum with these members."""
    made: type[PybindEnum] = type(name, (PybindEnum,), {"__module__": module, "__doc__": f"Values of ``{name}``."})
    made.__members__ = {member: made(value) for member, value in members.items()}
    for member, value in made.__members__.items():
        setattr(made, member, value)
    return made


def submodule(name: str, doc: str, members: Mapping[str, Any]) -> types.ModuleType:
    """Return a module inside ``torch._C``."""
    module = types.ModuleType(name, doc)
    module.__dict__.update(members)
    return module


def wrong_arguments(function: str, accepts: str, *arguments: object) -> TypeError:
    """Return a C++ binding's error for arguments of the wrong type."""
    given = ", ".join(map(repr, arguments))
    return TypeError(
        f"{function}(): incompatible function arguments. The following argument types are supported:\n"
        f"    1. {accepts}\n\nInvoked with: {given}"
    )


def check(condition: bool, function: str, accepts: str, *arguments: object) -> None:
    """Raise for arguments of the wrong type as a C++ binding does."""
    if not condition:
        raise wrong_arguments(function, accepts, *arguments)


def public(*functions: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return ``{name: function}`` for the members of a submodule."""
    return {function.__name__: function for function in functions}


def define(namespace: dict[str, Any], functions: Mapping[str, Callable[..., Any]]) -> None:
    """Define functions of ``torch._C`` that are one expression each."""
    for name, function in functions.items():
        function.__name__ = function.__qualname__ = name
        namespace[name] = function
