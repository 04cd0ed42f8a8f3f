"""Arguments of the calls of streams: numbers for dimensions, boxes, pieces, ranks of writers."""

import math
import operator
from typing import List, Sequence, Tuple

from ._libflux import ffi, lib

# What is wrong with an argument.
WRONG = (TypeError, ValueError, OverflowError, IndexError)
# NumPy's names for elements of libstream.
NUMPY = {"bool": "?", "char": "S1", "bytes": "V1"}


def numbers_of(numbers, ndims: int, what: str) -> List[int]:
    """The numbers that an argument has for each dimension."""
    found = [operator.index(number) for number in numbers]
    if len(found) != ndims:
        raise ValueError(
            f"the length of {what} is {len(found)}, and the number of dimensions is {ndims}"
        )
    for number in found:
        if number < 0:
            raise OverflowError(f"{what} has the negative number {number}")
        if number >= 1 << 64:
            raise OverflowError(f"{what} has the number {number} of more than 64 bits")
    return found


def box_of(parts: list, shape: Tuple[int, ...]) -> Tuple[List[int], ...]:
    """The box of indices and slices: start, count and stride, and the shape without the indices."""
    rest = len(shape) - len(parts)
    if Ellipsis in parts:
        at = parts.index(Ellipsis)
        parts[at : at + 1] = [slice(None)] * (rest + 1)
    else:
        parts = parts + [slice(None)] * rest
    if len(parts) != len(shape):
        raise IndexError(f"there are {len(parts)} indices for {len(shape)} dimensions")
    start, count, stride, keep = [], [], [], []
    for part, size in zip(parts, shape):
        if isinstance(part, slice):
            if part.step is not None and part.step < 1:
                raise IndexError("the step of a slice is at least 1")
            numbers = range(*part.indices(size))
            keep.append(len(numbers))
        else:
            number = operator.index(part)
            index = number + size if number < 0 else number
            if not 0 <= index < size:
                raise IndexError(f"index {number} is outside of {size} elements")
            numbers = range(index, index + 1)
        start.append(numbers.start)
        count.append(len(numbers))
        stride.append(numbers.step)
    return start, count, stride, keep


def room_for(count: Sequence[int], dtype):
    """A new array for a box; of no elements, which libstream refuses, if it cannot be as large."""
    import numpy

    try:
        return numpy.empty(math.prod(count), dtype)
    except (MemoryError, ValueError):
        return numpy.empty(0, dtype)


def rank_of(writer) -> int:
    """The rank of a writer: too large a one is refused by libstream."""
    number = operator.index(writer)
    if not 0 <= number < lib.FLUX_STREAM_ALL:
        raise OverflowError(f"{number} is not the rank of a writer")
    return number


def piece_of(ndims: int, shape, offset) -> list:
    """The shape of a global array, and the offset of a piece of it, as libstream takes them."""
    if shape is None:
        if offset is not None:
            raise ValueError("an offset is that of a piece of an array with a shape")
        return [ffi.NULL, ffi.NULL]
    offset = [0] * ndims if offset is None else numbers_of(offset, ndims, "offset")
    return [
        ffi.new("uint64_t[]", numbers_of(shape, ndims, "shape")),
        ffi.new("uint64_t[]", offset),
    ]
