"""GENESIS-v2's decoder against the slow transcription."""

import numpy as np
import torch

from tests.models.baselines.genesis import reference
from tests.models.baselines.genesis.tiny import arrays, noise_images, tiny_model


def test_pictures_masks_and_mixture_of_the_slots():
    # Two channels a group, two cells a side.
    model = tiny_model(gate=1.0, image_size=(32, 32), features=16, slots=3).double().eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.decoder.parameters():
            if parameter.ndim == 1:
                parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
        # The more do the slots differ, the less does a mistake hide.
        model.noise *= 3
        out = model(noise_images(2, side=32).double())
    weights = arrays(model.decoder)
    for image in range(2):
        layers = np.array([reference.decode(slot, weights, cells=2) for slot in out.slots[image].numpy()])
        assert layers.shape == (3, 4, 32, 32)
        colours = reference.sigmoid(layers[:, :3])
        shares = np.exp(layers[:, 3])
        masks = shares / shares.sum(0)
        np.testing.assert_allclose(out.slot_images[image], colours, atol=1e-10)
        np.testing.assert_allclose(out.decoder_masks[image], masks, atol=1e-10)
        np.testing.assert_allclose(out.log_masks[image], np.log(masks), atol=1e-9)
        np.testing.assert_allclose(out.mixture[image], (colours * masks[:, None]).sum(0), atol=1e-10)
