"""Test the papers' corpora in their real layouts, at tiny size, through the users' scripts."""

import gzip
import os
import subprocess
import sys
import tarfile

import pytest

from data_prep.corpora import collections, extract, iwslt14, ted, wmt14
from data_prep.corpora.segments import resolve_entities
from data_prep.files import sha256
from data_prep.io import read_json
from tests.conftest import ROOT
from tests.unit.data_prep.corpora import builders
from tests.unit.data_prep.corpora.builders import write_tar
from tests.unit.data_prep.files import assert_refused, read_tree

# ---- Archives. ----


def test_only_wanted_members_are_extracted(tmp_path):
    files = {"./in/x.tsv": b"x\n", "in/readme": b"r", "y.tsv": b"y\n"}
    for mode in ("w", "w:gz", "w:bz2", "w:xz"):
        path = write_tar(tmp_path / "a.tar", files, mode)
        sizes = extract.extract(path, tmp_path / mode, ["*.tsv"])
        assert sizes == {"in/x.tsv": 2, "y.tsv": 2}
        assert read_tree(tmp_path / mode) == {"in/x.tsv": b"x\n", "y.tsv": b"y\n"}
    builders.write_zip(tmp_path / "a.zip", {"in/x.en": "x\n"})
    (tmp_path / "b.en.gz").write_bytes(gzip.compress(b"b\n"))
    write_tar(tmp_path / "c.tar", {"c.en.gz": gzip.compress(b"c\n")}, "w")
    for name in ("a.zip", "b.en.gz", "c.tar"):
        extract.extract(tmp_path / name, tmp_path / "out", ["*.en", "*.en.gz"])
    expected = {"in/x.en": b"x\n", "b.en": b"b\n", "c.en": b"c\n"}
    assert read_tree(tmp_path / "out") == expected


