"""Recurrent layers: ``PackedSequence``, functions that pack and unpack, the LSTM's kernel, the memory of weights."""

from __future__ import annotations

import types
from typing import Any

import torch
from torch.nn.utils import rnn
from torch.nn.utils.rnn import PackedSequence

from ...drivers.traits import Trait
from ..core.context import Context
from ..core.disguise import CUDA, as_program
from ..core.registry import patch
from ..core.wrapping import Function, install

_CPU = torch.device("cpu")
_to = torch._C.TensorBase.to


@patch("torch.nn.utils.rnn.PackedSequence.cuda", traits=Trait.TRANSLATED)
def packed_cuda(context: Context) -> None:
    """PackedSequence.cuda checks whether a moved tensor reports CUDA, and moves twice if it does not."""
    original = PackedSequence.cuda

    def cuda(self: PackedSequence, *args: Any, **kwargs: Any) -> PackedSequence:
        if not args and kwargs.get("device") is None:
            kwargs["device"] = "cuda"
        return self.to(*args, **kwargs)

    install(context, PackedSequence, "cuda", cuda, original)


@patch("torch.nn.utils.rnn.PackedSequence.is_cuda", traits=Trait.DISGUISED)
def packed_identity(context: Context) -> None:
    """A packed sequence checks from torch's own code whether its data is on CUDA."""
    original: property = vars(PackedSequence)["is_cuda"]
    context.editor.set(PackedSequence, "is_cuda", property(as_program(original.fget), doc=original.__doc__))


class _Functions(types.ModuleType):
    """``torch._VF`` with some functions replaced. It is a module, since TorchScript looks only into modules."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch._VF, name)


def _replace(context: Context, **replaced: Function) -> None:
    """Replace functions for ``torch.nn.utils.rnn``; scripted code uses torch's."""
    functions = _Functions(f"{rnn.__name__}._VF")
    context.editor.set(rnn, "_VF", functions)
    for name, function in replaced.items():
        install(context, functions, name, function, getattr(torch._VF, name))


@patch("torch.nn.utils.rnn._VF", "torch.nn.utils.rnn._VF.<function>", traits=Trait.ACCELERATES)
def lengths(context: Context) -> None:
    """Lengths of packed sequences must be on the CPU: redirected ones are moved back, and the results again."""
    translator = context.translator
    pack, pad = torch._VF._pack_padded_sequence, torch._VF._pad_packed_sequence

    def pack_padded(input: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> Any:
        return pack(input, _to(lengths, _CPU), batch_first)

    def pad_packed(*args: Any) -> tuple[torch.Tensor, torch.Tensor]:
        padded, lengths = pad(*args)
        target = translator.default_target
        return padded, _to(lengths, target) if target is not None and translator.applies_default_target() else lengths

    _replace(context, _pack_padded_sequence=pack_padded, _pad_packed_sequence=pad_packed)


@patch("torch.nn.utils.rnn._VF", "torch.nn.utils.rnn._VF.<function>", traits=Trait.DISGUISED, without=Trait.ACCELERATES)
def lengths_refusal(context: Context) -> None:
    """``pack_padded_sequence`` refuses lengths on the GPU, and the error must name the apparent device."""
    original, gpu = torch._VF._pack_padded_sequence, context.gpu

    def pack_padded(input: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> Any:
        if lengths.device in gpu:
            kind = lengths.type().rpartition(".")[2].removesuffix("Tensor")
            raise RuntimeError(
                f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D {CUDA} {kind} tensor"
            )
        return original(input, lengths, batch_first)

    _replace(context, _pack_padded_sequence=pack_padded)


@patch("torch._VF.lstm", traits=Trait.PARTIAL)
def projected_lstm(context: Context) -> None:
    """MPS's LSTM kernel refuses projections; for a packed sequence torch computes the LSTM with other operators."""
    original, real = torch._VF.lstm, context.driver.device_type

    def lstm(*args: Any) -> Any:
        packed = len(args) > 1 and isinstance(args[1], torch.Tensor)  # the batch sizes
        if packed or args[0].device.type != real or args[1][0].size(-1) == args[1][1].size(-1):
            return original(*args)
        data, states, *options, batch_first = args
        steps = data.transpose(0, 1) if batch_first else data
        sizes = torch._C._VariableFunctions.full((steps.size(0),), steps.size(1), dtype=torch.int64, device="cpu")
        out, *last = original(steps.flatten(0, 1), sizes, states, *options)
        out = out.unflatten(0, steps.shape[:2])
        return (out.transpose(0, 1) if batch_first else out, *last)

    install(context, torch._VF, "lstm", lstm, original)


@patch("torch._use_cudnn_rnn_flatten_weight", traits=Trait.NATIVE | Trait.HOST_MEMORY)
def one_piece(context: Context) -> None:
    """Recurrent layers query cuDNN before they put their weights into one chunk of memory for it."""
    original = torch._use_cudnn_rnn_flatten_weight

    def _use_cudnn_rnn_flatten_weight() -> bool:
        return True

    install(context, torch, "_use_cudnn_rnn_flatten_weight", _use_cudnn_rnn_flatten_weight, original)
