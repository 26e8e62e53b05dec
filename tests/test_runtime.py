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


WORKERS = """
import multiprocessing, signal
from cocanet.runtime import without_interrupts

def tell(send):
    send.send(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    for _ in range(2):
        receive, send = context.Pipe(duplex=False)
        with without_interrupts():
            context.Process(target=tell, args=(send,)).start()
        print(receive.recv(), signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""


def test_no_worker_hears_ctrl_c_not_even_the_first(tmp_path):
    (tmp_path / "workers.py").write_text(WORKERS)
    done = subprocess.run([sys.executable, tmp_path / "workers.py"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"] * 2