@pytest.mark.parametrize("name", ["../x.tsv", "in/../../x.tsv", "/x.tsv", "..\\x.tsv", "C:/x.tsv"])
@pytest.mark.parametrize("write", [write_tar, builders.write_zip])
def test_paths_that_leave_the_folder_are_refused(tmp_path, name, write):
    path = write(tmp_path / "a", {name: b"x"})
    message = "leads out of the output folder"
    assert_refused(message, extract.extract, path, tmp_path / "out", ["nothing"])
    assert not list(tmp_path.rglob("*.tsv"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused_if_wanted(tmp_path, kind):
    link = {"link.tsv": (kind, "../../secret")}
    path = write_tar(tmp_path / "a.tgz", {"x.tsv": b"x"}, **link)
    message = "member 'link.tsv' is a link or a device"
    assert_refused(message, extract.extract, path, tmp_path / "out", ["*.tsv"])
    assert extract.extract(path, tmp_path / "other", ["x.tsv"]) == {"x.tsv": 1}
    assert read_tree(tmp_path / "other") == {"x.tsv": b"x"}


def test_damaged_and_wrong_archives_are_refused(tmp_path):
    archive = write_tar(tmp_path / "a.tgz", {"x.tsv": bytes(range(256)) * 999})
    content = archive.read_bytes()
    (tmp_path / "short.tgz").write_bytes(content[: len(content) // 2])
    (tmp_path / "text").write_bytes(b"hello")
    for name, members, message in (
        ("short.tgz", "*", "damaged or cut short"),
        ("text", "*", "neither tar nor zip nor gz"),
        ("none", "*", "no such file"),
        ("a.tgz", "*.xml", "holds none of *.xml"),
    ):
        arguments = tmp_path / name, tmp_path / "out", [members]
        assert_refused([f"{name}: ", message], extract.extract, *arguments)
    assert read_tree(tmp_path / "out") == {}


# ---- Corpora for translation. ----


def run_script(name, *arguments, path=""):
    """Run a script of data_prep, with the programs of `path` before all others."""
    environment = dict(os.environ, PYTHON=sys.executable)
    environment["PATH"] = f"{path}:{environment['PATH']}"
    line = ["bash", str(ROOT / "data_prep" / f"{name}.sh"), *map(str, arguments)]
    process = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60)
    assert process.returncode == 0, process.stderr
    return process.stderr


def read_texts(folder):
    return {name: content.decode().splitlines() for name, content in read_tree(folder).items()}


def test_ted(tmp_path):
    archive, out = builders.ted_archive(tmp_path / "ted_talks.tar.gz"), tmp_path / "out"
    line = ["--out", out, "--pairs", "de-en,en-zh_cn", "--archive", archive, "--workers", "2"]
    assert "next: bash data_prep/preprocess.sh --per-pair" in run_script("ted", *line)
    texts, before = read_texts(out / "text"), read_tree(out / "text")
    assert texts["de-en/train.en"] == [f"hello {i} 's" for i in (1, 2, 4, 5, 7, 8)] + ["c d"]
    assert texts["de-en/train.de"][-1] == "e"
    assert texts["en-zh_cn/train.en"][-1] == "a b"
    assert texts["en-zh_cn/test.zh_cn"] == ["yi"]
    manifest = read_json(out / "text" / "manifest.json")
    hashes = {row["file"]: row["sha256"] for row in manifest["outputs"]}
    assert hashes == {name: sha256(out / "text" / name) for name in hashes} and len(hashes) == 12
    assert manifest["counts"]["de-en"]["train"] == 7
    assert manifest["options"]["archives"][0]["sha256"] == sha256(archive)
    assert run_script("ted", *line).count("unchanged, skipped") == 3
    assert read_tree(out / "text") == before
    raw = ["--raw", f"{out}/raw", "--output", f"{tmp_path}/other", "--pairs"]
    words = ["--pairs: fr is no language of ", "valid: en, de, zh-cn"]
    assert_refused(words, ted.main, [*raw, "fr-en"])
    (out / "raw/all_talks_dev.tsv").unlink()
    assert_refused("no file all_talks_dev.tsv", ted.main, [*raw, "de-en"])
    assert not [name for name in read_tree(tmp_path / "other") if "train" in name]


def test_iwslt14(tmp_path):
    archive, out = builders.iwslt_archive(tmp_path / "de-en.tgz"), tmp_path / "out"
    run_script("iwslt14", "--out", out, "--archive", archive)
    texts = read_texts(out / "text" / "de-en")
    lines = ["A title en", "TED & me en", *(f"sentence {i} en" for i in range(46))]
    assert texts["valid.en"] == [lines[22], lines[45]]
    assert texts["train.en"] == [line for line in lines if line not in texts["valid.en"]]
    assert [line.replace("de", "en") for line in texts["train.de"]] == texts["train.en"]
    assert texts["test.de"][0] == 'TED.dev2010 1 "de"'
    assert [line.split()[0] for line in texts["test.en"][::2]] == list(builders.IWSLT_SETS)
    raw = ["--raw", f"{out}/raw", "--output", f"{tmp_path}/none", "--pairs", "en-de"]
    (path,) = (out / "raw").rglob("IWSLT14.TED.tst2010.de-en.en.xml")
    path.write_bytes(b'<seg id="1"> a </seg>\n<seg id="3"> b </seg>\n')
    assert_refused("segment 2 has id 2, but 3 in", iwslt14.main, raw)
    (train,) = (out / "raw").rglob("train.tags.de-en.de")
    train.write_bytes(train.read_bytes() + b"one more\n")
    words = ["unequal line counts: ", "train.tags.de-en.de has 50", " has 49"]
    assert_refused(words, iwslt14.main, raw)
    assert read_tree(tmp_path / "none") == {}


@pytest.mark.cases(
    "lang count valid",
    ("de", 198, ["training/europarl-v7.de-en 99 de", "training/news-commentary-v9.de-en 9 de"]),
    ("fr", 1404, ["giga-fren.release2.fixed 1127 fr"]),
)
def test_wmt14(tmp_path, lang, count, valid):
    archives = builders.wmt_archives(tmp_path, lang)
    pairs = ["--pairs", f"en-{lang}"]
    run_script("wmt14", "--out", tmp_path / "out", *pairs, "--archive", *archives)
    texts = read_texts(tmp_path / f"out/text/en-{lang}")
    assert len(texts[f"train.{lang}"]) == len(texts["train.en"]) == count
    assert texts[f"valid.{lang}"] == valid
    assert (texts["test.en"], texts[f"test.{lang}"]) == (["src en"], [f"ref {lang}"])
    line = ["--raw", f"{tmp_path}/out/raw", "--output", f"{tmp_path}/x", "--pairs", "en-cs"]
    assert_refused("--pairs en-cs: valid: en-de, de-en, en-fr, fr-en", wmt14.main, line)


def test_ml50_training_sets_hold_no_duplicate_and_no_test_sentence(tmp_path):
    archive = builders.ml50_archive(tmp_path / "ml50.tar.gz")
    run_script("ml50", "--out", tmp_path / "out", "--archive", archive)
    texts = read_texts(tmp_path / "out/text")
    for pair, lang in builders.ML50_PAIRS.items():
        assert texts[f"{pair}/train.{lang}"] == [f"train {pair} {i} {lang}" for i in range(6)]
    counts = read_json(tmp_path / "out/text/manifest.json")["counts"]["de_DE-en_XX"]
    assert counts["dropped"] == {"train: duplicate": 1, "train: in valid or test": 2}


def test_entities_are_resolved_once_and_only_with_a_semicolon():
    assert resolve_entities(" &quot;a&quot; &#91;b&#93; &#x41; &amp;quot;") == '"a" [b] A &quot;'
    text = "AT&T, R&amp;D &copy 2014, a &lt b"
    assert resolve_entities(text) == "AT&T, R&D &copy 2014, a &lt b"


def test_archives_are_fetched_once(tmp_path):
    archive = builders.ted_archive(tmp_path / "ted_talks.tar.gz")
    curl = tmp_path / "bin" / "curl"
    curl.parent.mkdir()
    find_output = "while [ $# -gt 1 ]; do [ $1 = --output ] && part=$2; shift; done"
    body = f'echo "$1" >>{tmp_path}/urls; cat {archive} >"$part"'
    curl.write_text(f"#!/bin/bash\n{find_output}\n{body}\n")
    curl.chmod(0o755)
    for _ in range(2):
        run_script("ted", "--out", tmp_path / "out", "--pairs", "de-en", path=curl.parent)
    assert (tmp_path / "urls").read_text() == "http://phontron.com/data/ted_talks.tar.gz\n"
    fetched = tmp_path / "out/archives/ted_talks.tar.gz"
    assert fetched.read_bytes() == archive.read_bytes()
    assert (tmp_path / "out/text/de-en/test.de").is_file()


# ---- Corpora for generation. ----

NCLS_PARTS = {"Article": "the document\ngoes on", "EN-REF1": "first", "ZH-REF1": "一"}
NCLS_PARTS.update(
    {"ZH-REF1-human-corrected": "壹", "ZH-REF2": "二", "ZH-REF2-human-corrected": "贰"}
)
NCLS_BODY = "".join(f"<{name}>\n{text}\n</{name}>\n" for name, text in NCLS_PARTS.items())
NCLS = {"EN2ZHSUM/EN2ZHSUM_{}.txt": f"<doc id=0>\n{NCLS_BODY}</doc>\n"}
# As programs that read ZH2ENSUM expect it: the articles are LCSTS's, by id.
ZH2EN = """<doc id=7>
<en-summary>
summary
</en-summary>
<back-translated-zh-summary>
摘要
</back-translated-zh-summary>
</doc>
"""
LCSTS = """<doc id=7>
    <summary>
        题
    </summary>
    <short_text>
        正文
    </short_text>
</doc>
"""
XGIGA = {"{}.x.fr": "un document\n", "{}.y.fr": "titre\n"}
XQG = {"{}.e.zh.lc": "passage\n", "{}.q.zh.lc": "question ?\n", "{}.a.zh.lc": "answer\n"}
WIKILINGUA = {"spanish/{}.src.es": "Artículo\n", "spanish/{}.tgt.en": "summary\n"}
XGLUE_NTG = {"NTG/xglue.ntg.en.src.{}": "a\n", "NTG/xglue.ntg.en.tgt.{}": "b\n"}
XGLUE_QG = {"QG/xglue.qg.de.src.{}": "a\n", "QG/xglue.qg.de.tgt.{}": "b\n"}
LAYOUTS = {
    "xgiga": ("dev", XGIGA, "--from fr", ("un document", "titre")),
    "xqg": ("dev", XQG, "--from zh", ("passage [S] answer", "question ?")),
    "wikilingua": ("val", WIKILINGUA, "--from es --to en", ("Artículo", "summary")),
    "xglue-ntg": ("dev", XGLUE_NTG, "", ("a", "b")),
    "xglue-qg": ("dev", XGLUE_QG, "--from de", ("a", "b")),
    "ncls": ("valid", NCLS, "", ("the document goes on", "壹 贰")),
}
"""Layout -> its name of the valid split, files of a split, options, source and target."""


def write_text(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_generation_tasks(tmp_path, layout):
    assert set(LAYOUTS) == set(collections.LAYOUTS)
    valid, files, more, texts = LAYOUTS[layout]
    line = f"--layout {layout} --folder {tmp_path}/raw --output-dir {tmp_path}/out {more}".split()
    for split in ("train", valid, "test"):
        for name, content in files.items():
            name = name.format(split)
            assert_refused(["--folder", f"no {name}"], collections.main, line)
            write_text(tmp_path / "raw" / name, content)
    collections.main(line)
    expected = {
        f"{split}.{side}": [text]
        for split in ("train", "valid", "test")
        for side, text in zip(("source", "target"), texts)
    }
    outputs = read_texts(tmp_path / "out")
    outputs.pop("corpora.json")
    assert outputs == expected


def test_each_direction_of_ncls_has_its_files(tmp_path):
    line = f"--layout ncls --folder {tmp_path} --splits test --output-dir {tmp_path}/out"
    line = [*line.split(), "--from", "zh"]
    for name, text in NCLS.items():
        write_text(tmp_path / name.format("test"), text)
    assert_refused("no ZH2ENSUM/ZH2ENSUM_test.txt", collections.main, line)
    articles = write_text(tmp_path / "PART_I.txt", LCSTS)
    complete = ZH2EN.replace("<en-summary>", "<Article>\n正文\n</Article>\n<EN-REF1>")
    for text, more in (
        (complete, ["--to", "en"]),
        (complete, []),
        (ZH2EN, ["--to", "en", "--articles", str(articles)]),
    ):
        write_text(tmp_path / "ZH2ENSUM/ZH2ENSUM_test.txt", text)
        collections.main([*line, *more])
        texts = read_texts(tmp_path / "out")
        assert (texts["test.source"], texts["test.target"]) == (["正文"], ["summary"])
        options = read_json(tmp_path / "out" / "corpora.json")["options"]
        assert (options["source"], options["target"]) == ("zh", "en")
    assert_refused(["line 8", "--articles PART_I.txt"], collections.main, line)
    write_text(articles, "<doc id=7>\n</doc>\n")
    more = ["--articles", str(articles)]
    assert_refused("PART_I.txt: no text", collections.main, [*line, *more])


@pytest.mark.cases(
    "layout direction valid",
    ("ncls", "--to en", "--from en --to zh or --from zh --to en"),
    ("ncls", "--from zh --to zh", "--from en --to zh or --from zh --to en"),
    ("ncls", "--from fr --to zh", "--from en --to zh or --from zh --to en"),
    ("xgiga", "--from fr --to en", "--from fr --to fr"),
    ("xqg", "--from zh --to en", "--from zh --to zh"),
    ("xglue-ntg", "--to de", "--from en --to en"),
    ("xglue-qg", "--from de --to en", "--from de --to de"),
)
def test_directions_without_parallel_text_are_refused(tmp_path, layout, direction, valid):
    """Write files of both languages whose lines are no translations."""
    valid_split, files, *_ = LAYOUTS[layout]
    for split in ("train", valid_split, "test"):
        for name, content in files.items():
            for old, new in ((".de", ".en"), (".en", ".de"), (".fr", ".en"), (".zh", ".en")):
                for file_name in (name, name.replace(old, new)):
                    write_text(tmp_path / file_name.format(split), content)
    line = f"--layout {layout} --folder {tmp_path} --output-dir {tmp_path}/out {direction}"
    words = [f"valid with --layout {layout}: {valid}", *direction.split()]
    assert_refused(words, collections.main, line.split())


def test_corpora_of_named_files_and_bad_options(tmp_path):
    for name, text in (("a.en", "x\ny\n"), ("a.de", "u\nv\n"), ("short", "u\n")):
        write_text(tmp_path / name, text)
    out, raw = f"--output-dir {tmp_path}/out", f"--folder {tmp_path}"
    en, de = f"--sources {tmp_path}/a.en", f"--targets {tmp_path}/a.de"
    collections.main(f"--layout lines {en} {de} --splits test --langs en de {out}".split())
    assert (tmp_path / "out/test.en").read_text() == "x\ny\n"
    assert (tmp_path / "out/test.de").read_text() == "u\nv\n"
    for line, message in (
        (f"lines {raw}", "--layout lines: valid: --sources FILE"),
        (f"lines {en} {de} --splits test --from zh", "without --from, --to and --articles"),
        (f"xgiga {raw} --articles {tmp_path}/a.en", "valid with --layout ncls --from zh"),
        (f"xgiga {raw} {en}", "--layout xgiga: valid: --folder DIR alone"),
        (f"xgiga {raw} --splits dev", "--splits dev: valid: of train, valid, test"),
        (f"lines {en} {de}", "3 names for 1 of --sources"),
        (f"lines {en} --targets {tmp_path}/short --splits test", "a.en"),
    ):
        assert_refused(message, collections.main, f"--layout {line} {out}".split())
    write_text(tmp_path / "EN2ZHSUM/EN2ZHSUM_test.txt", "<doc id=1>\n</doc>\n")
    line = f"--layout ncls {raw} --splits test {out}".split()
    assert_refused("line 2: a document without", collections.main, line)
