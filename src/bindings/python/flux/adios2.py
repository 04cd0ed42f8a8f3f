"""Streams with the call names of the package adios2, for programs that were written for it.

from flux.adios2 import Stream                  # in place of: from adios2 import Stream

with Stream("heat", "w") as s:                  # or Stream("heat", "w", comm), a communicator of mpi4py
    for _ in s.steps(10):
        s.write("T", T, shape, start, count)

with Stream("heat", "r") as s:
    for _ in s.steps():
        part = s.read("T", [0, 0], [10, 100])

Each stream is one of Flux (flux.stream) in the session of the environment, so `flux stream` shows it, and
programs in other languages read it. What streams do not have, such as engines, transports and operators, can
be named, and has no effect. An attribute is a variable of each step, whose name begins with "@".
"""

import enum
import errno
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy

from .errors import FluxError, make_error
from .handle import Handle
from .stream import Step, StreamReader, StreamWriter, is_failure
from .stream import Variable as _Found

__all__ = ["Adios", "IO", "StepStatus", "Stream", "Variable"]

_TYPES = {
    "f32": "float",
    "f64": "double",
    "c64": "float complex",
    "c128": "double complex",
    "bool": "uint8_t",
    "char": "string",
    "bytes": "char",
}


class StepStatus(enum.Enum):
    """What `Stream.begin_step()` returns."""

    OK = 0
    NotReady = 1
    EndOfStream = 2
    OtherError = 3


class Variable:
    """A variable: what is known of it, and what the next read of it selects."""

    def __init__(self, name: str, found: Optional[_Found] = None) -> None:
        self._name = name
        self._found = found
        self._selection: Tuple[Sequence[int], Sequence[int]] = ([], [])
        self._block: Optional[int] = None
        self._shape: Sequence[int] = []

    def name(self) -> str:
        """Its name."""
        return self._name

    def type(self) -> str:
        """The type of its elements, such as "double" or "int32_t"; "" before it was written."""
        if self._found is None:
            return ""
        kind = self._found.type
        return _TYPES.get(kind) or f"{'u' if kind[0] == 'u' else ''}int{kind[1:]}_t"

    def shape(self) -> List[int]:
        """The shape of the global array; [] of a value."""
        if self._found is None:
            return list(self._shape)
        return list(self._found.shape) if self._found.is_global else []

    def start(self) -> List[int]:
        """Where the selection begins."""
        return list(self._selection[0])

    def count(self) -> List[int]:
        """The shape of the selection, by default of the array."""
        return list(self._selection[1]) or self.shape()

    def single_value(self) -> bool:
        """Is it a value, and not an array?"""
        return self._found is not None and not self._found.shape

    def set_shape(self, shape: Sequence[int]) -> None:
        """The shape of the global array that is written."""
        self._shape = shape

    def set_selection(self, selection: Sequence[Sequence[int]]) -> None:
        """Read, or write, the box from `selection[0]` on of the shape `selection[1]`."""
        self._selection = (selection[0], selection[1])

    def set_block_selection(self, block_id: int) -> None:
        """Read what the writer of this rank has put."""
        self._block = block_id


