"""What a program did on the GPU and where its requests went: counted, and told at exit, in a file or in a notebook."""

from __future__ import annotations

from .collecting import About as About
from .collecting import Collector as Collector
from .counters import Counters as Counters
from .destination import check as check
from .ending import AtExit as AtExit
