"""Answers that are kept for a while: the latest so many, each made once however many ask for it at the same time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """At most `most` values by key, and at most `room` of what `size` says of them; those asked for last stay."""

    def __init__(
        self, most: int, room: int | float = float("inf"), size: Callable[[T], int | float] = lambda value: 0
    ) -> None:
        self._most, self._room, self._size = most, room, size
        self._held: OrderedDict[Hashable, Future[T]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of a key; `make` makes it if it is not there. Its errors are raised and not kept."""
        with self._lock:
            future = self._held.get(key)
            mine = future is None
            if future is None:
                future = self._held[key] = Future()
            self._held.move_to_end(key)
        if mine:
            try:
                future.set_result(make())
            except BaseException as error:
                with self._lock:
                    self._held.pop(key, None)
                future.set_exception(error)
            self._make_room()
        return future.result()

    def peek(self, key: Hashable) -> T | None:
        """The value of a key, if it is there already."""
        with self._lock:
            future = self._held.get(key)
            if future is None or not future.done():
                return None
            self._held.move_to_end(key)
        return future.result()

    def forget(self, key: Hashable) -> None:
        with self._lock:
            self._held.pop(key, None)

    def __len__(self) -> int:
        return len(self._held)

    def _make_room(self) -> None:
        with self._lock:
            done = [key for key, future in self._held.items() if future.done()]
            used = sum(self._size(self._held[key].result()) for key in done)
            for key in done[:-1]:
                if len(self._held) <= self._most and used <= self._room:
                    return
                used -= self._size(self._held.pop(key).result())
