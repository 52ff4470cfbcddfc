"""``fairseq-plugins translate MODEL``: text in, text out, with any translating checkpoint, ours or a stock model's.

A line in, a line out, in the order of the input; an empty line gives an empty one. The texts are those that ``fairseq-generate``
makes of the same checkpoint with the same options: options, loading, batches and search are fairseq's own.
"""

import argparse
import ast
import contextlib
import logging
import math
import sys
import time
from itertools import islice
from pathlib import Path
from typing import IO, Any, Dict, Iterator, List, NamedTuple, Optional, Sequence

import numpy as np
import torch
from fairseq import checkpoint_utils, options, utils
from fairseq.data import data_utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf, overwrite_args_by_name
from fairseq_cli.generate import get_symbols_to_strip_from_output
from omegaconf import OmegaConf, open_dict

from data_prep.files import atomic_path

from .checkpoints.vocabulary import read_json
from .commands.translate import BUFFER_LINES, MAX_TOKENS, USAGE, build_parser
from .compat.empty_sentences import translates
from .raw_text import SourceCutter, count_room, read_lines

logger = logging.getLogger(__name__)

CHECKPOINTS = ("checkpoint_best.pt", "checkpoint_last.pt")
INDEX = "translator.json"
"""In a folder of several systems: ``systems``, each a folder beside it, and which of them is ``default``."""
TRANSLATOR = "translator"
"""Where the workflow puts that folder, below its own output."""
SEARCH = "search.json"
"""Beside a checkpoint: options of its search, by name, with which it was scored."""
SEARCH_OPTIONS = (
    "beam",
    "iter-decode-blank-penalty",
    "iter-decode-max-iter",
    "lenpen",
    "max-len-a",
    "max-len-b",
    "max-source-positions",
    "truncate-source",
)
SEGMENTERS = {  # what data_prep/preprocess.sh leaves beside the dictionaries -> fairseq's options for it
    "sentencepiece.bpe.model": ("--bpe", "sentencepiece", "--sentencepiece-model"),
    "codes.bpe": ("--bpe", "fastbpe", "--bpe-codes"),
}
REPORT_SECONDS = 5.0


class Translation(NamedTuple):
    """One hypothesis: its score to base 2, as fairseq-generate shows it, and words, no pieces."""

    score: float
    text: str


class Translator(NamedTuple):
    """What stays the same from one buffer of lines to the next."""

    cfg: Any  # fairseq's configuration of this command line
    task: Any
    model: Any
    generator: Any
    encoders: Sequence[Any]  # text to pieces, and back in the other order: tokenizer and BPE, if any

    def translate(self, lines: Sequence[str], first_line: int = 1) -> List[List[Translation]]:
        """Return the n best translations of each line; one that is too long is cut, with a warning."""
        from fairseq_cli.interactive import make_batches

        device = next(self.model.parameters()).device
        longest = utils.resolve_max_positions(self.task.max_positions(), self.model.max_positions())
        cutter = SourceCutter(count_room(self.task, longest), first_line)
        found: List[List[Translation]] = [[] for _ in lines]

        def encode(text: str) -> str:
            return cutter.cut(self._pieces(text))

        for batch in make_batches(list(lines), self.cfg, self.task, longest, encode):
            net_input = {"src_tokens": batch.src_tokens.to(device), "src_lengths": batch.src_lengths.to(device)}
            sentences = self.task.inference_step(self.generator, [self.model], {"net_input": net_input})
            for number, hypotheses in zip(batch.ids.tolist(), sentences):
                found[number] = [self._translation(hypo) for hypo in hypotheses[: self.cfg.generation.nbest]]
        cutter.warn()
        return found

    def _pieces(self, text: str) -> str:
        for encoder in self.encoders:
            text = encoder.encode(text)
        return text

    def _translation(self, hypothesis: Dict[str, Any]) -> Translation:
        text = self.task.target_dictionary.string(
            hypothesis["tokens"].int().cpu(),
            self.cfg.common_eval.post_process,
            extra_symbols_to_ignore=get_symbols_to_strip_from_output(self.generator),
        )
        for encoder in reversed(self.encoders):
            text = encoder.decode(text)
        return Translation(float(hypothesis["score"]) / math.log(2), text)


def run(model: str, args: argparse.Namespace, search: Sequence[str]) -> None:
    """Translate as the command line says: ``args`` of its parser, ``search`` options of fairseq.

    Raises ValueError: as :func:`checkpoint` and :func:`load`.
    """
    with _output(args.output) as output:
        translator = load(checkpoint(model, args.system), args, search)
        work(translator, args.input, output)


@contextlib.contextmanager
def _output(path: Optional[str]) -> Iterator[IO[str]]:
    if path is None:
        yield sys.stdout
        return
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        yield file


