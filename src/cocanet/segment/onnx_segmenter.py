"""An exported model that onnxruntime runs: `cocanet.load("model.onnx").segment(image)`, without torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from cocanet.config.slots import with_slots
from cocanet.extras import extra
from cocanet.segment.base import AnySegmenter, BatchMasks
from cocanet.segment.exported import INPUT, KEY, Head, features_name, parts_name
from cocanet.segment.settings import SegmentSettings

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


class OnnxSegmenter(AnySegmenter):
    """A file that `coca export` wrote, for images of any size and kind; safe to share between threads."""

    def __init__(self, path: Path, device: str = "cpu", source: str | None = None) -> None:
        self._session, self.device = _open(path, device), device
        self.head = _head(self._session, path)
        super().__init__(self.head.preset, self.head.notes, source)

    @property
    def _runs_on(self) -> str:
        return f"onnxruntime, {self.device}"

    def run(
        self, images: Float[np.ndarray, "b 3 height width"], names: Sequence[str] | None = None
    ) -> dict[str, np.ndarray]:
        """Outputs by name, all of them unless some are named; the decoder, where there is one, runs all the same."""
        names = list(self.head.outputs) if names is None else names
        return dict(zip(names, self._session.run(names, {INPUT: images}), strict=True))

    def _check(self, settings: SegmentSettings) -> None:
        name, model = self.source, self.head.model
        if settings.feedback not in (None, model.feedback.rounds):
            raise ValueError(
                f"{name} has {model.feedback.rounds} rounds of feedback in its graph; got feedback="
                f"{settings.feedback}, for which export it again: coca export … --feedback {settings.feedback}"
            )
        if settings.temperature is not None:
            raise ValueError(f"the temperature is fixed in the graph of {name}; got temperature={settings.temperature}")
        if with_slots(model, settings.slots, settings.dynamic, settings.stop_below) != model:
            dynamic = " --dynamic" if settings.dynamic else ""
            slots = f" --slots {settings.slots}" if settings.slots is not None else ""
            raise ValueError(
                f"the number of slots is fixed in the graph of {name}; for another export it again: "
                f"coca export …{slots}{dynamic}"
            )
        if settings.masks == "decoder" and "decoder_masks" not in self.head.outputs:
            raise ValueError(f"{name} was exported without its decoder; export it again: coca export … --decoder")

    def _masks(self, images: Float[np.ndarray, "b 3 height width"], settings: SegmentSettings) -> BatchMasks:
        model = self.head.model
        if settings.masks == "decoder":
            found = self.run(images, ["decoder_masks", "slots", "in_use", "reconstruction"])
            painted = found["reconstruction"]
            return BatchMasks(found["decoder_masks"], found["slots"], found["in_use"], model.image_size, painted)
        level = settings.level or len(model.levels)
        if level == len(model.levels):
            found = self.run(images, ["masks", "slots", "in_use"])
            return BatchMasks(found["masks"], found["slots"], found["in_use"], model.image_size)
        found = self.run(images, [parts_name(level), features_name(level)])
        return BatchMasks(found[parts_name(level)], found[features_name(level)], None, model.window_pixels(level))


def _open(path: Path, device: str) -> Any:
    runtime = extra("onnxruntime", "onnx", "exported models are run")
    if not path.is_file():
        raise ValueError(f"{path} is not there; expected a file that coca export wrote")
    provider = PROVIDERS.get(device.split(":")[0])
    if provider not in runtime.get_available_providers():
        raise ValueError(f"device {device!r} cannot be used here: this onnxruntime has no {provider or 'such device'}")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    # As torch is told by the same variable, and by `runtime.spin_briefly`: threads that wait leave the cores to others.
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", "0") or 0)
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return runtime.InferenceSession(str(path), options, providers=[provider])
    except Exception as error:  # its errors have no class of their own but Exception
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path} is truncated, or not a file that onnxruntime reads: {reason}") from None


def _head(session: Any, path: Path) -> Head:
    found = session.get_modelmeta().custom_metadata_map
    if KEY not in found:
        raise ValueError(f"{path} was written by another program: its metadata has no {KEY!r} entry")
    return Head.from_json(found[KEY], str(path))
