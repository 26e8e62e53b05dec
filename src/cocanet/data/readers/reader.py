"""What all readers have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from cocanet.data.readers.files import DamagedFile
from cocanet.data.sample import Sample


class Reader(ABC):
    """A `Source` over published files: subclasses set the three facts, count their samples and read one."""

    recipe: Mapping[str, Any]
    background_labels: int
    has_labels: bool

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _read(self, index: int) -> Sample: ...

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        return self._read(index)

    def damaged(self, where: str) -> dict[int, str]:
        """Why each sample that cannot be read cannot; DamagedFile if that is all of them."""
        reasons: dict[int, str] = {}
        for index in range(len(self)):
            try:
                self._read(index)
            except DamagedFile as error:
                reasons[index] = str(error)
        if len(reasons) == len(self):
            raise DamagedFile(f"{where}: none of the {len(self)} images can be read; the first: {reasons[0]}")
        return reasons
