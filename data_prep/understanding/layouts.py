"""Places of the files of XGLUE's and XTREME's tasks, and options to read them."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ..io import InputError, PathLike
from .sources import TEST, TRAIN, TRANSLATE

LANG = "{lang}"
TRAIN_LANGUAGE = "en"  # of files whose names have no language
SENTENCES, RANKING, TAGS, QUESTIONS = "sentences", "ranking", "tags", "questions"
NO_TRANSLATIONS = "XTREME publishes none where every word has a label, and XGLUE none at all"


@dataclass(frozen=True)
class Layout:
    """A task of a collection.

    Args:
        verb: kind of data-bin that it becomes.
        files: split -> file below the folder of the collection, with ``{lang}`` for the language.
        options: defaults of the command line's options.
        translations: places of the machine translations of train below the folder; the first one
            with files counts; none: there are no translations.
        translation_options: as `options`, for the translations.
        optional: splits that may be absent.
    """

    verb: str
    files: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    translations: Tuple[str, ...] = ()
    translation_options: Mapping[str, Any] = field(default_factory=dict)
    optional: Tuple[str, ...] = ()

    def sources(
        self,
        name: str,
        folder: PathLike,
        languages: Sequence[str],
        training: Sequence[str],
        translate: bool = False,
    ) -> List[str]:
        """Return SPLIT.LANG=FILE for every file.

        Args:
            name: name of the layout, for messages.
            folder: folder of the collection.
            languages: languages of valid and test; none: all.
            training: languages of train, whose labels are gold.
            translate: read the machine translations of train too.

        Raises:
            InputError: a split without a file, a language that is in no split, no translations.
        """
        sources: Dict[str, str] = {}
        for split, pattern in self.files.items():
            choice = training if split == TRAIN else languages
            files = _list_files(Path(folder), pattern)
            files = {lang: path for lang, path in files.items() if not choice or lang in choice}
            is_needed = split not in self.optional and (split == TRAIN or LANG in pattern)
            if is_needed and not files:
                listed = f" for {', '.join(choice)}" if choice else ""
                valid = f"the folder of {name.split('-')[0]}"
                raise InputError(f"--folder {folder}: no {pattern}{listed}; valid: {valid}")
            for lang, path in files.items():
                sources[f"{split}.{lang}"] = str(path)
        if translate:
            sources.update(self._translations(name, Path(folder)))
        languages_read = {key.partition(".")[2] for key in sources}
        missing = [lang for lang in languages if lang not in languages_read]
        if missing:
            problem = f"{', '.join(missing)} is in no file of {name} below {folder}"
            raise InputError(f"--languages {','.join(languages)}: {problem}")
        return [f"{key}={path}" for key, path in sources.items()]

    def _translations(self, name: str, folder: Path) -> Dict[str, str]:
        """Return translate.LANG -> file."""
        option = f"--train-languages {TRANSLATE}"
        if not self.translations:
            problem = f"{name} has no machine translations: {NO_TRANSLATIONS}"
            raise InputError(f"{option}: {problem}; valid: {TRAIN_LANGUAGE}")
        for pattern in self.translations:
            files = _list_files(folder, pattern)
            files.pop(TRAIN_LANGUAGE, None)
            if files:
                return {f"{TRANSLATE}.{lang}": str(path) for lang, path in files.items()}
        raise InputError(
            f"{option}: no {' or '.join(self.translations)} below {folder}; "
            f"valid: {TRAIN_LANGUAGE}, or the files of xtreme_translations there"
        )


def _list_files(folder: Path, pattern: str) -> Dict[str, Path]:
    """Return language -> file."""
    if LANG not in pattern:
        path = folder / pattern
        return {TRAIN_LANGUAGE: path} if path.is_file() else {}
    head, *tails = [re.escape(part) for part in pattern.split(LANG)]
    shape = re.compile(head + "(?P<lang>[A-Za-z0-9_-]+)" + "(?P=lang)".join(tails))
    files = {}
    for path in sorted(folder.glob(pattern.replace(LANG, "*"))):
        match = shape.fullmatch(path.relative_to(folder).as_posix())
        if match and path.is_file():
            files[match["lang"]] = path
    return files


def layout_named(name: str, verb: str) -> Layout:
    """Return a layout.

    Raises:
        InputError: no such layout, or one of another verb.
    """
    layout = LAYOUTS.get(name)
    if layout is None or layout.verb != verb:
        valid = ", ".join(layouts_of(verb))
        hint = f" (it is for {layout.verb})" if layout is not None else ""
        raise InputError(f"--layout {name}{hint}: valid with {verb}: {valid}")
    return layout


def layouts_of(verb: str) -> List[str]:
    """Return the names of the layouts of a verb."""
    return [name for name, layout in LAYOUTS.items() if layout.verb == verb]


# ---- The layouts. ----


def _xglue(stem: str) -> Dict[str, str]:
    endings = {"train": "train", "valid": "dev", "test": "test"}
    return {split: f"{stem}.{LANG}.{ending}" for split, ending in endings.items()}


def _xglue_tags(folder: str) -> Dict[str, str]:
    endings = {"train": "train", "valid": "dev", "test": "test"}
    return {split: f"{folder}/{LANG}.{ending}" for split, ending in endings.items()}


def _xtreme(folder: str) -> Dict[str, str]:
    endings = {"train": "train", "valid": "dev", "test": "test"}
    return {split: f"{folder}/{ending}-{LANG}.tsv" for split, ending in endings.items()}


def _translated_pairs(task: str) -> Tuple[str, ...]:
    """Return the possible places of XTREME's translations of sentence pairs."""
    name = f"translate-train/en-{LANG}-translated.tsv"
    lower = task.lower()
    old_name = f"{lower}/{lower}.translate.train.en-{LANG}.tsv"
    return f"xtreme_translations/{task}/{name}", f"{lower}/{name}", old_name


