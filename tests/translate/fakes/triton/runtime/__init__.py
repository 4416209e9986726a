"""A fake of Triton's runtime."""

from . import autotuner as autotuner
from . import driver as driver
