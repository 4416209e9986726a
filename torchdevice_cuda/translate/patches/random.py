"""Random numbers: ``torch.Generator``, the default generators, their states, and functions that draw."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.cuda.random
import torch.random

from ..._compat import generators_are_built_in
from ...drivers.traits import Trait
from ..core.callers import inside
from ..core.context import Context
from ..core.disguise import CUDA
from ..core.generators import CudaGenerator, device_of
from ..core.registry import patch
from ..core.requests import TOGGLE, as_device
from ..core.retry import given_second_try
from ..core.wrapping import Function, install

_CPU = torch.device("cpu")
_to = torch._C.TensorBase.to
_frame = sys._getframe
_Generator: Any = torch._C.Generator
#: The default seed of a generator.
_UNSEEDED = _Generator().initial_seed()


def _maker(context: Context) -> Callable[[Any], torch.Generator] | None:
    """Return a function that creates generators if torch cannot: a copy of the compiled device's unseeded generator."""
    native = context.driver.native
    if native is None or not generators_are_built_in():
        return None

    def make(device: Any) -> torch.Generator:
        target = torch.device(device)
        if target.type != native.device_type:
            made: torch.Generator = _Generator(device)
            return made
        made = native.default_generator(-1 if target.index is None else target.index).clone_state()
        return made.manual_seed(_UNSEEDED)

    return make


def _generator_class(context: Context, original: type) -> type:
    """Return a class that passes every check for torch's class, and whose calls translate their device."""
    own = _maker(context)
    make: Callable[[Any], torch.Generator] = own or original
    translator, is_translated = context.translator, Trait.TRANSLATED in context.traits
    is_disguised = Trait.DISGUISED in context.traits

    class Meta(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, original)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, original)

        def __call__(cls, device: Any = "cpu") -> torch.Generator:
            if is_translated and str(device).startswith("cuda"):
                torch.cuda._lazy_init()
            # A generator requested on the CPU serves CPU work (samplers): no policy moves it.
            asked = "cpu" if device is None else device
            if isinstance(asked, (str, torch.device)) and asked != TOGGLE and torch.device(asked).type == "cpu":
                return make(asked)
            target = translator.device(asked)
            if is_disguised and target.type == translator.accelerator:
                shown = torch.device("cuda", as_device(asked).index)
                disguised: torch.Generator = (
                    CudaGenerator.on(target, shown) if own is None else CudaGenerator.over(own(target), shown)
                )
                return disguised
            return make(target)

    # Generators pickle as a call of ``torch.Generator``.
    namespace = {"__doc__": original.__doc__, "__module__": "torch", "__slots__": ()}
    return Meta(
        "Generator", (), namespace | {name: getattr(original, name) for name in dir(original) if name[0] != "_"}
    )


@patch("torch.Generator", traits=Trait.REDIRECTS)
def generators(context: Context) -> None:
    """torch.Generator(device="cuda") needs a CUDA build; the replacement must still be a class."""
    context.editor.set(torch, "Generator", _generator_class(context, torch.Generator))


@patch("torch.Generator", traits=Trait.NATIVE, without=Trait.REDIRECTS)
def foreign_names(context: Context) -> None:
    """torch.Generator understands ``cuda`` and ``cpu`` itself; ``mps`` and the toggle are translated when it fails.

    In 2.6 it does not: it queries CUDA itself, or knows no CUDA, whatever the device's hooks say.
    """
    if _maker(context) is None:
        given_second_try(context, "torch.Generator", torch.Generator, place=0)
    else:
        context.editor.set(torch, "Generator", _generator_class(context, torch.Generator))


@patch("torch._C.Generator.device", traits=Trait.DISGUISED)
def default_generators(context: Context) -> None:
    """The default generators report CUDA, and have CUDA's states; so do those that the program creates."""

    def shown(generator: torch.Generator) -> Any:
        return CudaGenerator.over(generator, CUDA)

    def read(self: CudaGenerator) -> torch.device:
        return device_of(self) if inside[_frame(1).f_globals.get("__name__")] else self._shown

    CudaGenerator.driver, CudaGenerator.brings_home = context.driver, Trait.ACCELERATES in context.traits
    context.editor.set(CudaGenerator, "device", property(read, doc="The device that the generator draws on."))
    context.editor.on_undo(context.driver.show_generators_as(shown))


@patch(
    *(f"torch.{place}set_rng_state" for place in ("", "random.", "cuda.", "cuda.random.")),
    traits=Trait.ACCELERATES,
)
def states(context: Context) -> None:
    """States of generators are bytes on the CPU; one that was redirected to the GPU is moved back."""
    for owner, also in ((torch.random, torch), (torch.cuda.random, torch.cuda)):
        original = owner.set_rng_state

        def set_rng_state(new_state: torch.Tensor, *args: Any, _original: Any = original, **kwargs: Any) -> None:
            _original(_to(new_state, _CPU), *args, **kwargs)

        for place in (owner, also):
            install(context, place, "set_rng_state", set_rng_state, original)


# ------------------------------------------------------------------------------ drawing
#: Functions that draw from a given tensor, methods that do, and methods that draw into one. ``torch.normal`` is also a
#: factory, and wrapped as one.
_FUNCTIONS = ("bernoulli", "multinomial", "poisson", "binomial")
_METHODS = ("bernoulli", "multinomial")
_IN_PLACE = ("bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_", "uniform_")


def draws_on_its_generator(context: Context, original: Function, in_place: bool = False) -> Function:
    """Return a function that draws on the CPU if its generator is the CPU's, even for a tensor on the GPU."""
    real = context.driver.device_type

    def on_cpu(value: Any) -> Any:
        return _to(value, _CPU) if isinstance(value, torch.Tensor) else value

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        generator = kwargs.get("generator")
        subject = args[0] if args else None
        if generator is None or not isinstance(subject, torch.Tensor) or subject.device.type != real:
            return original(*args, **kwargs)
        if generator.device.type != "cpu":
            return original(*args, **kwargs)
        drawn = original(*map(on_cpu, args), **kwargs)
        return subject.copy_(drawn) if in_place else _to(drawn, subject.device)

    return wrapper


@patch("torch.<function>", "torch.Tensor.<method>", traits=Trait.ACCELERATES)
def drawing(context: Context) -> None:
    """A CPU generator draws on the CPU, even for a tensor that was redirected to the GPU."""
    for owner, names in ((torch, _FUNCTIONS), (torch.Tensor, _METHODS), (torch.Tensor, _IN_PLACE)):
        for name in names:
            original = getattr(owner, name)
            install(context, owner, name, draws_on_its_generator(context, original, names is _IN_PLACE), original)
