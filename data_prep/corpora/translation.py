"""What the corpora of the papers share: clean train, valid and test of every language pair, in a folder of its own."""

import argparse
import hashlib
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from .. import cli
from ..files import atomic_texts, locked
from ..io import InputError, PathLike, read_json
from ..layout import Pair, parse_pairs, text_name
from ..parallel import for_each
from ..progress import with_progress
from ..steps import Step, write_manifest
from ..text.clean import DEDUP, DIGEST_BYTES, FORMS, UNITS, Filter, Normaliser, Rules

SPLITS = ("train", "valid", "test")
STEPS_FOLDER = ".steps"
HELD_OUT = "in valid or test"
Lines = Tuple[str, ...]  # source and target


class Corpus:
    """One corpus on disk; each format has a class of its own, which can be pickled.

    Args:
        raw: folder of the extracted archives.
    """

    name = ""
    remove_held_out = False  # drop training pairs of which a side is in valid or test of any pair

    def __init__(self, raw: PathLike):
        self.raw = Path(raw)

    def files(self, pair: Pair, split: str) -> List[Path]:
        """Return the files that a split is made from; none when it is cut from train.

        Raises:
            InputError: a file is missing.
        """
        raise NotImplementedError

    def lines(self, pair: Pair, split: str) -> Iterator[Lines]:
        """Yield source and target of a split, as they stand in the files."""
        raise NotImplementedError


@dataclass(frozen=True)
class Recipe:
    """What happens to the lines of every pair.

    Args:
        rules: what a training pair must be like to stay; valid and test lose only pairs with an empty side.
        valid_every: every so many kept training pairs one goes to valid instead; 0 = the corpus has its own valid.
    """

    rules: Rules
    valid_every: int = 0

    def __post_init__(self) -> None:
        if self.valid_every < 0 or self.valid_every == 1:
            raise InputError(f"--valid-every {self.valid_every}: valid: 0 (the corpus has its own valid), or 2 or more")


def write_pair(
    corpus: Corpus, pair: Pair, recipe: Recipe, output: Path, excluded: Optional[Callable[[Lines], bool]] = None
) -> Dict[str, Any]:
    """Write the six files of a pair, all or none.

    Args:
        corpus: where the lines come from.
        pair: source and target language.
        recipe: what happens to them.
        output: gets SRC-TGT/SPLIT.LANG.
        excluded: tells training pairs that must be dropped as held out.

    Returns:
        Split to lines written, and ``dropped``: reason to number.

    Raises:
        InputError: bad input, or a split without a line.
    """
    normaliser = Normaliser(recipe.rules.form)
    select = Filter(recipe.rules, pair)
    counts: Counter = Counter()
    dropped: Counter = Counter()
    sources = [path for split in SPLITS for path in corpus.files(pair, split)]
    paths = [output / text_name(pair, split, lang, True) for split in SPLITS for lang in pair]
    with atomic_texts(paths, "--output", sources) as files:
        of_split = {split: files[2 * i : 2 * i + 2] for i, split in enumerate(SPLITS)}

        def put(split: str, lines: Lines) -> None:
            counts[split] += 1
            for file, line in zip(of_split[split], lines):
                file.write(line + "\n")

        for split in SPLITS:
            if split == "valid" and recipe.valid_every:
                continue
            label = f"{corpus.name} {pair[0]}-{pair[1]} {split}"
            for raw in with_progress(corpus.lines(pair, split), label):
                lines = (normaliser(raw[0]), normaliser(raw[1]))
                reason = _reason(lines, split, select, excluded)
                if reason:
                    dropped[f"{split}: {reason}"] += 1
                    continue
                counts["kept"] += split == "train"
                cut = split == "train" and recipe.valid_every and counts["kept"] % recipe.valid_every == 0
                put("valid" if cut else split, lines)
        _refuse_empty(pair, counts, dropped, recipe)
    return {**{split: counts[split] for split in SPLITS}, "dropped": dict(sorted(dropped.items()))}


def _reason(lines: Lines, split: str, select: Filter, excluded: Optional[Callable[[Lines], bool]]) -> Optional[str]:
    """Why a pair is dropped, or None."""
    if not all(lines):
        return "empty"
    if split != "train":
        return None
    if excluded is not None and excluded(lines):
        return HELD_OUT
    verdict = select(lines)
    return verdict[0] if verdict else None


def _refuse_empty(pair: Pair, counts: Mapping[str, int], dropped: Mapping[str, int], recipe: Recipe) -> None:
    for split in SPLITS:
        if not counts[split]:
            remedy = f"; --valid-every {recipe.valid_every} needs as many lines" if recipe.valid_every else ""
            listed = ", ".join(f"{reason} {number}" for reason, number in sorted(dropped.items())) or "nothing"
            raise InputError(f"--pairs {'-'.join(pair)}: no line for {split} (dropped: {listed}){remedy}")


