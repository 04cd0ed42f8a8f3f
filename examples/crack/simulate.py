"""simulate.py - run the simulation of crack.in, and write the stream crack.atoms.

Each rank of LAMMPS writes the atoms that it owns, from where LAMMPS has them in memory. The simulation
ends after its last step, or when the stream was removed: the analysis has seen enough.
"""

import errno
import time

import flux
import lammps
import numpy


class Output:
    """The end of the stream that a rank writes, and how long that has taken."""

    def __init__(self, lmp, readers):
        self.lmp = lmp
        self.seconds = 0.0
        rank, size = (lmp.extract_setting(name) for name in ("world_rank", "world_size"))
        self.handle = flux.open()
        self.stream = self.handle.stream_writer(
            "crack.atoms", rank=rank, size=size, readers=readers, timeout=60
        )

    def write(self, now):
        """Write a step. False if the stream was removed, which other ranks may not know yet."""
        begin = time.perf_counter()
        n = self.lmp.extract_global("nlocal")
        low, high, *_ = self.lmp.extract_box()
        ids, types, x = (self.lmp.numpy.extract_atom(name) for name in ("id", "type", "x"))
        self.stream.put("time", numpy.array([now], dtype="i8"))
        self.stream.put("box", numpy.array([low, high]))
        self.stream.put("id", ids[:n])
        self.stream.put("type", types[:n])
        self.stream.put("x", x[:n])
        try:
            self.stream.end_step()
        except flux.FluxError as e:
            if e.errno != errno.ECANCELED:
                raise
            return False
        finally:
            self.seconds += time.perf_counter() - begin
        return True

    def close(self):
        """Leave the stream."""
        self.stream.close()
        self.handle.close()


def stopped(lmp):
    """Does a rank want to stop? All ranks get the same answer."""
    return lmp.extract_compute("stop", lammps.LMP_STYLE_GLOBAL, lammps.LMP_TYPE_SCALAR) > 0


def simulate(pointer, steps, every, readers):
    """What crack.in calls."""
    lmp = lammps.lammps(ptr=pointer)
    output = Output(lmp, readers) if readers else None
    whole = f"start 0 stop {steps}"  # the strain grows over all runs
    lmp.command(f"run 0 post no {whole}")
    begin = time.perf_counter()
    for now in range(0, steps + 1, every):
        if now:
            lmp.command(f"run {every} pre no post no {whole}")
        if output and not output.write(now):
            lmp.set_variable("stop", "1")
        if stopped(lmp):
            break
    if output:
        output.close()
    if lmp.extract_setting("world_rank") == 0:
        seconds = time.perf_counter() - begin
        written = output.seconds if output else 0.0
        print(
            f"simulate: {lmp.get_natoms()} atoms, {now} steps in {seconds:.3f} s,"
            f" {written:.3f} s of it in output",
            flush=True,
        )
