"""Load the trained systems that ``benchmarks.trained`` times, with the decodings of each."""

import argparse
import copy
import json
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence

import sentencepiece
import torch
from fairseq import checkpoint_utils

import fairseq_plugins  # noqa: F401  (registers what checkpoints may hold)

Options = Dict[str, Any]
"""Options of a generator."""

FORCED: Options = {"iter_decode_max_iter": 1, "iter_decode_force_max_iter": True}
ALLOWED: Options = {"iter_decode_max_iter": 8}
WITHOUT: Options = {"iter_decode_max_iter": 0}
PASSES: List[Options] = [WITHOUT, FORCED, ALLOWED, {"iter_decode_max_iter": 10}]
MASK_PREDICT: List[Options] = [
    {"mask_predict_iterations": iterations, "iter_decode_max_iter": passes}
    for passes in (0, 10)
    for iterations in (2, 4, 8)
]
GRAPH: List[Options] = [
    {"dag_decoding": "lookahead", "iter_decode_max_iter": 0},
    {"dag_decoding": "viterbi", "iter_decode_max_iter": 0},
    {"dag_decoding": "lookahead", "iter_decode_max_iter": 10},
    {"dag_decoding": "viterbi", "iter_decode_max_iter": 10},
]
BY_ALIGNMENT = {"mask_predict": MASK_PREDICT, "dag": GRAPH}
BEAMS: List[Options] = [{"beam": beam, "max_len_a": 1.2, "max_len_b": 10} for beam in (5, 1)]
DECODINGS: Dict[str, List[Options]] = {
    "sga_translation": PASSES,
    "sga_translation_multi": PASSES,
    "translation": BEAMS,
    "translation_multi_simple_epoch": BEAMS,
    "translation_multi_temperature": BEAMS,
    "translation_from_pretrained_bart": BEAMS,
}
"""Task -> options of each generator that is timed."""


class System(NamedTuple):
    """A trained model and one decoding.

    Attributes:
        name: name of ``--system``, a comma, and the decoding.
        task: task of the checkpoint.
        model: model in evaluation mode.
        generator: generator that the task built.
        pieces: sentencepiece model of its data.
    """

    name: str
    task: Any
    model: Any
    generator: Any
    pieces: Any


class Source(NamedTuple):
    """Files of a system: ``NAME=CHECKPOINT[,DATA[,SENTENCEPIECE]]``."""

    name: str
    checkpoint: str
    data: Path
    sentencepiece: Path

    @classmethod
    def parse(cls, option: str, data: Path, pieces: Path) -> "Source":
        """Read ``--system``; ``data`` and ``pieces`` are used if it leaves them out.

        Raises:
            ValueError: no name, no checkpoint, or more than three paths.
        """
        name, _, text = option.partition("=")
        paths = text.split(",")
        if not (name and all(paths)) or len(paths) > 3:
            raise ValueError(f"--system {option}: valid: NAME=CHECKPOINT[,DATA[,SENTENCEPIECE]]")
        defaults = (str(data), str(pieces))[len(paths) - 1 :]
        return cls(name, paths[0], *map(Path, [*paths[1:], *defaults]))


def parse_generation(texts: Sequence[str], names: Sequence[str]) -> Dict[str, Options]:
    """Read ``--generation NAME=JSON``: options of all generators of a system.

    Args:
        texts: the options.
        names: names of the systems.

    Raises:
        ValueError: an unknown system, or no JSON object.
    """
    generation = {}
    for text in texts:
        name, _, options = text.partition("=")
        try:
            generation[name] = json.loads(options)
        except json.JSONDecodeError:
            generation[name] = None
        if name not in names or not isinstance(generation[name], dict):
            valid = f"NAME={{...}}, NAME one of {', '.join(names)}"
            raise ValueError(f"--generation {text}: valid: {valid}")
    return generation


def load(
    source: Source,
    pair: str,
    device: torch.device,
    generation: Mapping[str, Any],
) -> List[System]:
    """Load a model with all its decodings.

    Args:
        source: files of the system.
        pair: languages, such as ``de-en``.
        device: device of the model.
        generation: options of its generators beside those of the decodings.

    Raises:
        ValueError: the task of the checkpoint is not timed here.
    """
    overrides: Options = {"data": str(source.data), "eval_bleu": False}
    languages = (language_name(source.data, language) for language in pair.split("-"))
    overrides["source_lang"], overrides["target_lang"] = languages
    models, cfg, task = checkpoint_utils.load_model_ensemble_and_task(
        [source.checkpoint],
        arg_overrides=overrides,
    )
    if cfg.task._name not in DECODINGS:
        valid = ", ".join(DECODINGS)
        raise ValueError(f"--system {source.name}: task {cfg.task._name}; valid: {valid}")
    model = models[0].to(device).eval()
    model.prepare_for_inference_(cfg)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(source.sentencepiece))
    systems = []
    for options in select_decodings(cfg.task._name, model):
        # A stock BART keeps the beam of a generator that was built on it: one model for each.
        copied = copy.deepcopy(model)
        args = argparse.Namespace(**{**dict(cfg.generation), **generation, **options})
        generator = task.build_generator([copied], args)
        name = f"{source.name}, {describe_decoding(options)}"
        systems.append(System(name, task, copied, generator, pieces))
    return systems


def language_name(data: Path, language: str) -> str:
    """Return the name of a language in a data-bin: ``de``, or ``de_DE`` in one of mBART."""
    names = sorted(path.name.split(".")[1] for path in data.glob(f"dict.{language}_*.txt"))
    return names[0] if names and not (data / f"dict.{language}.txt").is_file() else language


def select_decodings(task: str, model: Any) -> List[Options]:
    """Return the options of the generators to time, without passes if there is no denoiser."""
    decodings = BY_ALIGNMENT.get(getattr(model, "alignment", "ctc"), DECODINGS[task])
    if getattr(model, "has_denoiser", True):
        return decodings
    return [options for options in decodings if options["iter_decode_max_iter"] == 0]


def describe_decoding(options: Options) -> str:
    """Describe a decoding in words; the text before the last comma names its curve in the plot."""
    if "beam" in options:
        return f"beam {options['beam']}"
    denoiser = "denoiser, " if options["iter_decode_max_iter"] else ""
    if "mask_predict_iterations" in options:
        return f"{denoiser}{options['mask_predict_iterations']} iterations"
    if "dag_decoding" in options:
        return denoiser + options["dag_decoding"]
    if options == FORCED:
        return "1 forced pass"
    return f"at most {options['iter_decode_max_iter']} passes"
