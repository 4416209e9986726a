"""Tries a second time, whatever the first brought."""

try:
    import torch
except BaseException:
    import torch

print("stock", torch.cuda.is_available())
