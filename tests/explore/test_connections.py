"""Slow and many clients of the server."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import suppress

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from cocanet.explore import connections, gallery
from cocanet.explore.connections import BoundedConnection
from tests.explore.servers import noise, png, serve, small_explorer, write_images


@pytest.fixture
def explorer(tmp_path):
    return small_explorer(write_images(tmp_path / "images", 1))


def half_open(port: int, text: bytes) -> socket.socket:
    """A connection with the beginning of a request."""
    opened = socket.create_connection(("127.0.0.1", port), timeout=10)
    opened.sendall(text)
    return opened


UPLOAD = b"POST /api/images HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 9\r\n\r\nab"
UPGRADE = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


@pytest.mark.parametrize("text", [b"", b"GET / HTTP/1.1\r\nHost: 127", UPLOAD])
def test_a_request_that_does_not_arrive_is_cut(explorer, monkeypatch, text):
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.3)
    with serve(explorer) as running:
        text = text % running.address.port if b"%d" in text else text
        with half_open(running.address.port, text) as opened:
            started = time.monotonic()
            with suppress(ConnectionResetError):
                assert opened.recv(100) == b""
            assert 0.2 < time.monotonic() - started < 5
        # A request in time is answered, however long its connection lives.
        for _ in range(3):
            assert running.client.get("/api/models").status_code == 200
            time.sleep(0.2)


def test_half_open_connections_make_room(explorer, monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 8)
    with serve(explorer) as running:
        opened = [half_open(running.address.port, b"GET / HTTP/1.1\r\n") for _ in range(30)]
        for _ in range(5):
            assert running.client.get("/api/models").status_code == 200
        for one in opened:
            one.close()


def test_a_burst_makes_room_as_well(monkeypatch):
    """Connections that are made before the event loop has closed any."""
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 8)
    config, state, loop, cut = Config(lambda: None), ServerState(), asyncio.new_event_loop(), []

    class Client(asyncio.Transport):
        def abort(self):
            cut.append(self)

    clients = [Client() for _ in range(30)]
    config.load()
    for client in clients:
        BoundedConnection(config, state, {}, _loop=loop).connection_made(client)
    loop.close()
    assert cut == clients[:22]


def test_uploads_are_decoded_as_many_at_once_as_there_are_cores(explorer, monkeypatch):
    at_once, most, lock, plain = 0, 0, threading.Lock(), gallery.read_pixels

    def counted(data):
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.02)
        try:
            return plain(data)
        finally:
            with lock:
                at_once -= 1

    monkeypatch.setattr(gallery, "read_pixels", counted)
    monkeypatch.setattr(explorer, "_workers", threading.Semaphore(2))
    threads = [
        threading.Thread(target=explorer.drop, args=(png(noise(8, 8, seed=number)), "a.png")) for number in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 2


def test_a_computation_inside_of_another_does_not_wait(explorer, monkeypatch):
    monkeypatch.setattr(explorer, "_workers", threading.Semaphore(1))
    assert explorer.limited(lambda: explorer.limited(lambda: 3)) == 3
    assert explorer._workers.acquire(blocking=False)


def test_the_server_is_quiet(explorer, capfd):
    """What strangers send is not printed."""
    with serve(explorer) as running:
        for text in (b"nonsense\r\n\r\n", UPGRADE):
            with half_open(running.address.port, text) as opened:
                opened.recv(1000)
        assert running.client.get("/api/models", headers={"Host": "evil"}).status_code == 421
    assert capfd.readouterr() == ("", "")
