"""port.py - what the stages of the pipeline have in common: they read a stream, and write another.

A port counts the seconds that are spent in it. If PLASMA_FILES is in the environment, files in the
directory that it names take the place of streams: one of each step and writer, STREAM.STEP.RANK. It
begins with the length of its head, 8 bytes; the head is JSON, and says for each variable of which
type and shape it is, and where in the file.

Arrays are pieces of global arrays, cut along the first dimension, or values of one writer.
"""

import json
import math
import os
import sys
import time

import flux
import numpy

DEPTH = 2  # steps of a writer that wait for a reader: stages are near each other in time
TIMEOUT = 60  # seconds that other stages have to come
ALIGN = 64


class Stage:
    """The task of its job, and how many that has: 0 of 1 outside of a job."""

    def __init__(self, name):
        self.name = name
        self.handle = flux.open()
        self.rank, self.size = self.handle.stream_rank()
        self.began = time.perf_counter()

    def share(self, total, rank=None):
        """The first row of this task, or of another one, and the one behind its last."""
        rank = self.rank if rank is None else rank
        return total * rank // self.size, total * (rank + 1) // self.size

    def reader(self, stream):
        """Read a stream, or its files."""
        directory = os.environ.get("PLASMA_FILES")
        if directory:
            return Reader(Files(directory, stream))
        return Reader(self.handle.stream_reader(stream, depth=DEPTH, timeout=TIMEOUT))

    def writer(self, stream, readers):
        """Write a stream as the task that this is, when its readers are there; or files."""
        directory = os.environ.get("PLASMA_FILES")
        if directory:
            return Writer(FileWriter(directory, stream, self.rank))
        return Writer(
            self.handle.stream_writer(stream, readers=readers, timeout=TIMEOUT)
        )

    def finish(self, read, written):
        """Close both ends, and print how long the stage has waited and written."""
        whole = time.perf_counter() - self.began
        say(
            f"{self.name} {self.rank}: {read.steps} steps, {read.bytes / 1e6:.1f} MB,"
            f" {whole:.3f} s: {read.seconds:.3f} s waiting, {written.seconds:.3f} s in output"
        )
        read.close()
        written.close()


class Writer:
    """The end of a stream that writes."""

    def __init__(self, out):
        self.out = out
        self.seconds = 0.0

    def end_step(self, values):
        """Publish a step. A value is an array, or one with the shape of the global array and the
        first row of this piece of it."""
        before = time.perf_counter()
        for name, value in values.items():
            if isinstance(value, tuple):
                array, shape, first = value
                offset = [first] + [0] * (len(shape) - 1)
                self.out.put(name, array, shape=shape, offset=offset)
            else:
                self.out.put(name, value)
        self.out.end_step()
        self.seconds += time.perf_counter() - before

    def close(self):
        """Leave the stream."""
        self.out.close()


class Reader:
    """The end that reads: a stream, a recording of one, or files."""

    def __init__(self, source):
        self.source = source
        self.step = None
        self.steps = 0
        self.bytes = 0
        self.seconds = 0.0

    def __iter__(self):
        while True:
            before = time.perf_counter()
            self.step = self.source.begin_step()
            self.seconds += time.perf_counter() - before
            if self.step is None:
                return
            self.steps += 1
            yield self

    @property
    def writers(self):
        """The number of writers."""
        return self.source.writers

    def array(self, name, writer=0):
        """What a writer has put, where it is."""
        array = self.step.array(name, writer)
        self.bytes += array.nbytes
        return array

    def shape(self, name):
        """The shape of a global array."""
        return self.step.inquire(name).shape

    def rows(self, name, first, end):
        """Rows of a global array, from whichever writers have them."""
        shape = self.shape(name)
        before = time.perf_counter()
        rows = self.step.read(
            name, [first] + [0] * (len(shape) - 1), [end - first, *shape[1:]]
        )
        self.seconds += time.perf_counter() - before
        self.bytes += rows.nbytes
        return rows

    def close(self):
        """Leave the stream."""
        self.source.close()


def path_of(directory, stream, step, rank):
    """The file of a step of a writer."""
    return os.path.join(directory, f"{stream}.{step}.{rank}")


