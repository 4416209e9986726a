"""Translation of the accelerator's errors into CUDA's: their types, and their messages if the program sees CUDA."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...drivers import Driver

#: Errors of torch that name a device: their messages are changed.
_SPEAKING = re.compile(
    r"Expected all tensors to be on the same device"
    r"|Expected a '\w+' device type for generator"
    r"|Expected object of (device|backend) type"
    r"|(must|should) be on the same device|are not at the same device"
    r"|attempting to assign a gradient with device type"
    r"|indices should be either on "
    r"|Input type \(.+\) and (weight|bias) type \(.+\) should be the same"
    r"|Attempted to set the storage of a tensor on device"
    r"|can't convert \S+ device type tensor to numpy|can't assign an? \S+ to a torch\.mps\."
    r"|Tensor for (argument|out|\S+ )"
    r"|Expected \S+ tensor on device|is on \w+(:\d)?, (but expected|different from)"
)
#: The device's name in these messages: CUDA, or the CPU for a program that has not requested CUDA yet.
_WRAPPER, _TYPE = re.compile(r"\bwrapper_MPS_"), re.compile(r"\bMPS(\w+)Type\b")
_NAMES = (
    (re.compile(r"\bmps(?=(:0)?\b)"), "cuda"),
    (_WRAPPER, "wrapper_CUDA_"),
    (_TYPE, r"torch.cuda.\1Tensor"),
)
_CPU_NAMES = (
    (re.compile(r"\btorch\.mps\."), "torch."),
    (re.compile(r"\bmps(:0)?\b"), "cpu"),
    (_WRAPPER, "wrapper_CPU_"),
    (_TYPE, r"torch.\1Tensor"),
)
#: MPS's message if its own operator meets a CPU tensor; it does not name the argument.
_ELSEWHERE = ("Placeholder storage has not been allocated on MPS device!", "Passed CPU tensor to MPS op")
_MIXED = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"


def in_cudas_words(text: str, on_cpu: bool = False) -> str:
    """Return an error's message with CUDA's names, or the CPU's; return any other text unchanged."""
    if "mps" not in text and "MPS" not in text:
        return text
    if text.startswith(_ELSEWHERE):
        return _MIXED
    if _SPEAKING.search(text):
        for name, shown in _CPU_NAMES if on_cpu else _NAMES:
            text = name.sub(shown, text)
    return text


#: Exactly these classes: torch's C++ raises no subclasses for the errors translated here.
PLAIN_ERRORS = frozenset({RuntimeError, TypeError, ValueError, IndexError})


class Errors:
    """The translation of the accelerator's errors."""

    def __init__(self, driver: Driver, words: bool, on_cpu: Callable[[], bool] = lambda: False) -> None:
        self._driver = driver
        self._words = words
        #: whether all tensors on the accelerator report the CPU
        self._on_cpu = on_cpu

    def explained(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], error: BaseException
    ) -> BaseException:
        """Return CUDA's error for a failed call of a C function of torch."""
        if self._words and not self._on_cpu():
            from ...fallback.failed_calls import explain

            error = explain(function, args, kwargs, error)
        return self.translated(error)

    def translated(self, error: BaseException) -> BaseException:
        """Return CUDA's error for the device's out-of-memory error; any other with CUDA's message."""
        if error.__class__ not in PLAIN_ERRORS or not error.args or error.args[0].__class__ is not str:
            return error
        if error.__class__ is RuntimeError:
            other = self._driver.memory.translated(error)
            if other is not error:
                return other
        if self._words:
            shown = in_cudas_words(error.args[0], self._on_cpu())
            if shown is not error.args[0]:
                error.args = (shown, *error.args[1:])
        return error
