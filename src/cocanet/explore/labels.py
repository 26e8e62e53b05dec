"""The labels of all images, a document each, in one folder."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from cocanet.explore.document import Document, read_document, write_document
from cocanet.explore.memo import Memo

SUFFIX = ".json"


class ChangedError(ValueError):
    """Somebody else changed the labels that a change was meant for."""


class Labels:
    """Documents by the names of their images. Every change is on disk before it is answered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._read: Memo[Document | None] = Memo(64)
        files = folder.rglob(f"*{SUFFIX}") if folder.is_dir() else ()
        names = (file.relative_to(folder).as_posix().removesuffix(SUFFIX) for file in files)
        self._names = {name for name in names if not name.startswith("exported/")}
        self._categories: set[str] | None = None

    def path(self, name: str) -> Path:
        return self.folder / f"{name}{SUFFIX}"

    @property
    def names(self) -> set[str]:
        """Names of the images that have labels."""
        with self._lock:
            return set(self._names)

    def read(self, name: str) -> Document | None:
        """The labels of an image; ValueError if they are not of this version, or were edited."""
        path = self.path(name)
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return self._read.get((name, status.st_mtime_ns, status.st_ino), lambda: read_document(path))

    def change(self, name: str, seen: int, make: Callable[[Document | None], Document]) -> Document:
        """Write what `make` makes of the labels, if they are those of the revision that was seen, 0 for none."""
        with self._lock:
            there = self.read(name)
            revision = 0 if there is None else there.revision
            if revision != seen:
                raise ChangedError("these labels were changed in another window; here they are as they are now")
            document = make(there)
            write_document(self.path(name), document)
            self._names.add(name)
            if self._categories is not None:
                self._categories |= _categories(document)
        return document

    def categories(self) -> list[str]:
        """Names of categories in use, from all documents that can be read."""
        if self._categories is None:
            found: set[str] = set()
            for name in sorted(self.names):
                try:
                    document = read_document(self.path(name))
                except (ValueError, OSError):
                    continue
                found |= _categories(document) if document else set()
            with self._lock:
                self._categories = found
        return sorted(self._categories, key=str.casefold)


def _categories(document: Document) -> set[str]:
    return {thing.category for thing in document.state.things if thing.category}
