"""Random numbers that are a function of their address alone: no state, whole batches at once."""

from typing import Any

import numpy as np

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_UNUSED_BITS, _STEPS = np.uint64(11), 2.0**-53


def mix(values: np.ndarray) -> np.ndarray:
    """The output function of SplitMix64: a bijection of 64-bit numbers whose every input bit turns half of the output bits.

    Source: Steele, Lea and Flood 2014, figure 16 (constants of its variant 13).
    """
    values = (values ^ (values >> _SHIFTS[0])) * _FACTORS[0]
    values = (values ^ (values >> _SHIFTS[1])) * _FACTORS[1]
    return values ^ (values >> _SHIFTS[2])


def epoch_address(seed: int, epoch: int) -> np.ndarray:
    """(1,) uint64, for :func:`streams`; of any two whole numbers."""
    address = np.zeros(1, dtype=np.uint64)
    for part in (seed, epoch):
        address = mix(address + _GAMMA + np.uint64(part & 0xFFFFFFFFFFFFFFFF))
    return address


def streams(epoch: np.ndarray, indices: Any) -> np.ndarray:
    """(B,) uint64, for :func:`uniforms`: a stream of random numbers for each item (B,) of an epoch, see :func:`epoch_address`."""
    return mix(epoch + np.asarray(indices).astype(np.uint64) * _GAMMA)


def uniforms(stream: np.ndarray, purpose: int, places: Any) -> np.ndarray:
    """Uniform float64 numbers in [0, 1), one for each place (int, in [0, 2^32)) of a ``stream``, see :func:`streams`, broadcast.

    ``purpose``, in [0, 2^31), says what they are for; purposes share none.
    """
    address = np.asarray(places).astype(np.uint64) + np.uint64((purpose << 32) + 1)
    return (mix(stream + address * _GAMMA) >> _UNUSED_BITS) * _STEPS
