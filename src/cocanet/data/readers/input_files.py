"""Input files that anyone may have written: errors that name the file, paths that stay inside, a fixed order."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cocanet.files import is_output
from cocanet.limits import MAX_FILE_BYTES


class DamagedFile(ValueError):
    """A file that cannot be read; the message is one line that starts with the file and, if any, the record."""


class NoImages(DamagedFile):
    """An intact file that holds no images."""


@contextmanager
def naming(where: str | Path) -> Iterator[None]:
    """Turn every exception of a decoder into one line that starts with `where`.

    Decoders (zlib, image libraries, HDF5, MATLAB, JSON) raise any kind of exception on wrong bytes. Here they become
    an error that the user can read.
    """
    try:
        yield
    except DamagedFile:
        raise
    except Exception as error:
        raise DamagedFile(f"{where}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = str(error).strip().splitlines()
    if isinstance(error, ValueError) and lines:
        return lines[0]
    return f"damaged or not of this format ({type(error).__name__}{': ' + lines[0] if lines else ''})"


def existing_folder(path: Path) -> Path:
    """The folder with symbolic links resolved, so that paths inside can be compared with it."""
    if not path.is_dir():
        raise DamagedFile(f"{path}: no such folder")
    return path.resolve()


def inside(root: Path, relative: str | Path) -> Path:
    """`root / relative`, refused where `..`, an absolute path or a symbolic link leads out of `root`."""
    path = root / relative
    with naming(f"{root}: {str(relative)!r}"):
        if not Path(os.path.realpath(path)).is_relative_to(root):
            raise ValueError("leads out of the folder, refused")
    return path


def regular_size(path: Path) -> int:
    """Bytes of a regular file; pipes and devices, which could block, are refused."""
    with naming(path):
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("not a regular file")
        return status.st_size


def read_bytes(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    size = regular_size(path)
    with naming(path):
        if size > limit:
            raise ValueError(f"{size} bytes; at most {limit} are read")
        return path.read_bytes()


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 list that are not blank."""
    data = read_bytes(path)
    with naming(path):
        return [line.strip() for line in data.decode("utf-8").splitlines() if line.strip()]


def natural_key(path: Path) -> tuple[tuple[tuple[int, int, str], ...], ...]:
    """Sorts img2 before img10, folder by folder, independently of the locale."""
    return tuple(
        tuple((0, int(piece), piece) if piece.isdecimal() else (1, 0, piece) for piece in _pieces(part))
        for part in path.parts
    )


def _pieces(text: str) -> list[str]:
    return [piece for piece in re.split(r"([0-9]+)", text) if piece]


def walk(root: Path) -> Iterator[Path]:
    """Every visible file under `root`, relative to it, in natural order.

    Folders that cocanet wrote are skipped. A link out of `root` is refused. A link to a folder inside is skipped, since
    its files are found there.
    """
    found = []
    for folder, names, files in os.walk(root, followlinks=False, onerror=_raise):
        names[:] = [name for name in names if not name.startswith(".") and not is_output(Path(folder, name))]
        relative = Path(folder).relative_to(root)
        for name in names:
            inside(root, relative / name)
        for name in files:
            if not name.startswith("."):
                inside(root, relative / name)
                found.append(relative / name)
    yield from sorted(found, key=natural_key)


def _raise(error: OSError) -> None:
    raise DamagedFile(f"{error.filename}: {error.strerror}")
