"""What works on this machine and what does not, with the fix for each. Nothing here raises or prints."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
import webbrowser
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal, NamedTuple

from packaging.requirements import Requirement

from cocanet.files import check_folder_writable, existing_parent
from cocanet.words import plural

State = Literal["works", "missing", "broken"]
"""`missing` is optional; what is `broken` should work and does not."""
Lookup = Callable[[str], str | None]
"""The version of a package that is installed; None if it is not."""

EXTRAS = {
    "baselines": "Felzenszwalb's segments and GrabCut beside a model",
    "render": "rendered scenes",
    "explore": "the explorer in a browser",
    "onnx": "models without torch",
    "parquet": "Parquet files",
    "ray": "segmenting on a cluster",
    "hub": "the Hugging Face hub",
    "datasets": "stores as Hugging Face data sets",
    "tensorboard": "curves in TensorBoard",
}
"""The extras for users, and what they are for."""
INSTALL_TORCH = "pip install --force-reinstall torch; on a machine without a GPU its CPU build, which is smaller"
REINSTALL = "pip install --force-reinstall --no-deps cocanet"
LITTLE_SPACE = 2**30
TEXT_BROWSERS = ("www-browser", "links", "elinks", "lynx", "w3m")
NVIDIA = Path("/dev/nvidiactl")
QUOTA = Path("/sys/fs/cgroup/cpu.max")
RENDERER_SECONDS = 120.0
DRAW = "import sys; from cocanet.doctor import draw_scene; sys.exit(draw_scene())"


class Finding(NamedTuple):
    """The result of one check."""

    what: str
    state: State
    says: str
    fix: str | None = None
    """How to repair or improve it."""
    essential: bool = False
    """Whether every command needs it."""

    @property
    def fatal(self) -> bool:
        return self.essential and self.state != "works"


def examine() -> Iterator[Finding]:
    """All checks, the most important first; some take seconds."""
    yield guarded("packages", check_packages, essential=True)
    torch = guarded("torch", check_torch, essential=True)
    yield torch
    if torch.state == "works":
        yield guarded("threads", check_threads)
        yield guarded("devices", check_devices)
        yield guarded("weights", check_weights, essential=True)
    yield guarded("this folder", check_this_folder)
    yield guarded("cache", check_cache)
    yield guarded("renderer", check_renderer)
    yield guarded("browser", check_browser)
    try:
        lines = declared()
    except Exception:
        return  # the check of the packages has reported it
    for extra in EXTRAS:
        if needed(lines, extra):
            yield guarded(f"[{extra}]", partial(check_extra, extra))


def guarded(what: str, check: Callable[[], Finding], *, essential: bool = False) -> Finding:
    """The finding of a check; an exception becomes a finding too."""
    try:
        return check()._replace(essential=essential)
    except Exception as error:
        return Finding(what, "broken", in_a_line(error), essential=essential)


def in_a_line(error: Exception) -> str:
    """The kind of an error, and the first line of its message."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__


def installed_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def declared() -> list[str]:
    """The requirements of cocanet; those of its extras have a marker."""
    return requires("cocanet") or []


def needed(lines: Iterable[str], extra: str = "") -> list[Requirement]:
    """The requirements of the package on this machine, or those that an extra adds."""
    everything = [Requirement(line) for line in lines]
    own = [each for each in everything if each.marker is None or each.marker.evaluate({"extra": ""})]
    if not extra:
        return own
    return [each for each in everything if each not in own and each.marker and each.marker.evaluate({"extra": extra})]


def unmet(requirements: Iterable[Requirement], lookup: Lookup = installed_version) -> Iterator[str]:
    """Requirements that are not installed, or not in an accepted version."""
    for each in requirements:
        there = lookup(each.name)
        if there is None:
            yield each.name
        elif not each.specifier.contains(there, prereleases=True):
            yield f"{each.name}{each.specifier} (not {there})"


def check_packages() -> Finding:
    wanted = needed(declared())
    lacking = list(unmet(wanted))
    if lacking:
        return Finding("packages", "broken", f"lacks {', '.join(lacking)}", "pip install --upgrade cocanet")
    return Finding("packages", "works", f"all {plural(len(wanted), 'package')} that cocanet needs")


def check_extra(extra: str) -> Finding:
    what, wanted = f"[{extra}]", needed(declared(), extra)
    lacking = list(unmet(wanted))
    if lacking:
        says = f"{EXTRAS[extra]}: needs {', '.join(lacking)}"
        return Finding(what, "missing", says, f"pip install 'cocanet[{extra}]'")
    names = ", ".join(f"{each.name} {installed_version(each.name)}" for each in wanted)
    return Finding(what, "works", f"{EXTRAS[extra]}: {names}")


def check_torch() -> Finding:
    try:
        import torch

        right = torch.linspace(0, 1, 3) @ torch.ones(3) == 1.5
    except (ImportError, OSError, RuntimeError) as error:
        return Finding("torch", "broken", in_a_line(error), INSTALL_TORCH)
    if not right:
        says = f"{torch.__version__} computes a product of two vectors wrongly"
        return Finding("torch", "broken", says, INSTALL_TORCH)
    return Finding("torch", "works", f"{torch.__version__}, built for {built_for(torch.version)}")


def built_for(build: object) -> str:
    """CPUs, or the GPUs that torch was built for, from its module `torch.version`."""
    for kind, name in (("cuda", "CUDA"), ("hip", "ROCm"), ("xpu", "XPU")):
        number = getattr(build, kind, None)
        if number:
            return f"{name} {number}"
    return "CPUs"


