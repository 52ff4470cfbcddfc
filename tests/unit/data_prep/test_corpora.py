"""The papers' corpora in their real layouts, at tiny size, through the scripts that a user runs."""

import gzip
import os
import subprocess
import sys

import pytest

from data_prep import iwslt14, ml50, ted, wmt14
from data_prep.io import read_json, sha256
from data_prep.segments import resolve
from tests.unit.data_prep.files import lines, refused, tree
from tests.unit.data_prep.test_extract import tar


def script(repo_root, name, *arguments, status=0, path=None):
    """Run data_prep/NAME.sh; returns what it said."""
    environment = dict(os.environ, PYTHON=sys.executable)
    environment["PATH"] = f"{path or ''}:{environment['PATH']}"
    line = ["bash", str(repo_root / "data_prep" / f"{name}.sh"), *map(str, arguments)]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    return done.stderr


def texts(folder):
    return {name: content.decode().splitlines() for name, content in tree(folder).items()}


def table(rows):
    header = ["talk_name", "en", "de", "zh-cn"]
    return "".join("\t".join(row) + "\n" for row in [header, *rows]).encode()


@pytest.fixture
def ted_archive(tmp_path):
    train = [[f"talk{i}", f"hello {i} &apos;s", f"hallo {i}" if i % 3 else "__NULL__", f"ni {i}"] for i in range(9)]
    train += [["talk9", "a\u2028b", "", "x"], ["talk9", "c  d", "e", "__NULL__ "]]
    small = [["talk", "good day", "guten tag", "__NULL__"], ["talk", "one", "eins", "yi"]]
    files = {"all_talks_train.tsv": table(train), "all_talks_dev.tsv": table(small), "all_talks_test.tsv": table(small)}
    return tar(tmp_path / "ted_talks.tar.gz", files)


def test_ted(ted_archive, repo_root, tmp_path):
    out = tmp_path / "out"
    line = ["--out", out, "--pairs", "de-en,en-zh_cn", "--archive", ted_archive, "--workers", "2"]
    assert "next: bash data_prep/preprocess.sh --per-pair" in script(repo_root, "ted", *line)
    text, before = texts(out / "text"), tree(out / "text")
    assert text["de-en/train.en"] == [f"hello {i} 's" for i in (1, 2, 4, 5, 7, 8)] + ["c d"]
    assert (text["de-en/train.de"][-1], text["en-zh_cn/train.en"][-1]) == ("e", "a b")
    assert text["en-zh_cn/test.zh_cn"] == ["yi"]
    manifest = read_json(out / "text" / "manifest.json")
    rows = {row["file"]: row["sha256"] for row in manifest["outputs"]}
    assert rows == {name: sha256(out / "text" / name) for name in rows} and len(rows) == 12
    assert manifest["counts"]["de-en"]["train"] == 7
    assert manifest["options"]["archives"][0]["sha256"] == sha256(ted_archive)
    assert script(repo_root, "ted", *line).count("unchanged, skipped") == 3
    assert tree(out / "text") == before
    raw = ["--raw", f"{out}/raw", "--output", f"{tmp_path}/other", "--pairs"]
    refused(["--pairs: fr is no language of ", "; valid: en, de, zh-cn"], ted.main, [*raw, "fr-en"])
    path = out / "raw/all_talks_dev.tsv"
    path.write_bytes(path.read_bytes() + b"talk\tonly\n")
    refused("all_talks_dev.tsv, line 4: 2 columns; valid: 4", ted.main, [*raw, "de-en"])
    path.unlink()
    refused("no file all_talks_dev.tsv (the table of valid); is its archive among", ted.main, [*raw, "de-en"])
    assert not [name for name in tree(tmp_path / "other") if "train" in name]


def iwslt_files(count=46, sets=("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")):
    files = {}
    for lang in ("de", "en"):
        lines = ["<url>http://www.ted.com/x</url>", "<keywords>talks</keywords>", "<talkid>1</talkid>"]
        lines += [f"<title>A title {lang}</title>", f"<description>TED &amp; me {lang}</description>", " "]
        lines += [f"sentence {i} {lang}" for i in range(count)] + ["<reviewer></reviewer>"]
        files[f"de-en/train.tags.de-en.{lang}"] = ("\n".join(lines) + "\n").encode()
        for name in sets:
            segments = "".join(f'<seg id="{i}"> {name} {i} &quot;{lang}&quot; </seg>\n' for i in (1, 2))
            body = f'<?xml version="1.0"?>\n<mteval>\n<doc docid="1">\n{segments}</doc>\n</mteval>\n'
            files[f"de-en/IWSLT14.{name}.de-en.{lang}.xml"] = body.encode()
    return files


