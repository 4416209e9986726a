"""What runs kernels."""

from . import autotuner as autotuner
from . import driver as driver
