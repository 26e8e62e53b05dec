"""The web server: the page, its API, and listening; needs `cocanet[explore]`."""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from cocanet.explore import messages
from cocanet.explore.connections import BoundedConnection
from cocanet.explore.download import download_name, read_export
from cocanet.explore.explorer import Explorer
from cocanet.explore.export_labels import LabelFormat
from cocanet.explore.gallery import NotFoundError
from cocanet.explore.guard import Address, Guard
from cocanet.explore.labels import ConflictError
from cocanet.explore.mending import Drawing
from cocanet.explore.messages import Message
from cocanet.limits import MAX_UPLOAD_BYTES
from cocanet.predict.segment_settings import SegmentSettings
from cocanet.words import readable

MEDIA_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
MAX_EDIT_BYTES = 2**20
DEFAULT_PORT = 8642

log = logging.getLogger("cocanet.explore")


Coordinate = Annotated[float, Field(ge=-1e5, le=1e5, allow_inf_nan=False)]


class Edit(BaseModel):
    """An edit of an image's labels."""

    action: str = Field(max_length=20)
    segments: list[int] = Field(default=[], max_length=5000)
    category: str = Field(default="", max_length=200)
    level: int = Field(ge=1, le=16)
    revision: int = Field(ge=0)
    """The revision of the labels that the client edits."""
    points: list[tuple[Coordinate, Coordinate]] = Field(default=[], max_length=4000)
    """What was drawn, as (x, y) in the image's pixels."""
    radius: float = Field(default=1.0, ge=0.75, le=2000)
    follow: bool = False
    subtract: bool = False

    def drawing(self) -> Drawing:
        return Drawing(tuple(self.points), self.radius, self.follow, self.subtract, self.level)


def _settings(
    slots: Annotated[int | None, Query()] = None,
    dynamic: Annotated[bool | None, Query()] = None,
    scope_threshold: Annotated[float | None, Query()] = None,
    temperature: Annotated[float | None, Query()] = None,
    refine: Annotated[bool, Query()] = False,
) -> SegmentSettings:
    """Settings from a URL's query. Every segment is shown and can be edited, whatever its score."""
    return SegmentSettings(
        slots=slots,
        dynamic=dynamic,
        scope_threshold=scope_threshold,
        temperature=temperature,
        refine=refine,
        min_score=0,
    )


Settings = Annotated[SegmentSettings, Depends(_settings)]


