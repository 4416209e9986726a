"""Where redirecting to the GPU would break the program it yields: arguments that only the CPU may have."""

from __future__ import annotations

from typing import Any

import torch

from ..drivers import Driver
from .patches import Editor, patch
from .wrapping import disguise, install

_CPU = torch.device("cpu")
_to = torch._C.TensorBase.to


@patch("mps")
def sequence_lengths(editor: Editor, driver: Driver) -> None:
    """Lengths of packed sequences are the CPU's: those that went to the GPU unasked come home, and go back there."""
    from torch.nn.utils import rnn

    translator = editor.translator
    if translator.unasked is None:
        return
    pack, pad = torch._VF._pack_padded_sequence, torch._VF._pad_packed_sequence

    class Functions:
        """torch._VF as the module sees it."""

        def __getattr__(self, name: str) -> Any:
            return getattr(torch._VF, name)

        @staticmethod
        def _pack_padded_sequence(input: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> Any:
            return pack(input, _to(lengths, _CPU), batch_first)

        @staticmethod
        def _pad_packed_sequence(*args: Any) -> tuple[torch.Tensor, torch.Tensor]:
            padded, lengths = pad(*args)
            return padded, _to(lengths, translator.unasked) if translator.injects() else lengths

    editor.set(rnn, "_VF", Functions())


#: Functions that draw into, or from, a tensor they are given; and methods that do so in place.
_DRAWING = ("bernoulli", "multinomial", "normal", "poisson", "binomial")
_DRAWING_IN_PLACE = (
    "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_", "uniform_",
)  # fmt: skip


@patch("mps")
def host_generators(editor: Editor, driver: Driver) -> None:
    """A generator of the CPU draws on the CPU, also for a tensor that went to the GPU unasked."""
    if editor.translator.unasked is None:
        return

    def home(value: Any) -> Any:
        return _to(value, _CPU) if isinstance(value, torch.Tensor) else value

    def wrap(original: Any, in_place: bool) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            generator = kwargs.get("generator")
            subject = args[0] if args else None
            on_gpu = isinstance(subject, torch.Tensor) and subject.device.type == driver.device_type
            if generator is None or not on_gpu or generator.device.type != "cpu":
                return original(*args, **kwargs)
            drawn = original(*map(home, args), **kwargs)
            return subject.copy_(drawn) if in_place else _to(drawn, subject.device)

        return disguise(wrapper, original)

    for owner, names, in_place in ((torch, _DRAWING, False), (torch.Tensor, _DRAWING_IN_PLACE, True)):
        for name in names:
            original = getattr(owner, name)
            install(editor, owner, name, wrap(original, in_place), original)
    for name in ("bernoulli", "multinomial"):
        original = getattr(torch.Tensor, name)
        install(editor, torch.Tensor, name, wrap(original, False), original)


@patch("mps")
def random_states(editor: Editor, driver: Driver) -> None:
    """States of generators are bytes of the CPU; one that was loaded onto the GPU unasked comes home."""
    import torch.cuda.random
    import torch.random

    if editor.translator.unasked is None:
        return
    for owner, also in ((torch.random, torch), (torch.cuda.random, torch.cuda)):
        original = owner.set_rng_state

        def set_rng_state(new_state: torch.Tensor, *args: Any, _original: Any = original, **kwargs: Any) -> None:
            _original(_to(new_state, _CPU), *args, **kwargs)

        wrapper = disguise(set_rng_state, original)
        for place in (owner, also):
            install(editor, place, "set_rng_state", wrapper, original)


@patch("mps")
def pinned_memory(editor: Editor, driver: Driver) -> None:
    """Pinning is about host memory: a tensor that went to the GPU unasked comes home for it."""
    translator, pinned = editor.translator, editor.pinned
    pin, asks = torch.Tensor.pin_memory, torch.Tensor.is_pinned

    def pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
        if self in pinned:
            return self
        if self.layout is not torch.strided or (self.device.type != "cpu" and translator.unasked is None):
            raise RuntimeError(f"cannot pin '{torch.Tensor.type(self)}' only dense CPU tensors can be pinned")
        copied = _to(self.detach(), _CPU, copy=True, memory_format=torch.contiguous_format)
        return pinned.adopt(copied.requires_grad_(self.requires_grad))

    def is_pinned(self: torch.Tensor, device: Any = None) -> bool:
        return self in pinned

    install(editor, torch.Tensor, "pin_memory", disguise(pin_memory, pin), pin)
    install(editor, torch.Tensor, "is_pinned", disguise(is_pinned, asks), asks)


@patch("mps")
def loaded_storages(editor: Editor, driver: Driver) -> None:
    """Storages that ``torch.load`` restores on the CPU follow the table, so that they can meet the rest."""
    from torch import serialization

    translator = editor.translator

    def deserialize(storage: Any, location: str) -> Any:
        redirected = location == "cpu" and translator.unasked is not None and not translator.override.on
        return storage.to(device=translator.unasked) if redirected else None

    entry = (9, lambda storage: None, deserialize)
    serialization._package_registry.append(entry)
    serialization._package_registry.sort(key=lambda row: row[0])
    editor.on_undo(lambda: serialization._package_registry.remove(entry))
