"""Test archives of plain files, and that only a finished study is stored."""

import hashlib
import io
import json
import lzma
import tarfile

import pytest

from examples.recipes import archive, results
from examples.recipes.results import main, publish
from examples.recipes.studies import read_study
from tests.unit.recipes.builders import BEAM, write_study

# ---- Archives. ----

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
        facts = [(member.name, member.mtime, member.uid, member.uname) for member in tar]
        assert facts == [(name, 0, 0, "") for name in sorted(MEMBERS)]
        assert {member.mode for member in tar} == {0o644}


@pytest.mark.cases(
    "name kind",
    ("/etc/passwd", tarfile.REGTYPE),
    ("a/../../b", tarfile.REGTYPE),
    ("./a", tarfile.REGTYPE),
    ("a", tarfile.SYMTYPE),
    ("a", tarfile.LNKTYPE),
    ("a", tarfile.DIRTYPE),
    ("a", tarfile.FIFOTYPE),
)
def test_archives_with_anything_but_plain_files_are_refused(tmp_path, name, kind):
    member = tarfile.TarInfo(name)
    member.type = kind
    if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
        member.linkname = "/etc/passwd"
    with tarfile.open(tmp_path / "x.tar.xz", "w:xz") as tar:
        tar.addfile(member, io.BytesIO())
    with pytest.raises(ValueError, match=f"{name}: valid: plain files"):
        archive.read(tmp_path / "x.tar.xz")


def test_repeated_members_and_damaged_archives_are_refused(tmp_path, capsys):
    path = tmp_path / "x.tar.xz"
    with tarfile.open(path, "w:xz") as tar:
        for _ in range(2):
            tar.addfile(tarfile.TarInfo("a"), io.BytesIO())
    with pytest.raises(ValueError, match="a is there twice"):
        archive.read(path)
    archive.write(path, MEMBERS)
    assert archive.main([str(path), "b/2.de"]) == 0 and capsys.readouterr().out == "zwei\n"
    assert archive.main([str(path), "none"]) == 1
    assert "no member none" in capsys.readouterr().err
    content = path.read_bytes()
    for damaged in (content[:-40], b"text", lzma.compress(b"x" * 700)):
        path.write_bytes(damaged)
        assert archive.main([str(path)]) == 1 and "archive" in capsys.readouterr().err


# ---- Studies. ----

ARM = {"system": "at", "outputs": BEAM}


def write_probe(folder, arm=ARM, **changes):
    options = {"arms": {"good": arm}, "claims": [], "seeds": [1], **changes}
    return write_study(folder / "studies", **options)


class FinishedStudy:
    """The folder of a study whose two runs are done; `store` writes its ledger."""

    def __init__(self, folder):
        self.out = folder / "out"
        (folder / "studies").mkdir()
        texts = {"finding": "Good has 12.5 BLEU.", "cannot_tell": "It is a probe."}
        study = read_study(write_probe(folder, **texts))
        self.entries = [self.finish(study, job) for job in study.final()]
        (self.out / "study.json").write_text(json.dumps({"study": "probe", "code": "abc"}))
        self.store()

    def finish(self, study, job):
        """Write the output of a run; return its entry."""
        output = self.out / "outputs" / job.key / study.files(job)["beam"]
        output.parent.mkdir(parents=True)
        output.write_text(job.pair)
        digest = hashlib.sha256(output.read_bytes()).hexdigest()
        scores = {"bleu": 12.5, "sha256": digest, "signature": {"bleu": "s"}}
        run = {"key": job.key, "arm": "good", "pair": job.pair, "seed": 1, "options": []}
        facts = {"phase": "final", "status": "done", "commit": "c", "code": "abc"}
        return {**run, **facts, "outputs": {"beam": scores}}

    def store(self):
        content = {"format": 1, "entries": self.entries}
        (self.out / "ledger.json").write_text(json.dumps(content))


@pytest.fixture
def finished(tmp_path, monkeypatch):
    for name, folder in (("STUDIES", "studies"), ("RESULTS", "results"), ("PAGES", "pages")):
        monkeypatch.setattr(results, name, tmp_path / folder)
    monkeypatch.setattr(results, "INDEX", tmp_path / "list.md")
    places = "<!-- findings, made by hand -->\n\nOld.\n\n<!-- end -->"
    results.INDEX.write_text(f"Before.\n{places}\nAfter.\n")
    return FinishedStudy(tmp_path)


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_finished_study_is_stored_and_shown(finished, tmp_path, capsys):
    assert main(["--publish", str(finished.out)]) == 0
    assert "finding" not in capsys.readouterr().err
    assert names_in(tmp_path / "results") == ["probe.json", "probe.tar.xz"]
    assert names_in(tmp_path / "pages") == ["probe.md", "probe.svg"]
    findings = "- [Probe](results/probe.md): Good has 12.5 BLEU.\n"
    listed = f"Before.\n<!-- findings, made by hand -->\n\n{findings}\n<!-- end -->\nAfter.\n"
    assert results.INDEX.read_text() == listed
    members = archive.read(tmp_path / "results" / "probe.tar.xz")
    outputs = {name.split("/")[1]: content for name, content in members.items()}
    assert outputs == {"en-de": b"en-de", "de-en": b"de-en"}
    page = (tmp_path / "pages" / "probe.md").read_text()
    assert page.startswith("# Probe\n\n**Good has 12.5 BLEU.** It is a probe.\n")
    assert "| good | beam 5 | 12.5 |" in page
    for entry in finished.entries:
        entry["outputs"]["beam"]["bleu"] = 13.5
    finished.store()
    assert main(["--publish", str(finished.out)]) == 0
    assert "finding: 12.5 is no mean" in capsys.readouterr().err
    assert "| good | beam 5 | 13.5 |" in (tmp_path / "pages" / "probe.md").read_text()


