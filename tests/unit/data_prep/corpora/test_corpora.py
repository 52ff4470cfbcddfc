"""The papers' corpora in their real layouts, at tiny size, through the scripts that a user runs; their archives."""

import gzip
import io
import os
import subprocess
import sys
import tarfile
import zipfile

import pytest

from data_prep.corpora import collections as corpora
from data_prep.corpora import extract, iwslt14, ted, wmt14
from data_prep.corpora.segments import resolve_entities
from data_prep.files import sha256
from data_prep.io import read_json
from tests.unit.data_prep.files import assert_refused, read_tree


def tar(path, files, mode="w:gz", **special):
    """An archive with files; ``special`` maps a name to a member type and its link."""
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for name, (kind, link) in special.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, link
            archive.addfile(member)
    return path


def test_only_wanted_members_come_out(tmp_path):
    for mode in ("w", "w:gz", "w:bz2", "w:xz"):
        path = tar(tmp_path / "a.tar", {"./in/x.tsv": b"x\n", "in/readme": b"r", "y.tsv": b"y\n"}, mode)
        assert extract.extract(path, tmp_path / mode, ["*.tsv"]) == {"in/x.tsv": 2, "y.tsv": 2}
        assert read_tree(tmp_path / mode) == {"in/x.tsv": b"x\n", "y.tsv": b"y\n"}
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("in/x.en", "x\n")
    (tmp_path / "b.en.gz").write_bytes(gzip.compress(b"b\n"))
    tar(tmp_path / "c.tar", {"c.en.gz": gzip.compress(b"c\n")}, "w")
    for name in ("a.zip", "b.en.gz", "c.tar"):
        extract.extract(tmp_path / name, tmp_path / "out", ["*.en", "*.en.gz"])
    assert read_tree(tmp_path / "out") == {"in/x.en": b"x\n", "b.en": b"b\n", "c.en": b"c\n"}


