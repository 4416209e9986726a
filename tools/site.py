"""What mkdocs is told beyond `mkdocs.yml`: pages that are kept elsewhere in the repository, and links to them.

README and its like are read where they lie, and link to each other by path. On the site they are pages like any other,
sections of README have pages of their own, and a link that leads to no page is a warning, which CI takes for an error.
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
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "shim/README.md": "shim.md",
    "torchdevice_cuda/native/README.md": "native.md",
}
#: Sections of README that are pages, too.
SECTIONS = {"drivers.md": "What works where", "limits.md": "Limits"}
_LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")


def _section(title: str) -> str:
    """One section of README, as a page."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"README.md has no section {title!r}, of which there is to be a page")
    return f"# {title}\n{found[1]}"


def _source(uri: str) -> str:
    """Where a page is kept in the repository."""
    if uri in SECTIONS:
        return "README.md"
    return next((source for source, page in PAGES.items() if page == uri), f"docs/{uri}")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for source, uri in PAGES.items():
        files.append(File.generated(config, uri, content=(ROOT / source).read_text(encoding="utf-8")))
    for uri, title in SECTIONS.items():
        files.append(File.generated(config, uri, content=_section(title)))
    return files


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Pages of docs/ that the navigation does not name come last: none is lost."""
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
    """Links are by path in the repository; on the site they are by page."""
    source = _source(page.file.src_uri)

    def led(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[2]))
        uri = PAGES.get(target, target.removeprefix("docs/") if target.startswith("docs/") else None)
        if uri is None:
            return match[0]  # mkdocs says that it leads nowhere
        here = posixpath.dirname(page.file.src_uri)
        return f"{match[1]}{posixpath.relpath(uri, here or '.')}{match[3] or ''}{match[4]}"

    return _LINK.sub(led, markdown)
