"""`coca explore`."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

PACKAGES = ("fastapi", "uvicorn")


@dataclass(frozen=True)
class Explore:
    """Look inside the hierarchy in a browser, and turn what was found into labels."""

    weights: Annotated[
        str | None,
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="[WEIGHTS]",
            help="A name of weights that come with the package, a weights file or a run folder; all that come with "
            "the package if left out.",
        ),
    ] = None
    paths: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[PATH…]")] = ()
    """Images, folders of them, also nested, stores, or patterns; fresh scenes of the model's own kind if left out."""
    labels: Path | None = None
    """Folder for labels; coca-labels beside the images, or here for scenes, if left out."""
    host: str = "127.0.0.1"
    """Where to listen; beyond this machine the page asks for a token."""
    port: int | None = None
    """The port; 8642, or any other that is free, if left out."""
    no_browser: bool = False
    """Only print the address."""
    device: str = "cpu"
    """What to run on: cpu, cuda, cuda:1, mps."""

    def run(self) -> None:
        missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
        if missing:
            raise ValueError(f"coca explore needs {' and '.join(missing)}: pip install 'cocanet[explore]'")
        import webbrowser

        from cocanet.explore.serving import listen, make_server, open_explorer

        explorer = open_explorer(self.weights, self.paths, self.labels, self.device)
        socket, address = listen(self.host, self.port)

        def started() -> None:
            print(f"{address.url}  (Ctrl-C ends it; labels go to {explorer.labels.folder})", flush=True)
            if not self.no_browser:
                webbrowser.open(address.url)

        with socket:
            make_server(explorer, address, started).run(sockets=[socket])
