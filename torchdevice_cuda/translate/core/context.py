"""The context that the patches of one activation share."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from ...drivers.traits import Trait
from .editor import Editor
from .errors import Errors
from .pinned import Pinned
from .precision import Precision
from .requests import Translator

if TYPE_CHECKING:
    from ...drivers import Driver
    from ...report import Counters
    from ...settings import Settings

#: Calls a function with a module once it has been imported, or now if it has been; the result cancels the wait.
WhenImported = Callable[[str, Callable[[ModuleType], None]], Callable[[], None]]


class Context:
    """The driver, the settings, and the state that more than one patch reads."""

    def __init__(
        self, driver: Driver, settings: Settings, when_imported: WhenImported, counters: Counters | None = None
    ) -> None:
        self.driver = driver
        self.settings = settings
        self.when_imported = when_imported
        self.editor = Editor()
        self.translator = Translator(driver, settings, counters)
        self.traits = driver.traits
        if self.translator.counters is not None:
            # Requests are counted in the wrappers that redirect them, even if no request is redirected.
            self.traits |= Trait.COUNTED | Trait.REDIRECTS
        if self.translator.default_target is not None:
            self.traits |= Trait.REDIRECTS | Trait.ACCELERATES
        if settings.compile == "triton" and Trait.NATIVE in self.traits and Trait.TRANSLATED not in self.traits:
            self.traits |= Trait.TRITON_CODE
        #: The accelerator's devices. A lookup is faster than reading a device's type, which creates a string each time
        #: (0.6 us).
        indices = range(max(1, driver.device_count()))
        kind = driver.device_type
        self.gpu = frozenset({torch.device(kind), *(torch.device(kind, index) for index in indices)})
        #: Whether a tensor is on the accelerator; torch's own getter, which is never disguised.
        self.on_gpu: Callable[[torch.Tensor], bool] = vars(torch._C.TensorBase)[f"is_{driver.device_type}"].__get__
        self.pinned = Pinned(driver.registered_host_memory)
        self.errors = Errors(driver, words=Trait.DISGUISED in self.traits, on_cpu=self.translator.believes_in_cpu)
        self.precision = Precision(settings.float64, driver.device_type, partial=Trait.PARTIAL in self.traits)
        #: Called for each fallback, with its backend and reason; ``None`` on a driver without fallbacks.
        self.left: Callable[[str, str, str], None] | None = None
        #: Wrapped originals by id, with their wrappers.
        self.wrapped: dict[int, tuple[Any, Any]] = {}
