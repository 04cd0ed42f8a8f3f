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

import errno
import operator
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
from .boxes import WRONG, numbers_of, piece_of, rank_of
from .errors import FluxError, checked, fail_with, make_error, wrong_argument
from .placed import Places
from .records import RecordFormat
from .step import Step, Variable, attribute_key

if TYPE_CHECKING:
    from .handle import Handle

__all__ = ["Recording", "StreamReader", "StreamWriter", "Step", "Variable"]

# libstream waits in one call, which a signal does not end: look for signals as often.
_SLICE = 0.5


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


def _wake(ready) -> None:
    if not ready.done():
        ready.set_result(None)


class _Stream:
    """What both ends have in common."""

    def __init__(self, handle: "Handle", name: str, mode: int, options: dict) -> None:
        handle._check()
        err = ffi.new("errmsg_t *")
        yes_or_no = {name: options.pop(name) for name in ("secure", "share")}
        names = "policy group key by team onoff transport transforms join start".split()
        texts = {name: options.pop(name, None) for name in names}
        for what, flag in yes_or_no.items():
            texts[what] = None if flag is None else "yes" if flag else "no"
        timeout = options["timeout"]
        # 0 would be the default of libstream.
        options["timeout"] = -1.0 if timeout is None else max(timeout, 1e-3)
        try:
            opts = ffi.new("struct flux_stream_opts *", options)
        except WRONG as e:
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

    def _leave_at_exit(self) -> bool:
        """Leave the stream when the exit status of the program is known, if that matters."""
        return False

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

    def _leave_at_exit(self) -> bool:
        if self._s is None or lib.pyflux_leave_at_exit(self._s) < 0:
            return False
        self._handle._connection.owned.pop(self._s, None)
        self._s = None
        return True

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
        records, which are copied now; the format may also be a dataclass, or a text
        (`RecordFormat`). A structured array of NumPy is an array of records without it.

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
            if pinned:
                checked(lib.flux_stream_pin, pointer, _c.text(variable, "the name"))
        except FluxError:
            raise
        except WRONG as e:
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
        array = ffi.new("struct flux_stream_array *")
        place = [ffi.new("uint64_t[]", list(count)), *piece_of(len(count), shape, offset)]
        array.ndims, array.format = len(count), kind._f
        array.count, array.shape, array.offset = place
        # What NumPy has is C-contiguous, or an error.
        buffer = data if isinstance(data, ffi.CData) else ffi.from_buffer(data)
        checked(lib.flux_stream_put_array, self._pointer(), name, array, buffer)
        self._data.append((buffer, kind, place))

    def _put_elements(self, name: bytes, data, shape, offset) -> None:
        pointer = self._pointer()
        data = elements.plain(data)
        plain = isinstance(data, (bytes, bytearray))
        if plain and (shape is not None or offset is not None):
            raise TypeError("bytes are not a piece of an array")
        view = memoryview(data)
        columns = view.ndim > 1 and view.f_contiguous and not view.c_contiguous
        buffer = ffi.from_buffer(data.T if columns else data)
        if plain:
            checked(lib.flux_stream_put, pointer, name, buffer, len(buffer))
            kept: Any = buffer
        else:
            array = ffi.new("struct flux_stream_array *")
            kind = ffi.new("char[]", elements.element(view).encode())
            count = ffi.new("uint64_t[]", view.shape)
            place = piece_of(view.ndim, shape, offset)
            array.type, array.ndims, array.count, array.columns = kind, view.ndim, count, columns
            array.shape, array.offset = place
            checked(lib.flux_stream_put_array, pointer, name, array, buffer)
            kept = (buffer, kind, count, place)
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

        `count` is the shape of the array, or of the piece of a global array with `shape` and
        `offset`, and () that of a single value; `type` is "f64" and so on, a type of NumPy, or a
        RecordFormat without pointers; with `columns` the first dimension is the fastest.
        """
        pointer = self._pointer()
        try:
            numbers = numbers_of(count, len(count), "count")
            piece = piece_of(len(numbers), shape, offset)
            kept = self._places.reserve(pointer, variable, numbers, type, columns, piece)
        except FluxError:
            raise
        except WRONG as e:
            raise self._wrong(e, variable) from None
        self._data.append(kept)

    def place(self, timeout: Optional[float] = None) -> None:
        """Lay out the step, when all its variables were put or reserved.

        Waits like `end_step()`, and copies what was put. Then `at()` has the memory of what was
        reserved, and `end_step()` publishes it.
        """

        def call(seconds: float) -> None:
            checked(lib.flux_stream_place, self._pointer(), seconds)

        self._wait_or_forget(call, timeout, self._places.placed)
        self._places.placed = True

    def at(self, variable: str):
        """The memory of a variable that was reserved, in the step that was placed: a NumPy array.

        It is written before `end_step()`, after which it is read-only; the same array each time.
        """
        pointer = self._pointer()
        try:
            array = self._places.at(pointer, variable)
        except WRONG as e:
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
        """Wait until there are as many readers; members of a team count when all have come."""

        def call(seconds: float) -> None:
            checked(lib.flux_stream_wait_readers, self._pointer(), readers, seconds)

        try:
            self._wait(call, timeout)
        except OverflowError as e:
            raise wrong_argument(e, f"stream '{self._name}': {e}") from None

    def set_attribute(self, name: str, value, variable: Optional[str] = None) -> None:
        """An attribute, such as "units", of a variable or the stream: a text, a number, an array.

        Readers find it in this step and all that follow (`Step.attribute()`): it is a pinned
        variable (flux_stream_put_attr(3)).
        """
        self.put(attribute_key(name, variable), value, pinned=True)

    def put_all(self, step: "Step", writer: int = 0) -> None:
        """Add all variables that a writer has put into a step, which is not released before."""
        pointer = step._pointer()
        try:
            number = rank_of(writer)
        except WRONG as e:
            raise step._wrong(e) from None
        checked(lib.flux_stream_put_all, self._pointer(), pointer, number)

    def define(self, text: str) -> None:
        """Say what the variables are, in a text that `flux stream format` shows."""
        checked(lib.flux_stream_define, self._pointer(), _c.text(text, "the format"))

    def end_step(self, timeout: Optional[float] = None) -> None:
        """Publish the step. Waits for readers that block (FluxTimeoutError: call it again)."""

        def call(seconds: float) -> None:
            checked(lib.flux_stream_end_step, self._pointer(), seconds)

        self._places.fill()
        self._wait_or_forget(call, timeout, self._places.waiting)
        self._forget()

    def _wait_or_forget(self, call, timeout: Optional[float], refused: bool) -> None:
        """`_wait()`: after an error libstream has forgotten the step, unless it was refused."""
        try:
            self._wait(call, timeout)
        except FluxError as e:
            if e.errno != errno.ETIMEDOUT and not refused:
                self._forget()
            raise

    def drop_step(self) -> None:
        """Leave out the step: what was put is forgotten, and no step has its number."""
        pointer = self._pointer()
        self._forget()
        checked(lib.flux_stream_drop_step, pointer)

    def end_step_later(self) -> bool:
        """Publish the step without waiting: False if it is pending until readers have room.

        Data are copied, and may change at once. One step may be pending (FluxError: EBUSY);
        whatever ends the next one waits for it. `wait_step()` waits for it.
        """
        self._places.fill()
        try:
            rc = checked(lib.flux_stream_end_step_async, self._pointer())
        except FluxError as e:
            if e.errno != errno.EBUSY and not self._places.waiting:
                self._forget()
            raise
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
            checked(lib.flux_stream_wait_step, self._pointer(), seconds)

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
            checked(lib.flux_stream_drain, self._pointer(), seconds)

        self._wait(call, timeout)

    def fail(self) -> None:
        """Leave the stream, whose steps do not end where they should, since the program has failed.

        Readers get the steps that were ended, and then an error (flux_stream_fail(3)). An exception
        that leaves a `with` statement of the stream, or of its handle, does this, except for that
        of `sys.exit(0)`; so does the end of the program by an exception, or with another status
        than 0.
        """
        self._drop(True)

    def __enter__(self) -> "StreamWriter":
        return self

    def __exit__(self, kind, value, traceback) -> None:
        self._drop(is_failure(value))


class StreamReader(_Stream):
    """The end of a stream that reads steps (`Handle.stream_reader()`).

    Iterate over it: each step is released when the next one is asked for, and the loop ends when
    the writers have closed the stream. A member of a group (`group`) acknowledges a step by that.
    """

    def __init__(self, handle: "Handle", name: str, options: dict) -> None:
        self._grouped = options.get("group") is not None
        super().__init__(handle, name, lib.FLUX_STREAM_READ, options)
        self._step: Optional["Step"] = None
        self._formats: Dict[Any, RecordFormat] = {}  # by the format of the writer

    @property
    def writers(self) -> int:
        """The number of writers; their ranks are below it.  If the reader stays, the next step may
        have another number of them."""
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
        except WRONG as e:
            raise wrong_argument(e, f"stream '{self._name}': {e}") from None
        self.end_step()
        step = ffi.new("uint64_t *")

        def call(seconds: float) -> int:
            return checked(lib.flux_stream_begin_step, self._pointer(), number, seconds, step)

        if self._wait(call, timeout) == 0:
            return None
        self._step = Step(self, step[0])
        return self._step

    async def begin_step_async(self) -> Optional["Step"]:
        """The same for the next step, in a task of asyncio; so does `async for step in reader`."""
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
            checked(lib.flux_stream_end_step, pointer, 0.0)

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
