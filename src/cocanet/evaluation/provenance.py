"""What must be said beside every score: which images, which losses, and what was done at evaluation."""

from __future__ import annotations

from dataclasses import asdict

from cocanet.config import CocaNetConfig, FeedbackConfig, Preset, TokenDecoderConfig


def losses(preset: Preset) -> str:
    """What a model was trained by."""
    train = preset.train
    parts = [("tokens" if preset.by_tokens else "reconstruction") + " of the decoder alone" * train.decoder_apart]
    if train.mask_guidance:
        parts.append(f"guidance of the decoder's masks ({train.mask_guidance:g})")
    if train.colour_code:
        alone = ", which alone teaches the encoder" if train.decoder_apart else ""
        parts.append(f"colour code of the encoder's masks ({train.colour_code:g}){alone}")
    if train.figure:
        parts.append(f"what feedback makes of a thing in the middle ({train.figure:g})")
    if train.encoder_first:
        rests = ", then unchanged" * train.encoder_rests
        parts.append(f"the encoder without its decoder for the first {train.encoder_first:.0%}{rests}")
    return ", ".join(parts)


def decoder_masks(preset: Preset) -> str:
    """What the decoder knows of the encoder's masks."""
    model = preset.model
    if preset.by_tokens:
        return "where each token looked"
    if not isinstance(model, CocaNetConfig) or isinstance(model.decoder, TokenDecoderConfig):
        return "from the slots alone"
    if model.decoder.prior:
        return "begin from the encoder's, no second opinion"
    return "from the slots, which carry the encoder mask's shape" if model.decoder.frame == "slot" else "from the slots"


def at_evaluation(preset: Preset) -> str:
    """What is done to masks at evaluation that was not trained or is not in the paper."""
    model = preset.model
    if not isinstance(model, CocaNetConfig):
        return "as trained"
    usual, sharpen = asdict(FeedbackConfig()), model.levels[-1].sharpen
    special = [
        name.replace("_", " ") + ("" if value is True else f" {value:g}")
        for name, value in asdict(model.feedback).items()
        if value != usual[name]
    ]
    said = f"top-down feedback ({', '.join(special)})" if model.feedback.rounds else "no feedback"
    return f"{said}; {'last level not sharpened' if sharpen == 1 else f'last level sharpened {sharpen:g} times'}"
