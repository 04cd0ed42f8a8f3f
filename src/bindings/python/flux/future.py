"""Futures: responses that may not have come yet."""

import errno
import time
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, Generator, Iterator, Optional

from . import _c
from ._libflux import ffi, lib
from .errors import EndOfStream, FluxTimeoutError, fail, make_error

if TYPE_CHECKING:
    from .handle import Handle

__all__ = ["Future"]


class Source:
    """What becomes ready, and has somebody who waits: a future, or a subscription.

    Three ways to wait: in a call that blocks, by a callback from `Handle.run()`, and by `await`.
    """

    def __init__(self, handle: "Handle") -> None:
        self._handle = handle
        self._id = handle._new_id()
        self._callback: Any = None
        self._waiter: Any = None  # asyncio.Future

    def _check(self) -> None:
        raise NotImplementedError

    def _is_ready(self) -> bool:
        raise NotImplementedError

    def _run_callback(self) -> None:
        raise NotImplementedError

    def _arm(self) -> None:
        """Somebody waits from now on: have the handle notified when this becomes ready."""
        self._handle._sources[self._id] = self
        if self._is_ready():
            self._handle._ready.append(self._id)

    def _disarm(self) -> None:
        if self._callback is None and self._waiter is None:
            self._handle._sources.pop(self._id, None)

    def _notify(self) -> None:
        """It is ready: tell whoever waits."""
        if self._waiter is not None:
            self._wake()
        elif self._callback is not None and self._is_ready():
            self._run_callback()

    def _wake(self) -> None:
        """Let the task that waits look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _block(self, timeout: Optional[float]) -> None:
        handle = self._handle
        end = None if timeout is None else time.monotonic() + timeout
        left = -1.0
        while not self._is_ready():
            if end is not None:
                left = end - time.monotonic()
                if left < 0:
                    # What has come meanwhile counts.
                    handle._step(0.0)
                    if self._is_ready():
                        return
                    raise FluxTimeoutError(errno.ETIMEDOUT, f"nothing came within {timeout:g} s")
            if not handle._step(left) and not self._is_ready():
                handle._fail_lost()

    async def _wait_async(self) -> None:
        self._check()
        if self._waiter is not None:
            raise RuntimeError("another task waits for it already")
        handle = self._handle
        loop = handle._attach()
        while not self._is_ready():
            if handle._lost:
                handle._fail_lost()
            self._waiter = loop.create_future()
            self._arm()
            handle._pump_soon()
            try:
                await self._waiter
            finally:
                self._waiter = None
                self._disarm()
            self._check()


class Future(Source):
    """The response to a request, or the responses of a stream.

    `get()` waits and returns the result, or raises its error. A future can be iterated over, which
    yields the results of a stream (of an ordinary request: its result), and it can be awaited. The
    request is forgotten when the future is destroyed or collected; the service of a stream is
    notified.
    """

    def __init__(self, handle: "Handle", pointer, decode: Callable[["Future"], Any]) -> None:
        self._pointer = ffi.NULL
        if not pointer:
            fail("the request cannot be made")
        self._handle = handle
        self._watch = ffi.NULL
        self._pointer = pointer
        super().__init__(handle)
        self._decode = decode
        self._over = False

    # -- state --

    def _check(self) -> None:
        self._handle._check()
        if not self._pointer:
            raise make_error(errno.ECANCELED, "the future was destroyed")

    def _is_ready(self) -> bool:
        return bool(self._pointer and self._handle._h) and lib.flux_future_ready(self._pointer)

    @property
    def ready(self) -> bool:
        """Is a result there? Does not wait, and does not look for new messages."""
        self._check()
        return self._is_ready()

    @property
    def handle(self) -> "Handle":
        """The handle of the request."""
        return self._handle

    @property
    def rank(self) -> int:
        """The rank from which the current result came (`Handle.mrpc()`)."""
        self._check()
        return lib.flux_mrpc_rank(self._pointer)

    def destroy(self) -> None:
        """Forget the request, and discard its response."""
        handle = self._handle
        self._callback = None
        self._wake()
        handle._sources.pop(self._id, None)
        pointer, self._pointer = self._pointer, ffi.NULL
        watch, self._watch = self._watch, ffi.NULL
        if pointer:
            handle._free(watch, pointer)

    def __del__(self) -> None:
        if self._pointer:
            self._handle._free(self._watch, self._pointer)

    def __enter__(self) -> "Future":
        return self

    def __exit__(self, *exc) -> None:
        self.destroy()

    # -- results --

    def wait(self, timeout: Optional[float] = None) -> "Future":
        """Wait until a result is there, for at most `timeout` seconds (FluxTimeoutError).

        0 does not wait; None has no limit. Returns the future itself. Success or failure of the
        request is reported by `get()`.
        """
        self._check()
        if not self._is_ready():
            if self._over:
                raise make_error(errno.ENODATA, "no result will follow")
            self._block(timeout)
        return self

    def get(self, timeout: Optional[float] = None) -> Any:
        """Wait for the result and return it; raise its error (EndOfStream: no result follows)."""
        self.wait(timeout)
        return self._result()

    def _result(self) -> Any:
        errnum = lib.flux_future_errnum(self._pointer)
        if errnum:
            raise make_error(errnum, _c.string(lib.flux_future_error(self._pointer)))
        return self._decode(self)

    def next(self) -> bool:
        """Release the current result, so that the next one can come. False: none will follow."""
        self._check()
        if lib.flux_future_next(self._pointer) < 0:
            self._over = True
        elif self._id in self._handle._sources and self._is_ready():
            self._handle._ready.append(self._id)
        return not self._over

    def results(self, timeout: Optional[float] = None) -> Iterator[Any]:
        """Iterate over the results, waiting at most `timeout` seconds for each."""
        while not self._over:
            try:
                result = self.get(timeout)
            except EndOfStream:
                self._over = True
                return
            self.next()
            yield result

    def __iter__(self) -> Iterator[Any]:
        return self.results()

    # -- callbacks and asyncio --

    def then(self, callback: Callable[["Future"], Any]) -> "Future":
        """Call `callback(future)` for each result, from `Handle.run()` or `Handle.dispatch()`.

        The callback takes the result with `get()`; `next()` is called after it. It is also called
        for the end of a stream, where `get()` raises EndOfStream, which the callback may leave to
        its caller. The future lives until its last result.
        """
        self._check()
        if not callable(callback):
            raise TypeError("the callback cannot be called")
        self._callback = callback
        self._watched()
        self._arm()
        return self

    def _watched(self) -> None:
        if not self._watch:
            self._watch = lib.pyflux_watch_create(self._handle._queue, self._pointer, self._id)
            if not self._watch:
                raise MemoryError

    def _run_callback(self) -> None:
        try:
            self._callback(self)
        except EndOfStream:
            pass
        finally:
            if self._pointer and not self._handle.closed:
                self.next()
                if self._over:
                    self._callback = None
                    self._disarm()

    def _arm(self) -> None:
        self._watched()
        super()._arm()

    async def wait_async(self) -> "Future":
        """As `wait()`, for asyncio."""
        if not self._is_ready():
            if self._over:
                raise make_error(errno.ENODATA, "no result will follow")
            await self._wait_async()
        return self

    def __await__(self) -> Generator[Any, None, Any]:
        yield from self.wait_async().__await__()
        return self._result()

    async def __aiter__(self) -> AsyncIterator[Any]:
        while not self._over:
            try:
                result = await self
            except EndOfStream:
                self._over = True
                return
            self.next()
            yield result
