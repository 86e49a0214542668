"""One model process: reads jobs as JSON lines, runs them, writes events as JSON lines. Started by `prefkit.scale.workers`.

Events: {"progress": n, …figures}, {"done": result}, {"error": message, "kind": class, "traceback": text}. Whatever libraries print goes to
the log (standard error), never into the protocol.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
import threading
import traceback

from prefkit.memory import return_memory

JOBS = {
    "answer": "prefkit.models.rollout_job:answer",
    "tokenize": "prefkit.models.rollout_job:tokenize",
    "likelihoods": "prefkit.models.likelihood:likelihoods",
    "facts": "prefkit.models.likelihood:facts",
    "footprint": "prefkit.models.likelihood:footprint",
    "warm_start": "prefkit.train.warm_start:run",
    "calibrate": "prefkit.train.calibrate:run",
    "merge": "prefkit.models.export_job:merge",
}


def _leave_out(job: dict) -> None:
    """Spare this process the imports of libraries that its jobs cannot use: TRL and PEFT import what is installed, which takes a third of
    the time until the first answer. The main process keeps the tracker, and only quantised models need bitsandbytes."""
    model = job["arguments"].get("model") or {}
    for name in ("wandb", *(["bitsandbytes"] if model.get("quantization") == "none" else [])):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # Python's own sign for "not to be imported"


def _die_with_parent() -> None:
    """On Linux the kernel kills this process when its parent dies; elsewhere the end of standard input does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        # It may have died before that call. Its number is told, because in a container the parent itself can be process 1.
        if os.getppid() != int(os.environ.get("PREFKIT_PARENT", os.getppid())):
            os._exit(1)


def main() -> None:
    _die_with_parent()
    protocol = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    lock = threading.Lock()

    def emit(event: dict) -> None:
        with lock:
            protocol.write(json.dumps(event) + "\n")
            protocol.flush()

    lines: list[str] = []
    arrived = threading.Condition()

    def read() -> None:
        for line in sys.stdin:
            with arrived:
                lines.append(line)
                arrived.notify()
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        with arrived:
            while not lines:
                arrived.wait()
            job = json.loads(lines.pop(0))
        try:
            _leave_out(job)
            module, function = JOBS[job["job"]].split(":")
            arguments = dict(job["arguments"])
            if job.get("reports"):
                arguments["report"] = emit
            result = getattr(importlib.import_module(module), function)(**arguments)
            return_memory()  # so that a stage's peak does not add to the next one's
            emit({"done": result})
        except Exception as error:  # the main process decides what a failure means
            emit({"error": str(error), "kind": type(error).__name__, "traceback": traceback.format_exc()})


if __name__ == "__main__":
    main()
