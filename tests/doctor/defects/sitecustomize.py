"""Puts defects of the mps driver back, in every process that finds this: what a Mac would have shown.

Each is a change of one of our modules, made right after it has been imported.
"""

from __future__ import annotations

import ctypes
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


def asks_metal_twice(streams: ModuleType) -> None:
    """Each question about a time goes to Metal again, where the second never returns, with the interpreter held."""

    def _milliseconds(self, recording):
        with self._metal_lock:
            self.drain()
            return recording.since(self._anchor)

    original = streams.Recording.since

    def since(self, start):
        try:
            return original(self, start)
        except RuntimeError as error:
            if "would hang for ever" in str(error):  # as the emulated GPU says
                ctypes.PyDLL(None).sleep(1000)
            raise

    streams.MpsStreams._milliseconds = _milliseconds
    streams.Recording.since = since


def lacks_a_row(refusals: ModuleType) -> None:
    refusals.TABLE = tuple(row for row in refusals.TABLE if "triangular" not in row.words.pattern)


def lets_complex128_through(precision: ModuleType) -> None:
    precision.refuse_complex128 = lambda made: None


def copies_anywhere(copies: ModuleType) -> None:
    copies._UNALIGNED = "words that nobody says"


def compares_no_devices(devices: ModuleType) -> None:
    devices.is_stranger = lambda value: False


def loses_gradients(capabilities: ModuleType) -> None:
    capabilities.cut_off = lambda key: []


def says_metals_words(memory: ModuleType) -> None:
    memory.MpsMemory.translated = lambda self, error, device=0: error


def brings_nothing_back(loans: ModuleType) -> None:
    lend = loans.Loan._lend

    def _lend(self, tensor, is_written):
        self._find_alias = lambda storage: None
        return lend(self, tensor, False)

    loans.Loan._lend = _lend


CHANGES: dict[str, Callable[[ModuleType], None]] = {
    "torchdevice_cuda.drivers.mps.streams": asks_metal_twice,
    "torchdevice_cuda.fallback.refusals": lacks_a_row,
    "torchdevice_cuda.translate.core.precision": lets_complex128_through,
    "torchdevice_cuda.translate.patches.tensor.copies": copies_anywhere,
    "torchdevice_cuda.fallback.devices": compares_no_devices,
    "torchdevice_cuda.fallback.capabilities": loses_gradients,
    "torchdevice_cuda.drivers.loans": brings_nothing_back,
    "torchdevice_cuda.drivers.mps.memory": says_metals_words,
}


class Changed(importlib.machinery.SourceFileLoader):
    """Imports a module, and changes it."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        CHANGES[module.__name__](module)


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules that are to be changed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None):
        if name not in CHANGES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        spec.loader = Changed(name, spec.origin)
        return spec


sys.meta_path.insert(0, Finder())
