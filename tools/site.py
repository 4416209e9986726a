"""Add the pages outside docs/ to the site, and convert links by path to links by page.

A link to no page is a warning of mkdocs, which ``--strict`` makes an error.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
#: Files of the repository, and their pages.
PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "shim/README.md": "shim.md",
    "torchdevice_cuda/native/README.md": "native.md",
}
#: Files that pages link to; the site has copies of them.
FILES = tuple(sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "examples/ci").iterdir()))
#: README shows what the home page shows, on a code host.
_LINKED = {**PAGES, "README.md": "index.md", **{name: f"{name}.txt" for name in FILES}}
_LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")


def _source(uri: str) -> str:
    """Return the path of a page in the repository."""
    return next((source for source, page in PAGES.items() if page == uri), f"docs/{uri}")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for source, uri in PAGES.items():
        files.append(File.generated(config, uri, content=(ROOT / source).read_text(encoding="utf-8")))
    for name in FILES:
        files.append(File.generated(config, _LINKED[name], content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Append the pages of docs/ that the navigation does not name."""
    named = set(_named(config.nav))
    others = sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name not in named)
    if others and config.nav is not None:
        config.nav = [*config.nav, {"More": others}]
    return config


def _named(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav or ()
    return [name for part in parts for name in _named(part)]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Convert links by path in the repository to links by page."""
    source = _source(page.file.src_uri)

    def led(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[2]))
        uri = _LINKED.get(target, target.removeprefix("docs/") if target.startswith("docs/") else None)
        if uri is None:
            return match[0]  # mkdocs says that it leads nowhere
        here = posixpath.dirname(page.file.src_uri)
        return f"{match[1]}{posixpath.relpath(uri, here or '.')}{match[3] or ''}{match[4]}"

    return _LINK.sub(led, markdown)
