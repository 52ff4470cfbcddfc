"""``fairseq-plugins export MODEL FOLDER``: a trained model in a format that other programs read.

``onnx`` is for the runtime (``python -m fairseq_plugins_runtime``), ``safetensors`` is a checkpoint for other programs.
"""

import argparse
import importlib.util
import logging
from pathlib import Path
from types import ModuleType
from typing import Any, List, Optional, Sequence, Tuple

from .. import model_files, translate
from ..checkpoints import export as portable
from ..common.data_bins import split_pair
from . import encoder_decoder, encoders, huggingface, slots, text
from . import folder as folders

logger = logging.getLogger(__name__)

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
MEANT_FOR = {
    **dict.fromkeys(("int8", "encoder", "source_lang", "target_lang"), ("onnx",)),
    **dict.fromkeys(("half", "no_dictionaries"), ("safetensors",)),
    "frozen": ("huggingface",),
    "heads": ("onnx", "huggingface"),
}
"""Option -> the formats for which it means something."""
TRANSLATING: Tuple[ModuleType, ...] = (slots, encoder_decoder)
"""Files with ``MODELS``, classes whose models they export, and ``content(translator, pairs)``."""
SEARCH = (
    *model_files.SEARCH_OPTIONS,
    *("unkpen", "min-len", "unnormalized", "iter-decode-force-max-iter", "mask-predict-iterations", "length-beam"),
    "model-overrides",
)
"""Options that fairseq reads: of a search that the runtime has, and where a frozen model lies."""


def work(args: argparse.Namespace, rest: Sequence[str]) -> None:
    """Export a model. Raises ValueError: something that cannot be exported, or options that have no meaning for the format."""
    folder = Path(args.folder)
    check_options(args, rest)
    if args.format == "huggingface":
        huggingface.export_huggingface(
            model_files.find_checkpoint(args.model, args.system), folder, args.data, args.heads, args.frozen
        )
        return
    if args.format == "safetensors":
        portable.check_folder(folder)
        path = model_files.find_checkpoint(args.model, args.system)
        portable.export_checkpoint(path, folder, args.data, not args.no_dictionaries, args.half)
        return
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(
            f"--format onnx needs {', '.join(missing)}, which is not installed: pip install 'fairseq_plugins[onnx]'"
        )
    check_search(rest)
    folders.check_folder(folder)
    folders.write(folder, content(args, rest), args.int8)


def check_options(args: argparse.Namespace, rest: Sequence[str]) -> None:
    """Raise ValueError for an option that has no meaning for the format."""
    others = rest if args.format != "onnx" else ()
    names = [name for name, formats in MEANT_FOR.items() if getattr(args, name) and args.format not in formats]
    given = [*(f"--{name.replace('_', '-')}" for name in names), *others]
    if given:
        raise ValueError(f"{given[0]}: has no meaning with --format {args.format}; leave it out")


def check_search(words: Sequence[str]) -> None:
    """Raise ValueError for an option that is none of :data:`SEARCH`."""
    for word in words:
        if word.startswith("--") and word[2:].split("=")[0] not in SEARCH:
            raise ValueError(f"{word.split('=')[0]}: the runtime does not read it; valid: --{', --'.join(SEARCH)}")


def content(args: argparse.Namespace, rest: Sequence[str]) -> folders.Content:
    """What MODEL is, by its class. Raises ValueError for a class that cannot be exported."""
    path = model_files.find_checkpoint(args.model, args.system)
    if args.encoder or encoders.understands(path):
        pair = [f"--{name}-lang" for name in text.SIDES if getattr(args, f"{name}_lang")]
        if rest or pair:
            raise ValueError(f"{[*pair, *rest][0]}: has no meaning for an encoder; leave it out")
        return encoders.content(path, args.data, args.heads, args.encoder)
    if args.heads:
        raise ValueError("--heads: a model that translates tells its own; leave it out, or give --encoder")
    translator, pairs = load(path, args, rest)
    for module in TRANSLATING:
        if isinstance(translator.model, module.MODELS):
            return module.content(translator, pairs)
    known = sorted(one.__name__ for module in TRANSLATING for one in module.MODELS)
    raise ValueError(
        f"MODEL {path}: is a {type(translator.model).__name__}, which cannot be exported; valid: {', '.join(known)}"
    )


def load(path: Path, args: argparse.Namespace, rest: Sequence[str]) -> Tuple[translate.Translator, List[text.Pair]]:
    """Read a translating checkpoint, and the pairs it is exported for: the one given, or all that it was trained on."""
    pairs = pairs_of(translate.read_state(path)["cfg"].task, (args.source_lang, args.target_lang))
    options = translate.build_parser().parse_args([])
    source, target = pairs[0] if pairs else (args.source_lang, args.target_lang)
    vars(options).update(data=args.data, source_lang=source, target_lang=target)
    translator = translate.load(path, options, ["--cpu", *rest])
    task: Any = translator.task
    stored = getattr(task, "cfg", None) or task.args
    return translator, pairs or [(stored.source_lang, stored.target_lang)]


def pairs_of(stored: Any, given: Tuple[Optional[str], Optional[str]]) -> List[text.Pair]:
    """The pairs of a model that was trained on several, in its order; empty where one is given, or it has no such list."""
    listed = getattr(stored, "lang_pairs", None)
    if given != (None, None) or not listed or stored.source_lang:
        return []
    names = listed.split(",") if isinstance(listed, str) else listed
    return [split_pair("--lang-pairs", name.strip()) for name in names]
