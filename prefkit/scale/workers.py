"""The pool of model processes. The main process never imports torch: it hands out batches and listens.

Two processes of one thread each do about twice the work of one process with two threads on two cores, and do not collapse when something
else runs beside them (`benchmarks/processes.py`). Sampling hands out batches one by one; training runs in all processes at once, as
data-parallel ranks over gloo (NCCL on GPUs).
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from prefkit import errors
from prefkit.errors import PrefkitError, RunError

MAX_PROCESSES = 4


def plan_processes(processes: int | None = None) -> tuple[int, int]:
    """(processes, threads each): one a GPU where there are any, else one a core up to four; the cores are shared out as threads."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    if processes is None:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        gpus = (
            len([part for part in visible.split(",") if part.strip()])
            if visible is not None
            else len(list(Path("/dev").glob("nvidia[0-9]*")))
        )
        processes = gpus or min(cores, MAX_PROCESSES)
    return processes, max(1, cores // processes)


class Workers:
    """Model processes, started on first use and ended by `close` (or with the main process, however that ends)."""

    def __init__(self, log: Path, processes: int | None = None):
        self.processes, self.threads = plan_processes(processes)
        self.log = log
        self._running: list[subprocess.Popen] = []
        self._events: queue.Queue[tuple[int, dict | None]] = queue.Queue()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_exception) -> None:
        self.close()

    def close(self) -> None:
        """End every process at once; nothing of theirs is lost, since what matters was written before."""
        for process in self._running:
            process.kill()
        for process in self._running:
            process.wait()
            with contextlib.suppress(BrokenPipeError):
                assert process.stdin is not None  # `_start` opened it
                process.stdin.close()
        self._running = []
        self._events = queue.Queue()

    def map(self, job: str, batches: Iterable[dict]) -> Iterator[tuple[int, Any]]:
        """Run `job` once for each batch of arguments, on whichever process is free; yields (batch number, result) as they are done."""
        self._start()
        waiting = iter(enumerate(batches))
        busy: dict[int, int] = {}

        def hand_out(rank: int) -> None:
            for number, arguments in waiting:
                busy[rank] = number
                self._send(rank, {"job": job, "arguments": arguments})
                return

        for rank in range(self.processes):
            hand_out(rank)
        while busy:
            rank, event = self._next()
            if "done" in event:
                number = busy.pop(rank)
                hand_out(rank)
                yield number, event["done"]

    def run_all(self, job: str, arguments: dict, report: Callable[[dict], None]) -> Any:
        """Run `job` in all processes together, as ranks of one training; events of rank 0 go to `report`; returns rank 0's result."""
        self._start()
        for rank in range(self.processes):
            self._send(rank, {"job": job, "arguments": arguments, "reports": True})
        results: dict[int, Any] = {}
        while len(results) < self.processes:
            rank, event = self._next()
            if "done" in event:
                results[rank] = event["done"]
            elif rank == 0:
                report(event)
        return results[0]

    def _start(self) -> None:
        if self._running:
            return
        self.log.mkdir(parents=True, exist_ok=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        for rank in range(self.processes):
            with (self.log / f"worker-{rank}.log").open("ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "prefkit.scale.worker"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=self._environment(rank, port),
                    start_new_session=True,
                )
            self._running.append(process)
            threading.Thread(target=self._listen, args=(rank, process, self._events), daemon=True).start()

    def _environment(self, rank: int, port: int) -> dict[str, str]:
        environment = dict(os.environ)
        environment.update(
            PREFKIT_PARENT=str(os.getpid()),
            OMP_NUM_THREADS=str(self.threads),
            TOKENIZERS_PARALLELISM="false",
            HF_DATASETS_DISABLE_PROGRESS_BARS="1",
            TQDM_DISABLE="1",
            PYTHONUNBUFFERED="1",
            # Blocks that training frees are kept for the next step, not given back and asked for again page by page; only the largest go
            # back at once. What fragments the heap returns every few steps (`callbacks.MemoryCallback`) and at a job's end. One heap: the
            # threads of one process hardly allocate at once.
            MALLOC_MMAP_THRESHOLD_=str(32 << 20),
            MALLOC_TRIM_THRESHOLD_=str(512 << 20),
            MALLOC_ARENA_MAX="1",
            # Code that oneDNN and PyTorch make for each shape of a product. A training meets new shapes in each step and would keep 1,024
            # of them, half a gigabyte; layers of one step use the same few dozen (measured: same time, 300 MB less after seven steps).
            ONEDNN_PRIMITIVE_CACHE_CAPACITY="128",
            LRU_CACHE_CAPACITY="128",
        )
        if self.processes > 1:
            environment.update(
                RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(self.processes), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
            )
            environment.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
        return environment

    @staticmethod
    def _listen(rank: int, process: subprocess.Popen, events: queue.Queue) -> None:
        assert process.stdout is not None  # `_start` opened it
        with process.stdout:
            for line in process.stdout:
                events.put((rank, json.loads(line)))
        events.put((rank, None))

    def _send(self, rank: int, job: dict) -> None:
        pipe = self._running[rank].stdin
        assert pipe is not None  # `_start` opened it
        try:
            pipe.write((json.dumps(job) + "\n").encode())
            pipe.flush()
        except BrokenPipeError:
            pass  # the listener reports the end of the process

    def _next(self) -> tuple[int, dict]:
        rank, event = self._events.get()
        if event is None:
            code = self._running[rank].wait()
            self.close()
            cause = "was killed, most likely for want of memory" if code == -9 else f"ended with code {code}"
            raise RunError(
                f"model process {rank} {cause}; its log is {self.log / f'worker-{rank}.log'}. "
                "Run the same command with --resume to continue"
            )
        if "error" in event:
            self.close()
            known = getattr(errors, event["kind"], None)
            if isinstance(known, type) and issubclass(known, PrefkitError):
                raise known(event["error"])
            (self.log / "failure.txt").write_text(event["traceback"])
            raise RunError(f"{event['kind']}: {event['error']} (the whole trace is in {self.log / 'failure.txt'})")
        return rank, event
