"""Labels and their edits: nothing is lost or overwritten."""

import json

import numpy as np
import pytest

from cocanet.explore import editing
from cocanet.explore import labels as labels_module
from cocanet.explore.labels import ConflictError, LabelFolder, read_document, write_document

LABELS = np.array(
    [
        [0, 0, 0, 0, 0, 0],
        [0, 1, 1, 0, 2, 2],
        [0, 1, 1, 0, 2, 2],
        [0, 0, 0, 0, 0, 0],
        [3, 3, 0, 1, 1, 0],
    ]
)
PARTS = np.arange(30).reshape(5, 6) // 6  # a part for each row


@pytest.fixture
def begun():
    return editing.begin("a.png", "weights", LABELS, level=2)


def ids(document):
    return [segment.id for segment in document.state.segments]


def test_labels_begin_as_predicted(begun):
    np.testing.assert_array_equal(begun.labels(), LABELS)
    assert ids(begun) == [0, 1, 2, 3]
    assert begun.state.background == 0


def test_merging(begun):
    merged = editing.merge(begun, [1, 2])
    expected = np.where(np.isin(LABELS, (1, 2)), 1, np.where(LABELS == 3, 2, 0))
    np.testing.assert_array_equal(merged.labels(), expected)
    into_background = editing.merge(begun, [2, 0])
    np.testing.assert_array_equal(into_background.labels() > 0, np.isin(LABELS, (1, 3)))
    with pytest.raises(ValueError, match="select at least two segments to merge"):
        editing.merge(begun, [1])


def test_a_merged_segment_keeps_a_name(begun):
    named = editing.set_category(begun, [2], "duck")
    assert editing.merge(named, [1, 2]).objects[0].category == "duck"


def test_deleting(begun):
    deleted = editing.delete(begun, [1, 3])
    np.testing.assert_array_equal(deleted.labels(), LABELS == 2)
    with pytest.raises(ValueError, match="the background cannot be deleted"):
        editing.delete(begun, [0])
    with pytest.raises(ValueError, match="select a segment to delete first"):
        editing.delete(begun, [])
    with pytest.raises(ValueError, match="there is no segment 9"):
        editing.delete(begun, [9])


def test_another_background(begun):
    changed = editing.set_background(begun, [2])
    labels = changed.labels()
    np.testing.assert_array_equal(labels == 0, LABELS == 2)
    assert len(changed.objects) == 3  # the old background is an object
    both = editing.set_background(begun, [0, 2])
    np.testing.assert_array_equal(both.labels() == 0, np.isin(LABELS, (0, 2)))


def test_splitting_by_the_level_below(begun):
    requested = []

    def parts(level):
        requested.append(level)
        return PARTS

    split = editing.split_by_level(begun, [1], parts)
    assert requested == [1]
    made = [segment for segment in split.objects if segment.id not in (2, 3)]
    assert [segment.level for segment in made] == [1, 1, 1]  # rows 1, 2 and 4
    for segment, row in zip(made, (1, 2, 4), strict=True):
        np.testing.assert_array_equal(split.mask(segment), (LABELS == 1) & (row == PARTS))
    with pytest.raises(ValueError, match="a cluster of the lowest level"):
        editing.split_by_level(split, [made[0].id], parts)
    with pytest.raises(ValueError, match="nothing to split"):
        editing.split_by_level(begun, [3], parts)


def test_of_a_split_background_the_largest_part_stays_it(begun):
    split = editing.split_by_level(begun, [0], lambda level: np.where(PARTS == 0, 0, 1))
    np.testing.assert_array_equal(split.labels() == 0, (LABELS == 0) & (PARTS > 0))


def test_splitting_into_components(begun):
    apart = editing.split_by_component(begun, [1])
    masks = [apart.mask(segment) for segment in apart.objects if segment.id > 3]
    assert sorted(int(mask.sum()) for mask in masks) == [2, 4]
    assert all(segment.level == 2 for segment in apart.objects)


def test_naming(begun):
    named = editing.set_category(begun, [1, 3], "  rubber   duck ")
    assert [segment.category for segment in named.objects] == ["rubber duck", "", "rubber duck"]
    assert not any(segment.category for segment in editing.set_category(named, [1, 3], "").objects)
    for wrong in ("x" * 61, "a\x00b"):
        with pytest.raises(ValueError, match="a category is a name"):
            editing.set_category(begun, [1], wrong)
    with pytest.raises(ValueError, match="the background has no category"):
        editing.set_category(begun, [0, 1], "sky")