class IO:
    """Parameters of streams.

    "QueueLimit" and "QueueFullPolicy" ("Discard") of readers; "RendezvousReaderCount" (1), for which
    a writer waits when it opens the stream; "OpenTimeoutSecs", how long either waits (no limit).
    """

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._engine = ""
        self._parameters: Dict[str, str] = {}
        self._variables: Dict[str, Variable] = {}

    def set_engine(self, name: str) -> None:
        """Name an engine."""
        self._engine = name

    def engine_type(self) -> str:
        """The engine that was named."""
        return self._engine

    def set_parameter(self, key: str, value: Any) -> None:
        """Set a parameter."""
        self._parameters[key] = str(value)

    def set_parameters(self, parameters: Dict[str, Any]) -> None:
        """Set several parameters."""
        for key, value in parameters.items():
            self.set_parameter(key, value)

    def parameters(self) -> Dict[str, str]:
        """All that were set."""
        return dict(self._parameters)

    def add_transport(self, kind: str, parameters: Optional[Dict[str, Any]] = None) -> int:
        """Name a transport."""
        return 0

    def define_variable(
        self,
        name: str,
        content: Any = None,
        shape: Sequence[int] = (),
        start: Sequence[int] = (),
        count: Sequence[int] = (),
        is_constant_dims: bool = False,
    ) -> Variable:
        """A variable to be written, with the shape of the array, and the place of the piece."""
        variable = Variable(name)
        variable.set_shape(shape)
        variable.set_selection([start, count])
        self._variables[name] = variable
        return variable

    def inquire_variable(self, name: str) -> Optional[Variable]:
        """One that was defined."""
        return self._variables.get(name)

    def _lower(self) -> Dict[str, str]:
        return {key.lower(): value for key, value in self._parameters.items()}

    def _opening(self) -> Dict[str, Any]:
        text = self._lower().get("opentimeoutsecs")
        return {"timeout": None if text is None else float(text)}

    def _writing(self) -> Dict[str, Any]:
        return {"readers": int(self._lower().get("rendezvousreadercount", 1)), **self._opening()}

    def _reading(self) -> Dict[str, Any]:
        lower = self._lower()
        options = self._opening()
        if int(lower.get("queuelimit", 0)) > 0:
            options["depth"] = int(lower["queuelimit"])
        if lower.get("queuefullpolicy", "").lower() == "discard":
            options["policy"] = "drop-oldest"
        return options


class Adios:
    """Where programs get an IO from."""

    def __init__(self, config_file: Any = None, comm: Any = None) -> None:
        self._ios: Dict[str, IO] = {}

    def declare_io(self, name: str) -> IO:
        """A new IO."""
        if name in self._ios:
            raise ValueError(f"IO {name} was declared before")
        self._ios[name] = IO(name)
        return self._ios[name]

    def at_io(self, name: str) -> IO:
        """The IO of a name."""
        return self._ios[name]


