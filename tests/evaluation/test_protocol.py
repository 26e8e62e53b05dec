import numpy as np
import pytest
import torch
from torch import nn

from cocanet.data.loader import Batch, Loader, LoaderConfig
from cocanet.data.scenes.tetrominoes import Tetrominoes
from cocanet.evaluation.protocol import evaluate, image_scores
from cocanet.metrics.table import SCORES
from cocanet.models.output import Output


class Oracle(nn.Module):
    """A model that is handed the truth, and paints all black."""

    def __init__(self, labels: torch.Tensor, slots: int) -> None:
        super().__init__()
        self.masks = nn.functional.one_hot(labels, slots).permute(0, 3, 1, 2).float()

    def forward(self, images):
        batch, slots = self.masks.shape[:2]
        black = torch.zeros_like(images)
        return Output(
            slots=torch.zeros(batch, slots, 1),
            slot_images=black.unsqueeze(1).expand(-1, slots, -1, -1, -1),
            decoder_masks=self.masks,
            encoder_masks=torch.ones_like(self.masks) / slots,
            in_use=torch.ones(batch, slots, dtype=torch.bool),
            mixture=black - 1,
        )


class ByColour(nn.Module):
    """A model that sorts pixels by colour."""

    def forward(self, images):
        return Output(
            slots=torch.zeros(len(images), 3, 1),
            slot_images=images.unsqueeze(1).expand(-1, 3, -1, -1, -1),
            decoder_masks=images,
            encoder_masks=images.roll(1, 1),
            in_use=torch.ones(len(images), 3, dtype=torch.bool),
            mixture=images / 2,
        )


def test_truth_scores_one_and_nothing_scores_nothing():
    batch = next(Loader(Tetrominoes(20, seed=0), LoaderConfig(20, shuffle=False)).epoch())
    scores = evaluate(Oracle(batch.labels, 4), [batch], background_labels=1)
    assert tuple(scores) == SCORES
    for name in SCORES[:4]:
        assert scores[name] == pytest.approx(1)
    assert scores["encoder_ari"] == pytest.approx(0)
    assert scores["mse"] == pytest.approx(float(batch.images.square().mean()), rel=1e-5)


def test_images_without_foreground_are_left_out_of_the_mean():
    labels = torch.from_numpy(np.tile(np.array([[0, 0], [1, 2]]), (2, 1, 1)))
    labels[1] = 0
    batch = Batch(torch.zeros(2, 3, 2, 2), labels, torch.arange(2))
    scores = evaluate(Oracle(labels, 3), [batch], background_labels=1)
    assert scores["decoder_ari_fg"] == scores["decoder_msc_fg"] == 1


def test_scores_are_means_over_images_not_over_batches():
    batch = next(Loader(Tetrominoes(7, seed=0), LoaderConfig(7, shuffle=False)).epoch())
    model = ByColour()
    scores = evaluate(model, [Batch(*(x[:5] for x in batch)), Batch(*(x[5:] for x in batch))], background_labels=1)
    for name, values in image_scores(model(batch.images), batch, 1).items():
        assert scores[name] == pytest.approx(float(values.mean()), abs=1e-12)
    assert model.training


def test_no_images_is_an_error():
    with pytest.raises(ValueError, match="no images"):
        evaluate(nn.Identity(), [], background_labels=1)
