"""One step of a stream, as a reader has it: its variables, records, boxes and attributes."""

import dataclasses
import errno
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    List,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from . import _c
from ._libflux import ffi, lib
from .boxes import NUMPY, WRONG, box_of, numbers_of, rank_of, room_for
from .errors import FluxError, checked, fail_with, make_error, wrong_argument
from .records import RecordFormat

if TYPE_CHECKING:
    from .stream import StreamReader

_FORMATS_MAX = 256  # formats of records that a reader keeps
# Codes of memoryview for elements of libstream.
_CODES = {"i8": "b", "i16": "h", "i32": "i", "i64": "q", "f32": "f", "f64": "d", "bool": "?"}
_CODES.update({f"u{bits}": _CODES[f"i{bits}"].upper() for bits in (8, 16, 32, 64)})


@dataclasses.dataclass(frozen=True)
class Variable:
    """What a variable of a step is (`Step.inquire()`)."""

    type: str  # "i8" to "u64", "f32", "f64", "c64", "c128", "bool", "char", "bytes", "record"
    elem: int  # bytes of an element
    is_global: bool
    columns: bool  # the first dimension is the fastest, as in Fortran
    shape: Tuple[int, ...]  # of the global array, or of that of the writer
    offset: Tuple[int, ...]  # of the piece of the writer
    count: Tuple[int, ...]
    format: Optional[str] = None  # id of the format of records

    @property
    def dtype(self) -> str:
        """The type as NumPy has it; of records `Step.format()` says it."""
        if self.format:
            raise TypeError("the type of records is that of their format")
        if self.type in NUMPY:
            return NUMPY[self.type]
        return f"{self.type[0]}{self.elem}"


def attribute_key(name: str, variable: Optional[str]) -> str:
    return f"@{name}" if variable is None else f"@{variable}/{name}"


