"""Archives that are the same bytes and hold plain files alone; a finished study is stored, another one is refused."""

import hashlib
import io
import json
import lzma
import tarfile

import pytest

from examples.recipes import archive, results
from examples.recipes.results import main, publish
from examples.recipes.studies import read_study
from tests.unit.recipes.test_studies import BEAM, write

MEMBERS = {"b/2.de": b"zwei\n", "a.json": b"{}"}


def test_the_same_members_give_the_same_archive(tmp_path):
    first, second = tmp_path / "1.tar.xz", tmp_path / "2.tar.xz"
    for name, content in MEMBERS.items():
        (tmp_path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / name).write_bytes(content)
    archive.write(first, MEMBERS)
    archive.write(second, archive.members_of(tmp_path / "folder"))
    assert first.read_bytes() == second.read_bytes() and archive.read(first) == MEMBERS
    with tarfile.open(first) as tar:
        assert [(one.name, one.mtime, one.uid, one.uname, one.mode) for one in tar] == [
            (name, 0, 0, "", 0o644) for name in sorted(MEMBERS)
        ]


def entry(name, kind=tarfile.REGTYPE):
    found = tarfile.TarInfo(name)
    found.type, found.linkname = kind, "/etc/passwd" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
    return found


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([entry("/etc/passwd")], "/etc/passwd: valid: plain files"),
        ([entry("a/../../b")], "a/../../b: valid: plain files"),
        ([entry("./a")], "./a: valid: plain files"),
        ([entry("a", tarfile.SYMTYPE)], "a: valid: plain files"),
        ([entry("a", tarfile.LNKTYPE)], "a: valid: plain files"),
        ([entry("a", tarfile.DIRTYPE)], "a: valid: plain files"),
        ([entry("a", tarfile.FIFOTYPE)], "a: valid: plain files"),
        ([entry("a"), entry("a")], "a is there twice"),
    ],
)
def test_archives_hold_plain_files_alone(tmp_path, entries, words):
    path = tmp_path / "one.tar.xz"
    with tarfile.open(path, "w:xz") as tar:
        for one in entries:
            tar.addfile(one, io.BytesIO())
    with pytest.raises(ValueError, match=words):
        archive.read(path)


def test_what_is_no_whole_archive_is_refused(tmp_path, capsys):
    path = tmp_path / "one.tar.xz"
    archive.write(path, MEMBERS)
    assert archive.main([str(path), "b/2.de"]) == 0 and capsys.readouterr().out == "zwei\n"
    assert archive.main([str(path), "none"]) == 1 and "no member none" in capsys.readouterr().err
    content = path.read_bytes()
    for broken in (content[:-40], b"text", lzma.compress(b"x" * 700)):
        path.write_bytes(broken)
        assert archive.main([str(path)]) == 1 and "archive" in capsys.readouterr().err


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """The folder of a study whose two runs are done; a function that changes its ledger."""
    (tmp_path / "studies").mkdir()
    arms = {"good": {"system": "at", "outputs": BEAM}}
    text = {"finding": "Good has 12.5 BLEU.", "cannot_tell": "It is a probe."}
    path = write(tmp_path / "studies", arms=arms, claims=[], seeds=[1], **text)
    for name, folder in (("STUDIES", "studies"), ("RESULTS", "results"), ("PAGES", "pages")):
        monkeypatch.setattr(results, name, tmp_path / folder)
    monkeypatch.setattr(results, "INDEX", tmp_path / "list.md")
    results.INDEX.write_text("Before.\n<!-- findings, made by hand -->\n\nOld.\n\n<!-- end -->\nAfter.\n")
    study, out = read_study(path), tmp_path / "out"
    facts = {"phase": "final", "status": "done", "commit": "c", "code": "abc"}
    entries = []
    for job in study.final():
        target = out / "outputs" / job.key / study.files(job)["beam"]
        target.parent.mkdir(parents=True)
        target.write_text(job.pair)
        scored = {"bleu": 12.5, "sha256": hashlib.sha256(target.read_bytes()).hexdigest(), "signature": {"bleu": "s"}}
        place = {"key": job.key, "arm": "good", "pair": job.pair, "seed": 1, "options": []}
        entries.append({**facts, **place, "outputs": {"beam": scored}})

    def store():
        (out / "ledger.json").write_text(json.dumps({"format": 1, "entries": entries}))

    (out / "study.json").write_text(json.dumps({"study": "probe", "code": "abc"}))
    store()
    return out, entries, store


