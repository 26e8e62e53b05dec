"""The server by its routes: answers agree with the library, and refusals give a reason."""

import json
import re
import socket as sockets
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch
from PIL import Image

from cocanet.cli import main
from cocanet.config.slots import slot_limits, with_slots
from cocanet.data.generators import make_scenes
from cocanet.explain.compactness import compactness_maps
from cocanet.explain.steps import clustering_steps
from cocanet.explore.explorer import open_explorer
from cocanet.explore.guard import Address
from cocanet.explore.server import listen, make_app
from tests.explore.servers import noise, png, serve, small_explorer, url, write_images
from tests.predict.models import real


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("explored") / "images", 3)


@pytest.fixture(scope="module")
def running(folder):
    with serve(small_explorer(folder)) as running:
        yield running


@pytest.fixture
def key(running):
    return running.keys()[0]


def test_the_page_is_complete_and_refers_to_no_other_site(running):
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
    picture = Image.open(BytesIO(running.client.get(url(key, "thumbnail")).content))
    np.testing.assert_array_equal(np.asarray(picture), noise(16, 24))


SETTINGS = (
    {},
    {"slots": 3, "temperature": 2.5},
    {"dynamic": True, "scope_threshold": 0.2},
    {"refine": True},
)


def test_explanations_are_what_the_library_computes(tmp_path):
    """Masks, anchors, clustering steps and compactness, exactly."""
    folder, segmenter = write_images(tmp_path / "images", 2, (8, 12)), real()
    with serve(small_explorer(folder)) as running:
        for index, key in enumerate(running.keys()):
            image = noise(8, 12, seed=index)
            for settings in SETTINGS:
                answer = running.message(url(key, "explanation"), params=settings)
                np.testing.assert_array_equal(answer.arrays["image"], image)
                assert answer.header["refined"] == settings.get("refine", False)
                for level in (1, 2, 3):
                    lower = {name: value for name, value in settings.items() if name != "refine" or level == 3}
                    check_segments(answer, level, segmenter.segment(image, level=level, min_score=0, **lower))
                check_steps(running, segmenter, image, key, settings, answer)


def check_segments(answer, level, expected):
    arrays = {
        name.removesuffix(str(level)): values for name, values in answer.arrays.items() if name.endswith(str(level))
    }
    np.testing.assert_array_equal(arrays["labels"], expected.labels)
    np.testing.assert_array_equal(arrays["slot"], [part.slot for part in expected.segments])
    np.testing.assert_array_equal(arrays["area"], [part.area for part in expected.segments])
    np.testing.assert_array_equal(arrays["box"], [part.box for part in expected.segments])
    for name in ("centre", "compactness", "confidence"):
        values = np.array([getattr(part, name) for part in expected.segments], dtype=np.float32)
        np.testing.assert_array_equal(arrays[name], values)


def check_steps(running, segmenter, image, key, settings, answer):
    """Against the model itself, without the explorer."""
    slots, dynamic, threshold = (settings.get(name) for name in ("slots", "dynamic", "scope_threshold"))
    config = with_slots(segmenter.preset.model, slots, dynamic, threshold)
    limits = slot_limits(config, training=False)._replace(temperature=settings.get("temperature"))
    tensor = torch.from_numpy(image).permute(2, 0, 1)[None].float().div(255).contiguous()
    with torch.inference_mode():
        encoding = segmenter.model.encode(tensor, limits)
        maps = compactness_maps(segmenter.model, tensor, encoding, settings.get("temperature"))
    compactness = running.message(url(key, "compactness"), params=settings)
    for level in (1, 2, 3):
        expected = clustering_steps(encoding.levels, level - 1)
        np.testing.assert_allclose(answer.arrays[f"anchors{level}"], expected.anchors, atol=1e-5)
        steps = running.message(url(key, "steps"), params={**settings, "level": level})
        for name in ("scopes", "affinities", "clusters"):
            np.testing.assert_array_equal(steps.arrays[name], getattr(expected, name))
        assert steps.header["steps"] == expected.used
        np.testing.assert_array_equal(compactness.arrays[f"level{level}"], maps.levels[level - 1][0].numpy())
    np.testing.assert_array_equal(compactness.arrays["objects"], maps.objects[0].numpy())


