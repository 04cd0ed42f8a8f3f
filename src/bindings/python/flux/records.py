"""Records: the formats of flux-stream-format(3), and their values in Python.

A record is a dict, or an instance of a dataclass; its fields are numbers, bool, str, bytes (for
`char` and `bytes`), lists of these, nested for each dimension, other records, or None for what is
absent. The memory of C structs, which libstream encodes and converts, is made and read here, field
by field.

    atom = flux.RecordFormat('''
        record atom
          field id u64
          field n u32
          field near f64[n]
          field name string
    ''')
    out.put("atom", {"id": 7, "near": [0.5, 1.5], "name": "Cu"}, format=atom)

Sizes of arrays (`n`) may be left out: they follow from the arrays.
"""

import dataclasses
import struct
import typing
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _c
from ._libflux import ffi, lib
from .errors import fail_with

__all__ = ["RecordFormat"]

# Letters of the module struct, by the names of types.
_CODES = {"i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H", "u32": "I"}
_CODES.update({"u64": "Q", "f32": "f", "f64": "d", "c64": "ff", "c128": "dd", "bool": "?"})
_SIMPLE = {int: "i64", float: "f64", complex: "c128", bool: "bool", str: "string"}
_TEXTS = ("char", "bytes")
_POINTER = struct.calcsize("P")


def _attributes(attrs) -> Dict[str, str]:
    """The attributes of a format or of a field."""
    found: Dict[str, str] = {}
    while attrs and attrs[len(found)].name:
        attr = attrs[len(found)]
        found[_c.string(attr.name)] = _c.string(attr.value)
    return found


class _Field:
    """A field of a format: what struct stream_field says."""

    # pylint: disable=too-few-public-methods,too-many-instance-attributes
    def __init__(self, format_: "RecordFormat", c) -> None:
        self.name = _c.string(c.name)
        self.type = _c.string(lib.stream_elem_name(c.type))
        self.where = f"{format_.name}.{self.name}"
        self.optional = bool(c.flags & lib.STREAM_OPTIONAL)
        self.offset, self.elem = c.offset, c.elem
        self.slot, self.pointers = c.slot, c.pointers
        # A dimension is a number, or the index of the field that has it.
        dims = (c.dims[i] for i in range(c.ndims))
        self.dims: List[Tuple[int, int]] = [(dim.fixed, dim.field) for dim in dims]
        self.of = format_._inner(c.of) if c.of else None
        self.attributes = _attributes(c.attrs)
        self.default = self.attributes.get("default")

    def absent(self) -> Any:
        """The value for a program that does not have the field."""
        if self.optional or (self.of and self.pointers):
            return None
        if self.dims and any(not fixed for fixed, _ in self.dims):
            return []
        if self.default is None or self.dims:
            raise ValueError(f"field {self.where} has no value")
        if self.type == "bool":
            return self.default in ("1", "true")
        if self.type in _CODES:
            return float(self.default) if self.type[0] == "f" else int(self.default)
        return self.default


