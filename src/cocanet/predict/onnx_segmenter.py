"""An exported model that onnxruntime runs: `cocanet.load("model.onnx").segment(image)`, without torch."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from cocanet.config import CocaNetConfig, Preset
from cocanet.config.bounds import check_bounds
from cocanet.config.serialization import from_dict, to_dict
from cocanet.config.slots import with_slots
from cocanet.extras import extra
from cocanet.files import parse_json
from cocanet.predict.base_segmenter import BaseSegmenter
from cocanet.predict.prediction import RawPrediction, slot_predictions
from cocanet.predict.segment_settings import SegmentSettings

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
KEY = "cocanet"
"""Name of the metadata entry."""
INPUT = "images"
_VERSION = 1


@dataclass(frozen=True)
class ExportMetadata:
    """Metadata of an exported file: the model with its slots, the outputs, and the origin of the weights."""

    preset: Preset
    outputs: Mapping[str, str]
    """Names of the outputs in order, with a description of each."""
    notes: Mapping[str, Any]
    """Notes of the weights: steps, images, seconds, commit, command, seed, scores."""
    weights: str
    """Name of the exported weights."""
    refined: bool = False
    """Whether the graph refines the objects' masks after the network."""
    program: str = field(default_factory=lambda: f"cocanet {version('cocanet')}")
    """The program that wrote the file."""

    @property
    def model(self) -> CocaNetConfig:
        assert isinstance(self.preset.model, CocaNetConfig)
        return self.preset.model

    def to_json(self) -> str:
        return json.dumps(
            {
                "version": _VERSION,
                "program": self.program,
                "weights": self.weights,
                "input": f"{INPUT}: float32, batch × 3 × height × width, colours in [0, 1]",
                "outputs": dict(self.outputs),
                "refined": self.refined,
                "preset": to_dict(self.preset),
                "notes": dict(self.notes),
            }
        )

    @classmethod
    def from_json(cls, text: str, origin: str) -> ExportMetadata:
        """Read the text of `to_json`; ValueError names `origin` and the mistake."""
        plain = parse_json(text, origin)
        version = plain.get("version") if isinstance(plain, dict) else None
        if version != _VERSION:
            raise ValueError(f"{origin} is an export of version {version!r}; expected version {_VERSION}")
        preset = plain.get("preset")
        check_bounds(preset.get("model") if isinstance(preset, dict) else None, f"{origin}: preset.model")
        found = from_dict(cls, {field.name: plain[field.name] for field in fields(cls) if field.name in plain}, origin)
        if not isinstance(found.preset.model, CocaNetConfig):
            raise ValueError(f"{origin} holds a {found.preset.model.kind}; expected a coca-net")
        return found


def describe_outputs(model: CocaNetConfig, *, decoder: bool) -> dict[str, str]:
    """Names of the outputs in order, with a description of each."""
    named = {
        "masks": "soft masks of the slots, batch × slots × height × width; they sum to 1 over the slots",
        "slots": "a vector for each slot, batch × slots × features",
        "in_use": "false for slots that only pad an image with fewer slots, batch × slots",
    }
    for level in range(1, len(model.levels)):
        rows, columns = model.window_pixels(level)
        named[masks_name(level)] = (
            f"soft masks of the clusters of level {level}, separate for each window of {rows} × {columns} pixels"
        )
        named[features_name(level)] = "a vector for each cluster, window after window, batch × clusters × features"
    if decoder:
        named["decoder_masks"] = "the decoder's soft masks of the slots, batch × slots × height × width"
        named["reconstruction"] = "the decoder's reconstruction, batch × 3 × height × width, in [0, 1]"
    return named


def masks_name(level: int) -> str:
    return f"level_{level}_masks"


def features_name(level: int) -> str:
    return f"level_{level}_features"


