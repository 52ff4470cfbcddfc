"""What the pre-training tasks share: languages and pairs of one folder with one dictionary."""

import os
from typing import Any, List

from fairseq.data import Dictionary

from ...data.data_bins import load_dictionary, load_pair
from ...data.stream_names import split_names
from .own_run import OwnRun


class SharedDictionaryTask(OwnRun):
    """Texts of ``--pairs`` and ``--monolingual``, one dictionary for all.

    The data-bin is what ``fairseq-preprocess`` makes for each pair, in one folder (``train.en-de.en.bin`` and so on), and what it
    makes of one language with ``--only-source`` (``train.en-None.en.bin``).
    """

    def __init__(self, cfg: Any, dictionary: Dictionary):
        super().__init__(cfg)
        self.dictionary = dictionary
        self.pairs, self.languages = split_names(cfg.pairs), split_names(cfg.monolingual)

    @staticmethod
    def read_dictionary(cfg: Any) -> Dictionary:
        """The dictionary of every language that is named; refuses a folder without one, or with different ones."""
        names = [language for pair in split_names(cfg.pairs) for language in pair.split("-")]
        return load_dictionary(cfg.data, list(dict.fromkeys([*names, *split_names(cfg.monolingual)])))

    def prefix(self, split: str) -> str:
        """Folder and split."""
        return os.path.join(self.cfg.data, split)

    def sides(self, split: str, pair: str) -> List[Any]:
        """Both sides of one of ``--pairs``."""
        return load_pair(self.prefix(split), pair, self.dictionary, "--pairs")

    @property
    def source_dictionary(self) -> Dictionary:
        """The shared dictionary, with the symbols that the task adds."""
        return self.dictionary

    @property
    def target_dictionary(self) -> Dictionary:
        """The shared dictionary."""
        return self.dictionary