def work(translator: Translator, source: str, output: IO[str]) -> None:
    """Translate the text ``source`` (a path; ``-`` = standard input) into ``output``, buffer by buffer."""
    lines = (line.strip() for line in read_lines(source))
    several = translator.cfg.generation.nbest > 1
    done, start = 0, time.monotonic()
    reported = start
    while True:
        buffer = list(islice(lines, translator.cfg.interactive.buffer_size))
        if not buffer:
            break
        for number, best in enumerate(translator.translate(buffer, done + 1), start=done + 1):
            if several:
                output.writelines(f"{number}\t{found.score:.4f}\t{found.text}\n" for found in best)
            else:
                output.write((best[0].text if best else "") + "\n")
        output.flush()
        done += len(buffer)
        now = time.monotonic()
        if now - reported >= REPORT_SECONDS:
            logger.info("%s lines, %.1f lines/s", f"{done:,}", done / (now - start))
            reported = now
    logger.info("done: %s lines in %.0f s", f"{done:,}", time.monotonic() - start)


# ---- The model and what belongs to it. ----


def checkpoint(model: str, system: Optional[str] = None) -> Path:
    """Return the file that MODEL and --system name; MODEL may be what `make translator` was given as OUT.

    Raises ValueError: there is none, a folder has several of unusual names, or no such system.
    """
    path = Path(model)
    if (path / TRANSLATOR / INDEX).is_file():
        path = path / TRANSLATOR
    if (path / INDEX).is_file():
        path = path / _system(path, system)
    elif system:
        raise ValueError(f"--system {system}: MODEL {model} is no folder of several systems (it has no {INDEX})")
    if path.is_file():
        return path
    if not path.is_dir():
        raise ValueError(f"MODEL {model}: no such file or folder")
    found = sorted(file.name for file in path.glob("*.pt"))
    for name in found if len(found) == 1 else CHECKPOINTS:
        if name in found:
            return path / name
    raise ValueError(f"MODEL {model}: holds {', '.join(found) or 'no .pt file'}; valid: the name of one checkpoint")


def _system(folder: Path, asked: Optional[str]) -> str:
    index = read_json(folder / INDEX, "the folder of several systems")
    systems = index.get("systems")
    plain = [name for name in systems if Path(name).name == name != ".."] if isinstance(systems, dict) else []
    known = [name for name in plain if (folder / name).is_dir()]
    name = asked or index.get("default")
    if name not in known:
        raise ValueError(
            f"--system {name}: not in {folder / INDEX}; valid: {', '.join(sorted(known)) or 'none, its folders are missing'}"
        )
    if not asked:
        logger.info(
            "%s: system %s, the better on validation; --system takes another of %s", folder, name, ", ".join(known)
        )
    return str(name)


def load(path: Path, args: argparse.Namespace, rest: Sequence[str]) -> Translator:
    """Read a checkpoint and make it ready to decode; ``args`` are of :func:`build_parser`, ``rest`` are fairseq's options.

    Raises ValueError: naming a file or an option that is missing; or the checkpoint does not translate.
    """
    state = read_state(path)
    stored = state["cfg"].task
    if not translates(stored):
        raise ValueError(f"MODEL {path}: was trained with --task {stored._name}, which does not translate")
    folders = data_folders(path, args.data, stored)
    source, target = languages(path, folders, stored, (args.source_lang, args.target_lang))
    folder = with_dictionaries(folders, stored, (source, target))
    line = [str(folder), "--path", str(path), "--task", stored._name, "--source-lang", source, "--target-lang", target]
    line += ["--bpe", args.bpe] if args.bpe else segmenter([folder, path.parent])
    tokens = args.max_tokens or (None if args.batch_size else MAX_TOKENS)
    size = args.buffer_size or (1 if args.input == "-" and sys.stdin.isatty() else BUFFER_LINES)
    batches = {"--max-tokens": tokens, "--batch-size": args.batch_size, "--buffer-size": size}
    line += [word for name, value in batches.items() if value for word in (name, str(value))]
    cfg = override([*line, *search_options(path.parent), *rest], state)
    if not cfg.generation.no_seed_provided:
        np.random.seed(cfg.common.seed)
        utils.set_torch_seed(cfg.common.seed)
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], state=state)
    model = models[0].half() if cfg.common.fp16 else models[0]
    if torch.cuda.is_available() and not cfg.common.cpu:
        model.cuda()
    model.prepare_for_inference_(cfg)
    logger.info("%s: %s, %s to %s", path, type(task).__name__, source, target)
    encoders = [task.build_tokenizer(cfg.tokenizer), task.build_bpe(cfg.bpe)]
    generator = task.build_generator([model], cfg.generation)
    return Translator(cfg, task, model, generator, [encoder for encoder in encoders if encoder is not None])


