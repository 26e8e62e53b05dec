"""The server: the page, and the routes it asks; needs `cocanet[explore]`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.resources import files
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from cocanet.explore import answers
from cocanet.explore.explorer import Explorer
from cocanet.explore.exports import Kind
from cocanet.explore.gallery import MOST_BYTES, NotThereError
from cocanet.explore.guard import Address, Guard
from cocanet.explore.labels import ChangedError
from cocanet.explore.message import MEDIA, Message, pack
from cocanet.segment.settings import SegmentSettings

KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
MOST_WORDS = 2**20
"""Bytes of a change of labels."""

log = logging.getLogger("cocanet.explore")


class Edit(BaseModel):
    """A change of an image's labels."""

    action: str = Field(max_length=20)
    things: list[int] = Field(default=[], max_length=5000)
    category: str = Field(default="", max_length=200)
    level: int = Field(ge=1, le=16)
    seen: int = Field(ge=0)


def asked(
    slots: Annotated[int | None, Query()] = None,
    dynamic: Annotated[bool | None, Query()] = None,
    stop_below: Annotated[float | None, Query()] = None,
    temperature: Annotated[float | None, Query()] = None,
    feedback: Annotated[int | None, Query()] = None,
) -> SegmentSettings:
    """How to segment, from an address."""
    return SegmentSettings(
        slots=slots, dynamic=dynamic, stop_below=stop_below, temperature=temperature, feedback=feedback
    )


Asked = Annotated[SegmentSettings, Depends(asked)]


def make_app(explorer: Explorer, address: Address) -> Guard:
    """The whole server behind its guard."""
    app = FastAPI(title="coca explore", docs_url=None, redoc_url=None, openapi_url=None)
    _add_page(app)
    _add_images(app, explorer)
    _add_labels(app, explorer)
    _add_errors(app)
    return Guard(app, address)


def _add_page(app: FastAPI) -> None:
    folder = files("cocanet") / "explore" / "page"
    page = {file.name: file.read_bytes() for file in folder.iterdir() if file.name[file.name.rfind(".") :] in KINDS}

    def send(name: str) -> Response:
        if name not in page:
            raise NotThereError(f"there is no file {name}")
        return Response(page[name], media_type=KINDS[name[name.rfind(".") :]])

    app.get("/")(lambda: send("index.html"))
    app.get("/page/{name}")(send)


def _add_images(app: FastAPI, explorer: Explorer) -> None:
    @app.get("/api/models")
    def models() -> dict[str, Any]:
        return {"models": explorer.models, "colours": answers.about_colours(), "labels": str(explorer.labels.folder)}

    @app.get("/api/models/{model}")
    def model_(model: str) -> dict[str, Any]:
        return answers.about_model(model, explorer.segmenter(model))

    @app.get("/api/models/{model}/gallery")
    def gallery(model: str) -> dict[str, Any]:
        labelled, entries = explorer.labels.names, explorer.entries(model)
        images = [[entry.key, entry.name, int(entry.name in labelled)] for entry in entries]
        return {"title": explorer.galleries[model].title, "images": images}

    @app.post("/api/images")
    async def drop(request: Request, name: str = "image") -> dict[str, str]:
        data = await _body(request, MOST_BYTES)
        entry = await run_in_threadpool(explorer.dropped.add, data, name)
        return {"key": entry.key, "name": entry.name}

    @app.get("/api/models/{model}/images/{key}/thumbnail")
    def thumbnail(model: str, key: str) -> Response:
        data = explorer.thumbnail(model, key)
        kind = "image/png" if data.startswith(b"\x89PNG") else "image/jpeg"
        return Response(data, media_type=kind, headers={"Cache-Control": "private, max-age=3600"})

    @app.get("/api/models/{model}/images/{key}/explanation")
    def explanation(model: str, key: str, settings: Asked, picture: bool = True) -> Response:
        found = explorer.explain(model, key, settings)
        return _binary(answers.explanation_message(explorer.entry(key), found, picture=picture))

    def more(path: str, answer: Callable[..., Message]) -> None:
        """A route that tells more of an explanation."""

        def route(model: str, key: str, settings: Asked, level: int = 1, off: str = "") -> Response:
            found = explorer.explain(model, key, settings)
            slots = {int(slot) for slot in off.split(",") if slot}
            message: Message = explorer.working(lambda: answer(found, level, slots))
            return _binary(message)

        app.get(f"/api/models/{{model}}/images/{{key}}/{path}")(route)

    more("choices", lambda found, level, off: answers.choices_message(found, level))
    more("landscape", lambda found, level, off: answers.landscape_message(found))
    more("slots", lambda found, level, off: answers.slots_message(found))
    more("scene", lambda found, level, off: answers.scene_message(found, off))


def _add_labels(app: FastAPI, explorer: Explorer) -> None:
    @app.get("/api/models/{model}/images/{key}/labels")
    def labels(model: str, key: str) -> Response:
        return _binary(answers.labels_message(explorer.document(model, key)))

    @app.post("/api/models/{model}/images/{key}/labels")
    async def edit(model: str, key: str, settings: Asked, request: Request) -> Response:
        change = Edit.model_validate_json(await _body(request, MOST_WORDS))
        given = {"things": change.things, "category": change.category}
        document = await run_in_threadpool(
            lambda: explorer.edit(model, key, settings, change.level, change.seen, change.action, **given)
        )
        return _binary(answers.labels_message(document))

    @app.get("/api/categories")
    def categories() -> list[str]:
        return explorer.labels.categories()

    @app.post("/api/models/{model}/export/{kind}")
    def export(model: str, kind: Kind) -> dict[str, Any]:
        exported, refused = explorer.export(model, kind)
        return {"path": str(exported.path), "said": exported.said, "refused": refused}


def _add_errors(app: FastAPI) -> None:
    def words(status: int) -> Callable[[Request, Exception], Response]:
        return lambda request, error: JSONResponse({"error": _in_words(error)}, status)

    app.add_exception_handler(NotThereError, words(404))
    app.add_exception_handler(ChangedError, words(409))
    app.add_exception_handler(ValueError, words(400))
    app.add_exception_handler(OSError, words(500))

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> Response:
        said = f"there is nothing at {request.url.path}" if error.status_code == 404 else str(error.detail)
        return JSONResponse({"error": said}, error.status_code)

    @app.exception_handler(RequestValidationError)
    def misunderstood(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return JSONResponse({"error": f"{first['loc'][-1]}: {first['msg'].lower()}"}, 400)

    @app.exception_handler(Exception)
    def failed(request: Request, error: Exception) -> Response:
        log.exception("%s %s failed", request.method, request.url.path, exc_info=error)
        return JSONResponse({"error": f"this went wrong, and is our mistake: {type(error).__name__}: {error}"}, 500)


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error).removeprefix("these bytes: ").splitlines()[0] if str(error) else type(error).__name__


async def _body(request: Request, most: int) -> bytes:
    """What was sent; more than `most` bytes are not read."""
    too_much = f"more than {most // 2**20} MB; send something smaller"
    if int(request.headers.get("content-length") or 0) > most:
        raise HTTPException(413, too_much)
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > most:
            raise HTTPException(413, too_much)
    return bytes(data)


def _binary(message: Message) -> Response:
    return Response(pack(message), media_type=MEDIA)
