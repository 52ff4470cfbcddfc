"""Archives of outputs: the same members give the same bytes, and nothing is unpacked to disk.

python -m examples.recipes.archive FILE              the names of its members
python -m examples.recipes.archive FILE MEMBER       what is in one
"""

import argparse
import io
import lzma
import sys
import tarfile
from pathlib import Path, PurePosixPath
from typing import Dict, List, Mapping, Optional

ENDING = ".tar.xz"


def members_of(folder: Path) -> Dict[str, bytes]:
    """Name -> content of every file under a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def tar_of(members: Mapping[str, bytes]) -> bytes:
    """The members as a tar: sorted, without owner, time and rights of their own."""
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
    """Name -> content of every member, read as a stream.

    Raises:
        ValueError: no archive, a member that is no plain file or is there twice, a name that is absolute or has dots in its path.
    """
    found: Dict[str, bytes] = {}
    try:
        with lzma.open(path) as file, tarfile.open(fileobj=file, mode="r|") as tar:
            for entry in tar:
                place = PurePosixPath(entry.name)
                if not entry.isreg() or place.is_absolute() or {"..", "."} & {*entry.name.split("/")}:
                    raise ValueError(f"{path}: {entry.name}: valid: plain files with relative names, without . and ..")
                if entry.name in found:
                    raise ValueError(f"{path}: {entry.name} is there twice")
                content = tar.extractfile(entry)
                found[entry.name] = content.read() if content else b""
            while file.read(1 << 16):  # to its end, so that one that is cut there is refused too
                pass
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise ValueError(f"{path}: no {ENDING} archive: {error}") from error
    return found


def main(argv: Optional[List[str]] = None) -> int:
    """List the members, or print one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
