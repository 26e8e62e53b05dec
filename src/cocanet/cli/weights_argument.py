"""How every command asks for a trained model."""

from __future__ import annotations

from typing import Annotated

import tyro

Weights = Annotated[
    str,
    tyro.conf.Positional,
    tyro.conf.arg(
        metavar="WEIGHTS",
        help="A name of weights that come with the package (`coca demo` lists them), a weights file, a run folder, or "
        "a folder that save_pretrained wrote.",
    ),
]
