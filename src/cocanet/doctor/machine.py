"""torch, its threads and devices, folders, and a browser."""

from __future__ import annotations

import math
import os
import shutil
import webbrowser
from pathlib import Path

from cocanet.doctor.finding import Finding, in_a_line
from cocanet.files import check_folder_writable, existing_parent
from cocanet.words import plural

TORCH = "pip install --force-reinstall torch; on a machine without a GPU its CPU build, which is smaller"
LITTLE_SPACE = 2**30
TEXT_BROWSERS = ("www-browser", "links", "elinks", "lynx", "w3m")
NVIDIA = Path("/dev/nvidiactl")
QUOTA = Path("/sys/fs/cgroup/cpu.max")


def examine_torch() -> Finding:
    try:
        import torch

        right = torch.linspace(0, 1, 3) @ torch.ones(3) == 1.5
    except (ImportError, OSError, RuntimeError) as error:
        return Finding("torch", "broken", in_a_line(error), TORCH)
    if not right:
        return Finding("torch", "broken", f"{torch.__version__} computes a product of two vectors wrongly", TORCH)
    return Finding("torch", "works", f"{torch.__version__}, built for {built_for(torch.version)}")


def built_for(version: object) -> str:
    """CPUs, or the GPUs that a torch was made for, by its `torch.version`."""
    for kind, name in (("cuda", "CUDA"), ("hip", "ROCm"), ("xpu", "XPU")):
        number = getattr(version, kind, None)
        if number:
            return f"{name} {number}"
    return "CPUs"


def examine_threads() -> Finding:
    import torch

    return judge_threads(torch.get_num_threads(), available_cores(), os.environ.get("OMP_NUM_THREADS"))


def judge_threads(threads: int, cores: int, setting: str | None) -> Finding:
    """More threads than cores get in each other's way; fewer leave some idle."""
    says = f"{plural(threads, 'thread')} for {plural(cores, 'core')}"
    if threads > cores:
        return Finding("threads", "works", f"{says}, which is slow", f"set OMP_NUM_THREADS={cores}")
    if threads < cores and setting:
        return Finding("threads", "works", f"{says}: OMP_NUM_THREADS={setting} holds it back", f"set it to {cores}")
    return Finding("threads", "works", says)


def available_cores() -> int:
    """Those that this process may use, and in a container no more than it is given time of."""
    ours = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = QUOTA.read_text().split()
        return ours if quota == "max" else max(1, min(ours, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):
        return ours


def examine_devices() -> Finding:
    """What `--device` can be: every device is asked to compute something."""
    import torch

    names = {f"cuda:{index}": torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())}
    if torch.backends.mps.is_available():
        names["mps"] = "Apple GPU"
    refused = []
    for device in names:
        try:
            torch.ones(2, device=device).sum().item()
        except RuntimeError as error:
            refused.append(f"{device}: {in_a_line(error)}")
    listed = ", ".join(["cpu", *(f"{device} ({name})" for device, name in names.items())])
    if refused:
        fix = "bring the GPU's driver and torch to versions that fit each other; until then use --device cpu"
        return Finding("devices", "broken", "; ".join(refused), fix)
    if NVIDIA.exists() and not torch.cuda.is_available():
        says = f"{listed}; there is an NVIDIA GPU, but torch {torch.__version__} cannot use it"
        return Finding("devices", "missing", says, "install torch's CUDA build, and a driver that is new enough for it")
    return Finding("devices", "works", listed)


def examine_folder(what: str, folder: Path, fix: str) -> Finding:
    """Whether results can be written there, and how much."""
    try:
        check_folder_writable(folder)
    except ValueError as error:
        return Finding(what, "broken", str(error), fix)
    free = shutil.disk_usage(existing_parent(folder)).free
    says = f"{folder} can be written to, {free / 1e9:,.1f} GB free"
    return Finding(what, "works", says, fix if free < LITTLE_SPACE else None)


def examine_browser() -> Finding:
    """One that can be opened from here and shows pictures; the explorer's page needs it, or one on another machine."""
    try:
        name = getattr(webbrowser.get(), "name", "a browser")
    except webbrowser.Error:
        name = None
    if name and Path(name).name not in TEXT_BROWSERS:
        return Finding("browser", "works", f"{Path(name).name} can be opened from here")
    says = f"only {Path(name).name}, which shows no pictures" if name else "none can be opened from here"
    fix = "open pages from a machine with a screen, through ssh -L PORT:localhost:PORT"
    return Finding("browser", "missing", says, fix)
