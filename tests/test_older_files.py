"""What earlier versions wrote still opens: a run folder and weights of before configurations had a package."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from cocanet.cli import main
from cocanet.runs.folder import RunFolder
from cocanet.weights import open_model, read_weights

MEAN, MASKS = 0.5160995204787469, [0.998512, 4.6e-06, 4e-07, 0.001483]
RUN = Path(__file__).parent / "fixtures" / "run-of-9cbe329"


def test_a_run_folder_opens_and_is_what_it_was():
    settings = RunFolder(RUN).read_settings()
    assert (settings.preset.name, settings.preset.model.dim, settings.run.seed) == ("tetrominoes", 8, 0)
    assert not settings.data.shuffle
    trained = open_model(RUN)
    assert trained.step == 4
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        out = trained.model(images)
    # As the commit that wrote it computed them.
    torch.testing.assert_close(out.encoder_masks.sum().item(), 2048.0)
    torch.testing.assert_close(out.mixture.double().mean().item(), MEAN, atol=1e-6, rtol=0)
    torch.testing.assert_close(out.encoder_masks[0, :, 3, 5].tolist(), MASKS, atol=1e-5, rtol=0)


def test_weights_open_alone_and_with_their_optimiser():
    assert open_model(RUN / "best.safetensors").preset == RunFolder(RUN).read_settings().preset
    assert any(
        name.startswith("optimiser:") for name in read_weights(RUN / "last.safetensors", with_optimiser=True).tensors
    )


def test_an_older_run_goes_on(tmp_path):
    shutil.copytree(RUN, tmp_path / "run")
    main(["train", "--resume", "--out", str(tmp_path / "run"), "--steps", "5"])
    assert open_model(tmp_path / "run").step == 5
