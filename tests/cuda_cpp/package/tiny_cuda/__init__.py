import torch

from . import _C as _C  # registers the operator

twice = torch.ops.tiny_cuda.twice
