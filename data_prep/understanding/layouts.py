"""Where XGLUE and XTREME keep the files of their tasks, and how these files are read."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from .. import cli
from ..io import InputError, PathLike
from .sources import TEST, TRAIN, TRANSLATE

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
        translations: places of the machine translations of train below the folder, the first one with files counts;
            none: there are no translations.
        translation_options: as ``options``, for the translations.
        optional: splits that may be absent.
    """

    verb: str
    files: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    translations: Tuple[str, ...] = ()
    translation_options: Mapping[str, Any] = field(default_factory=dict)
    optional: Tuple[str, ...] = ()

    def sources(
        self, name: str, folder: PathLike, languages: Sequence[str], training: Sequence[str], translate: bool = False
    ) -> List[str]:
        """Return SPLIT.LANG=FILE for every file that is there. Test files of tags without tags are left out.

        Args:
            name: of the layout, for messages.
            folder: of the collection.
            languages: of valid and test; none: every one that is found.
            training: of train, whose labels are gold.
            translate: whether the machine translations of train are read too.

        Raises:
            InputError: a split without a file, or a language that was asked for and is found in no split; no
                translations.
        """
        found: Dict[str, str] = {}
        for split, pattern in self.files.items():
            wanted = training if split == TRAIN else languages
            there = {lang: path for lang, path in _found(Path(folder), pattern).items() if not wanted or lang in wanted}
            untagged = [
                lang for lang, path in there.items() if split == TEST and self.verb == TAGS and not _has_tags(path)
            ]
            if untagged:
                cli.say(f"nlu: {name}: test files without tags are left out: {', '.join(untagged)}")
            there = {lang: path for lang, path in there.items() if lang not in untagged}
            if not there and not untagged and split not in self.optional and (split == TRAIN or LANG in pattern):
                listed = f" for {', '.join(wanted)}" if wanted else ""
                raise InputError(f"--folder {folder}: no {pattern}{listed}; valid: the folder of {name.split('-')[0]}")
            found.update({f"{split}.{lang}": str(path) for lang, path in there.items()})
        if translate:
            found.update(self._translations(name, Path(folder)))
        lost = [lang for lang in languages if not any(key.endswith(f".{lang}") for key in found)]
        if lost:
            raise InputError(
                f"--languages {','.join(languages)}: {', '.join(lost)} is in no file of {name} below {folder}"
            )
        return [f"{key}={path}" for key, path in found.items()]

    def _translations(self, name: str, folder: Path) -> Dict[str, str]:
        """Return translate.LANG -> file."""
        if not self.translations:
            raise InputError(
                f"--train-languages {TRANSLATE}: {name} has no machine translations: {NO_TRANSLATIONS}; valid: {TRAIN_LANGUAGE}"
            )
        for pattern in self.translations:
            there = {lang: path for lang, path in _found(folder, pattern).items() if lang != TRAIN_LANGUAGE}
            if there:
                return {f"{TRANSLATE}.{lang}": str(path) for lang, path in there.items()}
        raise InputError(
            f"--train-languages {TRANSLATE}: no {' or '.join(self.translations)} below {folder}; valid: {TRAIN_LANGUAGE}, or the "
            "files of xtreme_translations there"
        )


def _has_tags(path: Path) -> bool:
    """Return whether the first line of a file has a second column."""
    with open(path, encoding="utf-8", errors="replace") as file:
        first = next((line.rstrip("\n") for line in file if line.strip()), "")
    return len(first.split()) > 1


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


def _translated_pairs(task: str) -> Tuple[str, ...]:
    """Return where XTREME's translations of sentence pairs may be."""
    name = f"translate-train/en-{LANG}-translated.tsv"
    lower = task.lower()
    return f"xtreme_translations/{task}/{name}", f"{lower}/{name}", f"{lower}/{lower}.translate.train.en-{LANG}.tsv"


_PAIR = {"text": "1,2", "label": "3"}
_SQUAD = "train-v1.1.json"
NO_TRANSLATIONS = "XTREME publishes none where every word has a label, and XGLUE none at all"
_TRANSLATED_PAIR = {"text": "3,4", "label": "5", "csv": False}  # behind the English pair
_SQUAD_TRANSLATED = (
    f"xtreme_translations/SQuAD/translate-train/squad.translate.train.en-{LANG}.json",
    f"squad/translate-train/squad.translate.train.en-{LANG}.json",
    f"squad/squad.translate.train.en-{LANG}.json",
)
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
    "xtreme-xnli": Layout(
        SENTENCES,
        _xtreme("xnli", "train", "dev", "test"),
        {**_PAIR, "csv": True},
        _translated_pairs("XNLI"),
        {**_TRANSLATED_PAIR, "label_map": "contradictory=contradiction"},
    ),
    "xtreme-pawsx": Layout(
        SENTENCES,
        _xtreme("pawsx", "train", "dev", "test"),
        {**_PAIR, "csv": True},
        _translated_pairs("PAWSX"),
        _TRANSLATED_PAIR,
    ),
    "xtreme-panx": Layout(TAGS, _xtreme("panx", "train", "dev", "test"), optional=(TEST,)),
    "xtreme-udpos": Layout(TAGS, _xtreme("udpos", "train", "dev", "test"), optional=(TEST,)),
    "xtreme-xquad": Layout(
        QUESTIONS,
        {"train": f"squad/{_SQUAD}", "valid": "squad/dev-v1.1.json", "test": f"xquad/xquad.{LANG}.json"},
        translations=_SQUAD_TRANSLATED,
    ),
    "xtreme-mlqa": Layout(
        QUESTIONS,
        {
            "train": f"squad/{_SQUAD}",
            "valid": "mlqa/MLQA_V1/" + _MLQA.replace("{split}", "dev"),
            "test": "mlqa/MLQA_V1/" + _MLQA.replace("{split}", "test"),
        },
        translations=_SQUAD_TRANSLATED,
    ),
    "xtreme-tydiqa": Layout(
        QUESTIONS,
        {
            "train": f"tydiqa/tydiqa-goldp-v1.1-train/tydiqa.goldp.{LANG}.train.json",
            "valid": f"tydiqa/tydiqa-goldp-v1.1-dev/tydiqa.goldp.{LANG}.dev.json",
        },
        translations=(
            f"xtreme_translations/TyDiQA-GoldP/translate-train/tydiqa.translate.train.en-{LANG}.json",
            f"tydiqa/translate-train/tydiqa.translate.train.en-{LANG}.json",
            f"tydiqa/tydiqa.translate.train.en-{LANG}.json",
        ),
    ),
}
"""XTREME's scripts take the tags out of the test files of its tagging tasks: such files are left out.

TyDiQA-GoldP has no test. The scripts also empty the answers of XQuAD, of MLQA's test and of TyDiQA's dev,
and take the labels out of XNLI's and PAWS-X's test: put the original files in their place.
"""


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
