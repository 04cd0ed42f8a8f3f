#!/usr/bin/env python3
"""Compare `flux sim` with the second implementation, start by start and list by list.

  compare.py --sim='flux sim' [--count=N] [--seed=S] [--fault=NAME]     small random workloads
  compare.py --sim='flux sim' --trace=FILE [--nodes=N|--tree=P,L,K] [--ppn=N]   a log

With --fault the rule of that name is broken in the second implementation, and the comparison has
to find a difference: exit code 0 when it did.  Prints what differs, with a command that shows it.
"""
import csv
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile

import simref

TREES = [(2, 3, 3), (3, 2, 4), (1, 4, 3), (4, 3, 2), (1, 1, 10), (5, 1, 4), (2, 4, 1)]
PLAIN = ["count", "first-fit", "compact"]
TOPOLOGY = ["buddy", "interference-free", "interference-free:wait=7"]
FAULTS = ["tie", "less", "extra", "R", "pod", "compress", "wakeup"]


def random_pods(rng):
    """A machine with leaves and pods of unequal sizes."""
    return [[rng.randint(1, 5) for _ in range(rng.randint(1, 4))] for _ in range(rng.randint(1, 4))]


def write_topology(path, pods, rng):
    """The lines come in any order: the walk from the root is what counts."""
    lines, node, leaf = [], 0, 0
    for p, sizes in enumerate(pods):
        names = []
        for size in sizes:
            nodes = "n[%d-%d]" % (node, node + size - 1) if size > 1 else "n%d" % node
            lines.append("SwitchName=leaf%d Nodes=%s" % (leaf, nodes))
            names.append("leaf%d" % leaf)
            node += size
            leaf += 1
        lines.append("SwitchName=pod%d Switches=%s" % (p, ",".join(names)))
    if len(pods) > 1:
        lines.append("switchname=root switches=%s" % ",".join("pod%d" % p for p in range(len(pods))))
    rng.shuffle(lines)
    with open(path, "w") as f:
        f.write("# a tree\n" + "\n".join(lines) + "\n")


def read_schedule(path):
    with open(path, newline="") as f:
        return {int(r["job"]): r for r in csv.DictReader(f)}


def expected(jobs, lists):
    return {j.id: {"job": str(j.id), "submit": str(j.submit), "start": str(j.start),
                   "end": str(j.end), "nodes": str(j.n),
                   "nodelist": simref.nodelist(j.nodes) if lists else ""} for j in jobs}


def same_metrics(a, b, path="", out=None):
    out = [] if out is None else out
    if isinstance(b, dict):
        for k in b:
            same_metrics(a.get(k) if isinstance(a, dict) else None, b[k], path + "/" + k, out)
    elif isinstance(b, list):
        if not isinstance(a, list) or len(a) != len(b):
            out.append(path)
        else:
            for i, (x, y) in enumerate(zip(a, b)):
                same_metrics(x, y, "%s/%d" % (path, i), out)
    elif isinstance(b, float) and isinstance(a, (int, float)):
        if abs(a - b) > 1e-6 * max(1, abs(b)):
            out.append("%s: %r, not %r" % (path, a, b))
    elif a != b:
        out.append("%s: %r, not %r" % (path, a, b))
    return out


