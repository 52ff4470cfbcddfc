"""Draws sentences, keeps splits apart, and writes the toy corpus with its lexicons and manifest."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from typing import Callable, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Set, Tuple

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
UNFINISHED = ".tmp"


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
    hashes = _write_sentences(out, seed, counts, ordered, progress)
    for name, text in _lexicons(ordered):
        hashes[name] = _write_whole(os.path.join(out, name), text)
    manifest: Dict[str, object] = {
        "seed": seed,
        "languages": ordered,
        "counts": {split: counts[split] for split in SPLITS if split in counts},
        "sha256": {name: hashes[name] for name in sorted(hashes)},
    }
    _write_whole(os.path.join(out, MANIFEST), json.dumps(manifest, indent=2) + "\n")
    return manifest


def _write_sentences(
    out: str, seed: int, counts: Mapping[str, int], languages: List[str], progress: Callable[[int, int], None]
) -> Dict[str, str]:
    names = {(split, language): f"{split}.{language}" for split in counts for language in languages}
    digests = {key: hashlib.sha256() for key in names}
    unfinished = [os.path.join(out, name + UNFINISHED) for name in names.values()]
    try:
        with contextlib.ExitStack() as stack:
            files = {key: stack.enter_context(open(path, "wb")) for key, path in zip(names, unfinished)}
            total = sum(counts.values())
            for done, example in enumerate(generate(seed, counts), start=1):
                for language in languages:
                    line = (example.texts[language] + "\n").encode("utf-8")
                    files[example.split, language].write(line)
                    digests[example.split, language].update(line)
                progress(done, total)
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(out, MANIFEST))  # from here on the old one would not describe the folder
        for path in unfinished:
            os.replace(path, path[: -len(UNFINISHED)])
    finally:
        for path in unfinished:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
    return {name: digests[key].hexdigest() for key, name in names.items()}


def _write_whole(path: str, text: str) -> str:
    data = text.encode("utf-8")
    with open(path + UNFINISHED, "wb") as file:
        file.write(data)
    os.replace(path + UNFINISHED, path)
    return hashlib.sha256(data).hexdigest()


def _lexicons(languages: List[str]) -> Iterator[Tuple[str, str]]:
    entries = [dict(zip(LANGUAGES, entry)) for entry in gold_entries()]
    for index, source in enumerate(languages):
        for target in languages[index + 1 :]:
            lines = [f"{entry[source]}\t{entry[target]}\n" for entry in entries]
            yield f"lexicon.{source}-{target}.tsv", "".join(lines)
