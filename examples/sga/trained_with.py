"""What a checkpoint was trained with, as words of a command line.

python examples/sga/trained_with.py pairs CHECKPOINT    its language pairs, as de-en,fr-en
python examples/sga/trained_with.py tags CHECKPOINT     options that decoding must repeat, as
                                                        --langs de,en,fr --encoder-langtok src --decoder-langtok
"""

import argparse
import sys
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))


def listed(value: Any) -> List[str]:
    """``"de,en"`` or a list as a list."""
    return [str(one) for one in (value.split(",") if isinstance(value, str) else value or ())]


def task_options(content: Mapping[str, Any], path: str) -> Dict[str, Any]:
    """Options of the task, of a run by arguments or by hydra.

    Raises:
        ValueError: the file does not tell them.
    """
    found = (content.get("cfg") or {}).get("task")
    if found is None:
        raise ValueError(f"{path}: does not tell its task; valid: a checkpoint of fairseq-train")
    return dict(found) if isinstance(found, Mapping) else vars(found)


def pairs(options: Mapping[str, Any]) -> List[str]:
    """Every pair that trained: the pair of a bilingual task, those of --lang-pairs, those of --extra-lang-pairs.

    Raises:
        ValueError: a task without languages.
    """
    if options.get("lang_pairs"):
        extra = options.get("extra_lang_pairs") or {}
        return [*listed(options["lang_pairs"]), *(pair for value in extra.values() for pair in listed(value))]
    if not options.get("source_lang") or not options.get("target_lang"):
        raise ValueError(f"task {options.get('_name') or options.get('task')}: has no language pairs")
    return [f"{options['source_lang']}-{options['target_lang']}"]


def tags(options: Mapping[str, Any]) -> List[str]:
    """Options on which the rows of the language tokens and their places depend.

    Raises:
        ValueError: a task without language tokens.
    """
    if not options.get("langs"):
        raise ValueError(f"task {options.get('_name') or options.get('task')}: has no --langs")
    found = ["--langs", ",".join(listed(options["langs"]))]
    if options.get("encoder_langtok"):
        found += ["--encoder-langtok", str(options["encoder_langtok"])]
    return found + ["--decoder-langtok"] * bool(options.get("decoder_langtok"))


def main(argv: Optional[List[str]] = None) -> None:
    """Print the words."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("pairs", "tags"))
    parser.add_argument("checkpoint")
    args = parser.parse_args(argv)
    from fairseq_plugins.checkpoints import read_checkpoint

    try:
        options = task_options(read_checkpoint(args.checkpoint), args.checkpoint)
        print(",".join(pairs(options)) if args.what == "pairs" else " ".join(tags(options)))
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
