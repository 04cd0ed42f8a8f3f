"""Jobs: submit, list, wait, watch, read their output, cancel.

jobs = handle.jobs
id = jobs.submit(["hostname"], nodes=2, time_limit="90s")
print(jobs.wait(id).result)
for record in jobs.output(id):
    print(record.task, record.data.decode(), end="")
"""

import collections
import collections.abc
import dataclasses
import errno
import json
import os
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from . import _c
from ._libflux import ffi, lib
from .errors import FluxError, checked, fail, make_error
from .future import Future
from .jobspec import Program, make_jobspec
from .kvs import KVS

if TYPE_CHECKING:
    from .handle import Handle

__all__ = [
    "Jobs",
    "JobInfo",
    "JobEnded",
    "JobsError",
    "Transition",
    "OutputRecord",
    "Program",
    "make_jobspec",
]

_Ids = Union[int, str, Iterable[int]]
_FRAME_FIRST = 64  # jobs of the first request: the service has work while the next one is made
_FRAME_JOBS = 1000
_FRAME_BYTES = 1 << 20
_WINDOW = 4  # requests under way
_PIECE = lib.FLUX_KVS_STORE_MAX


class JobsError(FluxError):
    """Something failed for some of several jobs; it was done to the others.

    `errors`: the error of each of them, by its id (of a submission: its place). `ids`: of a
    submission the ids of all jobs, None where one was rejected. `count`: how many succeeded.
    """

    def __init__(
        self, errors: Dict[int, FluxError], count: int, ids: Sequence[Optional[int]] = ()
    ) -> None:
        number, first = next(iter(errors.items()))
        more = f" (and {len(errors) - 1} others)" if len(errors) > 1 else ""
        super().__init__(first.errno, f"job {number}: {first}{more}")
        self.errors = errors
        self.count = count
        self.ids = list(ids)


@dataclasses.dataclass(frozen=True)
class JobInfo:
    """A job as `Jobs.list()` has it. Times are seconds since 1970, 0 when not known (yet)."""

    id: int
    uid: int
    urgency: int
    state: str  # DEPEND, PRIORITY, SCHED, RUN, CLEANUP, INACTIVE
    priority: int = 0
    name: str = ""
    nnodes: int = 0
    ntasks: int = 0
    ncores: int = 0
    duration: float = 0.0  # limit in seconds; 0: none
    t_submit: float = 0.0
    t_depend: float = 0.0
    t_run: float = 0.0
    t_cleanup: float = 0.0
    t_inactive: float = 0.0
    t_estimate: float = 0.0  # when it is expected to start (estimates=True)
    expiration: float = 0.0
    ranks: str = ""
    nodelist: str = ""
    switches: str = ""
    hops: float = 0.0
    result: str = ""  # completed, failed, canceled, timeout; "": has not ended
    code: int = 0
    exception: str = ""
    note: str = ""
    canceled_by: int = -1
    failed: Optional[dict] = None
    warning: str = ""
    why: str = ""  # why it waits (estimates=True)
    uri: str = ""
    dependency: str = ""

    @property
    def status(self) -> str:
        """The word of `flux jobs` for its state: pending, running, completed..."""
        state = lib.job_state_parse(self.state.encode())
        result = lib.job_result_parse(self.result.encode()) if self.result else 0
        if state < 0 or result < 0:
            return self.result or self.state
        return _c.string(lib.job_state_word(state, self.urgency, result))


@dataclasses.dataclass(frozen=True)
class JobEnded:
    """How a job ended."""

    id: int
    result: str = ""  # completed, failed, canceled, timeout
    code: int = 0  # exit code; 128 + signal
    text: str = ""  # what ended it, when that was not its tasks
    warning: str = ""
    error: int = 0
    canceled_by: int = -1
    failed: Optional[dict] = (
        None  # tasks that failed: {"count":, "first": [[task, rank, host, status]]}
    )


class Transition(NamedTuple):
    """A job came into a state."""

    id: int
    state: str
    time: float


class OutputRecord(NamedTuple):
    """A piece of the output of a task."""

    task: int
    stream: int  # 1: standard output, 2: standard error
    data: bytes


