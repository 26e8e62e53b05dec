"""One function for each published run: the hyper-parameters of the paper's three tables."""

from __future__ import annotations

from collections.abc import Callable

from cocanet.config import BackboneConfig, CocaNetConfig, ConvConfig, DataConfig, DecoderConfig, LevelConfig, Preset


def tetrominoes() -> Preset:
    return Preset(
        name="tetrominoes",
        model=CocaNetConfig(
            image_size=(32, 32),
            dim=64,
            backbone=BackboneConfig(channels=32, kernel=3),
            levels=(
                LevelConfig(window=(4, 4), clusters=3, temperature=1.0, depth=2),
                LevelConfig(window=(8, 8), clusters=4, temperature=2.0, depth=2),
            ),
            decoder=_full_resolution_decoder(32),
        ),
        data=DataConfig("tetrominoes"),
    )


def multi_dsprites() -> Preset:
    return Preset(
        name="multi-dsprites",
        model=_model_64px(slots=6, temperatures=(1.0, 1.25)),
        data=DataConfig("multi-dsprites"),
    )


def shapestacks() -> Preset:
    return Preset(
        name="shapestacks",
        model=_model_64px(slots=7, temperatures=(0.75, 1.0)),
        data=DataConfig("shapestacks"),
    )


def objects_room() -> Preset:
    return Preset(
        name="objects-room",
        model=_model_64px(slots=7, temperatures=(1.0, 1.5)),
        data=DataConfig("objects-room", background_labels=4),
    )


def clevr6() -> Preset:
    return Preset(
        name="clevr6",
        model=CocaNetConfig(
            image_size=(128, 128),
            dim=96,
            backbone=BackboneConfig(channels=96, kernel=5),
            levels=(
                LevelConfig(window=(4, 4), clusters=2, temperature=1.0, depth=1),
                LevelConfig(window=(4, 4), clusters=4, temperature=0.5, depth=2),
                LevelConfig(window=(8, 8), clusters=7, temperature=1.0, depth=3),
            ),
            decoder=_transposed_decoder(channels=48),
        ),
        data=DataConfig("clevr", max_objects=6),
    )


def clevrtex() -> Preset:
    return Preset(
        name="clevrtex",
        model=CocaNetConfig(
            image_size=(128, 128),
            dim=96,
            backbone=BackboneConfig(channels=128, kernel=5),
            levels=(
                LevelConfig((4, 4), clusters=2, temperature=2.0, depth=1, attention="neighbourhood", kernel=3),
                LevelConfig((4, 4), clusters=4, temperature=1.0, depth=2, attention="neighbourhood", kernel=5),
                LevelConfig((8, 8), clusters=11, temperature=0.5, depth=5, attention="global"),
            ),
            decoder=_transposed_decoder(channels=64),
        ),
        data=DataConfig("clevrtex"),
    )


def _model_64px(slots: int, temperatures: tuple[float, float]) -> CocaNetConfig:
    lower, upper = temperatures
    return CocaNetConfig(
        image_size=(64, 64),
        dim=64,
        backbone=BackboneConfig(channels=64, kernel=3),
        levels=(
            LevelConfig(window=(8, 8), clusters=4, temperature=lower, depth=3),
            LevelConfig(window=(8, 8), clusters=slots, temperature=upper, depth=3),
        ),
        decoder=_full_resolution_decoder(64),
    )


def _full_resolution_decoder(side: int) -> DecoderConfig:
    hidden = ConvConfig(channels=32, kernel=5)
    return DecoderConfig(broadcast=(side, side), layers=(hidden, hidden, hidden, ConvConfig(channels=4, kernel=3)))


def _transposed_decoder(channels: int) -> DecoderConfig:
    enlarging = ConvConfig(channels, kernel=5, stride=2)
    return DecoderConfig(
        broadcast=(8, 8),
        layers=(*[enlarging] * 4, ConvConfig(channels, kernel=5), ConvConfig(channels=4, kernel=3)),
    )


PRESETS: dict[str, Callable[[], Preset]] = {
    preset().name: preset for preset in (tetrominoes, multi_dsprites, shapestacks, objects_room, clevr6, clevrtex)
}