class RecordFormat:
    """The format of records in streams.

    `text` is that of flux-stream-format(3), in which offsets and sizes may be left out. A format
    can also be made from a dataclass (`from_dataclass()`), or from a structured type of NumPy
    (`from_dtype()`).
    """

    def __init__(self, text: str) -> None:
        err = ffi.new("errmsg_t *")
        pointer = lib.stream_format_sketch(_c.text(text, "the format"), err)
        if not pointer:
            fail_with(err)
        self._init(pointer, True, {})

    def _init(self, pointer, outer: bool, known: Dict[Any, "RecordFormat"]) -> None:
        known[pointer] = self
        self._known = known
        # Formats inside it live as long as it does.
        self._f = ffi.gc(pointer, lib.stream_format_destroy) if outer else pointer
        self._class: Optional[type] = None
        #: The name of the outermost record.
        self.name: str = _c.string(lib.stream_format_name(pointer))
        #: The attributes of the outermost record; those of a field: `field_attributes()`.
        self.attributes: Dict[str, str] = _attributes(lib.stream_format_attrs(pointer))
        #: Are all fields in place, without pointers? Then NumPy has a type for it (`dtype`).
        self.flat: bool = lib.stream_format_flat(pointer)
        self.size: int = lib.stream_format_size(pointer)
        self._fields = [
            _Field(self, lib.stream_format_field(pointer, i))
            for i in range(lib.stream_format_count(pointer))
        ]
        if outer:
            self._known = {}

    def field_attributes(self, path: str) -> Dict[str, str]:
        """The attributes, such as units, of a field: of "id", or "at.x" of a record inside."""
        kind: Optional[RecordFormat] = self
        for name in path.split("."):
            field = next((f for f in kind._fields if f.name == name), None) if kind else None
            if field is None:
                raise KeyError(f"records of format {self.name} have no field {path}")
            kind = field.of
        assert field is not None
        return dict(field.attributes)

    @classmethod
    def _wrap(cls, pointer) -> "RecordFormat":
        """Takes over a reference."""
        self = cls.__new__(cls)
        self._init(pointer, True, {})
        return self

    def _inner(self, pointer) -> "RecordFormat":
        if pointer in self._known:
            return self._known[pointer]
        other = RecordFormat.__new__(RecordFormat)
        other._init(pointer, False, self._known)
        return other

    @classmethod
    def _native_of(cls, pointer) -> "RecordFormat":
        err = ffi.new("errmsg_t *")
        native = lib.stream_format_native(pointer, err)
        if not native:
            fail_with(err)
        return cls._wrap(native)

    @classmethod
    def of(cls, what: Union["RecordFormat", str, type]) -> "RecordFormat":
        """A format as it is, of a text, or of a dataclass."""
        if isinstance(what, RecordFormat):
            return what
        if isinstance(what, str):
            return cls(what)
        return cls.from_dataclass(what)

    @classmethod
    def from_dataclass(cls, kind: type) -> "RecordFormat":
        """The format of a dataclass; records of it are read as instances of the class.

        int is i64, float f64, complex c128, bool, str; a dataclass a record in place, Optional
        what may be absent, and List of these an array, whose size is a field of its own that the
        class does not have. Annotated[..., "f32[3]"] is the type of flux-stream-format(3) itself.
        """
        done: Dict[type, str] = {}
        lines: List[str] = []
        _describe(kind, done, lines)
        self = cls("\n".join(lines))
        self._adopt(kind)
        return self

    def _adopt(self, kind: type) -> None:
        self._class = kind
        hints = typing.get_type_hints(kind)
        for field in self._fields:
            inner = _dataclass_in(hints.get(field.name))
            if field.of and inner and not field.of._class:
                field.of._adopt(inner)

    @classmethod
    def from_dtype(cls, dtype, name: str = "item") -> "RecordFormat":
        """The format of a structured type of NumPy, with its offsets."""
        lines: List[str] = [f"flux-format 1 pointers {_POINTER}"]
        _describe_dtype(dtype, name, lines)
        return cls("\n".join(lines))

    @property
    def text(self) -> str:
        """The canonical text."""
        return _c.string(lib.stream_format_text(self._f))

    @property
    def id(self) -> str:
        """The id that goes with the data: 16 hexadecimal digits."""
        return f"{lib.stream_format_id(self._f):016x}"

    @property
    def fields(self) -> List[str]:
        """The names of the fields."""
        return [field.name for field in self._fields]

    @property
    def dtype(self):
        """The structured type of NumPy; TypeError for records with pointers."""
        import numpy

        if not self.flat:
            raise TypeError(f"records of format {self.name} have pointers")
        formats: List[Any] = []
        for field in self._fields:
            shape = [fixed for fixed, _ in field.dims]
            if field.of:
                kind: Any = field.of.dtype
            elif field.type in _TEXTS:
                kind = f"{'S' if field.type == 'char' else 'V'}{shape.pop() if shape else 1}"
            else:
                kind = "?" if field.type == "bool" else f"{field.type[0]}{field.elem}"
            formats.append((kind, tuple(shape)) if shape else kind)
        return numpy.dtype(
            {
                "names": self.fields,
                "formats": formats,
                "offsets": [field.offset for field in self._fields],
                "itemsize": self.size,
            }
        )

    # --- to C ---

    def pack(self, records: Sequence) -> Tuple[Any, List[Any]]:
        """Structs of C, one after the other, and what they point to."""
        memory = ffi.new("char[]", max(1, len(records) * self.size))
        kept: List[Any] = []
        buffer = ffi.buffer(memory)
        for i, record in enumerate(records):
            self._pack(buffer, i * self.size, record, kept)
        return memory, kept

    def _values(self, record) -> Dict[str, Any]:
        if isinstance(record, Mapping):
            unknown = set(record) - set(self.fields)
            if unknown:
                raise ValueError(f"records of format {self.name} have no field {min(unknown)}")
            return dict(record)
        if dataclasses.is_dataclass(record) and not isinstance(record, type):
            names = {f.name for f in dataclasses.fields(record)}
            return {name: getattr(record, name) for name in self.fields if name in names}
        raise TypeError(f"a record of format {self.name} is a dict or an instance of a dataclass")

    def _pack(self, buffer, at: int, record, kept: List[Any]) -> None:
        values = self._values(record)
        shapes: Dict[str, List[int]] = {}
        # Sizes first: those that are not given follow from the arrays.
        for field in self._fields:
            value = values.get(field.name)
            if not field.dims or value is None:
                continue
            shapes[field.name] = shape = _shape(field, value)
            if field.type in _TEXTS and field.dims[-1][0]:  # filled up with NUL
                shape[-1] = field.dims[-1][0]
            for n, (fixed, index) in zip(shape, field.dims):
                want = fixed or values.setdefault(self._fields[index].name, n)
                if want != n and 0 not in shape:
                    raise ValueError(f"field {field.where} has {n} elements, not {want}")
        for field in self._fields:
            if field.name not in values and any(
                index == self._fields.index(field)
                for other in self._fields
                for fixed, index in other.dims
                if not fixed
            ):
                values[field.name] = 0
            value = values[field.name] if field.name in values else field.absent()
            shape = shapes.get(field.name, [])
            _pack_field(field, buffer, at + field.offset, value, shape, kept)

    # --- from C ---

    def unpack(self, pointer, count: int) -> List[Any]:
        """The records in `count` structs, as dicts, or instances of the dataclass."""
        return [self._unpack(pointer + i * self.size) for i in range(count)]

    def _unpack(self, record) -> Any:
        values: Dict[str, Any] = {}
        numbers: Dict[int, int] = {}
        for i, field in enumerate(self._fields):
            if not field.dims and not field.slot and field.type[0] in "iu":
                numbers[i] = values[field.name] = _scalars(field.type, record + field.offset, 1)[0]
        for field in self._fields:
            if field.name not in values:
                shape = [fixed or numbers[index] for fixed, index in field.dims]
                values[field.name] = _unpack_field(field, record + field.offset, shape)
        if self._class:
            names = {f.name for f in dataclasses.fields(self._class)}
            return self._class(**{k: v for k, v in values.items() if k in names})
        return values

    def __eq__(self, other) -> bool:
        return isinstance(other, RecordFormat) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"<flux.RecordFormat {self.name!r}>"


