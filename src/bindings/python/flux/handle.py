"""The handle: a connection to the broker."""

import atexit
import collections
import collections.abc
import errno
import os
import select
import sys
import syslog
import threading
import time
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Tuple, Union

from . import _c
from ._libflux import ffi, lib
from .errors import FluxError, FluxTimeoutError, checked, fail, fail_with, make_error
from .event import Subscription
from .future import Future
from .job import Jobs
from .kvs import KVS, Namespace
from .stream import StreamReader, StreamWriter, is_failure

__all__ = ["Handle", "Attributes", "open"]

# Where a poll object takes what FLUX_POLL* says.
_POLL = {lib.FLUX_POLLIN: select.POLLIN, lib.FLUX_POLLOUT: select.POLLOUT}


class _Connection:
    """The connection of a handle in C. Streams whose memory is in use may keep it for longer."""

    def __init__(self, h, queue) -> None:
        self.h = h
        self.queue = queue
        self.thread: Optional[int] = threading.get_ident()  # None when the handle was closed
        self.dead: collections.deque = collections.deque()
        self.lock = threading.RLock()  # a garbage collection may free another one meanwhile
        # What is to be destroyed before the connection: garbage is collected in any order.
        self.owned: Dict[Any, Callable] = {}

    def own(self, pointer, destroy: Callable):
        """The pointer of something that belongs to the handle, destroyed when nobody has it."""

        def once(pointer) -> None:
            if self.owned.pop(pointer, None) is not None:
                destroy(pointer)

        self.owned[pointer] = destroy
        return ffi.gc(pointer, lambda pointer: self.free(once, pointer))

    def free(self, destroy: Callable, *pointers) -> None:
        """Free something: later, if garbage collection does so in another thread."""
        if not self.h:
            return
        if self.thread is None:
            with self.lock:
                destroy(*pointers)
        elif self.thread == threading.get_ident():
            destroy(*pointers)
        else:
            self.dead.append((destroy, *pointers))

    def reap(self) -> None:
        """Free what other threads have left."""
        while self.dead:
            destroy, *pointers = self.dead.popleft()
            destroy(*pointers)

    def leak(self) -> None:
        """Nobody uses it, or frees it, from Python: this is a child process, or ends in C."""
        self.h = self.queue = ffi.NULL
        self.dead.clear()
        self.owned.clear()

    def __del__(self) -> None:
        self.reap()
        while self.owned:
            pointer, destroy = self.owned.popitem()
            destroy(pointer)
        h, self.h = self.h, ffi.NULL
        lib.pyflux_queue_destroy(self.queue)
        lib.flux_close(h)


_handles: "weakref.WeakSet[Handle]" = weakref.WeakSet()


