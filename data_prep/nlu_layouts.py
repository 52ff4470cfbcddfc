"""Where XGLUE and XTREME keep the files of their tasks, and how these files are read."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence

from .io import InputError, PathLike
from .nlu_sources import TRAIN

LANG = "{lang}"
TRAIN_LANGUAGE = "en"  # of files whose names have no language
SENTENCES, RANKING, TAGS, QUESTIONS = "sentences", "ranking", "tags", "questions"


@dataclass(frozen=True)
class Layout:
    """One task of a collection.

    Args:
        verb: what it becomes.
        files: split -> file below the folder of the collection, with ``{lang}`` where the language stands.
        options: what the options have to be, where the command line does not say otherwise.
    """

    verb: str
    files: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)

    def sources(self, name: str, folder: PathLike, languages: Sequence[str], training: Sequence[str]) -> List[str]:
        """Return SPLIT.LANG=FILE for every file that is there.

        Args:
            name: of the layout, for messages.
            folder: of the collection.
            languages: of valid and test; none: every one that is found.
            training: of train.

        Raises:
            InputError: a split without a file, or a language that was asked for and is found in no split.
        """
        found: Dict[str, str] = {}
        for split, pattern in self.files.items():
            wanted = training if split == TRAIN else languages
            there = {lang: path for lang, path in _found(Path(folder), pattern).items() if not wanted or lang in wanted}
            if not there and (split == TRAIN or LANG in pattern):
                listed = f" for {', '.join(wanted)}" if wanted else ""
                raise InputError(f"--folder {folder}: no {pattern}{listed}; valid: the folder of {name.split('-')[0]}")
            found.update({f"{split}.{lang}": str(path) for lang, path in there.items()})
        lost = [lang for lang in languages if not any(key.endswith(f".{lang}") for key in found)]
        if lost:
            raise InputError(
                f"--languages {','.join(languages)}: {', '.join(lost)} is in no file of {name} below {folder}"
            )
        return [f"{key}={path}" for key, path in found.items()]


def _found(folder: Path, pattern: str) -> Dict[str, Path]:
    """Language -> file."""
    if LANG not in pattern:
        return {TRAIN_LANGUAGE: folder / pattern} if (folder / pattern).is_file() else {}
    parts = [re.escape(part) for part in pattern.split(LANG)]
    shape = re.compile(parts[0] + "(?P<lang>[A-Za-z0-9_-]+)" + "(?P=lang)".join(parts[1:]))
    matches = (
        (shape.fullmatch(path.relative_to(folder).as_posix()), path) for path in folder.glob(pattern.replace(LANG, "*"))
    )
    return {
        match["lang"]: path for match, path in sorted(matches, key=lambda pair: pair[1]) if match and path.is_file()
    }


def _xglue_table(task: str) -> Dict[str, str]:
    upper = task.upper()
    return {
        split: f"{upper}/xglue.{task}.{LANG}.{ending}"
        for split, ending in (("train", "train"), ("valid", "dev"), ("test", "test"))
    }


def _xglue_tags(folder: str) -> Dict[str, str]:
    return {
        split: f"{folder}/{LANG}.{ending}" for split, ending in (("train", "train"), ("valid", "dev"), ("test", "test"))
    }


def _xtreme(folder: str, *endings: str) -> Dict[str, str]:
    splits = {"train": "train", "dev": "valid", "test": "test"}
    return {splits[ending]: f"{folder}/{ending}-{LANG}.tsv" for ending in endings}


_PAIR = {"text": "1,2", "label": "3"}
_SQUAD = "train-v1.1.json"
_MLQA = "{split}/{split}-context-" + LANG + "-question-" + LANG + ".json"

LAYOUTS: Dict[str, Layout] = {
    "xglue-nc": Layout(SENTENCES, _xglue_table("nc"), _PAIR),
    "xglue-qam": Layout(SENTENCES, _xglue_table("qam"), _PAIR),
    "xglue-qadsm": Layout(SENTENCES, _xglue_table("qadsm"), {"text": "1,2+3", "label": "4"}),
    "xglue-wpr": Layout(RANKING, _xglue_table("wpr"), {"text": "1,2+3", "label": "4", "query": "1"}),
    "xglue-xnli": Layout(
        SENTENCES,
        {"train": f"XNLI/multinli.train.{LANG}.tsv", "valid": f"XNLI/{LANG}.dev", "test": f"XNLI/{LANG}.test"},
        {**_PAIR, "header": "train", "label_map": "contradictory=contradiction"},
    ),
    "xglue-pawsx": Layout(
        SENTENCES,
        {
            "train": f"PAWSX/{LANG}/train.tsv",
            "valid": f"PAWSX/{LANG}/dev_2k.tsv",
            "test": f"PAWSX/{LANG}/test_2k.tsv",
        },
        {"text": "2,3", "label": "4", "header": "all"},
    ),
    "xglue-ner": Layout(TAGS, _xglue_tags("NER")),
    "xglue-pos": Layout(TAGS, _xglue_tags("POS")),
    "xglue-mlqa": Layout(
        QUESTIONS,
        {
            "train": f"MLQA/squad1.1/{_SQUAD}",
            "valid": "MLQA/MLQA_V1/" + _MLQA.replace("{split}", "dev"),
            "test": "MLQA/MLQA_V1/" + _MLQA.replace("{split}", "test"),
        },
    ),
    "xtreme-xnli": Layout(SENTENCES, _xtreme("xnli", "train", "dev", "test"), {**_PAIR, "csv": True}),
    "xtreme-pawsx": Layout(SENTENCES, _xtreme("pawsx", "train", "dev", "test"), {**_PAIR, "csv": True}),
    "xtreme-panx": Layout(TAGS, _xtreme("panx", "train", "dev")),
    "xtreme-udpos": Layout(TAGS, _xtreme("udpos", "train", "dev")),
    "xtreme-xquad": Layout(
        QUESTIONS,
        {"train": f"squad/{_SQUAD}", "valid": "squad/dev-v1.1.json", "test": f"xquad/xquad.{LANG}.json"},
    ),
    "xtreme-mlqa": Layout(
        QUESTIONS,
        {
            "train": f"squad/{_SQUAD}",
            "valid": "mlqa/MLQA_V1/" + _MLQA.replace("{split}", "dev"),
            "test": "mlqa/MLQA_V1/" + _MLQA.replace("{split}", "test"),
        },
    ),
    "xtreme-tydiqa": Layout(
        QUESTIONS,
        {
            "train": f"tydiqa/tydiqa-goldp-v1.1-train/tydiqa.goldp.{LANG}.train.json",
            "valid": f"tydiqa/tydiqa-goldp-v1.1-dev/tydiqa.goldp.{LANG}.dev.json",
        },
    ),
}
"""Test files of XTREME's tagging tasks hold no tags, and TyDiQA-GoldP has no test: their dev sets are what papers report. XTREME's
scripts also empty the answers of XQuAD, of MLQA's test and of TyDiQA's dev, and take the labels out of XNLI's and PAWS-X's
test: put the original files in their place."""


def layout_named(name: str, verb: str) -> Layout:
    """Return a layout.

    Raises:
        InputError: no such layout, or one of another verb.
    """
    layout = LAYOUTS.get(name)
    if layout is None or layout.verb != verb:
        valid = ", ".join(key for key, of in LAYOUTS.items() if of.verb == verb)
        other = f" (it is for {layout.verb})" if layout is not None else ""
        raise InputError(f"--layout {name}{other}: valid with {verb}: {valid}")
    return layout
