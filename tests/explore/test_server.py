"""The server by its routes: what it says is what the library computes, and what it refuses it refuses in words."""

import json
import socket as sockets
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import httpx
import numpy as np
import pytest
import torch
from PIL import Image

import cocanet
from cocanet.cli import main
from cocanet.data.scenes import make_scenes
from cocanet.explain.choices import level_choices
from cocanet.explain.compactness import compactness_maps
from cocanet.explore.explorer import Explorer
from cocanet.explore.gallery import FolderGallery
from cocanet.explore.guard import Address
from cocanet.explore.serving import listen, open_explorer
from cocanet.segment.paths import find_images
from tests.explore.serving import noise, png, serve, small_explorer, write_images
from tests.segment.models import real


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("explored") / "images", 3)


@pytest.fixture(scope="module")
def running(folder):
    with serve(small_explorer(folder)) as running:
        yield running


@pytest.fixture
def key(running):
    return running.client.get("/api/models/small/gallery").json()["images"][0][0]


def at(key: str, what: str, model: str = "small") -> str:
    return f"/api/models/{model}/images/{key}/{what}"


def test_the_page_comes_whole_and_asks_nobody_else(running):
    page = running.client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    texts = [page.text]
    for name in ("style.css", "main.js", "api.js", "picture.js", "labels.js", "icon.svg"):
        answer = running.client.get(f"/page/{name}")
        assert answer.status_code == 200
        texts.append(answer.text)
    assert not [
        text for text in texts if "http://" in text.replace("http://www.w3.org/2000/svg", "") or "https://" in text
    ]


def test_a_gallery_lists_its_images_by_keys_that_say_nothing(running, folder):
    gallery = running.client.get("/api/models/small/gallery").json()
    assert [name for _, name, _ in gallery["images"]] == ["0.png", "1.png", "2.png"]
    assert all(len(key) == 16 and key.isalnum() for key, _, _ in gallery["images"])


def test_a_thumbnail_is_a_picture(running, key):
    picture = Image.open(BytesIO(running.client.get(at(key, "thumbnail")).content))
    np.testing.assert_array_equal(np.asarray(picture), noise(16, 24))


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked", [{}, {"slots": 3, "temperature": 2.5}, {"dynamic": True, "stop_below": 0.2}, {"feedback": 2}]
)
def test_ten_images_are_told_as_the_library_computes_them(tmp_path, asked):
    """Masks, anchors, compactness and paths of trained weights on ten scenes, exactly."""
    scenes = make_scenes("multi-dsprites", count=10, seed=11)
    segmenter = cocanet.load("multi-dsprites")
    images = [scenes[index].image for index in range(10)]
    (tmp_path / "scenes").mkdir()
    for index, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / "scenes" / f"{index}.png")
    gallery = FolderGallery(find_images([tmp_path / "scenes"], tmp_path / "labels"), tmp_path / "labels")
    explorer = Explorer({"multi-dsprites": lambda: segmenter}, {"multi-dsprites": gallery}, tmp_path / "labels")
    with serve(explorer) as running:
        keys = [key for key, _, _ in running.client.get("/api/models/multi-dsprites/gallery").json()["images"]]
        for image, key in zip(images, keys, strict=True):
            told = running.message(at(key, "explanation", "multi-dsprites"), params=asked)
            np.testing.assert_array_equal(told.arrays["picture"], image)
            for level in (1, 2):
                found = segmenter.segment(image, level=level, **asked)
                check_segments(told, level, found)
            check_why(running, segmenter, image, key, asked, told)


def check_segments(told, level, found):
    arrays = {
        name.removesuffix(str(level)): values for name, values in told.arrays.items() if name.endswith(str(level))
    }
    np.testing.assert_array_equal(arrays["labels"], found.labels)
    np.testing.assert_array_equal(arrays["slot"], [part.slot for part in found.segments])
    np.testing.assert_array_equal(arrays["area"], [part.area for part in found.segments])
    np.testing.assert_array_equal(arrays["box"], [part.box for part in found.segments])
    for name in ("centre", "compactness", "confidence"):
        expected = np.array([getattr(part, name) for part in found.segments], dtype=np.float32)
        np.testing.assert_array_equal(arrays[name], expected)


