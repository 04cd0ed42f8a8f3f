"""histogram.py - histograms of what the simulation has written, in any number of processes.

    histogram.py particles|mesh [--readers=N]       one task or more
    histogram.py total particles|mesh [--readers=N] one task

The first reads plasma.particles or plasma.mesh. Each task takes an equal share of the rows of each
array, whatever writers have them, and counts; bins are parts of the range of all values, which it
knows from the ranges that writers have put. It writes plasma.particles.parts or plasma.mesh.parts,
which the second adds up: plasma.particles.counts or plasma.mesh.counts, with the range of each
histogram, and says when electrons have filled the gap between the beams.
"""

import sys

import numpy

import port

BINS = 64
# Each histogram by its axes: an array, and a column of it.
HISTOGRAMS = {
    "particles": {"velocity": [("v", 0)], "phase": [("x", 0), ("v", 0)]},
    "mesh": {"charge": [("charge", None)], "potential": [("potential", None)]},
}
USAGE = "histogram.py [total] particles|mesh [--readers=N]"


def count(axes, edges):
    """How many values, or pairs of values, are in each bin of a range."""
    if len(axes) == 1:
        return numpy.histogram(axes[0], BINS, edges[0])[0].astype(numpy.int64)
    return numpy.histogram2d(*axes, BINS, edges)[0].astype(numpy.int64)


def range_of(step, name, column):
    """The range of a column of an array, of all writers."""
    ranges = numpy.stack([step.array(name + ".range", w) for w in range(step.writers)])
    column = column or 0
    return float(ranges[:, 0, column].min()), float(ranges[:, 1, column].max())


def histograms(stage, step, kind):
    """What this task has counted, and the range of each axis."""
    rows = {}
    for axes in HISTOGRAMS[kind].values():
        for name, _ in axes:
            if name not in rows:
                rows[name] = step.rows(name, *stage.share(step.shape(name)[0]))
    values = {}
    for histogram, axes in HISTOGRAMS[kind].items():
        edges = [range_of(step, *axis) for axis in axes]
        columns = [
            rows[name].ravel() if column is None else rows[name][:, column] for name, column in axes
        ]
        values[histogram] = count(columns, edges)
        values[histogram + ".range"] = numpy.array(edges)
    return values


def parts(kind, readers):
    """Count the share of this task."""
    stage = port.Stage(kind)
    read = stage.reader(f"plasma.{kind}")
    written = stage.writer(f"plasma.{kind}.parts", readers)
    for step in read:
        values = histograms(stage, step, kind)
        values["time"] = step.array("time").copy()
        written.end_step(values)
    stage.finish(read, written)


def mixed(velocity):
    """Has the gap between the beams, around velocity 0, half as many electrons as a mean bin?"""
    middle = velocity[BINS // 2 - 2 : BINS // 2 + 2]
    return middle.mean() > velocity.mean() / 2


def total(kind, readers):
    """Add up what tasks have counted."""
    stage = port.Stage(f"total.{kind}")
    read = stage.reader(f"plasma.{kind}.parts")
    written = stage.writer(f"plasma.{kind}.counts", readers)
    filled = False
    values = {}
    for step in read:
        values = {"time": step.array("time").copy()}
        for name in HISTOGRAMS[kind]:
            values[name] = sum(step.array(name, w) for w in range(step.writers))
            values[name + ".range"] = step.array(name + ".range").copy()
        if kind == "particles" and not filled and mixed(values["velocity"]):
            filled = True
            report(kind, values, "the beams mix: ")
        written.end_step(values)
    if values:
        report(kind, values, "the end: ")
    stage.finish(read, written)


def report(kind, values, what):
    """Print the ranges of a step."""
    ranges = ", ".join(
        f"{name} {values[name + '.range'][-1][0]:.3f} to {values[name + '.range'][-1][1]:.3f}"
        for name, axes in HISTOGRAMS[kind].items()
        if len(axes) == 1
    )
    port.say(f"{kind}: time {values['time'][0]}: {what}{ranges}")


def main():
    """Read the arguments."""
    given, rest = port.options(USAGE, readers=(1, 0))
    whole = rest[:1] == ["total"]
    if len(rest) != 1 + whole or rest[-1] not in HISTOGRAMS:
        port.usage_error("which histograms?", USAGE)
    if whole:
        total(rest[-1], given["readers"])
    else:
        parts(rest[-1], given["readers"])


if __name__ == "__main__":
    main()