def held_out(corpus: Corpus, pairs: List[Pair], form: str) -> Callable[[Lines], bool]:
    """Return what tells whether a side of a training pair is a sentence of valid or test of any of the pairs."""
    normaliser = Normaliser(form)
    seen = {
        _digest(normaliser(line))
        for pair in pairs
        for split in ("valid", "test")
        for lines in corpus.lines(pair, split)
        for line in lines
    }
    return lambda lines: any(_digest(line) in seen for line in lines)


def _digest(line: str) -> bytes:
    return hashlib.blake2b(line.encode("utf-8"), digest_size=DIGEST_BYTES).digest()


def prepare(corpus: Corpus, pairs: List[Pair], recipe: Recipe, output: PathLike, workers: int = 1) -> Dict[str, Any]:
    """Write the text of all pairs, unchanged ones skipped, and ``manifest.json``.

    Returns:
        SRC-TGT to the counts of :func:`write_pair`.
    """
    if workers < 1:
        raise InputError(f"--workers {workers}: valid: 1 or more")
    target = Path(output)
    (target / "manifest.json").unlink(missing_ok=True)  # where it is, the folder is complete
    for pair in pairs:
        for split in SPLITS:
            corpus.files(pair, split)  # what is missing is named before the first pair is made
    found = for_each(_one_pair, [(corpus, pair, pairs, recipe, target) for pair in pairs], workers, corpus.name)
    counts = {"-".join(pair): result for pair, result in zip(pairs, found)}
    outputs = [target / text_name(pair, split, lang, True) for pair in pairs for split in SPLITS for lang in pair]
    inputs = sorted({path for pair in pairs for split in SPLITS for path in corpus.files(pair, split)})
    archives = (read_json(corpus.raw / "archives.json") or {}).get("archives", [])
    options = {**asdict(recipe), "pairs": ["-".join(pair) for pair in pairs], "archives": archives}
    write_manifest(target / "manifest.json", corpus.name, options, counts, inputs, outputs, target)
    return counts


def _one_pair(job: Tuple[Corpus, Pair, List[Pair], Recipe, Path]) -> Dict[str, Any]:
    corpus, pair, pairs, recipe, output = job
    label = f"{corpus.name} {pair[0]}-{pair[1]}"
    inputs = {f"{split}.{i}": path for split in SPLITS for i, path in enumerate(corpus.files(pair, split))}
    if corpus.remove_held_out:
        others = [(p, split) for p in pairs for split in ("valid", "test")]
        inputs.update({f"held.{i}.{j}": f for i, at in enumerate(others) for j, f in enumerate(corpus.files(*at))})
    outputs = [output / text_name(pair, split, lang, True) for split in SPLITS for lang in pair]
    step = Step(output / STEPS_FOLDER / f"{pair[0]}-{pair[1]}.json", inputs, asdict(recipe), outputs)
    done = step.recall()
    if done is None:
        step.begin()
        excluded = held_out(corpus, pairs, recipe.rules.form) if corpus.remove_held_out else None
        done = write_pair(corpus, pair, recipe, output, excluded)
        step.finish(done)
        listed = ", ".join(f"{split} {done[split]:,}" for split in SPLITS)
        cli.say(f"{label}: {listed} lines; dropped {sum(done['dropped'].values()):,}")
    else:
        cli.say(f"{label}: unchanged, skipped")
    return done


def add_options(parser: argparse.ArgumentParser, pairs: Optional[str], rules: Rules, valid_every: int) -> None:
    """Add the options that all corpora share, with the defaults of this one."""
    parser.add_argument("--raw", required=True, metavar="DIR", help="folder of the extracted archives")
    parser.add_argument("--output", required=True, metavar="DIR", help="gets SRC-TGT/SPLIT.LANG and manifest.json")
    parser.add_argument("--pairs", default=pairs, required=pairs is None, metavar="PAIRS", help="as de-en,fr-en")
    parser.add_argument("--form", choices=FORMS, default=rules.form, help="Unicode form")
    parser.add_argument("--unit", choices=UNITS, default=rules.unit, help="what lengths count")
    parser.add_argument("--max-length", type=int, default=rules.max_length, metavar="N", help="of train; 0 = no limit")
    parser.add_argument("--max-ratio", type=float, default=rules.max_ratio, metavar="R", help="of train; 0 = no limit")
    parser.add_argument("--dedup", choices=DEDUP, default=rules.dedup, help="duplicates in train")
    parser.add_argument(
        "--valid-every",
        type=int,
        default=valid_every,
        metavar="N",
        help="cut every Nth line of train off as valid; 0 = no",
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="pairs at a time")


def run(corpus: Corpus, args: argparse.Namespace) -> None:
    """Run the verb of a corpus with parsed options."""
    rules = Rules(args.form, args.unit, 1, args.max_length, args.max_ratio, args.dedup)
    with locked(Path(args.output) / STEPS_FOLDER / "lock", f"--output {args.output}"):
        prepare(corpus, parse_pairs(args.pairs), Recipe(rules, args.valid_every), args.output, args.workers)
    cli.say(f"{corpus.name}: {args.output}: {len(parse_pairs(args.pairs))} pairs; manifest {args.output}/manifest.json")
