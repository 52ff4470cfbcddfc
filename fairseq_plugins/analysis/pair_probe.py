"""Probe of frozen sentence vectors by the class of sentence pairs: ``fairseq-plugins pair-probe``.

    … MODEL --train en=FILE.tsv --dev en=FILE.tsv --test en=FILE.tsv [--test de=FILE.tsv …]

A line of a file has the first sentence, the second one and the class, separated by tabs. Each
sentence is read alone; its vector is the mean of a layer's output over its tokens. Of a pair (u, v)
a logistic regression (scikit-learn, on standardised features) sees u, v, ``|u - v|`` and u * v.
Layer and penalty are those with the best accuracy on ``--dev``, the tests are other sentences or
languages. The encoder is not trained: the test suits a small model that cannot be fine-tuned on so
few pairs, and is a lower bound for one that can. ``retrieval-comparison`` compares the files of
``--json``.

Source: features of InferSent (Conneau et al. 2017, section 3.1), there over encoders that are
trained for it.
"""

import argparse
import logging
import sys
import warnings
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from ..own_commands import forward
from .pretrained import Pretrained, vector_folder
from .report import named_paths, say, short_names, table, write_json
from .text import read_lines

logger = logging.getLogger(__name__)

PENALTIES = (0.0001, 0.001)
"""Values of C that are tried. Small ones, strong penalties: a dimension gives four features."""

Features = Dict[int, np.ndarray]
"""Layer -> (N, 4C), features of N pairs."""


class Pairs(NamedTuple):
    """Sentence pairs of a language, and the class of each pair."""

    language: str
    first: List[str]
    second: List[str]
    classes: List[str]


def read_pairs(language: str, path: str, option: str, limit: Optional[int] = None) -> Pairs:
    """Read ``first<TAB>second<TAB>class`` lines, at most ``limit``.

    Raises:
        ValueError: a line without three fields or with an empty one; names the line, counted from
            1.
    """
    pairs = Pairs(language, [], [], [])
    for number, line in enumerate(read_lines(path, limit), start=1):
        row = line.split("\t")
        if len(row) != 3 or not all(cell.strip() for cell in row):
            valid = "sentence<TAB>sentence<TAB>class, none of them empty"
            raise ValueError(f"{option} {language}={path}: line {number}: valid: {valid}")
        pairs.first.append(row[0])
        pairs.second.append(row[1])
        pairs.classes.append(row[2])
    return pairs


