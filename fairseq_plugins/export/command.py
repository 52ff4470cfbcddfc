"""``fairseq-plugins export MODEL FOLDER``: a trained model in a format that other programs read.

``onnx`` is for the runtime (``python -m fairseq_plugins_runtime``), ``safetensors`` is a checkpoint
for other programs.
"""

import argparse
import importlib.util
import logging
from pathlib import Path
from types import ModuleType
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from .. import model_files, translate
from ..checkpoints import export as portable
from ..common.data_bins import split_pair
from . import encoder_decoder, encoders, huggingface, slots, text
from . import folder as folders

logger = logging.getLogger(__name__)

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
FORMATS_OF_OPTIONS = {
    "int8": ("onnx",),
    "encoder": ("onnx",),
    "source_lang": ("onnx",),
    "target_lang": ("onnx",),
    "half": ("safetensors",),
    "no_dictionaries": ("safetensors",),
    "frozen": ("huggingface",),
    "heads": ("onnx", "huggingface"),
}
"""Option -> the formats for which it means something."""
TRANSLATING: Tuple[ModuleType, ...] = (slots, encoder_decoder)
"""Modules that export translating models: those of the classes in their ``MODELS``."""
SEARCH = (
    *model_files.SEARCH_OPTIONS,
    "unkpen",
    "min-len",
    "unnormalized",
    "iter-decode-force-max-iter",
    "mask-predict-iterations",
    "length-beam",
    "model-overrides",
)
"""Options that are passed on to fairseq.

They are those of a search that the runtime has, and ``--model-overrides``, which may tell where a
frozen model lies.
"""


def work(args: argparse.Namespace, search: Sequence[str]) -> None:
    """Export a model.

    Args:
        search: words of the command line that fairseq reads.

    Raises:
        ValueError: a model that cannot be exported, or options without meaning for the format.
    """
    folder = Path(args.folder)
    check_options(args, search)
    if args.format == "huggingface":
        path = model_files.find_checkpoint(args.model, args.system)
        huggingface.export_huggingface(path, folder, args.data, args.heads, args.frozen)
    elif args.format == "safetensors":
        portable.check_folder(folder)
        path = model_files.find_checkpoint(args.model, args.system)
        portable.export_checkpoint(path, folder, args.data, not args.no_dictionaries, args.half)
    else:
        missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
        if missing:
            raise ValueError(
                f"--format onnx needs {', '.join(missing)}, which is not installed: pip install "
                "'fairseq_plugins[onnx]'"
            )
        check_search(search)
        folders.check_folder(folder)
        folders.write(folder, content(args, search), args.int8)


def check_options(args: argparse.Namespace, search: Sequence[str]) -> None:
    """Raise ValueError for an option that has no meaning for the format."""
    wrong = [
        f"--{name.replace('_', '-')}"
        for name, formats in FORMATS_OF_OPTIONS.items()
        if getattr(args, name) and args.format not in formats
    ]
    if args.format != "onnx":
        wrong += search
    if wrong:
        raise ValueError(f"{wrong[0]}: has no meaning with --format {args.format}; leave it out")


def check_search(words: Sequence[str]) -> None:
    """Raise ValueError for an option that is not in :data:`SEARCH`."""
    for word in words:
        option = word.split("=")[0]
        if option.startswith("--") and option[2:] not in SEARCH:
            valid = f"--{', --'.join(SEARCH)}"
            raise ValueError(f"{option}: the runtime does not read it; valid: {valid}")


def content(args: argparse.Namespace, search: Sequence[str]) -> folders.Content:
    """Make the content of the folder by the class of MODEL.

    Raises:
        ValueError: the class cannot be exported, or an option has no meaning for it.
    """
    path = model_files.find_checkpoint(args.model, args.system)
    if args.encoder or encoders.is_encoder(path):
        languages = [f"--{side}-lang" for side in text.SIDES if getattr(args, f"{side}_lang")]
        wrong = [*languages, *search]
        if wrong:
            raise ValueError(f"{wrong[0]}: has no meaning for an encoder; leave it out")
        return encoders.content(path, args.data, args.heads, args.encoder)
    if args.heads:
        raise ValueError(
            "--heads: a model that translates tells its own; leave it out, or give --encoder"
        )
    translator, pairs = load(path, args, search)
    for module in TRANSLATING:
        if isinstance(translator.model, module.MODELS):
            return module.content(translator, pairs)
    name = type(translator.model).__name__
    valid = sorted(model.__name__ for module in TRANSLATING for model in module.MODELS)
    raise ValueError(
        f"MODEL {path}: is a {name}, which cannot be exported; valid: {', '.join(valid)}"
    )


class LoadedModel(NamedTuple):
    """A translating model, and the pairs that it is exported for."""

    translator: translate.Translator
    pairs: List[text.Pair]


def load(path: Path, args: argparse.Namespace, search: Sequence[str]) -> LoadedModel:
    """Read a translating checkpoint, for the pair of ``args`` or all that it was trained on."""
    languages = (args.source_lang, args.target_lang)
    pairs = pairs_of(translate.read_state(path)["cfg"].task, languages)
    options = translate.build_parser().parse_args([])
    options.data = args.data
    options.source_lang, options.target_lang = pairs[0] if pairs else languages
    translator = translate.load(path, options, ["--cpu", *search])
    task: Any = translator.task
    task_options = getattr(task, "cfg", None) or task.args
    return LoadedModel(translator, pairs or [(task_options.source_lang, task_options.target_lang)])


def pairs_of(options: Any, languages: Tuple[Optional[str], Optional[str]]) -> List[text.Pair]:
    """List the pairs that a model of several pairs was trained on, in its order.

    The list is empty for a model of one pair, or if the command line names a language.

    Args:
        options: of its task.
        languages: source and target of the command line.
    """
    pairs = getattr(options, "lang_pairs", None)
    if languages != (None, None) or not pairs or options.source_lang:
        return []
    names = pairs.split(",") if isinstance(pairs, str) else pairs
    return [split_pair("--lang-pairs", name.strip()) for name in names]
