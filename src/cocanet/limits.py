"""What a file may ask for before it is refused: one limit each for all commands, the page and workers."""

from __future__ import annotations

MAX_PIXELS = 2**26
"""Of an image: 67 million, more than cameras have."""
MAX_SIDE = 2**16 - 1
"""Of an image, in pixels: what a JPEG can have."""
MAX_DECODED_BYTES = 2**29
"""Of an image or a value once it is decoded."""
MAX_FILE_BYTES = 2**29
"""Of a file that is read whole; no published one comes near it."""
MAX_UPLOAD_BYTES = 2**26
"""Of an image that is dropped on the page."""


def check_image_size(width: int, height: int, pixel_bytes: int = 4) -> None:
    """Refuse an image that is too large; called before it is decoded."""
    if width * height > MAX_PIXELS:
        raise ValueError(f"{width}×{height} pixels; expected at most {MAX_PIXELS:,}")
    if max(width, height) > MAX_SIDE:
        raise ValueError(f"{width}×{height} pixels; expected at most {MAX_SIDE:,} along a side")
    if width * height * pixel_bytes > MAX_DECODED_BYTES:
        size = width * height * pixel_bytes
        raise ValueError(f"{width}×{height} pixels take {size:,} bytes; expected at most {MAX_DECODED_BYTES:,}")
