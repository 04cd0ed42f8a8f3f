"""Errors of Flux as exceptions."""

import errno as _errno
from typing import NoReturn

from ._libflux import ffi

__all__ = [
    "FluxError",
    "FluxTimeoutError",
    "EndOfStream",
    "FluxIndexError",
    "FluxTypeError",
    "FluxValueError",
]


class FluxError(OSError):
    """A call failed: `errno` is the error number, and `str()` the error message.

    The message is the sentence of libflux or of the service that refused the request.
    """

    def __str__(self) -> str:
        return str(self.strerror)

    def __repr__(self) -> str:
        name = _errno.errorcode.get(self.errno or 0, self.errno)
        return f"{type(self).__name__}({name}, {self.strerror!r})"


class FluxTimeoutError(FluxError, TimeoutError):
    """The time that the caller gave was over (ETIMEDOUT)."""


class EndOfStream(FluxError):
    """A stream has ended in an orderly way: no result will follow (ENODATA)."""


class FluxTypeError(FluxError, TypeError):
    """An argument of another type than is possible (EINVAL)."""


class FluxValueError(FluxError, ValueError, OverflowError):
    """An argument of a value that is not possible (EINVAL, or ERANGE for a number)."""


class FluxIndexError(FluxError, IndexError):
    """An index outside of an array (ERANGE)."""


_CLASSES = {_errno.ETIMEDOUT: FluxTimeoutError, _errno.ENODATA: EndOfStream}


def make_error(errnum: int, message: str) -> FluxError:
    """The exception for an error number and its message."""
    return _CLASSES.get(errnum, FluxError)(errnum, message)


def wrong_argument(error: Exception, message: str) -> FluxError:
    """The exception for what is wrong with an argument, as Python says it."""
    if isinstance(error, TypeError):
        return FluxTypeError(_errno.EINVAL, message)
    if isinstance(error, IndexError):
        return FluxIndexError(_errno.ERANGE, message)
    number = _errno.ERANGE if isinstance(error, OverflowError) else _errno.EINVAL
    return FluxValueError(number, message)


def fail(message: str) -> NoReturn:
    """Raise the error of the C function that has just failed; it left no message of its own."""
    import os

    errnum = ffi.errno
    raise make_error(errnum, f"{message}: {os.strerror(errnum)}")


def fail_with(err) -> NoReturn:
    """Raise the error of the C function that has just failed, with the message in its errmsg_t.

    Such a function says by its result that a stream has ended; ENODATA means that data are missing.
    """
    errnum = ffi.errno
    make = FluxError if errnum == _errno.ENODATA else make_error
    raise make(errnum, ffi.string(err.text).decode(errors="replace"))


def checked(function, *arguments) -> int:
    """Call a C function with these arguments and an errmsg_t: its result, or raise its error."""
    err = ffi.new("errmsg_t *")
    result = function(*arguments, err)
    if result < 0:
        fail_with(err)
    return result
