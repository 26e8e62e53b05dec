import subprocess
import sys

import pytest

from cocanet.runtime import spin_briefly

PROGRAM = "from cocanet.runtime import keep_freed_memory as keep; print(keep(), keep())"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the setting is glibc's")
@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, "True True"), ({"COCANET_KEEP_MEMORY": "0"}, "False False"), ({"MALLOC_ARENA_MAX": "2"}, "False False")],
)
def test_is_set_once_unless_the_user_says_otherwise(environment, expected):
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected


def test_threads_spin_briefly_unless_the_user_says_otherwise():
    plain, active, counted = {"HOME": "/"}, {"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "5"}
    for environment in (plain, active, counted):
        spin_briefly(environment)
    assert plain == {"HOME": "/", "OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "10000"}
    assert active == {"OMP_WAIT_POLICY": "ACTIVE"}
    assert counted == {"GOMP_SPINCOUNT": "5"}
