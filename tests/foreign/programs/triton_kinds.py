"""What the kernels of `triton_tutorials.py` and `triton_others.py` share: where they run, and how they are compared."""

DEVICE = "cuda"
KERNELS = {}


def kind(function):
    KERNELS[function.__name__] = function
    return function


def off(ours, theirs, atol=1e-5, rtol=1e-5):
    """How far two tensors are apart; 1 is as far as they may be."""
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, (ours.shape, theirs.shape, ours.dtype)
    ours, theirs = ours.double(), theirs.double()
    return ((ours - theirs).abs() / (atol + rtol * theirs.abs())).max().item()
