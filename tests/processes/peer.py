"""A second process, which does what it is told: starting one takes seconds, so tests of a file share it."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch.multiprocessing as mp

SPAWN = mp.get_context("spawn")


class Failed(Exception):
    """An error in the other process: the name of its type, and its message."""


def _serve(orders: Connection) -> None:
    while (order := orders.recv()) is not None:
        function, arguments = order
        del order
        try:
            answer = True, function(*arguments)
        except Exception as error:
            answer = False, (type(error).__name__, str(error))
        del arguments  # what came from the other process is let go before it hears of it
        orders.send(answer)


class Peer:
    """Another process with the same settings."""

    def __init__(self) -> None:
        self._orders, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()

    def begin(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Have it call a function of a file."""
        self._orders.send((function, arguments))

    def end(self) -> Any:
        """End the process and return its status."""
        done, answer = self._orders.recv()
        if not done:
            raise Failed(*answer)
        return answer

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in the other process and return its result."""
        self.begin(function, *arguments)
        return self.end()

    def stop(self) -> None:
        """Have it end as a program does."""
        self._orders.send(None)
        self.process.join()


@functools.cache
def peer() -> Peer:
    """Return the one that the tests of this process share."""
    made = Peer()
    atexit.register(made.stop)
    return made