# --- values ---


def _shape(field: _Field, value) -> List[int]:
    shape: List[int] = []
    for _ in field.dims:
        if isinstance(value, str) and field.type == "char":
            value = value.encode()
        shape.append(len(value))
        value = value[0] if len(value) > 0 else ()
    return shape


def _flat(value, depth: int):
    """The elements of nested lists."""
    if depth == 0:
        yield value
        return
    for part in value:
        yield from _flat(part, depth - 1)


def _as_bytes(field: _Field, value, size: int) -> bytes:
    data = value.encode() if isinstance(value, str) else bytes(value)
    if len(data) > size:
        raise ValueError(f"field {field.where} has {len(data)} bytes, not {size}")
    return data.ljust(size, b"\0")


def _element_bytes(field: _Field, value, shape: List[int], kept: List[Any]) -> bytes:
    """The elements of a field as they are in memory."""
    if field.type in _TEXTS:
        last = shape[-1] if shape else 1
        return b"".join(_as_bytes(field, v, last) for v in _flat(value, max(0, len(shape) - 1)))
    elements = list(_flat(value, len(shape)))
    if field.of:
        return b"".join(_record_bytes(field, v, kept) for v in elements)
    if field.type == "string":
        return b"".join(_string_bytes(field, v, kept) for v in elements)
    if field.type[0] == "c":
        elements = [part for v in elements for part in (complex(v).real, complex(v).imag)]
    code = _CODES[field.type]
    try:
        return struct.pack(f"={len(elements)}{code[0]}", *elements)
    except (struct.error, OverflowError) as e:
        raise ValueError(f"field {field.where} of type {field.type}: {e}") from None


def _address(memory) -> bytes:
    return struct.pack("=Q" if _POINTER == 8 else "=I", int(ffi.cast("uintptr_t", memory)))


def _string_bytes(field: _Field, value, kept: List[Any]) -> bytes:
    if value is None:
        return bytes(_POINTER)
    kept.append(ffi.new("char[]", _c.text(value, f"field {field.where}")))
    return _address(kept[-1])


def _record_bytes(field: _Field, value, kept: List[Any]) -> bytes:
    assert field.of is not None
    if value is None and field.pointers:
        return bytes(_POINTER)
    memory = ffi.new("char[]", field.of.size)
    field.of._pack(ffi.buffer(memory), 0, value, kept)
    if not field.pointers:
        return bytes(ffi.buffer(memory))
    kept.append(memory)
    return _address(memory)


def _pack_field(field: _Field, buffer, at: int, value, shape: List[int], kept: List[Any]) -> None:
    if value is None and (field.slot or field.pointers):
        return
    if field.dims and 0 in shape:
        return
    data = _element_bytes(field, value, shape, kept)
    if field.slot:
        kept.append(ffi.new("char[]", data))
        data = _address(kept[-1])
    buffer[at : at + len(data)] = data


