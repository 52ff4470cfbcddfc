"""CKA between models or between languages, layer by layer: ``fairseq-plugins cka``.

    fairseq-plugins cka MODEL MODEL_B --text en=FILE de=FILE
    fairseq-plugins cka MODEL --text en=FILE de=FILE fr=FILE

Two models are compared on the same texts, languages of one model on parallel lines. A vector is the
mean over all tokens of a sentence but padding, special symbols included. Layer 0 is the embedding's
output. The floor of an estimate is the largest CKA over random orders of one side's sentences: an
estimate that is not above its floor shows no similarity.
"""

import argparse
import itertools
import logging
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from torch import Tensor

from ..ops.cka import Cka, check_count, cka_of_pairs
from ..own_commands import forward
from . import plots
from .pretrained import Pretrained, pick_device, vector_folder
from .report import Progress, names_of_sides, say, table, write_json
from .text import check_parallel, named_files, read_lines
from .vectors import LayerVectors, read_vectors

logger = logging.getLogger(__name__)

MOST_LINES = 8
"""Pairs of languages that are drawn as lines over the layers; more become a heat map per layer."""

Texts = Dict[str, LayerVectors]
"""Language -> vectors of its text."""


class Row(NamedTuple):
    """CKA of two sides: of one text in two models, or of two texts in one model."""

    text: Tuple[str, ...]  # the language, or the two languages
    layers: Tuple[int, int]
    sentences: int
    widths: Tuple[int, int]
    cka: Cka

    def cells(self) -> List[Any]:
        """Return the cells of a row of the table."""
        cka = self.cka
        biased = [cka.biased, max(cka.floor_biased, default="none")]
        unbiased = [cka.unbiased, max(cka.floor_unbiased, default="none")]
        head = [" × ".join(self.text), _join(self.layers), self.sentences, _join(self.widths)]
        return [*head, *biased, *unbiased]

    def numbers(self) -> Dict[str, Any]:
        """Return the entry of the JSON file."""
        return {
            "text": self.text,
            "layers": self.layers,
            "n": self.sentences,
            "widths": self.widths,
            **self.cka._asdict(),
        }


COLUMNS = ("text", "layer", "n", "C", "biased", "its floor", "unbiased", "its floor")


def _join(numbers: Tuple[int, int]) -> str:
    """Format the numbers of two sides, equal ones once."""
    return " × ".join(map(str, dict.fromkeys(numbers)))


class Side(NamedTuple):
    """A layer of a text in a model; ``values`` are (N, C)."""

    model: str
    language: str
    layer: int
    values: Tensor


# ---- Computation. ----


def compare_models(
    first: Texts, second: Texts, all_layers: bool, names: Sequence[str], **options: Any
) -> Iterator[Row]:
    """Compute CKA of two models on each text.

    Args:
        first, second: vectors of the same sentences.
        all_layers: compare each layer of the first with each of the second; else only layers of
            the same number.
        names: of the models.
        options: of ``ops.cka.cka_of_pairs``.

    Raises:
        ValueError: the models differ in languages, in numbers of sentences or, without
            ``all_layers``, in layers.
    """
    if set(first) != set(second):
        raise ValueError(
            f"{names[0]} has vectors of {', '.join(first)}, {names[1]} of {', '.join(second)}; "
            "valid: the same"
        )
    for language, x in first.items():
        y = second[language]
        if x.layers != y.layers and not all_layers:
            spans = [f"{min(side.layers)} to {max(side.layers)}" for side in (x, y)]
            raise ValueError(
                f"{names[0]} has layers {spans[0]}, {names[1]} {spans[1]}; --all-layers compares "
                "each with each"
            )
        sides = [Side(names[0], language, layer, x.layer(layer)) for layer in x.layers]
        sides += [Side(names[1], language, layer, y.layer(layer)) for layer in y.layers]
        count = len(x.layers)
        pairs = list(itertools.product(range(count), range(count, len(sides))))
        if not all_layers:
            pairs = [(a, b) for a, b in pairs if sides[a].layer == sides[b].layer]
        yield from _rows(sides, pairs, options)


