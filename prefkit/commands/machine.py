"""This machine: cores, memory, number formats of the processor, GPUs. Asked without importing torch."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from prefkit.errors import ModelError

GPU_MEND = (
    "Run it on a machine with an NVIDIA GPU, or take --profile cpu (the embedded model, two cores) or --profile smoke. "
    "--dry-run shows the plan without one."
)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: its name, and its memory in GB (None where the driver does not say)."""

    name: str
    memory_gb: float | None


def cores() -> int:
    """The processor cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def memory_gb() -> tuple[float, float]:
    """Memory in GB: all of it, and what is free for a new process."""
    import psutil

    memory = psutil.virtual_memory()
    return memory.total / 1e9, memory.available / 1e9


def number_formats() -> list[str]:
    """Of bf16 and AMX, what the processor computes in; empty where that is not known."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        flags = _apple_flags()
    found = {"bf16": {"avx512_bf16", "amx_bf16", "bf16"}, "AMX": {"amx_tile"}}
    return [name for name, marks in found.items() if marks & set(flags)]


def _apple_flags() -> list[str]:
    if sys.platform != "darwin":
        return []
    return ["bf16"] if _output("sysctl", "-n", "hw.optional.arm.FEAT_BF16").strip() == "1" else []


def gpus() -> list[Gpu]:
    """The NVIDIA GPUs that a process started here would see."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and (not visible.strip() or visible.strip().startswith("-")):
        return []
    lines = _output("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits").splitlines()
    found = [_gpu(line) for line in lines if line.count(",") == 1]
    if not found:
        found = [Gpu("NVIDIA GPU", None) for _ in Path("/dev").glob("nvidia[0-9]*")]
    return found[: len(visible.split(","))] if visible is not None else found


def _gpu(line: str) -> Gpu:
    name, _, memory = (part.strip() for part in line.rpartition(","))
    return Gpu(name, round(int(memory) * 1048576 / 1e9, 1) if memory.isdigit() else None)


def torch_without_gpu() -> bool:
    """Whether the installed torch is a build for processors alone."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("torch").endswith("+cpu")
    except PackageNotFoundError:
        return False


def require(profile: str, model: str) -> None:
    """Refuse, before anything is written, what cannot run here: a profile that needs a GPU where there is none, a model that is not there.

    A Hugging Face name is not looked up. Raises ModelError with the mend.
    """
    from prefkit.models.embedded import gguf_file
    from prefkit.models.load import ModelSpec, resolve

    if model == "embedded":
        gguf_file()
    else:
        resolve(ModelSpec(model))
    if profile != "gpu":
        return
    if not gpus():
        raise ModelError(f"the profile gpu needs an NVIDIA GPU, and none is to be seen here. {GPU_MEND}")
    if torch_without_gpu():
        raise ModelError(
            "the profile gpu needs a torch that computes on GPUs, and the one installed is for processors alone. Install it with: "
            "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu130"
        )


def words() -> str:
    """The machine in one line."""
    total, free = memory_gb()
    found = gpus()
    devices = ", ".join(gpu.name + (f" with {gpu.memory_gb:g} GB" if gpu.memory_gb else "") for gpu in found) if found else "no GPU"
    formats = " and ".join(number_formats()) or "no bf16"
    return f"{cores()} core{'s' if cores() > 1 else ''} ({formats}), {total:.0f} GB memory ({free:.0f} GB free), {devices}"


def _output(*command: str) -> str:
    """What a program prints; nothing where it is not there, fails, or hangs."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=3, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
