"""Shared by the translation corpora: clean train, valid and test of every language pair."""

import argparse
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from .. import cli
from ..files import atomic_texts, locked
from ..io import InputError, PathLike, read_json
from ..layout import MANIFEST, SPLITS, STEPS_FOLDER, Pair, parse_pairs, text_name
from ..options import add_fields, adder, check_minimum, from_args
from ..parallel import for_each
from ..progress import with_progress
from ..steps import Step, write_manifest
from ..text.clean import Filter, Rules, digest_line

HELD_OUT = "in valid or test"  # of any pair
Lines = Tuple[str, ...]  # source and target
Check = Callable[[Lines], bool]


class Corpus:
    """A corpus on disk; each format has a class of its own, which can be pickled.

    Args:
        raw: folder of the extracted archives.
    """

    name = ""
    removes_held_out = False  # drop training pairs with a side in valid or test of any pair

    def __init__(self, raw: PathLike):
        self.raw = Path(raw)

    def files(self, pair: Pair, split: str) -> List[Path]:
        """Return the files of a split, source and target; none if it is cut from train.

        Raises:
            InputError: a file is missing.
        """
        raise NotImplementedError

    def lines(self, pair: Pair, split: str) -> Iterator[Lines]:
        """Yield source and target of a split, as they stand in the files."""
        raise NotImplementedError

    def all_files(self, pair: Pair) -> List[Path]:
        """Return the files of all splits."""
        return [path for split in SPLITS for path in self.files(pair, split)]


@dataclass(frozen=True)
class Recipe:
    """Treatment of the lines of every pair.

    Args:
        rules: conditions for a training pair; valid and test lose only pairs with an empty side.
        valid_every: one in so many training pairs goes to valid; 0 = the corpus has its own valid.
    """

    rules: Rules
    valid_every: int = 0

    def __post_init__(self) -> None:
        if self.valid_every < 0 or self.valid_every == 1:
            valid = "0 (the corpus has its own valid), or 2 or more"
            raise InputError(f"--valid-every {self.valid_every}: valid: {valid}")

    def as_json(self) -> Dict[str, Any]:
        """Return the options for a manifest."""
        return {**asdict(self), "rules": self.rules.as_json()}


def _output_files(output: Path, pair: Pair) -> List[Path]:
    names = [text_name(pair, split, lang, True) for split in SPLITS for lang in pair]
    return [output / name for name in names]


def write_pair(
    corpus: Corpus, pair: Pair, recipe: Recipe, output: Path, is_held_out: Optional[Check] = None
) -> Dict[str, Any]:
    """Write the six files of a pair, all or none.

    Args:
        corpus: source of the lines.
        pair: source and target language.
        recipe: treatment of the lines.
        output: gets SRC-TGT/SPLIT.LANG.
        is_held_out: returns True for training pairs to drop because a side is in valid or test of
            any pair; None = keep these.

    Returns:
        Split -> lines written, and ``dropped``: reason -> number.

    Raises:
        InputError: bad input, or a split without a line.
    """
    normaliser, check = recipe.rules.normaliser(), Filter(recipe.rules, pair)
    counts: Counter = Counter()
    drops: Counter = Counter()
    training = 0  # pairs that stay, before valid is cut off
    with atomic_texts(_output_files(output, pair), "--output", corpus.all_files(pair)) as opened:
        files = {split: opened[2 * index : 2 * index + 2] for index, split in enumerate(SPLITS)}
        for split in SPLITS:
            if split == "valid" and recipe.valid_every:
                continue
            label = f"{corpus.name} {pair[0]}-{pair[1]} {split}"
            for raw in with_progress(corpus.lines(pair, split), label):
                lines = (normaliser(raw[0]), normaliser(raw[1]))
                reason = _drop_reason(lines, split, check, is_held_out)
                if reason:
                    drops[f"{split}: {reason}"] += 1
                    continue
                target = split
                if split == "train":
                    training += 1
                    if recipe.valid_every and training % recipe.valid_every == 0:
                        target = "valid"
                counts[target] += 1
                for file, line in zip(files[target], lines):
                    file.write(line + "\n")
        _check_splits(pair, counts, drops, recipe)
    return {**{split: counts[split] for split in SPLITS}, "dropped": dict(sorted(drops.items()))}


def _drop_reason(
    lines: Lines, split: str, check: Filter, is_held_out: Optional[Check]
) -> Optional[str]:
    if not all(lines):
        return "empty"
    if split != "train":
        return None
    if is_held_out is not None and is_held_out(lines):
        return HELD_OUT
    verdict = check(lines)
    return verdict.reason if verdict else None


def _check_splits(
    pair: Pair, counts: Mapping[str, int], drops: Mapping[str, int], recipe: Recipe
) -> None:
    for split in SPLITS:
        if not counts[split]:
            drop_count = [f"{reason} {number}" for reason, number in sorted(drops.items())]
            problem = f"no line for {split} (dropped: {', '.join(drop_count) or 'nothing'})"
            if recipe.valid_every:
                problem += f"; --valid-every {recipe.valid_every} needs as many lines"
            raise InputError(f"--pairs {'-'.join(pair)}: {problem}")