def test_slots_and_the_scene_without_one(running, key):
    segmenter, image = real(), noise(16, 24)
    found = segmenter.explain(image)
    answer = running.message(url(key, "slots"))
    np.testing.assert_array_equal(answer.arrays["decoder"], found.slots.masks)
    np.testing.assert_array_equal(answer.arrays["images"], (found.slots.images * 255).round())
    scene = running.message(url(key, "scene"), params={"off": "1,2"})
    expected = found.scene(np.array([True, False, False, True]))
    np.testing.assert_array_equal(scene.arrays["image"], (expected * 255).round())
    refused = running.client.get(url(key, "scene"), params={"off": "4"})
    assert (refused.status_code, refused.json()["error"][:18]) == (400, "there is no slot 4")


def test_an_image_that_is_dropped_is_explained_like_any_other(running):
    image = noise(20, 30, seed=9)
    entry = running.client.post("/api/images", params={"name": "holiday photo.png"}, content=png(image)).json()
    assert entry["name"].startswith("dropped/holiday-photo-")
    answer = running.message(url(entry["key"], "explanation"))
    np.testing.assert_array_equal(answer.arrays["labels3"], real().segment(image, min_score=0).labels)
    np.testing.assert_array_equal(answer.arrays["image"], image)


def jpeg(pixels) -> bytes:
    file = BytesIO()
    Image.fromarray(pixels).save(file, "JPEG")
    return file.getvalue()


def black_png(side: int) -> bytes:
    """Many pixels in a few hundred bytes."""
    file = BytesIO()
    Image.new("1", (side, side)).save(file, "PNG")
    return file.getvalue()


def test_bad_uploads_are_refused_with_a_reason(running):
    uploads = {
        b"": "the file is empty",
        b"no image at all": "not an image",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>": "not an image",
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n": "not an image",
        png(noise(20, 20))[:-30]: "the PNG file is cut off",
        jpeg(noise(200, 200))[:2000]: "truncated",
        png(noise(20, 20)).replace(b"IDAT", b"IDAX"): "checksum",
        black_png(10_000): "10000×10000 pixels; expected at most 67,108,864",
        black_png(9_000): "9000×9000 pixels; expected at most 67,108,864",
    }
    for data, reason in uploads.items():
        answer = running.client.post("/api/images", content=data)
        assert answer.status_code == 400
        assert reason in answer.json()["error"]
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


def test_names_of_uploads_are_no_paths(running, folder):
    names = ("../../etc/passwd", "..\\..\\boot.ini", "/etc/shadow", "a\x00b.png", "nul\n.png", "")
    for name in names:
        entry = running.client.post("/api/images", params={"name": name}, content=png(noise(8, 12, seed=3))).json()
        stem = entry["name"].removeprefix("dropped/")
        assert all(letter.isalnum() or letter in "-._" for letter in stem)
        assert running.edit(entry["key"], "keep", 0).status_code == 200
        assert (folder / "coca-labels" / f"{entry['name']}.json").is_file()
        assert (folder / "coca-labels" / entry["name"]).is_file()


def test_no_other_file_is_served(running):
    paths = (
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
    )
    for path in paths:
        with sockets.create_connection(("127.0.0.1", running.address.port)) as connection:
            request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{running.address.port}\r\nConnection: close\r\n\r\n"
            connection.sendall(request.encode())
            answer = b""
            while part := connection.recv(65536):
                answer += part
        assert answer.startswith(b"HTTP/1.1 404"), answer[:200]
        assert json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]


def test_a_wrong_host_is_refused(running):
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "127.0.0.1:1", "[::1"):
        answer = running.client.get("/api/models", headers={"Host": host})
        assert answer.status_code in (400, 421)
        if answer.status_code == 421:
            assert "does not answer to" in answer.json()["error"]


def test_a_post_from_another_origin_is_refused(running):
    for origin in ("http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"):
        answer = running.client.post("/api/images", content=png(noise(8, 8)), headers={"Origin": origin})
        assert answer.status_code == 403
        assert "may not use this server" in answer.json()["error"]


