"""What the frozen vectors of a sentence pair tell of its class: ``fairseq-plugins pair-probe``.

    … MODEL --train en=FILE.tsv --dev en=FILE.tsv --test en=FILE.tsv [--test de=FILE.tsv …]     first, second sentence, class

Each sentence is read alone; its vector is the mean of a layer's output over its tokens. Of a pair (u, v) a logistic regression
(scikit-learn, on standardised features) sees u, v, ``|u - v|`` and u * v. Layer and penalty are those with the best accuracy on
``--dev``, the tests are other sentences or languages. Nothing of the encoder is trained: the test of a small model that cannot be
fine-tuned on so few pairs, and a lower bound for one that can. ``retrieval-comparison`` compares the files of ``--json``.

Source: features of InferSent (Conneau et al. 2017, section 3.1), there over encoders that are trained for it.
"""

import argparse
import logging
import sys
import warnings
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from ..own_commands import forward
from .pretrained import Pretrained, vector_folder
from .report import named_paths, say, short_names, table, write_json
from .text import read_lines

logger = logging.getLogger(__name__)

PENALTIES = (0.0001, 0.001)
"""Values of C that are tried: strong penalties, since there are four features a dimension."""


class Pairs(NamedTuple):
    """Sentence pairs: the language of both sides, first and second sentences, and the class of each pair."""

    language: str
    sides: Tuple[List[str], List[str]]
    classes: List[str]


def read_pairs(language: str, path: str, option: str, limit: Optional[int] = None) -> Pairs:
    """Read ``first<TAB>second<TAB>class`` lines, the first ``limit``.

    Raises ValueError: a line without three fields or with an empty one; names the line, counted from 1.
    """
    rows = [line.split("\t") for line in read_lines(path, limit)]
    for number, row in enumerate(rows, start=1):
        if len(row) != 3 or not all(cell.strip() for cell in row):
            raise ValueError(
                f"{option} {language}={path}: line {number}: valid: sentence<TAB>sentence<TAB>class, none of them empty"
            )
    return Pairs(language, ([row[0] for row in rows], [row[1] for row in rows]), [row[2] for row in rows])


def pair_features(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """u, v, ``|u - v|`` and u * v, side by side. (N, C) twice -> (N, 4C)."""
    return np.concatenate([first, second, np.abs(first - second), first * second], axis=1)


def make_classifier(penalty: float) -> Any:
    """Standardised features, then a logistic regression with this C; not trained. Raises ValueError: scikit-learn is missing."""
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ImportError as error:
        raise ValueError("the probe needs scikit-learn (the extra 'probe'): pip install scikit-learn") from error
    return make_pipeline(StandardScaler(), LogisticRegression(C=penalty, max_iter=200))


class Choice(NamedTuple):
    """The best layer (0 = the embedding's output) and penalty, and the classifier that was trained with them."""

    layer: int
    penalty: float  # C of the logistic regression; smaller is stronger
    classifier: Any
    dev: Dict[int, float]  # layer -> best accuracy on the development pairs, in [0, 1]


def choose(features: Dict[str, Dict[int, np.ndarray]], train: Pairs, dev: Pairs) -> Choice:
    """Train a classifier for each layer and penalty, and take the best on ``dev``; of equal ones the lowest layer.

    ``features`` are ``train`` and ``dev`` -> layer -> (N, 4C).
    """
    best: Optional[Choice] = None
    accuracies: Dict[int, float] = {}
    reached = -1.0
    for layer, rows in features["train"].items():
        for penalty in PENALTIES:
            classifier = make_classifier(penalty)
            with warnings.catch_warnings():
                # Not converged is near enough: the penalty is chosen from two.
                warnings.filterwarnings("ignore", message="lbfgs failed to converge")
                classifier.fit(rows, train.classes)
            accuracy = float(classifier.score(features["dev"][layer], dev.classes))
            accuracies[layer] = max(accuracies.get(layer, 0.0), accuracy)
            if accuracy > reached:
                reached, best = accuracy, Choice(layer, penalty, classifier, accuracies)
        logger.info("layer %d: %.1f %% of the development pairs", layer, 100 * accuracies[layer])
    assert best is not None
    return best


def work(args: argparse.Namespace) -> None:
    """Compute, print and write."""
    sets: Dict[str, Pairs] = {}
    for name in ("train", "dev", "test"):
        paths = named_paths(getattr(args, name), f"--{name}", "en=FILE.tsv", "LANG=FILE")
        if name != "test" and len(paths) != 1:
            raise ValueError(f"--{name}: valid: one LANG=FILE; got {', '.join(paths)}")
        for language, path in paths.items():
            key = f"test.{language}" if name == "test" else name
            sets[key] = read_pairs(language, path, f"--{name}", args.limit)
            known = set(sets["train"].classes)
            strange = sorted(set(sets[key].classes) - known)
            if strange or len(known) < 2:
                raise ValueError(f"--{name}: class {strange or sorted(known)}; valid: those of --train, two at least")
    make_classifier(PENALTIES[0])  # before the vectors, which take minutes
    model = short_names([args.model])[0]
    with vector_folder(args) as folder:
        encoder = Pretrained(args.model, model, args)

        def of(name: str, layers: Optional[List[int]] = None) -> Dict[int, np.ndarray]:
            pairs = sets[name]
            u, v = (
                encoder.vectors(side, pairs.language, f"{name}.{number}", folder, layers)
                for number, side in enumerate(pairs.sides)
            )
            return {layer: pair_features(u.layer(layer).numpy(), v.layer(layer).numpy()) for layer in u.layers}

        chosen = choose({name: of(name) for name in ("train", "dev")}, sets["train"], sets["dev"])
        signs = {}
        for name in (name for name in sets if name.startswith("test.")):
            guesses = chosen.classifier.predict(of(name, [chosen.layer])[chosen.layer])
            signs[sets[name].language] = "".join(str(int(a == b)) for a, b in zip(guesses, sets[name].classes))
    report(args, model, chosen, signs)


def report(args: argparse.Namespace, model: str, chosen: Choice, signs: Dict[str, str]) -> None:
    """Print the tables and write the file."""
    say(f"{model}: accuracy on the development pairs by layer, in percent\n")
    say(table(["layer", *map(str, chosen.dev)], [["accuracy", *(f"{100 * one:.1f}" for one in chosen.dev.values())]]))
    scores = {language: text.count("1") / len(text) for language, text in signs.items()}
    mean = sum(scores.values()) / len(scores)
    say(f"\nlayer {chosen.layer}, C = {chosen.penalty:g}\n")
    cells = [f"{100 * one:.1f}" for one in [*scores.values(), mean]]
    say(table(["test", *scores, "mean"], [["accuracy", *cells]]))
    content = {"model": model, "layer": chosen.layer, "penalty": chosen.penalty, "dev": chosen.dev, "test": scores}
    write_json(args.json, {**content, "found": {language: [text] for language, text in signs.items()}})


if __name__ == "__main__":
    sys.exit(forward("pair-probe"))
