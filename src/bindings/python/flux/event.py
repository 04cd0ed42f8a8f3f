"""Events: published at any rank, and delivered to every subscriber in one order."""

import errno
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, Iterator, Optional

from . import _c
from ._libflux import ffi, lib
from .errors import FluxError, make_error
from .future import Future, Source

if TYPE_CHECKING:
    from .handle import Handle

__all__ = ["Event", "Subscription"]

_LOST = "event.lost"


class Event:
    """An event as a subscriber gets it."""

    __slots__ = ("topic", "seq", "rank", "userid", "_msg")

    def __init__(self, msg) -> None:
        self._msg = msg
        self.topic: str = _c.string(lib.flux_msg_topic(msg))
        self.seq: int = lib.flux_msg_seq(msg)
        self.rank: int = lib.flux_msg_nodeid(msg)
        self.userid: int = lib.flux_msg_userid(msg)

    @property
    def payload(self) -> Any:
        """The payload: a value decoded from JSON, a memoryview of raw bytes, or None."""
        return _c.decode_payload(self._msg)

    def __repr__(self) -> str:
        return f"<flux.Event {self.topic!r}, number {self.seq} from rank {self.rank}>"


def _end(events, h, prefix: bytes) -> None:
    lib.pyflux_events_destroy(events)
    lib.flux_future_destroy(lib.flux_event_unsubscribe(h, prefix))


class Subscription(Source):
    """Events with a prefix, in the order of their numbers (`Handle.subscribe()`).

    Iterate over it (it does not end by itself), or call `next()`; with asyncio, `async for`.
    Leaving the `with` statement, or `close()`, ends the subscription; so does dropping it, unless
    it has a callback.
    """

    def __init__(self, handle: "Handle", prefix: str, max_events: int, max_bytes: int) -> None:
        self._events = ffi.NULL
        super().__init__(handle)
        if max_events < 1 or max_bytes < 1:
            raise ValueError("a subscription has room for at least one event")
        self._prefix = _c.text(prefix, "the prefix")
        self._head = None
        self._events = lib.pyflux_events_create(
            handle._queue, self._prefix, max_events, max_bytes, self._id
        )
        if not self._events:
            raise MemoryError

    def _confirm(self, timeout: Optional[float]) -> None:
        pointer = lib.flux_event_subscribe(self._handle._h, self._prefix)
        with Future(self._handle, pointer, lambda future: None) as future:
            future.get(timeout)

    @property
    def prefix(self) -> str:
        """The prefix of the topics."""
        return self._prefix.decode()

    def _check(self) -> None:
        self._handle._check()
        if not self._events:
            raise make_error(errno.ECANCELED, "the subscription was closed")

    def _is_ready(self) -> bool:
        if self._head is None and self._events and self._handle._h:
            msg = lib.pyflux_events_take(self._events)
            if msg:
                self._head = ffi.gc(msg, lib.flux_msg_destroy)
        return self._head is not None

    def _take(self) -> Event:
        dropped = lib.pyflux_events_dropped(self._events)
        if dropped:
            raise FluxError(
                errno.ENOBUFS, f"{dropped} events were dropped: take them sooner, or keep more"
            )
        event = Event(self._head)
        self._head = None
        if event.topic == _LOST and not _LOST.startswith(self.prefix):
            lost = event.payload
            last = f"to {lost['to']}" if lost["to"] else "on"
            raise FluxError(errno.ENOBUFS, f"the events from {lost['from']} {last} were lost")
        return event

    def next(self, timeout: Optional[float] = None) -> Event:
        """The next event, waiting for it at most `timeout` seconds (FluxTimeoutError).

        FluxError (ENOBUFS), once, if events before it were dropped, because too many waited here
        or at the broker; (EPIPE) when the connection is lost.
        """
        self._check()
        if not self._is_ready():
            self._block(timeout)
        return self._take()

    def __iter__(self) -> Iterator[Event]:
        while True:
            yield self.next()

    def then(self, callback: Callable[[Event], Any]) -> "Subscription":
        """Call `callback(event)` for each event, from `Handle.run()` or `Handle.dispatch()`."""
        self._check()
        if not callable(callback):
            raise TypeError("the callback cannot be called")
        self._callback = callback
        self._arm()
        return self

    def _run_callback(self) -> None:
        try:
            self._callback(self._take())
        finally:
            if self._callback is not None and self._is_ready():
                self._handle._ready.append(self._id)

    async def next_async(self) -> Event:
        """As `next()`, for asyncio."""
        if not self._is_ready():
            await self._wait_async()
        return self._take()

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            yield await self.next_async()

    def close(self) -> None:
        """End the subscription. Closing twice is not an error."""
        events, self._events = self._events, ffi.NULL
        handle = self._handle
        self._callback = None
        handle._sources.pop(self._id, None)
        self._wake()
        if events and handle._h:
            handle._check()
            _end(events, handle._h, self._prefix)
            handle._flush()

    def __del__(self) -> None:
        events, self._events = self._events, ffi.NULL
        if events:
            handle = self._handle
            connection = handle._connection
            if handle._h and connection is not None:
                connection.free(_end, events, handle._h, self._prefix)

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<flux.Subscription {self.prefix!r}>"
