"""Copies between the devices of one process, for ``torch.cuda.comm`` and ``torch.nn.DataParallel``.

If the driver's device has no index (the ``cpu`` driver: every device is the same memory), a tensor on it counts as
being on the first device of a request, and each further device gets its own copy, as on CUDA.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...drivers import Trait, active

__all__ = ["_broadcast", "_broadcast_coalesced", "_broadcast_out", "_gather", "_gather_out", "_scatter", "_scatter_out"]


#: One stream for each device, or None for the current one.
Streams = Sequence[torch._C.Stream | None]


def on_device(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is on the driver's device: its ``is_cuda`` on CUDA."""
    return tensor.device.type == active().device_type


def place_of(index: int) -> torch.device:
    """Return the device that replaces ``cuda:index``."""
    driver = active()
    driver.check(index)
    # Plain "cpu" and not "cpu:1": every device of the cpu driver is the same memory.
    return torch.device("cpu") if Trait.CPU_TENSORS in driver.traits else torch.device(driver.device_type, index)


def index_of(tensor: torch.Tensor, otherwise: int) -> int:
    """Return the index of a tensor's device; ``otherwise`` if the device has none, -1 for another device."""
    if not on_device(tensor):
        return -1
    return otherwise if tensor.device.index is None else tensor.device.index


def _shape(sizes: Sequence[int]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


def _wrap(dim: int, tensor: torch.Tensor) -> int:
    """Return a dimension counted from the front, or raise torch's IndexError."""
    bound = max(tensor.dim(), 1)
    if not -bound <= dim < bound:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})")
    return dim % bound


def _check_outputs(outputs: Sequence[torch.Tensor]) -> None:
    for i, output in enumerate(outputs):
        if not on_device(output):
            raise RuntimeError(
                "Expected all output tensors to be CUDA tensors, but output tensor at index "
                f"{i} has device '{output.device}'"
            )


def _non_negative(index: int) -> int:
    if index < 0:
        raise RuntimeError(f"Expected non-negative device index, but got {index}")
    return index


# ------------------------------------------------------------------------ broadcast
def _broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
    """Return the tensor itself on its own device, a copy on every other."""
    results = []
    for position, index in enumerate(devices):
        _non_negative(index)
        place = place_of(index)
        # Without an index to compare, only the first requested device can be the tensor's own.
        own = index_of(tensor, otherwise=index if position == 0 else -1)
        results.append(tensor if index == own else tensor.to(place, copy=True))
    return results


