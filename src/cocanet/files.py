"""Atomic writes, locks, and checked reads of files."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

OUTPUT = ".coca-output"
"""A file in the folders that cocanet writes: their pictures are not taken for photographs."""
MAX_JSON_BYTES = 2**28
"""Of a JSON file."""

_number = itertools.count()


@dataclass(frozen=True)
class FileEntry:
    """What a finished file must be."""

    bytes: int
    sha256: str


def cache_folder() -> Path:
    """$COCANET_CACHE, or a folder in the user's cache."""
    given = os.environ.get("COCANET_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cocanet"


def write_atomically(path: Path, pieces: Iterable[bytes | memoryview]) -> FileEntry:
    """Write a file so that it is there whole or not at all, even if the machine stops half-way."""
    temporary = temporary_name(path)
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


def temporary_name(path: Path) -> Path:
    """A name beside `path` that no other thread or process uses."""
    return path.with_name(f"{path.name}.{os.getpid()}-{next(_number)}.tmp")


def mark_output(folder: Path) -> None:
    """Mark a folder as written by cocanet."""
    with suppress(OSError):
        (folder / OUTPUT).write_text("Written by cocanet; pictures below are not taken for photographs.\n")


def is_output(folder: Path) -> bool:
    """Whether `mark_output` marked a folder."""
    return (folder / OUTPUT).exists()


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


@contextmanager
def hold(path: Path, doing: str) -> Iterator[None]:
    """Keep other processes out by a lock file that names this one; `doing` says what they would disturb.

    The system gives the lock up when the process ends, however it ends. It may not reach other machines, so a file of
    another machine is believed until it is deleted.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    host = socket.gethostname()
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            holder = _holder(os.pread(descriptor, 4096, 0))
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"{path.parent} {doing} by {holder[1]}; end it first") from None
            if not _is_open_file(descriptor, path):
                continue  # the process that held it has just deleted it
            if holder[0] not in ("", host):
                raise ValueError(f"{path.parent} {doing} by {holder[1]}; if that has ended, delete {path}")
            since = datetime.now().isoformat(timespec="seconds")
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "host": host, "since": since}).encode(), 0)
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return
        finally:
            os.close(descriptor)


def _holder(content: bytes) -> tuple[str, str]:
    """The machine that a lock file names, and the process in words."""
    try:
        found = json.loads(content)
        return str(found["host"]), f"process {found['pid']} on {found['host']} since {found['since']}"
    except (ValueError, TypeError, KeyError, RecursionError):
        return "", "another process"


def _is_open_file(descriptor: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def read_json(path: Path) -> Any:
    """What a JSON file holds; ValueError if it is damaged."""
    size = path.stat().st_size
    if size > MAX_JSON_BYTES:
        raise ValueError(f"{path} is damaged: {size:,} bytes of JSON; expected at most {MAX_JSON_BYTES:,}")
    return parse_json(path.read_bytes(), str(path))


def parse_json(text: str | bytes, origin: str) -> Any:
    """The values of JSON that anyone may have written: without NaN or infinity, and not too deep."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError(f"{origin} is damaged: expected JSON, but it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{origin} is damaged: expected JSON, but {str(error).splitlines()[0]}") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"it holds {name}")


def check_folder_writable(folder: Path) -> None:
    """A folder can be written to, or made; ValueError if not. On some file systems only a trial write shows it."""
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
