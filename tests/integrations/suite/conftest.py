"""A library's: it asks for CUDA when it is imported."""

import torch

HAS_CUDA = torch.cuda.is_available()
collect_ignore_glob = [] if HAS_CUDA else ["never"]
