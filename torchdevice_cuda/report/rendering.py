"""Which form a report takes: by the name of where it goes."""

from __future__ import annotations

import sys

from . import destination, text
from .document import Document


def rendered(document: Document, named: str) -> str:
    """The whole text: a page for ``.html``, data for ``.json``, tables elsewhere."""
    lower = named.lower()
    if lower.endswith((".html", ".htm")):
        from .page import page

        return page(document)
    if lower.endswith(".json"):
        return document.to_json()
    if named == destination.STANDARD_ERROR:
        return "\n" + text.for_terminal(document, colours=_is_watched())
    return text.plain(document)


def _is_watched() -> bool:
    """Whether somebody looks at standard error."""
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # it is closed
        return False