@pytest.mark.parametrize("name", ["../x.tsv", "in/../../x.tsv", "/x.tsv", "..\\x.tsv", "C:/x.tsv"])
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_paths_out_of_the_folder_are_refused(tmp_path, name, kind):
    path = tmp_path / "a"
    if kind == "tar":
        tar(path, {name: b"x"})
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(zipfile.ZipInfo(name), "x")
    words = ["refused, because its member ", "leads out of the output folder"]
    assert_refused(words, extract.extract, path, tmp_path / "out", ["nothing"])
    assert not list(tmp_path.rglob("*.tsv"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_wanted_links_and_devices_are_refused_and_others_left_out(tmp_path, kind):
    path = tar(tmp_path / "a.tgz", {"x.tsv": b"x"}, **{"link.tsv": (kind, "../../secret")})
    assert_refused("member 'link.tsv' is a link or a device", extract.extract, path, tmp_path / "out", ["*.tsv"])
    assert extract.extract(path, tmp_path / "other", ["x.tsv"]) == {"x.tsv": 1}
    assert read_tree(tmp_path / "other") == {"x.tsv": b"x"}


def test_damaged_and_wrong_archives(tmp_path):
    whole = tar(tmp_path / "a.tgz", {"x.tsv": bytes(range(256)) * 999}).read_bytes()
    (tmp_path / "short.tgz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text").write_bytes(b"hello")
    for name, members, message in (
        ("short.tgz", "*", "damaged or cut short"),
        ("text", "*", "neither tar nor zip nor gz"),
        ("none", "*", "no such file"),
        ("a.tgz", "*.xml", "holds none of *.xml; is it the right archive"),
    ):
        assert_refused([f"{name}: ", message], extract.extract, tmp_path / name, tmp_path / "out", [members])
    assert read_tree(tmp_path / "out") == {}


def script(repo_root, name, *arguments, path=None):
    environment = dict(os.environ, PYTHON=sys.executable)
    environment["PATH"] = f"{path or ''}:{environment['PATH']}"
    line = ["bash", str(repo_root / "data_prep" / f"{name}.sh"), *map(str, arguments)]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stderr


def texts(folder):
    return {name: content.decode().splitlines() for name, content in read_tree(folder).items()}


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
    text, before = texts(out / "text"), read_tree(out / "text")
    assert text["de-en/train.en"] == [f"hello {i} 's" for i in (1, 2, 4, 5, 7, 8)] + ["c d"]
    assert (text["de-en/train.de"][-1], text["en-zh_cn/train.en"][-1]) == ("e", "a b")
    assert text["en-zh_cn/test.zh_cn"] == ["yi"]
    manifest = read_json(out / "text" / "manifest.json")
    rows = {row["file"]: row["sha256"] for row in manifest["outputs"]}
    assert rows == {name: sha256(out / "text" / name) for name in rows} and len(rows) == 12
    assert manifest["counts"]["de-en"]["train"] == 7
    assert manifest["options"]["archives"][0]["sha256"] == sha256(ted_archive)
    assert script(repo_root, "ted", *line).count("unchanged, skipped") == 3
    assert read_tree(out / "text") == before
    raw = ["--raw", f"{out}/raw", "--output", f"{tmp_path}/other", "--pairs"]
    assert_refused(["--pairs: fr is no language of ", "; valid: en, de, zh-cn"], ted.main, [*raw, "fr-en"])
    (out / "raw/all_talks_dev.tsv").unlink()
    assert_refused("no file all_talks_dev.tsv (the table of valid); is its archive among", ted.main, [*raw, "de-en"])
    assert not [name for name in read_tree(tmp_path / "other") if "train" in name]


SETS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")


def iwslt_files(count=46):
    files = {}
    for lang in ("de", "en"):
        lines = ["<url>http://www.ted.com/x</url>", "<keywords>talks</keywords>", "<talkid>1</talkid>"]
        lines += [f"<title>A title {lang}</title>", f"<description>TED &amp; me {lang}</description>", " "]
        lines += [f"sentence {i} {lang}" for i in range(count)] + ["<reviewer></reviewer>"]
        files[f"de-en/train.tags.de-en.{lang}"] = ("\n".join(lines) + "\n").encode()
        for name in SETS:
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
    assert [line.split()[0] for line in text["test.en"][::2]] == list(SETS)
    raw = ["--raw", f"{out}/raw", "--output", f"{tmp_path}/none", "--pairs", "en-de"]
    (path,) = (out / "raw").rglob("IWSLT14.TED.tst2010.de-en.en.xml")
    path.write_bytes(b'<seg id="1"> a </seg>\n<seg id="3"> b </seg>\n')
    assert_refused("segment 2 has id 2, but 3 in", iwslt14.main, raw)
    (train,) = (out / "raw").rglob("train.tags.de-en.de")
    train.write_bytes(train.read_bytes() + b"one more\n")
    assert_refused(["unequal line counts: ", "train.tags.de-en.de has 50", " has 49"], iwslt14.main, raw)
    assert read_tree(tmp_path / "none") == {}


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


@pytest.mark.cases(
    "lang count valid",
    ("de", 198, ["training/europarl-v7.de-en 99 de", "training/news-commentary-v9.de-en 9 de"]),
    ("fr", 1404, ["giga-fren.release2.fixed 1127 fr"]),
)
def test_wmt14(repo_root, tmp_path, lang, count, valid):
    archives = wmt_archives(tmp_path, lang, f"{lang}en")
    script(repo_root, "wmt14", "--out", tmp_path / "out", "--pairs", f"en-{lang}", "--archive", *archives)
    text = texts(tmp_path / f"out/text/en-{lang}")
    assert (len(text[f"train.{lang}"]), len(text["train.en"]), text[f"valid.{lang}"]) == (count, count, valid)
    assert (text["test.en"], text[f"test.{lang}"]) == (["src en"], [f"ref {lang}"])
    line = ["--raw", f"{tmp_path}/out/raw", "--output", f"{tmp_path}/x", "--pairs"]
    assert_refused("--pairs en-cs: valid: en-de, de-en, en-fr, fr-en", wmt14.main, [*line, "en-cs"])


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


def test_entities_are_resolved_once_and_where_they_end():
    assert resolve_entities(" &quot;a&quot; &#91;b&#93; &#x41; &amp;quot;") == '"a" [b] A &quot;'
    assert resolve_entities("AT&T, R&amp;D &copy 2014, a &lt b") == "AT&T, R&D &copy 2014, a &lt b"


def test_fetching_goes_on_where_it_stopped(ted_archive, repo_root, tmp_path):
    curl = tmp_path / "bin" / "curl"
    curl.parent.mkdir()
    body = f'echo "$1" >>{tmp_path}/urls; cat {ted_archive} >"$part"'
    curl.write_text(f"#!/bin/bash\nwhile [ $# -gt 1 ]; do [ $1 = --output ] && part=$2; shift; done\n{body}\n")
    curl.chmod(0o755)
    line = ["--out", tmp_path / "out", "--pairs", "de-en"]
    for _ in range(2):
        script(repo_root, "ted", *line, path=curl.parent)
    assert (tmp_path / "urls").read_text() == "http://phontron.com/data/ted_talks.tar.gz\n"
    assert (tmp_path / "out/archives/ted_talks.tar.gz").read_bytes() == ted_archive.read_bytes()
    assert (tmp_path / "out/text/de-en/test.de").is_file()


PARTS = {"Article": "the document\ngoes on", "EN-REF1": "first", "ZH-REF1": "一", "ZH-REF1-human-corrected": "壹"}
PARTS.update({"ZH-REF2": "二", "ZH-REF2-human-corrected": "贰"})
NCLS = "\n".join(["<doc id=0>", *(f"<{name}>\n{text}\n</{name}>" for name, text in PARTS.items()), "</doc>\n"])
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
WIKILINGUA = {"spanish/{}.src.es": "Artículo\n", "spanish/{}.tgt.en": "summary\n"}
QG = {"{}.e.zh.lc": "passage\n", "{}.q.zh.lc": "question ?\n", "{}.a.zh.lc": "answer\n"}
DEV, VAL, SAME = (("train", name, "test") for name in ("dev", "val", "valid"))
TRUE_LAYOUTS = {
    "xgiga": (DEV, {"{}.x.fr": "un document\n", "{}.y.fr": "titre\n"}, "--from fr", "un document", "titre"),
    "xqg": (DEV, QG, "--from zh", "passage [S] answer", "question ?"),
    "wikilingua": (VAL, WIKILINGUA, "--from es --to en", "Artículo", "summary"),
    "xglue-ntg": (DEV, {"NTG/xglue.ntg.en.src.{}": "a\n", "NTG/xglue.ntg.en.tgt.{}": "b\n"}, "", "a", "b"),
    "xglue-qg": (DEV, {"QG/xglue.qg.de.src.{}": "a\n", "QG/xglue.qg.de.tgt.{}": "b\n"}, "--from de", "a", "b"),
    "ncls": (SAME, {"EN2ZHSUM/EN2ZHSUM_{}.txt": NCLS}, "", "the document goes on", "壹 贰"),
}


@pytest.mark.parametrize("layout", TRUE_LAYOUTS)
def test_files_of_generation_tasks_in_their_layouts(tmp_path, layout):
    splits, files, more, source, target = TRUE_LAYOUTS[layout]
    assert set(TRUE_LAYOUTS) == set(corpora.LAYOUTS)
    line = f"--layout {layout} --folder {tmp_path}/raw --output-dir {tmp_path}/out {more}".split()
    for name, content in ((name.format(split), content) for split in splits for name, content in files.items()):
        assert_refused(["--folder", f"no {name}"], corpora.main, line)
        (tmp_path / "raw" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "raw" / name).write_text(content, encoding="utf-8")
    corpora.main(line)
    found = {name: text.decode().strip() for name, text in read_tree(tmp_path / "out").items() if name != "corpora.json"}
    sides = {"source": source, "target": target}
    assert found == {f"{split}.{side}": sides[side] for split in ("train", "valid", "test") for side in sides}


def ncls(folder, direction, text):
    """Write the test split of a direction; returns the options that read it."""
    file = folder / f"{direction}SUM" / f"{direction}SUM_test.txt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return f"--layout ncls --folder {folder} --splits test --output-dir {folder}/out"


def test_each_direction_of_ncls_has_files_of_its_own(tmp_path):
    line = [*ncls(tmp_path, "EN2ZH", NCLS).split(), "--from", "zh"]
    assert_refused("no ZH2ENSUM/ZH2ENSUM_test.txt", corpora.main, line)
    articles = tmp_path / "PART_I.txt"
    articles.write_text(LCSTS, encoding="utf-8")
    whole = ZH2EN.replace("<en-summary>", "<Article>\n正文\n</Article>\n<EN-REF1>")
    for text, more in (
        (whole, ["--to", "en"]),
        (whole, []),
        (ZH2EN, ["--to", "en", "--articles", str(articles)]),
    ):
        ncls(tmp_path, "ZH2EN", text)
        corpora.main([*line, *more])
        assert texts(tmp_path / "out")["test.source"] == ["正文"]
        assert texts(tmp_path / "out")["test.target"] == ["summary"]
        options = read_json(tmp_path / "out" / "corpora.json")["options"]
        assert (options["source"], options["target"]) == ("zh", "en")
    assert_refused(["line 8", "--articles PART_I.txt"], corpora.main, line)
    articles.write_text("<doc id=7>\n</doc>\n", encoding="utf-8")
    assert_refused("PART_I.txt: no text", corpora.main, [*line, "--articles", str(articles)])


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
def test_a_direction_that_a_corpus_does_not_have(tmp_path, layout, direction, valid):
    """Files of both languages are there: their lines do not belong together."""
    splits, files, *_ = TRUE_LAYOUTS[layout]
    for split in splits:
        for name, content in files.items():
            for old, new in ((".de", ".de"), (".de", ".en"), (".en", ".de"), (".fr", ".en"), (".zh", ".en")):
                path = tmp_path / name.format(split).replace(old, new)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
    line = f"--layout {layout} --folder {tmp_path} --output-dir {tmp_path}/out {direction}"
    assert_refused([f"valid with --layout {layout}: {valid}", *direction.split()], corpora.main, line.split())


def test_corpora_by_the_names_of_their_files_and_what_is_refused(tmp_path):
    for name, text in (("a.en", "x\ny\n"), ("a.de", "u\nv\n"), ("short", "u\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    out, en, de = f"--output-dir {tmp_path}/out", f"--sources {tmp_path}/a.en", f"--targets {tmp_path}/a.de"
    corpora.main(f"--layout lines {en} {de} --splits test --langs en de {out}".split())
    assert (tmp_path / "out/test.en").read_text() == "x\ny\n" and (tmp_path / "out/test.de").read_text() == "u\nv\n"
    raw = f"--folder {tmp_path}"
    for line, words in (
        (f"lines {raw}", "--layout lines: valid: --sources FILE"),
        (f"lines {en} {de} --splits test --from zh", "without --from, --to and --articles"),
        (f"xgiga {raw} --articles {tmp_path}/a.en", "valid with --layout ncls --from zh"),
        (f"xgiga {raw} {en}", "--layout xgiga: valid: --folder DIR alone"),
        (f"xgiga {raw} --splits dev", "--splits dev: valid: of train, valid, test"),
        (f"lines {en} {de}", "3 names for 1 of --sources"),
        (f"lines {en} --targets {tmp_path}/short --splits test", "a.en"),
    ):
        assert_refused(words, corpora.main, f"--layout {line} {out}".split())
    line = ncls(tmp_path, "EN2ZH", "<doc id=1>\n</doc>\n")
    assert_refused("line 2: a document without", corpora.main, line.split())
