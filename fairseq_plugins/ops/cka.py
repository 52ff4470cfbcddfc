"""Linear centred kernel alignment (CKA) of row-parallel vectors, in one pass over the rows.

Shape letters of this file: N sentences (rows), C and D widths of the two sides.
"""

import math
from functools import partial
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

import torch
from torch import Tensor

CHUNK = 2048
"""Rows per product."""
LEAST = 4
"""Rows that the unbiased estimate needs: it divides by N (N - 3)."""
GRAM_BYTES = 2**30
"""Memory that Gram matrices may take together."""
SPACES = ("features", "sentences")
ROUNDING = 1e-9
"""Share of the biased HSIC of a side with itself below which the unbiased one counts as 0."""

Pair = Tuple[int, int]


class Hsic(NamedTuple):
    """Dependence of two sides under linear kernels."""

    biased: float  # ‖XᵀY‖² (Frobenius) of centred columns, which is (N - 1)² HSIC_0
    unbiased: float  # HSIC_1; may be negative


class Cka(NamedTuple):
    """CKA of a pair, and the same after each random permutation of the rows of one side."""

    biased: float  # in [0, 1]; tends to 1 for any vectors if N is not larger than the widths
    unbiased: float  # in [-1, 1]; about 0 for independent sides
    floor_biased: Tuple[float, ...] = ()  # of each permutation
    floor_unbiased: Tuple[float, ...] = ()


def hsic_from_sums(count: int, cross: float, trace_x: float, trace_y: float, norms: float) -> Hsic:
    """Compute both estimates from sums over centred rows x_i and y_i.

    With K = XXᵀ and L = YYᵀ of centred columns, and a tilde for a zeroed diagonal: every row of K
    sums to 0, so that 1ᵀK̃1 = -tr K, (K̃1)_i = -K_ii, and the three terms of HSIC_1 are
    tr(K̃L̃) = cross - norms, 1ᵀK̃1 1ᵀL̃1 = tr K tr L and 1ᵀK̃L̃1 = norms. HSIC_1 does not change
    when a side is shifted, so centring is no approximation.

    Args:
        count: N, at least 4.
        cross: ‖XᵀY‖² = tr(KL).
        trace_x, trace_y: Σ ‖x_i‖² and Σ ‖y_i‖².
        norms: Σ ‖x_i‖² ‖y_i‖².

    Source: Song et al. 2012 (HSIC_1); Nguyen et al. 2021, section 3.
    """
    inner = (
        cross - norms + trace_x * trace_y / ((count - 1) * (count - 2)) - 2 * norms / (count - 2)
    )
    return Hsic(cross, inner / (count * (count - 3)))


class CrossMoments:
    """Sums over row-parallel chunks from which both estimates of HSIC follow; no row is kept.

    Products of a chunk are computed in the dtype of the rows and added in float64. The mean of the
    first chunk is first subtracted from every row; otherwise large means would cancel in the
    centring and leave only rounding errors.
    """

    def __init__(self, width_x: int, width_y: int, device: Optional[torch.device] = None):
        zeros = partial(torch.zeros, dtype=torch.float64, device=device)
        self.count = 0
        self._product = zeros(width_x, width_y)  # Σ x_i y_iᵀ
        self._sums = [zeros(width_x), zeros(width_y)]  # Σ x_i, Σ y_i
        self._weighted = [zeros(width_x), zeros(width_y)]  # Σ ‖y_i‖² x_i, Σ ‖x_i‖² y_i
        self._norms = zeros(3)  # Σ ‖x_i‖², Σ ‖y_i‖², Σ ‖x_i‖² ‖y_i‖²
        self._references: List[Tensor] = []

    def add(self, x: Tensor, y: Tensor) -> None:
        """Add a chunk: x (rows, C) and y (rows, D) of the same sentences, float64 or float32."""
        _check_rows(len(x), len(y))
        sides = [side if side.dtype == torch.float64 else side.float() for side in (x, y)]
        if not self._references:
            # By differences, which are exact for equal rows.
            self._references = [side[0] + (side - side[0]).mean(0) for side in sides]
        sides = [side - reference for side, reference in zip(sides, self._references)]
        norms = [side.square().sum(1, dtype=torch.float64) for side in sides]
        self.count += len(x)
        self._product += sides[0].T @ sides[1]
        for number, side in enumerate(sides):
            self._sums[number] += side.sum(0, dtype=torch.float64)
            self._weighted[number] += side.T @ norms[1 - number].to(side.dtype)
            self._norms[number] += norms[number].sum()
        self._norms[2] += norms[0] @ norms[1]

    def hsic(self) -> Hsic:
        """Compute both estimates over all rows added, at least 4.

        The sums are shifted to the mean first: with means μ and ν,
        ‖x_i - μ‖² = ‖x_i‖² - 2 x_i·μ + ‖μ‖², and likewise for y. ``norms`` sums the products of
        the two; its terms in N ‖μ‖² ‖ν‖² are -2 - 2 + 1 = -3.
        """
        check_count(self.count)
        mu, nu = (total / self.count for total in self._sums)
        shift_x, shift_y = mu @ mu, nu @ nu
        square_x, square_y, products = self._norms
        centred = self._product - self.count * torch.outer(mu, nu)
        norms = (  # Σ ‖x_i - μ‖² ‖y_i - ν‖²
            products
            - 2 * nu @ self._weighted[1]
            - 2 * mu @ self._weighted[0]
            + 4 * mu @ self._product @ nu
        )
        norms += shift_y * square_x + shift_x * square_y - 3 * self.count * shift_x * shift_y
        trace_x, trace_y = square_x - self.count * shift_x, square_y - self.count * shift_y
        cross = centred.square().sum()
        return hsic_from_sums(
            self.count, float(cross), float(trace_x), float(trace_y), float(norms)
        )