class Jobs:
    """The job service of a session (`Handle.jobs`).

    `ids` are a number, an idset ("1-1000,2007"), or an iterable of numbers. Methods wait, at most
    `timeout` seconds where they have this argument; those whose name ends in `_async` return a
    future.
    """

    def __init__(self, handle: "Handle") -> None:
        self._handle = handle

    def _open(self):
        self._handle._check()
        return self._handle._h

    # -- submission --

    def submit(
        self,
        job: Union[None, str, Sequence, Mapping] = None,
        *,
        urgency: Union[int, str] = "default",
        env: Optional[Mapping[str, Optional[str]]] = None,
        timeout: Optional[float] = None,
        **options: Any,
    ) -> int:
        """Submit a job and return its id.

        `job`: a command (its words, or a str that is split into words), or a jobspec (a dict).
        `options`: of `make_jobspec()`, for a command. `urgency`: 0 to 31, "hold", "default",
        "expedite". `env`: changes to the environment of this process, which tasks get; None unsets
        a variable. FluxError if the job is rejected.
        """
        with self.submit_async(job, urgency=urgency, env=env, **options) as future:
            return future.get(timeout)

    def submit_async(
        self,
        job: Union[None, str, Sequence, Mapping] = None,
        *,
        urgency: Union[int, str] = "default",
        env: Optional[Mapping[str, Optional[str]]] = None,
        **options: Any,
    ) -> Future:
        """The same as a future, whose result is the id."""
        with _Writer(self, env) as writer:
            writer.add(_spec_text(job, options), _urgency(urgency))
            return writer.send(_decode_one)

    def submit_many(
        self,
        jobs: Iterable[Union[str, Sequence, Mapping]],
        *,
        urgency: Union[int, str] = "default",
        env: Optional[Mapping[str, Optional[str]]] = None,
        timeout: Optional[float] = None,
        **options: Any,
    ) -> List[int]:
        """Submit many jobs, in batches, and return their ids in this order.

        Arguments as of `submit()`, for all of them. If jobs are rejected, the others are
        submitted, and JobsError has the ids and the errors. `timeout` is for each batch.
        """
        number = _urgency(urgency)
        under_way: collections.deque = collections.deque()
        ids: List[Optional[int]] = []
        errors: Dict[int, FluxError] = {}

        def finish() -> None:
            future, count = under_way.popleft()
            with future:
                _collect(future.get(timeout), count, ids, errors)

        def send(writer: "_Writer") -> None:
            if len(under_way) == _WINDOW:
                finish()
            count = writer.count
            under_way.append((writer.send(_decode_json), count))

        with _Writer(self, env) as writer:
            limit = _FRAME_FIRST
            for job in jobs:
                text = _spec_text(job, options)
                if (
                    writer.count >= limit
                    or writer.count
                    and writer.size + len(text) > _FRAME_BYTES
                ):
                    send(writer)
                    limit = _FRAME_JOBS
                writer.add(text, number)
            if writer.count:
                send(writer)
        while under_way:
            finish()
        if errors:
            raise JobsError(errors, len(ids) - len(errors), ids)
        return [number for number in ids if number is not None]

    # -- lists --

    def list(
        self,
        ids: Optional[_Ids] = None,
        *,
        name: Optional[str] = None,
        states: Iterable[str] = (),
        user: Optional[int] = None,
        max: int = 0,
        since: float = 0.0,
        estimates: bool = False,
        timeout: Optional[float] = None,
    ) -> Iterator[JobInfo]:
        """Jobs, in the order of the queue: the active ones by default, or those of `ids`.

        `states`: names of states ("SCHED", "INACTIVE"). `user`: a user id. `max`: how many.
        `since`: of ended jobs only those that ended then or later. `estimates`: with `t_estimate`
        and `why`.
        """
        query = ffi.new("struct job_list *")
        lib.flux_job_list_init(query)
        texts = [
            ffi.NULL if text is None else ffi.new("char[]", text)
            for text in (
                None if ids is None else _ids(ids),
                None if name is None else _c.text(name, "the name"),
            )
        ]
        query.ids, query.name = texts
        for state in [states] if isinstance(states, str) else states:
            bit = lib.job_state_parse(_c.text(state, "a state"))
            if bit < 0:
                raise ValueError(f"'{state}' is not a state of jobs")
            query.states |= 1 << bit
        if user is not None:
            query.user = user
        query.max = max
        query.since = since
        query.estimates = estimates
        future = Future(self._handle, lib.flux_job_list(self._open(), query), _decode_json)
        return self._pages(future, timeout)

    @staticmethod
    def _pages(future: Future, timeout: Optional[float]) -> Iterator[JobInfo]:
        with future:
            for page in future.results(timeout):
                for job in page["jobs"]:
                    yield _from_dict(JobInfo, job)

    def get(self, id: int, *, timeout: Optional[float] = None) -> JobInfo:
        """One job. FluxError (ENOENT) if there is none of this id."""
        for job in self.list(id, timeout=timeout):
            return job
        raise make_error(errno.ENOENT, f"there is no job {id}")

    def jobspec(self, id: int, *, timeout: Optional[float] = None) -> dict:
        """The jobspec of a job, as it was submitted."""
        return KVS(self._handle).get(f"job.{id:d}.jobspec", dict, timeout=timeout)

    # -- ends and states --

    def wait(self, id: int, *, timeout: Optional[float] = None) -> JobEnded:
        """Wait for the end of a job. FluxError (ENOENT) if there is none of this id."""
        with self.wait_async(id) as future:
            return future.get(timeout)

    def wait_async(self, id: int) -> Future:
        """The same as a future."""
        return Future(self._handle, lib.flux_job_wait(self._open(), _ids(id)), _decode_ended)

    def wait_all(
        self, ids: Optional[_Ids] = None, *, timeout: Optional[float] = None
    ) -> Iterator[JobEnded]:
        """Jobs as they end; without `ids` all that are active now.

        A job that does not exist has an `error`. `timeout` is for each.
        """
        pointer = lib.flux_job_wait(self._open(), ffi.NULL if ids is None else _ids(ids))
        future = Future(self._handle, pointer, _decode_json)

        def ends() -> Iterator[JobEnded]:
            with future:
                for page in future.results(timeout):
                    for job in page["ended"]:
                        yield _from_dict(JobEnded, job)

        return ends()

    def watch(
        self, ids: Optional[_Ids] = None, *, timeout: Optional[float] = None
    ) -> Iterator[Transition]:
        """Transitions of jobs, from their present states on, until these have ended.

        Without `ids` of all jobs, without end.
        """
        if ids is not None:
            ids = [ids] if isinstance(ids, int) else list(_c.members(ids))
        future = self.watch_async(ids)

        def transitions() -> Iterator[Transition]:
            with future:
                if ids is None:
                    for page in future.results(timeout):
                        yield from page
                    return
                # The service tells of active jobs only: ask for those that have ended before.
                left = set(ids)
                known = {job.id: job for job in self.list(ids, timeout=timeout)}
                for number in ids:
                    if number not in known:
                        raise make_error(errno.ENOENT, f"there is no job {number}")
                    if known[number].state == "INACTIVE":
                        left.discard(number)
                        yield Transition(number, "INACTIVE", known[number].t_inactive)
                while left:
                    for transition in future.get(timeout):
                        if transition.id in left:
                            if transition.state == "INACTIVE":
                                left.discard(transition.id)
                            yield transition
                    future.next()

        return transitions()

    def watch_async(self, ids: Optional[_Ids] = None) -> Future:
        """Transitions of active jobs, as a stream of lists, which does not end."""
        pointer = lib.flux_job_watch(self._open(), ffi.NULL if ids is None else _ids(ids))
        return Future(self._handle, pointer, _decode_transitions)

    def events(
        self, id: int, *, follow: bool = False, timeout: Optional[float] = None
    ) -> Iterator[dict]:
        """The event log of a job (RFC 18): {"timestamp":, "name":, "context":} for each event.

        `follow`: wait for further events, until the job has ended.
        """
        key = f"job.{id:d}.eventlog"
        if not follow:
            yield from _lines(KVS(self._handle).get(key, bytes, timeout=timeout))[0]
            return
        with KVS(self._handle).watch(key, append=True) as future:
            rest = b""
            for result in future.results(timeout):
                if result.value is None:
                    raise make_error(errno.ENOENT, f"there is no job {id}")
                events, rest = _lines((b"" if result.whole else rest) + bytes(result.value))
                for event in events:
                    yield event
                    if event["name"] == "clean":
                        return

    # -- output --

    def output(
        self, id: int, *, follow: bool = True, timeout: Optional[float] = None
    ) -> Iterator[OutputRecord]:
        """The output of a job in the key-value store, in records of its tasks.

        `follow`: wait for more, until the job has ended; `timeout` is for each wait. Bytes are
        asked for when the caller wants them, so that output of any size takes little memory.
        """
        kvs = KVS(self._handle)
        key = f"job.{id:d}.output"
        parser = _OutputParser()
        seen = 0

        def pieces(size: int) -> Iterator[OutputRecord]:
            nonlocal seen
            while seen < size:
                piece = kvs.get_range(key, seen, min(_PIECE, size - seen), timeout=timeout)
                if not piece:
                    raise make_error(errno.ENOENT, f"the output of job {id} was purged")
                seen += len(piece)
                yield from parser.take(piece)

        if not follow:
            entries = kvs.entries(f"job.{id:d}", timeout=timeout)
            if "output" in entries:
                yield from pieces(entries["output"].size)
            return
        # The log and the output are in one directory, whose watch tells when either has grown. The
        # last output is in the store before the log says that the job has ended.
        log = 0
        rest = b""
        with kvs.watch(f"job.{id:d}") as future:
            for result in future.results(timeout):
                if result.entries is None:
                    raise make_error(errno.ENOENT, f"there is no job {id}")
                ended = False
                entry = result.entries.get("eventlog")
                while entry and log < entry.size and not ended:
                    piece = kvs.get_range(
                        f"job.{id:d}.eventlog", log, min(_PIECE, entry.size - log), timeout=timeout
                    )
                    log += len(piece)
                    events, rest = _lines(rest + bytes(piece))
                    ended = any(event["name"] == "clean" for event in events)
                if "output" in result.entries:
                    yield from pieces(result.entries["output"].size)
                if ended:
                    return

    # -- acts --

    def _act(self, pointer, timeout: Optional[float]) -> int:
        with Future(self._handle, pointer, _decode_json) as future:
            answer = future.get(timeout)
        errors = {
            number: make_error(errnum, text) for number, errnum, text in answer.get("errors", ())
        }
        if errors:
            raise JobsError(errors, answer["count"])
        return answer["count"]

    def cancel(
        self, ids: _Ids, note: Optional[str] = None, *, timeout: Optional[float] = None
    ) -> int:
        """Cancel jobs, and return their number. `note` goes to their records.

        Pending jobs are removed from the queue, running jobs get SIGTERM and, after their grace
        period, SIGKILL. JobsError if that was not possible for some.
        """
        return self._act(
            lib.flux_job_cancel(self._open(), _ids(ids), _c.text_or_null(note, "the note")),
            timeout,
        )

    def kill(self, ids: _Ids, signum: int, *, timeout: Optional[float] = None) -> int:
        """Send a signal to all tasks of running jobs."""
        return self._act(lib.flux_job_kill(self._open(), _ids(ids), signum), timeout)

    def raise_exception(
        self,
        ids: _Ids,
        type: str,
        severity: int = 0,
        note: Optional[str] = None,
        *,
        timeout: Optional[float] = None,
    ) -> int:
        """Record an exception of jobs. Severity 0 ends them; 1 to 7 are informational."""
        pointer = lib.flux_job_raise(
            self._open(),
            _ids(ids),
            _c.text(type, "the type"),
            severity,
            _c.text_or_null(note, "the note"),
        )
        return self._act(pointer, timeout)

    def set_urgency(
        self, ids: _Ids, urgency: Union[int, str], *, timeout: Optional[float] = None
    ) -> int:
        """Change the urgency of pending jobs: 0 (or "hold") to 31."""
        return self._act(lib.flux_job_urgency(self._open(), _ids(ids), _urgency(urgency)), timeout)

    def queue(
        self,
        operation: str = "status",
        reason: Optional[str] = None,
        *,
        timeout: Optional[float] = None,
    ) -> dict:
        """The state of the queue, after an operation on it.

        "status"; "stop" and "start" scheduling; "disable" and "enable" submission; "drain" returns
        when all jobs have ended, "idle" when none runs or is pending. `reason`: of "stop" and
        "disable".
        """
        pointer = lib.flux_job_queue(
            self._open(),
            _c.text(operation, "the operation"),
            _c.text_or_null(reason, "the reason"),
        )
        with Future(self._handle, pointer, _decode_json) as future:
            return future.get(timeout)


