"""The report: counts of a program's work on the GPU and of its requests, written at exit to a file or a notebook."""

from __future__ import annotations

from .collecting import About as About
from .collecting import Collector as Collector
from .counters import Counters as Counters
from .destination import check as check
from .ending import AtExit as AtExit
