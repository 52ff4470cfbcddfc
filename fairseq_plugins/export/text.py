"""Text around a model, as ``model.json`` describes it: vocabulary, pieces, pairs, limits."""

import contextlib
import copy
import os
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import torch
from fairseq import tasks, utils
from fairseq.data import Dictionary
from fairseq_cli.generate import get_symbols_to_strip_from_output
from omegaconf import OmegaConf, open_dict

from ..checkpoints.opening import find_settings
from ..checkpoints.vocabulary import (
    LIST_NAME,
    MASK,
    find_dictionary,
    read_dictionary,
    read_languages,
    stock_languages,
    task_options,
)
from ..translate import Translator

PIECES = "sentencepiece.bpe.model"
SIDES = ("source", "target")

Pair = Tuple[str, str]
Files = Dict[str, Union[str, Path]]
"""Name of a file -> its text, or a path to copy."""


# ---- Models that translate. ----


def files(translator: Translator) -> Files:
    """Collect the vocabularies and the pieces of a model.

    Raises:
        ValueError: a tokenizer that the runtime does not have.
    """
    task = translator.task
    names = _vocabularies(task)
    contents: Files = {
        names["source"]: list_symbols(task.source_dictionary.symbols),
        names["target"]: list_symbols(task.target_dictionary.symbols),
    }
    pieces = _pieces(translator.cfg)
    if pieces:
        contents[PIECES] = pieces
    return contents


def describe(translator: Translator, pairs: Sequence[Pair]) -> Dict[str, Any]:
    """Make the entries of ``model.json`` that all translating models have.

    ``target_prefix`` of each pair is left empty.
    """
    task, model = translator.task, translator.model
    limits = utils.resolve_max_positions(task.max_positions(), model.max_positions())
    source, target = _symbols(task.source_dictionary), _symbols(task.target_dictionary)
    stripped = set(get_symbols_to_strip_from_output(translator.generator))
    stripped.update((target["bos"], target["eos"]))
    description: Dict[str, Any] = {
        "vocabulary": _vocabularies(task),
        "pieces": PIECES if _pieces(translator.cfg) else None,
        "symbols": target,
    }
    if source != target:
        description["source_symbols"] = source
    description["pairs"] = [_pair(task, pair) for pair in pairs]
    description["limits"] = {"source_tokens": int(limits[0]), "target_tokens": int(limits[1])}
    description["ignored"] = sorted(stripped)
    return description


def _vocabularies(task: Any) -> Dict[str, str]:
    """Name the file of each side; one for both if they have the same entries."""
    if task.source_dictionary.symbols == task.target_dictionary.symbols:
        return dict.fromkeys(SIDES, "vocabulary.txt")
    return {side: f"vocabulary.{side}.txt" for side in SIDES}


def list_symbols(symbols: Sequence[str]) -> str:
    """Make the text of a vocabulary: a symbol per line, in the order of the ids."""
    return "".join(f"{symbol}\n" for symbol in symbols)


def _symbols(dictionary: Dictionary) -> Dict[str, int]:
    return {name: int(getattr(dictionary, name)()) for name in ("bos", "pad", "eos", "unk")}


def _pieces(cfg: Any) -> Optional[Path]:
    """Return the sentencepiece model of the text; None if it is split at spaces.

    Raises:
        ValueError: another tokenizer.
    """
    tokenizer, bpe = _name(cfg.tokenizer), _name(cfg.bpe)
    valid = "the runtime has no such tokenizer; valid: --bpe sentencepiece, or none"
    if tokenizer is not None:
        raise ValueError(f"--tokenizer {tokenizer}: {valid}")
    if bpe not in (None, "sentencepiece"):
        raise ValueError(f"--bpe {bpe}: {valid}")
    return None if bpe is None else Path(cfg.bpe.sentencepiece_model)


def _name(section: Any) -> Optional[str]:
    if section is None or isinstance(section, str):
        return section
    return getattr(section, "_name", None)


def _pair(task: Any, pair: Pair) -> Dict[str, Any]:
    """Describe a pair: its languages, and the symbols that the task puts around a source.

    They are read off a source of one piece that the task builds.
    """
    task = task_of(task, pair)
    dictionary = task.source_dictionary
    piece = dictionary.nspecial
    dataset = task.build_dataset_for_inference([torch.tensor([piece, dictionary.eos()])], [2])
    row = dataset[0]["source"].tolist()
    place = row.index(piece)
    return {
        "source": pair[0],
        "target": pair[1],
        "source_prefix": row[:place],
        "source_suffix": row[place + 1 :],
        "target_prefix": [],
    }


def task_of(task: Any, pair: Pair) -> Any:
    """Set up the task for these languages, with their dictionaries and tags."""
    options = getattr(task, "cfg", None) or task.args
    if (options.source_lang, options.target_lang) == tuple(pair):
        return task
    options = copy.deepcopy(options)
    with open_dict(options) if OmegaConf.is_config(options) else contextlib.nullcontext():
        options.source_lang, options.target_lang = pair
    return tasks.setup_task(options, from_checkpoint=True)


# ---- Any checkpoint: meaning of the rows of its embedding. ----


def places_of(state: Mapping[str, Any], folder: Path, data: Optional[Any] = None) -> List[Path]:
    """List the folders that may have the dictionary and the pieces.

    Args:
        state: content of the checkpoint.
        folder: of the checkpoint.
        data: looked in alone, if set; else ``folder`` and the data folder of the training.
    """
    roots = [folder]
    data_path = task_options(state).get("data") or find_settings(state).get("data")
    if data is not None:
        roots = [Path(data)]
    elif data_path:
        roots.append(Path(str(data_path).split(os.pathsep)[0]))
    return [place for root in roots for place in (root, root / "input0")]


def entries_of(state: Mapping[str, Any], rows: int, places: List[Path], origin: str) -> List[str]:
    """List the entries of the rows: the dictionary's, the languages' and ``<mask>``.

    Returns an empty list if there is no dictionary.

    Raises:
        ValueError: the dictionary has more entries than the embedding has rows, or fewer, and no
            file names the missing ones.
    """
    dictionaries = (find_dictionary(place, {}) for place in places)
    file = next(filter(None, dictionaries), None)
    if file is None:
        return []
    entries, settings = read_dictionary(file), find_settings(state)
    style = {**settings, **task_options(state)}.get("language_template")
    languages = stock_languages(state, settings, str(style or "[{}]"))
    names = languages.listed
    if not names:
        lists = [place / name for place in places for name in (languages.file, LIST_NAME) if name]
        names = next((read_languages(path) for path in lists if path.is_file()), None)
    for symbol in [*languages.symbols(names), MASK]:
        if symbol not in entries and len(entries) < rows:
            entries.append(symbol)
    if len(entries) != rows:
        count = f"{file} with its languages {len(entries):,} entries"
        raise ValueError(f"{origin}: has {rows:,} rows, {count}; give --data")
    return entries
