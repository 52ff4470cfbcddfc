"""Options of code-switching restore; its text is other than the world's: it is made where it is asked for."""

import functools
import tempfile
from pathlib import Path
from typing import Any, List

from tests import csr_bins
from tests.contract.effects import BASES, Run, flips, outcome
from tests.csr_builders import plain


@functools.lru_cache(None)
def _made() -> "tempfile.TemporaryDirectory[str]":
    """A data-bin, and a second lexicon without ranks behind the first."""
    made = tempfile.TemporaryDirectory(prefix="effects-csr-")
    csr_bins.write(Path(made.name))
    for name, backwards in (("en-de", False), ("de-en", True)):
        csr_bins.write_lexicon(Path(made.name) / "other" / f"{name}.tsv", csr_bins.WORDS[:9], backwards)
    return made


def _path(name: str) -> str:
    return str(Path(_made().name) / name)


def _items(run: Run) -> List[Any]:
    return [plain(run.dataset[index]) for index in range(20)]


def _loaded(run: Run) -> str:
    return outcome(lambda: run.dataset)


TASK = "task code_switching_restore"
BASES[TASK] = [
    *(
        _path("bin"),
        "--task",
        "code_switching_restore",
        "--arch",
        "transformer",
        "-s",
        "en",
        "-t",
        "de",
        "--langs",
        "en,de",
    ),
    *("--lexicon", _path("lexicon"), "--sentencepiece-model", _path("m.model")),
]

flips(f"{TASK}: langs", ["--langs", "de,en"], lambda run: list(run.task.source_dictionary.symbols))
flips(f"{TASK}: prepend_bos", ["--prepend-bos"], _items)
flips(f"{TASK}: lexicon", ["--lexicon", _path("other")], _items)
flips(f"{TASK}: lexicon_top_k", ["--lexicon-top-k", "1"], _items)
flips(f"{TASK}: restore_langs", ["--restore-langs", "de"], lambda run: len(run.dataset))
flips(f"{TASK}: switch_ratio", ["--switch-ratio", "0.8"], _items)
flips(f"{TASK}: switch_span", ["--switch-span", "0.5"], _items)
flips(f"{TASK}: switch_unit", ["--switch-unit", "piece"], lambda run: int(run.dataset.text.words.sum()))
flips(f"{TASK}: sentencepiece_model", ["--sentencepiece-model", _path("none.model")], _loaded)
flips(f"{TASK}: restore_updates", ["--restore-updates", "5"], lambda run: type(run.dataset).__name__)
