"""Autocast for CUDA if CUDA tensors are tensors of another device type.

torch has an autocast state per device type, and CPU tensors follow the CPU's. While autocast is on for CUDA, the CPU's
state follows CUDA's; the state that the program set for the CPU is saved and restored. The CPU's autocast casts fewer
operators than CUDA's: the missing ones are registered while the patch is in force.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.amp import GradScaler, autocast_mode

from ...drivers.traits import NONE, Trait
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import copy_metadata, install

# CUDA's rules. An operator without an overload name stands for all overloads that take tensors.
LOWER = (
    "addmm addmv addr baddbmm addbmm bmm mm mv matmul linear prelu chain_matmul linalg_multi_dot linalg_vecdot einsum "
    "conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input conv_transpose3d.input lstm_cell gru_cell "
    "rnn_tanh_cell rnn_relu_cell scaled_dot_product_attention"
).split()
FLOAT32 = (
    "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar "
    "pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim "
    "nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d "
    "hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss "
    "multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits "
    "dist pdist cdist renorm logsumexp upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d "
    "upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d norm.Scalar norm.ScalarOpt_dim"
).split()
FLOAT32_RESULT = (
    "prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm "
    "linalg_matrix_norm.str_ord sum sum.dim_IntList"
).split()
PROMOTE = "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add stack cat".split()
REFUSED = ["binary_cross_entropy"]
_UNSAFE = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)

# torch's own functions, for kernels: they are hot
_is_on, _dtype_of = torch._C.is_autocast_enabled, torch._C.get_autocast_dtype


class _Own(threading.local):
    """The program's own autocast state for the CPU, per thread as autocast is."""

    enabled = False
    dtype = torch.bfloat16


class _State:
    """The autocast states of CUDA and of the CPU, which follows CUDA's."""

    def __init__(self) -> None:
        self.own = _Own()
        self.is_enabled = torch.is_autocast_enabled
        self.set_enabled = torch.set_autocast_enabled
        self.get_dtype = torch.get_autocast_dtype
        self.set_dtype = torch.set_autocast_dtype

    def follow(self) -> None:
        """Make the CPU's state follow CUDA's."""
        on = self.is_enabled("cuda")
        self.set_enabled("cpu", on or self.own.enabled)
        self.set_dtype("cpu", self.get_dtype("cuda") if on else self.own.dtype)


_NAMES = ("is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype")
_STATES = tuple(f"{owner}.{name}" for owner in ("torch", "torch._C") for name in _NAMES)


def _replace(context: Context, *wrappers: Callable[..., Any]) -> None:
    for wrapper in wrappers:
        name = wrapper.__name__
        install(context, torch, name, wrapper, getattr(torch, name))
        # torch.compile knows these functions by their names in torch._C, and folds them into constants.
        context.editor.set(torch._C, name, wrapper)


@patch(*_STATES, traits=Trait.CPU_TENSORS)
def states(context: Context) -> None:
    """``autocast("cuda")`` has no effect on CPU tensors, without an error: the CPU's state must follow CUDA's."""
    state = _State()
    own = state.own

    def is_autocast_enabled(*args: Any) -> bool:
        return own.enabled if args == ("cpu",) else state.is_enabled(*args)

    def set_autocast_enabled(*args: Any) -> None:
        if args and args[0] == "cpu":
            own.enabled = bool(args[1])
        else:
            state.set_enabled(*args)
        state.follow()

    def get_autocast_dtype(device_type: str) -> torch.dtype:
        return own.dtype if device_type == "cpu" else state.get_dtype(device_type)

    def set_autocast_dtype(device_type: str, dtype: torch.dtype) -> None:
        if device_type == "cpu":
            own.dtype = dtype
        else:
            state.set_dtype(device_type, dtype)
        state.follow()

    _replace(context, is_autocast_enabled, set_autocast_enabled, get_autocast_dtype, set_autocast_dtype)


@patch(*_STATES, traits=Trait.TRANSLATED, without=Trait.HOST_MEMORY)
def shared_states(context: Context) -> None:
    """The accelerator's autocast state is CUDA's: both names set and read one state."""
    state = _State()
    both = ("cuda", context.driver.device_type)

    def is_autocast_enabled(*args: Any) -> bool:
        return state.is_enabled("cuda" if args == both[1:] else args[0]) if args else state.is_enabled()

    def set_autocast_enabled(*args: Any) -> None:
        state.set_enabled(*args)
        # With one argument, CUDA's state is set.
        if len(args) == 1 or args[0] in both:
            for device_type in both:
                state.set_enabled(device_type, args[-1])

    def get_autocast_dtype(device_type: str) -> torch.dtype:
        return state.get_dtype("cuda" if device_type in both else device_type)

    def set_autocast_dtype(device_type: str, dtype: torch.dtype) -> None:
        for one in both if device_type in both else (device_type,):
            state.set_dtype(one, dtype)

    _replace(context, is_autocast_enabled, set_autocast_enabled, get_autocast_dtype, set_autocast_dtype)


