"""`coca explore`: a page in the browser."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

PACKAGES = {"fastapi": "fastapi", "skimage": "scikit-image", "uvicorn": "uvicorn"}
"""Modules that the explorer needs, and the packages that have them."""


@dataclass(frozen=True)
class Explore:
    """Inspect the hierarchy in a browser, and turn predicted segments into labels."""

    weights: Annotated[
        str | None,
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="[WEIGHTS]",
            help="A name of shipped weights, a weights file or a run folder; all shipped weights if left out.",
        ),
    ] = None
    paths: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[PATH…]")] = ()
    """Images, folders (also nested), stores, or patterns; new scenes of the model's data set if left out."""
    labels: Path | None = None
    """Folder for labels; coca-labels beside the images, or here for scenes, if left out."""
    refine: bool = False
    """Start with refined masks; the page says so, and can turn refinement off."""
    host: str = "127.0.0.1"
    """Address to listen on; beyond this machine, traffic is not encrypted."""
    port: int | None = None
    """The port; 8642, or any other that is free, if left out."""
    no_browser: bool = False
    """Only print the address."""
    device: str = "cpu"
    """Device: cpu, cuda, cuda:1, mps."""

    def run(self) -> None:
        missing = [package for module, package in PACKAGES.items() if importlib.util.find_spec(module) is None]
        if missing:
            raise ValueError(f"coca explore needs {' and '.join(missing)}: pip install 'cocanet[explore]'")
        import webbrowser

        from cocanet.explore.explorer import open_explorer
        from cocanet.explore.server import listen, make_server

        explorer = open_explorer(self.weights, self.paths, self.labels, self.device, refine=self.refine)

        def started() -> None:
            print(f"{address.url}  (Ctrl-C ends it; labels go to {explorer.labels.folder})", flush=True)
            if not self.no_browser:
                webbrowser.open(address.url)

        with explorer.labels.held():
            socket, address = listen(self.host, self.port)
            with socket:
                make_server(explorer, address, started).run(sockets=[socket])
