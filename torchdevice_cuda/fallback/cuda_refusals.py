"""Operators that CUDA refuses, too: they are refused in CUDA's words, for which a program may be waiting."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from .capabilities import COMPOSITE, with_kernel

if TYPE_CHECKING:
    from .operators import Operator

Kernel = Callable[..., Any]
#: What is said of a library that CUDA's build of PyTorch comes without, and of what nobody has written.
_NO_MIOPEN = "{name}: ATen not compiled with MIOpen support"
_WORDS = {
    "aten::miopen_rnn": "miopen_rnn : ATen not compiled with MIOpen support.",
    "aten::miopen_rnn_backward": "miopen_rnn_backward: ATen not compiled with MIOpen support.",
    "aten::sspaddmm.out": "NYI: CUDA sspaddmm is not implemented",
}
#: By how a name begins: operators of oneDNN, which are the CPU's alone, and of MIOpen.
_ONEDNN, _MIOPEN = ("aten::mkldnn_", "aten::to_mkldnn"), "aten::miopen_"
#: Of sparse tensors.
_SPARSE = ("aten::indices_copy", "aten::sspaddmm.out")
#: Of PyTorch's library of quantised operators, CUDA takes numbers that are not quantised in these alone.
_OF_CUDA = "_rowwise_offsets"


def refused() -> Iterator[tuple[str, str]]:
    """Names of operators, each with the backend's dispatch key at which it is refused."""
    made_of_others = frozenset().union(*map(with_kernel, COMPOSITE))
    known = frozenset(torch._C._dispatch_get_all_op_names()) - with_kernel("MPS") - made_of_others
    yield from ((name, "MPS") for name in sorted(known) if name.startswith((*_ONEDNN, _MIOPEN)))
    yield from ((name, "SparseMPS") for name in _SPARSE)


def kernel(op: Operator, key: str) -> Kernel:
    """What refuses an operator at a dispatch key."""
    words = _WORDS.get(op.name())
    if words is None and op.name().startswith(_MIOPEN):
        words = _NO_MIOPEN.format(name=op.overloadpacket.__name__)
    return functools.partial(_raise, words) if words else _asking(op, key.replace("MPS", "CUDA"))


def _raise(words: str, *args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError(words)


def _asking(op: Operator, key: str) -> Kernel:
    """Has the dispatcher say that CUDA has no kernel: asked for it, it says so before it looks at arguments."""
    return functools.partial(op.redispatch, torch._C.DispatchKeySet(torch._C._dispatch_key_parse(key)))


def of_quantised() -> Iterator[str]:
    """The operators of PyTorch's library of quantised ones that the CPU has for tensors that are not quantised."""
    yield from sorted(name for name in with_kernel("CPU") - with_kernel("MPS") if name.startswith("quantized::"))


def quantised(op: Operator, on_cpu: Kernel, believed_cpu: Callable[[torch.Tensor], bool]) -> Kernel:
    """What computes one of those where CUDA does, or the program believes its tensors to be the CPU's."""
    if _OF_CUDA in op.name():
        return on_cpu
    refuse = _asking(op, "CUDA")

    def compute(*args: Any, **kwargs: Any) -> Any:
        believed = any(isinstance(value, torch.Tensor) and believed_cpu(value) for value in args)
        return (on_cpu if believed else refuse)(*args, **kwargs)

    return compute