def check_why(running, segmenter, image, key, asked, told):
    """Against the model itself, asked without the explorer."""
    from cocanet.config.slots import slot_limits, with_slots
    from cocanet.segment.settings import SegmentSettings

    model = segmenter.model
    config = with_slots(segmenter.preset.model, asked.get("slots"), asked.get("dynamic"), asked.get("stop_below"))
    feedback = segmenter._asked(SegmentSettings(feedback=asked.get("feedback")))[0]
    limits = slot_limits(config, training=False)._replace(temperature=asked.get("temperature"))
    tensor = torch.from_numpy(image).permute(2, 0, 1)[None].float().div(255).contiguous()
    with torch.inference_mode():
        out = model.encode(tensor, feedback, limits)
        maps = compactness_maps(model, tensor, out, asked.get("temperature"))
    for level in (1, 2):
        expected = level_choices(out.levels, level - 1)
        np.testing.assert_array_equal(told.arrays[f"anchors{level}"], expected.anchors)
        choices = running.message(at(key, "choices", "multi-dsprites"), params={**asked, "level": level})
        for name in ("scopes", "affinities", "clusters"):
            np.testing.assert_array_equal(choices.arrays[name], getattr(expected, name))
        assert choices.header["steps"] == expected.steps
    landscape = running.message(at(key, "landscape", "multi-dsprites"), params=asked)
    for level in (1, 2):
        np.testing.assert_array_equal(landscape.arrays[f"level{level}"], maps.levels[level - 1][0].numpy())
    np.testing.assert_array_equal(landscape.arrays["objects"], maps.objects[0].numpy())


def test_slots_and_the_scene_without_one(running, key):
    segmenter, image = real(), noise(16, 24)
    found = segmenter.explain(image)
    told = running.message(at(key, "slots"))
    np.testing.assert_array_equal(told.arrays["decoder"], found.slots.masks)
    np.testing.assert_array_equal(told.arrays["pictures"], (found.slots.pictures * 255).round())
    scene = running.message(at(key, "scene"), params={"off": "1,2"})
    expected = found.scene(np.array([True, False, False, True]))
    np.testing.assert_array_equal(scene.arrays["picture"], (expected * 255).round())
    answer = running.client.get(at(key, "scene"), params={"off": "4"})
    assert (answer.status_code, answer.json()["error"]) == (400, "slot 4 is not there: this image has 4")


def test_an_image_that_is_dropped_is_explained_like_any_other(running):
    image = noise(20, 30, seed=9)
    entry = running.client.post("/api/images", params={"name": "holiday photo.png"}, content=png(image)).json()
    assert entry["name"].startswith("dropped/holiday-photo-")
    told = running.message(at(entry["key"], "explanation"))
    np.testing.assert_array_equal(told.arrays["labels3"], real().segment(image).labels)
    np.testing.assert_array_equal(told.arrays["picture"], image)


def jpeg(pixels) -> bytes:
    file = BytesIO()
    Image.fromarray(pixels).save(file, "JPEG")
    return file.getvalue()


def huge_png() -> bytes:
    """A PNG that says it has a hundred megapixels, in a few hundred bytes."""
    file = BytesIO()
    Image.new("1", (10_000, 10_000)).save(file, "PNG")
    return file.getvalue()


def large_png() -> bytes:
    file = BytesIO()
    Image.new("1", (9_000, 9_000)).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        (b"", 400, "the file is empty"),
        (b"no image at all", 400, "not an image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 400, "not an image"),
        (png(noise(20, 20))[:-30], 400, "the PNG file is cut off"),
        (jpeg(noise(200, 200))[:2000], 400, "truncated"),
        (png(noise(20, 20)).replace(b"IDAT", b"IDAX"), 400, "checksum"),
        (huge_png(), 400, "limit"),
        (large_png(), 400, "9000×9000 pixels; expected at most 50,000,000"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", 400, "not an image"),
    ],
    ids=["empty", "text", "svg", "cut", "truncated", "checksum", "hundred-megapixels", "large", "postscript"],
)
def test_bad_uploads_are_refused_in_words(running, data, status, words):
    answer = running.client.post("/api/images", content=data)
    assert answer.status_code == status
    assert words in answer.json()["error"]
    assert "\n" not in answer.json()["error"]
    assert running.client.get("/api/models").status_code == 200


