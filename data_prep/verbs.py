"""The verbs of the command line: ``python -m data_prep VERB``, or ``python -m data_prep.VERB``."""

import ast
import importlib
import importlib.abc
import importlib.machinery
import sys
from pathlib import Path
from typing import Any, Dict, NoReturn, Optional

FOLDER = Path(__file__).resolve().parent

# Verb -> module with its `main`, imported when the verb is called.
VERBS = {
    "binarize": "pieces.binarize",
    "bpe": "pieces.bpe",
    "check": "text.check",
    "clean": "text.clean",
    "corpora": "corpora.collections",
    "cut_vocabulary": "pieces.cut_vocabulary",
    "extract": "corpora.extract",
    "hypotheses": "scoring.hypotheses",
    "induce_lexicon": "lexicon.induce",
    "iwslt14": "corpora.iwslt14",
    "lexicon": "lexicon.pipeline",
    "manifest": "pieces.manifest",
    "map_vectors": "lexicon.mapping",
    "ml50": "corpora.ml50",
    "nlu": "understanding.nlu",
    "question_generation": "corpora.question_generation",
    "score": "scoring.score",
    "score_languages": "scoring.score_languages",
    "score_lexicon": "lexicon.score",
    "split": "text.split",
    "spm": "pieces.spm",
    "summaries": "corpora.summaries",
    "ted": "corpora.ted",
    "toy": "toy.corpus",
    "triples": "corpora.triples",
    "wmt14": "corpora.wmt14",
    "word_vectors": "lexicon.word_vectors",
    "words": "lexicon.words",
}


def run(verb: str) -> NoReturn:
    """Run a verb with the arguments of the command line and exit."""
    from . import cli

    cli.run(verb, importlib.import_module(f"{__package__}.{VERBS[verb]}").main)


def describe_verbs() -> Dict[str, str]:
    """Return every verb with the first line of its module's docstring, without importing it."""
    descriptions = {}
    for verb, module in VERBS.items():
        path = FOLDER.joinpath(*module.split(".")).with_suffix(".py")
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        descriptions[verb] = docstring.partition("\n")[0]
    return descriptions


def describe_scripts() -> Dict[str, str]:
    """Return every bash script that can be run, with its first comment."""
    descriptions = {}
    for path in sorted(FOLDER.glob("*.sh")):
        lines = path.read_text(encoding="utf-8").split("\n")
        if lines[0].startswith("#!"):
            descriptions[path.name] = lines[1].lstrip("# ")
    return descriptions


class _VerbFinder(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Let ``python -m data_prep.VERB`` run a verb whose module lies in a room."""

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        verb = _verb_of(fullname)
        if verb not in VERBS or not fullname.startswith(f"{__package__}."):
            return None
        if (FOLDER / verb).is_dir() and not fullname.endswith(".__main__"):
            return None  # a room with the name of a verb
        return importlib.machinery.ModuleSpec(fullname, self, origin=str(FOLDER / "__main__.py"))

    def is_package(self, fullname: str) -> bool:
        return False

    def get_source(self, fullname: str) -> str:
        verb = _verb_of(fullname)
        return f"if __name__ == '__main__':\n    import {__name__} as v\n    v.run({verb!r})\n"

    def exec_module(self, module: Any) -> NoReturn:
        verb = _verb_of(module.__name__)
        place = f"{__package__}.{VERBS[verb]}"
        raise ModuleNotFoundError(f"{module.__name__} is a verb; its module is {place}")


def _verb_of(name: str) -> str:
    return name.removeprefix(f"{__package__}.").removesuffix(".__main__")


sys.meta_path.insert(0, _VerbFinder())  # before files of an older version in the same folder
