"""Our copy of the paper's results against its own LaTeX, cell by cell."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from cocanet import presets
from cocanet.config import DataConfig
from cocanet.data.readers import PHOTOGRAPHS
from cocanet.metrics.table import SCORES
from cocanet.paper_scores import (
    PAPER,
    PAPER_DATA_SETS,
    PAPER_ONE_SEED,
    PAPER_PHOTOGRAPHS,
    TITLES,
    data_set_of,
    data_set_of_recipe,
    paper_row,
)

MODELS = {
    "GEN-v2": "genesis-v2",
    "INV-SA": "inv-sa",
    "BOQ-SA": "bo-qsa",
    "BOQSA": "bo-qsa",
    "COCA-Net": "coca-net",
    "COCA-Net-RAS": "coca-net-ras",
    "COCA-Net-Dyna": "coca-net-dyna",
}
DATA_SETS = {
    "Tetrominoes": "tetrominoes",
    "Multi-dSprites": "multi-dsprites",
    "ObjectsRoom": "objects-room",
    "ShapeStacks": "shapestacks",
    "CLEVR6": "clevr6",
    "CLEVRTex": "clevrtex",
    "CLEVR": "clevr",
}


def cells_of(tex: str, label: str) -> dict[tuple[str, str], list[str]]:
    """Printed numbers by model and data set, of the table with a label."""
    table = tex[tex.index(rf"\label{{{label}}}") :]
    table = table[: table.index(r"\end{tabular}")]
    found, data_set = {}, ""
    for line in table.splitlines():
        heading = re.match(r"\s*\\multicolumn\{\d+\}\{c\}\{([\w-]+)\}\s*\\\\", line)
        if heading:
            data_set = DATA_SETS[heading[1]]
        model = re.match(r"\s*([\w-]+)\s*(\\cite|\(ours\)|&)", line)
        if model and model[1] in MODELS:
            cells = re.sub(r"\\cite\{[^}]*\}", "", line).split("&")[1:]
            found[MODELS[model[1]], data_set] = [
                re.search(r"\d[\d.]*(\$\\pm\$\d[\d.]*)?", cell.replace(r"\multicolumn{1}{c}", ""))[0] for cell in cells
            ]
    return found


@pytest.mark.parametrize("label", ["quantitative", "tbl:supp_quant"])
def test_three_seeds_as_printed(tex, label):
    printed = cells_of(tex, label)
    assert len(printed) == (16 if label == "quantitative" else 8)
    for key, cells in printed.items():
        ours = [str(PAPER[key].scores[name]).replace(" ± ", r"$\pm$") for name in SCORES]
        assert ours == cells, key


def test_both_tables_together_are_all_of_it(tex):
    assert set(PAPER) == set(cells_of(tex, "quantitative")) | set(cells_of(tex, "tbl:supp_quant"))


def test_the_short_table_has_the_same_means(tex):
    printed = cells_of(tex, "tbl:tetro")
    assert len(printed) == 4
    for key, cells in printed.items():
        for name, cell in zip(SCORES[4:8], cells, strict=True):
            assert PAPER[key].scores[name].mean == float(cell.partition("$")[0]), key


@pytest.mark.parametrize("label", ["tbl:supp_abl_ras", "tbl:supp_abl_dyna"])
def test_one_seed_as_printed(tex, label):
    printed = cells_of(tex, label)
    assert len(printed) == 4
    for (model, data_set), cells in printed.items():
        if data_set == "clevr":
            data_set = "clevr10" if model == "coca-net-dyna" else "clevr6"
        row = PAPER_ONE_SEED[model, data_set]
        if label == "tbl:supp_abl_dyna":
            slots = cells.pop(0)
            assert row.slots is None or f"{row.slots:.2f}" == slots
        assert [str(row.scores[name]) for name in SCORES] == cells, (model, data_set)


def test_photographs_as_printed(tex):
    """The columns are Flowers and Birds, IoU and Dice each."""
    table = tex[tex.index(r"\label{tbl:suppl_quant_real}") :]
    heading = re.search(r"\{Flowers\}.*\{Birds\}", table[: table.index("BOQSA")])
    assert heading
    printed = {model: cells for (model, _), cells in cells_of(tex, "tbl:suppl_quant_real").items()}
    assert set(printed) == {"bo-qsa", "coca-net"}
    for model, cells in printed.items():
        for data_set, (iou, dice) in (("flowers", cells[:2]), ("birds", cells[2:])):
            row = PAPER_PHOTOGRAPHS[model, data_set]
            assert row.seeds == 1
            assert "background segments included" in row.note
            for suffix in ("", "_both"):
                ours = [str(row.scores[f"encoder_{name}{suffix}"]) for name in ("iou", "dice")]
                assert ours == [iou, dice], (model, data_set)
    assert len(PAPER_PHOTOGRAPHS) == 4


def test_every_preset_finds_its_data_set_and_every_model_has_a_title():
    named = {data_set_of(make().data) for make in presets.PRESETS.values()}
    assert set(PAPER_DATA_SETS) <= named <= {*PAPER_DATA_SETS, *PHOTOGRAPHS}
    assert {name for name, make in presets.PRESETS.items() if data_set_of(make().data) == name} == set(presets.PRESETS)
    assert {model for model, _ in [*PAPER, *PAPER_ONE_SEED]} == set(TITLES)


def test_a_variant_is_compared_with_its_own_row_if_there_is_one():
    rooms, clevr = presets.objects_room(), presets.clevr6()
    assert paper_row(presets.with_random_anchors(rooms).model, "objects-room").model == "coca-net-ras"
    assert paper_row(presets.with_random_anchors(clevr).model, "clevr6").model == "coca-net"
    assert paper_row(presets.with_dynamic_slots(clevr).model, "clevr10").slots == 7.49
    assert paper_row(presets.with_dynamic_slots(clevr).model, "clevr6") is None
    assert paper_row(clevr.model, "clevr10") is None
    assert paper_row(clevr.model, None) is None
    assert str(paper_row(clevr.model, "birds").scores["encoder_dice"]) == "0.7238"
    assert paper_row(presets.find("bo-qsa-clevr6").model, "flowers").model == "bo-qsa"
    assert paper_row(presets.find("inv-sa-clevr6").model, "flowers") is None
    assert "pretrained" in paper_row(presets.find("birds-features").model, "birds").note


def test_stores_are_recognised_by_their_recipe():
    for recipe, expected in (
        ({"name": "clevr", "max_objects": 6}, "clevr6"),
        ({"name": "clevr", "max_objects": 10}, "clevr10"),
        ({"name": "clevrtex", "max_objects": 10}, "clevrtex"),
        ({"name": "multi-dsprites", "max_objects": 5}, "multi-dsprites"),
        ({"name": "multi-dsprites", "max_objects": 3}, None),
        ({"name": "deepmind-tfrecord", "set": "tetrominoes", "file": "tetrominoes_train.tfrecords"}, "tetrominoes"),
        ({"name": "deepmind-tfrecord", "set": "clevr_with_masks", "split": "clevr6/test", "file": "c"}, "clevr6"),
        ({"name": "deepmind-tfrecord", "set": "multi_dsprites", "file": "multi_dsprites_binarized.tfrecords"}, None),
        ({"name": "ocl-hdf5", "file": "multidsprites_colored_on_grayscale-full.hdf5"}, "multi-dsprites"),
        ({"name": "folder", "folder": "tetrominoes"}, None),
        ({"name": "folder", "folder": "birds"}, None),
        ({"name": "birds", "folder": "CUB_200_2011", "split": "val", "size": 128}, "birds"),
        ({"name": "flowers", "folder": "flowers-102", "split": None}, "flowers"),
        ({"name": "flowers17", "folder": "flowers17"}, "flowers"),
    ):
        assert data_set_of_recipe(recipe) == expected


def test_a_changed_number_of_objects_is_another_data_set():
    assert data_set_of(replace(presets.multi_dsprites().data, max_objects=3)) == "multi-dsprites3"
    assert data_set_of(DataConfig("clevr")) == "clevr10"