def test_a_request_from_another_site_is_refused(running):
    answer = running.client.get("/api/models", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403
    for site in ("cross-site", "same-site", "anything"):  # another port of this machine is the same site
        headers = {"Sec-Fetch-Site": site}
        assert running.client.get("/api/models", headers=headers).status_code == 403, site
        assert running.client.get("/", headers=headers).status_code == 200  # a link to the page
    for site in ("none", "same-origin"):
        assert running.client.get("/api/models", headers={"Sec-Fetch-Site": site}).status_code == 200
    own = f"http://127.0.0.1:{running.address.port}"
    assert running.client.get("/api/models", headers={"Origin": own}).status_code == 200
    by_name = {"Host": f"localhost:{running.address.port}"}
    assert running.client.get("/api/models", headers=by_name).status_code == 200


def test_the_token_is_asked_for(folder, tmp_path):
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


def routes(explorer):
    """Method and path of every route, with names of nothing in the place of parameters."""
    app = make_app(explorer, Address("127.0.0.1", 1)).app
    for route in app.routes:
        for method in sorted(route.methods - {"HEAD"}):
            yield method, re.sub(r"{\w+}", "nothing", route.path)


def test_every_route_is_behind_the_guard(folder, tmp_path):
    explorer = small_explorer(folder, tmp_path)
    paths = list(routes(explorer))
    assert ("GET", "/api/exported/nothing") in paths
    assert ("POST", "/api/models/nothing/images/nothing/labels") in paths
    with serve(explorer, token="secret") as running:
        for method, path in paths:
            refusals = (
                (421, {"Host": "evil.example"}),
                (403, {"Origin": "http://evil.example"}),
                (403, {"Sec-Fetch-Site": "cross-site"}),
                (401, {}),
            )
            for status, headers in refusals:
                opening = path == "/" and "Sec-Fetch-Site" in headers  # any site may link to the page
                answer = running.client.request(method, path, headers=headers)
                assert answer.status_code == (401 if opening else status), (method, path, headers)
                assert answer.headers["x-content-type-options"] == "nosniff"


def test_edits_are_small(running, key):
    answer = running.client.post(url(key, "labels"), content=b" " * (2**20 + 1))
    assert (answer.status_code, answer.json()["error"][:14]) == (413, "more than 1 MB")


def test_a_download_is_an_attachment_and_nothing_but_exports(running, key):
    refused = running.client.get("/api/exported/store")
    assert (refused.status_code, refused.json()["error"][:36]) == (404, "no labels were exported as store sin")
    assert running.client.get("/api/exported/..%2f0.png").status_code in (400, 404)
    running.edit(key, "keep", 0)
    answer = running.client.post("/api/models/small/export/coco").json()
    given = running.client.get(answer["download"])
    assert given.headers["content-disposition"] == 'attachment; filename="objects.json"'
    assert given.headers["content-type"] == "application/octet-stream"
    assert given.content == Path(answer["path"]).read_bytes()


def test_listening():
    socket, address = listen("127.0.0.1", 0)
    with socket:
        assert address.token is not None
        assert len(address.token) >= 32
        assert address.url.endswith(f"/?token={address.token}")
        with pytest.raises(ValueError, match=f"cannot listen at 127.0.0.1:{address.port}: Address already in use"):
            listen("127.0.0.1", address.port)
    assert Address("192.168.1.5", 80, "t").url == "http://192.168.1.5:80/?token=t"
    assert Address("::1", 80).url == "http://[::1]:80/"
    anywhere = Address("0.0.0.0", 8000, "t")
    assert anywhere.answers_to("192.168.1.5:8000")
    assert not anywhere.answers_to("evil.example:8000")


def test_bad_settings_are_refused_with_a_reason(running, key):
    for settings, reason in (
        ({"slots": 0}, "slots must be at least 1; got 0"),
        ({"slots": 65}, "slots must be at most 64 here; got 65"),
        ({"slots": 60}, "cannot make 60 clusters"),
        ({"refine": 2}, "refine: input should be a valid boolean"),
        ({"temperature": 0}, "temperature must be above 0; got 0.0"),
        ({"temperature": "nan"}, "temperature must be above 0; got nan"),
        ({"temperature": "hot"}, "temperature:"),
        ({"scope_threshold": 0.5}, "for a fixed number of slots"),
        ({"scope_threshold": 2, "dynamic": True}, "scope_threshold must lie between 0 and 1"),
    ):
        answer = running.client.get(url(key, "explanation"), params=settings)
        assert answer.status_code == 400
        assert reason in answer.json()["error"]


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
                answer = running.client.get(url(keys[name], what))
                assert answer.status_code == 400
                assert words in answer.json()["error"]
        assert running.client.get(url(keys["0.png"], "explanation")).status_code == 200


def test_two_browsers_do_not_disturb_each_other(running, folder):
    keys, segmenter = running.keys(), real()
    wanted = [(keys[index % 3], index % 3, {"slots": 2 + index % 3, "refine": index % 2 == 0}) for index in range(12)]

    def look(job):
        key, number, settings = job
        answer = running.message(url(key, "explanation"), params=settings)
        return answer.arrays["labels3"], segmenter.segment(noise(16, 24, seed=number), min_score=0, **settings).labels

    with ThreadPoolExecutor(8) as pool:
        for got, expected in pool.map(look, wanted):
            np.testing.assert_array_equal(got, expected)


def test_labels_through_the_server(tmp_path):
    folder = write_images(tmp_path / "images", 2)
    with serve(small_explorer(folder)) as running:
        key = running.keys()[0]
        assert running.message(url(key, "labels")).header == {"revision": 0}
        found = real().segment(noise(16, 24), min_score=0).labels
        merged = running.edit(key, "merge", 0, [1, 2])
        assert merged.status_code == 200
        answer = running.message(url(key, "labels"))
        np.testing.assert_array_equal(answer.arrays["labels"] == 1, np.isin(found, (1, 2)))
        assert (answer.header["undo"], answer.header["redo"], answer.header["revision"]) == (1, 0, 2)
        late = running.edit(key, "delete", 0, [3])
        assert late.status_code == 409
        assert "changed in another window" in late.json()["error"]
        assert running.edit(key, "undo", 2).status_code == 200
        split = running.edit(key, "split", 3, [1])
        assert split.status_code == 200
        parts = real().segment(noise(16, 24), level=2, min_score=0).labels
        answer = running.message(url(key, "labels"))
        made = [segment["label"] for segment in answer.header["segments"] if segment["level"] == 2]
        for label in made:
            mask = answer.arrays["labels"] == label
            assert len(np.unique(parts[mask])) == 1
            np.testing.assert_array_equal(mask, (parts == parts[mask][0]) & (found == 1))
        wrong = running.edit(key, "explode", 4)
        assert (wrong.status_code, wrong.json()["error"][:20]) == (400, "cannot 'explode' lab")
        gallery = running.client.get("/api/models/small/gallery").json()["images"]
        assert [labelled for _, _, labelled in gallery] == [1, 0]
    with serve(small_explorer(folder)) as running:  # after a restart
        again = running.message(url(key, "labels"))
        assert again.header == answer.header
        np.testing.assert_array_equal(again.arrays["labels"], answer.arrays["labels"])


def test_labels_of_an_image_that_changed_are_refused_and_kept(tmp_path):
    folder = write_images(tmp_path / "images", 1)
    with serve(small_explorer(folder)) as running:
        key = running.keys()[0]
        running.edit(key, "keep", 0)
    (folder / "0.png").write_bytes(png(noise(10, 10)))
    document = folder / "coca-labels" / "0.png.json"
    before = document.read_bytes()
    with serve(small_explorer(folder)) as running:
        for answer in (running.client.get(url(key, "labels")), running.edit(key, "merge", 1, [1, 2])):
            assert answer.status_code == 400
            assert "labels of 24×16 pixels, but the image now has 10×10" in answer.json()["error"]
    assert document.read_bytes() == before


def test_labels_where_nothing_can_be_written(tmp_path):
    folder = write_images(tmp_path / "images", 1)
    (tmp_path / "labels").write_text("a file in the way")
    with serve(small_explorer(folder, tmp_path / "labels")) as running:
        key = running.keys()[0]
        answer = running.edit(key, "keep", 0)
        assert answer.status_code == 500
        assert "cannot write" in answer.json()["error"]


def test_opening_an_explorer(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = write_images(tmp_path / "photos", 2)
    explorer = open_explorer("tetrominoes", [str(folder)], refine=True)
    assert explorer.refine
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
    assert capsys.readouterr().err == (
        "coca: coca explore needs fastapi and scikit-image and uvicorn: pip install 'cocanet[explore]'\n"
    )


def test_a_model_without_a_hierarchy_is_refused(tmp_path, capsys):
    from cocanet.io.weights import write_weights
    from cocanet.models.build import build
    from cocanet.presets import find

    preset = find("slot-attention-tetrominoes")
    write_weights(tmp_path / "w.safetensors", preset, build(preset, seed=0).state_dict(), {})
    with pytest.raises(SystemExit):
        main(["explore", str(tmp_path / "w.safetensors")])
    assert "the explorer needs a COCA-Net; this model is a SlotAttention" in capsys.readouterr().err
