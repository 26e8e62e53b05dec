"""From the image to what slots attend to, and from attention to masks, against the slow transcription."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from tests.models.baselines import rivals
from tests.models.baselines.genesis.tiny import noise_images, tiny_model
from tests.models.baselines.transcription import (
    conv,
    edge_embedding,
    invariant_round,
    layer_norm,
    mlp,
    slot_attention,
    weights,
)


def seen(model: nn.Module, part: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """What a part of the model is given first."""
    given = []
    handle = part.register_forward_pre_hook(lambda module, arguments: given.append(arguments[0].detach().clone()))
    with torch.no_grad():
        model(images)
    handle.remove()
    return given[0]


def make_faint(*layers: nn.Module) -> None:
    """Shrink what layers put out, so that the ε of a normalisation after them counts."""
    with torch.no_grad():
        for layer in layers:
            for parameter in layer.parameters():
                parameter *= 0.02


def look(image: np.ndarray, w: dict[str, np.ndarray], name: str, strides: tuple[int, ...], *, rectify_last: bool):
    """Convolutions, a ReLU after each, or after each but the last."""
    for layer, stride in enumerate(strides):
        image = conv(image, w, f"{name}.{layer}", stride)
        if rectify_last or layer < len(strides) - 1:
            image = np.maximum(image, 0)
    return image


@pytest.mark.parametrize("strides", [(1, 1, 1, 1), (2, 1)])
@pytest.mark.parametrize(("make", "eps"), [(rivals.slot_attention, 1e-3), (rivals.bo_qsa, 1e-5)])
def test_slots_attend_to_convolved_pixels_with_their_place(make, eps, strides):
    config = make(encoder_strides=strides)
    model, x = rivals.make(config).eval(), rivals.images(config)
    encoder = model.encoder
    make_faint(encoder.look.layers[-1], encoder.position, encoder.mlp.outer)
    found, w = seen(model, model.iteration, x), weights(model)
    for image in range(2):
        pixels = 2 * x[image].double().numpy() - 1
        features = look(pixels, w, "encoder.look.layers", strides, rectify_last=True)
        expected = []
        for row, column in np.ndindex(*features.shape[1:]):
            place = edge_embedding(row, column, features.shape[1:], w, "encoder.position.embed")
            normalised = layer_norm(features[:, row, column] + place, w, "encoder.norm", eps)
            expected.append(layer_norm(mlp(normalised, w, "encoder.mlp"), w, "norm", eps))
        np.testing.assert_allclose(found[image], expected, atol=3e-5, rtol=1e-5)


@pytest.mark.parametrize("strides", [(1, 1, 1, 1), (2, 1)])
def test_inv_sa_attends_to_convolved_pixels_and_a_grid_apart_from_them(strides):
    config = rivals.inv_sa(encoder_strides=strides)
    model, x = rivals.make(config).eval(), rivals.images(config)
    found, w = seen(model, model.attention.norm_inputs, x), weights(model)
    for image in range(2):
        features = look(x[image].double().numpy(), w, "encoder.layers", strides, rectify_last=False)
        rows, columns = features.shape[1:]
        cells = list(np.ndindex(rows, columns))
        np.testing.assert_allclose(found[image], [features[:, i, j] for i, j in cells], atol=1e-5, rtol=1e-5)
        places = [(-1 + 2 * i / (rows - 1), -1 + 2 * j / (columns - 1)) for i, j in cells]
        np.testing.assert_allclose(model.grid, places, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "low"), [("slot-attention", -1), ("bo-qsa", -1), ("inv-sa", 0), ("inv-sa-translation", 0), ("genesis", 0)]
)
def test_range_of_the_pixels_that_the_first_convolution_sees(name, low):
    if name == "genesis":
        model, x = tiny_model(), noise_images()
    else:
        model, x = rivals.make(rivals.ALL[name]), rivals.images(rivals.ALL[name])
    first = next(module for module in model.modules() if isinstance(module, nn.Conv2d))
    for mode in (True, False):
        torch.testing.assert_close(seen(model.train(mode), first, x), low + (1 - low) * x)


def rounds(model, x: torch.Tensor, count: int) -> list[np.ndarray]:
    """Attention of so many rounds for one image."""
    found = []
    if model.config.kind == "inv-sa":
        features = seen(model, model.attention.norm_inputs, x)[0].double().numpy()
        positions, scales = (part[0].double().numpy() for part in model.first_frames(1))
        slots, w, grid = model.features.detach().double().numpy(), weights(model), model.grid.double().numpy()
        for _ in range(count):
            slots, positions, scales, attention = invariant_round(
                features, grid, slots, positions, scales, w, model.config.scale_unit
            )
            found.append(attention)
        return found
    damped = model.config.kind == "bo-qsa"
    inputs, slots = seen(model, model.iteration, x)[0], model.first_slots(1)[0]
    inputs, slots, w = inputs.double().numpy(), slots.detach().double().numpy(), weights(model.iteration)
    for _ in range(count):
        slots, attention = slot_attention(inputs, slots, w, 1e-5 if damped else 1e-3, damped=damped)
        found.append(attention)
    return found


@pytest.mark.parametrize("iterations", [1, 3])
@pytest.mark.parametrize("name", ["slot-attention", "bo-qsa", "inv-sa"])
def test_encoder_masks_are_of_the_last_iteration_or_of_the_round_after_it(name, iterations):
    small = {"image_size": (6, 4), "broadcast": (6, 4), "encoder_strides": (1, 1), "decoder_strides": (1,)}
    config = replace(rivals.ALL[name], iterations=iterations, **small)
    model, x = rivals.make(config).eval(), rivals.images(config, 1)
    masks = model(x).encoder_masks[0].flatten(1).detach().numpy()
    every = rounds(model, x, iterations + 2)
    right = iterations if name == "inv-sa" else iterations - 1
    for number, attention in enumerate(every):
        if number == right:
            np.testing.assert_allclose(masks, attention, atol=1e-5)
        else:
            assert np.abs(masks - attention).max() > 1e-4, number
