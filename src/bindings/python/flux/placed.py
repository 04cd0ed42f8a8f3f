"""Values that a writer of a stream makes in the memory of a step, from where readers take them.

Room for them is reserved, the step is placed, and then each one is an array of NumPy over its
memory, until the step ends. If a transform is to make the step (flux_stream_lasting(3)), that
memory does not last: the array has memory of its own, which is copied when the step ends.
"""

import math
from typing import Any, Dict, List, Sequence, Tuple, Union

from . import _c
from ._libflux import ffi, lib
from .boxes import NUMPY
from .errors import checked
from .records import RecordFormat

_KINDS = {"i": "i", "u": "u", "f": "f", "c": "c"}


def _dtype(kind: Union[str, type, Any]):
    """The type of NumPy for one of libstream, such as "f64", or of NumPy."""
    import numpy

    if isinstance(kind, str) and kind in NUMPY:
        return numpy.dtype(NUMPY[kind])
    if isinstance(kind, str) and kind[:1] in _KINDS and kind[1:] in ("16", "32", "64", "128"):
        return numpy.dtype(f"{kind[0]}{int(kind[1:]) // 8}")
    return numpy.dtype("i1" if kind == "i8" else "u1" if kind == "u8" else kind)


def _name(dtype) -> str:
    """The type of libstream for one of NumPy."""
    if not dtype.isnative:
        raise TypeError("values of the other byte order cannot be made in their place")
    if dtype.kind == "b":
        return "bool"
    if dtype.kind in "SV" and dtype.itemsize == 1:
        return "char" if dtype.kind == "S" else "bytes"
    if dtype.kind not in _KINDS:
        raise TypeError(f"elements of the type {dtype} cannot be put into a stream")
    return f"{dtype.kind}{8 * dtype.itemsize}"


class Places:
    """The room that a step has for values that are made in their place."""

    def __init__(self) -> None:
        #: Was the step placed?
        self.placed = False
        self._rooms: Dict[str, Tuple[Tuple[int, ...], Any, bool]] = {}
        self._arrays: Dict[str, Tuple[Any, Any]] = {}  # the memory, and the array
        self._apart: List[Tuple[Any, Any]] = []  # where an array is to be copied to

    @property
    def waiting(self) -> bool:
        """Has the step to be placed?"""
        return bool(self._rooms) and not self.placed

    def reserve(self, pointer, variable: str, count: Sequence[int], kind, columns: bool, piece):
        """Reserve room for a variable: what has to live until the step ends."""
        array = ffi.new("struct flux_stream_array *")
        numbers = ffi.new("uint64_t[]", list(count))
        name: Any = ffi.NULL
        if isinstance(kind, RecordFormat):
            dtype = kind.dtype
            array.format = kind._f
        else:
            dtype = _dtype(kind)
            name = ffi.new("char[]", _name(dtype).encode())
        array.type, array.ndims, array.count, array.columns = name, len(count), numbers, columns
        array.shape, array.offset = piece
        text = _c.text(variable, "the name")
        checked(lib.flux_stream_put_array, pointer, text, array, ffi.NULL)
        self._rooms[variable] = (tuple(count), dtype, columns)
        return numbers, name, piece, kind

    def at(self, pointer, variable: str):
        """The array of a variable; None if it has no place."""
        import numpy

        memory = lib.flux_stream_at(pointer, _c.text(variable, "the name"))
        if not memory or variable not in self._rooms:
            return None
        known, array = self._arrays.get(variable, (None, None))
        if known == memory:
            return array
        count, dtype, columns = self._rooms[variable]
        size = math.prod(count) * dtype.itemsize
        if size > 0 and lib.flux_stream_lasting(pointer):
            # The memory keeps the stream, which is not closed in C before (`_c.view_of()`).
            keep = ffi.gc(ffi.cast("char *", memory), lambda _, held=pointer: None)
            flat = numpy.frombuffer(ffi.buffer(keep, size), dtype)
        else:
            flat = numpy.zeros(math.prod(count), dtype)
            if size > 0:
                self._apart.append((memory, flat))
        array = flat.reshape(count, order="F" if columns else "C")
        self._arrays[variable] = memory, array
        return array

    def fill(self) -> None:
        """Copy what is not in its place: the step ends."""
        for memory, flat in self._apart:
            ffi.memmove(memory, ffi.from_buffer(flat), flat.nbytes)

    def forget(self) -> None:
        """The step has ended, or was forgotten: its arrays cannot be written any more."""
        for _, array in self._arrays.values():
            array.flags.writeable = False
        self.placed = False
        self._rooms.clear()
        self._arrays.clear()
        self._apart.clear()
