"""CKA between models or between languages, layer by layer: ``fairseq-plugins cka``.

    fairseq-plugins cka MODEL MODEL_B --text en=FILE de=FILE      two models, the same text
    fairseq-plugins cka MODEL --text en=FILE de=FILE fr=FILE      languages of one model, parallel lines

A vector is the mean over all tokens of a sentence but padding, special symbols included. Layer 0 is the embedding's output. The
floor of an estimate is the largest of those with the sentences of one side in random order: what is not above it shows nothing.
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
from .pretrained import Pretrained, named_files, pick_device, row_parallel, vector_folder
from .report import Progress, names_of_sides, say, table, write_json
from .text import read_lines
from .vectors import LayerVectors, read_vectors

logger = logging.getLogger(__name__)

MOST_LINES = 8
"""Pairs of languages that are drawn as lines over the layers; more become a heat map per layer."""

Texts = Dict[str, LayerVectors]


class Row(NamedTuple):
    """CKA of two sides: of one text in two models, or of two texts in one model."""

    text: Tuple[str, ...]  # the language, or the two languages
    layers: Tuple[int, int]
    sentences: int
    widths: Tuple[int, int]
    cka: Cka

    def cells(self) -> List[Any]:
        """The cells of a row of the table."""
        layer, width = (str(a) if a == b else f"{a} × {b}" for a, b in (self.layers, self.widths))
        found = self.cka
        floors = [max(floor) if floor else "none" for floor in (found.floor_biased, found.floor_unbiased)]
        pair = " × ".join(self.text)
        return [pair, layer, self.sentences, width, found.biased, floors[0], found.unbiased, floors[1]]

    def numbers(self) -> Dict[str, Any]:
        """The entry of the JSON file."""
        sides = {"text": self.text, "layers": self.layers, "n": self.sentences, "widths": self.widths}
        return {**sides, **self.cka._asdict()}


COLUMNS = ("text", "layer", "n", "C", "biased", "its floor", "unbiased", "its floor")


class Side(NamedTuple):
    """A layer of a text in a model; ``values`` are (N, C)."""

    model: str
    language: str
    layer: int
    values: Tensor


def _rows(sides: Sequence[Side], pairs: Sequence[Tuple[int, int]], options: Dict[str, Any]) -> Iterator[Row]:
    """A row for each pair of numbers of sides."""
    names = [f"{side.model}, {side.language}, layer {side.layer}" for side in sides]
    for (a, b), found in zip(pairs, cka_of_pairs([side.values for side in sides], pairs, names=names, **options)):
        x, y = sides[a], sides[b]
        text = tuple(dict.fromkeys((x.language, y.language)))
        yield Row(text, (x.layer, y.layer), len(x.values), (x.values.size(1), y.values.size(1)), found)


def compare_models(
    first: Texts, second: Texts, all_layers: bool, names: Sequence[str], **options: Any
) -> Iterator[Row]:
    """CKA of two models on each text, by layers of equal numbers or (``all_layers``) each layer with each.

    ``first`` and ``second`` are language -> vectors of the same sentences; ``options`` those of ``ops.cka.cka_of_pairs``.

    Raises ValueError: other languages, other numbers of sentences or, without ``all_layers``, of layers.
    """
    if set(first) != set(second):
        raise ValueError(
            f"{names[0]} has vectors of {', '.join(first)}, {names[1]} of {', '.join(second)}; valid: the same"
        )
    for language, one in first.items():
        both = one, second[language]
        if both[0].layers != both[1].layers and not all_layers:
            spans = [f"{min(side.layers)} to {max(side.layers)}" for side in both]
            raise ValueError(
                f"{names[0]} has layers {spans[0]}, {names[1]} {spans[1]}; --all-layers compares each with each"
            )
        sides = [Side(name, language, k, side.layer(k)) for name, side in zip(names, both) for k in side.layers]
        count = len(one.layers)
        pairs = itertools.product(range(count), range(count, len(sides)))
        yield from _rows(sides, [(a, b) for a, b in pairs if all_layers or sides[a].layer == sides[b].layer], options)


def compare_languages(texts: Texts, name: str, **options: Any) -> Iterator[Row]:
    """CKA of every two languages in each layer of a model; see :func:`compare_models`.

    Raises ValueError: fewer than two languages, texts that are not parallel.
    """
    if len(texts) < 2:
        raise ValueError(f"one model needs two languages at least; got {', '.join(texts)}; or give a second model")
    for layer in next(iter(texts.values())).layers:
        sides = [Side(name, language, layer, vectors.layer(layer)) for language, vectors in texts.items()]
        yield from _rows(sides, list(itertools.combinations(range(len(sides)), 2)), options)


def warn_of_small(rows: Sequence[Row]) -> None:
    """Say where the biased estimate means little."""
    for pair in sorted({(row.sentences, max(row.widths)) for row in rows if row.sentences <= max(row.widths)}):
        logger.warning(
            "n = %d sentences are not more than C = %d: biased CKA tends to 1 there for any vectors; read the unbiased one",
            *pair,
        )


def draw(path: str, rows: Sequence[Row], all_layers: bool, title: str) -> None:
    """Lines over the layers; heat maps of all layers, or of many languages."""
    texts, layers, others = (list(dict.fromkeys(values)) for values in zip(*((row.text, *row.layers) for row in rows)))
    found = {(row.text, row.layers): row.cka for row in rows}
    if all_layers:
        names = [str(layer) for layer in layers], [str(layer) for layer in others]
        values = {text: [[found[text, (a, b)].unbiased for b in others] for a in layers] for text in texts}
        maps = [plots.HeatMap(" × ".join(text), *names, values[text]) for text in texts]
        first, _, second = title.partition(" × ")
        plots.draw_heat_maps(path, maps, f"layer of {second}", f"layer of {first}", f"unbiased CKA: {title}")
    elif len(texts) > MOST_LINES and len(texts[0]) == 2:
        _draw_languages(path, layers, found, title)
    else:
        panels = [_panel(kind, texts, layers, found) for kind in ("unbiased", "biased")]
        plots.draw_lines(path, panels, layers, "layer (0: embedding)", f"CKA: {title}")


def _draw_languages(path: str, layers: Sequence[int], found: Dict[Any, Cka], title: str) -> None:
    """A matrix of languages for each layer: unbiased estimates below the diagonal, biased ones above."""
    languages = list(dict.fromkeys(language for text, _ in found for language in text))
    maps = []
    for layer in layers:
        values: List[List[Optional[float]]] = [[None] * len(languages) for _ in languages]
        for a, b in itertools.combinations(range(len(languages)), 2):
            one = found[(languages[a], languages[b]), (layer, layer)]
            values[b][a], values[a][b] = one.unbiased, one.biased
        maps.append(plots.HeatMap(f"layer {layer}", languages, languages, values))
    plots.draw_heat_maps(path, maps, "", "", f"CKA of languages, {title}: unbiased below, biased above the diagonal")


def _panel(kind: str, texts: Sequence[Tuple[str, ...]], layers: Sequence[int], found: Dict[Any, Cka]) -> plots.Panel:
    """Estimates of a kind over the layers, with their floors."""
    lines = []
    for text in texts:
        values = [found[text, (layer, layer)] for layer in layers]
        label = " × ".join(text)
        lines.append(plots.Line(label, [getattr(value, kind) for value in values]))
        floors = [getattr(value, f"floor_{kind}") for value in values]
        if all(floors):
            lines.append(plots.Line(label, [max(floor) for floor in floors], ":", "floors (sentences permuted)"))
    least = min(0.0, *(value for line in lines for value in line.values))
    return plots.Panel(f"{kind} CKA", "CKA", lines, (least - 0.03, 1.03))


def gather(args: argparse.Namespace, folder: str) -> Tuple[List[str], List[Texts]]:
    """Names of the one or two models, and their vectors by language. Raises ValueError: an unusable combination of options."""
    if args.vectors or args.vectors_b:
        if args.models or args.text or not args.vectors:
            raise ValueError("--vectors and --vectors-b take the place of models and --text; valid: one or the other")
        texts = {}
        for name, items, option in (("A", args.vectors, "--vectors"), ("B", args.vectors_b, "--vectors-b")):
            if items:
                files = named_files(items, option)
                texts[name] = {one: read_vectors(path, option).limited(args.limit) for one, path in files.items()}
        return list(texts), list(texts.values())
    if not 1 <= len(args.models) <= 2 or not args.text:
        raise ValueError(f"one or two models and --text LANG=FILE … are needed; got {len(args.models)} models")
    lines = {language: read_lines(path, args.limit) for language, path in named_files(args.text, "--text").items()}
    if len(args.models) == 1:
        row_parallel(lines, "--text")
    for text in lines.values():
        check_count(len(text))
    names = names_of_sides(args.models)
    found: List[Texts] = []
    first: Optional[Pretrained] = None
    for name, path in zip(names, args.models):
        model = Pretrained(path, name, args, first)
        found.append({language: model.vectors(text, language, language, folder) for language, text in lines.items()})
        first = first or model
    return names, found


def work(args: argparse.Namespace) -> None:
    """Compute, print and write."""
    if args.permutations < 0:
        raise ValueError(f"--permutations must be at least 0; got {args.permutations}")
    options = {"permutations": args.permutations, "seed": args.seed, "device": pick_device(args.device)}
    with vector_folder(args) as folder:
        names, texts = gather(args, folder)
        if len(texts) == 2:
            found = compare_models(texts[0], texts[1], args.all_layers, names, **options)
        elif args.all_layers:
            raise ValueError("--all-layers compares two models; got one")
        else:
            found = compare_languages(texts[0], names[0], **options)
        rows, progress = [], Progress()
        for row in found:
            rows.append(row)
            if progress.is_due():
                done = " × ".join(row.text), " × ".join(map(str, row.layers))
                logger.info("%d pairs, now %s, layers %s", len(rows), *done)
    title = " × ".join(names)
    warn_of_small(rows)
    say(f"CKA of {title}\n\n{table(COLUMNS, [row.cells() for row in rows])}")
    content = {"models": names, "permutations": args.permutations, "seed": args.seed}
    write_json(args.json, {**content, "rows": [row.numbers() for row in rows]})
    if args.plot is not None:
        draw(args.plot, rows, args.all_layers, title)


if __name__ == "__main__":
    sys.exit(forward("cka"))
