import io
import math
import time

import pytest
from rich.console import Console
from rich.text import Text

from cocanet.cli.display import LINE_EVERY, Progress, RunDisplay, small_number
from cocanet.config import RunConfig
from cocanet.presets import find
from cocanet.runs.folder import DataChoice, Settings
from cocanet.train.display import Display
from cocanet.words import duration

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
    with RunDisplay(1000, None, console, clock=clock) as display:
        for step in range(1, 101):
            clock.now += 1
            display.update(step, 0.5 / step, 160.0, float(step), step / 1000)
    lines = written(console).splitlines()
    assert [line.split()[1] for line in lines] == ["1/1000", "31/1000", "61/1000", "91/1000", "100/1000"]
    assert lines[1] == "step 31/1000 (3%), loss 0.0161, 160 images/s, 16:09 left"
    assert "\x1b" not in written(console)


def test_the_last_line_of_a_log_is_not_said_twice():
    console = log()
    with RunDisplay(10, None, console, clock=Clock()) as display:
        display.update(10, 0.1, 5.0, 3.0, 1.0)
    assert written(console).splitlines() == ["step 10/10 (100%), loss 0.1000, 5.0 images/s, 0:00 left"]


def test_a_run_without_a_step_says_nothing():
    console = log()
    with RunDisplay(10, None, console):
        pass
    assert written(console) == ""


def test_a_log_keeps_long_notes_and_odd_characters_in_one_line():
    console = log()
    text = "[bold]not markup[/] :smile: " + 40 * "word "
    with RunDisplay(None, 20.0, console) as display:
        display.note(text)
        display.warn("stripes")
    assert written(console).splitlines() == [text, "warning: stripes"]


def test_time_left_is_by_the_share_of_the_run_and_right_after_resuming():
    display = RunDisplay(1000, None, log())
    resumed = Progress(step=901, loss=0.1, images_per_second=1.0, seconds=9010.0, done=0.901)
    assert display.seconds_left(resumed) == pytest.approx(990)
    assert display.seconds_left(resumed._replace(done=1.01)) == 0
    beginning = Progress(step=0, loss=0.1, images_per_second=1.0, seconds=0.0, done=0.0)
    assert duration(display.seconds_left(beginning)) == "?"
    assert RunDisplay(None, 2.5, log()).seconds_left(beginning) == 150


def test_scores_are_one_line_each_and_explained_once():
    console = log()
    with RunDisplay(None, None, console) as display:
        display.validation(500_000, SCORES)
        display.validation(500_001, {"mse": 2.5e-5, "slots": 4.0})
        display.validation(500_002, SCORES)
    lines = written(console).splitlines()
    assert "decoder/encoder" in lines[0]
    assert lines[1] == "step 500000: ARI-FG 0.64/0.75, ARI -0.52/0.83, slots 3.9/3.5, MSE 0.0270"
    assert lines[2] == "step 500001: MSE 2.5e-05"
    assert lines[3] == lines[1].replace("500000", "500002")
    assert max(map(len, lines)) < 80


def test_photographs_are_told_by_overlaps_and_a_decoder_by_tokens_has_no_masks_to_score():
    overlaps = {"encoder_iou": 0.571, "decoder_iou": 0.15, "encoder_dice": 0.72, "decoder_dice": 0.26, "mse": 0.05}
    said = {}
    for name in ("birds-cpu", "bo-qsa-birds", "tetrominoes"):
        console = log()
        with RunDisplay(None, None, console) as display:
            display.begin(Settings(find(name), RunConfig(), DataChoice()))
            display.validation(7, SCORES | overlaps)
        said[name] = written(console).splitlines()
    assert said["birds-cpu"] == [
        "validation scores are those of encoder masks",
        "step 7: IoU 0.57, Dice 0.72, slots 3.5, MSE 0.0500",
    ]
    assert said["bo-qsa-birds"] == said["birds-cpu"]
    assert said["tetrominoes"][1] == "step 7: ARI-FG 0.64/0.75, ARI -0.52/0.83, slots 3.9/3.5, MSE 0.0500"


def test_a_training_that_nobody_watches_is_silent(capsys):
    with Display() as display:
        display.update(1, 0.1, 5.0, 3.0, 0.1)
        display.note("a")
        display.warn("b")
        display.validation(1, SCORES)
        with display.progress("c", 3) as done:
            done(2)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_has_a_bar_below_the_notes():
    console = terminal()
    with RunDisplay(1000, None, console) as display:
        for step in range(1, 501):
            display.update(step, 0.1234, 160.0, 60.0, step / 1000)
        display.warn("stripes")
        display.validation(500, SCORES)
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
        with RunDisplay(10, None, console) as display:
            display.update(1, 0.1, 5.0, 3.0, 0.1)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        broken_run()
    assert written(console).rindex("\x1b[?25h") > written(console).rindex("\x1b[?25l")


@pytest.mark.parametrize("width", [200, 80, 60, 40, 12])
@pytest.mark.parametrize("total", [500_000, None])
@pytest.mark.parametrize("begun", [True, False])
def test_the_bar_is_one_line_at_any_width(width, total, begun):
    console = log(width)
    display = RunDisplay(total, None, console)
    if begun:
        display._progress = Progress(499_999, 1234.5678, 12345.0, 500_000.0, 0.6)
    (pieces,) = console.render_lines(display._bar(), pad=False)
    line = "".join(piece.text for piece in pieces)
    assert len(line) <= width
    if begun and width >= 80:
        assert "━" in line
        assert line.rstrip().endswith("1234.5678  12345 images/s  92:35:33 left")


@pytest.mark.parametrize("make", [log, terminal])
def test_an_update_costs_next_to_nothing(make):
    with RunDisplay(10_000, None, make()) as display:
        display.update(0, 0.1, 5.0, 3.0, 0.1)
        best = min(_seconds(display) for _ in range(5))
    assert best < 50e-6
    assert LINE_EVERY > 1


def _seconds(display: RunDisplay) -> float:
    start = time.perf_counter()
    for step in range(1000):
        display.update(step, 0.1, 5.0, 3.0, 0.1)
    return (time.perf_counter() - start) / 1000


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.0, "0:00"), (59.6, "1:00"), (3599.4, "59:59"), (3600.0, "1:00:00"), (3.6e5, "100:00:00"), (math.inf, "?")],
)
def test_duration(seconds, expected):
    assert duration(seconds) == expected


def test_small_numbers_keep_two_digits():
    assert [small_number(value) for value in (1.5, 0.00123, 0.00012, 0.0)] == ["1.5000", "0.0012", "1.2e-04", "0.0000"]
    assert small_number(math.nan) == "nan"