def test_iwslt14(repo_root, tmp_path):
    archive = tar(tmp_path / "de-en.tgz", iwslt_files())
    out = tmp_path / "out"
    script(repo_root, "iwslt14", "--out", out, "--archive", archive)
    text = texts(out / "text" / "de-en")
    train = ["A title en", "TED & me en", *(f"sentence {i} en" for i in range(46))]
    assert text["valid.en"] == [train[22], train[45]]
    assert text["train.en"] == [line for line in train if line not in text["valid.en"]]
    assert [line.replace("de", "en") for line in text["train.de"]] == text["train.en"]
    assert text["test.de"][0] == 'TED.dev2010 1 "de"'
    assert [line.split()[0] for line in text["test.en"][::2]] == [
        "TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012",
    ]  # fmt: skip
    raw = ["--raw", f"{out}/raw", "--output", f"{tmp_path}/en-de", "--pairs", "en-de"]
    iwslt14.main([*raw, "--test-sets", "tst2012", "--valid-sets", "tst2010,tst2011"])
    assert len(lines(tmp_path / "en-de/en-de/valid.en")) == 4
    raw[3] = f"{tmp_path}/none"
    refused(["no file IWSLT", "tst2099", "among --archive"], iwslt14.main, [*raw, "--test-sets", "tst2099"])
    refused("--valid-every 0: valid: 2 or more, or --valid-sets", iwslt14.main, [*raw, "--valid-every", "0"])
    (path,) = (out / "raw").rglob("IWSLT14.TED.tst2010.de-en.en.xml")
    for content, message in (
        (b'<seg id="1"> a </seg>\n<seg id="3"> b </seg>\n', "segment 2 has id 2, but 3 in"),
        (b'<seg id="1"> a\n</seg>\n', 'valid: <seg id="1">text</seg> on one line'),
    ):
        path.write_bytes(content)
        refused(message, iwslt14.main, raw)
    (train,) = (out / "raw").rglob("train.tags.de-en.de")
    train.write_bytes(train.read_bytes() + b"one more\n")
    refused(["unequal line counts: ", "train.tags.de-en.de has 50", " has 49"], iwslt14.main, raw)
    assert tree(tmp_path / "none") == {}


def wmt_archives(tmp_path, lang, code):
    def plain(name, count):
        return {f"{name}.{x}": "".join(f"{name} {i} {x}\r\n" for i in range(count)).encode() for x in (lang, "en")}

    sgm = {}
    for x in (lang, "en"):
        for role in ("src", "ref"):
            body = f'<srcset setid="newstest2014">\n<seg id="1">{role} {x}</seg>\n</srcset>\n'
            sgm[f"test-full/newstest2014-{code}-{role}.{x}.sgm"] = body.encode()
    archives = [
        tar(tmp_path / "training-parallel-europarl-v7.tgz", plain(f"training/europarl-v7.{lang}-en", 150)),
        tar(tmp_path / "training-parallel-commoncrawl.tgz", plain(f"commoncrawl.{lang}-en", 40)),
        tar(tmp_path / "training-parallel-nc-v9.tgz", plain(f"training/news-commentary-v9.{lang}-en", 10)),
        tar(tmp_path / "test-full.tgz", sgm),
        tar(tmp_path / "dev.tgz", plain("dev/newstest2013", 3)),
    ]
    if lang == "fr":
        archives.append(tar(tmp_path / "training-parallel-un.tgz", plain("un/undoc.2000.fr-en", 5)))
        giga = {f"{name}.gz": gzip.compress(text) for name, text in plain("giga-fren.release2.fixed", 1200).items()}
        archives.append(tar(tmp_path / "training-giga-fren.tar", giga, "w"))
    return archives


def test_wmt14_english_german(repo_root, tmp_path):
    archives = wmt_archives(tmp_path, "de", "deen")
    script(repo_root, "wmt14", "--out", tmp_path / "out", "--archive", *archives)
    text = texts(tmp_path / "out/text/en-de")
    assert len(text["train.de"]) == 198
    assert text["valid.de"] == ["training/europarl-v7.de-en 99 de", "training/news-commentary-v9.de-en 9 de"]
    assert (text["test.en"], text["test.de"]) == (["src en"], ["ref de"])
    raw = ["--raw", f"{tmp_path}/out/raw", "--output", f"{tmp_path}/other", "--pairs", "de-en"]
    wmt14.main([*raw, "--valid-set", "newstest2013"])
    assert len(lines(tmp_path / "other/de-en/valid.de")) == 3
    assert lines(tmp_path / "other/de-en/test.de") == ["src de"]


