"""Streams: programs that hand each other their data while they run (flux-stream(3)).

with handle.stream_writer("heat", rank=rank, size=4) as out:
    for T in simulation:                    # the rows of this writer, a NumPy array
        out.put("T", T, shape=(400, 100), offset=(100 * rank, 0))
        out.end_step()

with handle.stream_reader("heat") as steps:
    for step in steps:
        corner = step["T", :10, :10]        # from whichever writers have it
        mine = step.array("T", writer=0)    # the memory of a writer itself

with flux.Recording("heat.rec") as steps:   # a file of `flux stream record`, without a session
    last = steps.begin_step("newest")
"""

import dataclasses
import errno
import math
import operator
import re
import threading
import time
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterator,
    Dict,
    Iterator,
    List,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from . import _c, elements
from ._libflux import ffi, lib
from .errors import FluxError, fail_with, make_error, wrong_argument
from .placed import Places
from .records import RecordFormat

if TYPE_CHECKING:
    from .handle import Handle

__all__ = ["Recording", "StreamReader", "StreamWriter", "Step", "Variable"]

# libstream waits in one call, which a signal does not end: look for signals as often.
_SLICE = 0.5
_FORMATS_MAX = 256  # formats of records that a reader keeps
# Codes of memoryview for them.
_CODES = {"i8": "b", "i16": "h", "i32": "i", "i64": "q", "f32": "f", "f64": "d", "bool": "?"}
_CODES.update({f"u{bits}": _CODES[f"i{bits}"].upper() for bits in (8, 16, 32, 64)})
# NumPy's names for elements of libstream.
_NUMPY = {"bool": "?", "char": "S1", "bytes": "V1"}


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
        if self.type in _NUMPY:
            return _NUMPY[self.type]
        return f"{self.type[0]}{self.elem}"


def _interrupted_by(kind, exception, traceback):
    # What a signal handler has raised goes to the one who opens the stream.
    ffi.from_handle(traceback.tb_frame.f_locals["arg"]).append(exception)
    return True


@ffi.def_extern(onerror=_interrupted_by)
def pyflux_interrupted(arg):
    """Called by libstream while opening waits: signal handlers run now."""
    return bool(ffi.from_handle(arg))


def is_failure(exception: Optional[BaseException]) -> bool:
    """Does an exception that leaves a `with` statement mean that its streams are not whole?"""
    if isinstance(exception, SystemExit):
        return exception.code not in (None, 0)
    return exception is not None and not isinstance(exception, GeneratorExit)


def _attribute_key(name: str, variable: Optional[str]) -> str:
    return f"@{name}" if variable is None else f"@{variable}/{name}"


# What is wrong with an argument.
_WRONG = (TypeError, ValueError, OverflowError, IndexError)


def _numbers(numbers, ndims: int, what: str) -> List[int]:
    """The numbers that an argument has for each dimension."""
    found = [operator.index(number) for number in numbers]
    if len(found) != ndims:
        raise ValueError(f"{what} has {len(found)} numbers, not one for each of {ndims} dimensions")
    for number in found:
        if number < 0:
            raise OverflowError(f"{what} has the negative number {number}")
        if number >= 1 << 64:
            raise OverflowError(f"{what} has the number {number} of more than 64 bits")
    return found


def _parts(parts: list, shape: Tuple[int, ...]) -> Tuple[List[int], ...]:
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


def _room(count: Sequence[int], dtype):
    """A new array for a box; of no elements, which libstream refuses, if it cannot be as large."""
    import numpy

    try:
        return numpy.empty(math.prod(count), dtype)
    except (MemoryError, ValueError):
        return numpy.empty(0, dtype)


def _rank(writer) -> int:
    """The rank of a writer: too large a one is refused by libstream."""
    number = operator.index(writer)
    if not 0 <= number < lib.FLUX_STREAM_ALL:
        raise OverflowError(f"{number} is not the rank of a writer")
    return number


