"""Base of pre-training tasks: languages and pairs of one folder with one dictionary."""

import logging
import os
from dataclasses import dataclass
from typing import Any, List

from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from omegaconf import II, MISSING

from .data_bins import load_dictionary, load_monolingual, load_pair, split_names
from .options import option
from .own_run import OwnRun
from .shards import split_folders, take_turn

logger = logging.getLogger(__name__)


@dataclass
class SharedDictionaryConfig(FairseqDataclass):
    """Options of the data."""

    data: str = option(
        MISSING,
        "folder made by fairseq-preprocess, with dict.<lang>.txt; several, as bin:bin2, are read "
        "in turn, one an epoch, and dictionary and validation come from the first",
    )
    pairs: str = option("", "translation pairs, for example en-de,en-fr")
    monolingual: str = option(
        "",
        "languages of monolingual text, for example en,de: the files of fairseq-preprocess "
        "--only-source, or that side of one of --pairs",
    )
    seed: int = II("common.seed")
    train_subset: str = II("dataset.train_subset")


class SharedDictionaryTask(OwnRun):
    """Task over texts of ``--pairs`` and ``--monolingual`` with one dictionary for all languages.

    One folder holds the output of ``fairseq-preprocess`` for each pair (``train.en-de.en.bin`` and
    so on) and, with ``--only-source``, for single languages (``train.en-None.en.bin``). Of several
    folders each holds all pairs and languages; training reads one of them an epoch.
    """

    def __init__(self, cfg: Any, dictionary: Dictionary):
        super().__init__(cfg)
        self.dictionary = dictionary
        self.pairs, self.languages = split_names(cfg.pairs), split_names(cfg.monolingual)

    @staticmethod
    def read_dictionary(cfg: Any) -> Dictionary:
        """Read the dictionary of all languages. Raises ValueError if there are none or several."""
        names = [language for pair in split_names(cfg.pairs) for language in pair.split("-")]
        names += split_names(cfg.monolingual)
        return load_dictionary(cfg.data, list(dict.fromkeys(names)))

    @classmethod
    def read_masked_dictionary(cls, cfg: Any) -> Dictionary:
        """Read the dictionary and add ``<mask>`` at its end unless it is there.

        Raises:
            ValueError: ``<mask>`` stands before the pieces: random replacements are drawn from the
                entries before it.
        """
        dictionary = cls.read_dictionary(cfg)
        if dictionary.add_symbol("<mask>") <= dictionary.nspecial:
            raise ValueError(
                f"{cfg.data}: <mask> must stand after the pieces in dict.<lang>.txt, or in none"
            )
        logger.info(f"dictionary: {len(dictionary)} types with <mask>")
        return dictionary

    def prefixes(self, split: str) -> List[str]:
        """List folder and split, as in ``data-bin/train``: of every folder for training."""
        folders = split_folders(self.cfg.data)
        if split != self.cfg.train_subset:
            folders = folders[:1]
        return [os.path.join(folder, split) for folder in folders]

    def sides(self, split: str, pair: str, epoch: int) -> List[Any]:
        """Load both sides of a pair. Raises ValueError if their numbers of sentences differ.

        All folders are opened: what one of them lacks is said before the first batch.
        """
        folders = [
            load_pair(prefix, pair, self.dictionary, "--pairs") for prefix in self.prefixes(split)
        ]
        return take_turn(folders, epoch)

    def text(self, split: str, language: str, epoch: int) -> Any:
        """Load the text of a language: its own file, or else its side of one of ``--pairs``.

        All folders are opened, as :meth:`sides` does.
        """
        folders = [
            load_monolingual(
                prefix,
                language,
                self.pairs_with_text(prefix, language),
                self.dictionary,
                "--monolingual",
            )
            for prefix in self.prefixes(split)
        ]
        return take_turn(folders, epoch)

    def pairs_with_text(self, prefix: str, language: str) -> List[str]:
        """List the pairs, in order of preference, a side of which may serve as text."""
        return self.pairs

    @property
    def source_dictionary(self) -> Dictionary:
        """Dictionary of all languages."""
        return self.dictionary

    target_dictionary = source_dictionary
