"""Files that are never half there, and are checked when they are read."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class FileEntry:
    """What a finished file must be."""

    bytes: int
    sha256: str


def write_atomically(path: Path, pieces: Sequence[bytes | memoryview]) -> FileEntry:
    """Write a file so that it is there whole or not at all, even if the machine stops half-way."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    digest, size = hashlib.sha256(), 0
    try:
        with temporary.open("wb") as file:
            for piece in pieces:
                digest.update(piece)
                size += file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return FileEntry(size, digest.hexdigest())


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the system says about a file or folder names it: not every error does, and some name another."""
    try:
        yield
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error


def sync_folder(folder: Path) -> None:
    """Make the renames in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a second run out of a folder, where the system can. The lock goes with the process, however it ends."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{folder} is being written by another run") from None
        yield
    finally:
        os.close(descriptor)


def read_json(path: Path) -> Any:
    """What a JSON file holds; ValueError if it is damaged."""
    try:
        return json.loads(path.read_bytes())
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is damaged: expected JSON, but {error}") from None


def check_folder_writable(folder: Path) -> None:
    """A folder can be written to, or made; ValueError if not. Some file systems can only be asked by trying."""
    parent = existing_parent(folder)
    try:
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError:
        raise ValueError(f"cannot write to {folder}: {parent} is not a folder that you may write to") from None


def existing_parent(path: Path) -> Path:
    """The nearest folder above `path`, or `path` itself, that is there."""
    absolute = path.absolute()
    return next(folder for folder in (absolute, *absolute.parents) if folder.exists())
