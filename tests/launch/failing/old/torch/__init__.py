"""As much of an old torch as is looked at."""

from torch import _C, version  # noqa: F401

__version__ = version.__version__
from torch import cuda  # noqa: E402, F401
