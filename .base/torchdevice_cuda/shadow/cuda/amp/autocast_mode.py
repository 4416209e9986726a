"""Autocasting under its old names."""

import sys
from typing import Any

import torch
from typing_extensions import deprecated

__all__ = ["autocast", "custom_fwd", "custom_bwd"]


@deprecated(
    "`torch.cuda.amp.autocast(args...)` is deprecated. Please use `torch.amp.autocast('cuda', args...)` instead.",
    category=FutureWarning,
)
class autocast(torch.amp.autocast_mode.autocast):
    """:class:`torch.autocast` for ``"cuda"``; making one warns that the name is deprecated.

    TorchScript compiles the methods of this class, so each says what it does while scripting.
    """

    if sys.version_info < (3, 13):
        # Before Python 3.13 inspect.signature shows what @deprecated puts around a class, unless there is a __new__.
        def __new__(
            cls,
            enabled: bool = True,
            dtype: torch.dtype = torch.float16,
            cache_enabled: bool = True,
        ):
            """Take the arguments of ``__init__``."""
            return super().__new__(cls)

        def __init_subclass__(cls):
            pass

    def __init__(
        self,
        enabled: bool = True,
        dtype: torch.dtype = torch.float16,
        cache_enabled: bool = True,
    ):
        if torch._jit_internal.is_scripting():
            self._enabled = enabled
            self.device = "cuda"
            self.fast_dtype = dtype
            return
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)

    def __enter__(self):
        if torch._jit_internal.is_scripting():
            return self
        return super().__enter__()

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any):
        if torch._jit_internal.is_scripting():
            return None
        return super().__exit__(exc_type, exc_val, exc_tb)

    def __call__(self, func):
        """Autocast inside ``func``."""
        if torch._jit_internal.is_scripting():
            return func
        return super().__call__(func)


@deprecated(
    "`torch.cuda.amp.autocast_mode._cast(value, dtype)` is deprecated. "
    "Please use `torch.amp.autocast_mode._cast(value, 'cuda', dtype)` instead.",
    category=FutureWarning,
)
def _cast(value, dtype):
    """Cast every floating-point tensor of the device inside ``value``."""
    return torch.amp.autocast_mode._cast(value, "cuda", dtype)


@deprecated(
    "`torch.cuda.amp.custom_fwd(args...)` is deprecated. "
    "Please use `torch.amp.custom_fwd(args..., device_type='cuda')` instead.",
    category=FutureWarning,
)
def custom_fwd(fwd=None, *, cast_inputs=None):
    """:func:`torch.amp.custom_fwd` for ``"cuda"``, deprecated."""
    return torch.amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


@deprecated(
    "`torch.cuda.amp.custom_bwd(args...)` is deprecated. "
    "Please use `torch.amp.custom_bwd(args..., device_type='cuda')` instead.",
    category=FutureWarning,
)
def custom_bwd(bwd):
    """:func:`torch.amp.custom_bwd` for ``"cuda"``, deprecated."""
    return torch.amp.custom_bwd(bwd, device_type="cuda")