class OnnxSegmenter(BaseSegmenter):
    """A file of `coca export` that segments images of any size and kind. Threads can share it."""

    def __init__(self, path: Path, device: str = "cpu", source: str | None = None) -> None:
        self._path, self._session, self.device = path, _open(path, device), device
        self.metadata = _read_metadata(self._session, path)
        super().__init__(self.metadata.preset, self.metadata.notes, source)

    @property
    def _runtime(self) -> str:
        return f"onnxruntime, {self.device}"

    def refines(self, settings: SegmentSettings) -> bool:
        """A file that was exported with refinement always refines the objects' masks."""
        return self.metadata.refined and settings.level in (None, len(self.metadata.model.levels))

    def run(
        self, images: Float[np.ndarray, "b 3 height width"], names: Sequence[str] | None = None
    ) -> dict[str, np.ndarray]:
        """Outputs by name, all of them by default. A decoder in the file runs at every call."""
        names = list(self.metadata.outputs) if names is None else names
        try:
            arrays = self._session.run(names, {INPUT: images})
        except Exception as error:  # onnxruntime's errors derive from Exception alone
            raise ValueError(f"{self._path} cannot be run: {str(error).splitlines()[0]}") from None
        for name, array in zip(names, arrays, strict=True):
            if not np.isfinite(array).all():
                raise ValueError(f"{self._path} gives {name} with values that are not finite")
        return dict(zip(names, arrays, strict=True))

    def _check(self, settings: SegmentSettings) -> None:
        name, model = self.source, self.metadata.model
        if settings.refine and not self.metadata.refined:
            raise ValueError(f"the graph of {name} has no refinement; export it again: coca export … --refine")
        if settings.temperature is not None:
            raise ValueError(f"the temperature is fixed in the graph of {name}; got temperature={settings.temperature}")
        if with_slots(model, settings.slots, settings.dynamic, settings.scope_threshold) != model:
            dynamic = " --dynamic" if settings.dynamic else ""
            slots = f" --slots {settings.slots}" if settings.slots is not None else ""
            raise ValueError(
                f"the number of slots is fixed in the graph of {name}; export it again: coca export …{slots}{dynamic}"
            )
        if settings.masks == "decoder" and "decoder_masks" not in self.metadata.outputs:
            raise ValueError(f"{name} was exported without its decoder; export it again: coca export … --decoder")

    def _predict(self, images: Float[np.ndarray, "b 3 height width"], settings: SegmentSettings) -> list[RawPrediction]:
        model = self.metadata.model
        level = settings.level or len(model.levels)
        if level < len(model.levels):
            masks, features = self.run(images, [masks_name(level), features_name(level)]).values()
            window = model.window_pixels(level)
            return [RawPrediction(*pair, window) for pair in zip(masks, features, strict=True)]
        names = ["masks", "slots", "in_use"]
        if settings.masks == "decoder":
            names = ["decoder_masks", "slots", "in_use", "reconstruction"]
        return slot_predictions(*self.run(images, names).values(), refined=self.metadata.refined)


def _open(path: Path, device: str) -> Any:
    runtime = extra("onnxruntime", "onnx", "exported models are run")
    if not path.is_file():
        raise ValueError(f"{path} is not there; expected a file that coca export wrote")
    provider = PROVIDERS.get(device.split(":")[0])
    if provider not in runtime.get_available_providers():
        raise ValueError(f"device {device!r} cannot be used here: this onnxruntime has no {provider or 'such device'}")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    # As for torch, this variable sets the number of threads, and threads that wait leave the cores to others.
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", "0") or 0)
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        # Without its second attempt, which prints.
        return runtime.InferenceSession(str(path), options, providers=[provider], enable_fallback=0)
    except Exception as error:  # onnxruntime's errors derive from Exception alone
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path} is truncated, or not a file that onnxruntime reads: {reason}") from None


def _read_metadata(session: Any, path: Path) -> ExportMetadata:
    found = session.get_modelmeta().custom_metadata_map
    if KEY not in found:
        raise ValueError(f"{path} was written by another program: its metadata has no {KEY!r} entry")
    metadata = ExportMetadata.from_json(found[KEY], str(path))
    model = metadata.model
    wanted = {*metadata.outputs, *describe_outputs(model, decoder=False)}
    if missing := sorted(wanted - {output.name for output in session.get_outputs()}):
        raise ValueError(f"{path} has no output {missing[0]!r}, which its metadata describes")
    inputs = {each.name: list(each.shape[1:]) for each in session.get_inputs()}
    if inputs != {INPUT: [3, *model.image_size]}:
        raise ValueError(f"{path} takes {inputs}; expected {INPUT} of 3 × {model.image_size} values")
    return metadata
