"""What a terminal and a log show of a training run and of other work."""

from __future__ import annotations

import io
import math
import time
from dataclasses import replace

import pytest
from rich.console import Console
from rich.text import Text

from cocanet.cli.progress import LINE_EVERY, ConsoleProgress, RunState, small_number
from cocanet.presets import find
from cocanet.progress import QUIET
from cocanet.words import duration, plural

SCORES = {
    "decoder_ari_fg": 0.64,
    "decoder_msc_fg": 0.5,
    "decoder_ari": -0.52,
    "encoder_ari_fg": 0.754,
    "encoder_ari": 0.83,
    "mse": 0.02704,
    "decoder_slots": 3.94,
    "encoder_slots": 3.5,
    "slots": 4.0,
}
TETROMINOES = find("tetrominoes")
PRESET = replace(TETROMINOES, train=replace(TETROMINOES.train, steps=1000))


def log(width: int = 80) -> Console:
    return Console(file=io.StringIO(), force_terminal=False, width=width)


def terminal(width: int = 80) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, force_interactive=True, width=width, _environ={})


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_log_has_a_line_every_thirty_seconds_and_the_last_one():
    console, clock = log(), Clock()
    progress = ConsoleProgress(console, clock)
    with progress.training(PRESET, None):
        for step in range(1, 101):
            clock.now += 1
            progress.update(step, 0.5 / step, 160.0, float(step), step / 1000)
    lines = written(console).splitlines()
    assert [line.split()[1] for line in lines] == ["1/1000", "31/1000", "61/1000", "91/1000", "100/1000"]
    assert lines[1] == "step 31/1000 (3%), loss 0.0161, 160 images/s, 16:09 left"
    assert "\x1b" not in written(console)


def test_the_last_line_of_a_log_is_printed_once_and_none_before_the_first_step():
    console = log()
    progress = ConsoleProgress(console, Clock())
    with progress.training(PRESET, None):
        pass
    with progress.training(PRESET, 1.0):
        progress.update(10, 0.1, 5.0, 3.0, 1.0)
    assert written(console).splitlines() == ["step 10 (100%), loss 0.1000, 5.0 images/s, 0:00 left"]


def test_a_log_keeps_long_messages_and_odd_characters_in_one_line():
    console = log()
    text = "[bold]not markup[/] :smile: " + 40 * "word "
    ConsoleProgress(console).say(text)
    ConsoleProgress(console).warn("stripes")
    assert written(console).splitlines() == [text, "warning: stripes"]


def test_bars_are_lines_in_a_log():
    console, clock = log(), Clock()
    with ConsoleProgress(console, clock).bar("writing", 2000) as done:
        for completed in (1, 1500, 1600, 2000):
            clock.now += LINE_EVERY / 2
            done(completed)
    assert written(console).splitlines() == ["writing: 1,500 of 2,000", "writing: 2,000 of 2,000"]


def test_time_left_is_by_the_share_of_the_run_and_right_after_resuming():
    progress = ConsoleProgress(log())
    resumed = RunState(step=901, loss=0.1, images_per_second=1.0, seconds=9010.0, done=0.901)
    assert progress.seconds_left(resumed) == pytest.approx(990)
    assert progress.seconds_left(resumed._replace(done=1.01)) == 0
    beginning = resumed._replace(step=0, seconds=0.0, done=0.0)
    assert duration(progress.seconds_left(beginning)) == "?"
    with progress.training(PRESET, 2.5):
        assert progress.seconds_left(beginning) == 150


def test_scores_are_one_line_each_and_explained_once():
    console = log()
    progress = ConsoleProgress(console)
    progress.validation(500_000, SCORES)
    progress.validation(500_001, {"mse": 2.5e-5, "slots": 4.0})
    progress.validation(500_002, SCORES)
    lines = written(console).splitlines()
    assert "decoder/encoder" in lines[0]
    assert lines[1] == "step 500000: ARI-FG 0.64/0.75, ARI -0.52/0.83, slots 3.9/3.5, MSE 0.0270"
    assert lines[2] == "step 500001: MSE 2.5e-05"
    assert lines[3] == lines[1].replace("500000", "500002")