def check_threads() -> Finding:
    import torch

    return judge_threads(torch.get_num_threads(), available_cores(), os.environ.get("OMP_NUM_THREADS"))


def judge_threads(threads: int, cores: int, setting: str | None) -> Finding:
    """More threads than cores slow each other down; fewer leave cores idle."""
    says = f"{plural(threads, 'thread')} for {plural(cores, 'core')}"
    if threads > cores:
        return Finding("threads", "works", f"{says}, which is slow", f"set OMP_NUM_THREADS={cores}")
    if threads < cores and setting:
        return Finding("threads", "works", f"{says}, because of OMP_NUM_THREADS={setting}", f"set it to {cores}")
    return Finding("threads", "works", says)


def available_cores() -> int:
    """The cores that this process may use, within the CPU quota of a container."""
    ours = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = QUOTA.read_text().split()
        return ours if quota == "max" else max(1, min(ours, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):
        return ours


def check_devices() -> Finding:
    """The values of `--device`; each device computes something."""
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
        fix = "install a GPU driver and a torch build that fit each other; until then use --device cpu"
        return Finding("devices", "broken", "; ".join(refused), fix)
    if NVIDIA.exists() and not torch.cuda.is_available():
        says = f"{listed}; there is an NVIDIA GPU, but torch {torch.__version__} cannot use it"
        return Finding("devices", "missing", says, "install torch's CUDA build, and a driver that is new enough for it")
    return Finding("devices", "works", listed)


def check_weights() -> Finding:
    """Load all shipped weights and segment an image with the last."""
    import numpy as np

    from cocanet.io.trained import shipped_names
    from cocanet.predict import load

    names = shipped_names()
    if not names:
        return Finding("weights", "broken", "none came with the package", REINSTALL)
    for name in names:
        try:
            segmenter = load(name)
        except (ValueError, OSError, RuntimeError) as error:
            return Finding("weights", "broken", f"{name}: {error}", REINSTALL)
    height, width = segmenter.preset.model.image_size
    (found,) = segmenter.each([np.zeros((height, width, 3), dtype=np.uint8)])
    if not found.segments:
        return Finding("weights", "broken", f"{names[-1]} finds no segment in an image", REINSTALL)
    return Finding("weights", "works", f"{', '.join(names)} load, and the last segments an image")


def check_this_folder() -> Finding:
    return check_folder("this folder", Path.cwd(), "change to a folder that you may write to, or give one with --out")


def check_cache() -> Finding:
    from cocanet.files import cache_folder

    return check_folder("cache", cache_folder(), "set COCANET_CACHE to a folder with free space that you may write to")


def check_folder(what: str, folder: Path, fix: str) -> Finding:
    """Whether a folder can be written to, and its free space."""
    try:
        check_folder_writable(folder)
    except ValueError as error:
        return Finding(what, "broken", str(error), fix)
    free = shutil.disk_usage(existing_parent(folder)).free
    says = f"{folder} can be written to, {free / 1e9:,.1f} GB free"
    return Finding(what, "works", says, fix if free < LITTLE_SPACE else None)


def check_renderer(seconds: float = RENDERER_SECONDS) -> Finding:
    """Render a scene in a process of its own, which a bad driver may crash."""
    command = [sys.executable, "-c", DRAW]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds)
    except subprocess.TimeoutExpired:
        says = f"MuJoCo and OpenGL are installed, but rendered nothing in {seconds:g} s"
        return Finding("renderer", "broken", says, "set MUJOCO_GL=osmesa (libosmesa6), or MUJOCO_GL=egl, and try again")
    return judge_renderer(done.returncode, done.stderr)


def draw_scene() -> int:
    """Render one scene; returns 2 and writes a sentence if something is not installed."""
    from cocanet.data.generators import make_scenes
    from cocanet.data.generators.gl import RendererUnavailableError

    try:
        image = make_scenes("objects-room", count=1, seed=0)[0].image
    except RendererUnavailableError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if not image.std() > 0:
        sys.stderr.write("the rendered scene is empty\n")
        return 1
    return 0


def judge_renderer(code: int, written: str) -> Finding:
    """By the exit code of `draw_scene` and what it wrote."""
    lines = written.strip().splitlines() or [f"it ended with exit code {code}"]
    if code == 0:
        return Finding("renderer", "works", "MuJoCo and off-screen OpenGL rendered a scene")
    if code == 2:
        need, _, remedy = lines[-1].partition(", install ")
        command = remedy.removeprefix("it with: ")
        return Finding("renderer", "missing", need, f"install {remedy}" if command == remedy else command)
    if code < 0:
        lines = [f"MuJoCo or OpenGL crashed ({signal.Signals(-code).name})"]
    return Finding("renderer", "broken", lines[-1], "set MUJOCO_GL=osmesa (libosmesa6) for OpenGL without a driver")


def check_browser() -> Finding:
    """A browser for the explorer that can be opened from here and shows pictures."""
    try:
        name = getattr(webbrowser.get(), "name", "a browser")
    except webbrowser.Error:
        name = None
    if name and Path(name).name not in TEXT_BROWSERS:
        return Finding("browser", "works", f"{Path(name).name} can be opened from here")
    says = f"only {Path(name).name}, which shows no pictures" if name else "none can be opened from here"
    fix = "open pages on a machine with a screen, through ssh -L PORT:localhost:PORT"
    return Finding("browser", "missing", says, fix)
