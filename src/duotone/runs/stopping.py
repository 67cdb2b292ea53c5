"""Ctrl-C as a request: the first one lets a run finish its round."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _StopRequest:
    """A signal handler: the first signal is a request, a second one stops at once."""

    def __init__(self) -> None:
        self.is_made = False
        self.outer: list[_StopRequest] = []

    def __call__(self, number: int, frame: object) -> None:
        if self.is_made:
            raise KeyboardInterrupt
        for request in (self, *self.outer):
            request.is_made = True


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into a request; a second one stops at once.

    May be nested: a request within a run also reaches the study around it. Outside the main thread
    Python delivers no signals, and nothing changes.
    """
    request = _StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield lambda: request.is_made
        return
    handled = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, request) for number in handled]
    if isinstance(before[0], _StopRequest):
        request.outer = [before[0], *before[0].outer]
    try:
        yield lambda: request.is_made
    finally:
        for number, handler in zip(handled, before, strict=True):
            signal.signal(number, handler)
