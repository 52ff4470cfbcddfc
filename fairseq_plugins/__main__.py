"""Run ``fairseq-plugins VERB``, also started as ``python -m fairseq_plugins VERB``.

``python path/to/fairseq_plugins VERB`` does the same for a folder that is not installed. The list
of verbs, ``--help`` and errors of the command line import neither torch nor fairseq.
"""

import importlib
import sys
from pathlib import Path
from typing import NamedTuple, Optional, Sequence

FOLDER = Path(__file__).resolve().parent


class Verb(NamedTuple):
    """Verb of the command line."""

    module: str  # of ``commands`` that runs it
    summary: str


VERBS = {
    "translate": Verb("translate", "translate text with a trained model"),
    "score": Verb("preparation", "score translations: BLEU, chrF, TER, ROUGE, METEOR"),
    "average": Verb("checkpoints", "average checkpoints of a run"),
    "export": Verb("checkpoints", "write a model as ONNX, safetensors or a Hugging Face folder"),
    "import": Verb("checkpoints", "make a checkpoint of a safetensors or Hugging Face folder"),
    "dictionary": Verb("checkpoints", "write the dictionary of a pretrained encoder"),
    "cut-vocabulary": Verb("preparation", "cut a checkpoint and its dictionary to a corpus"),
    "info": Verb("reference", "print path, versions and registered names"),
    "options": Verb("reference", "print every option that the package adds"),
    "patches": Verb("reference", "print what is patched in fairseq"),
    "cka": Verb("analysis", "compare layers of two models or languages by CKA"),
    "singular-values": Verb("analysis", "compare the weights of two encoders by singular values"),
    "language-distance": Verb("analysis", "measure how far apart a model puts two languages"),
    "retrieval": Verb("analysis", "retrieve translations with the vectors of an encoder"),
    "retrieval-comparison": Verb("analysis", "test whether one encoder retrieves better"),
    "pair-probe": Verb("analysis", "classify sentence pairs with frozen vectors"),
    "frequency-f1": Verb("analysis", "score words by their frequency in the training text"),
    "training-curves": Verb("analysis", "compare training curves of several logs"),
    "transfer-table": Verb("analysis", "tabulate scores by language, task and model"),
}


def load_package() -> str:
    """Import this package and return its name.

    ``python path/to/fairseq_plugins`` puts the folder itself at the head of ``sys.path``. Its
    parent takes that place, so that the package can be imported.
    """
    if not __package__:
        sys.path[0] = str(FOLDER.parent)
    return importlib.import_module(__package__ or FOLDER.name).__name__


def list_verbs() -> str:
    """Return the help text, with a line for each verb."""
    width = max(map(len, VERBS))
    lines = [f"  {verb:<{width}}  {entry.summary}" for verb, entry in VERBS.items()]
    return "\n".join(
        [
            "usage: fairseq-plugins VERB ...   (fairseq-plugins VERB --help shows its options)",
            "       fairseq-plugins --path     (what to give fairseq's commands as --user-dir)",
            "       fairseq-plugins --version",
            "",
            *lines,
            "",
            "python -m data_prep lists the verbs that prepare data.",
            "",
        ]
    )


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run a verb; return its exit status, 2 if the command line is wrong."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        sys.stdout.write(list_verbs())
        return 0
    if words == ["--path"]:
        sys.stdout.write(f"{FOLDER}\n")
        return 0
    if words == ["--version"]:
        version = importlib.import_module(load_package()).__version__
        sys.stdout.write(f"fairseq_plugins {version}\n")
        return 0
    verb = VERBS.get(words[0])
    if verb is None:
        valid = ", ".join(VERBS)
        sys.stderr.write(f"fairseq-plugins: error: {words[0]}: no such verb; valid: {valid}\n")
        return 2
    module = importlib.import_module(f"{load_package()}.commands.{verb.module}")
    return int(module.COMMANDS[words[0]](words[1:]))


if __name__ == "__main__":
    sys.exit(main())
