"""Access: only this server's own page, at its own address, and with its token."""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs, urlsplit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Address:
    """Where the server listens, and the token that it requires: other users of this machine can reach it too."""

    host: str
    port: int
    token: str | None = None
    """Without one, everybody may use the page."""

    @property
    def url(self) -> str:
        """The address to open in a browser."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else host
        return f"http://{host}:{self.port}/" + (f"?token={self.token}" if self.token else "")

    @property
    def cookie(self) -> str:
        return f"coca-{self.port}"

    def answers_to(self, host: str) -> bool:
        """Whether a Host header names this server; this stops DNS rebinding."""
        try:
            name, port = urlsplit(f"//{host}").hostname or "", urlsplit(f"//{host}").port or 80
        except ValueError:
            return False
        if port != self.port:
            return False
        if name in ("127.0.0.1", "localhost", "::1", self.host):
            return True
        return self.host in ("0.0.0.0", "::") and _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


class Guard:
    """ASGI middleware that refuses requests of other sites, and adds security headers to every response."""

    def __init__(self, app: App, address: Address) -> None:
        self.app, self.address = app, address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await (self.app(scope, receive, send) if scope["type"] == "lifespan" else _close(send))
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        cookie = None
        opening = scope["method"] == "GET" and scope["path"] == "/"
        refused = self._refusal(headers, opening)
        if refused is None and self.address.token is not None:
            given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
            if self._is_token(given):
                cookie = f"{self.address.cookie}={self.address.token}; HttpOnly; SameSite=Strict; Path=/"
            elif not self._is_token(_cookie(headers.get("cookie", ""), self.address.cookie)):
                refused = 401, "this page needs its token: open the address that `coca explore` printed"

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                added = {**HEADERS, **({"Set-Cookie": cookie} if cookie else {})}
                fresh = [(name.lower().encode(), value.encode()) for name, value in added.items()]
                message["headers"] = [*message["headers"], *(pair for pair in fresh if pair[0] not in present)]
            await send(message)

        if refused is not None:
            await _refuse(guarded, *refused)
            return
        await self.app(scope, receive, guarded)

    def _refusal(self, headers: dict[str, str], opening: bool) -> tuple[int, str] | None:
        """Status and reason of a refusal, or None; any site may link to the page itself (`opening`)."""
        host = headers.get("host", "")
        if not self.address.answers_to(host):
            return 421, f"this server does not answer to {host!r}; open the address that `coca explore` printed"
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return 403, f"pages of {origin!r} may not use this server"
        if not opening and headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "other sites may not use this server"
        return None

    def _is_token(self, given: str) -> bool:
        assert self.address.token is not None
        return hmac.compare_digest(given.encode(), self.address.token.encode())


def _cookie(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return found.value if found else ""


async def _refuse(send: Send, status: int, reason: str) -> None:
    body = json.dumps({"error": reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _close(send: Send) -> None:
    await send({"type": "websocket.close", "code": 1008})
