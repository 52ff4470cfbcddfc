"""The trained systems that ``benchmarks.trained`` times, and the ways of decoding with each."""

import argparse
import copy
import json
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence

import sentencepiece
import torch
from fairseq import checkpoint_utils

import fairseq_plugins  # noqa: F401  (registers what checkpoints may hold)

FORCED: Dict[str, Any] = {"iter_decode_max_iter": 1, "iter_decode_force_max_iter": True}
ALLOWED: Dict[str, Any] = {"iter_decode_max_iter": 8}
PASSES: List[Dict[str, Any]] = [{"iter_decode_max_iter": 0}, FORCED, ALLOWED, {"iter_decode_max_iter": 10}]
MASK_PREDICT: List[Dict[str, Any]] = [
    {"mask_predict_iterations": iterations, "iter_decode_max_iter": passes}
    for passes in (0, 10)
    for iterations in (2, 4, 8)
]
GRAPH: List[Dict[str, Any]] = [
    {"dag_decoding": path, "iter_decode_max_iter": passes} for passes in (0, 10) for path in ("lookahead", "viterbi")
]
BY_ALIGNMENT = {"mask_predict": MASK_PREDICT, "dag": GRAPH}
BEAMS: List[Dict[str, Any]] = [{"beam": beam, "max_len_a": 1.2, "max_len_b": 10} for beam in (5, 1)]
DECODINGS: Dict[str, List[Dict[str, Any]]] = {
    "sga_translation": PASSES,
    "sga_translation_multi": PASSES,
    "translation": BEAMS,
    "translation_multi_simple_epoch": BEAMS,
    "translation_multi_temperature": BEAMS,
    "translation_from_pretrained_bart": BEAMS,
}
"""By task: the options of each generator that is timed."""


class System(NamedTuple):
    """A trained model and one way of decoding with it.

    Attributes:
        name: what ``--system`` calls it, a comma, and the decoding.
        task: of the checkpoint.
        model: in evaluation mode.
        generator: of the task.
        pieces: the sentencepiece model of its data.
    """

    name: str
    task: Any
    model: Any
    generator: Any
    pieces: Any


class Source(NamedTuple):
    """``NAME=CHECKPOINT[,DATA[,SENTENCEPIECE]]``: where a system comes from."""

    name: str
    checkpoint: str
    data: Path
    sentencepiece: Path

    @classmethod
    def parse(cls, option: str, data: Path, pieces: Path) -> "Source":
        """Read ``--system``; what it leaves out is ``--data`` and ``--sentencepiece``.

        Raises:
            ValueError: no name, no checkpoint, or more than three paths.
        """
        name, _, paths = option.partition("=")
        found = paths.split(",")
        if not (name and all(found)) or len(found) > 3:
            raise ValueError(f"--system {option}: valid: NAME=CHECKPOINT[,DATA[,SENTENCEPIECE]]")
        return cls(name, found[0], *(map(Path, [*found[1:], *(str(data), str(pieces))[len(found) - 1 :]])))


def generation_options(given: Sequence[str], names: Sequence[str]) -> Dict[str, Dict[str, Any]]:
    """``--generation NAME=JSON``: options of the generator of a system, beside those of its decodings.

    Raises:
        ValueError: no such system, or no JSON object.
    """
    found = {}
    for option in given:
        name, _, text = option.partition("=")
        try:
            found[name] = json.loads(text)
        except json.JSONDecodeError:
            found[name] = None
        if name not in names or not isinstance(found[name], dict):
            raise ValueError(f"--generation {option}: valid: NAME={{...}}, NAME one of {', '.join(names)}")
    return found


def load(source: Source, pair: str, device: torch.device, generation: Mapping[str, Any]) -> List[System]:
    """All decodings of a system.

    Args:
        source: the system.
        pair: ``de-en``.
        device: of the model.
        generation: options of its generators beside those of the decodings.

    Raises:
        ValueError: a task that is not timed here.
    """
    overrides: Dict[str, Any] = {"data": str(source.data), "eval_bleu": False}
    overrides["source_lang"], overrides["target_lang"] = (own_name(source.data, name) for name in pair.split("-"))
    models, cfg, task = checkpoint_utils.load_model_ensemble_and_task([source.checkpoint], arg_overrides=overrides)
    if cfg.task._name not in DECODINGS:
        raise ValueError(f"--system {source.name}: task {cfg.task._name}; valid: {', '.join(DECODINGS)}")
    model = models[0].to(device).eval()
    model.prepare_for_inference_(cfg)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(source.sentencepiece))
    systems = []
    for options in decodings(cfg.task._name, model):
        # One model each: a stock BART keeps the beam of a generator that was built on it, if that is above 1.
        own = copy.deepcopy(model)
        given = argparse.Namespace(**{**dict(cfg.generation), **generation, **options})
        generator = task.build_generator([own], given)
        systems.append(System(f"{source.name}, {described(options)}", task, own, generator, pieces))
    return systems


def own_name(data: Path, language: str) -> str:
    """What a data-bin calls a language: ``de``, or ``de_DE`` where it is one of an mBART."""
    found = sorted(path.name.split(".")[1] for path in data.glob(f"dict.{language}_*.txt"))
    return found[0] if found and not (data / f"dict.{language}.txt").is_file() else language


def decodings(task: str, model: Any) -> List[Dict[str, Any]]:
    """Options of the generators; a model without a denoiser has nothing to pass."""
    found = BY_ALIGNMENT.get(getattr(model, "alignment", "ctc"), DECODINGS[task])
    if getattr(model, "has_denoiser", True):
        return found
    return [options for options in found if options["iter_decode_max_iter"] == 0]


def described(options: Dict[str, Any]) -> str:
    """A decoding in words."""
    if "beam" in options:
        return f"beam {options['beam']}"
    # The plot has a curve for what stands before the last comma.
    denoised = "denoiser, " * bool(options["iter_decode_max_iter"])
    if "mask_predict_iterations" in options:
        return f"{denoised}{options['mask_predict_iterations']} iterations"
    if "dag_decoding" in options:
        return denoised + options["dag_decoding"]
    return "1 forced pass" if options == FORCED else f"at most {options['iter_decode_max_iter']} passes"
