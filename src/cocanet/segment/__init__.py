"""Segment anyone's images: files, pictures, arrays or tensors of any size, with masks in their own pixels."""
