"""Code of other modules: who asks is known by the module's name."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any


def asked_by(module: str | None, function: Callable[..., Any], *args: Any) -> Any:
    """What a function returns when code of a module calls it."""
    names: dict[str, Any] = {"__name__": module, "function": function, "args": args}
    exec(compile("def call():\n    return function(*args)", f"<{module}>", "exec"), names)
    return names["call"]()


def forked(function: Callable[[], Any]) -> Any:
    """What a function returns in a forked child, or its error."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            answer = function()
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as text:
        answer = json.load(text)
    os.waitpid(child, 0)
    return answer
