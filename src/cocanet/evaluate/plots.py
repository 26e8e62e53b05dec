"""Curves of validation scores, against minutes and against images seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from cocanet.evaluate.runs import Group, ScoredRun
from cocanet.evaluate.tables import is_single
from cocanet.explain.figures import PALETTE
from cocanet.metrics.table import title
from cocanet.words import plural

PLOTTED = ("decoder_ari_fg", "encoder_ari_fg", "decoder_msc_fg", "mse")
PLOTTED_SINGLE = ("encoder_iou", "encoder_dice", "encoder_iou_both", "mse")
"""For images of one object each."""
CLOCKS = {"seconds": "minutes of training", "images": "images seen"}


class Curve(NamedTuple):
    """A score over minutes or images."""

    at: Float[np.ndarray, " n"]
    scores: Float[np.ndarray, " n"]


def plot_curves(
    groups: Sequence[Group],
    *,
    names: Sequence[str] | None = None,
    clocks: Mapping[str, str] = CLOCKS,
    labels: Sequence[str] | None = None,
) -> Figure:
    """A row of plots for each clock; a colour for each group, a thin line for each seed, a thick one for their mean."""
    names = names or (PLOTTED_SINGLE if is_single(groups) else PLOTTED)
    figure = Figure(figsize=(2.75 * len(names), 2.4 * len(clocks) + 0.8), layout="constrained")
    axes = figure.subplots(len(clocks), len(names), squeeze=False)
    for row, (clock, label) in enumerate(clocks.items()):
        for axis, name in zip(axes[row], names, strict=True):
            for number, group in enumerate(groups):
                _plot_group(axis, group, name, clock, tuple(PALETTE[number % len(PALETTE)]))
            _style_axis(axis, name, label, row)
    labels = labels or [f"{group.title} on {group.data_name}, {_seeds(group)}" for group in groups]
    lines = {label: number for number, label in enumerate(labels)}
    handles = [axes[0][0].plot([], [], color=PALETTE[number % len(PALETTE)], lw=2)[0] for number in lines.values()]
    figure.legend(handles, list(lines), loc="outside lower center", frameon=False, fontsize=9, ncols=min(3, len(lines)))
    return figure


def curve_of(run: ScoredRun, name: str, clock: str) -> Curve:
    """A score at each validation that has it."""
    points = [(line[clock], line["scores"].get(name)) for line in run.curve]
    known = np.array([(at, score) for at, score in points if score is not None], dtype=float).reshape(-1, 2)
    return Curve(known[:, 0] / (60 if clock == "seconds" else 1), known[:, 1])


def mean_curve(curves: Sequence[Curve]) -> Curve:
    """The mean where all curves are defined, by linear interpolation."""
    start, stop = max(at[0] for at, _ in curves), min(at[-1] for at, _ in curves)
    places = np.unique(np.concatenate([at[(at >= start) & (at <= stop)] for at, _ in curves]))
    return Curve(places, np.mean([np.interp(places, at, scores) for at, scores in curves], axis=0))


def _plot_group(axis: Axes, group: Group, name: str, clock: str, colour: tuple[float, ...]) -> None:
    curves = [curve for curve in (curve_of(run, name, clock) for run in group.runs) if len(curve.at)]
    for at, scores in curves:
        axis.plot(at, scores, color=colour, lw=0.8, alpha=0.55, marker="." if len(at) == 1 else None)
    if curves:
        at, scores = mean_curve(curves)
        axis.plot(at, scores, color=colour, lw=2.2)


def _style_axis(axis: Axes, name: str, label: str, row: int) -> None:
    axis.set_xlabel(label, fontsize=9)
    if row == 0:
        axis.set_title(title(name), fontsize=10)
    if name == "mse" and axis.lines:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.yaxis.set_minor_formatter(NullFormatter())
    axis.xaxis.set_major_locator(MaxNLocator(4))
    axis.xaxis.set_major_formatter(lambda value, _: _shorten(value))
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.25, lw=0.6)
    axis.spines[["top", "right"]].set_visible(False)


def _shorten(value: float) -> str:
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _seeds(group: Group) -> str:
    return plural(len(group.runs), "seed")
