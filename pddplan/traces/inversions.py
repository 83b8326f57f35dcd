"""Weighted counts of inversions, vectorised: the counting step of stack distances."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pddplan.traces.rows import Ints

LARGEST_INT32 = 2**31 - 1
BRUTE_BITS = 6
"""Inversions inside blocks of 2**6 elements are counted by comparing all pairs."""


def earlier_greater_weight(values: Ints, weights: Ints) -> Ints:
    """For each element the total weight of the elements before it that are greater.

    Formula:     R_q = sum of weights_u over u < q with values_u > values_q
    Parameters:  values, shape (n,), all different; weights, shape (n,)
    Returns:     shape (n,)
    Holds when:  values are distinct. Works from the coarsest halving of the index range to the finest; at each
                 level the elements stand in order of (block of indices, value), so the right half of a block sees
                 the weights of the left half that are greater as one difference of a running sum.
    References:  elementary
    """
    count = values.size
    index = np.argsort(values).astype(np.int32)
    rank = np.empty(count, dtype=np.int32)
    rank[index] = np.arange(count, dtype=np.int32)
    result = _inside_blocks(rank, weights)
    places = np.arange(count, dtype=np.int32)
    kind = np.int32 if int(weights.sum()) <= LARGEST_INT32 else np.int64
    weight = weights.astype(kind)
    for bit in range(max(count - 1, 0).bit_length() - 1, BRUTE_BITS - 1, -1):
        right = (index >> bit) & 1 == 1
        left_weight = weight[index]
        left_weight[right] = 0
        running = np.cumsum(left_weight, dtype=kind)
        block = index >> (bit + 1)
        block_end = np.minimum(((block[right] + 1) << (bit + 1)) - 1, count - 1)
        result[index[right]] += running[block_end] - running[right]
        if bit == BRUTE_BITS:
            break
        lefts = np.cumsum(~right, dtype=np.int32)
        lefts -= block << bit  # lefts of this block so far: earlier blocks have 2**bit of them each
        target = np.where(right, places - lefts + (1 << bit), (block << (bit + 1)) + lefts - 1)
        placed = np.empty_like(index)
        placed[target] = index
        index = placed
    return result


def _inside_blocks(rank: NDArray[np.int32], weights: Ints) -> Ints:
    """The part of ``earlier_greater_weight`` between elements of the same block of 2**BRUTE_BITS."""
    size = 1 << BRUTE_BITS
    blocks = -(-rank.size // size)
    ranks = np.full((blocks, size), -1, dtype=np.int32)
    ranks.reshape(-1)[: rank.size] = rank
    padded = np.zeros((blocks, size), dtype=np.int64)
    padded.reshape(-1)[: rank.size] = weights
    result = np.zeros((blocks, size), dtype=np.int64)
    for later in range(1, size):
        greater = ranks[:, :later] > ranks[:, later : later + 1]
        result[:, later] = np.einsum("ij,ij->i", greater, padded[:, :later])
    return result.ravel()[: rank.size]
