"""What `StreamWriter.put()` takes, as memory of elements of one type."""

import array
import ctypes
import re
import sys

MAX_DIMS = 16
# Kinds of elements of the buffer protocol.
_KINDS = {"b": "i", "h": "i", "i": "i", "l": "i", "q": "i", "n": "i"}
_KINDS.update({kind.upper(): "u" for kind in _KINDS}, e="f", f="f", d="f", Zf="c", Zd="c")
_OTHER_ORDER = ">" if sys.byteorder == "little" else "<"


def element(view: memoryview) -> str:
    """The type of elements of a buffer, as libstream names it."""
    match = re.fullmatch(r"[@=<]?(Z?\w|\?)", view.format)
    letter = match[1] if match else ""
    if letter == "?":
        return "bool"
    if letter == "c":
        return "char"
    if letter not in _KINDS:
        raise TypeError(f"elements of the format '{view.format}' cannot be put into a stream")
    if view.ndim > MAX_DIMS:
        raise ValueError(f"an array has at most {MAX_DIMS} dimensions")
    return f"{_KINDS[letter]}{8 * view.itemsize}"


def _integer(value: int):
    kind = ctypes.c_int64 if value < 1 << 63 else ctypes.c_uint64
    if not -(1 << 63) <= value < 1 << 64:
        raise OverflowError(f"{value} has more than 64 bits")
    return kind(value)


def _numbers(values):
    """An array of a list of numbers; of lists of lists if there is NumPy."""
    if all(isinstance(v, bool) for v in values) and values:
        return (ctypes.c_bool * len(values))(*values)
    if all(isinstance(v, int) for v in values):
        unsigned = any(v >= 1 << 63 for v in values)
        return array.array("Q" if unsigned else "q", values)
    if all(isinstance(v, (int, float)) for v in values):
        return array.array("d", values)
    return _asarray(values)


def _asarray(values):
    import numpy  # pylint: disable=import-outside-toplevel

    return numpy.asarray(values)


def _native(data):
    """The same array, contiguous and of the byte order of this machine, perhaps a copy."""
    view = memoryview(data)
    other = view.format[:1] == _OTHER_ORDER and view.itemsize > 1
    if not other and (view.c_contiguous or view.f_contiguous):
        return data
    if not other and re.fullmatch(r"[@=<]?\w|\?", view.format):
        return memoryview(view.tobytes()).cast(view.format.lstrip("@=<"), view.shape)
    if hasattr(data, "dtype"):
        return data.astype(data.dtype.newbyteorder("="), order="C")
    raise TypeError("an array of the other byte order can be put only if it is one of NumPy")


def plain(data):
    """What has the buffer protocol, contiguous, for arrays, bytes, numbers, texts and lists."""
    try:
        if isinstance(data, bool):
            return ctypes.c_bool(data)
        if isinstance(data, int):
            return _integer(data)
        if isinstance(data, float):
            return ctypes.c_double(data)
        if isinstance(data, str):
            text = data.encode()
            return memoryview(text).cast("c") if text else b""
        if isinstance(data, (list, tuple)):
            data = _numbers(data)
        elif isinstance(data, complex):
            data = _asarray(data)
        data = _native(data)
        if not isinstance(data, (bytes, bytearray)):
            element(memoryview(data))
        return data
    except ImportError:
        why = "lists of lists and complex numbers need NumPy"
    except (TypeError, ValueError, OverflowError, BufferError) as e:
        why = str(e)
        if isinstance(e, OverflowError):
            raise
        if why.startswith("memoryview: "):
            kind = type(data).__name__
            why = f"{kind} is not an array, bytes, a number, a text or a list of numbers"
    raise TypeError(why)
