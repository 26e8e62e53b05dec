from benchmarks.metrics import MetricsBenchmark, measure


def test_scores_equal_those_of_a_loop_and_take_a_fraction_of_its_time():
    result = measure(MetricsBenchmark(images=200, loop_images=10, repeats=2))
    assert result.difference < 1e-12
    assert result.loop > 10 * result.ours
