"""Annotations beside COCO's: Pascal VOC segmentation, YOLO segmentation and Label Studio's brush masks.

    voc/            JPEGImages, SegmentationObject, SegmentationClass, Annotations, ImageSets/Segmentation/all.txt
    yolo/           images, labels, data.yaml
    label-studio/   tasks.json, labels.xml, and a file for each task

All three hold the masks exactly. VOC and YOLO have no place for scores.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from jaxtyping import Bool, UInt8
from PIL import Image

from cocanet.data.annotations.polygons import one_outline
from cocanet.files import write_atomically, writing
from cocanet.predict.drawing import label_colours
from cocanet.predict.prediction import Segmentation
from cocanet.predict.segment_settings import AnnotationFormat

FOLDERS: dict[AnnotationFormat, str] = {"voc": "voc", "yolo": "yolo", "label-studio": "label-studio"}
MOST_VOC = 254
"""Objects in a VOC image: 255 is a border without label."""
NAME = "object"
_RUN_BITS = (3, 4, 8, 16)
"""Bits of the lengths of Label Studio's runs."""


def annotation_files(
    found: Segmentation, name: str, file_name: str, formats: Sequence[AnnotationFormat]
) -> dict[str, bytes]:
    """The files of an image in each of the formats, by their paths in the output folder."""
    contents: dict[str, bytes] = {}
    if "voc" in formats:
        contents |= _voc(found, name)
    if "yolo" in formats:
        contents |= _yolo(found, name)
    if "label-studio" in formats:
        contents[f"label-studio/tasks/{name}.json"] = json.dumps(_task(found, file_name)).encode()
    return contents


def finish_annotations(out: Path, formats: Sequence[AnnotationFormat], names: Iterable[str]) -> None:
    """Write the files about all images."""
    names = list(names)
    if "voc" in formats:
        _write(out / "voc" / "ImageSets" / "Segmentation" / "all.txt", ["".join(f"{name}\n" for name in names)])
    if "yolo" in formats:
        _write(out / "yolo" / "data.yaml", [f"train: images\nval: images\nnames:\n  0: {NAME}\n"])
    if "label-studio" in formats:
        folder = out / "label-studio"
        _write(folder / "tasks.json", _joined(folder / "tasks" / f"{name}.json" for name in names))
        _write(
            folder / "labels.xml",
            [
                '<View>\n  <Image name="image" value="$image"/>\n  <BrushLabels name="tag" toName="image">\n'
                f'    <Label value="{NAME}"/>\n  </BrushLabels>\n</View>\n'
            ],
        )


def encode_brush(mask: Bool[np.ndarray, "h w"]) -> list[int]:
    """Label Studio's run lengths of a mask: bytes of RGBA pixels, as bits.

    32 bits give the number of values, 5 the bits of a value less one, and 4 times 4 the bits of the four kinds of run
    lengths less one. A run is a 1, two bits for the kind of its length, the length less one, and the value.
    """
    values = np.repeat(mask.ravel(), 4).astype(np.uint8) * 255
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    bits = [f"{len(values):032b}", f"{7:05b}", *(f"{each - 1:04b}" for each in _RUN_BITS)]
    for start, length in zip(starts.tolist(), np.diff(starts, append=len(values)).tolist(), strict=True):
        while length:
            part = min(length, 1 << _RUN_BITS[-1])
            kind = next(number for number, each in enumerate(_RUN_BITS) if part <= 1 << each)
            bits.append(f"1{kind:02b}{part - 1:0{_RUN_BITS[kind]}b}{values[start]:08b}")
            length -= part
    text = "".join(bits)
    packed: UInt8[np.ndarray, " n"] = np.packbits(np.frombuffer(text.encode(), np.uint8) - ord("0"))
    return [int(each) for each in packed]


def _voc(found: Segmentation, name: str) -> dict[str, bytes]:
    if len(found.objects) > MOST_VOC:
        raise ValueError(f"{name}: {len(found.objects)} objects; VOC holds at most {MOST_VOC}, try a higher level")
    return {
        f"voc/JPEGImages/{name}.jpg": _jpeg(found.image),
        f"voc/SegmentationObject/{name}.png": _palette_png(found.labels),
        f"voc/SegmentationClass/{name}.png": _palette_png(np.minimum(found.labels, 1)),
        f"voc/Annotations/{name}.xml": _voc_xml(found, name),
    }


def _voc_xml(found: Segmentation, name: str) -> bytes:
    root, (height, width) = ElementTree.Element("annotation"), found.size
    ElementTree.SubElement(root, "filename").text = f"{name}.jpg"
    size = ElementTree.SubElement(root, "size")
    for key, value in (("width", width), ("height", height), ("depth", 3)):
        ElementTree.SubElement(size, key).text = str(value)
    ElementTree.SubElement(root, "segmented").text = "1"
    for segment in found.objects:
        element, box = ElementTree.SubElement(root, "object"), segment.box
        ElementTree.SubElement(element, "name").text = NAME
        corners = ElementTree.SubElement(element, "bndbox")
        # VOC counts pixels from 1, and its boxes include their last pixels.
        edges = box.left + 1, box.top + 1, box.left + box.width, box.top + box.height
        for key, value in zip(("xmin", "ymin", "xmax", "ymax"), edges, strict=True):
            ElementTree.SubElement(corners, key).text = str(value)
    ElementTree.indent(root)
    return ElementTree.tostring(root) + b"\n"


def _yolo(found: Segmentation, name: str) -> dict[str, bytes]:
    """A polygon for each object; parts and holes are joined by bridges that enclose nothing."""
    height, width = found.size
    lines = []
    for segment in found.objects:
        corners = one_outline(found.labels == segment.label) / (width, height)
        lines.append("0 " + " ".join(f"{value:.7g}" for value in corners.ravel()) + "\n")
    return {f"yolo/images/{name}.jpg": _jpeg(found.image), f"yolo/labels/{name}.txt": "".join(lines).encode()}


def _task(found: Segmentation, file_name: str) -> dict[str, Any]:
    height, width = found.size
    results = [
        {
            "id": f"object-{segment.label}",
            "type": "brushlabels",
            "from_name": "tag",
            "to_name": "image",
            "original_width": width,
            "original_height": height,
            "image_rotation": 0,
            "score": round(segment.score, 4),
            "value": {
                "format": "rle",
                "rle": encode_brush(found.labels == segment.label),
                "brushlabels": [NAME],
            },
        }
        for segment in found.objects
    ]
    return {
        "data": {"image": f"/data/local-files/?d={file_name}"},
        "predictions": [{"model_version": "cocanet", "result": results}],
    }


def _joined(files: Iterable[Path]) -> Iterator[str]:
    yield "[\n"
    for number, file in enumerate(files):
        yield (",\n" if number else "") + file.read_text()
    yield "\n]\n"


def _write(path: Path, pieces: Iterable[str]) -> None:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, (piece.encode() for piece in pieces))


def _jpeg(image: UInt8[np.ndarray, "h w 3"]) -> bytes:
    file = BytesIO()
    Image.fromarray(image).save(file, format="JPEG", quality=95, subsampling=0)
    return file.getvalue()


def _palette_png(labels: np.ndarray) -> bytes:
    file, picture = BytesIO(), Image.fromarray(labels.astype(np.uint8))
    picture.putpalette(label_colours(256).tobytes())
    picture.save(file, format="PNG")
    return file.getvalue()