def _translated_questions(folder: str, task: str, stem: str) -> Tuple[str, ...]:
    """Return the possible places of XTREME's translations of questions."""
    name = f"{stem}.translate.train.en-{LANG}.json"
    return (
        f"xtreme_translations/{task}/translate-train/{name}",
        f"{folder}/translate-train/{name}",
        f"{folder}/{name}",
    )


def _mlqa(folder: str, split: str) -> str:
    return f"{folder}/MLQA_V1/{split}/{split}-context-{LANG}-question-{LANG}.json"


_SQUAD = "train-v1.1.json"
_TYDIQA_DEV = f"tydiqa/tydiqa-goldp-v1.1-dev/tydiqa.goldp.{LANG}.dev.json"
_PAIR = {"text": "1,2", "label": "3"}
_TRANSLATED_PAIR = {"text": "3,4", "label": "5", "csv": False}  # after the English pair
_RENAMED = {"label_map": "contradictory=contradiction"}
_SQUAD_TRANSLATED = _translated_questions("squad", "SQuAD", "squad")

# XTREME's scripts take labels, tags and answers out of its test files, which are then predicted and
# not scored, and TyDiQA-GoldP's dev is its test. To score put the original files in their place.
# TyDiQA's dev must have answers, for it also chooses the checkpoint.
LAYOUTS: Dict[str, Layout] = {
    "xglue-nc": Layout(SENTENCES, _xglue("NC/xglue.nc"), _PAIR),
    "xglue-qam": Layout(SENTENCES, _xglue("QAM/xglue.qam"), _PAIR),
    "xglue-qadsm": Layout(SENTENCES, _xglue("QADSM/xglue.qadsm"), {"text": "1,2+3", "label": "4"}),
    "xglue-wpr": Layout(
        RANKING, _xglue("WPR/xglue.wpr"), {"text": "1,2+3", "label": "4", "query": "1"}
    ),
    "xglue-xnli": Layout(
        SENTENCES,
        {
            "train": f"XNLI/multinli.train.{LANG}.tsv",
            "valid": f"XNLI/{LANG}.dev",
            "test": f"XNLI/{LANG}.test",
        },
        {**_PAIR, "header": "train", **_RENAMED},
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
            "valid": _mlqa("MLQA", "dev"),
            "test": _mlqa("MLQA", "test"),
        },
    ),
    "xtreme-xnli": Layout(
        SENTENCES,
        _xtreme("xnli"),
        {**_PAIR, "csv": True},
        _translated_pairs("XNLI"),
        {**_TRANSLATED_PAIR, **_RENAMED},
    ),
    "xtreme-pawsx": Layout(
        SENTENCES,
        _xtreme("pawsx"),
        {**_PAIR, "csv": True},
        _translated_pairs("PAWSX"),
        _TRANSLATED_PAIR,
    ),
    "xtreme-panx": Layout(TAGS, _xtreme("panx"), optional=(TEST,)),
    "xtreme-udpos": Layout(TAGS, _xtreme("udpos"), optional=(TEST,)),
    "xtreme-xquad": Layout(
        QUESTIONS,
        {
            "train": f"squad/{_SQUAD}",
            "valid": "squad/dev-v1.1.json",
            "test": f"xquad/xquad.{LANG}.json",
        },
        translations=_SQUAD_TRANSLATED,
    ),
    "xtreme-mlqa": Layout(
        QUESTIONS,
        {
            "train": f"squad/{_SQUAD}",
            "valid": _mlqa("mlqa", "dev"),
            "test": _mlqa("mlqa", "test"),
        },
        translations=_SQUAD_TRANSLATED,
    ),
    "xtreme-tydiqa": Layout(
        QUESTIONS,
        {
            "train": f"tydiqa/tydiqa-goldp-v1.1-train/tydiqa.goldp.{LANG}.train.json",
            "valid": _TYDIQA_DEV,
            "test": _TYDIQA_DEV,
        },
        translations=_translated_questions("tydiqa", "TyDiQA-GoldP", "tydiqa"),
    ),
}