def _piece(ndims: int, shape, offset) -> list:
    """The shape of a global array, and the offset of a piece of it, as libstream takes them."""
    if shape is None:
        if offset is not None:
            raise ValueError("an offset is that of a piece of an array with a shape")
        return [ffi.NULL, ffi.NULL]
    offset = [0] * ndims if offset is None else _numbers(offset, ndims, "offset")
    return [
        ffi.new("uint64_t[]", _numbers(shape, ndims, "shape")),
        ffi.new("uint64_t[]", offset),
    ]


def _wake(ready) -> None:
    if not ready.done():
        ready.set_result(None)


class _Stream:
    """What both ends have in common."""

    def __init__(self, handle: "Handle", name: str, mode: int, options: dict) -> None:
        handle._check()
        err = ffi.new("errmsg_t *")
        yes_or_no = {name: options.pop(name) for name in ("secure", "share")}
        names = ("policy", "group", "key", "by", "team", "onoff", "transport", "transforms", "join", "start")
        texts = {name: options.pop(name, None) for name in names}
        for what, flag in yes_or_no.items():
            texts[what] = None if flag is None else "yes" if flag else "no"
        timeout = options["timeout"]
        # 0 would be the default of libstream.
        options["timeout"] = -1.0 if timeout is None else max(timeout, 1e-3)
        try:
            opts = ffi.new("struct flux_stream_opts *", options)
        except _WRONG as e:
            raise wrong_argument(e, f"stream '{name}': {e}") from None
        kept = []
        for what, value in texts.items():
            if value is not None:
                kept.append(ffi.new("char[]", _c.text(value, f"the {what}")))
                setattr(opts, what, kept[-1])
        raised: List[BaseException] = []
        arg = ffi.new_handle(raised)
        if threading.current_thread() is threading.main_thread():
            opts.interrupted, opts.arg = lib.pyflux_interrupted, arg
        pointer = lib.flux_stream_open(handle._h, _c.text(name, "the name"), mode, opts, err)
        if raised:
            lib.flux_stream_close(pointer)
            raise raised[0]
        if not pointer:
            fail_with(err)
        self._handle = handle
        self._name = name
        self._s: Any = handle._connection.own(pointer, lib.flux_stream_close)
        handle._streams.add(self)

    @property
    def name(self) -> str:
        """The name of the stream."""
        return self._name

    @property
    def closed(self) -> bool:
        """Was this end of the stream closed?"""
        return self._s is None

    def _pointer(self):
        self._handle._check()
        if self._s is None:
            raise make_error(errno.ECANCELED, f"stream '{self._name}' was closed")
        return self._s

    def _drop(self, failed: bool = False) -> None:
        """Leave it now, and close it in C when nobody uses its memory any more."""
        pointer, self._s = self._s, None
        connection = self._handle._connection
        if pointer is not None and connection is not None and connection.h:  # not a child process
            if failed:
                lib.flux_stream_fail(pointer)  # of a reader this has no effect
            lib.flux_stream_leave(pointer)

    def close(self) -> None:
        """Leave the stream. Closing twice is not an error."""
        self._drop()

    def __exit__(self, kind, value, traceback) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<flux.{type(self).__name__} {self._name!r}>"

    def _wait(self, call, timeout: Optional[float]):
        """`call(seconds)` until it does not time out, or `timeout` is over."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _SLICE if end is None else max(min(_SLICE, end - time.monotonic()), 0.0)
            try:
                return call(left)
            except FluxError as e:
                if e.errno != errno.ETIMEDOUT:
                    raise
                if end is not None and time.monotonic() >= end:
                    text = f"stream '{self._name}' did not go on within {timeout:g} s"
                    raise make_error(errno.ETIMEDOUT, text) from None


class StreamWriter(_Stream):
    """The end of a stream that writes steps (`Handle.stream_writer()`)."""

    def __init__(self, handle: "Handle", name: str, options: dict) -> None:
        super().__init__(handle, name, lib.FLUX_STREAM_WRITE, options)
        self._data: List[Any] = []  # is read when the step ends
        self._places = Places()

    def _forget(self) -> None:
        """libstream has published the step, or forgotten it."""
        self._data.clear()
        self._places.forget()

    @property
    def step(self) -> int:
        """The number of the step that `end_step()` ends next."""
        return lib.flux_stream_step(self._pointer())

    @property
    def epoch(self) -> int:
        """1, and more for a writer that was restarted: flux_stream_epoch(3)."""
        return lib.flux_stream_epoch(self._pointer())

    def put(
        self,
        variable: str,
        data,
        *,
        shape: Optional[Sequence[int]] = None,
        offset: Optional[Sequence[int]] = None,
        pinned: bool = False,
        format: Union[RecordFormat, str, type, None] = None,
    ) -> None:
        """Add a variable to the step: an array of NumPy, an array.array, a memoryview, bytes, a
        number, a text, or a list of numbers.

        With a `format`, `data` is a record (a dict, or an instance of a dataclass), or a list of
        records, which are copied now; the format may also be a dataclass, or a text (`RecordFormat`).
        A structured array of NumPy is an array of records without it.

        Arrays keep their type and shape; bytes are bytes. With `shape` and `offset`, the array is a
        piece of a global array of that shape, and begins there. Data are read by `end_step()`, and
        must not change until then; arrays that are not contiguous, or in the other byte order, are
        copied now. The newest value of a variable that is `pinned`, in this step or
        one before, is found in each step from now on, also by readers that join later
        (flux_stream_pin(3)).
        """
        pointer = self._pointer()
        try:
            self._put(variable, data, shape, offset, format)
            err = ffi.new("errmsg_t *")
            if pinned and lib.flux_stream_pin(pointer, _c.text(variable, "the name"), err) < 0:
                fail_with(err)
        except FluxError:
            raise
        except _WRONG as e:
            raise self._wrong(e, variable) from None

    def _put(self, variable: str, data, shape, offset, format) -> None:
        name = _c.text(variable, "the name")
        if format is None and getattr(getattr(data, "dtype", None), "names", None):
            format = RecordFormat.from_dtype(data.dtype)
            if not data.dtype.isnative:
                raise TypeError("records of the other byte order cannot be put into a stream")
            self._put_records(name, data, format, data.shape, shape, offset)
        elif format is not None:
            kind = RecordFormat.of(format)
            one = not isinstance(data, (list, tuple))
            memory, inner = kind.pack([data] if one else data)
            self._data.append(inner)
            self._put_records(name, memory, kind, () if one else (len(data),), shape, offset)
        else:
            self._put_elements(name, data, shape, offset)

    def _put_records(self, name: bytes, data, kind: RecordFormat, count, shape, offset) -> None:
        err = ffi.new("errmsg_t *")
        array = ffi.new("struct flux_stream_array *")
        place = [ffi.new("uint64_t[]", list(count)), *_piece(len(count), shape, offset)]
        array.ndims, array.format = len(count), kind._f
        array.count, array.shape, array.offset = place
        # What NumPy has is C-contiguous, or an error.
        buffer = data if isinstance(data, ffi.CData) else ffi.from_buffer(data)
        if lib.flux_stream_put_array(self._pointer(), name, array, buffer, err) < 0:
            fail_with(err)
        self._data.append((buffer, kind, place))

    def _put_elements(self, name: bytes, data, shape, offset) -> None:
        pointer = self._pointer()
        err = ffi.new("errmsg_t *")
        data = elements.plain(data)
        plain = isinstance(data, (bytes, bytearray))
        if plain and (shape is not None or offset is not None):
            raise TypeError("bytes are not a piece of an array")
        view = memoryview(data)
        columns = view.ndim > 1 and view.f_contiguous and not view.c_contiguous
        buffer = ffi.from_buffer(data.T if columns else data)
        if plain:
            rc = lib.flux_stream_put(pointer, name, buffer, len(buffer), err)
            kept: Any = buffer
        else:
            array = ffi.new("struct flux_stream_array *")
            kind = ffi.new("char[]", elements.element(view).encode())
            count = ffi.new("uint64_t[]", view.shape)
            place = _piece(view.ndim, shape, offset)
            array.type, array.ndims, array.count, array.columns = kind, view.ndim, count, columns
            array.shape, array.offset = place
            rc = lib.flux_stream_put_array(pointer, name, array, buffer, err)
            kept = (buffer, kind, count, place)
        if rc < 0:
            fail_with(err)
        self._data.append(kept)

    def reserve(
        self,
        variable: str,
        count: Sequence[int],
        type,
        *,
        shape: Optional[Sequence[int]] = None,
        offset: Optional[Sequence[int]] = None,
        columns: bool = False,
    ) -> None:
        """Add a variable to the step that is made in its place, without a copy: see `place()`.

        `count` is the shape of the array, or of the piece of a global array with `shape` and `offset`,
        and () that of a single value; `type` is "f64" and so on, a type of NumPy, or a RecordFormat
        without pointers; with `columns` the first dimension is the fastest.
        """
        pointer = self._pointer()
        try:
            numbers = _numbers(count, len(count), "count")
            piece = _piece(len(numbers), shape, offset)
            kept = self._places.reserve(pointer, variable, numbers, type, columns, piece)
        except FluxError:
            raise
        except _WRONG as e:
            raise self._wrong(e, variable) from None
        self._data.append(kept)

    def place(self, timeout: Optional[float] = None) -> None:
        """Lay out the step, when all its variables were put or reserved.

        Waits like `end_step()`, and copies what was put. Then `at()` has the memory of what was reserved,
        and `end_step()` publishes it.
        """

        def call(seconds: float) -> None:
            err = ffi.new("errmsg_t *")
            if lib.flux_stream_place(self._pointer(), seconds, err) < 0:
                fail_with(err)

        self._wait_or_forget(call, timeout, self._places.placed)
        self._places.placed = True

    def at(self, variable: str):
        """The memory of a variable that was reserved, in the step that was placed: a NumPy array.

        It is written before `end_step()`, after which it is read-only; the same array each time.
        """
        pointer = self._pointer()
        try:
            array = self._places.at(pointer, variable)
        except _WRONG as e:
            raise self._wrong(e, variable) from None
        if array is None:
            why = "it has no place: reserve() and place() give it one"
            raise self._wrong(ValueError(why), variable)
        return array

    def _wrong(self, error: Exception, variable: str) -> FluxError:
        where = f"variable '{variable}' in step {self.step} of stream '{self._name}'"
        return wrong_argument(error, f"{where}: {error}")

    @property
    def wanted(self) -> bool:
        """Would any reader see the step, or is it kept? If not, it need not be computed."""
        return lib.flux_stream_wanted(self._pointer())

    def wait_readers(self, readers: int, timeout: Optional[float] = None) -> None:
        """Wait until there are at least as many readers; members of a team count when all have come."""

        def call(seconds: float) -> None:
            err = ffi.new("errmsg_t *")
            if lib.flux_stream_wait_readers(self._pointer(), readers, seconds, err) < 0:
                fail_with(err)

        try:
            self._wait(call, timeout)
        except OverflowError as e:
            raise wrong_argument(e, f"stream '{self._name}': {e}") from None

    def set_attribute(self, name: str, value, variable: Optional[str] = None) -> None:
        """An attribute, such as "units", of a variable, or of the stream: a text, a number, an array.

        Readers find it in this step and all that follow (`Step.attribute()`): it is a pinned variable
        (flux_stream_put_attr(3)).
        """
        self.put(_attribute_key(name, variable), value, pinned=True)

    def put_all(self, step: "Step", writer: int = 0) -> None:
        """Add all variables that a writer has put into a step, which must not be released before."""
        err = ffi.new("errmsg_t *")
        pointer = step._pointer()
        try:
            number = _rank(writer)
        except _WRONG as e:
            raise step._wrong(e) from None
        if lib.flux_stream_put_all(self._pointer(), pointer, number, err) < 0:
            fail_with(err)

    def define(self, text: str) -> None:
        """Say what the variables are, in a text that `flux stream format` shows."""
        err = ffi.new("errmsg_t *")
        if lib.flux_stream_define(self._pointer(), _c.text(text, "the format"), err) < 0:
            fail_with(err)

    def end_step(self, timeout: Optional[float] = None) -> None:
        """Publish the step. Waits for readers that block (FluxTimeoutError: call it again)."""

        def call(seconds: float) -> None:
            err = ffi.new("errmsg_t *")
            if lib.flux_stream_end_step(self._pointer(), seconds, err) < 0:
                fail_with(err)

        self._places.fill()
        self._wait_or_forget(call, timeout, self._places.waiting)
        self._forget()

    def _wait_or_forget(self, call, timeout: Optional[float], refused: bool) -> None:
        """`_wait()`: after an error libstream has forgotten the step, unless the call is refused."""
        try:
            self._wait(call, timeout)
        except FluxError as e:
            if e.errno != errno.ETIMEDOUT and not refused:
                self._forget()
            raise

    def drop_step(self) -> None:
        """Leave out the step: what was put is forgotten, and no step has its number."""
        err = ffi.new("errmsg_t *")
        pointer = self._pointer()
        self._forget()
        if lib.flux_stream_drop_step(pointer, err) < 0:
            fail_with(err)

    def end_step_later(self) -> bool:
        """Publish the step without waiting: False if it is pending, and published when readers have room.

        Data are copied, and may change at once. One step may be pending (FluxError: EBUSY); whatever
        ends the next one waits for it. `wait_step()` waits for it.
        """
        err = ffi.new("errmsg_t *")
        self._places.fill()
        rc = lib.flux_stream_end_step_async(self._pointer(), err)
        if rc < 0:
            failed = ffi.errno
            if failed != errno.EBUSY and not self._places.waiting:
                self._forget()
            ffi.errno = failed
            fail_with(err)
        self._forget()
        return rc == 1

    @property
    def fault(self) -> Optional[str]:
        """Why the transforms of the stream were detached, or None (flux_stream_fault(3))."""
        text = lib.flux_stream_fault(self._pointer())
        return _c.string(text) if text else None

    def wait_step(self, timeout: Optional[float] = None) -> None:
        """Wait until the step that is pending is published; at once if there is none."""

        def call(seconds: float) -> None:
            err = ffi.new("errmsg_t *")
            if lib.flux_stream_wait_step(self._pointer(), seconds, err) < 0:
                fail_with(err)

        self._wait(call, timeout)

    async def end_step_async(self) -> None:
        """Publish the step, in a task of asyncio: other tasks run while it waits for readers."""
        import asyncio

        await self._published(asyncio.get_running_loop())
        if not self.end_step_later():
            await self._published(asyncio.get_running_loop())

    async def _published(self, loop) -> None:
        """Wait until no step is pending, and look now and then for what the module says."""
        import asyncio

        err = ffi.new("errmsg_t *")
        while (fd := lib.flux_stream_pollfd(self._pointer(), err)) >= 0:
            ready = loop.create_future()
            loop.add_reader(fd, _wake, ready)
            try:
                await asyncio.wait([ready], timeout=_SLICE)
            finally:
                loop.remove_reader(fd)
            try:
                self.wait_step(0.0)
            except TimeoutError:
                pass

    def drain(self, timeout: Optional[float] = None) -> None:
        """Wait until members of groups have ended all steps that were given to groups."""

        def call(seconds: float) -> None:
            err = ffi.new("errmsg_t *")
            if lib.flux_stream_drain(self._pointer(), seconds, err) < 0:
                fail_with(err)

        self._wait(call, timeout)

    def fail(self) -> None:
        """Leave the stream, whose steps do not end where they should, since the program has failed.

        Readers get the steps that were ended, and then an error (flux_stream_fail(3)). An exception
        that leaves a `with` statement of the stream, or of its handle, does this, except for that of
        `sys.exit(0)`; so does one that ends the program.
        """
        self._drop(True)

    def __enter__(self) -> "StreamWriter":
        return self

    def __exit__(self, kind, value, traceback) -> None:
        self._drop(is_failure(value))


class StreamReader(_Stream):
    """The end of a stream that reads steps (`Handle.stream_reader()`).

    Iterate over it: each step is released when the next one is asked for, and the loop ends when the
    writers have closed the stream. A member of a group (`group`) acknowledges a step by that.
    """

    def __init__(self, handle: "Handle", name: str, options: dict) -> None:
        self._grouped = options.get("group") is not None
        super().__init__(handle, name, lib.FLUX_STREAM_READ, options)
        self._step: Optional["Step"] = None
        self._formats: Dict[Any, RecordFormat] = {}  # by the format of the writer

    @property
    def writers(self) -> int:
        """The number of writers; their ranks are below it."""
        return lib.flux_stream_writers(self._pointer())

    def begin_step(
        self, which: Union[str, int] = "next", timeout: Optional[float] = None
    ) -> Optional["Step"]:
        """The next step, the "newest", or that of a number; None at the end of the stream.

        A step that was begun is released before. FluxError: ENOENT (the step of this number cannot
        come any more), ECONNRESET (a writer has died), ESTALE (this reader was evicted).
        """
        numbers = {"next": lib.FLUX_STREAM_NEXT, "newest": lib.FLUX_STREAM_NEWEST}
        try:
            number = numbers.get(which, -1) if isinstance(which, str) else operator.index(which)
            if not 0 <= number <= lib.FLUX_STREAM_NEXT:
                raise ValueError(f"'{which}' is not a step: next, newest, or a number")
        except _WRONG as e:
            raise wrong_argument(e, f"stream '{self._name}': {e}") from None
        self.end_step()
        step = ffi.new("uint64_t *")

        def call(seconds: float) -> int:
            err = ffi.new("errmsg_t *")
            rc = lib.flux_stream_begin_step(self._pointer(), number, seconds, step, err)
            if rc < 0:
                fail_with(err)
            return rc

        if self._wait(call, timeout) == 0:
            return None
        self._step = Step(self, step[0])
        return self._step

    async def begin_step_async(self) -> Optional["Step"]:
        """The same for the next step, in a task of asyncio; `async for step in reader` does it, too."""
        import asyncio

        loop = asyncio.get_running_loop()
        while True:
            try:
                return self.begin_step(timeout=0.0)
            except TimeoutError:
                pass
            err = ffi.new("errmsg_t *")
            fd = lib.flux_stream_pollfd(self._pointer(), err)
            if fd < 0:
                if ffi.errno != errno.EAGAIN:
                    fail_with(err)
                continue
            ready = loop.create_future()
            loop.add_reader(fd, _wake, ready)
            try:
                await ready
            finally:
                loop.remove_reader(fd)

    async def __aiter__(self) -> AsyncIterator["Step"]:
        while True:
            step = await self.begin_step_async()
            if step is None:
                return
            yield step

    def end_step(self) -> None:
        """Release the step, if one was begun. What was got from it may change from now on."""
        pointer = self._pointer()
        if self._step is not None:
            self._step = None
            err = ffi.new("errmsg_t *")
            if lib.flux_stream_end_step(pointer, 0.0, err) < 0:
                fail_with(err)

    def close(self) -> None:
        """Leave the stream. Arrays that are still used stay valid, but what is in them may change.

        A step that a member of a group has not ended is given to another member.
        """
        if self._s is not None and not self._handle.closed and not self._grouped:
            self.end_step()
        self._drop()

    def _drop(self, failed: bool = False) -> None:
        self._step = None
        super()._drop()

    def __iter__(self) -> Iterator["Step"]:
        while True:
            step = self.begin_step()
            if step is None:
                return
            yield step

    def __enter__(self) -> "StreamReader":
        return self


class Recording(StreamReader):
    """A file that `flux stream record` has written: its steps, without a session.

    Any step can be begun, in any order: the "next" one is that behind the last one that was begun,
    the "newest" the last one of the file. Nothing waits. Arrays are over the file itself.
    """

    def __init__(self, path) -> None:  # pylint: disable=super-init-not-called
        err = ffi.new("errmsg_t *")
        pointer = lib.flux_stream_open_file(_c.path(path, "the path"), err)
        if not pointer:
            fail_with(err)
        self._s = ffi.gc(pointer, lib.flux_stream_close)
        self._step = None
        self._formats = {}
        info = ffi.new("struct flux_stream_file *")
        lib.flux_stream_file(pointer, info)
        self._name = _c.string(info.name)
        self._len = info.steps
        #: What the writers said the variables are, or None.
        self.format: Optional[str] = _c.string(info.format) if info.format else None
        #: Was the recording ended? Else it was interrupted, or goes on.
        self.complete: bool = info.complete

    def _pointer(self):
        if self._s is None:
            raise make_error(errno.ECANCELED, f"the recording of '{self._name}' was closed")
        return self._s

    def _drop(self, failed: bool = False) -> None:
        self._step = self._s = None

    def close(self) -> None:
        """Close the file. Arrays that are still used stay valid."""
        self._drop()

    def _at(self, index: int) -> Tuple[int, float]:
        number, when = ffi.new("uint64_t *"), ffi.new("double *")
        lib.flux_stream_file_step(self._pointer(), index, number, when)
        return number[0], when[0]

    def __len__(self) -> int:
        """The number of steps."""
        return self._len

    @property
    def numbers(self) -> List[int]:
        """The numbers of all steps."""
        return [self._at(i)[0] for i in range(self._len)]

    @property
    def times(self) -> List[float]:
        """When each step was recorded, in seconds since 1970."""
        return [self._at(i)[1] for i in range(self._len)]

    def __enter__(self) -> "Recording":
        return self


class Step:
    """A step that a reader has begun: the variables that each writer has put into it.

    Data are the memory of the writer, read-only. They are constant until the step is released; copy
    what is needed for longer.
    """

    def __init__(self, reader: StreamReader, number: int) -> None:
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
            number = lib.FLUX_STREAM_ALL if writer is None else _rank(writer)
            return _c.text(variable, "the name"), number
        except _WRONG as e:
            raise self._wrong(e, variable) from None

    def _box(self, variable: str, ndims: int, start, count, stride) -> List[Any]:
        lists = []
        try:
            for numbers, what in ((start, "start"), (count, "count"), (stride, "stride")):
                given = None if numbers is None else _numbers(numbers, ndims, what)
                lists.append(ffi.NULL if given is None else ffi.new("uint64_t[]", given))
        except _WRONG as e:
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
            number = _rank(writer)
        except _WRONG as e:
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
        err = ffi.new("errmsg_t *")
        name, number = self._named(variable, writer)
        if lib.flux_stream_get(pointer, number, name, data, length, err) < 0:
            fail_with(err)
        if lib.flux_stream_derived(pointer, name):  # the memory goes with the step: copy it
            return memoryview(bytes(ffi.buffer(data[0], length[0])) if length[0] else b"")
        return _c.view_of(pointer, data[0], length[0])

    def inquire(self, variable: str, writer: Optional[int] = None) -> Variable:
        """What a variable is: the piece of a writer; without `writer` a global array as a whole.

        FluxError: ENOENT for bytes that nobody has described; EINVAL, without `writer`, for an
        array that is not global.
        """
        info = ffi.new("struct flux_stream_info *")
        err = ffi.new("errmsg_t *")
        name, number = self._named(variable, writer)
        if lib.flux_stream_inquire(self._pointer(), number, name, info, err) < 0:
            fail_with(err)
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
        key = _attribute_key(name, variable)
        ranks = range(self._reader.writers) if writer is None else [writer]
        for rank in ranks:
            found = self._value(key, rank)
            if found is not None:
                return found
        value, length = ffi.new("const char **"), ffi.new("size_t *")
        err = ffi.new("errmsg_t *")
        text, number = self._named(name, writer)
        var = _c.NULL if variable is None else self._named(variable)[0]
        rc = lib.flux_stream_attr(self._pointer(), number, var, text, value, length, err)
        if rc < 0:
            fail_with(err)
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
        """A variable as a str, a number, or a list of numbers; None if the writer does not have it."""
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
        err = ffi.new("errmsg_t *")
        own = ffi.new("const struct flux_stream_range **")
        count = ffi.new("size_t *")
        name, number = self._named(variable, writer)
        if lib.flux_stream_mine(self._pointer(), number, name, own, count, err) < 0:
            fail_with(err)
        ranges = (own[0][i] for i in range(count[0]))
        return [range(r.start, r.start + r.count) for r in ranges]

    def _records(self, variable: str, writer: int, kind: RecordFormat) -> Tuple[Any, int]:
        err = ffi.new("errmsg_t *")
        data = ffi.new("const void **")
        count = ffi.new("size_t *")
        name, number = self._named(variable, writer)
        rc = lib.flux_stream_get_records(self._pointer(), number, name, kind._f, data, count, err)
        if rc < 0:
            fail_with(err)
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

        In each dimension `count` elements, each `stride` (1) behind the one before, from `start` on,
        without gaps and in the order of the array; without `start` and `count` all of it. FluxError:
        ERANGE (outside of the array), ENOBUFS (the buffer is too small), ENODATA (elements are in no
        piece).
        """
        v = self.inquire(variable)
        lists = self._box(variable, len(v.shape), start, count, stride)
        err = ffi.new("errmsg_t *")
        name = self._named(variable)[0]
        to = ffi.from_buffer(buffer, require_writable=True)
        if v.format:
            kind = self.format(variable)._f
            rc = lib.flux_stream_get_record_box(
                self._pointer(), name, *lists, kind, to, len(to), err
            )
        else:
            rc = lib.flux_stream_get_box(self._pointer(), name, *lists, to, len(to), err)
        if rc < 0:
            fail_with(err)

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
        flat = _room(shape, dtype)
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
        err = ffi.new("errmsg_t *")
        pointer, name = self._pointer(), self._named(variable)[0]
        rc = lib.flux_stream_view_box(pointer, name, box, view, err)
        if rc < 0:
            fail_with(err)
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
        writable, and which this returns if it is given. With `writer` there is only a `stride`. What
        is not performed is forgotten when the step is released. FluxError: as `read_into()`; not for
        records.
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
            buffer = _room(counts, v.dtype)
        to = ffi.from_buffer(buffer, require_writable=True)
        box = ffi.new("struct flux_stream_box *", lists)
        name, number = self._named(variable, writer)
        err = ffi.new("errmsg_t *")
        if lib.flux_stream_schedule(self._pointer(), name, number, box, to, len(to), err) < 0:
            fail_with(err)
        self._scheduled.append(to)
        return buffer.reshape(counts, order="F" if v.columns else "C") if made else buffer

    def perform(self) -> None:
        """Get all that was requested by `schedule()`.

        After an error nothing is requested any more: FluxError ENODATA (elements are in no piece;
        all others are there), ECONNRESET (a writer on another host has ended before).
        """
        pointer = self._pointer()
        err = ffi.new("errmsg_t *")
        rc = lib.flux_stream_perform(pointer, err)
        self._scheduled.clear()
        if rc < 0:
            fail_with(err)

    def __getitem__(self, what):
        """`step["T"]`: the bytes of writer 0; `step["T", 0:10, ::2, 5]`: a part of a global array."""
        if isinstance(what, str):
            return self.get(what)
        if not isinstance(what, tuple) or not what:
            raise self._wrong(TypeError("the name of a variable is required"))
        variable, *parts = what
        v = self.inquire(variable)
        try:
            start, count, stride, keep = _parts(parts, v.shape)
        except _WRONG as e:
            raise self._wrong(e, variable) from None
        return self.read(variable, start, count, stride).reshape(
            keep, order="F" if v.columns else "C"
        )

    def __repr__(self) -> str:
        return f"<flux.Step {self.number} of {self._reader.name!r}>"
