"""Bottleneck adapters: one per language after a frozen layer, chosen row by row."""

from typing import Dict, Optional, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops.masks import move


class Adapter(nn.Module):
    """Layer norm, down, ReLU, up; the residual is the caller's. Its output is zero until it is trained.

    Source: Bapna and Firat 2019, section 3.1.
    """

    def __init__(self, embed_dim: int, width: int):
        super().__init__()
        self.layer_norm = nn.LayerNorm(embed_dim)
        self.down = nn.Linear(embed_dim, width)
        self.up = nn.Linear(width, embed_dim)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, x: Tensor) -> Tensor:
        """What is to be added to ``x``. (..., C) -> (..., C)."""
        return self.up(F.relu(self.down(self.layer_norm(x))))


class RowLanguages:
    """Which adapter every row of the current batch uses; set before the layers run, read by all of them."""

    def __init__(self) -> None:
        self.members: Optional[Dict[int, Tensor]] = None  # number of a language -> its rows, int64; None = no adapters
        self.active: Optional[Tensor] = None  # (B, T) bool, where the adapters act; None = everywhere

    def set(self, rows: Tensor, device: torch.device, active: Optional[Tensor] = None) -> None:
        """``rows`` (B,) int64, numbers of the languages: on the host, or the device is waited for."""
        rows = rows.cpu()
        self.active = active
        self.members = {int(number): move(rows.eq(number).nonzero()[:, 0], device) for number in rows.unique()}


class LanguageAdapters(nn.Module):
    """The adapters after one layer.

    Args:
        languages: their names without dots, in the order of their numbers.
        width: of the bottleneck.
        current: which rows have which language.
    """

    def __init__(self, languages: Sequence[str], embed_dim: int, width: int, current: RowLanguages):
        super().__init__()
        self.languages = list(languages)
        self.of = nn.ModuleDict()
        for language in languages:  # ModuleDict itself refuses Tongan, "to": the name of a method
            self.of._modules[language] = Adapter(embed_dim, width)
        self.current = current

    def forward(self, x: Tensor) -> Tensor:
        """Add to each row what its language's adapter gives. (T, B, C) -> (T, B, C)."""
        all_members, active = self.current.members, self.current.active
        if all_members is None:
            return x
        added = torch.zeros_like(x)
        for number, members in all_members.items():
            if number < 0:
                continue
            adapter = self.of[self.languages[number]]
            if len(all_members) == 1:
                added = adapter(x)
                break
            added = added.index_copy(1, members, adapter(x.index_select(1, members)).to(x.dtype))
        if active is not None:
            added = added * active.t().unsqueeze(-1).to(added.dtype)
        return x + added