def test_too_many_bytes_are_not_even_read(running):
    with sockets.create_connection(("127.0.0.1", running.address.port)) as connection:
        host = f"127.0.0.1:{running.address.port}"
        head = f"POST /api/images HTTP/1.1\r\nHost: {host}\r\nContent-Length: 99999999999\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode())
        answer = ""
        while piece := connection.recv(65536):
            answer += piece.decode()
    assert answer.startswith("HTTP/1.1 413")
    assert "more than 64 MB" in answer

    def endless():
        for _ in range(70):
            yield bytes(2**20)

    try:
        streamed = running.client.post("/api/images", content=endless())
    except httpx.WriteError:
        return  # the server hung up before all of it was sent
    assert streamed.status_code == 413


@pytest.mark.parametrize("name", ["../../etc/passwd", "..\\..\\boot.ini", "/etc/shadow", "a\x00b.png", "nul\n.png", ""])
def test_names_of_uploads_lead_nowhere(running, folder, name):
    entry = running.client.post("/api/images", params={"name": name}, content=png(noise(8, 12, seed=3))).json()
    stem = entry["name"].removeprefix("dropped/")
    assert all(letter.isalnum() or letter in "-._" for letter in stem)
    answer = running.edit(entry["key"], "keep", 0)
    assert answer.status_code == 200
    kept = sorted((folder / "coca-labels").rglob("*.json"))
    assert (folder / "coca-labels" / f"{entry['name']}.json") in kept
    assert (folder / "coca-labels" / entry["name"]).is_file()


@pytest.mark.parametrize(
    "path",
    [
        "/page/../server.py",
        "/page/..%2fserver.py",
        "/page/%2e%2e/server.py",
        "/../../../../etc/passwd",
        "/api/models/small/images/..%2F..%2Fetc%2Fpasswd/thumbnail",
        "/api/models/small/images/0.png/explanation",
        "/api/models/../images/0/explanation",
        "/api/models/other/gallery",
        "/page/",
        "/docs",
        "/openapi.json",
    ],
)
def test_no_other_file_is_served(running, path):
    with sockets.create_connection(("127.0.0.1", running.address.port)) as connection:
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{running.address.port}\r\nConnection: close\r\n\r\n"
        connection.sendall(request.encode())
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 404"), answer[:200]
    assert json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "127.0.0.1:1", "[::1"]
)
def test_a_wrong_host_is_refused(running, host):
    answer = running.client.get("/api/models", headers={"Host": host})
    assert answer.status_code in (400, 421)
    if answer.status_code == 421:
        assert "does not answer to" in answer.json()["error"]


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"])
def test_a_post_from_another_origin_is_refused(running, origin):
    answer = running.client.post("/api/images", content=png(noise(8, 8)), headers={"Origin": origin})
    assert answer.status_code == 403
    assert "may not ask" in answer.json()["error"]


