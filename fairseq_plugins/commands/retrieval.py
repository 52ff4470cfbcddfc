"""The options of ``retrieval``, and the pairs of languages in a folder as XTREME lays it out."""

import argparse
import os
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from .analysis_options import (
    add_model_options,
    add_number,
    add_output_options,
    add_text_options,
)
from .command import Parser, check_exists

FORWARD, BACKWARD, BOTH = "forward", "backward", "both"
DIRECTIONS = (FORWARD, BACKWARD, BOTH)
NO_GOLD = "none"
"""GOLD of a BUCC set whose true pairs are unknown."""
ENGLISH, ENGLISH3 = "en", "eng"
TATOEBA = dict(
    item.split(":")
    for item in (
        "af:afr ar:ara bg:bul bn:ben de:deu el:ell es:spa et:est eu:eus fa:pes fi:fin fr:fra "
        "he:heb hi:hin hu:hun id:ind it:ita ja:jpn jv:jav ka:kat kk:kaz ko:kor ml:mal mr:mar "
        "nl:nld pt:por ru:rus sw:swh ta:tam te:tel th:tha tl:tgl tr:tur ur:urd vi:vie zh:cmn"
    ).split()
)
"""XTREME's 36 languages of Tatoeba -> their codes in LASER's file names."""
BUCC = ("de", "fr", "ru", "zh")
"""XTREME's languages of BUCC."""
ALL = "all"
TATOEBA_FILES = "tatoeba.LANG3-eng.LANG3 and .eng (LASER's), or LANG-en.LANG and .en (XTREME's)"
BUCC_FILES = "LANG-en.dev.LANG, .dev.en, .dev.gold, LANG-en.test.LANG, .test.en, .test.gold"


# ---- Options. ----


def add_retrieval_options(parser: Parser) -> None:
    """Add the two kinds of task of ``retrieval`` and their options."""
    tasks = parser.add_subparsers(dest="what", required=True)
    accuracy = "accuracy of the best partner, two parallel files per pair"
    tatoeba = tasks.add_parser("tatoeba", help=accuracy)
    pair: Dict[str, Any] = {"nargs": 3, "action": "append", "metavar": ("PAIR", "FILE", "FILE")}
    files = "as deu-eng FILE.deu FILE.eng; repeat for more pairs"
    tatoeba.add_argument("--pair", dest="test", default=[], help=files, **pair)
    chooses = "pair that chooses the layer; repeat for more pairs"
    tatoeba.add_argument("--dev-pair", dest="dev", default=[], help=chooses, **pair)
    directions = (
        "forward: sentences of the first language look for the second (default); backward: those "
        "of the second look for the first, as XTREME's labels have it; both, and their mean"
    )
    choices: Dict[str, Any] = {"choices": DIRECTIONS, "default": FORWARD}
    tatoeba.add_argument("--directions", help=directions, **choices)
    f1 = "F1 of mined pairs; lines are id<TAB>sentence, gold lines id<TAB>id"
    bucc = tasks.add_parser("bucc", help=f1)
    mined = {**pair, "nargs": 4, "metavar": ("PAIR", "FILE", "FILE", "GOLD")}
    threshold = "pair that finds the threshold; repeat for more pairs"
    bucc.add_argument("--dev", default=[], help=threshold, **mined)
    tests = f"the same pairs; GOLD {NO_GOLD}: predicted, not scored; repeat for more"
    bucc.add_argument("--test", default=[], help=tests, **mined)
    for task, names in ((tatoeba, TATOEBA_FILES), (bucc, BUCC_FILES)):
        add = task.add_argument
        add("model", metavar="MODEL", help="a pretrained encoder, fairseq or Hugging Face")
        folder = f"folder of XTREME's pairs with English: {names}"
        add("--folder", metavar="DIR", help=folder)
        languages = f"languages of --folder, as de,fr; {ALL}: also those that XTREME leaves out"
        add("--languages", metavar="CODES", help=f"{languages} (default: XTREME's that are there)")
        predictions = "folder for XTREME's submission files, a file TASK/test-LANG.tsv per pair"
        add("--predictions", metavar="DIR", help=predictions)
        layer = "a number, 0 being the embedding's output, or all (default)"
        add("--layer", default=ALL, help=layer)
        score = "score of two vectors (default cosine)"
        add("--score", choices=("cosine", "margin"), default="cosine", help=score)
        add_number(task, "--neighbours", 4, "neighbours of the margin", metavar="K")
        subsets = "print scores as fairseq-validate does too, for studies"
        add("--subsets", action="store_true", help=subsets)
        add_text_options(task)
        add_output_options(task)
        add_model_options(task.add_argument_group("how the model reads text"))


# ---- Checks. ----


def check_pairs(args: argparse.Namespace) -> None:
    """Add the pairs of ``--folder`` to those of the command line; look for every file.

    Sets ``args.unaligned``, the Tatoeba pairs whose English lines XTREME has sorted,
    ``args.standard``, the number of XTREME's languages, and ``args.absent``, those that are not
    read (None without a folder).

    Raises:
        ValueError: no pair, a missing file, or pairs without gold and no ``--predictions``.
    """
    args.unaligned, args.absent = [], None
    if args.folder is not None:
        _add_folder(args)
    elif args.languages:
        raise ValueError(f"--languages {args.languages}: valid: with --folder")
    is_bucc = args.what == "bucc"
    if is_bucc:
        args.test = [
            [*files, None if gold == NO_GOLD else gold] for *files, gold in map(list, args.test)
        ]
    if not (args.dev if is_bucc else [*args.test, *args.unaligned]):
        option = "--dev" if is_bucc else "--pair"
        raise ValueError(f"{option}: missing; valid: a pair, or --folder with the pairs of XTREME")
    for pair, *paths in [*args.dev, *args.test, *args.unaligned]:
        for path in paths:
            check_exists(f"{pair}:", path)
    _check_predictions(args)


