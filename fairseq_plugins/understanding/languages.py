"""Languages: the symbol of each, and several languages in one training run."""

import logging
from typing import Any, Dict, List, Mapping, Sequence

from ..common.data_bins import split_names
from ..common.epoch_dataset import EpochDataset, JoinedDataset
from ..common.sampling import sampling_probabilities

logger = logging.getLogger(__name__)


class Languages:
    """Languages of a model: ``names`` as in ``--langs``, and ``symbols`` in the dictionary."""

    def __init__(self, cfg: Any):
        self.names = split_names(cfg.langs)
        template = cfg.language_template
        if "{}" not in template:
            raise ValueError(
                f"--language-template must hold {{}}, where the language goes; got {template!r}"
            )
        repeated = sorted({name for name in self.names if self.names.count(name) > 1})
        if repeated:
            raise ValueError(
                f"--langs names {', '.join(repeated)} more than once; valid: every language once, "
                "in the model's order"
            )
        self.symbols = [template.format(name) for name in self.names]
        self.codes = read_codes(cfg.language_codes)

    def symbol(self, subset: str) -> str:
        """Find the symbol of a subset's language, as ``[de_DE]`` for ``test.de``.

        Raises:
            ValueError: ``--langs`` has no such language, or several.
        """
        code = language_of(subset)
        matches = match_languages(code, self.names, self.codes)
        if len(matches) != 1:
            language = self.codes.get(code, code)
            fault = f"has {', '.join(matches)}" if matches else "does not have it"
            raise ValueError(
                f"subset {subset}: language {language or '(none)'}, --langs {fault}; valid: name "
                f"it in --language-codes, as {code or 'de'}=CODE with a CODE of "
                f"{', '.join(self.names)}"
            )
        return self.symbols[self.names.index(matches[0])]


def language_of(subset: str) -> str:
    """Return ``de`` for ``test.de``, and an empty text for ``test``."""
    return subset.rpartition(".")[2] if "." in subset else ""


def match_languages(code: str, names: Sequence[str], codes: Mapping[str, str]) -> List[str]:
    """List the languages in ``names`` that a code stands for.

    A code in ``codes`` stands for its entry alone. Another code stands for the language of that
    name or, if there is none, for all its regions: ``de`` for ``de_DE`` and ``de_AT``.
    """
    language = codes.get(code, code)
    matches = [name for name in names if name == language]
    if not matches and code not in codes:
        matches = [name for name in names if name.split("_")[0] == code]
    return matches


def read_codes(text: str) -> Dict[str, str]:
    """Parse ``de=deu_Latn,fr=fra_Latn``: language of a text -> language of the model."""
    codes = {}
    for part in split_names(text):
        key, _, language = part.partition("=")
        if not key or not language:
            raise ValueError(
                f"--language-codes must look like de=deu_Latn,fr=fra_Latn; got {part!r}"
            )
        codes[key] = language
    return codes


class LanguageMixture(JoinedDataset):
    """Subsets of several languages in one run (translate-train-all).

    An epoch has as many items as all subsets together; each subset has the share p ∝ n^(1/T) of
    them. The items are a function of (seed, epoch). A batch may hold several languages.

    Args:
        parts: subset -> dataset; at least one, and all collated alike.
        temperature: T, at least 1; 1 = natural proportions, every item once per epoch; infinity =
            equal shares.

    Source: XGLUE and XTREME, "translate-train-all"; temperature as in Arivazhagan et al. 2019.
    """

    # Shuffle as a single subset does, so that one language alone has its usual order.
    permutation = EpochDataset.permutation

    def __init__(self, parts: Mapping[str, Any], temperature: float, seed: int):
        empty = [name for name, part in parts.items() if not len(part)]
        if empty:
            raise ValueError(f"{', '.join(empty)}: no rows; leave it out of --train-subset")
        sizes = [len(part) for part in parts.values()]
        probabilities = sampling_probabilities(sizes, temperature)
        shares = ", ".join(f"{name} {share:.4f}" for name, share in zip(parts, probabilities))
        logger.info(f"sampling temperature {temperature:g}: {shares}")
        super().__init__(list(parts.values()), seed, probabilities)
