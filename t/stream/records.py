"""Random records in Python, for t/stream-records.t.

    records.py check FILE EXPECTED     compare a recording with what `records print` says
    records.py copy FILE NAME          write a stream with the records of a recording
"""

import json
import math
import sys

import flux

try:
    import numpy
except ImportError:
    numpy = None


def plain(value):
    """A value as `records print` has it."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, bytes):
        return "hex:" + value.hex()
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def empty(value, wanted):
    """The same, where no elements, in any dimensions, are "empty"."""
    if isinstance(wanted, dict) and isinstance(value, dict):
        return {name: empty(part, wanted.get(name)) for name, part in value.items()}
    if isinstance(wanted, list) and isinstance(value, list) and len(wanted) == len(value):
        return [empty(part, want) for part, want in zip(value, wanted)]
    return "empty" if wanted == "empty" and value in ([], "hex:") else value


def check(path, expected):
    """All records are the expected ones."""
    with open(expected, encoding="utf-8") as lines, flux.Recording(path) as steps:
        for line in lines:
            wanted = json.loads(line)
            step = steps.begin_step()
            for name in step.variables():
                kind = step.format(name)
                got = empty(plain(step.records(name)), wanted[name])
                if got != wanted[name]:
                    sys.exit(f"step {step.number}: {name}: {got}, expected {wanted[name]}")
                if kind.flat and numpy:
                    array = step.array(name)
                    assert array.dtype == kind.dtype and len(array) == len(got)
        assert steps.begin_step() is None


def copy(path, name):
    """Each record is read, and written again."""
    with flux.open() as handle, flux.Recording(path) as steps:
        with handle.stream_writer(name, readers=1) as out:
            for step in steps:
                for variable in step.variables():
                    kind = step.format(variable)
                    out.put(variable, step.records(variable), format=kind)
                out.end_step()


if __name__ == "__main__":
    {"check": check, "copy": copy}[sys.argv[1]](*sys.argv[2:])