def test_analyses_stand_at_the_end_of_the_page(finished, tmp_path):
    """A long table that has a plot is shown as the plot."""
    publish(finished.out)
    long_table = "# Long\n" + "| row |\n" * results.LONG_TABLE
    members = {
        "short.md": b"## Short\n\n| a |",
        "long.md": long_table.encode(),
        "short.json": b"{}",
    }
    archive.write(tmp_path / "results" / "probe_analysis.tar.xz", members)
    (tmp_path / "pages" / "probe_analysis").mkdir(parents=True)
    (tmp_path / "pages" / "probe_analysis" / "long.svg").touch()
    assert main([]) == 0
    page = (tmp_path / "pages" / "probe.md").read_text()
    analyses = page.split("\n## Analyses\n")[1]
    assert (
        "| row |" not in analyses
        and "(`long.md`)\n\n![long](probe_analysis/long.svg)\n" in analyses
    )
    assert analyses.endswith("\n### short\n\n#### Short\n\n| a |\n")


def test_a_page_without_a_place_for_the_list_is_refused(finished, capsys):
    results.INDEX.write_text("Nothing.\n")
    assert (
        main(["--publish", str(finished.out)]) == 1
        and "0 lists of findings" in capsys.readouterr().err
    )


def test_unfinished_and_changed_studies_are_not_stored(finished, tmp_path, capsys):
    out, entries = finished.out, finished.entries
    entries[1]["status"] = "failed"
    finished.store()
    assert main(["--publish", str(out)]) == 1
    assert "good, de-en, seed 1: failed" in capsys.readouterr().err
    last = entries.pop()
    finished.store()
    with pytest.raises(ValueError, match="good, de-en, seed 1: not run"):
        publish(out)
    entries.append({**last, "status": "done"})
    finished.store()
    (out / "outputs" / last["key"] / "beam.en").write_text("other")
    with pytest.raises(ValueError, match="beam.en: is not the one that was scored"):
        publish(out)
    with pytest.raises(ValueError, match="no study.json"):
        publish(tmp_path)
    assert not (tmp_path / "results").exists()


def test_a_part_of_a_study_is_published_and_restored(finished, tmp_path, capsys, monkeypatch):
    finished.entries[1]["status"] = "failed"
    finished.store()
    assert main(["--publish", str(finished.out), "--partial"]) == 0
    page = (tmp_path / "pages" / "probe.md").read_text()
    assert "1 of 2 final runs are there" in page
    new = tmp_path / "new"
    restore = ["--restore", str(new), "--study", "probe"]
    assert main(restore) == 1 and "no run of today's code" in capsys.readouterr().err
    monkeypatch.setattr(results, "digest", lambda *_: "abc")
    assert main(restore) == 0 and "1 published runs" in capsys.readouterr().out
    key = finished.entries[0]["key"]
    files = {str(path.relative_to(new)) for path in new.rglob("*") if path.is_file()}
    assert files == {f"entries/{key}.json", f"outputs/{key}/beam.de"}
    assert (new / "outputs" / key / "beam.de").read_text() == "en-de"
    assert main(restore) == 0 and "0 published" in capsys.readouterr().out


def test_a_run_is_restored_unless_the_study_makes_its_start(finished, tmp_path, monkeypatch):
    publish(finished.out)
    monkeypatch.setattr(results, "digest", lambda *_: "abc")
    arm = {**ARM, "needs": ["teacher"]}
    teacher = {"system": "at", "limits": {"updates": 9}, "each_seed": True}
    for number, (asset, count) in enumerate(
        (
            ({"run": "touch teacher", "makes": "teacher"}, 0),
            ({"given": "$data/teacher"}, 2),
            (teacher, 2),  # the one of the same seed is as good when it is made again
        )
    ):
        write_probe(tmp_path, arm, assets={"teacher": asset})
        assert len(results.restore("probe", tmp_path / f"new{number}")) == count
