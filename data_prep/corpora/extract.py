"""Archives to files: only members that are asked for, only regular files, never a path outside the output folder."""

import argparse
import fnmatch
import gzip
import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from .. import cli
from ..files import atomic_path, write_json
from ..io import InputError, PathLike
from ..progress import heartbeat
from ..steps import FORMAT, Step, describe_files, read_outputs

COPY_BYTES = 1 << 20
STEPS_FOLDER = ".steps"
DAMAGED = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, ValueError)
Member = Tuple[str, int, Callable[[], Any]]


def extract(archive: PathLike, output: PathLike, patterns: Sequence[str]) -> Dict[str, int]:
    """Write the wanted members of an archive below a folder; a member ``NAME.gz`` is unpacked as ``NAME``.

    Args:
        archive: tar (plain, gzip, bzip2, xz), zip, or a single ``.gz`` file.
        output: the folder; the members keep their folders below it.
        patterns: shell patterns of the wanted members' whole paths (``*`` also matches ``/``).

    Returns:
        Path below ``output`` to bytes written.

    Raises:
        InputError: no such archive, another kind of file, a damaged one, a member whose path leads out of the folder, a
            wanted member that is a link or a device, or no wanted member at all. Nothing is left half-written.
    """
    if not Path(archive).is_file():
        raise InputError(f"--archive {archive}: no such file; valid: a tar, zip or gz file")
    written: Dict[str, int] = {}
    try:
        with heartbeat(f"extract {Path(archive).name} ({Path(archive).stat().st_size:,} bytes)"):
            for name, _, opener in _members(Path(archive), patterns):
                target = _plain_name(name)
                with opener() as stream:
                    written[target] = _write(_unpacked(stream, name), Path(output) / target)
                cli.say(f"extract: {target}: {written[target]:,} bytes")
    except DAMAGED as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"--archive {archive}: damaged or cut short ({error or type(error).__name__})") from None
    except OSError as error:
        if error.errno is not None:  # the disk, not the archive
            raise
        raise InputError(f"--archive {archive}: damaged or cut short ({error})") from None
    if not written:
        raise InputError(f"--archive {archive}: holds none of {' '.join(patterns)}; is it the right archive?")
    return written


def _members(archive: Path, patterns: Sequence[str]) -> Iterator[Member]:
    """Yield name, size and opener of the wanted members; refuses the whole archive when any path leads out."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                name = _safe(info.filename, archive)
                if not info.is_dir() and _wanted(name, patterns):
                    kind = stat.S_IFMT(info.external_attr >> 16)
                    _regular(kind in (0, stat.S_IFREG), name, archive)
                    yield name, info.file_size, lambda info=info: packed.open(info)  # type: ignore[misc]
    elif tarfile.is_tarfile(archive):
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                name = _safe(member.name, archive)
                if not member.isdir() and _wanted(name, patterns):
                    _regular(member.isreg(), name, archive)
                    yield name, member.size, lambda member=member: tar.extractfile(member)  # type: ignore[misc]
    elif archive.suffix == ".gz":
        yield archive.name, archive.stat().st_size, lambda: open(archive, "rb")
    else:
        raise InputError(f"--archive {archive}: neither tar nor zip nor gz, or cut short; valid: one of these")


def _safe(name: str, archive: Path) -> str:
    """The name without a leading ``./``; refuses what would lie outside the folder."""
    parts = PurePosixPath(name).parts
    if name.startswith("/") or "\\" in name or ".." in parts or "\x00" in name or (parts and ":" in parts[0]):
        raise InputError(f"--archive {archive}: refused, because its member {name!r} leads out of the output folder")
    return str(PurePosixPath(*parts)) if parts else ""


def _wanted(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _regular(regular: bool, name: str, archive: Path) -> None:
    if not regular:
        raise InputError(f"--archive {archive}: refused, because its member {name!r} is a link or a device, not a file")


def _plain_name(name: str) -> str:
    return name[: -len(".gz")] if name.endswith(".gz") else name


def _unpacked(stream: IO[bytes], name: str) -> IO[bytes]:
    return gzip.open(stream) if name.endswith(".gz") else stream  # type: ignore[return-value]


def _write(stream: IO[bytes], target: Path) -> int:
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(target) as temporary, open(temporary, "wb") as file:
        shutil.copyfileobj(stream, file, COPY_BYTES)
        return file.tell()


def extract_once(archive: PathLike, output: PathLike, patterns: Sequence[str]) -> List[Path]:
    """As :func:`extract`, but skipped when the same archive was extracted before and its files are still the same.

    Returns:
        The files.
    """
    if not Path(archive).is_file():
        raise InputError(f"--archive {archive}: no such file; valid: a tar, zip or gz file")
    record = Path(output) / STEPS_FOLDER / f"extract.{Path(archive).name}.json"
    known = read_outputs(record, output)
    step = Step(record, {"archive": archive}, {"patterns": list(patterns)}, known, output)
    done = step.recall() if known else None
    if done is not None:
        cli.say(f"extract: {Path(archive).name}: unchanged, skipped")
        return known
    step.begin()
    written = extract(archive, output, patterns)
    step.outputs = [Path(output) / name for name in written]
    step.finish({"files": len(written), "bytes": sum(written.values())})
    return step.outputs


def build_parser() -> argparse.ArgumentParser:
    """Return the options of ``python -m data_prep.extract``."""
    parser = cli.parser("extract", __doc__ + " Archives that were extracted before are skipped.")
    parser.add_argument("--archives", nargs="+", required=True, metavar="FILE", help="tar, zip or gz files")
    parser.add_argument("--output", required=True, metavar="DIR", help="gets the files, in the archives' folders")
    parser.add_argument("--members", nargs="+", required=True, metavar="PATTERN", help="wanted members, as '*.tsv'")
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    args = build_parser().parse_args(argv)
    archives = []
    for archive in args.archives:
        files = extract_once(archive, args.output, args.members)
        archives.append(
            {**describe_files([archive])[0], "members": sorted(p.relative_to(args.output).as_posix() for p in files)}
        )
    content = {"format": FORMAT, "verb": "extract", "archives": archives}
    write_json(Path(args.output) / "archives.json", content)
