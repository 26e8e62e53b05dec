"""Lists of numbers in MATLAB 5 files, against SciPy."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from cocanet.data.readers.mat5 import read_mat5


def test_what_scipy_wrote(tmp_path: Path) -> None:
    for kind, compress in product(("u1", "i2", "u2", "i4", "f4", "f8", "i8", "u8"), (True, False)):
        lists = {
            "long": np.arange(300).reshape(3, 100).astype(kind),
            "tiny": np.array([[7]], dtype=kind),
            "empty": np.zeros((0, 4), dtype=kind),
            "words": "not a number",
        }
        scipy.io.savemat(tmp_path / "a.mat", lists, do_compression=compress)
        arrays = read_mat5((tmp_path / "a.mat").read_bytes())
        for name in ("long", "tiny", "empty"):
            np.testing.assert_array_equal(arrays[name], lists[name])


def test_real_setid(samples: Path) -> None:
    path = samples / "flowers" / "setid.mat"
    arrays, expected = read_mat5(path.read_bytes()), scipy.io.loadmat(str(path))
    for name, count in (("trnid", 1020), ("valid", 1020), ("tstid", 6149)):
        assert arrays[name].size == count
        np.testing.assert_array_equal(arrays[name], expected[name])


def test_other_files_are_refused() -> None:
    with pytest.raises(ValueError, match="not a MATLAB 5 file"):
        read_mat5(b"\x89HDF" + bytes(200))
