"""A triton that finds out whether it may be used as triton does; for places where the real one is not installed."""

from . import backends as backends
from . import runtime as runtime

__version__ = "3.0.0"