class _Writer:
    """A request that submits jobs with one environment."""

    def __init__(self, jobs: Jobs, env: Optional[Mapping[str, Optional[str]]]) -> None:
        self._jobs = jobs
        self._writer = ffi.gc(
            lib.submit_writer_create() or _no_memory(), lib.submit_writer_destroy
        )
        variables = dict(os.environb)
        for name, value in (env or {}).items():
            if value is None:
                variables.pop(os.fsencode(name), None)
            else:
                variables[os.fsencode(name)] = os.fsencode(value)
        array, _kept = _c.string_array([name + b"=" + value for name, value in variables.items()])
        self._env = lib.submit_writer_env(self._writer, array)
        if self._env < 0:
            fail("the environment cannot be sent")

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *exc) -> None:
        ffi.release(self._writer)

    @property
    def count(self) -> int:
        return lib.submit_writer_count(self._writer)

    @property
    def size(self) -> int:
        return lib.submit_writer_size(self._writer)

    def add(self, text: bytes, urgency: int) -> None:
        checked(lib.submit_writer_job, self._writer, self._env, urgency, 0, text, len(text))

    def send(self, decode) -> Future:
        future = Future(
            self._jobs._handle, lib.flux_job_submit_batch(self._jobs._open(), self._writer), decode
        )
        lib.submit_writer_clear(self._writer)
        return future