def cka_of_pairs(
    matrices: Sequence[Tensor],
    pairs: Sequence[Pair],
    permutations: int = 0,
    seed: int = 1,
    names: Optional[Sequence[str]] = None,
    device: Optional[torch.device] = None,
    space: Optional[str] = None,
    chunk: int = CHUNK,
) -> Iterator[Cka]:
    """Compute linear CKA of pairs of matrices, each pair when the iterator reaches it.

    Arguments are checked by the call itself.

    Args:
        matrices: (N, C) each, row-parallel, of any widths. They may be memory-mapped: at most
            ``chunk`` rows of each are read at a time, or N rows if Gram matrices are cheaper.
        pairs: indices of the two sides.
        permutations: of the rows of the second side, drawn once for all pairs; each costs one more
            product per pair.
        names: of the matrices, for messages.
        space: ``features`` (products of C x D) or ``sentences`` (Gram matrices of N x N); None
            takes the cheaper.

    Source: Kornblith et al. 2019, section 3; Nguyen et al. 2021, section 3; Song et al. 2012.
    """
    if permutations < 0:
        raise ValueError(f"--permutations must be at least 0; got {permutations}")
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1 row; got {chunk}")
    if space is not None and space not in SPACES:
        raise ValueError(f"space must be one of {', '.join(SPACES)}; got {space!r}")
    if names is None:
        names = [f"matrix {number}" for number in range(len(matrices))]
    used = sorted({number for pair in pairs for number in pair})
    for number in used:
        _check_rows(len(matrices[used[0]]), len(matrices[number]), names[used[0]], names[number])
    count = len(matrices[used[0]]) if used else LEAST
    check_count(count)
    widths = [matrix.size(1) for matrix in matrices]
    if space is None:
        space = cheaper_space(count, widths, pairs, permutations)
    generator = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(count, generator=generator) for _ in range(permutations)]
    side: Union[_Features, _Grams]
    if space == "features":
        side = _Features(matrices, chunk, device)
    else:
        side = _Grams(matrices, pairs, device)
    return _compute_pairs(side, pairs, orders, names)


def linear_cka(x: Tensor, y: Tensor) -> Cka:
    """Compute CKA of two row-parallel matrices (N, C) and (N, D), without permutations."""
    return next(cka_of_pairs([x, y], [(0, 1)]))


def cheaper_space(
    count: int, widths: Sequence[int], pairs: Sequence[Pair], permutations: int
) -> str:
    """Choose ``features`` or ``sentences``, by the number of operations.

    A product of features costs 2 N C D operations, for each pair and permutation anew. A Gram
    matrix costs 2 N² C, twice as much in float64; then a pair or a permutation costs some passes
    over N² numbers (counted as 16 operations each). Gram matrices that need more than
    :data:`GRAM_BYTES` at a time are not considered.
    """
    used = {number for pair in pairs for number in pair}
    repeats = 1 + permutations
    products = repeats * sum(widths[first] * widths[second] for first, second in pairs)
    products += sum(widths[number] ** 2 for number in used)
    grams = 4 * sum(widths[number] for number in used) + 16 * len(pairs) * repeats
    fits = _count_grams(pairs) * count**2 * 8 <= GRAM_BYTES
    return "sentences" if fits and count**2 * grams < 2 * count * products else "features"


def check_count(count: int) -> None:
    """Raise ValueError for too few sentences."""
    if count < LEAST:
        raise ValueError(
            f"the unbiased estimate of CKA needs at least {LEAST} sentences; got {count}"
        )