class Stream:
    """An end of a stream: Stream(name, mode [, comm]) or Stream(io, name, mode [, comm]).

    `mode` is "w" or "r". Opening a stream for reading waits until all its writers are there, and for
    writing, until there is a reader (`IO`). With a communicator, the processes of it write the stream together.
    """

    def __init__(self, *args: Any, comm: Any = None) -> None:
        io = args[0] if args and isinstance(args[0], IO) else IO()
        rest = args[1:] if args and args[0] is io else args
        if not 2 <= len(rest) <= 3:
            raise TypeError("a stream has a name, a mode, and perhaps a communicator")
        name, mode = str(rest[0]), rest[1]
        comm = rest[2] if len(rest) > 2 else comm
        if mode not in ("w", "r"):
            raise ValueError(f"a stream has no mode '{mode}', only w and r")
        self._io = io
        self._name = name
        self._mode = mode
        self._out: Optional[StreamWriter] = None
        self._in: Optional[StreamReader] = None
        self._step: Optional[Step] = None
        self._status = StepStatus.NotReady
        self._begun = False
        self._index = -1
        self._attributes: Dict[str, Any] = {}
        self._handle = Handle()
        try:
            if mode == "w":
                rank, size = (0, 1) if comm is None else (comm.Get_rank(), comm.Get_size())
                self._out = self._handle.stream_writer(name, rank=rank, size=size, **io._writing())
            else:
                self._in = self._handle.stream_reader(name, **io._reading())
        except BaseException:
            self._handle.close()
            raise

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if is_failure(value):
            self._begun = False  # what was put into the step is lost
            if self._out is not None:
                self._out.fail()
        self.close()

    def __repr__(self) -> str:
        return f"<flux.adios2.Stream {self._name!r}, mode {self._mode}>"

    @property
    def mode(self) -> str:
        """ "w" or "r"."""
        return self._mode

    @property
    def io(self) -> IO:
        """Its parameters."""
        return self._io

    def set_parameters(self, **parameters: Any) -> None:
        """Set parameters; a stream that is open does not change."""
        self._io.set_parameters(parameters)

    # -- steps --

    def begin_step(self, *, timeout: float = -1.0) -> StepStatus:
        """Begin a step; a reader waits for it at most `timeout` seconds (< 0: without limit)."""
        if self._begun:
            return StepStatus.OtherError
        self._status = StepStatus.OK
        if self._in is not None:
            try:
                self._step = self._in.begin_step(timeout=None if timeout < 0 else timeout)
            except TimeoutError:
                self._status = StepStatus.NotReady
                return self._status
            if self._step is None:
                self._status = StepStatus.EndOfStream
                return self._status
        self._begun = True
        return self._status

    def end_step(self) -> None:
        """Publish the step, or release it."""
        if self._out is not None:
            for name, value in self._attributes.items():
                self._put(name, value, [], [])
            self._out.end_step()
        elif self._in is not None:
            self._step = None
            self._in.end_step()
        self._begun = False

    def step_status(self) -> StepStatus:
        """What the last `begin_step()` returned."""
        return self._status

    def current_step(self) -> int:
        """The number of the step."""
        if self._out is not None:
            return self._out.step
        return self._step.number if self._step is not None else 0

    def loop_index(self) -> int:
        """How often a loop over `steps()` has begun a step, less 1."""
        return self._index

    def steps(self, num_steps: int = 0, *, timeout: float = -1.0) -> Iterator["Stream"]:
        """Begin and end steps: a reader all, or `num_steps` of them, a writer `num_steps`.

        A loop ends, too, when no step has come for `timeout` seconds.
        """
        if self._out is not None and num_steps == 0:
            raise RuntimeError("a writer has to say how many steps it writes")
        self._index = -1
        while num_steps == 0 or self._index + 1 < num_steps:
            if self.begin_step(timeout=timeout) is not StepStatus.OK:
                return
            self._index += 1
            yield self
            if self._begun:
                self.end_step()

    def __iter__(self) -> Iterator["Stream"]:
        return self.steps()

    def close(self) -> None:
        """End the step, if one was begun, and leave the stream."""
        if self._handle.closed:
            return
        try:
            if self._begun and self._out is not None:
                self.end_step()
        finally:
            self._step = None
            for end in (self._in, self._out):
                if end is not None:
                    end.close()
            self._handle.close()

    # -- writing --

    def _put(self, name: str, content: Any, shape: Sequence[int], start: Sequence[int]) -> None:
        assert self._out is not None
        if isinstance(content, str):
            data: Any = memoryview(content.encode()).cast("c") if content else memoryview(b"")
        else:
            data = numpy.asarray(content)
            if not (data.flags.c_contiguous or data.flags.f_contiguous):
                data = numpy.ascontiguousarray(data)
        if len(shape) > 0:
            self._out.put(name, data, shape=list(shape), offset=list(start))
        else:
            self._out.put(name, data)

    def write(
        self,
        name: Union[str, Variable],
        content: Any,
        shape: Sequence[int] = (),
        start: Sequence[int] = (),
        count: Sequence[int] = (),
        operations: Any = None,
    ) -> None:
        """Add a variable to the step: an array of NumPy, a list, a number, or a text.

        With `shape`, it is the piece of a global array that begins at `start`, of the shape `count`.
        Arrays are read by `end_step()`, and must not change until then.
        """
        if self._out is None:
            raise make_error(errno.EINVAL, f"stream '{self._name}' was opened for reading")
        if isinstance(name, Variable):
            shape, (start, count), name = name._shape, name._selection, name._name
        if len(count) > 0 and not isinstance(content, str):
            content = numpy.asarray(content).reshape(list(count))
        self._put(name, content, shape, start)

    def write_attribute(
        self, name: str, content: Any, variable_name: str = "", separator: str = "/"
    ) -> None:
        """Set an attribute of the stream, or of a variable: of this step, and all that follow."""
        if self._out is None:
            raise make_error(errno.EINVAL, f"stream '{self._name}' was opened for reading")
        self._attributes[_attribute(name, variable_name, separator)] = content

    # -- reading --

    def _current(self) -> Step:
        if self._step is None:
            raise make_error(errno.EINVAL, f"no step of stream '{self._name}' was begun")
        return self._step

    def _find(self, name: str, block: Optional[int] = None) -> Optional[_Found]:
        """What a variable is; None for bytes that nobody has described, of nothing, or without it."""
        step = self._current()
        try:
            return step.inquire(name, block)
        except FluxError as e:
            if e.errno == errno.EINVAL and block is None:
                return self._find(name, 0)
            if e.errno != errno.ENOENT:
                raise
        return None

    def read(
        self,
        name: Union[str, Variable],
        start: Sequence[int] = (),
        count: Sequence[int] = (),
        block_id: Optional[int] = None,
        step_selection: Any = None,
    ) -> Any:
        """A variable of the step: a new array of NumPy, a number of it, or a text.

        Of a global array all of it, or the box that begins at `start`, of the shape `count`; with
        `block_id`, or of what is not global, what the writer of this rank (0) has put.
        """
        if isinstance(name, Variable):
            if len(start) == 0 and len(count) == 0:
                start, count = name._selection
            block_id = name._block if block_id is None else block_id
            name = name._name
        found = self._find(name, block_id)
        step = self._current()
        if found is None:
            return numpy.frombuffer(step.get(name, block_id or 0), "u1").copy()
        if found.is_global and block_id is None:
            if len(count) == 0:
                return step.read(name)
            return step.read(name, list(start) or [0] * len(count), list(count))
        if found.type == "char":
            return bytes(step.get(name, block_id or 0)).decode(errors="replace")
        return step.array(name, block_id or 0).copy()[()]

    def read_in_buffer(
        self,
        name: Union[str, Variable],
        buffer: Any,
        start: Sequence[int] = (),
        count: Sequence[int] = (),
        block_id: Optional[int] = None,
    ) -> None:
        """The same, into an array of NumPy."""
        plain = buffer.flags.c_contiguous and buffer.dtype.isnative
        if plain and not isinstance(name, Variable) and block_id is None:
            found = self._find(name)
            if found is not None and found.is_global and found.dtype == buffer.dtype.str[1:]:
                if not found.columns:
                    first = list(start) or [0] * len(found.shape)
                    box = list(count) or list(found.shape)
                    self._current().read_into(name, buffer, first, box)
                    return
        buffer[...] = numpy.asarray(self.read(name, start, count, block_id)).reshape(buffer.shape)

    def inquire_variable(self, name: str) -> Optional[Variable]:
        """A variable of the step, or None."""
        if self._out is not None:
            return self._io.inquire_variable(name)
        found = self._find(name)
        return None if found is None else Variable(name, found)

    def available_variables(self) -> Dict[str, Dict[str, str]]:
        """The names of the variables of the step, with type and shape as texts."""
        result: Dict[str, Dict[str, str]] = {}
        for writer in range(self._in.writers if self._in is not None else 0):
            for name in self._current().variables(writer):
                if name.startswith("@") or name in result:
                    continue
                found = self._find(name, writer)
                v = Variable(name, found)
                shape = ", ".join(map(str, v.shape()))
                single = "true" if v.single_value() else "false"
                result[name] = {"Type": v.type() or "char", "Shape": shape, "SingleValue": single}
        return result

    def available_attributes(
        self, variable_name: str = "", separator: str = "/"
    ) -> Dict[str, Dict[str, str]]:
        """The names of the attributes, with their types and values as texts."""
        before = _attribute("", variable_name, separator)
        result: Dict[str, Dict[str, str]] = {}
        for name in self._current().variables():
            if name.startswith(before):
                v = Variable(name, self._find(name, 0))
                result[name[len(before) :]] = {"Type": v.type(), "Value": str(self.read(name))}
        return result

    def read_attribute(self, name: str, variable_name: str = "", separator: str = "/") -> Any:
        """The value of an attribute."""
        return self.read(_attribute(name, variable_name, separator), block_id=0)

    def read_attribute_string(
        self, name: str, variable_name: str = "", separator: str = "/"
    ) -> str:
        """The same, as a text."""
        return str(self.read_attribute(name, variable_name, separator))


def _attribute(name: str, variable: str, separator: str) -> str:
    return f"@{variable}{separator}{name}" if variable else f"@{name}"