def read_state(path: Path) -> Dict[str, Any]:
    """Read a checkpoint of fairseq with the configuration of its run, on the CPU.

    Raises ValueError: the file was written by another program.
    """
    try:
        state = checkpoint_utils.load_checkpoint_to_cpu(str(path))
        if getattr(state["cfg"], "task", None) is None:
            raise KeyError("cfg.task")
    except (AttributeError, KeyError, TypeError) as error:
        problem = f"is no checkpoint of fairseq ({type(error).__name__}: {error})"
        raise ValueError(f"MODEL {path}: {problem}; valid: what fairseq-train saved") from error
    return dict(state)


def data_folders(path: Path, data: Optional[str], stored: Any) -> List[Path]:
    """Where the dictionaries may be: in ``data`` (--data) alone if given, else beside the checkpoint or where it was trained."""
    trained = utils.split_paths(str(stored.data))[:1] if stored.data else []
    return [Path(data)] if data else [path.parent, *map(Path, trained)]


def languages(path: Path, folders: Sequence[Path], stored: Any, given: Sequence[Optional[str]]) -> List[str]:
    """Source and target: what is given, what the model was trained on, or, as fairseq-train does, by the files of the data-bin.

    Raises ValueError: a model of several pairs, or no data-bin.
    """
    pair = [given[0] or stored.source_lang, given[1] or stored.target_lang]
    several = getattr(stored, "lang_pairs", None)
    for folder in folders:
        if None in pair and not several and folder.is_dir():
            pair = [one or found for one, found in zip(pair, data_utils.infer_language_pair(str(folder)))]
    if None in pair:
        trained = several if not several or isinstance(several, str) else ",".join(several)
        known = f", it was trained on {trained}" if trained else ""
        raise ValueError(f"MODEL {path}: --source-lang and --target-lang are needed{known}")
    return pair


def with_dictionaries(folders: Sequence[Path], stored: Any, pair: Sequence[str]) -> Path:
    """The first folder that has the dictionaries of a pair. Raises ValueError, naming all folders, where none has."""
    names = sorted({f"dict.{language}.txt" for language in pair})
    for folder in folders:
        if all((folder / name).is_file() for name in names):
            return folder
    if getattr(stored, "fixed_dictionary", None):  # one dictionary, of any name
        return folders[-1]
    looked = " nor in ".join(map(str, folders))
    raise ValueError(f"--data: {' and '.join(names)} are not in {looked}; valid: the data-bin of the training")


def segmenter(folders: Sequence[Path]) -> List[str]:
    """fairseq's options for the file that turns text into pieces; none where there is no such file."""
    for folder in folders:
        for name, flags in SEGMENTERS.items():
            if (folder / name).is_file():
                return [*flags, str(folder / name)]
    logger.warning("no %s beside the dictionaries: words are taken as they stand", " or ".join(SEGMENTERS))
    return []


def search_options(folder: Path) -> List[str]:
    """The options with which the checkpoint in this folder was scored, where ``search.json`` says them. ValueError: others."""
    if not (folder / SEARCH).is_file():
        return []
    found = read_json(folder / SEARCH, "options of a search")
    line = []
    for name, value in found.items():
        number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
        if name not in SEARCH_OPTIONS or not number:
            raise ValueError(f"{folder / SEARCH}: {name} {value!r}; valid: numbers of {', '.join(SEARCH_OPTIONS)}")
        line += [f"--{name}"] if value is True else [f"--{name}", str(value)] if value is not False else []
    return line


def override(line: Sequence[str], state: Dict[str, Any]) -> Any:
    """fairseq's configuration of a command line of ``fairseq-interactive``.

    What it says of task and model replaces the options in ``state``, the checkpoint, in place.
    """

    def parse(**kwargs: Any) -> argparse.Namespace:
        parser = options.get_interactive_generation_parser()
        parser.prog, parser.usage = build_parser().prog, USAGE
        return options.parse_args_and_arch(parser, list(line), **kwargs)

    cfg = convert_namespace_to_omegaconf(parse())
    known = cfg.task if OmegaConf.is_config(cfg.task) else vars(cfg.task)
    given = {name: value for name, value in vars(parse(suppress_defaults=True)).items() if name in known}
    given["truncate_source"] = True
    stored = state["cfg"].task
    if OmegaConf.is_config(stored):
        with open_dict(stored):
            stored.update(given)
    else:
        vars(stored).update(given)
    overwrite_args_by_name(state["cfg"], ast.literal_eval(cfg.common_eval.model_overrides))
    state["args"] = None  # the same in the form of older checkpoints, which fairseq would prefer
    return cfg