class Handle:
    """A connection to the broker of this host.

    `uri` is its address ("local:///path/to/socket"), by default that of the environment variable
    FLUX_URI, else that of the system session. Use a handle in a `with` statement, or `close()` it.

    A handle and all that belongs to it (futures, subscriptions, stores) are for one thread, the
    one that made it: their methods raise RuntimeError in another. Each thread can open its own. In
    a process that was forked they are closed. The lock of the interpreter is released in calls
    that wait, and a signal handler that raises an exception, such as KeyboardInterrupt, ends them.

    Callbacks are called by `run()` and `dispatch()` only, never by a call that waits for something
    else.
    """

    def __init__(self, uri: Optional[str] = None) -> None:
        self._h = ffi.NULL
        self._queue = ffi.NULL
        self._thread = threading.get_ident()
        self._sources: Dict[int, Any] = {}
        self._ready: collections.deque = collections.deque()
        self._streams: weakref.WeakSet = weakref.WeakSet()
        self._last_id = 0
        self._lost = False
        self._stopped = False
        self._loop: Any = None
        self._writer = False
        self._soon = False
        err = ffi.new("errmsg_t *")
        h = lib.flux_open(_c.text_or_null(uri, "the address"), ffi.NULL, err)
        if not h:
            fail_with(err)
        self._queue = lib.pyflux_queue_create(h)
        if not self._queue:
            lib.flux_close(h)
            raise MemoryError
        self._connection: Any = _Connection(h, self._queue)
        self._h = h
        self._rank = lib.flux_rank(h)
        self._size = lib.flux_size(h)
        _handles.add(self)

    def close(self) -> None:
        """Disconnect, and end all that belongs to the handle. Closing twice is not an error."""
        if self._h:
            self._check()
            self._close()

    def _close(self, failed: bool = False, at_exit: bool = False) -> None:
        if not self._h:
            return
        self._h = self._queue = ffi.NULL
        self._leave_loop()
        sources, self._sources = self._sources, {}
        self._ready.clear()
        streams = list(self._streams)
        outlived = [at_exit and stream._leave_at_exit() for stream in streams]
        for stream in streams:
            stream._drop(failed)
        connection, self._connection = self._connection, None
        connection.reap()
        if any(outlived):
            connection.leak()
        connection.thread = None
        del connection
        for source in sources.values():
            source._callback = None
            source._wake()

    def _forked(self) -> None:
        """This is a child process: the connection is its parent's, which goes on with it."""
        fd = lib.flux_handle_pollfd(self._h, ffi.new("int *")) if self._h else -1
        self._h = self._queue = ffi.NULL
        if self._connection is not None:
            self._connection.leak()
        self._loop = None
        self._sources = {}
        self._ready.clear()
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        # Nobody waits in a handle that is not referenced, whatever thread this is.
        self._close()

    def __enter__(self) -> "Handle":
        return self

    def __exit__(self, kind, value, traceback) -> None:
        if self._h:
            self._check()
            self._close(is_failure(value))

    def __repr__(self) -> str:
        state = "closed" if self.closed else "lost" if self._lost else "open"
        return f"<flux.Handle rank {self._rank} of {self._size}, {state}>"

    @property
    def closed(self) -> bool:
        """Was the handle closed?"""
        return not self._h

    @property
    def rank(self) -> int:
        """The rank of the broker."""
        return self._rank

    @property
    def size(self) -> int:
        """The number of brokers of the session."""
        return self._size

    @property
    def attributes(self) -> "Attributes":
        """The attributes of the broker, as a mapping of names to values (str)."""
        return Attributes(self)

    def _check(self) -> None:
        if threading.get_ident() != self._thread:
            raise RuntimeError("a handle is for the thread that opened it: open another one")
        if not self._h:
            raise make_error(errno.ECANCELED, "the handle was closed")
        if self._connection.dead:
            self._connection.reap()

    def _new_id(self) -> int:
        self._check()
        self._last_id += 1
        return self._last_id

    @staticmethod
    def _destroy(watch, future) -> None:
        lib.pyflux_watch_destroy(watch)
        lib.flux_future_destroy(future)

    def _free(self, watch, future) -> None:
        """Free what a future had in C; with the handle it has been freed."""
        connection = self._connection
        if self._h and connection is not None:
            connection.free(self._destroy, watch, future)

    # -- waiting --

    def _step(self, timeout: float) -> bool:
        """Take in messages, waiting for one (<0: for any time). False: connection lost."""
        if lib.flux_handle_wait(self._h, timeout) < 0:
            if ffi.errno != errno.EPIPE:
                fail("cannot wait for the broker")
            self._lost = True
        return not self._lost

    def _fail_lost(self) -> None:
        raise make_error(errno.EPIPE, "the connection to the broker was lost")

    def _tell(self) -> bool:
        """Tell whoever waits for what has become ready. False: nothing has."""
        while True:
            number = lib.pyflux_queue_next(self._queue)
            if not number:
                break
            self._ready.append(number)
        count = len(self._ready)
        for _ in range(count):
            if not self._ready:  # closed by a callback
                break
            source = self._sources.get(self._ready.popleft())
            if source is not None:
                source._notify()
        return count > 0

    def dispatch(self, timeout: Optional[float] = 0.0) -> bool:
        """Write what is queued, take in messages, and call the callbacks for them.

        Waits for a message at most `timeout` seconds (None: without limit) if no callback is due.
        Returns False when the connection is lost. For loops of the program's own: see `fileno()`.
        """
        self._check()
        open_ = self._step(0.0)
        if not self._tell() and open_ and timeout != 0.0:
            open_ = self._step(-1.0 if timeout is None else timeout)
            self._tell()
        return open_

    def run(self, timeout: Optional[float] = None) -> None:
        """Call callbacks until `stop()` is called, or until there is none left to wait for.

        FluxTimeoutError after `timeout` seconds; FluxError (EPIPE) when the connection is lost. An
        exception of a callback ends the call.
        """
        end = None if timeout is None else time.monotonic() + timeout
        left: Optional[float] = None
        self._check()
        self._stopped = False
        while not self._stopped and self._h and self._sources:
            if end is not None:
                left = end - time.monotonic()
                if left <= 0:
                    raise FluxTimeoutError(errno.ETIMEDOUT, f"the loop ran for {timeout:g} s")
            if not self.dispatch(left) and self._h and not self._tell():
                self._fail_lost()

    def stop(self) -> None:
        """Let `run()` return, when the present callback has."""
        self._stopped = True

    def fileno(self) -> int:
        """The descriptor of the connection, for `select` and other loops.

        Call `dispatch()` when it is ready for what `events` says, and ask for `events` again after
        each call that sends something.
        """
        return self._poll()[0]

    @property
    def events(self) -> int:
        """What to wait for at `fileno()`: select.POLLIN, and POLLOUT while output waits."""
        return self._poll()[1]

    def _poll(self):
        self._check()
        events = ffi.new("int *")
        fd = lib.flux_handle_pollfd(self._h, events)
        if fd < 0:
            self._fail_lost()
        return fd, sum(bit for flag, bit in _POLL.items() if events[0] & flag)

    # -- asyncio --

    def _attach(self):
        """Have the running loop of asyncio wait for this handle."""
        import asyncio

        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._leave_loop()
            if self._lost:
                self._fail_lost()
            me = weakref.ref(self)

            def on_io() -> None:
                handle = me()
                if handle is not None:
                    handle._pump()

            self._on_io = on_io
            self._fd = self.fileno()
            loop.add_reader(self._fd, on_io)
            self._loop = loop
        return loop

    def _leave_loop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and not loop.is_closed():
            loop.remove_reader(self._fd)
            if self._writer:
                loop.remove_writer(self._fd)
        self._writer = False
        self._soon = False

    def _pump_soon(self) -> None:
        """Write in the next pass of the loop all that is queued by then."""
        if not self._soon:
            self._soon = True
            self._loop.call_soon(self._on_io)

    def _pump(self) -> None:
        self._soon = False
        if not self._h:
            return
        open_ = self._step(0.0)
        if not open_:
            self._leave_loop()
        try:
            self._tell()
        finally:
            if self._h and open_:
                self._watch_output()
            elif self._h:
                for source in list(self._sources.values()):
                    source._wake()

    def _watch_output(self) -> None:
        if self._loop is None:
            return
        wanted = bool(self.events & select.POLLOUT)
        if wanted and not self._writer:
            self._loop.add_writer(self._fd, self._on_io)
        elif self._writer and not wanted:
            self._loop.remove_writer(self._fd)
        self._writer = wanted

    # -- requests --

    @staticmethod
    def _flags(streaming: bool, upstream: bool, ring: bool) -> int:
        return (
            (lib.FLUX_MSGF_STREAMING if streaming else 0)
            | (lib.FLUX_MSGF_UPSTREAM if upstream else 0)
            | (lib.FLUX_MSGF_RING if ring else 0)
        )

    def _send(self, topic: str, payload, rank: Optional[int], flags: int):
        self._check()
        name = _c.text(topic, "the topic")
        nodeid = lib.FLUX_NODEID_ANY if rank is None else rank
        if _c.is_raw(payload):
            data = ffi.from_buffer(payload)
            return lib.flux_rpc_raw(self._h, name, data, len(data), nodeid, flags)
        text = ffi.NULL if payload is None else _c.to_json(payload)
        return lib.flux_rpc(self._h, name, text, nodeid, flags)

    def rpc(
        self,
        topic: str,
        payload: Any = None,
        *,
        rank: Optional[int] = None,
        timeout: Optional[float] = None,
        upstream: bool = False,
        ring: bool = False,
    ) -> Any:
        """Send a request, wait for the response, and return its payload.

        The payload of a request is sent as JSON; bytes and other objects with a buffer are sent as
        they are. The payload of the response is a value decoded from JSON, a read-only memoryview
        of raw bytes, or None. `rank`: the broker to ask, by default the nearest that has the
        service.
        """
        future = self.rpc_async(topic, payload, rank=rank, upstream=upstream, ring=ring)
        with future:
            return future.get(timeout)

    def rpc_async(
        self,
        topic: str,
        payload: Any = None,
        *,
        rank: Optional[int] = None,
        streaming: bool = False,
        upstream: bool = False,
        ring: bool = False,
    ) -> Future:
        """Send a request and return a future; `streaming`: for any number of responses.

        Several requests are written together when the handle next waits (`dispatch()` writes them
        without waiting).
        """
        pointer = self._send(topic, payload, rank, self._flags(streaming, upstream, ring))
        return Future(self, pointer, _decode_rpc)

    def mrpc(
        self, topic: str, payload: Any = None, ranks: Union[None, str, Iterable[int]] = None
    ) -> Future:
        """Send a request to many ranks: all, by default, or "0-3,7", or an iterable of numbers.

        The results of the future, one for each rank in the order in which they answer, are pairs
        (rank, payload). A rank that fails raises its error; `next()` goes on to the others.
        """
        self._check()
        numbers = list(range(self._size)) if ranks is None else list(_c.members(ranks))
        text = ffi.NULL if payload is None else _c.to_json(payload)
        array = ffi.new("uint32_t[]", numbers)
        name = _c.text(topic, "the topic")
        pointer = lib.flux_mrpc(self._h, name, text, array, len(numbers), 0)
        return Future(self, pointer, _decode_mrpc)

    def send(self, topic: str, payload: Any = None, *, rank: Optional[int] = None) -> None:
        """Send a request that gets no response."""
        future = Future(
            self, self._send(topic, payload, rank, lib.FLUX_MSGF_NORESPONSE), _decode_rpc
        )
        with future:
            future.get(0)
        self._flush()

    def _flush(self) -> None:
        """Write what would otherwise wait until the program waits for something."""
        self._step(0.0)

    def log(self, level: Union[int, str], message: str, *, source: Optional[str] = None) -> None:
        """Add a line to the log of the session. `level`: "err", "info"... or syslog.LOG_ERR...

        `source` names the program in this line and the following ones.
        """
        self._check()
        if isinstance(level, str):
            number = lib.flux_log_level_parse(_c.text(level, "the level"))
            if number < 0:
                raise ValueError(f"'{level}' is not a level of the log")
            level = number
        elif not syslog.LOG_EMERG <= level <= syslog.LOG_DEBUG:
            raise ValueError(f"{level} is not a level of the log")
        if source is not None:
            lib.flux_log_set_source(self._h, _c.text(source, "the source"))
        text = ffi.new("char[]", _c.text(message, "the message"))
        lib.flux_log(self._h, level, ffi.new("char[]", b"%s"), text)
        self._flush()

    def barrier(
        self,
        name: str,
        nprocs: int,
        *,
        ranks: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> None:
        """Wait until `nprocs` participants have entered the barrier of this name.

        `ranks`, an idset, says where they are: if one of these brokers is lost, the barrier fails.
        """
        request = {"name": name, "nprocs": nprocs}
        if ranks is not None:
            request["ranks"] = ranks
        self.rpc("barrier.enter", request, timeout=timeout)

    # -- events --

    def publish(self, topic: str, payload: Any = None, *, timeout: Optional[float] = None) -> int:
        """Publish an event, and return its sequence number."""
        with self.publish_async(topic, payload) as future:
            return future.get(timeout)

    def publish_async(self, topic: str, payload: Any = None) -> Future:
        """Publish an event; the result of the future is its sequence number."""
        self._check()
        name = _c.text(topic, "the topic")
        if _c.is_raw(payload):
            data = ffi.from_buffer(payload)
            pointer = lib.flux_event_publish_raw(self._h, name, data, len(data))
        else:
            text = ffi.NULL if payload is None else _c.to_json(payload)
            pointer = lib.flux_event_publish(self._h, name, text)
        return Future(self, pointer, _decode_seq)

    def send_event(self, topic: str, payload: Any = None) -> None:
        """Publish an event without waiting for its number; it may be lost if the way is full."""
        self._check()
        name = _c.text(topic, "the topic")
        if _c.is_raw(payload):
            data = ffi.from_buffer(payload)
            rc = lib.flux_event_send_raw(self._h, name, data, len(data))
        else:
            text = ffi.NULL if payload is None else _c.to_json(payload)
            rc = lib.flux_event_send(self._h, name, text)
        if rc < 0:
            fail("the event cannot be sent")
        self._flush()

    def subscribe(
        self,
        prefix: str = "",
        callback: Optional[Callable] = None,
        *,
        max_events: int = 8192,
        max_bytes: int = 16 << 20,
        timeout: Optional[float] = None,
    ) -> Subscription:
        """Subscribe to the events whose topic begins with `prefix` ("" for all of them).

        Returns when the broker has confirmed it: every event published after that comes. At most
        `max_events` events of `max_bytes` bytes wait to be taken. With `callback`, `run()` calls
        `callback(event)` for each.
        """
        subscription = Subscription(self, prefix, max_events, max_bytes)
        try:
            subscription._confirm(timeout)
        except BaseException:
            subscription.close()
            raise
        if callback is not None:
            subscription.then(callback)
        return subscription

    # -- services --

    def kvs(self, namespace: Optional[str] = None) -> KVS:
        """The key-value store, or a namespace of it."""
        return KVS(self, namespace)

    def namespaces(self, *, timeout: Optional[float] = None) -> list:
        """The namespaces of the key-value store, a list of `flux.kvs.Namespace`."""
        return Namespace._list(self, timeout)

    def namespace_create(
        self,
        name: str,
        *,
        owner: Optional[int] = None,
        rank: int = 0,
        timeout: Optional[float] = None,
    ) -> KVS:
        """Create a namespace of the user id `owner` (default: this user), kept at `rank`."""
        return Namespace._create(self, name, owner, rank, timeout)

    def namespace_remove(self, name: str, *, timeout: Optional[float] = None) -> None:
        """Remove a namespace with its contents."""
        Namespace._remove(self, name, timeout)

    def stream_rank(self) -> Tuple[int, int]:
        """The rank of this process, and how many were started with it: tasks of a job, or of MPI.

        0 of 1 for others. `stream_writer()` uses these by default.
        """
        rank, size = ffi.new("uint32_t *"), ffi.new("uint32_t *")
        checked(lib.flux_stream_rank, rank, size)
        return rank[0], size[0]

    def stream_writer(
        self,
        name: str,
        *,
        rank: int = 0,
        size: int = 0,
        evict: float = 0.0,
        keep: int = 0,
        depth: int = 0,
        readers: int = 0,
        timeout: Optional[float] = 30.0,
        transport: Optional[str] = None,
        secure: Optional[bool] = None,
        share: Optional[bool] = None,
        transforms: Optional[str] = None,
        start: Optional[str] = None,
    ) -> StreamWriter:
        """Open a stream for writing: as writer `rank` of a group of `size` (0: as `stream_rank()`).

        `evict`: give up readers that make it wait for as many seconds without releasing a step (0:
        never). `keep`: steps kept for readers that come later. `depth`: the largest number of steps
        that wait for a reader, whatever it asks for (0: no limit). `readers`: wait for as many, at
        most `timeout` seconds. `transport`: "auto", "tcp" or "ring"; `secure`: encrypt TCP, and
        `share`: share one connection with others between the same hosts, whatever the session does.
        `transforms`: files in Lua and shared objects, separated by "|", which change each step
        before it is published (flux-stream(3)). `start`: "append" continues a stream that another
        job has written, "anew" begins a new run of a stream that has readers, with step 0.
        """
        options: Dict[str, Any] = {"rank": rank, "size": size, "evict": evict, "keep": keep}
        options["start"] = start
        options.update(depth=depth, readers=readers, timeout=timeout, transport=transport)
        options.update(secure=secure, share=share, transforms=transforms)
        return StreamWriter(self, name, options)

    def stream_reader(
        self,
        name: str,
        *,
        policy: Optional[str] = None,
        depth: int = 0,
        max_bytes: int = 0,
        group: Optional[str] = None,
        key: Optional[str] = None,
        by: Optional[str] = None,
        resume: float = 0.0,
        team: Optional[str] = None,
        rank: int = 0,
        size: int = 0,
        switch: Optional[str] = None,
        stay: bool = False,
        timeout: Optional[float] = 30.0,
        transport: Optional[str] = None,
        secure: Optional[bool] = None,
        share: Optional[bool] = None,
        transforms: Optional[str] = None,
        join: Optional[str] = None,
    ) -> StreamReader:
        """Open a stream for reading, when all its writers are there, within `timeout` seconds.

        `policy`: what happens to a step when the queue is full: "block", "drop-oldest",
        "drop-newest", "latest" or "sample:K". `depth`, `max_bytes`: steps in the queue, and their
        bytes if they are more than 2. 0 is the default of flux-stream(3). `group`: each step goes
        to one member of it, and to another one if that member does not end it; `key`: the variable
        of which steps with equal values are in order; `by`: what the members share, "step"
        (default) or "record": then each has the records of `StreamReader.mine`, and `key` is a
        field of them; `resume`: seconds for which the group gets steps when it has no member, so
        that the only one, started again, misses none. `team`: all members of it see the same steps;
        this one is `rank` of `size` (0: as `stream_rank()`). `switch`: steps come only while it is
        on (`stream_switch()`). `stay`: go on with writers that take the place of those that have
        gone. `transport`, `secure`, `share`: as of a writer. `transforms`: the same, for each step
        that is begun; `join`: the stream that is their second input, by the numbers of steps.
        """
        options = {"policy": policy, "depth": depth, "bytes": max_bytes, "timeout": timeout}
        options.update(group=group, key=key, by=by, onoff=switch, stay=stay)
        options.update(transforms=transforms, join=join)
        options.update(resume=resume, team=team, rank=rank, size=size)
        options.update(transport=transport, secure=secure, share=share)
        return StreamReader(self, name, options)

    def stream_switch(self, name: str, on: bool) -> None:
        """Turn readers on or off that have named a switch, in all streams."""
        self._check()
        checked(lib.flux_stream_switch, self._h, _c.text(name, "the name"), on)

    @property
    def jobs(self) -> Jobs:
        """The job service: submit jobs, list them, follow them."""
        return Jobs(self)


class Attributes(collections.abc.MutableMapping):
    """The attributes of a broker: a mapping of names to values, both str (`Handle.attributes`).

    A fixed attribute cannot be set (FluxError, EPERM); none can be deleted.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def _all(self) -> Dict[str, str]:
        return self._handle.rpc("attr.list")["attrs"]

    def __getitem__(self, name: str) -> str:
        try:
            return self._handle.rpc("attr.get", {"name": name})["value"]
        except FluxError as e:
            if e.errno == errno.ENOENT:
                raise KeyError(name) from None
            raise

    def __setitem__(self, name: str, value: str) -> None:
        self._handle.rpc("attr.set", {"name": name, "value": value})

    def __delitem__(self, name: str) -> None:
        raise TypeError("attributes cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def items(self):
        """All names with their values, from one request."""
        return self._all().items()

    def values(self):
        """All values, from one request."""
        return self._all().values()


def open(uri: Optional[str] = None) -> Handle:  # pylint: disable=redefined-builtin
    """Connect to the broker at `uri`: see `Handle`."""
    return Handle(uri)


@atexit.register
def _at_exit() -> None:
    failed = hasattr(sys, "last_type") and not hasattr(sys, "ps1")
    daemons = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
    for handle in list(_handles):
        if handle._thread not in daemons:
            handle._close(failed, at_exit=not failed)  # the program ends, and its streams do


def _after_fork() -> None:
    for handle in list(_handles):
        handle._forked()


os.register_at_fork(after_in_child=_after_fork)


def _decode_rpc(future: Future):
    msg = lib.flux_rpc_get_msg(future._pointer)
    return _c.decode_payload(msg) if msg else None  # of a request without response


def _decode_mrpc(future: Future):
    return lib.flux_mrpc_rank(future._pointer), _decode_rpc(future)


def _decode_seq(future: Future) -> int:
    seq = ffi.new("uint64_t *")
    checked(lib.flux_event_get_seq, future._pointer, seq)
    return seq[0]
