"""Write the toy corpus: sentences, gold lexicons and a manifest; equal seeds give equal bytes."""

import argparse
import contextlib
import hashlib
import json
import os
from typing import Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set

from .. import cli
from ..files import atomic_texts, locked, sha256, write_bytes
from ..io import InputError
from ..layout import SPLITS
from ..options import adder
from ..progress import with_progress
from .grammars import GRAMMARS, english_sentence, german_sentence, turkish_sentence
from .meaning import MeaningSampler
from .words import gold_entries

LANGUAGES = tuple(GRAMMARS)
BUCKETS = 20
SPLIT_OF_BUCKET = {0: "test", 1: "valid"}  # the other buckets are train
MANIFEST = "manifest.json"


class Example(NamedTuple):
    """A sentence in every language.

    Attributes:
        split: its split.
        texts: language code -> sentence.
    """

    split: str
    texts: Dict[str, str]


def split_of(turkish: str) -> str:
    """Return the split of a Turkish sentence, whatever the seed.

    The Turkish sentence is the coarsest of the three: two meanings that share a sentence in any
    language share the Turkish one too. So no sentence of any language is ever in two splits.
    """
    return _split_of_key(_key(turkish))


def _key(turkish: str) -> int:
    return int.from_bytes(hashlib.sha256(turkish.encode("utf-8")).digest()[:8], "big")


def _split_of_key(key: int) -> str:
    return SPLIT_OF_BUCKET.get(key % BUCKETS, "train")


def generate(seed: int, counts: Mapping[str, int]) -> Iterator[Example]:
    """Yield examples as they are drawn, no sentence twice in any language.

    A split's examples do not depend on the other splits, and a smaller count gives the head of a
    larger one.

    Args:
        seed: of the sampler, >= 0.
        counts: split -> number of examples, >= 1.
    """
    sampler, missing = MeaningSampler(seed), dict(counts)
    seen: Set[int] = set()
    while missing:
        meaning = sampler.draw()
        turkish = turkish_sentence(meaning)
        key = _key(turkish)
        split = _split_of_key(key)
        if split not in missing or key in seen:
            continue
        seen.add(key)
        missing[split] -= 1
        if not missing[split]:
            del missing[split]
        english, german = english_sentence(meaning), german_sentence(meaning)
        yield Example(split, {"tr": turkish, "en": english, "de": german})


def write_corpus(
    out: str, seed: int, counts: Mapping[str, int], languages: Sequence[str] = LANGUAGES
) -> Dict[str, object]:
    """Write SPLIT.LANGUAGE, lexicon.A-B.tsv and, last, manifest.json into a folder.

    Args:
        out: the folder; made if missing.
        seed: of the sampler, >= 0.
        counts: split -> number of sentences, >= 1.
        languages: codes out of ``LANGUAGES``.

    Returns:
        The content of the manifest.

    Raises:
        OSError: the folder cannot be written.
    """
    ordered = [language for language in LANGUAGES if language in languages]
    os.makedirs(out, exist_ok=True)
    names = _write_sentences(out, seed, counts, ordered)
    for name, text in _lexicons(ordered):
        write_bytes(os.path.join(out, name), text.encode("utf-8"))
        names.append(name)
    manifest: Dict[str, object] = {
        "seed": seed,
        "languages": ordered,
        "counts": {split: counts[split] for split in SPLITS if split in counts},
        "sha256": {name: sha256(os.path.join(out, name)) for name in sorted(names)},
    }
    text = json.dumps(manifest, indent=2) + "\n"
    write_bytes(os.path.join(out, MANIFEST), text.encode("utf-8"))
    return manifest


def _write_sentences(
    out: str, seed: int, counts: Mapping[str, int], languages: Sequence[str]
) -> List[str]:
    """Write a file for each split and language, and return the names of the files."""
    names = [f"{split}.{language}" for split in counts for language in languages]
    with atomic_texts([os.path.join(out, name) for name in names], "--out") as opened:
        files = dict(zip(names, opened))
        for example in with_progress(generate(seed, counts), "toy"):
            for language in languages:
                files[f"{example.split}.{language}"].write(example.texts[language] + "\n")
        for file in opened:
            file.flush()  # a full disk is noticed while the older corpus is whole
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(out, MANIFEST))  # the older one no longer describes the folder
    return names


def _lexicons(languages: Sequence[str]) -> Iterator["tuple[str, str]"]:
    """Yield name and content of the gold lexicon of each pair of languages."""
    entries = gold_entries()
    columns = [LANGUAGES.index(language) for language in languages]
    for index, source in enumerate(columns):
        for target in columns[index + 1 :]:
            lines = [f"{entry[source]}\t{entry[target]}\n" for entry in entries]
            yield f"lexicon.{LANGUAGES[source]}-{LANGUAGES[target]}.tsv", "".join(lines)


def _whole_number(minimum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or int(text) < minimum:
            message = f"{text!r} is not valid: an integer >= {minimum} is needed"
            raise argparse.ArgumentTypeError(message)
        return int(text)

    return parse


def _languages(text: str) -> List[str]:
    codes = [code.strip() for code in text.split(",")]
    if len(set(codes)) != len(codes) or not set(codes) <= set(LANGUAGES):
        valid = f"valid: distinct codes out of {','.join(LANGUAGES)}"
        raise argparse.ArgumentTypeError(f"langs is {text!r}; {valid}")
    return codes


def main(argv: Optional[List[str]] = None) -> None:
    """Run the verb with these arguments (default: the command line's); exit 2 on a bad one."""
    parser = cli.parser("toy", __doc__)
    add = adder(parser)
    add("--out", "DIR", "folder; made if missing", required=True)
    add("--seed", None, "seed, >= 0", type=_whole_number(0), default=1)
    for split, count in (("train", 20_000), ("valid", 500), ("test", 500)):
        text = f"sentences of {split}, >= 1"
        add(f"--{split}", None, text, type=_whole_number(1), default=count)
    languages = ",".join(LANGUAGES)
    text = f"codes out of {languages}, separated by commas"
    add("--langs", None, text, type=_languages, default=languages)
    add("--split-only", None, "only split to write", choices=SPLITS)
    args = parser.parse_args(argv)
    splits = [args.split_only] if args.split_only else SPLITS
    counts = {split: getattr(args, split) for split in splits}
    try:
        with locked(os.path.join(args.out, ".lock"), f"--out {args.out}"):
            write_corpus(args.out, args.seed, counts, args.langs)
    except InputError as error:
        parser.error(str(error))
    except OSError as error:
        reason = f"cannot be written ({error.strerror}); a writable folder is needed"
        parser.error(f"argument --out: {args.out!r} {reason}")
    listed = ", ".join(f"{split} {count}" for split, count in counts.items())
    cli.say(f"toy: wrote {listed} to {args.out}")
