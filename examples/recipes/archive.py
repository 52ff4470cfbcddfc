"""Archives of outputs: the same members give the same bytes, and nothing is unpacked to disk.

python -m examples.recipes.archive FILE              list the names of its members
python -m examples.recipes.archive FILE MEMBER       print a member
"""

import argparse
import io
import lzma
import sys
import tarfile
from pathlib import Path, PurePosixPath
from typing import Dict, List, Mapping, Optional

ENDING = ".tar.xz"
BLOCK_BYTES = 1 << 16


def members_of(folder: Path) -> Dict[str, bytes]:
    """Read every file under a folder: name -> content."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def tar_of(members: Mapping[str, bytes]) -> bytes:
    """Make a tar of the members: sorted, all with the same owner, time and rights."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(members):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(members[name]), 0o644
            tar.addfile(entry, io.BytesIO(members[name]))
    return file.getvalue()


def write(path: Path, members: Mapping[str, bytes]) -> None:
    """Write an archive."""
    path.write_bytes(lzma.compress(tar_of(members), check=lzma.CHECK_CRC64, preset=9))


def read(path: Path) -> Dict[str, bytes]:
    """Read every member as a stream: name -> content.

    Raises:
        ValueError: this is no archive, or a member is no plain file, occurs twice, or has an
            absolute name or ``.`` or ``..`` in its name.
    """
    members: Dict[str, bytes] = {}
    try:
        with lzma.open(path) as file, tarfile.open(fileobj=file, mode="r|") as tar:
            for entry in tar:
                _check_member(path, entry)
                if entry.name in members:
                    raise ValueError(f"{path}: {entry.name} is there twice")
                content = tar.extractfile(entry)
                members[entry.name] = content.read() if content else b""
            while file.read(BLOCK_BYTES):  # to the end, so that a truncated file is an error
                pass
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise ValueError(f"{path}: no {ENDING} archive: {error}") from error
    return members


def _check_member(path: Path, entry: tarfile.TarInfo) -> None:
    """Raise ValueError unless a member is a plain file with a relative name."""
    has_dots = {"..", "."} & {*entry.name.split("/")}
    if not entry.isreg() or PurePosixPath(entry.name).is_absolute() or has_dots:
        valid = "valid: plain files with relative names, without . and .."
        raise ValueError(f"{path}: {entry.name}: {valid}")


def main(argv: Optional[List[str]] = None) -> int:
    """List the members, or print one."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("member", nargs="?")
    args = parser.parse_args(argv)
    try:
        members = read(args.file)
        if args.member is None:
            print("\n".join(members))
        elif args.member in members:
            sys.stdout.write(members[args.member].decode("utf-8"))
        else:
            raise ValueError(f"{args.file}: no member {args.member}")
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
