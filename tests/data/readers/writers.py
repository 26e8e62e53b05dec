"""Writers of the published formats from their description alone: no code of the readers is used here."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import h5py
import numpy as np
import scipy.io
from PIL import Image

Features = Mapping[str, np.ndarray]


def bitwise_crc32c(data: bytes) -> int:
    """The definition: one bit at a time."""
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


_TABLE = []
for _value in range(256):
    for _ in range(8):
        _value = (_value >> 1) ^ (0x82F63B78 if _value & 1 else 0)
    _TABLE.append(_value)


def masked_crc(data: bytes) -> bytes:
    register = 0xFFFFFFFF
    for byte in data:
        register = _TABLE[(register ^ byte) & 255] ^ (register >> 8)
    register ^= 0xFFFFFFFF
    return struct.pack("<I", (((register >> 15) | (register << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def text(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def example(features: Features, *, packed: bool = True) -> bytes:
    """uint8 arrays become lists of one-byte strings, float arrays lists of floats."""
    entries = b""
    for name, values in features.items():
        flat = np.asarray(values).ravel()
        if flat.dtype == np.uint8:
            strings = np.stack([np.full_like(flat, 1 << 3 | 2), np.ones_like(flat), flat], axis=1)
            value = text(1, strings.tobytes())
        elif packed:
            value = text(2, text(1, flat.astype("<f4").tobytes()))
        else:
            value = text(2, b"".join(varint(1 << 3 | 5) + struct.pack("<f", number) for number in flat))
        entries += text(1, text(1, name.encode()) + text(2, value))
    return text(1, entries)


def frame(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + masked_crc(length) + payload + masked_crc(payload)


def write_tfrecords(path: Path, payloads: Sequence[bytes], *, compress: bool = True) -> Path:
    data = b"".join(frame(payload) for payload in payloads)
    path.write_bytes(gzip.compress(data, 6, mtime=0) if compress else data)
    return path


def blocks(generator: np.random.Generator, height: int, width: int, entities: int) -> np.ndarray:
    """A label map of rectangles, every label present."""
    labels = np.zeros((height, width), dtype=np.uint8)
    for label in range(1, entities):
        top, left = generator.integers(0, height - 6), generator.integers(0, width - 6)
        high, wide = generator.integers(4, max(5, height // 3)), generator.integers(4, max(5, width // 3))
        labels[top : top + high, left : left + wide] = label
    labels[: entities - 1, width // 2] = np.arange(1, entities)
    return labels


def picture(generator: np.random.Generator, labels: np.ndarray) -> np.ndarray:
    """A colour for each label, with a little noise."""
    colours = generator.integers(0, 246, (256, 3))
    return (colours[labels] + generator.integers(0, 10, (*labels.shape, 3))).astype(np.uint8)


def planes(labels: np.ndarray, entities: int, *, last: bool = False) -> np.ndarray:
    """Masks of 0 and 255, one plane an entity, with the trailing axis of one that the files have."""
    stack = np.stack([(labels == entity) * 255 for entity in range(entities)]).astype(np.uint8)
    return np.moveaxis(stack, 0, 2)[..., None] if last else stack[..., None]


def write_ocl(path: Path, image: np.ndarray, mask: np.ndarray, entities: int, **options: object) -> Path:
    """The object-centric library's arrays; a pickle lies beside them, as published."""
    count = len(image)
    visible = np.zeros((count, entities, 1), dtype=np.float32)
    for row in range(count):
        visible[row, np.unique(mask[row])] = 1
    objects = visible.sum(axis=1) - 1
    factors = np.arange(count * entities, dtype=np.float32).reshape(count, entities)
    with h5py.File(path, "w") as file:
        file.create_dataset("image", data=image, **options)
        file.create_dataset("mask", data=mask[..., None], **options)
        file.create_dataset("num_actual_objects", data=objects.astype(np.uint8))
        file.create_dataset("visibility", data=visible)
        file.create_dataset("x", data=factors)
    return path


def save_palette(path: Path, labels: np.ndarray) -> None:
    indexed = Image.frombytes("P", labels.shape[::-1], labels.tobytes())
    indexed.putpalette([(37 * value) % 256 for value in range(768)])
    indexed.save(path)


