"""Streams with the call names of the package adios2, for programs that were written for it.

from flux.adios2 import Stream                  # in place of: from adios2 import Stream

with Stream("heat", "w") as s:                  # or Stream("heat", "w", comm), as mpi4py has it
    for _ in s.steps(10):
        s.write("T", T, shape, start, count)

with Stream("heat", "r") as s:
    for _ in s.steps():
        part = s.read("T", [0, 0], [10, 100])

Each stream is one of Flux (flux.stream) in the session of the environment, so `flux stream` shows
it, and programs in other languages read it. `FileReader` reads a file of `flux stream record`, also
without a session. Engines and transports can be named, and have no effect. What streams cannot do,
such as operators, or several steps in one read, is NotImplementedError. An attribute is one of the
stream (flux_stream_put_attr(3)).
"""

import enum
import errno
import uuid
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy

from .errors import FluxError, make_error
from .handle import Handle
from .stream import Recording, Step, StreamReader, StreamWriter, is_failure
from .stream import Variable as _Found

__all__ = ["Adios", "Attribute", "FileReader", "IO", "StepStatus", "Stream", "Variable"]

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


def _type_name(kind: str) -> str:
    """The name that adios2 has for a type of elements."""
    return _TYPES.get(kind) or f"{'u' if kind[0] == 'u' else ''}int{kind[1:]}_t"


class Attribute:
    """An attribute, and its value."""

    def __init__(self, name: str, content: Any) -> None:
        self._name = name
        self._content = content

    def name(self) -> str:
        """Its name."""
        return self._name

    def single_value(self) -> bool:
        """Is it a text or a number, and not a list?"""
        return isinstance(self._content, str) or numpy.ndim(self._content) == 0

    def type(self) -> str:
        """The type of its value, such as "string" or "double"."""
        if self._content is None:
            return ""
        kind = numpy.asarray(self._content).dtype
        if kind.kind in "US":
            return "string"
        return _type_name(f"{'f' if kind.kind == 'f' else kind.kind}{8 * kind.itemsize}")

    def data(self) -> Any:
        """Its value, if that is not a text."""
        return numpy.asarray(self._content)

    def data_string(self) -> Any:
        """Its value, a text, or a list of texts."""
        return self._content if isinstance(self._content, (str, list)) else str(self._content)


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
        return _type_name(self._found.type)

    def sizeof(self) -> int:
        """The bytes of an element; 0 before it was written."""
        return self._found.elem if self._found is not None else 0

    def steps(self) -> int:
        """A variable of a step has one."""
        return 1

    def block_id(self) -> int:
        """The writer whose piece is read, if one was selected; else 0."""
        return self._block or 0

    def selection_size(self) -> int:
        """The number of elements of the selection."""
        return int(numpy.prod(self.count(), dtype=int))

    def set_step_selection(self, step_selection: Sequence[int]) -> None:
        """Several steps are not read at once."""
        _only_this_step(step_selection)

    def add_operation(self, *_operation: Any) -> int:
        """Operators, such as compression, are not there."""
        raise NotImplementedError(f"variable {self._name}: streams have no operators")

    add_operation_string = add_operation

    def shape(self, _step: Any = None) -> List[int]:
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


class _Block(Dict[str, str]):
    """What a writer has of a variable. "Min" and "Max" are computed when one is asked for."""

    def __init__(self, step: Step, name: str, writer: int, known: Dict[str, str]) -> None:
        super().__init__(known)
        self._of = (step, name, writer)

    def __missing__(self, key: str) -> str:
        if key not in ("Min", "Max"):
            raise KeyError(key)
        step, name, writer = self._of
        values = step.array(name, writer)
        if values.dtype.kind not in "biuf" or values.size == 0:
            raise KeyError(key)
        if values.dtype.kind == "b":
            values = values.view("u1")
        # What is not a number does not count.
        self["Min"] = str(numpy.fmin.reduce(values, axis=None))
        self["Max"] = str(numpy.fmax.reduce(values, axis=None))
        return self[key]


