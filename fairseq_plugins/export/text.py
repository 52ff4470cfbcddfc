"""What a translating model reads and writes, as ``model.json`` says it: vocabulary, pieces, pairs, limits."""

import contextlib
import copy
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import torch
from fairseq import tasks, utils
from fairseq.data import Dictionary
from fairseq_cli.generate import get_symbols_to_strip_from_output
from omegaconf import OmegaConf, open_dict

from ..translate import Translator

PIECES = "sentencepiece.bpe.model"
SIDES = ("source", "target")

Pair = Tuple[str, str]


def files(translator: Translator) -> Dict[str, Union[str, Path]]:
    """The vocabularies and the pieces of a model; ValueError for a way to make pieces that the runtime does not have."""
    task = translator.task
    names = _vocabularies(task).values()
    found: Dict[str, Union[str, Path]] = dict(zip(names, map(_lines, _dictionaries(task))))
    pieces = _pieces(translator.cfg)
    return {**found, PIECES: pieces} if pieces else found


def describe(translator: Translator, pairs: Sequence[Pair]) -> Dict[str, Any]:
    """The entries of ``model.json`` that all translating models have; ``target_prefix`` of a pair is empty here."""
    task, model = translator.task, translator.model
    longest = utils.resolve_max_positions(task.max_positions(), model.max_positions())
    source, target = map(_symbols, _dictionaries(task))
    stripped = {*get_symbols_to_strip_from_output(translator.generator), target["bos"], target["eos"]}
    return {
        "vocabulary": _vocabularies(task),
        "pieces": PIECES if _pieces(translator.cfg) else None,
        "symbols": target,
        **({"source_symbols": source} if source != target else {}),
        "pairs": [_pair(task, pair) for pair in pairs],
        "limits": dict(zip(("source_tokens", "target_tokens"), map(int, longest))),
        "ignored": sorted(stripped),
    }


def _dictionaries(task: Any) -> List[Dictionary]:
    return [task.source_dictionary, task.target_dictionary]


def _vocabularies(task: Any) -> Dict[str, str]:
    """The file of each side; one for both where they are the same."""
    source, target = _dictionaries(task)
    if source.symbols == target.symbols:
        return dict.fromkeys(SIDES, "vocabulary.txt")
    return {side: f"vocabulary.{side}.txt" for side in SIDES}


def _lines(dictionary: Dictionary) -> str:
    """One symbol a line, in the order of the ids."""
    return "".join(f"{symbol}\n" for symbol in dictionary.symbols)


def _symbols(dictionary: Dictionary) -> Dict[str, int]:
    return {name: int(getattr(dictionary, name)()) for name in ("bos", "pad", "eos", "unk")}


def _pieces(cfg: Any) -> Optional[Path]:
    """The sentencepiece model that the text is cut with; None for words as they stand. ValueError: another tokenizer."""
    names = {"--tokenizer": _name(cfg.tokenizer), "--bpe": _name(cfg.bpe)}
    for option, name in names.items():
        if name is not None and (option, name) != ("--bpe", "sentencepiece"):
            raise ValueError(f"{option} {name}: the runtime has no such tokenizer; valid: --bpe sentencepiece, or none")
    return None if names["--bpe"] is None else Path(cfg.bpe.sentencepiece_model)


def _name(section: Any) -> Optional[str]:
    return section if section is None or isinstance(section, str) else getattr(section, "_name", None)


def _pair(task: Any, pair: Pair) -> Dict[str, Any]:
    """The languages of a pair, and what the task puts around the pieces of a source."""
    task = task_of(task, pair)
    dictionary = task.source_dictionary
    piece = dictionary.nspecial
    row = task.build_dataset_for_inference([torch.tensor([piece, dictionary.eos()])], [2])[0]["source"].tolist()
    place = row.index(piece)
    names = dict(zip(SIDES, pair))
    return {**names, "source_prefix": row[:place], "source_suffix": row[place + 1 :], "target_prefix": []}


def task_of(task: Any, pair: Pair) -> Any:
    """The task as it is set up for these languages, with the dictionaries and tags that belong to them."""
    options = getattr(task, "cfg", None) or task.args
    if (options.source_lang, options.target_lang) == tuple(pair):
        return task
    other = copy.deepcopy(options)
    with open_dict(other) if OmegaConf.is_config(other) else contextlib.nullcontext():
        other.source_lang, other.target_lang = pair
    return tasks.setup_task(other, from_checkpoint=True)
