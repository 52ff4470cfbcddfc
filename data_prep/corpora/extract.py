"""Archives to files: regular members that match a pattern, never outside the output folder."""

import fnmatch
import gzip
import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence

from .. import cli
from ..files import atomic_path, write_json
from ..io import InputError, PathLike
from ..layout import STEPS_FOLDER
from ..options import adder
from ..progress import heartbeat
from ..steps import FORMAT, Step, describe_files, read_outputs

COPY_BYTES = 1 << 20
DAMAGE_ERRORS = (
    tarfile.TarError,
    zipfile.BadZipFile,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    gzip.BadGzipFile,
    ValueError,
)


class _Member(NamedTuple):
    name: str
    open: Callable[[], Any]


def extract(archive: PathLike, output: PathLike, patterns: Sequence[str]) -> Dict[str, int]:
    """Write the matching members of an archive into a folder; NAME.gz is unpacked as NAME.

    Args:
        archive: tar (plain, gzip, bzip2, xz), zip, or a single .gz file.
        output: the folder; the members keep their folders below it.
        patterns: shell patterns of whole paths of members (``*`` also matches ``/``).

    Returns:
        Path below `output` -> bytes written.

    Raises:
        InputError: a missing archive, another kind of file, a damaged one, a member whose path
            leads out of the folder, a matching link or device, or no matching member. Nothing is
            left half-written.
    """
    path = Path(archive)
    _check_archive(path)
    sizes: Dict[str, int] = {}
    try:
        with heartbeat(f"extract {path.name} ({path.stat().st_size:,} bytes)"):
            for member in _list_members(path, patterns):
                target = member.name.removesuffix(".gz")
                with member.open() as stream:
                    is_packed = member.name.endswith(".gz")
                    content: Any = gzip.open(stream) if is_packed else stream
                    sizes[target] = _write(content, Path(output) / target)
                cli.say(f"extract: {target}: {sizes[target]:,} bytes")
    except InputError:
        raise
    except DAMAGE_ERRORS as error:
        raise _damage_error(archive, error) from None
    except OSError as error:
        if error.errno is not None:  # the disk, not the archive
            raise
        raise _damage_error(archive, error) from None
    if not sizes:
        listed = " ".join(patterns)
        raise InputError(f"--archive {archive}: holds none of {listed}; is it the right archive?")
    return sizes


def _check_archive(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"--archive {path}: no such file; valid: a tar, zip or gz file")


def _damage_error(archive: PathLike, error: Exception) -> InputError:
    reason = str(error) or type(error).__name__
    return InputError(f"--archive {archive}: damaged or cut short ({reason})")


def _list_members(archive: Path, patterns: Sequence[str]) -> Iterator[_Member]:
    """Yield the matching members; refuse the whole archive if any path leads out."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                name = _safe_name(info.filename, archive)
                if not info.is_dir() and _matches(name, patterns):
                    kind = stat.S_IFMT(info.external_attr >> 16)
                    _check_regular(kind in (0, stat.S_IFREG), name, archive)
                    yield _Member(name, lambda info=info: packed.open(info))  # type: ignore[misc]
    elif tarfile.is_tarfile(archive):
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                name = _safe_name(member.name, archive)
                if not member.isdir() and _matches(name, patterns):
                    _check_regular(member.isreg(), name, archive)
                    yield _Member(name, lambda m=member: tar.extractfile(m))  # type: ignore[misc]
    elif archive.suffix == ".gz":
        yield _Member(archive.name, lambda: open(archive, "rb"))
    else:
        reason = "neither tar nor zip nor gz, or cut short"
        raise InputError(f"--archive {archive}: {reason}; valid: one of these")


def _safe_name(name: str, archive: Path) -> str:
    """Return a name without a leading ``./``; refuse one that leads out of the folder."""
    parts = PurePosixPath(name).parts
    has_drive = bool(parts) and ":" in parts[0]
    if name.startswith("/") or "\\" in name or ".." in parts or "\x00" in name or has_drive:
        reason = f"its member {name!r} leads out of the output folder"
        raise InputError(f"--archive {archive}: refused, because {reason}")
    return str(PurePosixPath(*parts)) if parts else ""


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _check_regular(is_regular: bool, name: str, archive: Path) -> None:
    if not is_regular:
        reason = f"its member {name!r} is a link or a device, not a file"
        raise InputError(f"--archive {archive}: refused, because {reason}")


def _write(stream: IO[bytes], target: Path) -> int:
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(target) as temporary, open(temporary, "wb") as file:
        shutil.copyfileobj(stream, file, COPY_BYTES)
        return file.tell()


def extract_once(archive: PathLike, output: PathLike, patterns: Sequence[str]) -> List[Path]:
    """Extract an archive, unless it was extracted before; return the files."""
    name = Path(archive).name
    _check_archive(Path(archive))
    record = Path(output) / STEPS_FOLDER / f"extract.{name}.json"
    files = read_outputs(record, output)
    step = Step(record, {"archive": archive}, {"patterns": list(patterns)}, files, output)
    if files and step.recall() is not None:
        cli.say(f"extract: {name}: unchanged, skipped")
        return files
    step.begin()
    sizes = extract(archive, output, patterns)
    step.outputs = [Path(output) / name for name in sizes]
    step.finish({"files": len(sizes), "bytes": sum(sizes.values())})
    return step.outputs


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's)."""
    description = f"{__doc__} Archives that were extracted before are skipped."
    parser = cli.parser("extract", description)
    add = adder(parser)
    add("--archives", "FILE", "tar, zip or gz files", many=True, required=True)
    text = "folder of the files, which keep the archives' folders"
    add("--output", "DIR", text, required=True)
    text = "patterns of the members to extract, as '*.tsv'"
    add("--members", "PATTERN", text, many=True, required=True)
    args = parser.parse_args(argv)
    archives = []
    for archive in args.archives:
        files = extract_once(archive, args.output, args.members)
        members = sorted(path.relative_to(args.output).as_posix() for path in files)
        archives.append({**describe_files([archive])[0], "members": members})
    content = {"format": FORMAT, "verb": "extract", "archives": archives}
    write_json(Path(args.output) / "archives.json", content)