def _check_predictions(args: argparse.Namespace) -> None:
    unscored = args.unaligned or [entry for entry in args.test if entry[-1] is None]
    if unscored and args.predictions is None:
        reason = "its English lines are sorted" if args.unaligned else "has no gold"
        valid = "--predictions DIR, which writes XTREME's submission files"
        raise ValueError(f"pair {unscored[0][0]}: {reason}, nothing can be scored; valid: {valid}")
    if args.predictions is None:
        return
    if os.path.exists(args.predictions) and not os.path.isdir(args.predictions):
        raise ValueError(f"--predictions {args.predictions}: is a file; valid: a folder")
    if args.what == "tatoeba" and args.layer == ALL and not args.dev:
        raise ValueError(
            f"--predictions {args.predictions}: of which layer? valid: --layer N, or --dev-pair"
        )
    if args.what == "bucc" and not args.test:
        raise ValueError(f"--predictions {args.predictions}: valid: with --test, or --folder")


# ---- Folders. ----


class Files(NamedTuple):
    """The files of a pair in a folder.

    Attributes:
        aligned: two parallel texts, or BUCC's dev set.
        others: two texts whose lines do not correspond, or BUCC's test set.
    """

    aligned: Optional[List[str]]
    others: Optional[List[str]]


def _add_folder(args: argparse.Namespace) -> None:
    if not os.path.isdir(args.folder):
        raise ValueError(f"--folder {args.folder}: no such folder")
    is_bucc = args.what == "bucc"
    pairs = _list_bucc(args.folder) if is_bucc else _list_tatoeba(args.folder)
    standard = BUCC if is_bucc else tuple(TATOEBA)
    names = BUCC_FILES if is_bucc else TATOEBA_FILES
    if not pairs:
        raise ValueError(f"--folder {args.folder}: no pair with English; valid: files {names}")
    for language in _choose_languages(args, pairs, standard):
        files = pairs[language]
        name = f"{language}-{ENGLISH}"
        if is_bucc:
            args.dev.append([name, *(files.aligned or ())])
            if files.others:
                args.test.append([name, *files.others])
        elif files.aligned:
            args.test.append([name, *files.aligned])
        else:
            args.unaligned.append([name, *(files.others or ())])


def _choose_languages(
    args: argparse.Namespace, pairs: Dict[str, Files], standard: Sequence[str]
) -> List[str]:
    """Return the languages to read, XTREME's first; set ``args.standard`` and ``args.absent``."""
    args.standard = len(standard)
    args.absent = [language for language in standard if language not in pairs]
    ordered = [language for language in standard if language in pairs]
    if args.languages == ALL:
        return [*ordered, *sorted(set(pairs) - set(standard))]
    if args.languages:
        chosen = args.languages.split(",")
        missing = [language for language in chosen if language not in pairs]
        if missing:
            valid = f"{ALL}, or some of {', '.join(sorted(pairs))}"
            problem = f"{', '.join(missing)} is not in {args.folder}"
            raise ValueError(f"--languages {args.languages}: {problem}; valid: {valid}")
        args.absent = [language for language in standard if language not in chosen]
        return list(dict.fromkeys(chosen))
    if not ordered:
        valid = f"--languages {ALL}, or some of {', '.join(sorted(pairs))}"
        raise ValueError(f"--folder {args.folder}: has no language of XTREME; valid: {valid}")
    return ordered


def _list_tatoeba(folder: str) -> Dict[str, Files]:
    """Map language -> files of every pair with English."""
    pairs: Dict[str, Files] = {}
    short = {code: language for language, code in TATOEBA.items()}
    for name in sorted(os.listdir(folder)):
        laser = re.fullmatch(rf"tatoeba\.(\w+)-{ENGLISH3}\.\1", name)
        xtreme = re.fullmatch(rf"([a-z]{{2}})-{ENGLISH}\.\1", name)
        if laser:
            language = short.get(laser[1], laser[1])
            english = f"tatoeba.{laser[1]}-{ENGLISH3}.{ENGLISH3}"
            pairs[language] = Files(_paths(folder, name, english), None)
        elif xtreme and xtreme[1] not in pairs:
            files = _paths(folder, name, f"{xtreme[1]}-{ENGLISH}.{ENGLISH}")
            pairs[xtreme[1]] = Files(None, files)
    return pairs


def _list_bucc(folder: str) -> Dict[str, Files]:
    """Map language -> files of every pair with English that has sentences of its dev set."""
    pairs: Dict[str, Files] = {}
    for name in sorted(os.listdir(folder)):
        match = re.fullmatch(rf"([a-z]{{2}})-{ENGLISH}\.dev\.\1", name)
        if not match:
            continue
        language, stem = match[1], f"{match[1]}-{ENGLISH}"
        names = {
            split: [f"{stem}.{split}.{end}" for end in (language, ENGLISH, "gold")]
            for split in ("dev", "test")
        }
        test: Optional[List[str]] = None
        if os.path.exists(os.path.join(folder, names["test"][0])):
            test = _paths(folder, *names["test"])
            if not os.path.exists(test[2]):
                test[2] = NO_GOLD
        pairs[language] = Files(_paths(folder, *names["dev"]), test)
    return pairs


def _paths(folder: str, *names: str) -> List[str]:
    return [os.path.join(folder, name) for name in names]