def _scalars(kind: str, pointer, count: int) -> Tuple[Any, ...]:
    code = _CODES[kind]
    values = struct.unpack(
        f"={count * len(code)}{code[0]}", ffi.buffer(pointer, count * struct.calcsize("=" + code))
    )
    if kind[0] == "c":
        return tuple(map(complex, values[::2], values[1::2]))
    return values


def _follow(pointer):
    return ffi.cast("char **", pointer)[0]


def _unpack_field(field: _Field, pointer, shape: List[int]) -> Any:
    if field.slot:
        pointer = _follow(pointer)
        if not pointer:
            return [] if 0 in shape else None
    count = 1
    for n in shape:
        count *= n
    if field.type in _TEXTS:
        last = shape.pop() if shape else 1
        data = bytes(ffi.buffer(pointer, count))
        elements: List[Any] = [data[i : i + last] for i in range(0, count, last)] if last else []
    elif field.type in _CODES:
        elements = list(_scalars(field.type, pointer, count))
    else:
        elements = [_unpack_element(field, pointer + i * field.elem) for i in range(count)]
    if not shape:
        return elements[0] if elements else b""
    for n in reversed(shape[1:]):
        elements = [elements[i : i + n] for i in range(0, len(elements), n)] if n else []
    return elements


def _unpack_element(field: _Field, pointer) -> Any:
    if field.pointers:
        pointer = _follow(pointer)
        if not pointer:
            return None
    return field.of._unpack(pointer) if field.of else _c.string(pointer)


# --- descriptions ---


def _dataclass_in(hint) -> Optional[type]:
    """The dataclass that a hint is about, or None."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return hint
    for part in typing.get_args(hint):
        found = _dataclass_in(part)
        if found:
            return found
    return None


def _describe(kind: type, done: Dict[type, str], lines: List[str]) -> str:
    """Add the lines of a dataclass, and before them those of the ones inside it: its name."""
    if kind in done:
        return done[kind]
    if not dataclasses.is_dataclass(kind):
        raise TypeError(f"{kind!r} is not a dataclass")
    done[kind] = kind.__name__
    own = [f"record {kind.__name__}"]
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        own += _describe_field(kind, field, hints[field.name], done, lines)
    lines += own
    return kind.__name__


def _describe_field(kind: type, field, hint, done: Dict[type, str], lines: List[str]) -> List[str]:
    name = field.name
    for note in getattr(hint, "__metadata__", ()):
        if isinstance(note, str):
            inner = _dataclass_in(hint)
            if inner and inner is not kind:
                _describe(inner, done, lines)
            return [f"field {name} {note}"]
    args, optional, array = typing.get_args(hint), False, False
    if typing.get_origin(hint) is Union and type(None) in args and len(args) == 2:
        optional, hint = True, args[0] if args[1] is type(None) else args[1]
    if typing.get_origin(hint) in (list, tuple, typing.get_origin(List[int])):
        array, hint = True, typing.get_args(hint)[0]
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        inner_name = kind.__name__ if hint is kind else _describe(hint, done, lines)
        pointer = hint is kind or (optional and not array)
        text = ("*" if pointer else "") + inner_name
        optional = optional and array
    elif hint in _SIMPLE:
        text = _SIMPLE[hint]
    else:
        raise TypeError(f"field {name} of {kind.__name__}: {hint!r} is not a type of records")
    end = " optional" if optional else ""
    if array:
        return [f"field n_{name} u64", f"field {name} {text}[n_{name}]{end}"]
    return [f"field {name} {text}{end}"]


def _describe_dtype(dtype, name: str, lines: List[str]) -> None:
    own: List[str] = []
    if not dtype.names:
        raise TypeError(f"{dtype} has no fields")
    for field in dtype.names:
        kind, offset = dtype.fields[field][:2]
        base, shape = kind.subdtype if kind.subdtype else (kind, ())
        dims = list(shape)
        sizes = (8, 16) if base.kind == "c" else (1, 2, 4, 8)
        if base.names:
            text = f"{name}_{field}"
            _describe_dtype(base, text, lines)
        elif base.kind in "SV":
            text = "char" if base.kind == "S" else "bytes"
            dims += [base.itemsize] if base.itemsize > 1 else []
        elif base.kind in "iufc" and base.itemsize in sizes:
            text = f"{base.kind}{8 * base.itemsize}"
        elif base.kind == "b":
            text = "bool"
        else:
            raise TypeError(f"field {field} of {name}: {base} is not a type of records")
        own.append(f"field {field} {text}{''.join(f'[{n}]' for n in dims)} at {offset}")
    align = dtype.alignment if dtype.isalignedstruct else 1
    lines.append(f"record {name} size {dtype.itemsize} align {align}")
    lines += own
