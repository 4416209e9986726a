"""Code that `triton_tutorials.py` and `triton_others.py` share: the device and the comparison of results."""

DEVICE = "cuda"
KERNELS = {}


def kind(function):
    KERNELS[function.__name__] = function
    return function


def off(ours, theirs, atol=1e-5, rtol=1e-5):
    """Return the distance of two tensors; 1 is the tolerance."""
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, (ours.shape, theirs.shape, ours.dtype)
    ours, theirs = ours.double(), theirs.double()
    return ((ours - theirs).abs() / (atol + rtol * theirs.abs())).max().item()