class Step:
    """A step that a reader has begun: the variables that each writer has put into it.

    Data are the memory of the writer, read-only. They are constant until the step is released; copy
    what is needed for longer.
    """

    def __init__(self, reader: "StreamReader", number: int) -> None:
        self._reader = reader
        self._scheduled: List[Any] = []  # the buffers of requests that are not performed
        self.number = number
        #: 1, and more after a writer was restarted (flux_stream_epoch(3)); 0 in a recording.
        self.epoch: int = lib.flux_stream_epoch(reader._pointer())

    def _pointer(self):
        if self._reader._step is not self:
            text = f"step {self.number} of stream '{self._reader._name}' was released"
            raise make_error(errno.EINVAL, text)
        return self._reader._pointer()

    def _wrong(self, error: Exception, variable: Optional[str] = None) -> FluxError:
        where = f"step {self.number} of stream '{self._reader._name}'"
        if variable is not None:
            where = f"variable '{variable}' in {where}"
        return wrong_argument(error, f"{where}: {error}")

    def _named(self, variable: str, writer: Optional[int] = None) -> Tuple[bytes, int]:
        """The name of a variable and the rank of a writer for libstream; None is all of them."""
        try:
            number = lib.FLUX_STREAM_ALL if writer is None else rank_of(writer)
            return _c.text(variable, "the name"), number
        except WRONG as e:
            raise self._wrong(e, variable) from None

    def _box(self, variable: str, ndims: int, start, count, stride) -> List[Any]:
        lists = []
        try:
            for numbers, what in ((start, "start"), (count, "count"), (stride, "stride")):
                given = None if numbers is None else numbers_of(numbers, ndims, what)
                lists.append(ffi.NULL if given is None else ffi.new("uint64_t[]", given))
        except WRONG as e:
            raise self._wrong(e, variable) from None
        return lists

    def variables(self, writer: int = 0) -> List[str]:
        """The names of the variables of a writer, in the order in which it put them."""
        return self._names(lib.flux_stream_var, writer)

    def pinned(self, writer: int = 0) -> List[str]:
        """The names of the variables that a writer has pinned by this step.

        They are found like those of the step, which come first.
        """
        return self._names(lib.flux_stream_pinned, writer)

    def _names(self, call, writer: int) -> List[str]:
        pointer = self._pointer()
        names: List[str] = []
        try:
            number = rank_of(writer)
        except WRONG as e:
            raise self._wrong(e) from None
        while True:
            name = call(pointer, number, len(names))
            if not name:
                return names
            names.append(_c.string(name))

    def get(self, variable: str, writer: int = 0) -> memoryview:
        """The bytes of a variable of a writer. FluxError (ENOENT) if it is not in the step."""
        pointer = self._pointer()
        data = ffi.new("const void **")
        length = ffi.new("size_t *")
        name, number = self._named(variable, writer)
        checked(lib.flux_stream_get, pointer, number, name, data, length)
        if lib.flux_stream_derived(pointer, name):  # the memory goes with the step: copy it
            return memoryview(bytes(ffi.buffer(data[0], length[0])) if length[0] else b"")
        return _c.view_of(pointer, data[0], length[0])

    def inquire(self, variable: str, writer: Optional[int] = None) -> Variable:
        """What a variable is: the piece of a writer; without `writer` a global array as a whole.

        FluxError: ENOENT for bytes that nobody has described; EINVAL, without `writer`, for an
        array that is not global.
        """
        info = ffi.new("struct flux_stream_info *")
        name, number = self._named(variable, writer)
        checked(lib.flux_stream_inquire, self._pointer(), number, name, info)
        shape, offset, count = (
            tuple(numbers[0 : info.ndims]) for numbers in (info.shape, info.offset, info.count)
        )
        kind = _c.string(info.type)
        return Variable(
            kind,
            info.elem,
            getattr(info, "global"),
            info.columns,
            shape,
            offset,
            count,
            f"{info.format:016x}" if info.format else None,
        )

    def format(self, variable: str) -> RecordFormat:
        """The format in which the records of a variable are, laid out for this host."""
        err = ffi.new("errmsg_t *")
        pointer = lib.flux_stream_format(self._pointer(), self._named(variable)[0], err)
        if not pointer:
            fail_with(err)
        cache = self._reader._formats
        if pointer not in cache:
            if len(cache) >= _FORMATS_MAX:
                cache.clear()
            cache[pointer] = RecordFormat._native_of(pointer)
        return cache[pointer]

    def attribute(
        self, name: str, variable: Optional[str] = None, writer: Optional[int] = None
    ) -> Any:
        """An attribute of a variable, or of the stream: a str, a number, or a list of numbers.

        Without `writer` that of the first one that has it, or else the one of the format of the
        records of `variable`, or of a field of them, such as "atoms.at.x". FluxError: ENOENT.
        """
        key = attribute_key(name, variable)
        ranks = range(self._reader.writers) if writer is None else [writer]
        for rank in ranks:
            found = self._value(key, rank)
            if found is not None:
                return found
        value, length = ffi.new("const char **"), ffi.new("size_t *")
        text, number = self._named(name, writer)
        var = _c.NULL if variable is None else self._named(variable)[0]
        checked(lib.flux_stream_attr, self._pointer(), number, var, text, value, length)
        return bytes(ffi.buffer(value[0], length[0])).decode(errors="replace")

    def attributes(self, variable: Optional[str] = None, writer: int = 0) -> Dict[str, Any]:
        """All attributes that a writer has put for a variable, or for the stream, by name.

        For records also those of their format; those of fields are in `format()`.
        """
        before = "@" if variable is None else f"@{variable}/"
        found: Dict[str, Any] = {}
        for key in self.pinned(writer) + self.variables(writer):
            name = key[len(before) :]
            if key.startswith(before) and (variable is not None or "/" not in name):
                found[name] = self._value(key, writer)
        if variable is not None:
            try:
                found = {**self.format(variable).attributes, **found}
            except FluxError as e:
                if e.errno not in (errno.EINVAL, errno.ENOENT):  # it has no records
                    raise
        return found

    def _value(self, variable: str, writer: int) -> Any:
        """A variable as a str, a number, or a list of numbers; None if the writer has none."""
        try:
            data = self.get(variable, writer)
            v = self.inquire(variable, writer) if len(data) else None
        except FluxError as e:
            if e.errno != errno.ENOENT:
                raise
            if variable not in self.variables(writer) + self.pinned(writer):
                return None
            v = None  # bytes that nobody has described
        if v is None or v.type in ("char", "bytes"):
            return bytes(data).decode(errors="replace")
        if v.type[0] == "c":  # complex numbers, which memoryview does not know
            return self.array(variable, writer).tolist()
        values = data.cast(_CODES[v.type]).tolist()
        return values if v.count else values[0]

    def records(
        self, variable: str, writer: int = 0, format: Union[RecordFormat, str, type, None] = None
    ) -> Any:
        """The records of a writer: a list, or one record if the variable is a single value.

        Records are dicts. With a `format` they are converted to it: fields are found by name, those
        that the writer does not have get their defaults; of a dataclass, they are its instances.
        """
        kind = self.format(variable) if format is None else RecordFormat.of(format)
        pointer, count = self._records(variable, writer, kind)
        values = kind.unpack(ffi.cast("char *", pointer), count)
        # A single value has one element, and an array of none has no piece.
        return values if count != 1 or self.inquire(variable, writer).count else values[0]

    def mine(self, variable: str, writer: int = 0) -> List[range]:
        """The indices of the records of a writer that are for this reader, as ranges.

        A member of a group that shares the work by record (`Handle.stream_reader`) has some of
        them, or none; any other reader has all.
        """
        own = ffi.new("const struct flux_stream_range **")
        count = ffi.new("size_t *")
        name, number = self._named(variable, writer)
        checked(lib.flux_stream_mine, self._pointer(), number, name, own, count)
        ranges = (own[0][i] for i in range(count[0]))
        return [range(r.start, r.start + r.count) for r in ranges]

    def _records(self, variable: str, writer: int, kind: RecordFormat) -> Tuple[Any, int]:
        data = ffi.new("const void **")
        count = ffi.new("size_t *")
        name, number = self._named(variable, writer)
        pointer = self._pointer()
        checked(lib.flux_stream_get_records, pointer, number, name, kind._f, data, count)
        return data[0], count[0]

    def _record_array(self, v: Variable, variable: str, writer: int):
        import numpy

        kind = self.format(variable)
        dtype = kind.dtype
        pointer, count = self._records(variable, writer, kind)
        raw = self.get(variable, writer)
        if pointer == ffi.from_buffer(raw):
            data = numpy.frombuffer(raw, dtype)
        else:  # converted: it is valid until the step is released
            data = numpy.frombuffer(bytes(ffi.buffer(pointer, count * kind.size)), dtype)
        return data.reshape(v.count, order="F" if v.columns else "C")

    def array(self, variable: str, writer: int = 0):
        """The piece of a writer as a read-only NumPy array over its memory.

        Records without pointers are a structured array.
        """
        import numpy

        v = self.inquire(variable, writer)
        if v.format:
            return self._record_array(v, variable, writer)
        data = numpy.frombuffer(self.get(variable, writer), v.dtype)
        return data.reshape(v.count, order="F" if v.columns else "C")

    def read_into(
        self,
        variable: str,
        buffer,
        start: Optional[Sequence[int]] = None,
        count: Optional[Sequence[int]] = None,
        stride: Optional[Sequence[int]] = None,
    ) -> None:
        """Copy a box of a global array, from whichever writers have it, into a writable buffer.

        In each dimension `count` elements, each `stride` (1) behind the one before, from `start`
        on, without gaps and in the order of the array; without `start` and `count` all of it.
        FluxError: ERANGE (outside of the array), ENOBUFS (the buffer is too small), ENODATA
        (elements are in no piece).
        """
        v = self.inquire(variable)
        lists = self._box(variable, len(v.shape), start, count, stride)
        name = self._named(variable)[0]
        to = ffi.from_buffer(buffer, require_writable=True)
        if v.format:
            get, kinds = lib.flux_stream_get_record_box, [self.format(variable)._f]
        else:
            get, kinds = lib.flux_stream_get_box, []
        checked(get, self._pointer(), name, *lists, *kinds, to, len(to))

    def read(
        self,
        variable: str,
        start: Optional[Sequence[int]] = None,
        count: Optional[Sequence[int]] = None,
        stride: Optional[Sequence[int]] = None,
    ):
        """A box of a global array, as a new NumPy array: see `read_into()`."""
        v = self.inquire(variable)
        self._box(variable, len(v.shape), start, count, stride)
        shape = tuple(v.shape if count is None else count)
        # Made in the order of the array, which is what is copied.
        dtype = self.format(variable).dtype if v.format else v.dtype
        flat = room_for(shape, dtype)
        self.read_into(variable, flat, start, count, stride)
        return flat.reshape(shape, order="F" if v.columns else "C")

    def view(
        self,
        variable: str,
        start: Optional[Sequence[int]] = None,
        count: Optional[Sequence[int]] = None,
        stride: Optional[Sequence[int]] = None,
    ):
        """A box of a global array, as a read-only NumPy array over the memory of its writer.

        It is constant until the step is released. If several writers have parts of the box, or its
        writer is on another host, or for records, it is a copy: see `read()`.
        """
        import numpy

        v = self.inquire(variable)
        lists = self._box(variable, len(v.shape), start, count, stride)
        box = ffi.new("struct flux_stream_box *", lists)
        view = ffi.new("struct flux_stream_view *")
        pointer, name = self._pointer(), self._named(variable)[0]
        rc = checked(lib.flux_stream_view_box, pointer, name, box, view)
        # The memory of a transform goes with the step.
        if rc == 0 or lib.flux_stream_derived(pointer, name):
            copy = self.read(variable, start, count, stride)
            copy.flags.writeable = False
            return copy
        shape = tuple(v.shape if count is None else count)
        strides = tuple(view.stride[0 : len(shape)])
        span = v.elem + sum((n - 1) * by for n, by in zip(shape, strides))
        return numpy.ndarray(shape, v.dtype, _c.view_of(pointer, view.data, span), 0, strides)

    def schedule(
        self,
        variable: str,
        start: Optional[Sequence[int]] = None,
        count: Optional[Sequence[int]] = None,
        stride: Optional[Sequence[int]] = None,
        *,
        writer: Optional[int] = None,
        buffer=None,
    ):
        """Request a box of a global array, or with `writer` what this writer has of an array.

        `perform()` gets all that is requested, of each writer on another host in one exchange. The
        elements are then in the NumPy array that this returns, or in `buffer`, which has to be
        writable, and which this returns if it is given. With `writer` there is only a `stride`.
        What is not performed is forgotten when the step is released. FluxError: as `read_into()`;
        not for records.
        """
        v = self.inquire(variable, writer)
        if v.format:
            text = f"variable '{variable}' in step {self.number} of stream '{self._reader._name}'"
            raise make_error(errno.EOPNOTSUPP, f"{text} has records: see read(), records()")
        lists = self._box(variable, len(v.shape), start, count, stride)
        made = buffer is None
        if made:
            counts = v.count if writer is not None else v.shape
            if stride is not None and count is None and writer is not None:
                counts = tuple(-(-n // max(by, 1)) for n, by in zip(counts, stride))
            counts = tuple(counts if count is None else count)
            buffer = room_for(counts, v.dtype)
        to = ffi.from_buffer(buffer, require_writable=True)
        box = ffi.new("struct flux_stream_box *", lists)
        name, number = self._named(variable, writer)
        checked(lib.flux_stream_schedule, self._pointer(), name, number, box, to, len(to))
        self._scheduled.append(to)
        return buffer.reshape(counts, order="F" if v.columns else "C") if made else buffer

    def perform(self) -> None:
        """Get all that was requested by `schedule()`.

        After an error nothing is requested any more: FluxError ENODATA (elements are in no piece;
        all others are there), ECONNRESET (a writer on another host has ended before).
        """
        pointer = self._pointer()
        try:
            checked(lib.flux_stream_perform, pointer)
        finally:
            self._scheduled.clear()

    def __getitem__(self, what):
        """`step["T"]`: the bytes of writer 0; `step["T", 0:10, ::2, 5]`: part of a global array."""
        if isinstance(what, str):
            return self.get(what)
        if not isinstance(what, tuple) or not what:
            raise self._wrong(TypeError("the name of a variable is required"))
        variable, *parts = what
        v = self.inquire(variable)
        try:
            start, count, stride, keep = box_of(parts, v.shape)
        except WRONG as e:
            raise self._wrong(e, variable) from None
        return self.read(variable, start, count, stride).reshape(
            keep, order="F" if v.columns else "C"
        )

    def __repr__(self) -> str:
        return f"<flux.Step {self.number} of {self._reader.name!r}>"
