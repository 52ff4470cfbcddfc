"""Archives: the wanted files and nothing else, whole or not at all, never outside the folder."""

import gzip
import io
import tarfile
import zipfile

import pytest

from data_prep import extract
from data_prep.io import read_json
from tests.unit.data_prep.files import refused, tree


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


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_only_wanted_members_come_out(tmp_path, mode):
    path = tar(tmp_path / "a.tar", {"./in/x.tsv": b"x\n", "in/readme": b"r", "y.tsv": b"y\n"}, mode)
    assert extract.extract(path, tmp_path / "out", ["*.tsv"]) == {"in/x.tsv": 2, "y.tsv": 2}
    assert tree(tmp_path / "out") == {"in/x.tsv": b"x\n", "y.tsv": b"y\n"}


def test_zip_and_gz_and_packed_members(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("in/x.en", "x\n")
    (tmp_path / "b.en.gz").write_bytes(gzip.compress(b"b\n"))
    tar(tmp_path / "c.tar", {"c.en.gz": gzip.compress(b"c\n")}, "w")
    for name in ("a.zip", "b.en.gz", "c.tar"):
        extract.extract(tmp_path / name, tmp_path / "out", ["*.en", "*.en.gz"])
    assert tree(tmp_path / "out") == {"in/x.en": b"x\n", "b.en": b"b\n", "c.en": b"c\n"}


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
    refused(words, extract.extract, path, tmp_path / "out", ["nothing"])
    assert not list(tmp_path.rglob("*.tsv"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_wanted_links_and_devices_are_refused_and_others_left_out(tmp_path, kind):
    path = tar(tmp_path / "a.tgz", {"x.tsv": b"x"}, **{"link.tsv": (kind, "../../secret")})
    refused("member 'link.tsv' is a link or a device", extract.extract, path, tmp_path / "out", ["*.tsv"])
    assert extract.extract(path, tmp_path / "other", ["x.tsv"]) == {"x.tsv": 1}
    assert tree(tmp_path / "other") == {"x.tsv": b"x"}


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
        refused([f"{name}: ", message], extract.extract, tmp_path / name, tmp_path / "out", [members])
    assert tree(tmp_path / "out") == {}


def test_an_archive_is_extracted_once(tmp_path):
    path = tar(tmp_path / "a.tgz", {"in/x.tsv": b"x\n"})
    out = tmp_path / "out"
    line = ["--archives", str(path), "--output", str(out), "--members", "*.tsv"]
    extract.main(line)
    assert read_json(out / "archives.json")["archives"][0]["members"] == ["in/x.tsv"]
    inode = (out / "in/x.tsv").stat().st_ino
    extract.main(line)
    assert (out / "in/x.tsv").stat().st_ino == inode
    (out / "in/x.tsv").write_bytes(b"changed")
    extract.main(line)
    assert (out / "in/x.tsv").read_bytes() == b"x\n"
    tar(path, {"in/x.tsv": b"new\n"})
    extract.main(line)
    assert (out / "in/x.tsv").read_bytes() == b"new\n"
