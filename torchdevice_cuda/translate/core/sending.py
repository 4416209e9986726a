"""Tensors of the CPU that are being sent to another process: whether they are to stay on the CPU there."""

from __future__ import annotations

import contextvars

#: Set while what is sent is a worker's.
stays_on_cpu: contextvars.ContextVar[bool] = contextvars.ContextVar("stays_on_cpu", default=False)
