"""Whether mixed precision can work."""

from importlib.util import find_spec

import torch

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available():
    """True where there is neither a CUDA device nor XLA."""
    return not (torch.cuda.is_available() or find_spec("torch_xla"))
