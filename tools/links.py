"""`python -m tools.links SITE`: check that every link of a site resolves, and that pages load nothing from elsewhere.

Only the HTML pages are read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

LOADS = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src"), ("link", "href")}
"""What a browser fetches by itself; an `a` waits until it is clicked."""


class Link(NamedTuple):
    address: str
    loaded: bool


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[Link] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.names.add(value)
            elif (tag, name) == ("a", "href") or (tag, name) in LOADS:
                self.links.append(Link(value, tag != "a"))


@dataclass(frozen=True)
class Page:
    file: Path
    links: list[Link] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    """What an address may have behind its #."""


@dataclass(frozen=True)
class Site:
    """The pages of a folder."""

    folder: Path

    @cached_property
    def pages(self) -> dict[Path, Page]:
        return {file: _read(file) for file in sorted(self.folder.resolve().rglob("*.html"))}

    def faults(self) -> Iterator[str]:
        """One line for each link that does not resolve, and for each file that is loaded from elsewhere."""
        for page in self.pages.values():
            where = page.file.relative_to(self.folder.resolve())
            for link in page.links:
                if reason := self._fault(page, link):
                    yield f"{where}: {link.address}: {reason}"

    def _fault(self, page: Page, link: Link) -> str | None:
        address = urlsplit(link.address)
        if address.scheme in ("http", "https") or address.netloc:
            return "is fetched from elsewhere" if link.loaded else None
        if address.scheme:
            return None  # mailto:, data:
        if address.path.startswith("/"):
            # Where that is depends on the server; only the page of what was not found cannot know where it is read.
            return None if page.file.name == "404.html" else "leads out of the site"
        target = (page.file.parent / unquote(address.path)).resolve() if address.path else page.file
        if target.is_dir():
            target /= "index.html"
        if not target.is_file():
            return "no such file"
        if address.fragment and target in self.pages and unquote(address.fragment) not in self.pages[target].names:
            return f"no such place in {target.name}"
        return None


def _read(file: Path) -> Page:
    reader = _Reader()
    reader.feed(file.read_text(encoding="utf-8"))
    return Page(file, reader.links, reader.names)


def main(arguments: list[str]) -> None:
    site = Site(Path(arguments[0]))
    faults = list(site.faults())
    if faults or not site.pages:
        sys.exit("\n".join(faults) or f"tools.links: there are no pages in {site.folder}")
    links = sum(len(page.links) for page in site.pages.values())
    print(f"{site.folder}: {links:,} links of {len(site.pages)} pages are good")


if __name__ == "__main__":
    main(sys.argv[1:])
