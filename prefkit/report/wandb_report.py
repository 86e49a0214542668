"""Weights & Biases as a mirror of metrics.jsonl: one W&B run for each stage in one group, offline unless a key and a server are there.

It never asks for a key, never waits long for a network, and no failure of it ends a run: metrics.jsonl remains the record.
"""

from __future__ import annotations

import contextlib
import netrc
import os
import urllib.error
import urllib.parse
import urllib.request
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prefkit.runfolder import RunFolder

PROJECT = "prefkit"
PROBE_SECONDS = 3.0
DEFAULT_SERVER = "https://api.wandb.ai"


class TrackerWarning(UserWarning):
    """Something that W&B could not do; the run goes on, and metrics.jsonl has everything."""


class Tracker:
    """What a stage logs to. ``mode`` is online, offline or disabled; a disabled tracker takes everything and does nothing."""

    def __init__(self, run: Any = None, mode: str = "disabled", reason: str = "") -> None:
        self._run = run
        self.mode = mode
        self.reason = reason

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        """Log the values of one step of the stage. The step is a metric of its own, so that a step that comes late is not dropped."""
        self._try("log", lambda run: run.log({**values, "stage_step": step}))

    def summary(self, values: Mapping[str, Any]) -> None:
        """Set figures of the whole stage."""
        self._try("summary", lambda run: run.summary.update(dict(values)))

    def page(self, name: str, path: Path) -> None:
        """Attach a self-contained HTML page, such as the report, as it is."""

        def attach(run: Any) -> None:
            import wandb

            run.log({name: wandb.Html(path.read_text(encoding="utf-8"), inject=False, data_is_not_path=True)})

        self._try("page", attach)

    def close(self, failed: bool) -> None:
        """Finish the W&B run, so that the next stage has one of its own."""
        self._try("finish", lambda run: run.finish(exit_code=1 if failed else 0))
        self._run = None

    def _try(self, what: str, action: Any) -> None:
        if self._run is None:
            return
        try:
            action(self._run)
        except Exception as error:
            _warn(f"W&B {what} failed ({type(error).__name__}: {error}); this stage is no longer mirrored. metrics.jsonl has everything.")
            unmirrored, self._run, self.mode = self._run, None, "disabled"
            if what != "finish":
                # An open W&B run would swallow the next stage.
                with contextlib.suppress(Exception):
                    unmirrored.finish(exit_code=1)


@contextlib.contextmanager
def tracker(run: RunFolder, stage: str, config: Mapping[str, Any], enabled: bool = True) -> Iterator[Tracker]:
    """One W&B run for one stage, in a group named after the run folder, written below ``wandb/`` in it.

    Args:
        run: the run folder.
        stage: names the W&B run.
        config: what the stage was started with, as plain values.
        enabled: False gives a tracker that does nothing, and W&B is not even imported.
    """
    mirror = _open(run, stage, config) if enabled else Tracker(reason="switched off")
    failed = True
    try:
        yield mirror
        failed = False
    finally:
        mirror.close(failed)


def mode() -> tuple[str, str]:
    """online, offline or disabled, and why: online needs a key and a server that answers within PROBE_SECONDS."""
    wanted = os.environ.get("WANDB_MODE", "").lower()
    if wanted == "disabled" or os.environ.get("WANDB_DISABLED", "").lower() in ("true", "1"):
        return "disabled", "switched off by the environment"
    if wanted in ("offline", "dryrun"):
        return "offline", "WANDB_MODE says so"
    server = os.environ.get("WANDB_BASE_URL") or DEFAULT_SERVER
    if not _has_key(server):
        return "offline", "no key"
    if not _answers(server):
        return "offline", f"{server} does not answer"
    return "online", "a key, and a server that answers"


def _open(run: RunFolder, stage: str, config: Mapping[str, Any]) -> Tracker:
    chosen, reason = mode()
    while chosen != "disabled":
        try:
            return Tracker(_init(run, stage, config, chosen), chosen, reason)
        except Exception as error:
            _warn(f"W&B could not start {chosen} ({type(error).__name__}: {error}). metrics.jsonl has everything.")
            chosen, reason = ("offline", "it could not start online") if chosen == "online" else ("disabled", "it could not start")
    return Tracker(reason=reason)


def _init(run: RunFolder, stage: str, config: Mapping[str, Any], chosen: str) -> Any:
    # Before the import: W&B reports its own errors over the network otherwise.
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    import wandb

    settings = wandb.Settings(
        init_timeout=20,
        login_timeout=5,
        finish_timeout=30,
        finish_timeout_raises=False,
        silent=True,
        console="off",
        disable_git=True,
        disable_code=True,
        disable_job_creation=True,
        x_disable_stats=True,
    )
    opened = wandb.init(
        project=os.environ.get("WANDB_PROJECT") or PROJECT,
        group=run.path.resolve().name,
        name=stage,
        job_type=stage.rpartition("-")[0] or stage,
        dir=str(run.path),
        config=dict(config),
        mode="online" if chosen == "online" else "offline",
        reinit="finish_previous",
        settings=settings,
    )
    opened.define_metric("*", step_metric="stage_step")
    return opened


def _has_key(server: str) -> bool:
    """Whether W&B would find a key without asking; the key itself is not kept."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urllib.parse.urlsplit(server).hostname or ""
    files = [os.environ["NETRC"]] if os.environ.get("NETRC") else ["~/.netrc", "~/_netrc"]
    for name in files:
        with contextlib.suppress(OSError, netrc.NetrcParseError):
            if netrc.netrc(os.path.expanduser(name)).authenticators(host):
                return True
    return False


def _answers(server: str) -> bool:
    """Whether the server answers at all; an HTTP error is an answer. Goes through the proxy that the environment names."""
    try:
        with urllib.request.urlopen(urllib.request.Request(server, method="HEAD"), timeout=PROBE_SECONDS):
            return True
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False


def _warn(message: str) -> None:
    warnings.warn(message, TrackerWarning, stacklevel=3)
