"""Forks of the process that a test runs in."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any


def in_fork(function: Callable[[], Any]) -> Any:
    """Run a function in a fork of this process; return its result or raise its error."""
    reader, writer = os.pipe()
    forked = os.fork()
    if not forked:
        try:
            answer = function()
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as text:
        answer = json.load(text)
    os.waitpid(forked, 0)
    return answer