def test_a_finished_study_is_stored_and_shown(finished, tmp_path, capsys):
    out, entries, store = finished
    assert main(["--publish", str(out)]) == 0
    assert "finding" not in capsys.readouterr().err
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["probe.json", "probe.tar.xz"]
    assert sorted(path.name for path in (tmp_path / "pages").iterdir()) == ["probe.md", "probe.svg"]
    findings = "- [Probe](results/probe.md): Good has 12.5 BLEU.\n"
    listed = f"Before.\n<!-- findings, made by hand -->\n\n{findings}\n<!-- end -->\nAfter.\n"
    assert results.INDEX.read_text() == listed
    members = archive.read(tmp_path / "results" / "probe.tar.xz")
    assert {key.split("/")[1]: value.decode() for key, value in members.items()} == {"en-de": "en-de", "de-en": "de-en"}
    page = (tmp_path / "pages" / "probe.md").read_text()
    assert page.startswith("# Probe\n\n**Good has 12.5 BLEU.** It is a probe.\n") and "| good | beam 5 | 12.5 |" in page
    for one in entries:
        one["outputs"]["beam"]["bleu"] = 13.5
    store()
    assert main(["--publish", str(out)]) == 0
    assert "finding: 12.5 is no mean in the new tables" in capsys.readouterr().err
    assert "| good | beam 5 | 13.5 |" in (tmp_path / "pages" / "probe.md").read_text()


def test_analyses_stand_at_the_end_of_the_page(finished, tmp_path):
    """A long table that has a plot is shown as the plot."""
    out, *_ = finished
    publish(out)
    long_table = "# Long\n" + "| row |\n" * results.LONG_TABLE
    members = {"short.md": b"## Short\n\n| a |", "long.md": long_table.encode(), "short.json": b"{}"}
    archive.write(tmp_path / "results" / "probe_analysis.tar.xz", members)
    (tmp_path / "pages" / "probe_analysis").mkdir(parents=True)
    (tmp_path / "pages" / "probe_analysis" / "long.svg").touch()
    assert main([]) == 0
    page = (tmp_path / "pages" / "probe.md").read_text()
    analyses = page.split("\n## Analyses\n")[1]
    assert "| row |" not in analyses and "(`long.md`)\n\n![long](probe_analysis/long.svg)\n" in analyses
    assert analyses.endswith("\n### short\n\n#### Short\n\n| a |\n")


def test_a_page_without_a_place_for_the_list_is_refused(finished, capsys):
    out, *_ = finished
    results.INDEX.write_text("Nothing.\n")
    assert main(["--publish", str(out)]) == 1 and "0 lists of findings" in capsys.readouterr().err


def test_what_is_not_finished_or_not_the_same_is_not_stored(finished, tmp_path, capsys):
    out, entries, store = finished
    entries[1]["status"] = "failed"
    store()
    assert main(["--publish", str(out)]) == 1
    assert "good, de-en, seed 1: failed" in capsys.readouterr().err
    last = entries.pop()
    store()
    with pytest.raises(ValueError, match="good, de-en, seed 1: not run"):
        publish(out)
    entries.append({**last, "status": "done"})
    store()
    (out / "outputs" / last["key"] / "beam.en").write_text("other")
    with pytest.raises(ValueError, match="beam.en: is not the one that was scored"):
        publish(out)
    with pytest.raises(ValueError, match="no study.json"):
        publish(tmp_path)
    assert not (tmp_path / "results").exists()


def test_a_part_of_a_study_is_published_and_restored_elsewhere(finished, tmp_path, capsys, monkeypatch):
    out, entries, store = finished
    entries[1]["status"] = "failed"
    store()
    assert main(["--publish", str(out), "--partial"]) == 0
    assert "1 of 2 final runs are there" in (tmp_path / "pages" / "probe.md").read_text()
    again = ["--restore", str(tmp_path / "new"), "--study", "probe"]
    assert main(again) == 1 and "no run of today's code" in capsys.readouterr().err
    monkeypatch.setattr(results, "digest", lambda *_: "abc")
    assert main(again) == 0 and "probe: 1 published runs restored" in capsys.readouterr().out
    key = entries[0]["key"]
    files = {path.relative_to(tmp_path / "new").as_posix() for path in (tmp_path / "new").rglob("*") if path.is_file()}
    assert files == {f"entries/{key}.json", f"outputs/{key}/beam.de"}
    assert (tmp_path / "new" / "outputs" / key / "beam.de").read_text() == "en-de"
    assert main(again) == 0 and "probe: 0 published" in capsys.readouterr().out, "what is there is left alone"


def test_a_run_that_starts_from_what_the_study_makes_is_not_restored(finished, tmp_path, monkeypatch):
    out, *_ = finished
    publish(out)
    arm = {"system": "at", "outputs": BEAM, "needs": ["teacher"]}
    text = {"run": "touch teacher", "makes": "teacher"}
    write(tmp_path / "studies", arms={"good": arm}, claims=[], seeds=[1], assets={"teacher": text})
    monkeypatch.setattr(results, "digest", lambda *_: "abc")
    assert results.restore("probe", tmp_path / "new") == []
    write(
        tmp_path / "studies", arms={"good": arm}, claims=[], seeds=[1], assets={"teacher": {"given": "$data/teacher"}}
    )
    assert len(results.restore("probe", tmp_path / "new")) == 2
    each = {"teacher": {"system": "at", "limits": {"updates": 9}, "each_seed": True}}
    write(tmp_path / "studies", arms={"good": arm}, claims=[], seeds=[1], assets=each)
    assert len(results.restore("probe", tmp_path / "again")) == 2, "of the same seed: as good as the one made again"