def compare_languages(texts: Texts, name: str, **options: Any) -> Iterator[Row]:
    """Compute CKA of each pair of languages in each layer of a model.

    ``options`` are those of :func:`compare_models`.

    Raises:
        ValueError: fewer than two languages, or texts that are not parallel.
    """
    if len(texts) < 2:
        languages = ", ".join(texts)
        raise ValueError(
            f"one model needs two languages at least; got {languages}; or give a second model"
        )
    for layer in next(iter(texts.values())).layers:
        sides = [
            Side(name, language, layer, vectors.layer(layer)) for language, vectors in texts.items()
        ]
        yield from _rows(sides, list(itertools.combinations(range(len(sides)), 2)), options)


def _rows(
    sides: Sequence[Side], pairs: Sequence[Tuple[int, int]], options: Dict[str, Any]
) -> Iterator[Row]:
    """Compute a row for each pair of numbers of sides."""
    names = [f"{side.model}, {side.language}, layer {side.layer}" for side in sides]
    estimates = cka_of_pairs([side.values for side in sides], pairs, names=names, **options)
    for (a, b), cka in zip(pairs, estimates):
        x, y = sides[a], sides[b]
        text = (x.language,) if x.language == y.language else (x.language, y.language)
        widths = (x.values.size(1), y.values.size(1))
        yield Row(text, (x.layer, y.layer), len(x.values), widths, cka)


def warn_of_small(rows: Sequence[Row]) -> None:
    """Warn of rows with n ≤ C sentences, where biased CKA is near 1 for any vectors."""
    sizes = {(row.sentences, max(row.widths)) for row in rows}
    for sentences, width in sorted(sizes):
        if sentences <= width:
            text = (
                "n = %d sentences are not more than C = %d: biased CKA tends to 1 there for any "
                "vectors; read the unbiased one"
            )
            logger.warning(text, sentences, width)


# ---- Plots. ----

Estimates = Dict[Tuple[Tuple[str, ...], Tuple[int, int]], Cka]
"""(text, layers) -> CKA."""


def draw(path: str, rows: Sequence[Row], all_layers: bool, title: str) -> None:
    """Draw lines over the layers, or heat maps for all pairs of layers or for many languages."""
    texts = list(dict.fromkeys(row.text for row in rows))
    layers = list(dict.fromkeys(row.layers[0] for row in rows))
    estimates = {(row.text, row.layers): row.cka for row in rows}
    if all_layers:
        second_layers = list(dict.fromkeys(row.layers[1] for row in rows))
        maps = [_map_of_layers(text, layers, second_layers, estimates) for text in texts]
        first, _, second = title.partition(" × ")
        labels = f"layer of {second}", f"layer of {first}"
        plots.draw_heat_maps(path, maps, *labels, f"unbiased CKA: {title}")
    elif len(texts) > MOST_LINES and len(texts[0]) == 2:
        languages = list(dict.fromkeys(language for text in texts for language in text))
        maps = [_map_of_languages(layer, languages, estimates) for layer in layers]
        heading = f"CKA of languages, {title}: unbiased below, biased above the diagonal"
        plots.draw_heat_maps(path, maps, "", "", heading)
    else:
        panels = [_panel(kind, texts, layers, estimates) for kind in ("unbiased", "biased")]
        plots.draw_lines(path, panels, layers, "layer (0: embedding)", f"CKA: {title}")


def _map_of_layers(
    text: Tuple[str, ...],
    layers: Sequence[int],
    second_layers: Sequence[int],
    estimates: Estimates,
) -> plots.HeatMap:
    """Arrange unbiased estimates of a text: first model's layers in rows, second's in columns."""
    values = [[estimates[text, (a, b)].unbiased for b in second_layers] for a in layers]
    names = [str(layer) for layer in layers], [str(layer) for layer in second_layers]
    return plots.HeatMap(" × ".join(text), *names, values)


def _map_of_languages(layer: int, languages: Sequence[str], estimates: Estimates) -> plots.HeatMap:
    """Arrange estimates of a layer: unbiased ones below the diagonal, biased ones above."""
    values: List[List[Optional[float]]] = [[None] * len(languages) for _ in languages]
    for a, b in itertools.combinations(range(len(languages)), 2):
        cka = estimates[(languages[a], languages[b]), (layer, layer)]
        values[b][a], values[a][b] = cka.unbiased, cka.biased
    return plots.HeatMap(f"layer {layer}", languages, languages, values)


