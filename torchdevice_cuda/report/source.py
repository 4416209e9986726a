"""The source of a program's lines: their text, and links that open them in an editor."""

from __future__ import annotations

import linecache
import os
import urllib.parse

from .document import Site


def parse(site: str) -> Site:
    """Return a site from its text ``file:line``; without a line if there is none."""
    file, _, line = site.rpartition(":")
    return Site(file, int(line)) if file and line.isdecimal() else Site("", 0, site)


def text_of(site: Site) -> str:
    """Return the text of a line without its indentation; empty if it cannot be read."""
    return linecache.getline(site.file, site.line).strip() if site.file and site.line else ""


def link(site: Site) -> str:
    """Return an address that opens a line in Visual Studio Code; empty if there is no such file."""
    if not site.file or not os.path.isfile(site.file):
        return ""
    path = urllib.parse.quote(os.path.abspath(site.file).encode("utf-8", "surrogateescape"))
    return f"vscode://file/{path.lstrip('/')}:{site.line}"
