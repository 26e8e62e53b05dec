"""`coca doctor` names what does not work, and the fix."""

from __future__ import annotations

import os
import subprocess
import sys
import webbrowser
from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace

import pytest
import torch
from packaging.requirements import Requirement

from cocanet import doctor
from cocanet.cli import main
from cocanet.doctor import Finding, guarded
from tests.data.generators.rendering import needs_renderer

DECLARED = [
    "numpy>=1.26",
    "torch>=2.5",
    'winreg-tools; sys_platform == "win32"',
    'mujoco>=4; extra == "render"',
    'pyarrow>=17; extra == "ray"',
    'ray[data]>=2.40; extra == "ray"',
]


def names(requirements: list[Requirement]) -> list[str]:
    return [each.name for each in requirements]


@pytest.mark.skipif(sys.platform == "win32", reason="there the third line counts")
def test_an_extra_adds_its_own_and_nothing_else():
    assert names(doctor.needed(DECLARED)) == ["numpy", "torch"]
    assert names(doctor.needed(DECLARED, "ray")) == ["pyarrow", "ray"]
    assert names(doctor.needed(DECLARED, "onnx")) == []


def test_what_is_absent_or_too_old_is_named():
    there = {"numpy": "1.25.2", "torch": "2.13.0+cpu"}
    lacking = list(doctor.unmet(doctor.needed(DECLARED) + doctor.needed(DECLARED, "render"), there.get))
    assert lacking == ["numpy>=1.26 (not 1.25.2)", "mujoco"]


def test_extras_that_are_missing_come_with_the_command_that_installs_them(monkeypatch):
    monkeypatch.setattr(doctor, "declared", lambda: ["numpy>=1.26", 'no-such-package; extra == "onnx"'])
    assert [extra for extra in doctor.EXTRAS if doctor.needed(doctor.declared(), extra)] == ["onnx"]
    found = doctor.check_extra("onnx")
    assert (found.state, found.fix) == ("missing", "pip install 'cocanet[onnx]'")
    assert found.says.endswith("needs no-such-package")


def test_torch_is_shown_with_its_build():
    found = doctor.check_torch()
    assert found.state == "works"
    assert torch.__version__ in found.says
    assert doctor.built_for(SimpleNamespace(cuda="13.0", hip=None)) == "CUDA 13.0"
    assert doctor.built_for(SimpleNamespace(cuda=None, hip="7.1")) == "ROCm 7.1"
    assert doctor.built_for(SimpleNamespace(cuda=None, hip=None)) == "CPUs"


@pytest.mark.parametrize(
    ("threads", "cores", "setting", "fix"),
    [(2, 2, None, None), (1, 8, None, None), (1, 8, "1", "set it to 8"), (64, 2, None, "set OMP_NUM_THREADS=2")],
)
def test_threads_are_compared_with_cores(threads, cores, setting, fix):
    assert doctor.judge_threads(threads, cores, setting).fix == fix


@pytest.mark.parametrize(("written", "most"), [("150000 100000", 2), ("50000 100000", 1), ("max 100000", 10**6)])
def test_a_container_may_give_less_time_than_it_shows_cores(tmp_path, monkeypatch, written, most):
    (tmp_path / "cpu.max").write_text(written)
    monkeypatch.setattr(doctor, "QUOTA", tmp_path / "absent")
    cores = doctor.available_cores()
    monkeypatch.setattr(doctor, "QUOTA", tmp_path / "cpu.max")
    assert doctor.available_cores() == min(cores, most)


def test_a_gpu_that_torch_cannot_use_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(doctor, "NVIDIA", tmp_path / "absent")
    assert doctor.check_devices().state == "works"
    monkeypatch.setattr(doctor, "NVIDIA", tmp_path)
    found = doctor.check_devices()
    assert found.state == "missing"
    assert "CUDA build" in (found.fix or "")


def test_folders(tmp_path):
    assert doctor.check_folder("cache", tmp_path / "not" / "there" / "yet", "set it").state == "works"
    (tmp_path / "file").touch()
    found = doctor.check_folder("cache", tmp_path / "file" / "below", "set it")
    assert (found.state, found.fix) == ("broken", "set it")
    assert str(tmp_path) in found.says


