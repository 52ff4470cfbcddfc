"""Exchange checkpoints with other programs, as safetensors and JSON.

``python -m fairseq_plugins.checkpoints.export CHECKPOINT FOLDER`` writes model.safetensors, config.json and the dictionaries;
``python -m fairseq_plugins.checkpoints.export import FOLDER CHECKPOINT`` makes a checkpoint of them that the stock commands read,
also of the Hugging Face folder of a VECO, which generation and pre-training can then start from.
"""

import argparse
import sys
from typing import Optional, Sequence

from ..own_commands import heartbeat
from .portable import export_checkpoint, import_checkpoint
from .veco_state import is_folder_of_others, write_veco

PROGRAM = "python -m fairseq_plugins.checkpoints.export"
IMPORT = "import"


def _export_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Write a fairseq checkpoint as model.safetensors and config.json.",
        epilog=f"The way back: {PROGRAM} {IMPORT} FOLDER CHECKPOINT",
    )
    parser.add_argument(
        "checkpoint", metavar="CHECKPOINT", help="any fairseq checkpoint; it is read without running code"
    )
    parser.add_argument("folder", metavar="FOLDER", help="made when missing")
    parser.add_argument("--half", action="store_true", help="store float16: half the size, rounded")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--data", metavar="DIR", help="where dict*.txt lie, when not in the run's data folder")
    choice.add_argument("--no-dictionaries", action="store_true", help="leave the dictionaries out")
    return parser


def _import_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} {IMPORT}", description="Make a fairseq checkpoint of an exported folder, or of VECO's."
    )
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        help="with model.safetensors and config.json; or the Hugging Face folder of a VECO (cross_attention.*)",
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the file to write")
    return parser


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command; exit status 0, or 2 with a message."""
    line = list(sys.argv[1:] if argv is None else argv)
    importing = line[:1] == [IMPORT]
    parser = _import_parser() if importing else _export_parser()
    args = parser.parse_args(line[1:] if importing else line)
    try:
        with heartbeat():
            if importing and is_folder_of_others(args.folder):
                write_veco(args.folder, args.checkpoint)
            elif importing:
                import_checkpoint(args.folder, args.checkpoint)
            else:
                export_checkpoint(args.checkpoint, args.folder, args.data, not args.no_dictionaries, args.half)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
