from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cocanet.data.store_format import FORMAT, META, ShardFactors, is_store, pack_factors

_KINDS = {
    "position": hnp.arrays(np.float32, st.tuples(st.integers(0, 4), st.just(2)), elements=st.floats(-9, 9, width=32)),
    "shape": st.lists(st.text("abcü", max_size=4), max_size=4).map(lambda words: np.array(words, dtype="U4")),
    "a/b": hnp.arrays(np.uint8, st.integers(0, 4)),
    "with space": hnp.arrays(np.bool_, st.integers(0, 4)),
}
_FACTORS = st.fixed_dictionaries({}, optional=_KINDS)


def test_a_store_is_recognised_by_its_format(tmp_path: Path) -> None:
    """Other programs have a file of this name, too."""
    own, foreign = f'{{"format": "{FORMAT}"}}', '{"format": "another"}'
    for content, expected in ((own, True), (foreign, False), ("[]", False), ("{", False)):
        (tmp_path / META).write_text(content)
        assert is_store(tmp_path) == expected
    assert not is_store(tmp_path / "nowhere")


@settings(max_examples=25)
@given(images=st.lists(_FACTORS, min_size=1, max_size=6))
def test_what_is_packed_comes_back(
    images: list[dict[str, np.ndarray]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("factors") / "factors.npz"
    path.write_bytes(pack_factors(images))
    found = ShardFactors(path, len(images))
    for i, factors in enumerate(images):
        assert set(found[i]) == set(factors)
        for name, values in factors.items():
            np.testing.assert_array_equal(found[i][name], values)


def test_equal_factors_make_equal_bytes() -> None:
    images = [
        {"a": np.arange(3), "b": np.array(["x", "y", "z"])},
        {"a": np.arange(0), "b": np.array([], dtype="U1")},
    ]
    assert pack_factors(images) == pack_factors([dict(reversed(image.items())) for image in images])


def test_objects_and_changing_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="'a' must hold numbers or fixed-width strings, not object"):
        pack_factors([{"a": np.array([{}, None], dtype=object)}])
    with pytest.raises(ValueError, match="'a' changes its shape"):
        pack_factors([{"a": np.zeros((1, 2))}, {"a": np.zeros((1, 3))}])


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    path = tmp_path / "factors.npz"
    np.savez(path, **{"values/a": np.array([{}], dtype=object), "counts/a": np.array([1])})
    with pytest.raises(ValueError, match="damaged"):
        ShardFactors(path, 1)


def test_counts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "factors.npz"
    path.write_bytes(pack_factors([{"a": np.arange(2)}]))
    with pytest.raises(ValueError, match="for 2 images"):
        ShardFactors(path, 2)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ValueError, match=r"factors.npz is damaged"):
        ShardFactors(path, 1)