class _OutputParser:
    """Records "TASK STREAM LENGTH\\n" with their bytes, in whatever pieces they come."""

    def __init__(self) -> None:
        self._head = b""
        self._task = self._stream = self._left = 0

    def take(self, piece: memoryview) -> Iterator[OutputRecord]:
        data = bytes(piece)
        at = 0
        while at < len(data):
            if self._left:
                part = data[at : at + self._left]
                at += len(part)
                self._left -= len(part)
                yield OutputRecord(self._task, self._stream, part)
                continue
            end = data.find(b"\n", at)
            self._head += data[at : end if end >= 0 else len(data)]
            if end < 0:
                return
            at = end + 1
            try:
                self._task, self._stream, self._left = map(int, self._head.split())
            except ValueError:
                raise make_error(errno.EPROTO, f"the output is damaged: {self._head!r}") from None
            self._head = b""


def _no_memory():
    raise MemoryError


def _ids(ids: _Ids) -> bytes:
    """Ids as the text of an idset."""
    if isinstance(ids, int):
        return b"%d" % ids
    if isinstance(ids, str):
        return _c.text(ids, "the ids")
    made = ffi.gc(lib.idset_create() or _no_memory(), lib.idset_destroy)
    for number in ids:
        if lib.idset_set(made, number) < 0:
            fail(f"{number} is not the id of a job")
    text = ffi.gc(lib.idset_format(made, 0) or _no_memory(), lib.free)
    return ffi.string(text)