class FileWriter:
    """Writes files, with the calls of flux.StreamWriter."""

    def __init__(self, directory, stream, rank):
        self.path = (directory, stream)
        self.rank = rank
        self.step = 0
        self.values = {}

    def put(self, name, array, *, shape=None, offset=None):
        """Add a variable to the step."""
        self.values[name] = (array, shape, offset)

    def end_step(self):
        """Write the file of the step."""
        head, at = {}, 0
        for name, (array, shape, offset) in self.values.items():
            head[name] = {
                "type": array.dtype.str,
                "count": array.shape,
                "shape": shape,
                "offset": offset,
                "at": at,
            }
            at += array.nbytes + -array.nbytes % ALIGN
        text = json.dumps(head).encode()
        text += b" " * (-(len(text) + 8) % ALIGN)
        with open(path_of(*self.path, self.step, self.rank), "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for array, _, _ in self.values.values():
                file.write(array)
                file.write(bytes(-array.nbytes % ALIGN))
        self.values = {}
        self.step += 1

    def close(self):
        """Nothing is open."""


class Piece:
    """A variable in the file of a writer."""

    def __init__(self, file, base, head):
        self.file = file
        self.at = base + head["at"]
        self.dtype = numpy.dtype(head["type"])
        self.count = head["count"]
        self.shape = head["shape"]
        self.first = head["offset"][0] if head["offset"] else 0

    def rows(self, first, end):
        """Rows of it, counted from its own first one."""
        array = numpy.empty([end - first, *self.count[1:]], self.dtype)
        row = math.prod(self.count[1:]) * self.dtype.itemsize
        self.file.seek(self.at + first * row)
        if self.file.readinto(memoryview(array).cast("B")) != array.nbytes:
            raise EOFError(f"{self.file.name} is shorter than its head says")
        return array


class Files:
    """Reads what all writers have made before it came, with the calls of flux.StreamReader; it is
    the step that was begun, too."""

    def __init__(self, directory, stream):
        self.path = (directory, stream)
        self.number = -1
        self.writers = 0
        while os.path.exists(path_of(*self.path, 0, self.writers)):
            self.writers += 1
        self.open = []
        self.pieces = []  # of each writer, by name

    def begin_step(self):
        """The next step, or None."""
        self.close()
        self.number += 1
        paths = [path_of(*self.path, self.number, rank) for rank in range(self.writers)]
        if not paths or not all(map(os.path.exists, paths)):
            return None
        for path in paths:
            file = open(path, "rb")
            self.open.append(file)
            size = int.from_bytes(file.read(8), "little")
            head = json.loads(file.read(size))
            self.pieces.append({name: Piece(file, 8 + size, one) for name, one in head.items()})
        return self

    def inquire(self, name):
        """Of a variable, what has its shape."""
        return self.pieces[0][name]

    def array(self, name, writer=0):
        """What a writer has put."""
        piece = self.pieces[writer][name]
        return piece.rows(0, piece.count[0])

    def read(self, name, start, count):
        """Rows of a global array."""
        first, end = start[0], start[0] + count[0]
        parts = []
        for pieces in self.pieces:
            piece = pieces[name]
            low, high = max(first, piece.first), min(end, piece.first + piece.count[0])
            if low < high:
                parts.append(piece.rows(low - piece.first, high - piece.first))
        return numpy.concatenate(parts) if parts else numpy.empty(count, self.inquire(name).dtype)

    def close(self):
        """Close the files of the step."""
        for file in self.open:
            file.close()
        self.open, self.pieces = [], []


def say(text):
    """Print a line with one write: so lines of tasks do not mix if Python has no buffer."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def usage_error(what, usage):
    """End with exit code 2."""
    print(f"{os.path.basename(sys.argv[0])}: {what}\nUsage: {usage}", file=sys.stderr)
    sys.exit(2)


def options(usage, **defaults):
    """Options --NAME=NUMBER, by the default and the least value of each; and other arguments."""
    values = {name: default for name, (default, _) in defaults.items()}
    rest = []
    for arg in sys.argv[1:]:
        name, _, text = arg[2:].partition("=")
        if not arg.startswith("--"):
            rest.append(arg)
        elif name not in values:
            usage_error(f"'{arg}' is not an option", usage)
        elif not text.isdecimal() or int(text) < defaults[name][1]:
            usage_error(f"{arg}: not a number from {defaults[name][1]} on", usage)
        else:
            values[name] = int(text)
    return values, rest
