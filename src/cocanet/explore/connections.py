"""Connections of clients that are slow or too many: requests must arrive in time, and idle clients make room."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 64
REQUEST_SECONDS = 30.0
"""From the first byte of a request, or the connection, to its last byte."""


class BoundedConnection(H11Protocol):
    """uvicorn's connection with a deadline for each request; when there are too many, the oldest that waits is cut."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._opened = self.loop.time()
        self._start()
        if len(self.connections) > MAX_CONNECTIONS:
            waiting = [one for one in self.connections if isinstance(one, BoundedConnection) and one.waits]
            oldest = min(waiting, key=lambda one: one._opened)
            self.connections.discard(oldest)  # at once: in a burst, the next one would choose it again
            oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._start()
        else:
            self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    @property
    def waits(self) -> bool:
        """Whether the server waits for this client, and not the client for an answer."""
        return self._deadline is not None or self.cycle is None or self.cycle.response_complete

    def _start(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
