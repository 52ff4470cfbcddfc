"""Find the language of each sentence of a batch from its language token."""

from contextlib import contextmanager
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

NONE = -1
"""Number of a token that is no language token, and of a row without a language token."""


class TaggedRows(NamedTuple):
    """Languages of the rows of a batch."""

    numbers: Tensor  # (B,) int64 on the host: number of each row's language, or NONE
    active: Tensor  # (B, T) bool, True from the first language token of the row on


class LanguageTags(nn.Module):
    """Find the first language token of every row.

    ``table`` (V,) int64 maps a token to the number of its language: 0 and up for languages with
    adapters, ``NONE`` for other tokens, and below ``NONE`` for languages without adapters.

    Args:
        tokens: language -> id of its token, for all languages of the task.
        languages: those that have adapters, in the order of their numbers.
        vocab_size: V.
        side: ``encoder`` or ``decoder``, for messages.
    """

    table: Tensor

    def __init__(
        self, tokens: Mapping[str, int], languages: Sequence[str], vocab_size: int, side: str
    ):
        super().__init__()
        self.languages, self.side = list(languages), side
        self.unadapted = [language for language in tokens if language not in self.languages]
        table = torch.full((vocab_size,), NONE)
        for number, language in enumerate(self.languages):
            table[tokens[language]] = number
        for number, language in enumerate(self.unadapted):
            table[tokens[language]] = NONE - 1 - number
        self.register_buffer("table", table, persistent=False)
        self.host_numbers: Optional[Tensor] = None  # set by read_together

    def first(self, tokens: Tensor) -> Tuple[Tensor, Tensor]:
        """Look up the number of the first language token of each row, without a device wait.

        Returns (B,) int64, and (B, T) bool, True at language tokens.
        """
        numbers = self.table[tokens]
        is_tag = numbers.ne(NONE)
        first = is_tag.int().argmax(dim=1, keepdim=True)
        return numbers.gather(1, first).squeeze(1), is_tag

    def forward(self, tokens: Tensor, search: bool = False) -> TaggedRows:
        """Find the language of each row.

        Args:
            tokens: (B, T) int64.
            search: True = the rows are beams. They have no language token before the first step.
                When fairseq forces the first token it fills the surplus beams with arbitrary
                tokens at score -inf, so rows without adapters are an error only if all are such.

        Raises:
            ValueError: a language has no adapters, or a row has no language token.
        """
        numbers, is_tag = self.first(tokens)
        numbers = numbers.cpu() if self.host_numbers is None else self.host_numbers
        if not (search and int(numbers.max()) > NONE):
            self._check(int(numbers.min()), needs_tag=tokens.size(1) > 1 or not search)
        return TaggedRows(numbers.clamp(min=NONE), is_tag.cumsum(dim=1).gt(0))

    def _check(self, number: int, needs_tag: bool) -> None:
        """Raise the error of a language's number; with ``needs_tag`` it must not be NONE."""
        if number < NONE:
            raise ValueError(
                f"{self.side}: language {self.unadapted[NONE - 1 - number]!r} has no adapters; "
                f"this model has: {', '.join(self.languages)} (--{self.side}-adapters when it was "
                "trained)"
            )
        if needs_tag and number == NONE:
            raise ValueError(
                f"{self.side}: a sentence has no language token, so its adapters are not known; "
                f"train and decode with --{self.side}-langtok"
            )


@contextmanager
def read_together(
    encoder: LanguageTags, src_tokens: Tensor, decoder: LanguageTags, prev_output_tokens: Tensor
) -> Iterator[None]:
    """Read the languages of both sides with one wait for the device, inside a ``with`` block.

    There ``encoder`` and ``decoder`` must be called with these tokens, (B, S) and (B, T).
    """
    sources, _ = encoder.first(src_tokens)
    targets, _ = decoder.first(prev_output_tokens)
    numbers = torch.cat([sources, targets]).cpu()
    encoder.host_numbers, decoder.host_numbers = numbers.split([len(sources), len(targets)])
    try:
        yield
    finally:
        encoder.host_numbers = decoder.host_numbers = None
