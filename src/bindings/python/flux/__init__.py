"""Flux for Python: the session, its key-value store and its jobs.

    import flux

    with flux.open() as h:
        print(h.rank, h.size)
        kv = h.kvs()
        kv.put("greeting", {"text": "hello"})
        print(kv.get("greeting", dict))
        id = h.jobs.submit(["hostname"], nodes=2)
        print(h.jobs.wait(id).result)

Programs in a session find the package and the broker by themselves. A failed call raises FluxError
with `errno` and the error message. See flux-python(3), and the modules: `flux.handle` (connection,
requests, events), `flux.kvs` (key-value store), `flux.job` and `flux.jobspec` (jobs),
`flux.stream` (data that programs hand each other).
"""

from ._libflux import ffi as _ffi, lib as _lib
from .errors import (
    EndOfStream,
    FluxError,
    FluxIndexError,
    FluxTimeoutError,
    FluxTypeError,
    FluxValueError,
)
from .event import Event, Subscription
from .future import Future
from .handle import Attributes, Handle, open  # pylint: disable=redefined-builtin
from .job import (
    JobEnded,
    JobInfo,
    Jobs,
    JobsError,
    OutputRecord,
    Program,
    Transition,
    make_jobspec,
)
from .kvs import KVS, Snapshot, Transaction
from .records import RecordFormat
from .stream import Recording, Step, StreamReader, StreamWriter, Variable

__version__ = _ffi.string(_lib.pyflux_version()).decode()
__all__ = [
    "Attributes",
    "EndOfStream",
    "Event",
    "FluxError",
    "FluxTimeoutError",
    "FluxIndexError",
    "FluxTypeError",
    "FluxValueError",
    "Future",
    "Handle",
    "JobEnded",
    "JobInfo",
    "Jobs",
    "JobsError",
    "KVS",
    "OutputRecord",
    "Program",
    "Recording",
    "Snapshot",
    "Step",
    "StreamReader",
    "StreamWriter",
    "Subscription",
    "Transaction",
    "Transition",
    "Variable",
    "make_jobspec",
    "open",
]