def listen(host: str, port: int | None) -> tuple[socket.socket, Address]:
    """A listening socket, at the default port or a free one, and its address with a new token."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    last: OSError | None = None
    for wanted in (DEFAULT_PORT, 0) if port is None else (port,):
        try:
            open_socket = socket.create_server((host, wanted), family=family)
        except OSError as error:
            last = error
            continue
        return open_socket, Address(host, open_socket.getsockname()[1], secrets.token_urlsafe(24))
    raise ValueError(f"cannot listen at {host}:{port or DEFAULT_PORT}: {last.strerror if last else 'no port'}")


def make_server(explorer: Explorer, address: Address, started: Callable[[], None] | None = None) -> uvicorn.Server:
    """A server for `run(sockets=[…])`; it calls `started` when it accepts requests."""
    config = uvicorn.Config(
        make_app(explorer, address),
        log_level="critical",  # what a stranger sends is not the user's to read; our own errors are logged below
        http=BoundedConnection,
        access_log=False,
        timeout_graceful_shutdown=2,
        server_header=False,
        ws="none",
    )
    server = _Server(config)
    server.on_start = started
    return server


class _Server(uvicorn.Server):
    on_start: Callable[[], None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.on_start is not None:
            self.on_start()


def make_app(explorer: Explorer, address: Address) -> Guard:
    """All routes, behind the guard."""
    app = FastAPI(title="coca explore", docs_url=None, redoc_url=None, openapi_url=None)
    _add_page(app)
    _add_images(app, explorer)
    _add_explanations(app, explorer)
    _add_labels(app, explorer)
    _add_errors(app)
    return Guard(app, address)


def _add_page(app: FastAPI) -> None:
    folder = files("cocanet") / "explore" / "page"
    page = {file.name: file.read_bytes() for file in folder.iterdir() if _suffix(file.name) in MEDIA_TYPES}

    def send(name: str) -> Response:
        if name not in page:
            raise NotFoundError(f"there is no file {name}")
        return Response(page[name], media_type=MEDIA_TYPES[_suffix(name)])

    app.get("/")(lambda: send("index.html"))
    app.get("/page/{name}")(send)


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]


def _add_images(app: FastAPI, explorer: Explorer) -> None:
    @app.get("/api/models")
    def models() -> dict[str, Any]:
        return {
            "models": explorer.models,
            "colours": messages.describe_colours(),
            "labels": readable(str(explorer.labels.folder)),
            "settings": {"refine": True} if explorer.refine else {},
        }

    @app.get("/api/models/{model}")
    def model_(model: str) -> dict[str, Any]:
        return messages.describe_model(model, explorer.segmenter(model))

    @app.get("/api/models/{model}/gallery")
    def gallery(model: str) -> dict[str, Any]:
        labelled, entries = explorer.labels.names, explorer.entries(model)
        images = [[entry.key, entry.shown, int(entry.name in labelled)] for entry in entries]
        return {"title": readable(explorer.galleries[model].title), "images": images}

    @app.post("/api/images")
    async def drop(request: Request, name: str = "image") -> dict[str, str]:
        data = await _body(request, MAX_UPLOAD_BYTES)
        entry = await run_in_threadpool(explorer.drop, data, name)
        return {"key": entry.key, "name": entry.name}

    @app.get("/api/models/{model}/images/{key}/thumbnail")
    def thumbnail(model: str, key: str) -> Response:
        data = explorer.thumbnail(model, key)
        kind = "image/png" if data.startswith(b"\x89PNG") else "image/jpeg"
        return Response(data, media_type=kind, headers={"Cache-Control": "private, max-age=3600"})


def _add_explanations(app: FastAPI, explorer: Explorer) -> None:
    path = "/api/models/{model}/images/{key}/"

    @app.get(path + "explanation")
    def explanation(model: str, key: str, settings: Settings, image: bool = True) -> Response:
        found = explorer.explain(model, key, settings)
        return _binary(messages.explanation_message(explorer.entry(key), found, image=image))

    @app.get(path + "steps")
    def steps(model: str, key: str, settings: Settings, level: int = 1) -> Response:
        found = explorer.explain(model, key, settings)
        return _binary(explorer.limited(lambda: messages.steps_message(found, level)))

    @app.get(path + "compactness")
    def compactness(model: str, key: str, settings: Settings) -> Response:
        found = explorer.explain(model, key, settings)
        return _binary(explorer.limited(lambda: messages.compactness_message(found)))

    @app.get(path + "slots")
    def slots(model: str, key: str, settings: Settings) -> Response:
        found = explorer.explain(model, key, settings)
        return _binary(explorer.limited(lambda: messages.slots_message(found)))

    @app.get(path + "scene")
    def scene(model: str, key: str, settings: Settings, off: str = "") -> Response:
        found = explorer.explain(model, key, settings)
        removed = {int(slot) for slot in off.split(",") if slot}
        return _binary(explorer.limited(lambda: messages.scene_message(found, removed)))


def _add_labels(app: FastAPI, explorer: Explorer) -> None:
    latest: dict[str, Path] = {}

    @app.get("/api/models/{model}/images/{key}/labels")
    def labels(model: str, key: str) -> Response:
        return _binary(messages.labels_message(explorer.document(model, key)))

    @app.post("/api/models/{model}/images/{key}/labels")
    async def edit(model: str, key: str, settings: Settings, request: Request) -> Response:
        change = Edit.model_validate_json(await _body(request, MAX_EDIT_BYTES))
        given = change.model_dump(include={"action", "level", "revision", "segments", "category"})
        document = await run_in_threadpool(
            lambda: explorer.edit(model, key, settings, drawing=change.drawing(), **given)
        )
        return _binary(messages.labels_message(document))

    @app.get("/api/categories")
    def categories() -> list[str]:
        return explorer.labels.categories()

    @app.post("/api/models/{model}/export/{kind}")
    def export(model: str, kind: LabelFormat) -> dict[str, Any]:
        exported, errors = explorer.export(model, kind)
        latest[kind] = exported.path
        download = f"/api/exported/{kind}"
        reasons = [readable(error) for error in errors]
        path = readable(str(exported.path))
        return {"path": path, "summary": exported.summary, "errors": reasons, "download": download}

    @app.get("/api/exported/{kind}")
    def download(kind: LabelFormat) -> Response:
        path = latest.get(kind)
        if path is None or not path.exists():
            raise NotFoundError(f"no labels were exported as {kind} since this server started; export them first")
        headers = {"Content-Disposition": f'attachment; filename="{download_name(path)}"'}
        return StreamingResponse(read_export(path), media_type="application/octet-stream", headers=headers)


def _add_errors(app: FastAPI) -> None:
    def with_status(status: int) -> Callable[[Request, Exception], Response]:
        return lambda request, error: JSONResponse({"error": readable(_reason(error))}, status)

    app.add_exception_handler(NotFoundError, with_status(404))
    app.add_exception_handler(ConflictError, with_status(409))
    app.add_exception_handler(ValueError, with_status(400))
    app.add_exception_handler(OSError, with_status(500))

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> Response:
        reason = f"there is nothing at {request.url.path}" if error.status_code == 404 else str(error.detail)
        return JSONResponse({"error": reason}, error.status_code)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> Response:
        return JSONResponse({"error": _first_reason(error.errors())}, 400)

    @app.exception_handler(Exception)
    def failed(request: Request, error: Exception) -> Response:
        log.exception("%s %s failed", request.method, request.url.path, exc_info=error)
        return JSONResponse({"error": f"internal error: {type(error).__name__}: {error}"}, 500)


def _first_reason(errors: Sequence[Any]) -> str:
    names = [str(name) for name in errors[0]["loc"] if isinstance(name, str)]
    return f"{names[-1] if names else 'body'}: {errors[0]['msg'].lower()}"


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return _first_reason(error.errors())
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error).removeprefix("these bytes: ").splitlines()[0] if str(error) else type(error).__name__


async def _body(request: Request, max_bytes: int) -> bytes:
    """The request's body; reading stops beyond `max_bytes`."""
    too_large = f"more than {max_bytes // 2**20} MB; send something smaller"
    if int(request.headers.get("content-length") or 0) > max_bytes:
        raise HTTPException(413, too_large)
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > max_bytes:
            raise HTTPException(413, too_large)
    return bytes(data)


def _binary(message: Message) -> Response:
    return Response(messages.pack(message), media_type=messages.MEDIA_TYPE)
