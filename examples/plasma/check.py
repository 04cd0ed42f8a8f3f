"""check.py - compare histograms of a run with those that NumPy makes of the same data in files.

    check.py DIR        recordings of the streams of one run, or the files of a run without streams
"""

import os
import sys

import flux
import numpy

import histogram
import port


def source(directory, stream):
    """A recording, or files."""
    recording = os.path.join(directory, f"{stream}.rec")
    if os.path.exists(recording):
        return port.Reader(flux.Recording(recording))
    return port.Reader(port.Files(directory, stream))


def whole(step, name, column):
    """All values of an axis, as the writers have them, one behind the other."""
    array = numpy.concatenate([step.array(name, w) for w in range(step.writers)])
    return array.ravel() if column is None else array[:, column]


def expected(axes):
    """A histogram of all values between the least and the largest of them."""
    if len(axes) == 1:
        return numpy.histogram(axes[0], histogram.BINS)[0]
    return numpy.histogram2d(*axes, histogram.BINS)[0]


def check(directory, kind):
    """How many steps there are, and how many bins differ."""
    counts = {}
    for step in source(directory, f"plasma.{kind}.counts"):
        counts[int(step.array("time")[0])] = {
            name: step.array(name).copy() for name in histogram.HISTOGRAMS[kind]
        }
    steps = wrong = 0
    for step in source(directory, f"plasma.{kind}"):
        steps += 1
        ours = counts.pop(int(step.array("time")[0]), {})
        for name, axes in histogram.HISTOGRAMS[kind].items():
            theirs = expected([whole(step, *axis) for axis in axes])
            wrong += (ours[name] != theirs).sum() if name in ours else theirs.size
    return steps, wrong + len(counts)


def main():
    """Check both kinds of histograms."""
    if len(sys.argv) != 2:
        port.usage_error("which directory?", "check.py DIR")
    good = True
    for kind in histogram.HISTOGRAMS:
        steps, wrong = check(sys.argv[1], kind)
        good = good and steps > 0 and wrong == 0
        port.say(f"check: {steps} steps of {kind}: {wrong} bins differ from those of NumPy")
    sys.exit(not good)


if __name__ == "__main__":
    main()