def pair_features(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Concatenate u, v, ``|u - v|`` and u * v. (N, C) twice -> (N, 4C)."""
    return np.concatenate([first, second, np.abs(first - second), first * second], axis=1)


def make_classifier(penalty: float) -> Any:
    """Make an untrained logistic regression with this C, over standardised features.

    Raises:
        ValueError: scikit-learn is missing.
    """
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ImportError as error:
        message = "the probe needs scikit-learn (the extra 'probe'): pip install scikit-learn"
        raise ValueError(message) from error
    return make_pipeline(StandardScaler(), LogisticRegression(C=penalty, max_iter=200))


class Choice(NamedTuple):
    """The best layer (0 = the embedding's output) and penalty, and their trained classifier."""

    layer: int
    penalty: float  # C of the logistic regression; smaller is stronger
    classifier: Any
    dev: Dict[int, float]  # layer -> best accuracy on the development pairs, in [0, 1]


def choose(features: Dict[str, Features], train: Pairs, dev: Pairs) -> Choice:
    """Train a classifier for each layer and penalty, and choose the best on ``dev``.

    Ties go to the lowest layer.

    Args:
        features: of ``train`` and of ``dev``.
    """
    best: Optional[Choice] = None
    accuracies: Dict[int, float] = {}
    best_accuracy = -1.0
    for layer, rows in features["train"].items():
        for penalty in PENALTIES:
            classifier = make_classifier(penalty)
            with warnings.catch_warnings():
                # Not converged is near enough: the penalty is chosen from two.
                warnings.filterwarnings("ignore", message="lbfgs failed to converge")
                classifier.fit(rows, train.classes)
            accuracy = float(classifier.score(features["dev"][layer], dev.classes))
            accuracies[layer] = max(accuracies.get(layer, 0.0), accuracy)
            if accuracy > best_accuracy:
                best_accuracy, best = accuracy, Choice(layer, penalty, classifier, accuracies)
        logger.info("layer %d: %.1f %% of the development pairs", layer, 100 * accuracies[layer])
    assert best is not None
    return best


def read_sets(args: argparse.Namespace) -> Dict[str, Pairs]:
    """Read ``train``, ``dev``, and ``test.LANGUAGE`` of each test language.

    Raises:
        ValueError: several files of ``--train`` or ``--dev``, fewer than two classes in
            ``--train``, or other classes elsewhere.
    """
    sets: Dict[str, Pairs] = {}
    for name in ("train", "dev", "test"):
        paths = named_paths(getattr(args, name), f"--{name}", "en=FILE.tsv", "LANG=FILE")
        if name != "test" and len(paths) != 1:
            raise ValueError(f"--{name}: valid: one LANG=FILE; got {', '.join(paths)}")
        for language, path in paths.items():
            pairs = read_pairs(language, path, f"--{name}", args.limit)
            sets[f"test.{language}" if name == "test" else name] = pairs
            classes = set(sets["train"].classes)
            unknown = sorted(set(pairs.classes) - classes)
            if unknown or len(classes) < 2:
                raise ValueError(
                    f"--{name}: class {unknown or sorted(classes)}; valid: those of --train, two "
                    "at least"
                )
    return sets


def read_features(
    model: Pretrained,
    name: str,
    pairs: Pairs,
    folder: str,
    layers: Optional[Sequence[int]] = None,
) -> Features:
    """Compute the features of the pairs of a set, ``name``, in these layers (None = all)."""
    u = model.vectors(pairs.first, pairs.language, f"{name}.0", folder, layers)
    v = model.vectors(pairs.second, pairs.language, f"{name}.1", folder, layers)
    return {
        layer: pair_features(u.layer(layer).numpy(), v.layer(layer).numpy()) for layer in u.layers
    }


def work(args: argparse.Namespace) -> None:
    """Choose the layer on ``--dev``, test it on each language, print and write the result."""
    sets = read_sets(args)
    make_classifier(PENALTIES[0])  # fails without scikit-learn now, not after minutes of vectors
    name = short_names([args.model])[0]
    with vector_folder(args) as folder:
        model = Pretrained(args.model, name, args)
        features = {key: read_features(model, key, sets[key], folder) for key in ("train", "dev")}
        choice = choose(features, sets["train"], sets["dev"])
        # Language -> a digit per pair, 1 = class found; ``retrieval-comparison`` reads them.
        signs: Dict[str, str] = {}
        for key, pairs in sets.items():
            if key.startswith("test."):
                rows = read_features(model, key, pairs, folder, [choice.layer])[choice.layer]
                guesses = choice.classifier.predict(rows)
                hits = [int(a == b) for a, b in zip(guesses, pairs.classes)]
                signs[pairs.language] = "".join(map(str, hits))
    report(args, name, choice, signs)


def report(args: argparse.Namespace, model: str, choice: Choice, signs: Dict[str, str]) -> None:
    """Print the tables and write the file.

    Args:
        signs: language -> for each test pair ``1`` if its class was predicted correctly, else
            ``0``.
    """

    def row(shares: Sequence[float]) -> List[str]:
        """Format accuracies in percent."""
        return ["accuracy", *(f"{100 * share:.1f}" for share in shares)]

    say(f"{model}: accuracy on the development pairs by layer, in percent\n")
    say(table(["layer", *map(str, choice.dev)], [row(list(choice.dev.values()))]))
    scores = {language: text.count("1") / len(text) for language, text in signs.items()}
    mean = sum(scores.values()) / len(scores)
    say(f"\nlayer {choice.layer}, C = {choice.penalty:g}\n")
    say(table(["test", *scores, "mean"], [row([*scores.values(), mean])]))
    content = {
        "model": model,
        "layer": choice.layer,
        "penalty": choice.penalty,
        "dev": choice.dev,
        "test": scores,
        "found": {language: [text] for language, text in signs.items()},
    }
    write_json(args.json, content)


if __name__ == "__main__":
    sys.exit(forward("pair-probe"))