class _Features:
    """HSIC from products of features, in chunks of rows."""

    def __init__(self, matrices: Sequence[Tensor], chunk: int, device: Optional[torch.device]):
        self.matrices, self.chunk, self.device = matrices, chunk, device

    def hsic(self, first: int, second: int, order: Optional[Tensor] = None) -> Hsic:
        """Compute both estimates of two matrices, the rows of the second in ``order``."""
        x, y = self.matrices[first], self.matrices[second]
        device = self.device or x.device
        moments = CrossMoments(x.size(1), y.size(1), device)
        for start in range(0, len(x), self.chunk):
            rows = slice(start, start + self.chunk)
            part = y[rows] if order is None else y[order[rows].to(y.device)]
            moments.add(x[rows].to(device), part.to(device))
        return moments.hsic()

    def release(self, pair: int) -> None:
        """Do nothing: no memory is held between pairs."""


class _Grams:
    """HSIC from Gram matrices of centred rows in float64, held until the last pair needs them."""

    def __init__(
        self, matrices: Sequence[Tensor], pairs: Sequence[Pair], device: Optional[torch.device]
    ):
        self.matrices, self.device = matrices, device
        self._last = _last_uses(pairs)
        self._grams: Dict[int, Tensor] = {}

    def hsic(self, first: int, second: int, order: Optional[Tensor] = None) -> Hsic:
        """Compute both estimates of two matrices, the rows of the second in ``order``."""
        k, l = self._gram(first), self._gram(second)  # noqa: E741
        if order is not None:
            rows = order.to(l.device)
            l = l[rows][:, rows]  # noqa: E741
        cross = float(torch.dot(k.flatten(), l.flatten()))
        norms_x, norms_y = k.diagonal(), l.diagonal()
        trace_x, trace_y = float(norms_x.sum()), float(norms_y.sum())
        return hsic_from_sums(len(k), cross, trace_x, trace_y, float(norms_x @ norms_y))

    def release(self, pair: int) -> None:
        """Free the matrices that no pair after number ``pair`` needs."""
        for number in [number for number in self._grams if self._last[number] <= pair]:
            del self._grams[number]

    def _gram(self, number: int) -> Tensor:
        """Return the Gram matrix (N, N) of a matrix, computed at its first use."""
        if number not in self._grams:
            rows = self.matrices[number].to(self.device or self.matrices[number].device).double()
            rows = rows - rows[0]  # exactly 0 if all rows are equal
            rows = rows - rows.mean(0)
            self._grams[number] = rows @ rows.T
        return self._grams[number]


def _compute_pairs(
    side: Union[_Features, _Grams],
    pairs: Sequence[Pair],
    orders: Sequence[Tensor],
    names: Sequence[str],
) -> Iterator[Cka]:
    """Compute CKA of one pair after the other; the HSIC of a matrix with itself only once."""
    with_itself: Dict[int, Hsic] = {}
    count = len(side.matrices[pairs[0][0]]) if pairs else 0
    for pair, (first, second) in enumerate(pairs):
        for number in (first, second):
            if number not in with_itself:
                with_itself[number] = side.hsic(number, number)
                _check_varied(with_itself[number], count, names[number])
        x, y = with_itself[first], with_itself[second]
        estimates = [side.hsic(first, second, order) for order in (None, *orders)]
        biased = tuple(hsic.biased / (x.biased * y.biased) ** 0.5 for hsic in estimates)
        unbiased = tuple(hsic.unbiased / (x.unbiased * y.unbiased) ** 0.5 for hsic in estimates)
        yield Cka(biased[0], unbiased[0], biased[1:], unbiased[1:])
        side.release(pair)


def _check_varied(hsic: Hsic, count: int, name: str) -> None:
    """Raise ValueError unless both HSICs of a matrix with itself are finite and above 0.

    CKA divides by their roots.
    """
    if not math.isfinite(hsic.biased):
        raise ValueError(f"{name}: holds numbers that are not finite; valid: finite vectors")
    if hsic.biased <= 0:
        raise ValueError(
            f"{name}: every sentence has the same vector: CKA would divide by 0; valid: vectors "
            "that vary"
        )
    # ``biased`` is (N - 1)² HSIC_0, ``unbiased`` HSIC_1 itself: N² brings both to one scale.
    if hsic.unbiased * count**2 <= ROUNDING * hsic.biased:
        reason = "the sentences are equally far from each other: unbiased CKA would divide by 0"
        raise ValueError(f"{name}: {reason}; valid: other or more sentences")


def _check_rows(rows_x: int, rows_y: int, x: str = "x", y: str = "y") -> None:
    if rows_x != rows_y:
        raise ValueError(f"CKA needs row-parallel vectors; {x} has {rows_x} rows, {y} {rows_y}")


def _last_uses(pairs: Sequence[Pair]) -> Dict[int, int]:
    """Map each matrix to the number of the last pair that needs it."""
    return {number: place for place, pair in enumerate(pairs) for number in pair}


def _count_grams(pairs: Sequence[Pair]) -> int:
    """Count the Gram matrices that are held at a time, at most."""
    last = _last_uses(pairs)
    alive: Set[int] = set()
    most = 0
    for place, pair in enumerate(pairs):
        alive.update(pair)
        most = max(most, len(alive))
        alive = {number for number in alive if last[number] > place}
    return most
