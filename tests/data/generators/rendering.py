"""What the tests of the rendered scenes share."""

from __future__ import annotations

import pytest

from cocanet.data.generators.gl import RendererUnavailableError, make_context


def _missing() -> str | None:
    try:
        make_context()
    except RendererUnavailableError as error:
        return str(error)
    return None


_REASON = _missing()
needs_renderer = pytest.mark.skipif(_REASON is not None, reason=_REASON or "")