def _panel(
    kind: str, texts: Sequence[Tuple[str, ...]], layers: Sequence[int], estimates: Estimates
) -> plots.Panel:
    """Collect estimates over the layers, with floors; ``kind``: ``unbiased`` or ``biased``."""
    lines = []
    for text in texts:
        values = [estimates[text, (layer, layer)] for layer in layers]
        label = " × ".join(text)
        lines.append(plots.Line(label, [getattr(value, kind) for value in values]))
        floors = [getattr(value, f"floor_{kind}") for value in values]
        if all(floors):
            note = "floors (sentences permuted)"
            lines.append(plots.Line(label, [max(floor) for floor in floors], ":", note))
    least = min(0.0, *(value for line in lines for value in line.values))
    return plots.Panel(f"{kind} CKA", "CKA", lines, (least - 0.03, 1.03))


# ---- The verb. ----


class NamedTexts(NamedTuple):
    """A model and its vectors."""

    model: str
    texts: Texts


def gather(args: argparse.Namespace, folder: str) -> List[NamedTexts]:
    """Read the vectors of one or two models, or compute them and store them in ``folder``.

    Raises:
        ValueError: options that exclude each other, or one that is missing.
    """
    if args.vectors or args.vectors_b:
        return _read_vector_files(args)
    if not 1 <= len(args.models) <= 2 or not args.text:
        count = len(args.models)
        raise ValueError(f"one or two models and --text LANG=FILE … are needed; got {count} models")
    files = named_files(args.text, "--text")
    lines = {language: read_lines(path, args.limit) for language, path in files.items()}
    if len(args.models) == 1:
        check_parallel(lines, "--text")
    for text in lines.values():
        check_count(len(text))
    models: List[NamedTexts] = []
    first: Optional[Pretrained] = None
    for name, path in zip(names_of_sides(args.models), args.models):
        model = Pretrained(path, name, args, first)
        texts = {
            language: model.vectors(text, language, language, folder)
            for language, text in lines.items()
        }
        models.append(NamedTexts(name, texts))
        first = first or model
    return models


def _read_vector_files(args: argparse.Namespace) -> List[NamedTexts]:
    """Memory-map the files of ``--vectors`` and ``--vectors-b``, as models A and B."""
    if args.models or args.text or not args.vectors:
        raise ValueError(
            "--vectors and --vectors-b take the place of models and --text; valid: one or the other"
        )
    models = []
    sides = (("A", "--vectors", args.vectors), ("B", "--vectors-b", args.vectors_b))
    for name, option, items in sides:
        if items:
            texts: Texts = {}
            for language, path in named_files(items, option).items():
                texts[language] = read_vectors(path, option).limited(args.limit)
            models.append(NamedTexts(name, texts))
    return models


def work(args: argparse.Namespace) -> None:
    """Compute, print and write."""
    if args.permutations < 0:
        raise ValueError(f"--permutations must be at least 0; got {args.permutations}")
    device = pick_device(args.device)
    options = {"permutations": args.permutations, "seed": args.seed, "device": device}
    with vector_folder(args) as folder:
        models = gather(args, folder)
        names = [model.model for model in models]
        if len(models) == 2:
            first, second = models[0].texts, models[1].texts
            pairs = compare_models(first, second, args.all_layers, names, **options)
        elif args.all_layers:
            raise ValueError("--all-layers compares two models; got one")
        else:
            pairs = compare_languages(models[0].texts, names[0], **options)
        rows, progress = [], Progress()
        for row in pairs:
            rows.append(row)
            if progress.is_due():
                text, layers = " × ".join(row.text), " × ".join(map(str, row.layers))
                logger.info("%d pairs, now %s, layers %s", len(rows), text, layers)
    title = " × ".join(names)
    warn_of_small(rows)
    say(f"CKA of {title}\n\n{table(COLUMNS, [row.cells() for row in rows])}")
    content = {"models": names, "permutations": args.permutations, "seed": args.seed}
    write_json(args.json, {**content, "rows": [row.numbers() for row in rows]})
    if args.plot is not None:
        draw(args.plot, rows, args.all_layers, title)


if __name__ == "__main__":
    sys.exit(forward("cka"))
