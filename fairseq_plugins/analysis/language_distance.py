r"""Distance of two languages in an encoder-decoder (CSR, Eq. 4).

    fairseq-plugins language-distance before=mbart.cc25 after=run/checkpoint_best.pt \\
        --source text.en --target text.de --source-lang en --target-lang de

D is the square root of the sum, over the sentences, of the squared Euclidean distance of the
embeddings of a line of ``--source`` and the same line of ``--target``; D/√n, normalised by the
mean, does not grow with the number n of sentences. The embedding of a sentence is the decoder's
output at the last piece, which predicts ``</s>``; encoder and decoder both read the sentence with
the symbol of its language (mBART: encoder ``A </s> LANG``, decoder ``LANG A``). ``any two`` is D/√n
of all pairs of a source and a target line: the scale of the vectors, which fine-tuning changes as
well. ``ratio`` is D/√n divided by it: 1 if translations are no nearer than other sentences.
"""

import argparse
import math
import os
import sys
from typing import Dict, List, NamedTuple, Optional, Sequence

from torch import Tensor

from ..checkpoints.pretrained import PretrainedFile
from ..own_commands import forward
from . import plots
from .pretrained import FORMATS, PretrainedText
from .report import named_paths, say, short_names, table, write_json, write_tsv
from .sequence_models import read_sequence_model
from .text import check_parallel, read_lines
from .vectors import last_token_vectors

MBART_TASKS = (
    "multilingual_denoising",
    "translation_from_pretrained_bart",
    "code_switching_restore",
)
"""Tasks whose checkpoints have only one input format, mBART's."""


class Distance(NamedTuple):
    """Distance of two languages in a model, from n sentences of width C."""

    model: str
    n: int
    width: int
    distance: float  # D of Eq. 4
    normalised: float  # D / √n
    any_two: float  # the same of all n² pairs of a source and a target sentence
    ratio: Optional[float]  # normalised to any_two; None if that is 0


class PretrainedSequenceModel(PretrainedText):
    """An encoder-decoder and the inputs that it takes.

    Attributes:
        model: of fairseq, in evaluation mode, on the device.
        task: name of the task that trained it; None if its file does not tell.
    """

    def _build(self, file: PretrainedFile, path: str) -> int:
        self.model, self.task = read_sequence_model(path, file)
        self.model.to(self.device)
        return min(file.layout.max_positions, *self.model.max_positions())

    def _format(self, family: str) -> str:
        is_undecided = self._setting("input-format") is None and family not in FORMATS
        if is_undecided and self.task in MBART_TASKS:
            return "mbart"
        return super()._format(family)

    def embeddings(self, lines: Sequence[str], language: str) -> Tensor:
        """Compute the embeddings (N, C) float32 of the sentences of a language."""
        name = f"{self.name} {language}"
        symbols = self.inputs.dictionary
        rows = self.inputs.rows(lines, language, name)
        ids = symbols.eos(), symbols.pad()
        return last_token_vectors(self.model, rows, *ids, self.max_tokens, name)


def distance_of(source: Tensor, target: Tensor, name: str) -> Distance:
    """Compare embeddings (N, C) of the same sentences, floating-point.

    Source: CSR Eq. 4. ``any_two`` is not in the paper.
    """
    x, y = source.double(), target.double()
    n, width = x.shape
    squared = float((x - y).square().sum())
    # Mean of ‖x_i - y_j‖² over all pairs (i, j).
    products = 2 * x.mean(0) @ y.mean(0)
    squared_any_two = float(x.square().sum() / n + y.square().sum() / n - products)
    any_two = math.sqrt(max(squared_any_two, 0.0))
    normalised = math.sqrt(squared / n)
    ratio = normalised / any_two if any_two > 0 else None
    return Distance(name, n, width, math.sqrt(squared), normalised, any_two, ratio)


COLUMNS = ("model", "n", "C", "D", "D/√n", "any two", "ratio")


def models_of(items: Sequence[str]) -> Dict[str, str]:
    """Parse items of the form ``MODEL`` or ``NAME=MODEL`` into name -> path.

    A MODEL without a name gets the end of its path. An existing path is never cut at its ``=``.

    Raises:
        ValueError: a name twice.
    """
    unnamed = [item for item in items if "=" not in item or os.path.exists(item)]
    names = {item: name.replace("=", "_") for item, name in zip(unnamed, short_names(unnamed))}
    pairs = [f"{names[item]}={item}" if item in names else item for item in items]
    valid = "as before=mbart.cc25 after=run/checkpoint_best.pt, each name once"
    return named_paths(pairs, "MODEL", valid, "NAME=MODEL")


def work(args: argparse.Namespace) -> None:
    """Compute, print and write."""
    if args.sentences < 1:
        raise ValueError(f"--sentences must be at least 1; got {args.sentences}")
    if args.source_lang == args.target_lang:
        raise ValueError(
            f"--source-lang and --target-lang are both {args.source_lang}; valid: two languages"
        )
    models = models_of(args.models)
    source_lines = read_lines(args.source, args.sentences)
    target_lines = read_lines(args.target, args.sentences)
    texts = {"--source": source_lines, "--target": target_lines}
    check_parallel(texts, "--source and --target")
    rows: List[Distance] = []
    for name, path in models.items():
        model = PretrainedSequenceModel(path, name, args)
        if model.inputs.input_format.needs_language:  # ask for both before the work on the first
            model.inputs.symbol(args.source_lang)
            model.inputs.symbol(args.target_lang)
        source = model.embeddings(source_lines, args.source_lang)
        target = model.embeddings(target_lines, args.target_lang)
        rows.append(distance_of(source, target, name))
    cells = [["" if cell is None else cell for cell in row] for row in rows]
    title = f"distance of {args.source_lang} and {args.target_lang}"
    count = f"{rows[0].n} sentences"
    say(f"{title} (CSR Eq. 4: D), n = {count}\n\n{table(COLUMNS, cells)}")
    languages = {"source": args.source_lang, "target": args.target_lang}
    write_json(args.json, {**languages, "rows": [row._asdict() for row in rows]})
    write_tsv(args.tsv, Distance._fields, rows)
    if args.plot is not None:
        draw(args.plot, rows, f"{title}, {count}")


def draw(path: str, rows: Sequence[Distance], title: str) -> None:
    """Draw bars of D/√n by model beside those of any two sentences; D is in the labels."""
    groups = [f"{row.model}\nD = {row.distance:.4g}" for row in rows]
    bars = [
        plots.Bars("the same sentence", [row.normalised for row in rows]),
        plots.Bars("any two sentences", [row.any_two for row in rows]),
    ]
    plots.draw_bars(path, groups, bars, "root mean squared distance, D/√n", title)


if __name__ == "__main__":
    sys.exit(forward("language-distance"))