def test_photographs_are_scored_by_overlap_and_the_masks_of_a_token_decoder_are_not_scored():
    overlaps = {"encoder_iou": 0.571, "decoder_iou": 0.15, "encoder_dice": 0.72, "decoder_dice": 0.26, "mse": 0.05}
    console = log()
    progress = ConsoleProgress(console)
    for name in ("birds", "bo-qsa-birds", "tetrominoes"):
        with progress.training(find(name), None):
            progress.validation(7, SCORES | overlaps)
    photographs = [
        "validation scores are those of encoder masks",
        "step 7: IoU 0.57, Dice 0.72, slots 3.5, MSE 0.0500",
    ]
    scenes = "step 7: ARI-FG 0.64/0.75, ARI -0.52/0.83, slots 3.9/3.5, MSE 0.0500"
    lines = written(console).splitlines()
    assert lines[:4] == 2 * photographs
    assert lines[-1] == scenes


def test_by_default_nothing_is_shown(capsys):
    with QUIET.training(PRESET, None), QUIET.bar("c", 3) as done:
        QUIET.update(1, 0.1, 5.0, 3.0, 0.1)
        QUIET.say("a")
        QUIET.warn("b")
        QUIET.validation(1, SCORES)
        done(2)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_has_a_bar_below_the_messages():
    console = terminal()
    progress = ConsoleProgress(console)
    with progress.training(PRESET, None):
        for step in range(1, 501):
            progress.update(step, 0.1234, 160.0, 60.0, step / 1000)
        progress.warn("stripes")
        progress.validation(500, SCORES)
    plain = Text.from_ansi(written(console).replace("\r", "")).plain
    assert "━" in plain
    assert "\x1b[33mwarning: stripes" in written(console)
    last = plain.strip().splitlines()[-1]
    for part in ("step 500/1000", "loss 0.1234", "160 images/s", "1:00 left"):
        assert part in last
    assert plain.index("MSE 0.0270") < plain.rindex("step 500/1000")


def test_an_error_leaves_the_terminal_as_it_was():
    console = terminal()

    def broken_run() -> None:
        progress = ConsoleProgress(console)
        with progress.training(PRESET, None):
            progress.update(1, 0.1, 5.0, 3.0, 0.1)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        broken_run()
    assert written(console).rindex("\x1b[?25h") > written(console).rindex("\x1b[?25l")


def test_the_bar_is_one_line_at_any_width():
    for width in (200, 80, 60, 40, 12):
        for minutes in (None, 2.0):
            console = log(width)
            progress = ConsoleProgress(console)
            with progress.training(TETROMINOES, minutes):
                for state in (None, RunState(499_999, 1234.5678, 12345.0, 500_000.0, 0.6)):
                    progress._state = progress._shown = state
                    (pieces,) = console.render_lines(progress._run_bar(), pad=False)
                    line = "".join(piece.text for piece in pieces)
                    assert len(line) <= width
                    if state and width >= 80:
                        assert "━" in line
                        assert line.rstrip().endswith("1234.5678  12345 images/s  92:35:33 left")


@pytest.mark.parametrize("make", [log, terminal])
def test_an_update_costs_next_to_nothing(make):
    def seconds() -> float:
        start = time.perf_counter()
        for step in range(1000):
            progress.update(step, 0.1, 5.0, 3.0, 0.1)
        return (time.perf_counter() - start) / 1000

    progress = ConsoleProgress(make())
    with progress.training(PRESET, None):
        progress.update(0, 0.1, 5.0, 3.0, 0.1)
        assert min(seconds() for _ in range(5)) < 50e-6


def test_numbers_and_times_in_words():
    assert [small_number(value) for value in (1.5, 0.00123, 0.00012, 0.0)] == ["1.5000", "0.0012", "1.2e-04", "0.0000"]
    assert small_number(math.nan) == "nan"
    times = {0.0: "0:00", 59.6: "1:00", 3599.4: "59:59", 3600.0: "1:00:00", 3.6e5: "100:00:00", math.inf: "?"}
    assert {seconds: duration(seconds) for seconds in times} == times
    assert [plural(count, "step") for count in (1, 0, 2000, 1.0, 1.5)] == [
        *("1 step", "0 steps", "2,000 steps", "1 step", "1.5 steps"),
    ]
