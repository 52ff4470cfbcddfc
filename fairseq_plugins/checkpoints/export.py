"""Exchange checkpoints with other programs, as safetensors and JSON.

``python -m fairseq_plugins.checkpoints.export CHECKPOINT FOLDER`` writes model.safetensors, config.json and the dictionaries;
``python -m fairseq_plugins.checkpoints.export import FOLDER CHECKPOINT`` makes a checkpoint of them that the stock commands read,
also of the Hugging Face folder of a VECO, which generation and pre-training can then start from.
"""

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import Optional, Sequence

from ..own_commands import heartbeat
from .errors import CheckpointError
from .portable import CONFIG, WEIGHTS, export_checkpoint, import_checkpoint
from .reading import fingerprint, read_checkpoint
from .veco import is_folder_of_others, write_veco

logger = logging.getLogger(__name__)

PROGRAM = "python -m fairseq_plugins.checkpoints.export"
IMPORT = "import"


def _export_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Write a fairseq checkpoint as model.safetensors and config.json.",
        epilog=f"The way back: {PROGRAM} {IMPORT} FOLDER CHECKPOINT",
    )
    parser.add_argument("checkpoint", help="any fairseq checkpoint; it is read without running code")
    parser.add_argument("folder", help="made when missing; nothing in it is replaced")
    parser.add_argument("--half", action="store_true", help="store float16: half the size, rounded")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--data", metavar="DIR", help="where dict*.txt lie, when not in the run's data folder")
    choice.add_argument("--no-dictionaries", action="store_true", help="leave the dictionaries out")
    return parser


def _import_parser() -> argparse.ArgumentParser:
    description = "Make a fairseq checkpoint of an exported folder, or of VECO's."
    parser = argparse.ArgumentParser(prog=f"{PROGRAM} {IMPORT}", description=description)
    hugging_face = "the Hugging Face folder of a VECO (cross_attention.* or crossattention.*)"
    parser.add_argument("folder", help=f"with model.safetensors and config.json; or {hugging_face}")
    parser.add_argument("checkpoint", help="the file to write; another one is not replaced")
    return parser


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command; exit status 0, or 2 with a message."""
    line = list(sys.argv[1:] if argv is None else argv)
    importing = line[:1] == [IMPORT]
    parser = _import_parser() if importing else _export_parser()
    args = parser.parse_args(line[1:] if importing else line)
    try:
        with heartbeat():
            if importing:
                _import(args.folder, args.checkpoint)
            else:
                _check_folder(Path(args.folder))
                export_checkpoint(args.checkpoint, args.folder, args.data, not args.no_dictionaries, args.half)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    return 0


def _import(folder: str, checkpoint: str) -> None:
    """Make the checkpoint; one that is there already stays, and must be what would be made (CheckpointError)."""
    others = is_folder_of_others(folder)
    stated = None if others else _fingerprint(Path(folder))
    if Path(checkpoint).is_file() and (others or stated):
        if stated and fingerprint(read_checkpoint(checkpoint).get("model") or {}) == stated:
            logger.info("%s: is there already, with the tensors of %s", checkpoint, folder)
            return
        raise CheckpointError(
            f"{checkpoint}: is there already, and is not replaced; valid: a new name, or remove it first"
        )
    (write_veco if others else import_checkpoint)(folder, checkpoint)


def _fingerprint(folder: Path) -> Optional[str]:
    """What a folder says of its tensors; None where it is no export, which is refused when it is read."""
    try:
        content = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content.get("fingerprint") if isinstance(content, dict) else None


def _check_folder(folder: Path) -> None:
    """Raise CheckpointError where a folder to write into has a model already, or is a file."""
    found = [name for name in (WEIGHTS, CONFIG) if (folder / name).exists()]
    found += sorted(file.name for file in folder.glob("dict*.txt"))
    if found or (folder.exists() and not folder.is_dir()):
        what = f"has {found[0]} already, and nothing is replaced" if found else "is a file"
        raise CheckpointError(f"{folder}: {what}; valid: a new or empty folder")


if __name__ == "__main__":
    sys.exit(main())
