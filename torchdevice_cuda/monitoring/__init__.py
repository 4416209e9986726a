"""Data that a user's processes share about the GPUs that they see.

A process that uses a device publishes what it holds, in a small file that others read whenever they like. There is
nothing to start, no thread, and nothing that is done for an operator.
"""

from __future__ import annotations

from .publishing import Publication as Publication
from .publishing import publish as publish
from .readings import Device as Device
from .readings import Load as Load
from .readings import Process as Process
from .readings import load as load
from .readings import processes as processes
