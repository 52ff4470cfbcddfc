"""Draws sentences, keeps splits apart, and writes the toy corpus with its lexicons and manifest."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from typing import Callable, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Set, Tuple

from ..files import atomic_texts, sha256, write_bytes
from . import english, german, turkish
from .meaning import Meaning, MeaningSampler
from .toy_lexicon import gold_entries

REALISERS: Dict[str, Callable[[Meaning], str]] = {
    "en": english.sentence,
    "de": german.sentence,
    "tr": turkish.sentence,
}
LANGUAGES: Tuple[str, ...] = tuple(REALISERS)
SPLITS: Tuple[str, ...] = ("train", "valid", "test")
BUCKETS = 20
SPLIT_OF_BUCKET = {0: "test", 1: "valid"}
MANIFEST = "manifest.json"


class Example(NamedTuple):
    """One sentence in every language; `texts` is indexed by language code."""

    split: str
    texts: Dict[str, str]


def realise(meaning: Meaning, language: str) -> str:
    """Returns the one sentence of `language` (en, de or tr) that says `meaning`."""
    return REALISERS[language](meaning)


def split_of(turkish_sentence: str) -> str:
    """The split (str) that a sentence belongs to, whatever the seed.

    The Turkish sentence decides because it is the coarsest of the three: two meanings with a sentence in common in
    any language also have the Turkish one in common. So no sentence of any language is ever in two splits.
    """
    return _split_of_key(_key(turkish_sentence))


def _key(turkish_sentence: str) -> int:
    return int.from_bytes(hashlib.sha256(turkish_sentence.encode("utf-8")).digest()[:8], "big")


def _split_of_key(key: int) -> str:
    return SPLIT_OF_BUCKET.get(key % BUCKETS, "train")


def generate(seed: int, counts: Mapping[str, int]) -> Iterator[Example]:
    """Yields `counts[split]` examples (int) of each split, no sentence twice in any language, as they are drawn.

    A split's examples do not depend on the other splits asked for, and a smaller count gives the head of a larger one.

    Raises: ValueError for a negative seed, an unknown split or a count below 1.
    """
    _check(seed, counts)
    sampler, missing = MeaningSampler(seed), dict(counts)
    seen: Set[int] = set()
    while missing:
        meaning = sampler.draw()
        texts = {"tr": turkish.sentence(meaning)}
        key = _key(texts["tr"])
        split = _split_of_key(key)
        if split not in missing or key in seen:
            continue
        seen.add(key)
        missing[split] -= 1
        if not missing[split]:
            del missing[split]
        texts["en"], texts["de"] = english.sentence(meaning), german.sentence(meaning)
        yield Example(split, texts)


def _check(seed: int, counts: Mapping[str, int]) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"seed is {seed!r}; valid: an integer >= 0")
    if not counts:
        raise ValueError(f"counts is empty; valid: at least one of {', '.join(SPLITS)}")
    for split, count in counts.items():
        if split not in SPLITS:
            raise ValueError(f"split {split!r} is unknown; valid: {', '.join(SPLITS)}")
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"{split} count is {count!r}; valid: an integer >= 1")


def check_languages(languages: Sequence[str]) -> None:
    """Raises ValueError unless `languages` are distinct codes out of en, de, tr and at least one."""
    if not languages or len(set(languages)) != len(languages) or not set(languages) <= set(LANGUAGES):
        raise ValueError(f"langs is {','.join(languages)!r}; valid: distinct codes out of {','.join(LANGUAGES)}")


def write_corpus(
    out: str,
    seed: int,
    counts: Mapping[str, int],
    languages: Sequence[str] = LANGUAGES,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Dict[str, object]:
    """Writes `<split>.<language>`, `lexicon.<a>-<b>.tsv` and, last, `manifest.json` under the folder `out`.

    `counts` maps split to sentences (int); `progress(done, total)` is called after every sentence.
    Files appear under their names only when complete. Returns the manifest.

    Raises: ValueError for a bad argument; OSError when `out` cannot be written.
    """
    _check(seed, counts)
    check_languages(languages)
    ordered = [language for language in LANGUAGES if language in languages]
    os.makedirs(out, exist_ok=True)
    names = _write_sentences(out, seed, counts, ordered, progress)
    for name, text in _lexicons(ordered):
        write_bytes(os.path.join(out, name), text.encode("utf-8"))
        names.append(name)
    manifest: Dict[str, object] = {
        "seed": seed,
        "languages": ordered,
        "counts": {split: counts[split] for split in SPLITS if split in counts},
        "sha256": {name: sha256(os.path.join(out, name)) for name in sorted(names)},
    }
    write_bytes(os.path.join(out, MANIFEST), (json.dumps(manifest, indent=2) + "\n").encode("utf-8"))
    return manifest


def _write_sentences(
    out: str, seed: int, counts: Mapping[str, int], languages: List[str], progress: Callable[[int, int], None]
) -> List[str]:
    """Write a file for each split and language, and return the names of the files."""
    names = {(split, language): f"{split}.{language}" for split in counts for language in languages}
    with atomic_texts([os.path.join(out, name) for name in names.values()], "--out") as opened:
        files = dict(zip(names, opened))
        total = sum(counts.values())
        for number, example in enumerate(generate(seed, counts), start=1):
            for language in languages:
                files[example.split, language].write(example.texts[language] + "\n")
            progress(number, total)
        for file in opened:
            file.flush()  # a full disk is noticed while the older corpus is whole
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(out, MANIFEST))  # the older one no longer describes the folder
    return list(names.values())


def _lexicons(languages: List[str]) -> Iterator[Tuple[str, str]]:
    entries = [dict(zip(LANGUAGES, entry)) for entry in gold_entries()]
    for index, source in enumerate(languages):
        for target in languages[index + 1 :]:
            lines = [f"{entry[source]}\t{entry[target]}\n" for entry in entries]
            yield f"lexicon.{source}-{target}.tsv", "".join(lines)
