"""Reading the language of a row from its language token."""

from contextlib import contextmanager
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

NONE = -1
"""Number of a token that is no language token, and of a row without one."""


class TaggedRows(NamedTuple):
    """What the language tokens of a batch say."""

    numbers: Tensor  # (B,) int64 on the host, number of each row's language; NONE where the row has no language token
    active: Tensor  # (B, T) bool, True from the first language token of the row on


class LanguageTags(nn.Module):
    """Finds the first language token of every row.

    Args:
        tokens: language -> id of its token, for all languages of the task.
        languages: those that count, in the order of their numbers.
        rows: of the dictionary.
        side: ``encoder`` or ``decoder``, for messages.
    """

    table: Tensor

    def __init__(self, tokens: Mapping[str, int], languages: Sequence[str], rows: int, side: str):
        super().__init__()
        self.languages, self.side = list(languages), side
        self.others = [language for language in tokens if language not in self.languages]
        table = torch.full((rows,), NONE)
        for language, token in tokens.items():
            known = language in self.languages
            table[token] = self.languages.index(language) if known else NONE - 1 - self.others.index(language)
        self.register_buffer("table", table, persistent=False)
        self.known: Optional[Tensor] = None

    def first(self, tokens: Tensor) -> Tuple[Tensor, Tensor]:
        """Number of the first language token of each row (B,), and where tokens (B, T) are language tokens."""
        numbers = self.table[tokens]
        found = numbers.ne(NONE)
        return numbers.gather(1, found.int().argmax(dim=1, keepdim=True)).squeeze(1), found

    def forward(self, tokens: Tensor, search: bool = False) -> TaggedRows:
        """Look at (B, T) tokens; ValueError for a language that does not count, or a row without a language token.

        With ``search`` the rows are beams, whose first step has no language token yet. fairseq fills the beams that a forced token
        leaves over with any token, at a score of minus infinity: only if no row has a language that counts, something is wrong.
        """
        first, found = self.first(tokens)
        first = first.cpu() if self.known is None else self.known
        some = search and int(first.max()) > NONE
        self._check(NONE + 1 if some else int(first.min()), begun=tokens.size(1) > 1 or not search)
        return TaggedRows(first.clamp(min=NONE), found.cumsum(dim=1).gt(0))

    def _check(self, number: int, begun: bool) -> None:
        if number < NONE:
            raise ValueError(
                f"{self.side}: language {self.others[NONE - 1 - number]!r} has no adapters; this model has: "
                f"{', '.join(self.languages)} (--{self.side}-adapters when it was trained)"
            )
        if begun and number == NONE:
            raise ValueError(
                f"{self.side}: a sentence has no language token, so its adapters are not known; train and decode with "
                f"--{self.side}-langtok"
            )


@contextmanager
def read_together(sides: Sequence[Tuple[LanguageTags, Tensor]]) -> Iterator[None]:
    """Read the tokens of several sides with one wait for the device; calls of these sides inside the block are about them."""
    firsts = [tags.first(tokens)[0] for tags, tokens in sides]
    try:
        for (tags, _), known in zip(sides, torch.cat(firsts).cpu().split([len(first) for first in firsts])):
            tags.known = known
        yield
    finally:
        for tags, _ in sides:
            tags.known = None
