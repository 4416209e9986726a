"""Ways to ask for a device, and whether a tensor counts as CUDA's."""

from __future__ import annotations

import torch

HOST = torch.device("cpu")
#: What a program may write where a device is asked for.
REQUESTS = ("cuda", "cuda:0", torch.device("cuda"), torch.device("cuda", 0), 0, "mps", "mps:0", "cpu", "cpu:0", b"cuda")


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Equal in everything: values, data type, layout, device."""
    if (one.dtype, one.layout, one.device) != (other.dtype, other.layout, other.device):
        return False
    if one.is_nested:
        return all(torch.equal(a, b) for a, b in zip(one.unbind(), other.unbind(), strict=True))
    dense = [t.to_dense() if t.layout is not torch.strided else t for t in (one, other)]
    return torch.equal(*dense)


def on_cuda(tensor: torch.Tensor) -> bool:
    """Return whether a tensor counts as CUDA's: then a request for CUDA does not move it."""
    return tensor.cuda() is tensor