def write_clevrtex(root: Path, images: Sequence[np.ndarray], masks: Sequence[np.ndarray]) -> Path:
    folder = root / "clevrtex_full"
    for number, (image, mask) in enumerate(zip(images, masks, strict=True)):
        stem = folder / str(number // 1000) / f"CLEVRTEX_full_{number:06d}"
        stem.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(f"{stem}.png")
        save_palette(Path(f"{stem}_flat.png"), mask)
        Path(f"{stem}.json").write_text("{}")
    return folder


def write_shapestacks(
    root: Path, scenarios: Mapping[str, Sequence[np.ndarray]], masks: Mapping[str, Sequence[np.ndarray]]
) -> Path:
    """Cameras count from 1; the instance maps are PNG files named .map, label × 32 in every channel."""
    for scenario, images in scenarios.items():
        folder = root / "recordings" / f"env_{scenario}"
        folder.mkdir(parents=True)
        for camera, (image, mask) in enumerate(zip(images, masks[scenario], strict=True), start=1):
            Image.fromarray(image).save(folder / f"rgb-w=3-f=2-l=1-c=unique-cam_{camera}-mono-0.png")
            stored = np.repeat((mask * 32)[..., None], 3, axis=2).astype(np.uint8)
            name = f"iseg-w=0-f=0-l=0-c=original-cam_{camera}-mono-0.map"
            Image.fromarray(stored).save(folder / name, format="PNG")
    names = list(scenarios)
    for split in ("default", "blocks_all", "ccs_all"):
        folder = root / "splits" / split
        folder.mkdir(parents=True)
        for part, chosen in zip(("train", "eval", "test"), (names[:1], names[1:2], names[2:]), strict=True):
            (folder / f"{part}.txt").write_text("".join(f"env_{name}\n" for name in chosen))
    return root


def write_birds(
    root: Path,
    images: Sequence[np.ndarray],
    masks: Sequence[np.ndarray | None],
    boxes: Sequence[tuple[float, float, float, float]],
    parts: Sequence[int],
    suffix: str = "png",
) -> Path:
    """CUB's folders. The images are stored without loss under the published name unless `suffix` says jpg."""
    lists: dict[str, list[str]] = {"images": [], "bounding_boxes": [], "train_val_test_split": []}
    for number, (image, mask, box, part) in enumerate(zip(images, masks, boxes, parts, strict=True), start=1):
        name = f"{number:03d}.Some_bird/Some_Bird_{number:04d}"
        for folder in ("images", "segmentations"):
            (root / folder / name).parent.mkdir(parents=True, exist_ok=True)
        kind = "PNG" if suffix == "png" else "JPEG"
        Image.fromarray(image).save(root / "images" / f"{name}.jpg", format=kind)
        if mask is not None:
            Image.fromarray(mask).save(root / "segmentations" / f"{name}.png")
        lists["images"].append(f"{number} {name}.jpg\n")
        lists["bounding_boxes"].append(f"{number} {' '.join(str(value) for value in box)}\n")
        lists["train_val_test_split"].append(f"{number} {part}\n")
    for name, lines in lists.items():
        (root / f"{name}.txt").write_text("".join(lines))
    return root


def write_flowers(root: Path, images: Mapping[int, np.ndarray], masks: Mapping[int, np.ndarray]) -> Path:
    """Images and segmentations without loss under the published names; splits by number modulo 3."""
    (root / "jpg").mkdir(parents=True)
    for number, image in images.items():
        Image.fromarray(image).save(root / "jpg" / f"image_{number:05d}.jpg", format="PNG")
    if masks:
        (root / "segmim").mkdir()
    for number, mask in masks.items():
        segmentation = images[number].clip(1, 253)
        segmentation[mask == 0] = (0, 0, 254)
        Image.fromarray(segmentation).save(root / "segmim" / f"segmim_{number:05d}.jpg", format="PNG")
    groups = [[number for number in images if number % 3 == remainder] for remainder in range(3)]
    names = ("trnid", "tstid", "valid")
    lists = {name: np.array([group], dtype=np.uint16) for name, group in zip(names, groups, strict=True)}
    scipy.io.savemat(root / "setid.mat", lists)
    return root


def reference_bilinear(image: np.ndarray, size: int) -> np.ndarray:
    """Triangle filter as wide as the shrinking asks for, one axis after the other with 8 bits between."""

    def along_first(values: np.ndarray) -> np.ndarray:
        scale = len(values) / size
        support = max(scale, 1.0)
        rows = []
        for index in range(size):
            centre = (index + 0.5) * scale
            taps = np.arange(max(0, int(centre - support)), min(len(values), int(centre + support) + 1))
            weights = np.maximum(0, 1 - np.abs(taps + 0.5 - centre) / support)
            rows.append(np.tensordot(weights / weights.sum(), values[taps].astype(np.float64), axes=1))
        return np.rint(np.stack(rows)).astype(np.uint8)

    across = along_first(image.swapaxes(0, 1)).swapaxes(0, 1)
    return along_first(across)


def reference_nearest(labels: np.ndarray, size: int) -> np.ndarray:
    rows = ((np.arange(size) + 0.5) * labels.shape[0] / size).astype(int)
    columns = ((np.arange(size) + 0.5) * labels.shape[1] / size).astype(int)
    return labels[np.ix_(rows, columns)]
