"""Whether a model is being traced for export, and loops that can be traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

State = tuple[Tensor, ...]


def exporting() -> bool:
    """Whether `torch.export` is tracing: the batch size is then symbolic and no value can be read."""
    # Torch says so since 2.7; `cocanet.export` asks for a later one.
    asked: Any = getattr(torch.compiler, "is_exporting", None)
    return bool(asked is not None and asked())


def repeat(step: Callable[[Tensor], Tensor], state: Tensor, times: int) -> Tensor:
    """Apply a step `times` times; traced, it is one loop of the graph."""
    if exporting() and times > 1:
        (done,) = _loop(lambda x: (torch.ones((), dtype=torch.bool), (step(x),)), (state,), times)
        return done
    for _ in range(times):
        state = step(state)
    return state


def while_changed(step: Callable[..., tuple[Tensor, State]], state: State, most: int) -> State:
    """Apply a step until it changes nothing, at most `most` times.

    A step takes the tensors of the state and returns whether it changed them, with tensors of the same shapes.
    """
    if exporting():
        return _loop(step, state, most)
    for _ in range(most):
        changed, state = step(*state)
        if not changed:
            break
    return state


def _loop(step: Callable[..., tuple[Tensor, State]], state: State, most: int) -> State:
    from torch._higher_order_ops.while_loop import while_loop

    def goes_on(count: Tensor, changed: Tensor, *_: Tensor) -> Tensor:
        return changed & (count < most)

    def body(count: Tensor, changed: Tensor, *state: Tensor) -> State:
        changed, after = step(*state)
        return (count + 1, changed, *(x.contiguous() for x in after))

    begun = torch.zeros((), dtype=torch.int64), torch.ones((), dtype=torch.bool)
    _, _, *done = while_loop(goes_on, body, (*begun, *(x.contiguous() for x in state)))
    return tuple(done)
