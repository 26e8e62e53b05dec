"""A cache that threads share: each value is computed once, and the least recently used are dropped."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class Cache(Generic[T]):
    """At most `max_items` values, whose sizes add up to at most `max_size`."""

    def __init__(
        self, max_items: int, max_size: int | float = float("inf"), size: Callable[[T], int | float] = lambda value: 0
    ) -> None:
        self._max_items, self._max_size, self._size = max_items, max_size, size
        self._futures: OrderedDict[Hashable, Future[T]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of a key; the first caller makes it, others wait for it. Errors are raised and not cached."""
        with self._lock:
            future = self._futures.get(key)
            is_first = future is None
            if future is None:
                future = self._futures[key] = Future()
            self._futures.move_to_end(key)
        if is_first:
            try:
                future.set_result(make())
            except BaseException as error:
                with self._lock:
                    self._futures.pop(key, None)
                future.set_exception(error)
            self._drop_oldest()
        return future.result()

    def peek(self, key: Hashable) -> T | None:
        """The value of a key if it is cached, otherwise None."""
        with self._lock:
            future = self._futures.get(key)
            if future is None or not future.done():
                return None
            self._futures.move_to_end(key)
        return future.result()

    def __len__(self) -> int:
        return len(self._futures)

    def _drop_oldest(self) -> None:
        with self._lock:
            done = [key for key, future in self._futures.items() if future.done()]
            used = sum(self._size(self._futures[key].result()) for key in done)
            for key in done[:-1]:
                if len(self._futures) <= self._max_items and used <= self._max_size:
                    return
                used -= self._size(self._futures.pop(key).result())