@patch("torch.amp.autocast_mode._cast", traits=Trait.TRANSLATED)
def custom_functions(context: Context) -> None:
    """``custom_fwd(cast_inputs=...)`` casts tensors of the given device type; CUDA tensors have another one here."""
    original, real = autocast_mode._cast, context.driver.device_type

    def _cast(value: Any, device_type: str, dtype: torch.dtype) -> Any:
        return original(value, real if device_type == "cuda" else device_type, dtype)

    context.editor.set(autocast_mode, "_cast", copy_metadata(_cast, original))


@patch("torch.amp.autocast_mode.autocast.__init__", traits=NONE, without=Trait.PARTIAL)
def foreign_names(context: Context) -> None:
    """``autocast("mps")`` means the accelerator, which is CUDA here; for MPS it would silently do nothing."""
    original = autocast_mode.autocast.__init__

    def __init__(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        original(self, "cuda" if device_type == "mps" else device_type, *args, **kwargs)

    context.editor.set(autocast_mode.autocast, "__init__", functools.wraps(original)(__init__))


@patch("torch.amp.grad_scaler.GradScaler.__init__", traits=NONE)
def scalers(context: Context) -> None:
    """A GradScaler for CUDA or MPS checks the device of its tensors: it must be the target of such requests."""
    original, real = GradScaler.__init__, context.driver.device_type

    def __init__(self: GradScaler, device: str = "cuda", *args: Any, **kwargs: Any) -> None:
        original(self, "cuda" if device == "mps" else device, *args, **kwargs)
        if self._device == "cuda":
            self._device = real

    context.editor.set(GradScaler, "__init__", functools.wraps(original)(__init__))


# ----------------------------------------------------------------------------- operators
def _castable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype is not torch.float64


def _cast_all(values: Any, dtype: torch.dtype) -> Any:
    """Cast every castable tensor in an argument, lists included."""
    if _castable(values):
        return values.to(dtype)
    if isinstance(values, (list, tuple)):
        return type(values)(_cast_all(value, dtype) for value in values)
    return values


def _widest(args: tuple[Any, ...]) -> torch.dtype:
    flat = [value for arg in args for value in (arg if isinstance(arg, (list, tuple)) else (arg,))]
    found = {value.dtype for value in flat if _castable(value)}
    return torch.float32 if torch.float32 in found or len(found) != 1 else found.pop()


def _lower(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype) -> Any:
    return op(*(_cast_all(arg, dtype) for arg in args), **{k: _cast_all(v, dtype) for k, v in kwargs.items()})


def _float32(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype) -> Any:
    return _lower(op, args, kwargs, torch.float32)


def _float32_result(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype) -> Any:
    places = [argument.name for argument in op._schema.arguments]
    given = kwargs.get("dtype") or (args[places.index("dtype")] if len(args) > places.index("dtype") else None)
    if given is None and _castable(args[0]):
        named = dict(zip(places, args, strict=False))
        named.pop("self", None)
        named["dtype"] = torch.float32
        return op(args[0], **{**named, **kwargs, "dtype": torch.float32})
    return op(*args, **kwargs)


def _promote(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype) -> Any:
    return _lower(op, args, kwargs, _widest((*args, *kwargs.values())))


def _refuse(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype) -> NoReturn:
    raise RuntimeError(_UNSAFE)


#: ``rule(operator, args, kwargs, lower precision)``
Rule = Callable[[Any, tuple[Any, ...], dict[str, Any], torch.dtype], Any]
RULES: dict[str, tuple[list[str], Rule]] = {
    "lower": (LOWER, _lower),
    "float32": (FLOAT32, _float32),
    "float32 result": (FLOAT32_RESULT, _float32_result),
    "promote": (PROMOTE, _promote),
    "refused": (REFUSED, _refuse),
}


def _overload(name: str) -> Any | None:
    base, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, base, None)
    return getattr(packet, overload or "default", None) if packet is not None else None


def _kernel(op: Any, rule: Rule, key: str) -> Callable[..., Any]:
    excluded = torch._C.DispatchKeySet(torch._C._dispatch_key_parse(key))

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(excluded):
            if _is_on("cuda"):
                return rule(op, args, kwargs, _dtype_of("cuda"))
            return op(*args, **kwargs)

    return kernel


@patch("torch.ops.aten[Autocast<type>]", traits=Trait.TRANSLATED)
def operators(context: Context) -> None:
    """CUDA's autocast casts operators that others do not: losses in half precision would overflow."""
    # The key of the device type that CUDA tensors really have.
    key = f"Autocast{context.driver.device_type.upper()}"
    library = torch.library.Library("aten", "IMPL")
    context.editor.undone(f"torch.ops.aten[{key}]", library._destroy)
    for names, rule in RULES.values():
        for name in names:
            op = _overload(name)
            if op is None or torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key):
                continue
            library.impl(name, _kernel(op, rule, key), key)