def _only_this_step(step_selection: Any) -> None:
    if step_selection is not None and len(step_selection) > 0 and list(step_selection) != [0, 1]:
        raise NotImplementedError(
            "a step of a stream is read after begin_step(), and several one after the other: "
            "FileReader selects steps of a recording"
        )


class IO:
    """Parameters of streams, and their variables and attributes.

    "QueueLimit": how many steps wait for a reader at most (0: 2, or more in 64 MiB; a limit of the
    writer holds for all readers). "QueueFullPolicy": "Block" or "Discard", which drops the oldest
    step of a reader, or, of a writer, the new step; writers that write a stream together decide
    that each by itself, and readers get the steps that all have published. "RendezvousReaderCount"
    (1), for which a writer waits when it opens the stream; "OpenTimeoutSecs", how long either waits
    (no limit).
    """

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._engine = ""
        self._parameters: Dict[str, str] = {}
        self._variables: Dict[str, Variable] = {}
        self._attributes: Dict[str, Attribute] = {}

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

    def remove_variable(self, name: str) -> bool:
        """Forget one; False if it was not defined."""
        return self._variables.pop(name, None) is not None

    def remove_all_variables(self) -> None:
        """Forget all."""
        self._variables.clear()

    def define_attribute(
        self, name: str, content: Any = None, variable_name: str = "", separator: str = "/"
    ) -> Attribute:
        """An attribute, which streams that are written with this IO get with their next step."""
        attribute = Attribute(_key(name, variable_name, separator), content)
        self._attributes[attribute.name()] = attribute
        return attribute

    def inquire_attribute(
        self, name: str, variable_name: str = "", separator: str = "/"
    ) -> Optional[Attribute]:
        """One that was defined."""
        return self._attributes.get(_key(name, variable_name, separator))

    def remove_attribute(self, name: str) -> bool:
        """Forget one; False if it was not defined."""
        return self._attributes.pop(name, None) is not None

    def remove_all_attributes(self) -> None:
        """Forget all."""
        self._attributes.clear()

    def available_attributes(
        self, variable_name: str = "", separator: str = "/"
    ) -> Dict[str, Dict[str, str]]:
        """Those that were defined, with their types and values as texts."""
        before = _key("", variable_name, separator)
        return {
            name[len(before) :]: {"Type": a.type(), "Value": str(a._content)}
            for name, a in self._attributes.items()
            if name.startswith(before)
        }

    def open(self, name: str, mode: Any, comm: Any = None) -> "Stream":
        """The engine of adios2 is not there; its Stream is."""
        text = f"open {name} with Stream(io, name, mode, comm), not as an engine"
        raise NotImplementedError(text)

    def _lower(self) -> Dict[str, str]:
        return {key.lower(): value for key, value in self._parameters.items()}

    def _opening(self) -> Dict[str, Any]:
        text = self._lower().get("opentimeoutsecs")
        return {"timeout": None if text is None else float(text)}

    def _discards(self) -> bool:
        policy = self._lower().get("queuefullpolicy", "Block")
        if policy.lower() not in ("block", "discard"):
            raise ValueError(f"QueueFullPolicy is Block or Discard, not {policy}")
        return policy.lower() == "discard"

    def _queue(self) -> Dict[str, Any]:
        limit = int(self._lower().get("queuelimit", 0))
        if limit < 0:
            raise ValueError(f"QueueLimit is a number of steps, or 0, not {limit}")
        return {"depth": limit, **self._opening()}

    def _writing(self) -> Dict[str, Any]:
        return {"readers": int(self._lower().get("rendezvousreadercount", 1)), **self._queue()}

    def _reading(self) -> Dict[str, Any]:
        return {"policy": "drop-oldest" if self._discards() else None, **self._queue()}


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


