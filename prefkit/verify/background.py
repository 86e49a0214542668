"""Calls that wait for something outside (a model behind a network) beside the scheduler's own thread."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

_LAST_WAIT_S = 5.0


class Background:
    """Up to `threads` calls at once, in order. The threads are daemons, which concurrent.futures' are not: an interrupted program does not
    wait out the time limits of the requests that are under way.
    """

    def __init__(self, threads: int) -> None:
        self._most = threads
        self._threads: list[threading.Thread] = []
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None] = queue.SimpleQueue()

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """The future of a call; to be used from one thread."""
        future: Future[Any] = Future()
        self._calls.put((future, call, arguments))
        if len(self._threads) < self._most:
            thread = threading.Thread(target=self._work, name="prefkit-judge", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def close(self) -> None:
        """Begin no more calls, and wait a few seconds for those under way."""
        with contextlib.suppress(queue.Empty):
            while True:
                if (call := self._calls.get_nowait()) is not None:
                    call[0].cancel()
        for _ in self._threads:
            self._calls.put(None)
        until = time.monotonic() + _LAST_WAIT_S
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        self._threads.clear()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            future, function, arguments = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function(*arguments))
            except BaseException as error:
                future.set_exception(error)