def held_out_check(corpus: Corpus, pairs: List[Pair], rules: Rules) -> Check:
    """Return a function that tells if a side of a training pair is in valid or test of any pair."""
    normaliser = rules.normaliser()
    digests = {
        digest_line(normaliser(line))
        for pair in pairs
        for split in ("valid", "test")
        for lines in corpus.lines(pair, split)
        for line in lines
    }
    return lambda lines: any(digest_line(line) in digests for line in lines)


class _PairJob(NamedTuple):
    corpus: Corpus
    pair: Pair
    pairs: List[Pair]
    recipe: Recipe
    output: Path


def prepare(
    corpus: Corpus, pairs: List[Pair], recipe: Recipe, output: PathLike, workers: int = 1
) -> Dict[str, Any]:
    """Write the text of all pairs, unchanged ones skipped, and manifest.json.

    Returns:
        SRC-TGT -> counts of :func:`write_pair`.
    """
    check_minimum("--workers", workers, 1)
    folder = Path(output)
    manifest = folder / MANIFEST
    manifest.unlink(missing_ok=True)  # it stands for a complete folder
    inputs = sorted({path for pair in pairs for path in corpus.all_files(pair)})
    jobs = [_PairJob(corpus, pair, pairs, recipe, folder) for pair in pairs]
    names = ["-".join(pair) for pair in pairs]
    counts = dict(zip(names, for_each(_prepare_pair, jobs, workers, corpus.name)))
    outputs = [path for pair in pairs for path in _output_files(folder, pair)]
    archives = (read_json(corpus.raw / "archives.json") or {}).get("archives", [])
    options = {**recipe.as_json(), "pairs": names, "archives": archives}
    write_manifest(manifest, corpus.name, options, counts, inputs, outputs, folder)
    return counts


def _prepare_pair(job: _PairJob) -> Dict[str, Any]:
    corpus, pair, recipe = job.corpus, job.pair, job.recipe
    name = f"{pair[0]}-{pair[1]}"
    inputs = {}
    for split in SPLITS:
        for index, path in enumerate(corpus.files(pair, split)):
            inputs[f"{split}.{index}"] = path
    if corpus.removes_held_out:  # then the lines that stay depend on valid and test of all pairs
        held_out = [(held_pair, split) for held_pair in job.pairs for split in ("valid", "test")]
        for number, (held_pair, split) in enumerate(held_out):
            for index, path in enumerate(corpus.files(held_pair, split)):
                inputs[f"held.{number}.{index}"] = path
    record = job.output / STEPS_FOLDER / f"{name}.json"
    step = Step(record, inputs, recipe.as_json(), _output_files(job.output, pair))
    counts = step.recall()
    if counts is not None:
        cli.say(f"{corpus.name} {name}: unchanged, skipped")
        return counts
    step.begin()
    is_held_out = None
    if corpus.removes_held_out:
        is_held_out = held_out_check(corpus, job.pairs, recipe.rules)
    counts = write_pair(corpus, pair, recipe, job.output, is_held_out)
    step.finish(counts)
    listed = cli.list_counts({split: counts[split] for split in SPLITS})
    drop_count = sum(counts["dropped"].values())
    cli.say(f"{corpus.name} {name}: {listed} lines; dropped {drop_count:,}")
    return counts


def add_options(
    parser: argparse.ArgumentParser, pairs: Optional[str], rules: Rules, valid_every: int
) -> None:
    """Add the options that all corpora share, with the defaults of a corpus."""
    add = adder(parser)
    add("--raw", "DIR", "folder of the extracted archives", required=True)
    add("--output", "DIR", "folder of SRC-TGT/SPLIT.LANG and manifest.json", required=True)
    text = "language pairs, as de-en,fr-en"
    add("--pairs", "PAIRS", text, default=pairs, required=pairs is None)
    # Every corpus drops empty sides (min_length 1), and nothing else of valid and test, where
    # ``clean`` has normalise_only.
    add_fields(parser, Rules, rules, leave_out=["min_length", "normalise_only"])
    text = "one in N training lines is cut off as valid; 0 = none"
    add("--valid-every", "N", text, default=valid_every)
    add("--workers", "N", "pairs at a time, >= 1", default=1)


def run(corpus: Corpus, args: argparse.Namespace) -> None:
    """Run the verb of a corpus with parsed options."""
    rules = from_args(Rules, args)
    pairs = parse_pairs(args.pairs)
    with locked(Path(args.output) / STEPS_FOLDER / "lock", f"--output {args.output}"):
        prepare(corpus, pairs, Recipe(rules, args.valid_every), args.output, args.workers)
    manifest = Path(args.output) / MANIFEST
    cli.say(f"{corpus.name}: {args.output}: {len(pairs)} pairs; manifest {manifest}")
