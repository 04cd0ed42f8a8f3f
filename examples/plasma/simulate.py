"""simulate.py - two beams of electrons that pass through each other: particles and a mesh.

    simulate.py [--particles=N] [--columns=N] [--rows=N] [--steps=N] [--every=N] [--mesh-every=N]
        [--seed=N] [--readers=N]

Each task has a share of the electrons. It spreads their charge over the mesh, and tells all others
by the stream plasma.charge, which all tasks write and read; then each of them solves for the field
of the whole mesh, and moves its electrons in it. Ions that do not move make the whole neutral. The
beams are unstable: a wave grows until it catches the electrons. Lengths are in units of what an
electron of a beam travels in a unit of time, which is the inverse of the plasma frequency.

plasma.mesh has the mesh every few steps of time, cut by rows; plasma.particles the electrons, less
often. For each array NAME there is NAME.range, the least and the largest value of each column in
the piece of the writer: so readers know the range of the whole without reading it. The same
arguments give the same numbers, to the last bit.
"""

import os
import time

import numpy

import port

LENGTH = 20.5  # of the box in x and y; the wave that grows fastest is half as long
THERMAL = 0.1  # spread of the velocities of a beam
DT = 0.1
USAGE = "simulate.py [--particles=N] [--columns=N] [--rows=N] [--steps=N] ..."


class Field:
    """The mesh, which repeats in x and y."""

    def __init__(self, rows, columns):
        self.size = numpy.array([columns, rows])
        self.spacing = LENGTH / self.size
        kx = 2 * numpy.pi * numpy.fft.rfftfreq(columns, self.spacing[0])
        ky = 2 * numpy.pi * numpy.fft.fftfreq(rows, self.spacing[1])
        self.kx, self.ky = numpy.meshgrid(kx, ky)
        square = self.kx**2 + self.ky**2
        square[0, 0] = 1.0
        self.inverse = 1 / square
        self.inverse[0, 0] = 0.0  # the mean of the potential is 0
        self.potential = self.e = None

    def corners(self, x):
        """The four points of the mesh around each place, and their parts of it."""
        scaled = x / self.spacing
        cell = scaled.astype(numpy.intp)
        part = scaled - cell
        (i, j), (a, b) = cell.T, part.T
        columns, rows = self.size
        i %= columns
        j %= rows
        right, up = (i + 1) % columns, (j + 1) % rows
        yield j * columns + i, (1 - a) * (1 - b)
        yield j * columns + right, a * (1 - b)
        yield up * columns + i, (1 - a) * b
        yield up * columns + right, a * b

    def spread(self, corners):
        """How many particles are at each point."""
        points = int(self.size.prod())
        return sum(numpy.bincount(at, weight, points) for at, weight in corners)

    def solve(self, charge):
        """The potential of a charge, and the field, which is at the points, too."""
        waves = numpy.fft.rfft2(charge) * self.inverse
        shape = charge.shape
        self.potential = numpy.fft.irfft2(waves, shape)
        self.e = [numpy.fft.irfft2(-1j * k * waves, shape) for k in (self.kx, self.ky)]

    def at(self, corners):
        """The field at each particle."""
        return numpy.stack(
            [sum(e.ravel()[at] * weight for at, weight in corners) for e in self.e], axis=1
        )

    def energy(self):
        """Of the field."""
        return 0.5 * sum((e**2).sum() for e in self.e) * self.spacing.prod()


class Sum:
    """Adds arrays of all tasks; each gets the same sum, as it adds in the order of ranks."""

    def __init__(self, stage):
        handle = stage.handle
        self.out = handle.stream_writer("plasma.charge")
        self.read = handle.stream_reader("plasma.charge")
        handle.barrier(f"plasma.{os.environ.get('FLUX_JOB_ID', os.getpid())}", stage.size)

    def __call__(self, array):
        self.out.put("part", array)
        self.out.end_step()
        step = self.read.begin_step()
        if step is None:
            raise EOFError("a task of the simulation has ended before the others")
        return sum(step.array("part", w) for w in range(self.read.writers))

    def close(self):
        """Leave the stream."""
        self.read.close()
        self.out.close()


