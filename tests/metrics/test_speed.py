import pytest
from benchmarks.metrics import MetricsBenchmark, measure


def test_the_benchmark_compares_equal_scores():
    result = measure(MetricsBenchmark(images=20, side=16, loop_images=10, repeats=1))
    assert result.difference < 1e-12


@pytest.mark.slow
def test_a_test_split_is_scored_in_three_seconds_and_twenty_times_faster_than_a_loop():
    result = measure(MetricsBenchmark(repeats=2))
    assert result.ours < 3
    assert result.loop > 20 * result.ours
