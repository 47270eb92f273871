"""A block of code ends when its time is over, whatever it catches."""

import itertools
import signal
import threading
from contextlib import suppress

import pytest

from sitta._util.deadline import Expired, deadline


def stubborn():
    """Never ends, and catches whatever an ordinary library would."""
    for n in itertools.count():
        with suppress(Exception):
            assert n >= 0


def more_stubborn():
    """Catches even what it should not."""
    with suppress(BaseException):
        stubborn()
    stubborn()


@pytest.mark.parametrize("block", [stubborn, more_stubborn])
def test_a_loop_without_an_end(block):
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(Expired), deadline(0.01):
        block()
    assert signal.getsignal(signal.SIGALRM) is before


def test_the_alarm_of_someone_else_is_given_back():
    before = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    calls = []
    try:
        signal.signal(signal.SIGALRM, lambda *_: calls.append(1))
        signal.setitimer(signal.ITIMER_REAL, 1000, 500)
        with deadline(2000):
            pass
        left, interval = signal.getitimer(signal.ITIMER_REAL)
        signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before[0])
        signal.setitimer(signal.ITIMER_REAL, *before[1])
    assert 0 < left <= 1000
    assert interval == 500
    assert calls == [1]


@pytest.mark.parametrize("seconds", [0, 0.0])
def test_no_limit(seconds):
    before = signal.getsignal(signal.SIGALRM)
    with deadline(seconds):
        assert signal.getsignal(signal.SIGALRM) is before


def test_other_threads_have_no_limit():
    done = []

    def work():
        with deadline(1e-9):
            done.append(sum(range(1000)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [499500]