def _broadcast_out(tensor: torch.Tensor, out: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Copy the tensor into every output."""
    _check_outputs(out)
    for i, output in enumerate(out):
        if output.shape != tensor.shape:
            raise RuntimeError(
                f"Expected all output tensors to have same shape as the source tensor {_shape(tensor.shape)}, but "
                f"output tensor at index {i} has shape {_shape(output.shape)}"
            )
    for output in out:
        output.copy_(tensor, non_blocking=True)
    return list(out)


def _broadcast_coalesced(
    tensors: Sequence[torch.Tensor], devices: Sequence[int], buffer_size: int
) -> list[list[torch.Tensor]]:
    """Return the tensors themselves on the first device, copies on every other; a buffer would save nothing here."""
    if any(index_of(tensor, otherwise=devices[0]) != devices[0] for tensor in tensors):
        raise RuntimeError(f"All tensors must be on devices[0]: {devices[0]}")
    copies = [[tensor.to(place_of(index), copy=True) for tensor in tensors] for index in devices[1:]]
    return [list(tensors), *copies]


# -------------------------------------------------------------------------- scatter
def _check_stream(streams: Streams | None, position: int, index: int) -> None:
    """Check that a copy's stream belongs to the copy's device. The host copies in the caller's order anyway."""
    stream = streams[position] if streams is not None and position < len(streams) else None
    if stream is not None and stream.device_index != index:
        raise RuntimeError(
            f"Expected the device associated with the stream at index {position} (was {stream.device_index}) to "
            f"match the device supplied at that index (expected {index})"
        )


def _scatter(
    tensor: torch.Tensor,
    devices: Sequence[int],
    chunk_sizes: Sequence[int] | None,
    dim: int,
    streams: Streams | None = None,
) -> list[torch.Tensor]:
    """Return chunks of the tensor, one per device: a view on its own device, a copy on every other."""
    if not devices:
        raise RuntimeError("Expected at least one device to scatter to")
    if chunk_sizes is not None and len(chunk_sizes) != len(devices):
        raise RuntimeError(
            "Expected devices and chunk_sizes to be of same length, but got len(devices) = "
            f"{len(devices)} and len(chunk_sizes) = {len(chunk_sizes)}"
        )
    dim = _wrap(dim, tensor)
    chunks = tensor.chunk(len(devices), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    results = []
    for position, (chunk, index) in enumerate(zip(chunks, devices, strict=False)):
        if index == index_of(tensor, otherwise=index if position == 0 else -1):
            results.append(chunk)
            continue
        _check_stream(streams, position, index)
        results.append(chunk.to(place_of(_non_negative(index)), copy=True))
    return results


def _scatter_out(
    tensor: torch.Tensor, out: Sequence[torch.Tensor], dim: int, streams: Streams | None = None
) -> list[torch.Tensor]:
    """Fill the outputs with consecutive chunks of the tensor."""
    if not out:
        raise RuntimeError("Expected at least one output tensor to scatter to")
    dim = _wrap(dim, tensor)
    _check_outputs(out)
    for i, output in enumerate(out):
        sizes = list(output.shape)
        if len(sizes) == tensor.dim():
            sizes[dim] = tensor.shape[dim]
        if sizes != list(tensor.shape):
            raise RuntimeError(
                f"Output tensor at index {i} has incorrect shape: {_shape(output.shape)}. Expected same shape except "
                f"for scatter dim {dim} as the source tensor: {_shape(tensor.shape)}"
            )
    chunk_sizes = [output.shape[dim] for output in out]
    if sum(chunk_sizes) != tensor.shape[dim]:
        raise RuntimeError(
            f"Total size for output tensors along scatter dim {dim} does not match the source tensor size at dim "
            f"{dim}. Expected {tensor.shape[dim]}, but got total size {sum(chunk_sizes)}"
        )
    for position, (output, chunk) in enumerate(zip(out, tensor.split(chunk_sizes, dim), strict=True)):
        _check_stream(streams, position, index_of(output, otherwise=position))
        output.copy_(chunk, non_blocking=True)
    return list(out)


# --------------------------------------------------------------------------- gather
def _gathered_shape(tensors: Sequence[torch.Tensor], dim: int) -> tuple[list[int], int]:
    """Return the shape of the tensors joined along a dimension, and that dimension counted from the front."""
    if not tensors:
        raise RuntimeError("Expected at least one tensor to gather from")
    dim = _wrap(dim, tensors[0])
    expected = list(tensors[0].shape)
    for i, tensor in enumerate(tensors):
        if not on_device(tensor):
            raise RuntimeError(
                f"Expected all input tensors to be CUDA tensors, but tensor at index {i} has device {tensor.device}"
            )
        if tensor.dim() != len(expected):
            raise RuntimeError(
                "Expected all input tensors to have the same number of dimensions, but tensor at index "
                f"{i} has {tensor.dim()} dimensions, (expected {len(expected)})"
            )
        if expected:
            expected[dim] = tensor.shape[dim]
        if list(tensor.shape) != expected:
            raise RuntimeError(
                f"Input tensor at index {i} has invalid shape {_shape(tensor.shape)}, but expected {_shape(expected)}"
            )
    if expected:
        expected[dim] = sum(tensor.shape[dim] for tensor in tensors)
    return expected, dim


def _gather_out(tensors: Sequence[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
    """Fill the output with the tensors, one after the other along a dimension."""
    expected, dim = _gathered_shape(tensors, dim)
    if list(out.shape) != expected:
        raise RuntimeError(f"Expected out tensor to have shape {_shape(expected)}, but got {_shape(out.shape)}")
    start = 0
    for tensor in tensors:
        out.narrow(dim, start, tensor.shape[dim]).copy_(tensor)
        start += tensor.shape[dim]
    return out


def _gather(tensors: Sequence[torch.Tensor], dim: int, destination_index: int | None) -> torch.Tensor:
    """Return the tensors joined along a dimension, on a device; -1 is the host."""
    expected, dim = _gathered_shape(tensors, dim)
    first = tensors[0]
    if destination_index == -1:
        place = torch.device("cpu")
    else:
        place = place_of(active().current_device() if destination_index is None else destination_index)
    kept = torch.channels_last if all(_is_channels_last(tensor) for tensor in tensors) else torch.contiguous_format
    out = torch.empty(expected, dtype=first.dtype, device=place, memory_format=kept)
    return _gather_out(tensors, out, dim)


def _is_channels_last(tensor: torch.Tensor) -> bool:
    return tensor.dim() == 4 and not tensor.is_contiguous() and tensor.is_contiguous(memory_format=torch.channels_last)
