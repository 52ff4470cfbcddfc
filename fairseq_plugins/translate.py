"""Translate text with a checkpoint of this package or of stock fairseq.

Each line gives a line, in the order of the input; an empty line gives an empty line. The texts are
those of ``fairseq-generate`` with the same checkpoint and options: options, loading, batches and
search are fairseq's own.
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
from fairseq.dataclass.utils import convert_namespace_to_omegaconf, overwrite_args_by_name
from fairseq_cli.generate import get_symbols_to_strip_from_output
from omegaconf import OmegaConf, open_dict

from data_prep.files import atomic_path

from .commands.translate import BUFFER_LINES, MAX_TOKENS, USAGE, build_parser
from .compat.empty_sentences import translates
from .model_files import (
    choose_languages,
    find_checkpoint,
    find_dictionaries,
    find_segmenter,
    list_data_folders,
    read_search_options,
)
from .raw_text import SourceCutter, count_room, read_lines

logger = logging.getLogger(__name__)

REPORT_SECONDS = 5.0


class Translation(NamedTuple):
    """A translation of a line."""

    score: float  # to base 2, as fairseq-generate prints it
    text: str


class Translator(NamedTuple):
    """A model that is ready to translate, and what belongs to it."""

    cfg: Any  # fairseq's configuration of this command line
    task: Any
    model: Any
    generator: Any
    encoders: Sequence[Any]  # tokenizer and BPE, if any, in the order that turns text into pieces

    def translate(self, lines: Sequence[str], first_line: int = 1) -> List[List[Translation]]:
        """Translate lines; those that are too long are cut, with a warning.

        Args:
            first_line: number of the first line, for the warning.

        Returns:
            The n best translations of each line.
        """
        from fairseq_cli.interactive import make_batches

        device = next(self.model.parameters()).device
        longest = utils.resolve_max_positions(self.task.max_positions(), self.model.max_positions())
        cutter = SourceCutter(count_room(self.task, longest), first_line)
        translations: List[List[Translation]] = [[] for _ in lines]

        def encode(text: str) -> str:
            """Turn a line into pieces, and cut them to the length that the model reads."""
            for encoder in self.encoders:
                text = encoder.encode(text)
            return cutter.cut(text)

        for batch in make_batches(list(lines), self.cfg, self.task, longest, encode):
            net_input = {
                "src_tokens": batch.src_tokens.to(device),
                "src_lengths": batch.src_lengths.to(device),
            }
            sample = {"net_input": net_input}
            sentences = self.task.inference_step(self.generator, [self.model], sample)
            for number, hypotheses in zip(batch.ids.tolist(), sentences):
                best = hypotheses[: self.cfg.generation.nbest]
                translations[number] = [self._read_hypothesis(hypothesis) for hypothesis in best]
        cutter.warn()
        return translations

    def _read_hypothesis(self, hypothesis: Dict[str, Any]) -> Translation:
        text = self.task.target_dictionary.string(
            hypothesis["tokens"].int().cpu(),
            self.cfg.common_eval.post_process,
            extra_symbols_to_ignore=get_symbols_to_strip_from_output(self.generator),
        )
        for encoder in reversed(self.encoders):
            text = encoder.decode(text)
        return Translation(float(hypothesis["score"]) / math.log(2), text)


def run(model: str, args: argparse.Namespace, search: Sequence[str]) -> None:
    """Run the command line.

    Args:
        model: MODEL, see :func:`find_checkpoint`.
        args: options of this package's parser.
        search: words that fairseq's parser reads.

    Raises:
        ValueError: see :func:`find_checkpoint` and :func:`load`.
    """
    with _open_output(args.output) as output:
        translator = load(find_checkpoint(model, args.system), args, search)
        translate_text(translator, args.input, output)


@contextlib.contextmanager
def _open_output(path: Optional[str]) -> Iterator[IO[str]]:
    """Open a file, which appears when it is complete, or standard output."""
    if path is None:
        yield sys.stdout
        return
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        yield file


def translate_text(translator: Translator, source: str, output: IO[str]) -> None:
    """Translate a text buffer by buffer.

    Args:
        source: path; ``-`` = standard input.
        output: gets the translations.
    """
    lines = (line.strip() for line in read_lines(source))
    count, start = 0, time.monotonic()
    last_report = start
    while True:
        buffer = list(islice(lines, translator.cfg.interactive.buffer_size))
        if not buffer:
            break
        for number, best in enumerate(translator.translate(buffer, count + 1), start=count + 1):
            if translator.cfg.generation.nbest > 1:
                output.writelines(f"{number}\t{score:.4f}\t{text}\n" for score, text in best)
            else:
                output.write((best[0].text if best else "") + "\n")
        output.flush()
        count += len(buffer)
        now = time.monotonic()
        if now - last_report >= REPORT_SECONDS:
            logger.info("%s lines, %.1f lines/s", f"{count:,}", count / (now - start))
            last_report = now
    logger.info("done: %s lines in %.0f s", f"{count:,}", time.monotonic() - start)


def load(path: Path, args: argparse.Namespace, words: Sequence[str]) -> Translator:
    """Read a checkpoint and make it ready to translate.

    Args:
        args: options of :func:`build_parser`.
        words: words that fairseq's parser reads.

    Raises:
        ValueError: the checkpoint does not translate, or a file or an option is missing.
    """
    state = read_state(path)
    task_options = state["cfg"].task
    if not translates(task_options):
        fault = f"was trained with --task {task_options._name}, which does not translate"
        raise ValueError(f"MODEL {path}: {fault}")
    line = _build_line(path, args, task_options)
    cfg = override_options([*line, *read_search_options(path.parent), *words], state)
    if not cfg.generation.no_seed_provided:
        np.random.seed(cfg.common.seed)
        utils.set_torch_seed(cfg.common.seed)
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], state=state)
    model = models[0].half() if cfg.common.fp16 else models[0]
    if torch.cuda.is_available() and not cfg.common.cpu:
        model.cuda()
    model.prepare_for_inference_(cfg)
    source, target = cfg.task.source_lang, cfg.task.target_lang
    logger.info("%s: %s, %s to %s", path, type(task).__name__, source, target)
    encoders = [task.build_tokenizer(cfg.tokenizer), task.build_bpe(cfg.bpe)]
    encoders = [encoder for encoder in encoders if encoder is not None]
    return Translator(cfg, task, model, task.build_generator([model], cfg.generation), encoders)


def _build_line(path: Path, args: argparse.Namespace, task_options: Any) -> List[str]:
    """Build the command line of ``fairseq-interactive`` for a checkpoint.

    Args:
        args: options of :func:`build_parser`.
        task_options: options of the checkpoint's task.
    """
    folders = list_data_folders(path, args.data, task_options)
    source, target = choose_languages(
        path, folders, task_options, (args.source_lang, args.target_lang)
    )
    folder = find_dictionaries(folders, task_options, (source, target))
    line = [str(folder), "--path", str(path), "--task", task_options._name]
    line += ["--source-lang", source, "--target-lang", target]
    line += ["--bpe", args.bpe] if args.bpe else find_segmenter([folder, path.parent])
    if args.batch_size:
        line += ["--batch-size", str(args.batch_size)]
    if args.max_tokens or not args.batch_size:
        line += ["--max-tokens", str(args.max_tokens or MAX_TOKENS)]
    from_terminal = args.input == "-" and sys.stdin.isatty()
    buffer_size = args.buffer_size or (1 if from_terminal else BUFFER_LINES)
    return [*line, "--buffer-size", str(buffer_size)]


def read_state(path: Path) -> Dict[str, Any]:
    """Read a checkpoint of fairseq with the configuration of its run, on the CPU.

    Raises:
        ValueError: the file was written by another program.
    """
    try:
        state = checkpoint_utils.load_checkpoint_to_cpu(str(path))
        if getattr(state["cfg"], "task", None) is None:
            raise KeyError("cfg.task")
    except (AttributeError, KeyError, TypeError) as error:
        fault = f"is no checkpoint of fairseq ({type(error).__name__}: {error})"
        raise ValueError(f"MODEL {path}: {fault}; valid: what fairseq-train saved") from error
    return dict(state)


def override_options(line: Sequence[str], state: Dict[str, Any]) -> Any:
    """Parse a command line of ``fairseq-interactive``, and override a checkpoint's options by it.

    Args:
        line: words of the command line.
        state: the checkpoint; changed. Task options that the line names are replaced, not those
            that it leaves at their defaults, and so are options in ``--model-overrides``.

    Returns:
        fairseq's configuration of the command line.
    """

    def parse(**kwargs: Any) -> argparse.Namespace:
        """Parse the line; errors are those of this package's command."""
        parser = options.get_interactive_generation_parser()
        parser.prog, parser.usage = build_parser().prog, USAGE
        return options.parse_args_and_arch(parser, list(line), **kwargs)

    cfg = convert_namespace_to_omegaconf(parse())
    task_names = cfg.task if OmegaConf.is_config(cfg.task) else vars(cfg.task)
    typed = vars(parse(suppress_defaults=True))
    changes = {name: setting for name, setting in typed.items() if name in task_names}
    changes["truncate_source"] = True
    task_options = state["cfg"].task
    if OmegaConf.is_config(task_options):
        with open_dict(task_options):
            task_options.update(changes)
    else:
        vars(task_options).update(changes)
    overwrite_args_by_name(state["cfg"], ast.literal_eval(cfg.common_eval.model_overrides))
    state["args"] = None  # options in the form of older checkpoints, which fairseq would prefer
    return cfg
