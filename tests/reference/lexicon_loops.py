"""Compute the mapping of word vectors as the papers write it, one pair at a time, in float64."""

import math

import numpy as np
from scipy import linalg


def cosine(a, b):
    """Compute the cosine of two vectors."""
    return float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))


def crowding(word, candidates, neighbours):
    """Compute r(x), the mean cosine of a word with its nearest words of the other side.

    Source: Conneau et al. 2018, section 2.3, equation 2.
    """
    nearest = sorted((cosine(word, candidate) for candidate in candidates), reverse=True)[
        :neighbours
    ]
    return sum(nearest) / len(nearest)


def csls(x, y, neighbours):
    """Compute CSLS(x, y) = 2 cos(x, y) - r(x) - r(y) of every pair.

    Source: Conneau et al. 2018, section 2.3.
    """
    crowded_x = [crowding(a, y, neighbours) for a in x]
    crowded_y = [crowding(b, x, neighbours) for b in y]
    return [
        [2 * cosine(a, b) - crowded_x[i] - crowded_y[j] for j, b in enumerate(y)]
        for i, a in enumerate(x)
    ]


def by_rank(scores):
    """Return the places of the scores, the best first."""
    return sorted(range(len(scores)), key=lambda place: -scores[place])


def normalise(vectors):
    """Give rows unit length, mean 0, and unit length again. Artetxe et al. 2018, section 3.1."""
    rows = np.array([row / math.sqrt(sum(value * value for value in row)) for row in vectors])
    for column in range(rows.shape[1]):
        rows[:, column] -= sum(rows[:, column]) / len(rows)
    return np.array([row / math.sqrt(sum(value * value for value in row)) for row in rows])


def reweighted(x, y, power=0.5):
    """Compute steps 1 to 4 of Artetxe, Labaka and Agirre 2018 (AAAI), section 3.

    Whitening (X^T X)^-1/2; orthogonal U, V of the whitened vectors; re-weighting S^power;
    de-whitening U^T (X^T X)^1/2 U.
    """
    white_x, white_y = (np.real(linalg.inv(linalg.sqrtm(side.T @ side))) for side in (x, y))
    u, s, vt = linalg.svd((x @ white_x).T @ (y @ white_y))
    weights = np.diag(s**power)
    source = white_x @ u @ weights @ u.T @ linalg.inv(white_x) @ u
    target = white_y @ vt.T @ weights @ vt @ linalg.inv(white_y) @ vt.T
    return [source, target]


def root_similarities(x):
    """Compute the square root of x x^T. Artetxe et al. 2018, section 3.2."""
    return np.real(linalg.sqrtm(x @ x.T))