def test_a_request_that_another_site_began_is_refused(running):
    answer = running.client.get("/api/models", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403
    assert running.client.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200  # a link to the page
    own = f"http://127.0.0.1:{running.address.port}"
    assert running.client.get("/api/models", headers={"Origin": own}).status_code == 200
    by_name = {"Host": f"localhost:{running.address.port}"}
    assert running.client.get("/api/models", headers=by_name).status_code == 200


def test_beyond_this_machine_a_token_is_asked_for(folder, tmp_path):
    with serve(small_explorer(folder, tmp_path), token="secret") as running:
        for path in ("/", "/page/main.js", "/api/models"):
            answer = running.client.get(path)
            assert answer.status_code == 401
            assert "needs its token" in answer.json()["error"]
        assert running.client.get("/", params={"token": "secre"}).status_code == 401
        assert running.client.get("/", params={"token": "secret"}).status_code == 200
        cookie = running.client.cookies.jar
        assert all(one.has_nonstandard_attr("HttpOnly") for one in cookie)
        assert running.client.get("/api/models").status_code == 200  # by the cookie


def test_listening():
    socket, address = listen("127.0.0.1", 0)
    with socket:
        assert address.token is None
        with pytest.raises(ValueError, match=f"cannot listen at 127.0.0.1:{address.port}: Address already in use"):
            listen("127.0.0.1", address.port)
    assert Address("192.168.1.5", 80, "t").url == "http://192.168.1.5:80/?token=t"
    assert Address("::1", 80).url == "http://[::1]:80/"
    anywhere = Address("0.0.0.0", 8000, "t")
    assert anywhere.answers_to("192.168.1.5:8000")
    assert not anywhere.answers_to("evil.example:8000")


def test_other_hosts_get_a_token():
    socket, address = listen("0.0.0.0", 0)
    socket.close()
    assert address.token is not None
    assert len(address.token) >= 32


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"slots": 0}, "slots must be at least 1; got 0"),
        ({"slots": 65}, "slots must be at most 64 here; got 65"),
        ({"feedback": 10**9}, "feedback must be at most 64 rounds here"),
        ({"feedback": -1}, "feedback must be 0 or more rounds"),
        ({"temperature": 0}, "temperature must be above 0; got 0.0"),
        ({"temperature": "nan"}, "temperature must be above 0; got nan"),
        ({"temperature": "hot"}, "temperature:"),
        ({"stop_below": 0.5}, "for a fixed number of slots"),
        ({"stop_below": 2, "dynamic": True}, "stop_below must lie between 0 and 1"),
        ({"slots": 60}, "cannot make 60 clusters"),
    ],
)
def test_what_cannot_be_is_refused(running, key, asked, words):
    answer = running.client.get(at(key, "explanation"), params=asked)
    assert answer.status_code == 400
    assert words in answer.json()["error"]


def test_one_bad_image_harms_no_other(tmp_path):
    folder = write_images(tmp_path / "images", 2)
    (folder / "bad.png").write_bytes(b"nothing")
    (folder / "gone.png").write_bytes(png(noise(8, 12)))
    with serve(small_explorer(folder)) as running:
        images = running.client.get("/api/models/small/gallery").json()["images"]
        keys = {name: key for key, name, _ in images}
        (folder / "gone.png").unlink()
        for name, words in (("bad.png", "not an image"), ("gone.png", "No such file")):
            for what in ("thumbnail", "explanation"):
                answer = running.client.get(at(keys[name], what))
                assert answer.status_code == 400
                assert words in answer.json()["error"]
        assert running.client.get(at(keys["0.png"], "explanation")).status_code == 200


def test_two_browsers_do_not_disturb_each_other(running, folder):
    keys = [key for key, _, _ in running.client.get("/api/models/small/gallery").json()["images"]]
    segmenter = real()
    wanted = [(keys[index % 3], index % 3, {"slots": 2 + index % 3, "feedback": index % 2}) for index in range(24)]

    def look(job):
        key, number, asked = job
        told = running.message(at(key, "explanation"), params=asked)
        return told.arrays["labels3"], segmenter.segment(noise(16, 24, seed=number), **asked).labels

    with ThreadPoolExecutor(8) as pool:
        for got, expected in pool.map(look, wanted):
            np.testing.assert_array_equal(got, expected)


