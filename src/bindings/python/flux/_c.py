"""From Python values to those of C, and back."""

import errno
import json
import os
from typing import Any, Iterator, Optional, Tuple

from ._libflux import ffi, lib
from .errors import fail_with, make_error

NULL = ffi.NULL


def text(value, what: str) -> bytes:
    """A text as the bytes of a C string."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is a str, not {type(value).__name__}")
    data = value.encode()
    if b"\0" in data:
        raise ValueError(f"{what} has a NUL")
    return data


def text_or_null(value, what: str):
    """The same, where None is NULL."""
    return NULL if value is None else text(value, what)


def path(value, what: str) -> bytes:
    """A str, bytes or path of the file system, which may be any bytes but NUL."""
    data = os.fsencode(value)
    if b"\0" in data:
        raise ValueError(f"{what} has a NUL")
    return data


def string(cdata) -> str:
    """The text of a C string that is not NULL."""
    return ffi.string(cdata).decode(errors="replace")


def to_json(value) -> bytes:
    """A value as JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def from_json(data) -> Any:
    """The value of JSON text from a service."""
    try:
        return json.loads(data)
    except ValueError as e:
        raise make_error(errno.EPROTO, f"the payload is not JSON: {e}") from None


def is_raw(payload) -> bool:
    """Is it bytes, an array or another object with a buffer, which is sent as it is?"""
    try:
        memoryview(payload).release()
    except TypeError:
        return False
    return True


def buffer_of(msg, start, length: int) -> memoryview:
    """A read-only view of bytes within a message, which the view keeps."""
    if length == 0:
        return memoryview(b"")
    return view_of(ffi.gc(lib.flux_msg_incref(msg), lib.flux_msg_destroy), start, length)


def view_of(held, start, length: int) -> memoryview:
    """A read-only view of memory that belongs to `held`, which the view keeps."""
    # The destructor keeps `held` as long as the pointer lives, and the view keeps the pointer.
    pointer = ffi.gc(ffi.cast("char *", start), lambda _, held=held: None)
    return memoryview(ffi.buffer(pointer, length)).toreadonly()


def payload_of(msg) -> Optional[memoryview]:
    """The payload of a message, without a copy; None if it has none."""
    length = ffi.new("size_t *")
    start = lib.flux_msg_payload(msg, length)
    return buffer_of(msg, start, length[0]) if start else None


def decode_payload(msg) -> Any:
    """The payload: the value of JSON, a view of raw bytes, None if there is none."""
    view = payload_of(msg)
    if view is None or lib.flux_msg_has_flag(msg, lib.FLUX_MSGF_RAW):
        return view
    return from_json(bytes(view))


def string_array(items) -> Tuple[Any, list]:
    """`char *[]` with a NULL at the end, and what must be kept while it is in use."""
    kept = [ffi.new("char[]", item) for item in items]
    return ffi.new("char *[]", kept + [NULL]), kept


def members(ids) -> Iterator[int]:
    """The numbers of an idset (a str), or of an iterable."""
    if not isinstance(ids, str):
        yield from ids
        return
    err = ffi.new("errmsg_t *")
    found = lib.idset_parse(text(ids, "a set of numbers"), err)
    if not found:
        fail_with(err)
    found = ffi.gc(found, lib.idset_destroy)
    number = lib.idset_first(found)
    while number != lib.IDSET_NONE:
        yield number
        number = lib.idset_next(found, number)