def _urgency(urgency: Union[int, str]) -> int:
    names = {"hold": 0, "default": lib.JOB_URGENCY_DEFAULT, "expedite": lib.JOB_URGENCY_MAX}
    number = names.get(urgency, urgency) if isinstance(urgency, str) else urgency
    if not isinstance(number, int) or not 0 <= number <= lib.JOB_URGENCY_MAX:
        raise ValueError(f"'{urgency}' is not an urgency: 0 to 31, hold, default, expedite")
    return number


def _spec_text(job, options: Dict[str, Any]) -> bytes:
    """The text of a jobspec, or of the one made for a command."""
    if isinstance(job, collections.abc.Mapping):
        if options:
            raise TypeError(f"a jobspec has all options in it: {', '.join(options)}")
        return _c.to_json(job)
    spec = make_jobspec(job, **options)
    for name in {
        os.fsdecode(options[o]) for o in ("output", "error") if options.get(o) is not None
    }:
        # A file that all tasks share is appended to, so it begins empty.
        if "{{" not in name:
            _empty_file(name)
    return _c.to_json(spec)


def _empty_file(name: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        os.close(os.open(name, flags, 0o666))
    except OSError as e:
        if e.errno != errno.ENXIO:  # a fifo without a reader
            raise


def _lines(data: bytes) -> Tuple[List[dict], bytes]:
    """The events of the whole lines, and what follows them."""
    *lines, rest = data.split(b"\n")
    return [json.loads(line) for line in lines], rest


def _from_dict(cls, values: Dict[str, Any]):
    """A dataclass from a response; what a newer service adds is left out."""
    known = {f.name for f in dataclasses.fields(cls)}
    return cls(**{k: v for k, v in values.items() if k in known})


def _decode_json(future: Future):
    return _c.decode_payload(lib.flux_rpc_get_msg(future._pointer))


def _collect(answer: Dict[str, Any], count: int, ids: list, errors: Dict[int, FluxError]) -> None:
    """Add the ids of one request's jobs, and the errors of those that were rejected."""
    refused = {
        number: make_error(errnum, text) for number, errnum, text in answer.get("errors", ())
    }
    if answer["count"] != count - len(refused):
        raise make_error(
            errno.EPROTO, "the service reported another number of jobs: has it another version?"
        )
    number = answer["first"]
    for place in range(count):
        if place in refused:
            errors[len(ids)] = refused[place]
            ids.append(None)
        else:
            ids.append(number)
            number += 1


def _decode_one(future: Future) -> int:
    ids: List[Optional[int]] = []
    errors: Dict[int, FluxError] = {}
    _collect(_decode_json(future), 1, ids, errors)
    if errors:
        raise errors[0]
    return ids[0]  # type: ignore[return-value]


def _decode_ended(future: Future) -> JobEnded:
    ended = _from_dict(JobEnded, _decode_json(future)["ended"][0])
    if ended.error:
        raise make_error(ended.error, ended.text)
    return ended


def _decode_transitions(future: Future) -> List[Transition]:
    return [Transition(*item) for item in _decode_json(future)["transitions"]]
