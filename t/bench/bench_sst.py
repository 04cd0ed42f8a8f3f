"""bench_sst.py - one writer and one reader by the call names of adios2, with either package.

bench_sst.sh runs both ends, once with the package adios2 and its engine SST, and once with flux.adios2:
nothing but the import differs. The reader prints steps a second, or how long after it was written half of
the steps, and 99%, have been read, in microseconds.
"""

import importlib
import os
import sys
import time

import numpy


def now():
    """Seconds of a clock that both processes have."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def write(stream, array, steps, pause, ready):
    """Write the steps when the reader is there; with a pause, one at a time."""
    while not os.path.exists(ready):
        time.sleep(0.01)
    due = now()
    for _ in stream.steps(steps):
        if pause:
            due += pause
            time.sleep(max(due - now(), 0))
            array[0] = now()
        stream.write("x", array, list(array.shape), [0], list(array.shape))


def read(stream, pause, ready):
    """Read all steps, and print the result."""
    open(ready, "w", encoding="ascii").close()
    times, late = [], []
    for _ in stream.steps():
        x = stream.read("x")
        times.append(now())
        late.append(times[-1] - float(x[0]))
    if pause:
        late = 1e6 * numpy.array(late[len(late) // 10 :])
        print(f"{numpy.percentile(late, 50):.1f} {numpy.percentile(late, 99):.1f}")
    else:
        print(f"{(len(times) - 1) / (times[-1] - times[0]):.2f}")


def main(package, end, name, length, steps, pause):
    """One end of the stream."""
    adios2 = importlib.import_module(package)
    io = adios2.Adios().declare_io("bench")
    io.set_engine("SST")
    # The defaults of streams: a queue of 2 steps, and a writer that waits.
    io.set_parameters(
        {"RendezvousReaderCount": "1", "QueueLimit": "2", "QueueFullPolicy": "Block"}
    )
    with adios2.Stream(io, name, "w" if end == "write" else "r") as stream:
        if end == "write":
            array = numpy.zeros(int(length) // 8)
            write(stream, array, int(steps), float(pause), name + ".ready")
        else:
            read(stream, float(pause), name + ".ready")


main(*sys.argv[1:])
