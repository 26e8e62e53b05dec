"""The check of a site's links."""

from __future__ import annotations

import pytest
from tools.links import Site, main

GOOD = {
    "index.html": '<h1 id="top">A</h1><a href="#top">.</a><a href="pages/">.</a><a href="pages/two.html#b%20c">.</a>'
    '<img src="a%20b.png"><a href="https://example.org/x">.</a><a href="mailto:a@example.org">.</a>',
    "pages/index.html": '<a href="../index.html#top">.</a><script src="../a.js"></script>',
    "pages/two.html": '<p id="b c">.</p><a href="..">.</a><a>.</a>',
    "404.html": '<a href="/index.html">.</a>',
    "a.js": "",
    "a b.png": "",
}


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text)
    return Site(folder)


def test_a_site_whose_links_are_good(tmp_path, capsys):
    assert list(write(tmp_path, GOOD).faults()) == []
    main([str(tmp_path)])
    assert "10 links of 4 pages" in capsys.readouterr().out


def test_faults_are_named(tmp_path):
    for number, (text, fault) in enumerate(
        (
            ('<a href="gone.html">.</a>', "pages/two.html: gone.html: no such file"),
            ('<a href="../index.html#gone">.</a>', "pages/two.html: ../index.html#gone: no such place in index.html"),
            ('<a href="#gone">.</a>', "pages/two.html: #gone: no such place in two.html"),
            ('<img src="gone.png">', "pages/two.html: gone.png: no such file"),
            ('<a href="/index.html">.</a>', "pages/two.html: /index.html: leads out of the site"),
            ('<script src="https://example.org/a.js"></script>', "is fetched from elsewhere"),
            ('<link rel="stylesheet" href="//example.org/a.css">', "is fetched from elsewhere"),
        )
    ):
        folder = tmp_path / str(number)
        site = write(folder, GOOD | {"pages/two.html": f'<p id="b c">.</p>{text}'})
        (found,) = site.faults()
        assert found.endswith(fault)
        with pytest.raises(SystemExit) as end:
            main([str(folder)])
        assert end.value.code == found


def test_an_empty_folder_is_no_site(tmp_path):
    with pytest.raises(SystemExit) as end:
        main([str(tmp_path)])
    assert "no pages" in str(end.value.code)
