"""The data-bin folder of an understanding task: it appears whole or not at all; its datasets, in fairseq's own format."""

import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, List, Optional, Sequence

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder, make_builder

from ..files import atomic_folder, locked, restore_folder
from ..io import InputError, PathLike, read_json
from ..layout import MANIFEST
from .labels import Labels
from .sources import Source

VERB = "nlu"
TEXTS = ("input0", "input1")
LABEL, OFFSETS = "label", "offsets"
DICTIONARY = "dict.txt"


@contextmanager
def whole_folder(output: PathLike, sources: Sequence[Source]) -> Iterator[Path]:
    """Yield an empty folder that takes the output's place at the end, or vanishes after an error.

    Args:
        output: may be there if it is empty or holds nothing but what this verb made: it is then replaced.
        sources: files that must not go with the old folder.

    Raises:
        InputError: the output holds something else, or a source; another run is at work there.
    """
    target = Path(output).absolute()
    if target.exists() and not target.is_dir():
        raise InputError(f"OUT {output}: a file; valid: a folder")
    with locked(target.with_name(f".{target.name}.lock"), f"OUT {output}"):
        restore_folder(target)
        _check(target, output, sources)
        with atomic_folder(target, replace=True) as folder:
            yield folder


def _check(target: Path, output: PathLike, sources: Sequence[Source]) -> None:
    for source in sources:
        if target.resolve() in source.path.resolve().parents:
            raise InputError(f"OUT {output}: holds the input {source.path}; valid: a folder without inputs")
    manifest = read_json(target / MANIFEST) or {}
    ours = {MANIFEST} if str(manifest.get("verb", "")).startswith(VERB) else set()
    ours.update(str(row.get("file")) for row in manifest.get("outputs", []) if ours and isinstance(row, dict))
    others = sorted(
        name
        for name, path in ((path.relative_to(target).as_posix(), path) for path in target.rglob("*"))
        if name not in ours and (path.is_symlink() or not path.is_dir())
    )
    if others:
        raise InputError(
            f"OUT {output}: holds files that {VERB} did not make, as {others[0]}; valid: a new or empty folder, or a run's own"
        )


class Rows:
    """A dataset in the making: FOLDER/SPLIT.LANG.bin and .idx.

    Args:
        prefix: the two files without their endings.
        builder: fairseq's.
    """

    def __init__(self, prefix: Path, builder: Any):
        self.prefix, self.builder = prefix, builder

    def add(self, ids: Sequence[int]) -> None:
        """Append a row."""
        self.builder.add_item(torch.tensor(ids, dtype=torch.int64))

    def close(self) -> None:
        """Write the index."""
        self.builder.finalize(f"{self.prefix}.idx")


class DataBin:
    """Datasets below one folder, with one dictionary of pieces.

    Args:
        folder: where they go.
        dictionary: file in fairseq's format; it is copied to the places where tasks look for it.
        segmenter: one of :mod:`nlu_pieces`.
    """

    def __init__(self, folder: Path, dictionary: PathLike, segmenter: Any):
        self.folder, self.segmenter = folder, segmenter
        self.dictionary = Dictionary.load(str(dictionary))
        own = self.dictionary.nspecial
        self.index = {piece: index for piece, index in self.dictionary.indices.items() if index >= own}
        self.file = Path(dictionary)

    def ids(self, pieces: Sequence[str]) -> List[int]:
        """Ids of pieces; one that is not in the dictionary, or that is spelt as one of fairseq's symbols, is ``<unk>``."""
        unknown = self.dictionary.unk()
        return [self.index.get(piece, unknown) for piece in pieces]

    def encode(self, texts: Sequence[str]) -> List[List[int]]:
        """Ids of each text, without ``</s>``."""
        return [self.ids(pieces) for pieces in self.segmenter.encode(texts)]

    def texts(self, number: int, source: Source) -> Rows:
        """The first (0) or second text of a source; a row ends with ``</s>``, which :meth:`row` adds."""
        prefix = self._prefix(TEXTS[number], source)
        dictionary = prefix.parent / DICTIONARY
        if not dictionary.exists():
            shutil.copyfile(self.file, dictionary)
        return Rows(prefix, make_builder(f"{prefix}.bin", "mmap", vocab_size=len(self.dictionary)))

    def labels(self, dictionary: Dictionary, source: Source) -> Rows:
        """The labels of a source; a row ends with ``</s>``."""
        prefix = self._prefix(LABEL, source)
        return Rows(prefix, make_builder(f"{prefix}.bin", "mmap", vocab_size=len(dictionary)))

    def offsets(self, source: Source) -> Rows:
        """Begin and end of each piece of the passages of a source, int32."""
        prefix = self._prefix(OFFSETS, source)
        return Rows(prefix, MMapIndexedDatasetBuilder(f"{prefix}.bin", dtype=np.int32))

    def row(self, ids: Sequence[int]) -> List[int]:
        """A row of pieces or labels with its ``</s>``."""
        return [*ids, self.dictionary.eos()]

    def _prefix(self, folder: str, source: Source) -> Path:
        (self.folder / folder).mkdir(exist_ok=True)
        return self.folder / folder / source.name

    def finish(self, labels: Optional[Labels]) -> None:
        """Write the dictionaries of pieces and labels, and the model that made the pieces."""
        if labels is not None:
            (self.folder / LABEL).mkdir(exist_ok=True)
            labels.save(self.folder / LABEL / DICTIONARY)
        shutil.copyfile(self.file, self.folder / DICTIONARY)
        shutil.copyfile(self.segmenter.path, self.folder / self.segmenter.kept)