def test_labels_remember_that_masks_were_refined(begun):
    refined = editing.begin("a.png", "weights", LABELS, level=2, refined=True)
    edited = editing.split_by_component(editing.merge(refined, [1, 2]), [1])
    assert edited.state.refined
    assert not editing.restart(edited, LABELS, level=2).state.refined
    assert editing.restart(begun, LABELS, level=2, refined=True).state.refined
    assert not begun.state.refined


def test_undo_and_redo(begun):
    merged = editing.merge(begun, [1, 2])
    back = merged.moved(-1)
    np.testing.assert_array_equal(back.labels(), LABELS)
    np.testing.assert_array_equal(back.moved(1).labels(), merged.labels())
    with pytest.raises(ValueError, match="nothing to undo"):
        back.moved(-1)
    with pytest.raises(ValueError, match="nothing to redo"):
        merged.moved(1)
    other = editing.delete(back, [3])
    assert len(other.states) == 2  # what was undone is forgotten
    assert [begun.revision, merged.revision, back.revision, other.revision] == [1, 2, 3, 4]


def test_a_restart_can_be_undone(begun):
    again = editing.restart(editing.merge(begun, [1, 2]), PARTS, level=1)
    np.testing.assert_array_equal(again.labels(), PARTS)
    assert not set(ids(again)) & set(ids(begun))
    np.testing.assert_array_equal(again.moved(-2).labels(), LABELS)


def test_a_document_does_not_grow_for_ever(begun, monkeypatch):
    monkeypatch.setattr(labels_module, "MAX_STATES", 6)
    document = begun
    for _ in range(18):
        document = editing.restart(document, LABELS, level=2)
    assert len(document.states) == 6
    assert len(document.masks) == 4 * 6
    np.testing.assert_array_equal(document.labels(), LABELS)


def test_documents_come_back_from_disk(begun, tmp_path):
    document = editing.set_category(editing.split_by_level(begun, [1], lambda level: PARTS), [2], "größer")
    path = tmp_path / "below" / "a.png.json"
    write_document(path, document)
    assert read_document(path) == document
    assert [file.name for file in path.parent.iterdir()] == ["a.png.json"]
    assert read_document(tmp_path / "other.json") is None


def alter(path, **fields):
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | fields))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: alter(path, version=2), r"has labels of version 2; this cocanet reads version 1"),
        (lambda path: alter(path, current=0), "was edited by another program"),
        (lambda path: alter(path, format="other"), "holds no labels"),
        (lambda path: path.write_text("[1]"), "holds no labels"),
        (lambda path: path.write_text(path.read_text()[:-40]), "is damaged: expected JSON"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "is damaged: expected JSON"),
    ],
)
def test_what_this_version_did_not_write_is_refused_and_left_alone(begun, tmp_path, spoil, words):
    labels = LabelFolder(tmp_path)
    labels.edit("a.png", 0, lambda before: editing.merge(begun, [1, 2]))
    path = labels.path("a.png")
    spoil(path)
    before = path.read_bytes()
    for act in (lambda: labels.read("a.png"), lambda: labels.edit("a.png", 0, lambda before: begun)):
        with pytest.raises(ValueError, match=words) as error:
            act()
        assert str(path) in str(error.value)
        assert len(str(error.value).splitlines()) == 1
    assert path.read_bytes() == before


def test_a_signed_document_that_does_not_hold_together_is_refused(begun, tmp_path):
    from dataclasses import replace

    write_document(tmp_path / "a.json", replace(begun, masks=begun.masks[:2]))
    with pytest.raises(ValueError, match="is inconsistent"):
        read_document(tmp_path / "a.json")
    write_document(tmp_path / "a.json", replace(begun, size=(4, 4)))
    with pytest.raises(ValueError, match="is inconsistent"):
        read_document(tmp_path / "a.json")


def test_a_change_of_labels_that_others_changed_is_refused(begun, tmp_path):
    labels = LabelFolder(tmp_path)
    labels.edit("a.png", 0, lambda before: begun)
    labels.edit("a.png", 1, lambda before: editing.merge(before, [1, 2]))
    with pytest.raises(ConflictError, match="changed in another window"):
        labels.edit("a.png", 1, lambda before: editing.delete(before, [3]))
    np.testing.assert_array_equal(labels.read("a.png").labels() > 0, LABELS > 0)


def test_labels_are_found_again(begun, tmp_path):
    labels = LabelFolder(tmp_path)
    labels.edit("below/a.png", 0, lambda before: editing.set_category(begun, [1], "duck"))
    later = LabelFolder(tmp_path)
    assert later.names == {"below/a.png"}
    assert later.categories() == ["duck"]
    later.edit("below/a.png", 2, lambda before: editing.set_category(before, [2], "Cat"))
    assert later.categories() == ["Cat", "duck"]