def test_wmt14_english_french_and_bad_pairs(repo_root, tmp_path):
    archives = wmt_archives(tmp_path, "fr", "fren")
    script(repo_root, "wmt14", "--out", tmp_path / "out", "--pairs", "en-fr", "--archive", *archives)
    text = texts(tmp_path / "out/text/en-fr")
    assert (len(text["train.fr"]), text["valid.fr"]) == (1405 - 1, ["giga-fren.release2.fixed 1127 fr"])
    line = ["--raw", f"{tmp_path}/out/raw", "--output", f"{tmp_path}/x", "--pairs"]
    for pairs, words in (
        ("en-cs", "--pairs en-cs: valid: en-de, de-en, en-fr, fr-en"),
        ("en-fr,en-de", "cut differently; valid: one run a pair"),
        ("en-de", "no file europarl-v7.de-en.en (the corpus europarl"),
    ):
        refused(words, wmt14.main, [*line, pairs])


def test_ml50(repo_root, tmp_path):
    """Without duplicates, and sentences of any pair's valid and test sets."""
    files = {}
    for pair, lang in (("de_DE-en_XX", "de_DE"), ("en_XX-fr_XX", "fr_XX")):
        for split, count in (("train", 6), ("valid", 2), ("test", 1)):
            for side in (lang, "en_XX"):
                rows = [f"{split} {pair} {i} {side}" for i in range(count)]
                if split == "train":
                    held = (f"{name} en_XX-fr_XX 0 en_XX" for name in ("test", "valid"))
                    rows += [rows[0], *(held if side == "en_XX" else ("held", "out"))]
                files[f"raw/{split}.{pair}.{side}"] = ("\n".join(rows) + "\n").encode()
    archive = tar(tmp_path / "ml50.tar.gz", files)
    script(repo_root, "ml50", "--out", tmp_path / "out", "--archive", archive)
    text = texts(tmp_path / "out/text")
    for pair, lang in (("de_DE-en_XX", "de_DE"), ("en_XX-fr_XX", "fr_XX")):
        assert text[f"{pair}/train.{lang}"] == [f"train {pair} {i} {lang}" for i in range(6)]
    counts = read_json(tmp_path / "out/text/manifest.json")["counts"]["de_DE-en_XX"]
    assert counts["dropped"] == {"train: duplicate": 1, "train: in valid or test": 2}
    (tmp_path / "raw").mkdir()
    refused("no file train.SRC-TGT.LANG", ml50.main, ["--raw", f"{tmp_path}/raw", "--output", f"{tmp_path}/x"])


def test_entities_are_resolved_once_and_where_they_end():
    assert resolve(" &quot;a&quot; &#91;b&#93; &#x41; &amp;quot;") == '"a" [b] A &quot;'
    assert resolve("AT&T, R&amp;D &copy 2014, a &lt b") == "AT&T, R&D &copy 2014, a &lt b"


def fake_curl(folder, body):
    folder.mkdir()
    (folder / "curl").write_text(
        f"#!/bin/bash\nwhile [ $# -gt 1 ]; do [ $1 = --output ] && part=$2; shift; done\n{body}\n"
    )
    (folder / "curl").chmod(0o755)
    return folder


def test_offline_is_said_in_one_line(repo_root, tmp_path):
    curl = fake_curl(tmp_path / "bin", "echo 'curl: (6) Could not resolve host' >&2; exit 6")
    for name, host in (("ted", "phontron"), ("iwslt14", "de-en.tgz"), ("wmt14", "europarl")):
        said = script(repo_root, name, "--out", tmp_path / name, status=2, path=curl)
        (error,) = (line for line in said.splitlines() if "error" in line)
        assert all(word in error for word in (host, "Could not resolve host", "--archive FILE..."))
    said = script(repo_root, "ml50", "--out", tmp_path / "ml50", status=2, path=curl)
    assert "ml50: error: ML50 cannot be fetched as a whole; valid: --archive" in said
    assert "no such file" in script(repo_root, "ted", "--out", "x", "--archive", "missing", status=2)


def test_fetching_goes_on_where_it_stopped(ted_archive, repo_root, tmp_path):
    curl = fake_curl(tmp_path / "bin", f'echo "$1" >>{tmp_path}/urls; cat {ted_archive} >"$part"')
    line = ["--out", tmp_path / "out", "--pairs", "de-en"]
    for _ in range(2):
        script(repo_root, "ted", *line, path=curl)
    assert (tmp_path / "urls").read_text() == "http://phontron.com/data/ted_talks.tar.gz\n"
    assert (tmp_path / "out/archives/ted_talks.tar.gz").read_bytes() == ted_archive.read_bytes()
    assert (tmp_path / "out/text/de-en/test.de").is_file()