def test_labels_through_the_server(tmp_path):
    folder = write_images(tmp_path / "images", 2)
    with serve(small_explorer(folder)) as running:
        key = running.client.get("/api/models/small/gallery").json()["images"][0][0]
        assert running.message(at(key, "labels")).header == {"revision": 0}
        found = real().segment(noise(16, 24)).labels
        merged = running.edit(key, "merge", 0, [1, 2])
        assert merged.status_code == 200
        told = running.message(at(key, "labels"))
        np.testing.assert_array_equal(told.arrays["labels"] == 1, np.isin(found, (1, 2)))
        assert (told.header["undo"], told.header["redo"], told.header["revision"]) == (1, 0, 2)
        late = running.edit(key, "delete", 0, [3])
        assert late.status_code == 409
        assert "changed in another window" in late.json()["error"]
        assert running.edit(key, "undo", 2).status_code == 200
        split = running.edit(key, "split", 3, [1])
        assert split.status_code == 200
        parts = real().segment(noise(16, 24), level=2).labels
        told = running.message(at(key, "labels"))
        made = [thing["label"] for thing in told.header["things"] if thing["level"] == 2]
        for label in made:
            mask = told.arrays["labels"] == label
            assert len(np.unique(parts[mask])) == 1
            np.testing.assert_array_equal(mask, (parts == parts[mask][0]) & (found == 1))
        wrong = running.edit(key, "explode", 4)
        assert (wrong.status_code, wrong.json()["error"][:20]) == (400, "cannot 'explode' lab")
        gallery = running.client.get("/api/models/small/gallery").json()["images"]
        assert [labelled for _, _, labelled in gallery] == [1, 0]
    with serve(small_explorer(folder)) as running:  # after a restart
        again = running.message(at(key, "labels"))
        assert again.header == told.header
        np.testing.assert_array_equal(again.arrays["labels"], told.arrays["labels"])


def test_labels_of_an_image_that_changed_are_refused_and_kept(tmp_path):
    folder = write_images(tmp_path / "images", 1)
    with serve(small_explorer(folder)) as running:
        key = running.client.get("/api/models/small/gallery").json()["images"][0][0]
        running.edit(key, "keep", 0)
    (folder / "0.png").write_bytes(png(noise(10, 10)))
    document = folder / "coca-labels" / "0.png.json"
    before = document.read_bytes()
    with serve(small_explorer(folder)) as running:
        for answer in (running.client.get(at(key, "labels")), running.edit(key, "merge", 1, [1, 2])):
            assert answer.status_code == 400
            assert "labels of 24×16 pixels, but the image now has 10×10" in answer.json()["error"]
    assert document.read_bytes() == before


def test_labels_where_nothing_can_be_written(tmp_path):
    folder = write_images(tmp_path / "images", 1)
    (tmp_path / "labels").write_text("a file in the way")
    with serve(small_explorer(folder, tmp_path / "labels")) as running:
        key = running.client.get("/api/models/small/gallery").json()["images"][0][0]
        answer = running.edit(key, "keep", 0)
        assert answer.status_code == 500
        assert "cannot write" in answer.json()["error"]


def test_opening_an_explorer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = write_images(tmp_path / "photos", 2)
    explorer = open_explorer("tetrominoes", [str(folder)])
    assert explorer.models == ["tetrominoes"]
    assert explorer.labels.folder == folder / "coca-labels"
    assert len(explorer.entries("tetrominoes")) == 2
    with pytest.raises(ValueError, match="no file matches"):
        open_explorer("tetrominoes", [str(tmp_path / "nothing*")])
    fresh = open_explorer("tetrominoes", [])
    key = fresh.entries("tetrominoes")[5].key
    expected = make_scenes("tetrominoes", count=60, seed=4)[5].image
    np.testing.assert_array_equal(fresh.pixels("tetrominoes", key), expected)


def test_without_the_extra_the_command_says_what_to_do(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit) as end:
        main(["explore"])
    assert end.value.code == 2
    assert capsys.readouterr().err == "coca: coca explore needs fastapi and uvicorn: pip install 'cocanet[explore]'\n"


def test_a_model_without_a_hierarchy_is_refused(tmp_path, capsys):
    from cocanet.models.build import build
    from cocanet.presets import find
    from cocanet.weights import write_weights

    preset = find("slot-attention-tetrominoes")
    write_weights(tmp_path / "w.safetensors", preset, build(preset, seed=0).state_dict(), {})
    with pytest.raises(SystemExit):
        main(["explore", str(tmp_path / "w.safetensors")])
    assert "the explorer needs a COCA-Net; this model is a SlotAttention" in capsys.readouterr().err