def _team(comm: Any) -> Dict[str, Any]:
    """The processes of a communicator as a team of readers: rank 0 names it."""
    if comm is None or comm.Get_size() == 1:
        return {}
    rank = comm.Get_rank()
    name = comm.bcast(f"adios2.{uuid.uuid4()}" if rank == 0 else None, 0)
    return {"team": name, "rank": rank, "size": comm.Get_size()}


class Stream:
    """An end of a stream: Stream(name, mode [, comm]) or Stream(io, name, mode [, comm]).

    `mode` is "w" or "r". Opening a stream for reading waits until all its writers are there, and
    for writing, until there is a reader (`IO`). With a communicator, its processes write the stream
    together, or read the same steps of it, as a team; each reads what it needs of a step.
    """

    def __init__(self, *args: Any, comm: Any = None) -> None:
        io = args[0] if args and isinstance(args[0], IO) else IO()
        rest = args[1:] if args and args[0] is io else args
        if not 2 <= len(rest) <= 3:
            raise TypeError("a stream has a name, a mode, and perhaps a communicator")
        name, mode = str(rest[0]), rest[1]
        comm = rest[2] if len(rest) > 2 else comm
        if mode in ("a", "rra"):
            raise NotImplementedError(
                f"stream '{name}': mode {mode} is for files; FileReader reads a recording of a "
                "stream, and a writer that is started again continues its stream with mode w"
            )
        if mode not in ("w", "r"):
            raise ValueError(f"a stream has no mode '{mode}', only w and r")
        discards = io._discards()
        self._io = io
        self._name = name
        self._mode = mode
        self._out: Optional[StreamWriter] = None
        self._in: Optional[StreamReader] = None
        self._step: Optional[Step] = None
        self._status = StepStatus.NotReady
        self._begun = False
        self._index = -1
        self._discards = discards and mode == "w"
        self._attributes: Dict[str, Any] = {}  # that were put
        self._handle: Optional[Handle] = Handle()
        try:
            if mode == "w":
                rank, size = (0, 1) if comm is None else (comm.Get_rank(), comm.Get_size())
                self._out = self._handle.stream_writer(name, rank=rank, size=size, **io._writing())
            else:
                self._in = self._handle.stream_reader(name, **io._reading(), **_team(comm))
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

    def __next__(self) -> "Stream":
        """End the step that was begun, if there is one, and begin the next one."""
        if self._out is not None:
            raise RuntimeError("a writer has to say how many steps it writes")
        if self._begun:
            self.end_step()
        if self.begin_step() is not StepStatus.OK:
            raise StopIteration
        self._index += 1
        return self

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
            self._put_attributes()
            self._publish(self._out)
        elif self._in is not None:
            self._step = None
            self._in.end_step()
        self._begun = False

    def _put_attributes(self) -> None:
        """Put attributes that are new, or have another value: they are pinned."""
        assert self._out is not None
        for name, attribute in self._io._attributes.items():
            content = attribute._content
            known = self._attributes.get(name)
            same = type(known) is type(content) and numpy.array_equal(known, content)
            if content is None or same:
                continue
            self._put("@" + name, content, [], [], pinned=True)
            self._attributes[name] = content

    def _publish(self, out: StreamWriter) -> None:
        if not self._discards:
            out.end_step()
            return
        try:
            out.end_step(0.0)
        except TimeoutError:  # readers have no room: this step is not for them
            self._attributes.clear()  # those of it are put again
            out.drop_step()

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

    def num_steps(self) -> int:
        """The number of steps: only a recording has one."""
        raise NotImplementedError(
            f"stream '{self._name}': the number of steps is not known before its end; FileReader "
            "knows that of a recording"
        )

    def __iter__(self) -> Iterator["Stream"]:
        return self if self._out is None else self.steps()

    def close(self) -> None:
        """End the step, if one was begun, and leave the stream."""
        if self._handle is None or self._handle.closed:
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

    def _put(
        self,
        name: str,
        content: Any,
        shape: Sequence[int],
        start: Sequence[int],
        pinned: bool = False,
    ) -> None:
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
            self._out.put(name, data, pinned=pinned)

    def define_variable(self, name: str) -> Variable:
        """A variable of the IO, to be written."""
        return self._io.define_variable(name)

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

        With `shape`, it is the piece of a global array that begins at `start`, of the shape
        `count`. Arrays are read by `end_step()`, and must not change until then.
        """
        if self._out is None:
            raise make_error(errno.EINVAL, f"stream '{self._name}' was opened for reading")
        if operations:
            raise NotImplementedError(f"stream '{self._name}' has no operators for variable {name}")
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
        self._io.define_attribute(name, content, variable_name, separator)

    # -- reading --

    def _current(self) -> Step:
        if self._step is None:
            raise make_error(errno.EINVAL, f"no step of stream '{self._name}' was begun")
        return self._step

    def _find(self, name: str, block: Optional[int] = None) -> Optional[_Found]:
        """What a variable is; None for bytes that nobody has described, or without the variable."""
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
        _only_this_step(step_selection)
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
        step_selection: Any = None,
    ) -> None:
        """The same, into an array of NumPy."""
        _only_this_step(step_selection)
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

    def all_blocks_info(self, name: str) -> List[List[Dict[str, str]]]:
        """Of a variable of the step: for each step (this one) what each writer has of it.

        Texts, as adios2 has them: "Start", "Count", "BlockID", "WriterID", "Step", "Shape",
        "IsValue" and "IsReverseDims". "Min" and "Max" are computed when they are asked for, as
        `block["Min"]`, from the values of the writer, while the step is begun; KeyError if these
        are not numbers, or complex.
        """
        step = self._current()
        blocks: List[Dict[str, str]] = []
        for writer in range(self._in.writers if self._in is not None else 0):
            found = self._find(name, writer)
            if found is None:
                continue
            shape = found.shape if found.is_global else ()
            places = [("Start", found.offset), ("Count", found.count), ("Shape", shape)]
            info = {what: ",".join(map(str, numbers)) for what, numbers in places}
            info.update(BlockID=str(writer), WriterID=str(writer), Step=str(step.number))
            info["IsValue"] = "0" if found.count else "1"
            info["IsReverseDims"] = "1" if found.columns else "0"
            blocks.append(_Block(step, name, writer, info))
        if not blocks:
            text = f"step {step.number} of stream '{self._name}' has no {name}"
            raise make_error(errno.ENOENT, text)
        return [blocks]

    def available_attributes(
        self, variable_name: str = "", separator: str = "/"
    ) -> Dict[str, Dict[str, str]]:
        """The names of the attributes, with their types and values as texts."""
        if self._out is not None:
            return self._io.available_attributes(variable_name, separator)
        before = "@" + _key("", variable_name, separator)
        result: Dict[str, Dict[str, str]] = {}
        step = self._current()
        for writer in range(self._in.writers if self._in is not None else 0):
            for key in step.variables(writer) + step.pinned(writer):
                name = key[len(before) :]
                if key.startswith(before) and name not in result:
                    a = Attribute(name, step._value(key, writer))
                    kind = self._attribute_type(key, writer)
                    result[name] = {"Type": kind, "Value": str(a._content)}
        return result

    def _attribute_type(self, key: str, writer: int) -> str:
        found = self._find(key, writer)
        return "string" if found is None or found.type == "bytes" else _type_name(found.type)

    def inquire_attribute(
        self, name: str, variable_name: str = "", separator: str = "/"
    ) -> Optional[Attribute]:
        """An attribute, or None."""
        if self._out is not None:
            return self._io.inquire_attribute(name, variable_name, separator)
        key = _key(name, variable_name, separator)
        try:
            return Attribute(key, self._current().attribute(key))
        except FluxError as e:
            if e.errno != errno.ENOENT:
                raise
        return None

    def read_attribute(self, name: str, variable_name: str = "", separator: str = "/") -> Any:
        """The value of an attribute."""
        value = self._current().attribute(_key(name, variable_name, separator))
        return numpy.asarray(value) if isinstance(value, list) else value

    def read_attribute_string(
        self, name: str, variable_name: str = "", separator: str = "/"
    ) -> str:
        """The same, as a text."""
        return str(self.read_attribute(name, variable_name, separator))


class FileReader(Stream):
    """A recording (`flux stream record`): all of its steps, in any order, also without a session.

    Without `step_selection`, what is read is of the step that `begin_step()`, or a loop over the
    reader, has begun, or else of the first one.
    """

    # pylint: disable-next=super-init-not-called
    def __init__(self, path: Any, comm: Any = None) -> None:
        self._in: Optional[Recording] = Recording(path)  # type: ignore[assignment]
        self._name = str(path)
        self._mode = "rra"
        self._io = IO()
        self._out = None
        self._handle = None
        self._step: Optional[Step] = None
        self._status = StepStatus.NotReady
        self._begun = False
        self._index = -1
        self._next = 0
        self._attributes = {}

    def _record(self) -> Recording:
        if self._in is None:
            raise make_error(errno.ECANCELED, f"recording {self._name} was closed")
        assert isinstance(self._in, Recording)
        return self._in

    def num_steps(self) -> int:
        """The number of steps."""
        return len(self._record())

    def begin_step(self, *, timeout: float = -1.0) -> StepStatus:
        """Begin the next step; nothing waits."""
        if self._begun:
            return StepStatus.OtherError
        record = self._record()
        if self._next >= len(record):
            self._status = StepStatus.EndOfStream
            return self._status
        self._at(self._next)
        self._next += 1
        self._begun = True
        self._status = StepStatus.OK
        return self._status

    def _at(self, index: int) -> Step:
        record = self._record()
        number = record.numbers[index]
        if self._step is None or self._step.number != number:
            self._step = record.begin_step(number)
        assert self._step is not None
        return self._step

    def _current(self) -> Step:
        return self._step if self._begun and self._step is not None else self._at(0)

    def end_step(self) -> None:
        """Release the step."""
        self._begun = False
        self._step = None
        self._record().end_step()

    def read(
        self,
        name: Union[str, Variable],
        start: Sequence[int] = (),
        count: Sequence[int] = (),
        block_id: Optional[int] = None,
        step_selection: Any = None,
    ) -> Any:
        """A variable: see `Stream.read()`. With `step_selection`, [first, count], of these steps,
        one after the other in the first dimension of the array (of values and texts: in a list)."""
        if step_selection is None or len(step_selection) == 0:
            return super().read(name, start, count, block_id)
        if self._begun:
            raise RuntimeError(f"recording {self._name}: a step was begun, and others are selected")
        first, number = (int(n) for n in step_selection)
        if first < 0 or number < 1 or first + number > self.num_steps():
            text = f"steps {first} to {first + number - 1} are not among the {self.num_steps()}"
            raise make_error(errno.ERANGE, f"recording {self._name}: {text}")
        parts = []
        for index in range(first, first + number):
            self._at(index)
            self._begun = True  # what is read is of this step
            try:
                parts.append(super().read(name, start, count, block_id))
            finally:
                self._begun = False
        if all(isinstance(part, str) for part in parts):
            return parts if number > 1 else parts[0]
        if all(numpy.ndim(part) == 0 for part in parts):
            return numpy.asarray(parts)
        return numpy.concatenate(parts) if number > 1 else parts[0]

    def close(self) -> None:
        """Close the file."""
        self._step = None
        self._begun = False
        if self._in is not None:
            self._in.close()
            self._in = None


def _key(name: str, variable: str, separator: str) -> str:
    return f"{variable}{separator}{name}" if variable else name