@pytest.mark.parametrize(("name", "state"), [("firefox", "works"), ("/usr/bin/w3m", "missing"), (None, "missing")])
def test_a_browser_must_show_pictures(monkeypatch, name, state):
    def get():
        if name is None:
            raise webbrowser.Error("could not locate runnable browser")
        return SimpleNamespace(name=name)

    monkeypatch.setattr(webbrowser, "get", get)
    assert doctor.check_browser().state == state


@needs_renderer
def test_a_scene_is_drawn():
    assert doctor.check_renderer() == Finding("renderer", "works", "MuJoCo and off-screen OpenGL rendered a scene")


def test_without_mujoco_the_fix_is_its_extra(tmp_path, monkeypatch):
    (tmp_path / "mujoco.py").write_text("raise ImportError('this is none')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    found = doctor.check_renderer()
    assert found.state == "missing"
    assert (found.fix or "").startswith("pip install 'cocanet[render]'")


def test_a_crash_and_a_wait_of_the_renderer_are_findings():
    need = "rendered scenes need off-screen OpenGL, install libegl1, or libosmesa6; tried egl\n"
    opengl = doctor.judge_renderer(2, need)
    assert opengl.fix == "install libegl1, or libosmesa6; tried egl"
    assert "SIGSEGV" in doctor.judge_renderer(-11, "").says
    assert doctor.judge_renderer(-11, "").state == "broken"
    assert doctor.judge_renderer(1, "Traceback …\nKeyError: 7\n").says == "KeyError: 7"
    assert doctor.check_renderer(seconds=0.001).state == "broken"


def test_damaged_weights_are_named(tmp_path, monkeypatch):
    (tmp_path / "shipped").mkdir()
    monkeypatch.setattr("cocanet.io.trained.files", lambda package: tmp_path)
    assert doctor.check_weights().says == "none came with the package"
    (tmp_path / "shipped" / "tetrominoes.safetensors").write_bytes(b"cut off")
    found = doctor.check_weights()
    assert found.state == "broken"
    assert found.says.startswith("tetrominoes: ")


def test_a_check_that_fails_is_a_finding():
    def fail() -> Finding:
        raise PackageNotFoundError("cocanet")

    found = guarded("packages", fail, essential=True)
    assert found.fatal
    assert found.state == "broken"
    assert not guarded("browser", fail).fatal


def test_without_torch_the_other_checks_still_run(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    monkeypatch.setattr(doctor, "check_renderer", lambda: Finding("renderer", "works", ""))
    found = {finding.what: finding for finding in doctor.examine()}
    assert found["torch"].fatal
    assert "pip install" in (found["torch"].fix or "")
    assert "weights" not in found
    assert {"this folder", "renderer", "browser"} <= set(found)


@pytest.mark.parametrize("broken", [False, True])
def test_the_command_prints_findings_and_its_exit_code_says_whether_one_is_fatal(monkeypatch, capsys, broken):
    def two():
        yield Finding("torch", "broken" if broken else "works", "2.13.0", essential=True)
        yield Finding("browser", "missing", "none", "get one")

    monkeypatch.setattr("cocanet.doctor.examine", two)
    with pytest.raises(SystemExit) as end:
        main(["doctor"])
    assert end.value.code == (1 if broken else 0)
    said = capsys.readouterr().out.splitlines()
    assert said[1].split() == ["broken" if broken else "works", "torch", "2.13.0"]
    assert said[3].strip() == "fix: get one"
    assert ("torch" in said[-1]) == broken


@pytest.mark.slow
def test_the_command_on_this_machine(tmp_path):
    """In an empty folder whose name the terminal's encoding lacks."""
    strange = tmp_path / "Ω"
    strange.mkdir()
    settings = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "ascii", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "cocanet", "doctor"],
        cwd=strange,
        env=os.environ | settings,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert f"torch         {torch.__version__}" in done.stdout
    assert "\\u03a9 can be written to" in done.stdout