def electrons(stage, seed, particles):
    """The share of this task: places and velocities."""
    first, end = stage.share(particles)
    rng = numpy.random.default_rng([seed, stage.rank])
    x = rng.random((end - first, 2)) * LENGTH
    v = rng.normal(0.0, THERMAL, (end - first, 2))
    v[:, 0] += numpy.where(numpy.arange(first, end) % 2, 1.0, -1.0)
    return x, v


def extent(array):
    """The least and the largest value of each column."""
    return numpy.array([array.min(axis=0), array.max(axis=0)])


def flat_extent(array):
    """The same of an array that is one column."""
    return extent(array.reshape(-1, 1))


class Output:
    """The two streams, and when they have a step."""

    def __init__(self, stage, given):
        self.stage = stage
        self.given = given
        self.mesh = stage.writer("plasma.mesh", given["readers"])
        self.particles = stage.writer("plasma.particles", given["readers"])

    def mesh_step(self, now, field, charge):
        """Publish rows of the mesh."""
        first, end = self.stage.share(len(charge))
        values = {"time": numpy.array([now])}
        for name, array in (("charge", charge), ("potential", field.potential)):
            values[name] = (array[first:end], array.shape, first)
            values[name + ".range"] = flat_extent(array[first:end])
        self.mesh.end_step(values)

    def particle_step(self, now, x, v):
        """Publish the electrons."""
        total = (self.given["particles"], 2)
        first, _ = self.stage.share(total[0])
        values = {"time": numpy.array([now])}
        for name, array in (("x", x), ("v", v)):
            values[name] = (array, total, first)
            values[name + ".range"] = extent(array)
        self.particles.end_step(values)

    @property
    def seconds(self):
        """Spent in output."""
        return self.mesh.seconds + self.particles.seconds

    def close(self):
        """Leave the streams."""
        self.mesh.close()
        self.particles.close()


def simulate(stage, given):
    """All steps: the energy of the field in the first and at most, and the change of the total."""
    field = Field(given["rows"], given["columns"])
    x, v = electrons(stage, given["seed"], given["particles"])
    mass = LENGTH**2 / given["particles"]
    total = Sum(stage)
    output = Output(stage, given) if given["readers"] else None
    shape = (given["rows"], given["columns"])
    kinetic, energies = 0.0, []
    begin = time.perf_counter()
    for now in range(given["steps"] + 1):
        corners = list(field.corners(x))
        own = numpy.append(field.spread(corners), kinetic)
        whole = total(own)
        charge = 1 - whole[:-1].reshape(shape) * mass / field.spacing.prod()
        field.solve(charge)
        if now:  # the velocities are half a step behind: their energy is that between two fields
            energies.append((field.energy(), 0.5 * mass * whole[-1]))
        if output and now % given["mesh-every"] == 0:
            output.mesh_step(now, field, charge)
        if output and now % given["every"] == 0:
            output.particle_step(now, x, v)
        v -= field.at(corners) * (DT if now else DT / 2)
        x += v * DT
        x %= LENGTH
        kinetic = (v**2).sum()
    seconds = time.perf_counter() - begin
    written = output.seconds if output else 0.0
    if output:
        output.close()
    total.close()
    if stage.rank == 0:
        report(given, energies, seconds, written)


def report(given, energies, seconds, written):
    """Say what came out."""
    fields = [field for field, _ in energies]
    sums = [sum(one) for one in energies]
    port.say(
        f"simulate: the energy of the field has grown from {fields[0]:.4g} to {max(fields):.4g};"
        f" that of all has changed by {100 * (max(sums) - min(sums)) / sums[0]:.2f}%\n"
        f"simulate: {given['particles']} particles, {given['steps']} steps in {seconds:.3f} s,"
        f" {written:.3f} s of it in output"
    )


def main():
    """Read the options, and simulate."""
    given, rest = port.options(
        USAGE,
        **{
            "particles": (40000, 1),
            "columns": (64, 4),
            "rows": (32, 4),
            "steps": (300, 1),
            "every": (20, 1),
            "mesh-every": (4, 1),
            "seed": (1, 0),
            "readers": (1, 0),
        },
    )
    if rest:
        port.usage_error(f"'{rest[0]}' is not an option", USAGE)
    stage = port.Stage("simulate")
    if stage.size > min(given["particles"], given["rows"]):
        port.usage_error(f"{stage.size} tasks have no particle or row of the mesh each", USAGE)
    simulate(stage, given)


if __name__ == "__main__":
    main()