class Compare:
    def __init__(self, sim, tmp):
        self.sim, self.tmp, self.replays = shlex.split(sim), tmp, 0
        self.different = 0
        self.seed = None

    def differ(self, what, args):
        self.different += 1
        print("DIFFERS%s: %s\n  %s" % ("" if self.seed is None else " (--count=1 --seed=%d)" % self.seed,
                                    what, " ".join(map(shlex.quote, self.sim + args))))

    def run(self, trace, machine, tree, queues, selects, options=(), ppn=1, depth=None,
            speedup=None, seed=1, overrun="cut"):
        """All pairs of queues and selects at once; returns whether all agree."""
        base = os.path.join(self.tmp, "s.csv")
        args = [trace, machine, "--queue=" + ",".join(queues), "--select=" + ",".join(selects),
                "--schedule=" + base, "--json", "--ppn=%d" % ppn] + list(options)
        done = subprocess.run(self.sim + args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        raw = simref.read_swf(trace, ppn)
        if done.returncode != 0:
            jobs, _ = simref.choose(raw, tree.nodes)
            if not jobs and b"no job is left" in done.stderr:
                return True
            self.differ("exit code %d: %s" % (done.returncode, done.stderr.decode()), args)
            return False
        results = json.loads(done.stdout)
        if isinstance(results, dict):
            results = [results]
        before = self.different
        for result in results:
            q, s = result["queue"], result["select"]
            jobs, _ = simref.choose(raw, tree.nodes, None, overrun)
            lists = s != "count"
            if s == "buddy":
                jobs = [j for j in jobs if simref.Buddy(tree).feasible(j, 0)]
            if speedup and s not in PLAIN:
                simref.speed_up(jobs, speedup, seed)
            simref.replay(jobs, tree, q, s, depth)
            self.replays += 1
            path = base
            if len(results) > 1:
                path = "%s-%s-%s%s.csv" % (base[:-4], q, s, "-" + speedup if speedup else "")
            want, got = expected(jobs, lists), read_schedule(path)
            os.unlink(path)
            if want != got:
                bad = [i for i in sorted(set(want) | set(got)) if want.get(i) != got.get(i)]
                i = min(bad, key=lambda i: (int((got.get(i) or want[i])["start"]), i))
                self.differ("%s %s, %d jobs of %d; job %d: %s, wanted %s"
                            % (q, s, len(bad), len(want), i, got.get(i), want.get(i)), args)
            elif jobs:
                bad = same_metrics(result, simref.metrics(jobs, tree, lists))
                if bad:
                    self.differ("%s %s: %s" % (q, s, "; ".join(bad)), args)
        return self.different == before

    def random(self, seed):
        rng = random.Random(seed)
        self.seed = seed
        trace = os.path.join(self.tmp, "t.swf")
        if rng.random() < 0.3:
            pods = random_pods(rng)
            tree = simref.Tree(pods)
            machine = "--topology=" + os.path.join(self.tmp, "topology.conf")
            write_topology(machine.split("=")[1], pods, rng)
        else:
            sizes = rng.choice(TREES)
            tree = simref.Tree.regular(*sizes)
            machine = "--tree=%d,%d,%d" % sizes
        with open(trace, "w") as f:
            simref.write_swf(f, simref.random_workload(seed, tree))
        options, depth, speedup, overrun = [], None, None, "cut"
        if rng.random() < 0.3:
            depth = rng.randint(1, 5)
            options.append("--depth=%d" % depth)
        if rng.random() < 0.3:
            overrun = "extend"
            options.append("--overrun=extend")
        ok = self.run(trace, machine, tree, ["conservative", "replan"], PLAIN, options,
                      overrun=overrun)
        s = rng.randint(0, 2 ** 32)
        if rng.random() < 0.3:
            speedup = rng.choice(["pct20", "V1", "V2"])
            options += ["--speedup=" + speedup, "--seed=%d" % s]
        return self.run(trace, machine, tree, ["fcfs", "easy"], PLAIN + TOPOLOGY, options,
                        depth=depth, speedup=speedup, seed=s, overrun=overrun) and ok


def main():
    opt = dict(a[2:].partition("=")[::2] for a in sys.argv[1:])
    fault = opt.get("fault")
    if fault:
        if fault not in FAULTS:
            sys.exit("unknown fault " + fault)
        simref.FAULT = fault
    with tempfile.TemporaryDirectory() as tmp:
        c = Compare(opt["sim"], tmp)
        if "trace" in opt:
            tree = simref.Tree.regular(*map(int, opt["tree"].split(","))) if "tree" in opt else \
                simref.Tree.regular(1, 1, int(opt["nodes"]))
            machine = "--tree=" + opt["tree"] if "tree" in opt else "--nodes=" + opt["nodes"]
            options = ["--speedup=" + opt["speedup"]] if "speedup" in opt else []
            c.run(opt["trace"], machine, tree, opt["queue"].split(","), opt["select"].split(","),
                  options, ppn=int(opt.get("ppn", 1)), speedup=opt.get("speedup"))
        else:
            seed, count = int(opt.get("seed", 1)), int(opt.get("count", 100))
            for i in range(seed, seed + count):
                if not c.random(i) and fault:
                    print("fault %s: noticed in workload %d" % (fault, i))
                    return 0
                if c.different >= 5:
                    break
        print("%d replays, %d differ" % (c.replays, c.different))
        return 1 if fault or c.different else 0


if __name__ == "__main__":
    sys.exit(main())
