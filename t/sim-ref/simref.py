#!/usr/bin/env python3
"""A second implementation of the replay rules of flux-sim(1), written from the rules alone.

It shares nothing with libsched and is as literal as its running time allows: a rule of
doc/sim.rst is a function here.  Tests compare every start and every list of nodes of `flux sim`
with it.  Nothing but the standard library is used.

  simref.py TRACE [--nodes=N|--tree=P,L,K] [--ppn=N] [--first=J] --queue=Q --select=S
            [--depth=D] [--speedup=X] [--seed=S] [--overrun=extend]
            [--schedule=FILE.csv] [--json]
  simref.py --random=SEED --out=FILE.swf --tree=P,L,K      write a small random workload
  simref.py derive TRACE --ppn=N --from-day=D --days=D --max-nodes=N --machine=N --load=X --mult=N
"""
import bisect
import gzip
import heapq
import json
import random
import sys

MASK = (1 << 64) - 1
FAULT = None    # compare.py plants one, and must notice it
SIZES = [(1, 4), (5, 18), (19, 64), (65, 256), (257, 512), (513, None)]


class Job:
    __slots__ = ("id", "submit", "runtime", "estimate", "n", "start", "end", "nodes", "res", "due")

    def __init__(self, id, submit, runtime, estimate, n):
        self.id, self.submit, self.runtime, self.estimate, self.n = id, submit, runtime, estimate, n
        self.start = self.end = self.nodes = self.res = None


# ---------------------------------------------------------------- traces (E1, E2)

def read_swf(path, ppn=1):
    """All jobs of a log as (id, submit, runtime, estimate, nodes or 0)."""
    out = []
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", errors="replace") as f:
        for line in f:
            line = line.strip()
            if not line or line.startswith(";"):
                continue
            v = [int(float(x)) if not x.lstrip("-").isdigit() else int(x) for x in line.split()]
            procs = v[7] if v[7] > 0 else v[4]
            estimate = v[8] if v[8] > 0 else v[3]
            out.append((v[0], v[1], v[3], estimate, -(-procs // ppn) if procs > 0 else 0))
    return out


def choose(raw, machine, first=None, overrun="cut"):
    """Drop what rule E1 drops; return the jobs in queue order and the three counts."""
    jobs, dropped = [], [0, 0, 0]
    for id, submit, runtime, estimate, n in raw:
        if runtime <= 0:
            dropped[0] += 1
        elif n <= 0:
            dropped[1] += 1
        elif n > machine:
            dropped[2] += 1
        else:
            if runtime > estimate:
                if overrun == "extend":
                    estimate = runtime
                else:
                    runtime = estimate
            jobs.append(Job(id, submit, runtime, estimate, n))
    jobs.sort(key=lambda j: (j.submit, j.id))
    return (jobs[:first] if first else jobs), dropped


# ---------------------------------------------------------------- speedups (E12)

def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def reduction(kind, job, seed):
    n = job.n
    if kind.startswith("pct"):
        return int(kind[3:]) * 10000 if n > 4 else 0
    if kind == "V1":
        bins = [(0, 10), (0, 20), (0, 30)]
    elif n < 5:
        return 0
    elif n <= 128:
        bins = [(0, 10), (0, 20)]
    else:
        bins = [(0, 10), (10, 20), (10, 30)]
    lo, hi = bins[splitmix64((seed ^ job.id) & MASK) % len(bins)]
    lo, hi = lo * 10000, hi * 10000
    return lo + (hi - lo) * min(n, 512) // 512


def speed_up(jobs, kind, seed):
    for j in jobs:
        r = reduction(kind, j, seed)
        j.runtime = max(1, (j.runtime * (10 ** 6 - r) + 500000) // 10 ** 6)


# ---------------------------------------------------------------- the machine

class Tree:
    """pods: for each pod the sizes of its leaves."""

    def __init__(self, pods):
        self.leafof, self.podof, self.inpod, self.firstof = [], [], [], []
        for p, sizes in enumerate(pods):
            self.inpod.append(range(len(self.podof), len(self.podof) + len(sizes)))
            for size in sizes:
                self.firstof.append(len(self.leafof))
                self.leafof += [len(self.podof)] * size
                self.podof.append(p)
        self.P, self.leaves, self.nodes = len(pods), len(self.podof), len(self.leafof)
        self.K = max(max(sizes) for sizes in pods)
        self.podmax = max(sum(sizes) for sizes in pods)
        self.podsize = [sum(sizes) for sizes in pods]

    @classmethod
    def regular(cls, p, l, k):
        return cls([[k] * l] * p)


class Count:
    """Numbers alone."""
    topology = False

    def __init__(self, tree):
        self.free = tree.nodes

    def place(self, job, now):
        return () if job.n <= self.free else None

    def take(self, job, where, now):
        self.free -= job.n

    def give(self, job, where, now):
        self.free += job.n


class FirstFit(Count):
    """The lowest numbers; `best-fit` and `spread` choose the same where nodes are whole."""

    def __init__(self, tree):
        self.list = list(range(tree.nodes))
        self.free = tree.nodes

    def place(self, job, now):
        return self.list[:job.n] if job.n <= self.free else None

    def take(self, job, where, now):
        if self.list[:job.n] == where:
            del self.list[:job.n]
        else:
            gone = set(where)
            self.list = [x for x in self.list if x not in gone]
        self.free = len(self.list)

    def give(self, job, where, now):
        self.list = sorted(self.list + list(where))
        self.free = len(self.list)


class Leaves:
    """What is free, leaf by leaf."""

    def __init__(self, tree):
        self.tree = tree
        self.leaf = [[] for i in range(tree.leaves)]
        for x, i in enumerate(tree.leafof):
            self.leaf[i].append(x)
        self.podfree = tree.podsize[:]
        self.free = tree.nodes

    def copy_leaves(self, other):
        other.tree = self.tree
        other.leaf = [x[:] for x in self.leaf]
        other.podfree = self.podfree[:]
        other.free = self.free

    def leaves_of(self, pod):
        return self.tree.inpod[pod]

    def remove(self, nodes):
        """Take nodes out; those that are not free are passed over."""
        leafof, podof = self.tree.leafof, self.tree.podof
        for x in nodes:
            lst = self.leaf[leafof[x]]
            i = bisect.bisect_left(lst, x)
            if i < len(lst) and lst[i] == x:
                del lst[i]
                self.podfree[podof[leafof[x]]] -= 1
                self.free -= 1

    def add(self, nodes):
        leafof, podof = self.tree.leafof, self.tree.podof
        for x in nodes:
            bisect.insort(self.leaf[leafof[x]], x)
            self.podfree[podof[leafof[x]]] += 1
            self.free += 1


class Compact(Leaves):
    topology = False

    def place(self, job, now):
        return self.compact(job.n)

    def compact(self, n):
        if n > self.free:
            return None
        leaf = self.leaf
        fit = [(len(leaf[i]), i) for i in range(len(leaf)) if len(leaf[i]) >= n]
        if fit:
            return leaf[min(fit)[1]][:n]
        pods = [(f, p) for p, f in enumerate(self.podfree) if f >= n]
        inside = list(self.leaves_of(min(pods)[1])) if pods else list(range(len(leaf)))
        got = []
        while len(got) < n:
            want = n - len(got)
            fit = [(len(leaf[i]), i) for i in inside if len(leaf[i]) >= want]
            if fit:
                i = min(fit)[1]
                got += leaf[i][:want]
            else:
                i = max(inside, key=lambda i: (len(leaf[i]), -i))
                got += leaf[i]
            inside.remove(i)
        return sorted(got)

    def take(self, job, where, now):
        self.remove(where)

    def give(self, job, where, now):
        self.add(where)


class Buddy(Leaves):
    """Aligned blocks of 2^k within the machine.  A job for which none exists is dropped."""
    topology = True

    def block(self, n):
        b = 1
        while b < n:
            b *= 2
        return b

    def copy(self):
        other = Buddy.__new__(Buddy)
        other.N = self.N
        other.isfree = self.isfree[:]
        other.free = self.free
        return other

    def __init__(self, tree):
        self.N = tree.nodes
        self.isfree = bytearray(b"\1" * tree.nodes)
        self.free = tree.nodes

    def find(self, n):
        b = self.block(n)
        if b > self.free:
            return None
        whole = b"\1" * b
        for at in range(0, self.N - b + 1, b):
            if self.isfree[at:at + b] == whole:
                return range(at, at + b)
        return None

    def place(self, job, now):
        b = self.find(job.n)
        return None if b is None else list(b[:job.n])

    def feasible(self, job, now):
        return self.find(job.n) is not None

    def extent(self, job, where):
        return range(where[0], where[0] + self.block(job.n))

    def take(self, job, where, now):
        for x in self.extent(job, where):
            self.free -= self.isfree[x]
            self.isfree[x] = 0

    def give(self, job, where, now):
        for x in self.extent(job, where):
            self.free += 1 - self.isfree[x]
            self.isfree[x] = 1


class InterferenceFree(Compact):
    """No two jobs share an uplink.  t2 and t3 count the jobs of a type on each leaf, pod3 the T3
    jobs in each pod."""
    topology = True

    def __init__(self, tree, wait=None):
        Leaves.__init__(self, tree)
        self.t2 = [0] * tree.leaves
        self.t3 = [0] * tree.leaves
        self.pod3 = [0] * tree.P
        self.wait = wait
        self.cap = None

    def copy(self):
        other = InterferenceFree.__new__(InterferenceFree)
        self.copy_leaves(other)
        other.t2, other.t3, other.pod3 = self.t2[:], self.t3[:], self.pod3[:]
        other.wait = self.wait
        other.cap = self.cap
        return other

    def old(self, job, now):
        return self.wait is not None and now - job.submit > self.wait

    def type_of(self, n):
        return 1 if n <= self.tree.K else 2 if n <= self.tree.podmax else 3

    def feasible(self, job, now):
        if self.old(job, now):
            return job.n <= self.free
        if self.cap is None:
            t2, t3, leaf = self.t2, self.t3, self.leaf
            c1 = c2 = c3 = 0
            for p in range(self.tree.P):
                s2 = s3 = 0
                for i in self.leaves_of(p):
                    f = len(leaf[i])
                    if f > c1:
                        c1 = f
                    if not t2[i]:
                        s3 += f
                        if not t3[i]:
                            s2 += f
                if s2 > c2:
                    c2 = s2
                if not self.pod3[p] or FAULT == "pod":
                    c3 += s3
            self.cap = (c1, c2, c3)
        return job.n <= self.cap[self.type_of(job.n) - 1]

    def place(self, job, now):
        if not self.feasible(job, now):
            return None
        if self.old(job, now):
            return self.compact(job.n)
        n, leaf, free = job.n, self.leaf, self.podfree
        kind = self.type_of(n)
        pods = range(self.tree.P)
        if kind == 1:
            tie = -1 if FAULT == "tie" else 1
            for p in sorted(pods, key=lambda p: (free[p], tie * p)):
                for i in sorted(self.leaves_of(p), key=lambda i: (len(leaf[i]), i)):
                    if len(leaf[i]) >= n:
                        return leaf[i][:n]
        elif kind == 2:
            for p in sorted(pods, key=lambda p: (free[p], p)):
                got = []
                ok = [i for i in self.leaves_of(p) if not self.t2[i] and not self.t3[i]]
                for i in sorted(ok, key=lambda i: (-len(leaf[i]), i)):
                    got += leaf[i][:n - len(got)]
                    if len(got) == n:
                        return sorted(got)
        else:
            got = []
            ok = [p for p in pods if not self.pod3[p] or FAULT == "pod"]
            for p in sorted(ok, key=lambda p: (-free[p], p)):
                ok = [i for i in self.leaves_of(p) if not self.t2[i]]
                for i in sorted(ok, key=lambda i: (-len(leaf[i]), i)):
                    got += leaf[i][:n - len(got)]
                    if len(got) == n:
                        return sorted(got)
        raise AssertionError("feasible, yet not placed")

    def mark(self, job, where, now, by):
        """A job that waited too long was placed by `compact`: it counts as T2 or T3."""
        self.cap = None
        leaves = {self.tree.leafof[x] for x in where}
        pods = {self.tree.podof[i] for i in leaves}
        if len(leaves) == 1 and not self.old(job, now):
            return
        if len(pods) == 1:
            for i in leaves:
                self.t2[i] += by
        else:
            for i in leaves:
                self.t3[i] += by
            for p in pods:
                self.pod3[p] += by

    def take(self, job, where, now):
        self.remove(where)
        self.mark(job, where, now, 1)

    def give(self, job, where, now):
        self.add(where)
        self.mark(job, where, now, -1)


def selector(name, tree):
    if name == "count":
        return Count(tree)
    if name in ("first-fit", "best-fit", "spread"):
        return FirstFit(tree)
    if name == "compact":
        return Compact(tree)
    if name == "buddy":
        return Buddy(tree)
    if name == "interference-free":
        return InterferenceFree(tree)
    if name.startswith("interference-free:wait="):
        return InterferenceFree(tree, int(name.split("=")[1]))
    raise SystemExit("unknown selector " + name)


# ---------------------------------------------------------------- profile of reservations (E7)

class Profile:
    """Nodes free over time: free[i] from times[i] until times[i+1]."""

    def __init__(self, now, free):
        self.times, self.free = [now], [free]

    def split(self, t):
        i = bisect.bisect_left(self.times, t)
        if i == len(self.times) or self.times[i] != t:
            self.times.insert(i, t)
            self.free.insert(i, self.free[i - 1])
        return i

    def change(self, a, b, n):
        if a >= b:
            return
        i, j = self.split(a), self.split(b)
        for k in range(i, j):
            self.free[k] += n
        for k in (j, i):
            if 0 < k < len(self.times) and self.free[k] == self.free[k - 1]:
                del self.times[k], self.free[k]

    def forget_before(self, now):
        i = bisect.bisect_right(self.times, now) - 1
        if i > 0:
            del self.times[:i], self.free[:i]
        if self.times[0] < now:
            self.times[0] = now

    def earliest(self, n, length):
        times, free = self.times, self.free
        i, count = 0, len(times)
        while True:
            while free[i] < n:
                i += 1
            start = times[i]
            k = i + 1
            while k < count and times[k] < start + length and free[k] >= n:
                k += 1
            if k == count or times[k] >= start + length:
                return start
            i = k


# ---------------------------------------------------------------- the replay (E3-E11)

def replay(jobs, tree, queue="easy", select="count", depth=None):
    """Set start, end and nodes of every job."""
    state = selector(select, tree)
    if queue in ("conservative", "replan") and state.topology:
        raise SystemExit("%s with %s is refused" % (queue, select))
    waiting, ends = [], []      # ends: heap of (end, sequence, job)
    running = []                # sorted (estimated end, sequence, job)
    seq = 0
    at = 0
    profile = Profile(jobs[0].submit if jobs else 0, tree.nodes)
    reserving = queue in ("conservative", "replan")

    def start(job, where, now):
        nonlocal seq
        state.take(job, where, now)
        job.start, job.end, job.nodes = now, now + job.runtime, where
        seq += 1
        heapq.heappush(ends, (job.end, seq, job))
        bisect.insort(running, (now + job.estimate, seq, job))

    def pass_easy(now):
        while waiting:
            where = state.place(waiting[0], now)
            if where is None:
                break
            start(waiting.pop(0), where, now)
        if queue == "fcfs" or len(waiting) < 2:
            return
        if state.topology:
            backfill_topology(now)
        else:
            backfill_count(now)

    def backfill_count(now):
        head = waiting[0]
        free, shadow, i = state.free, None, 0
        while free < head.n:
            shadow = running[i][0]
            while i < len(running) and running[i][0] == shadow:
                free += running[i][2].n
                i += 1
        extra = free - head.n
        look = waiting[1:depth] if depth else waiting[1:]
        gone = set()
        for job in look:
            if state.free == 0:
                break
            if job.n > state.free:
                continue
            if now + job.estimate + (FAULT == "less") > shadow:
                if job.n > extra:
                    continue
                if FAULT != "extra":
                    extra -= job.n
            start(job, state.place(job, now), now)
            gone.add(job)
        if gone:
            waiting[:] = [j for j in waiting if j not in gone]

    def backfill_topology(now):
        head = waiting[0]
        if state.free == 0:
            return
        later = state.copy()
        i, shadow, R = 0, None, None
        while R is None:
            shadow = running[i][0]
            while i < len(running) and running[i][0] == shadow:
                later.give(running[i][2], running[i][2].nodes, running[i][2].start)
                i += 1
            R = later.place(head, shadow)
        beside = state.copy()       # the present state with R taken
        if FAULT != "R":
            beside.take(head, R, shadow)
        look = waiting[1:depth] if depth else waiting[1:]
        gone = set()
        for job in look:
            if state.free == 0:
                break
            here = state if now + job.estimate <= shadow else beside
            where = here.place(job, now)
            if where is None:
                continue
            start(job, where, now)
            beside.take(job, where, now)
            gone.add(job)
        if gone:
            waiting[:] = [j for j in waiting if j not in gone]

    def compress(now):
        for job in waiting:
            profile.change(job.res, job.res + job.estimate, job.n)
            job.res = min(job.res, profile.earliest(job.n, job.estimate))
            profile.change(job.res, job.res + job.estimate, -job.n)

    def reserve(job):
        job.res = profile.earliest(job.n, job.estimate)
        profile.change(job.res, job.res + job.estimate, -job.n)

    def replan():
        for job in waiting:
            profile.change(job.res, job.res + job.estimate, job.n)
        for job in waiting:
            reserve(job)

    def pass_reserved(now):
        gone = set()
        for job in waiting:
            if job.res <= now:
                start(job, state.place(job, now), now)
                gone.add(job)
        if gone:
            waiting[:] = [j for j in waiting if j not in gone]

    while at < len(jobs) or ends or (reserving and waiting):
        times = []
        if at < len(jobs):
            times.append(jobs[at].submit)
        if ends:
            times.append(ends[0][0])
        if reserving and waiting:
            times.append(min(j.res for j in waiting))
        now = min(times)
        if reserving:
            profile.forget_before(now)
        ended = False
        while ends and ends[0][0] == now:
            _, s, job = heapq.heappop(ends)
            i = bisect.bisect_left(running, (job.start + job.estimate, s))
            del running[i]
            state.give(job, job.nodes, job.start)
            if reserving:
                profile.change(now, job.start + job.estimate, job.n)
            ended = True
        if ended and queue == "conservative" and FAULT != "compress":
            compress(now)
        if FAULT == "wakeup" and not reserving and at < len(jobs) and jobs[at].submit != now:
            continue            # woken by arrivals alone, as long as there are any
        while at < len(jobs) and jobs[at].submit == now:
            if reserving:
                reserve(jobs[at])
            waiting.append(jobs[at])
            at += 1
        if reserving:
            if queue == "replan":
                replan()
            pass_reserved(now)
        else:
            pass_easy(now)
    return jobs


# ---------------------------------------------------------------- metrics

def nodelist(nodes):
    out, i = [], 0
    while i < len(nodes):
        k = i
        while k + 1 < len(nodes) and nodes[k + 1] == nodes[k] + 1:
            k += 1
        out.append("%d-%d" % (nodes[i], nodes[k]) if k > i else "%d" % nodes[i])
        i = k + 1
    return "|".join(out)


def hops(nodes, tree):
    n = len(nodes)
    if n < 2:
        return 0.0
    leaf, pod = {}, {}
    for x in nodes:
        i = tree.leafof[x]
        leaf[i] = leaf.get(i, 0) + 1
        pod[tree.podof[i]] = pod.get(tree.podof[i], 0) + 1
    sameleaf = sum(c * (c - 1) for c in leaf.values())
    samepod = sum(c * (c - 1) for c in pod.values())
    return (2.0 * (samepod - sameleaf) + 4.0 * (n * (n - 1) - samepod)) / (n * (n - 1))


def by_size(jobs, value):
    out = {}
    for lo, hi in SIZES:
        v = [value(j) for j in jobs if j.n >= lo and (hi is None or j.n <= hi)]
        out["%d-%s" % (lo, hi or "")] = sum(v) / len(v) if v else None
    return out


def metrics(jobs, tree, lists):
    first, last = jobs[0].submit, jobs[-1].submit
    end = max(j.end for j in jobs)
    changes = sorted([(j.start, j.n) for j in jobs] + [(j.end, -j.n) for j in jobs])
    samples, busy, k, t = [], 0, 0, first
    while t < end:
        while k < len(changes) and changes[k][0] <= t:
            busy += changes[k][1]
            k += 1
        samples.append(busy)
        t += 60
    until = samples[:max(1, (last - first) // 60)]
    order = sorted(samples)
    work = sum(j.n * j.runtime for j in jobs)
    return {
        "jobs": len(jobs),
        "nodes": tree.nodes,
        "makespan_h": (end - first) / 3600,
        "mean_wait_h": sum(j.start - j.submit for j in jobs) / len(jobs) / 3600,
        "max_wait_h": max(j.start - j.submit for j in jobs) / 3600,
        "util_mean": sum(samples) / len(samples) / tree.nodes,
        "util_mean_until_last_submit": sum(until) / len(until) / tree.nodes,
        "util_min_p25_p50_p75_max": [1 / tree.nodes * order[min(int(p * len(order)), len(order) - 1)]
                                     for p in (0, .25, .5, .75, 1)],
        "offered_load": work / tree.nodes / (last - first) if last > first else None,
        "sum_start": sum(j.start for j in jobs),
        "mean_wait_h_by_size": by_size(jobs, lambda j: (j.start - j.submit) / 3600),
        "aph_by_size": by_size(jobs, lambda j: hops(j.nodes, tree)) if lists else None,
    }


# ---------------------------------------------------------------- derived and random workloads

def derive(raw, from_day, days, max_nodes, machine, load, mult):
    kept = sorted((s, i, r, e, n) for i, s, r, e, n in raw if r > 0 and n > 0)
    first = kept[0][0]
    a, b = from_day * 86400, (from_day + days) * 86400
    kept = [x for x in kept if a <= x[0] - first < b]
    out = []
    for s, i, r, e, n in kept:
        e = min(e, 86400)
        r = min(r, 86400)
        out.append((s, i, min(r, e), e, min(n, max_nodes)))
    first, den = out[0][0], out[-1][0] - out[0][0]
    num = round(sum(n * r for _, _, r, _, n in out) / (machine * load))
    out = [((s - first) * num // den if den else 0, i, r, e, n * mult) for s, i, r, e, n in out]
    out.sort(key=lambda x: (x[0], x[1]))
    return [(k + 1, s, r, e, n) for k, (s, _, r, e, n) in enumerate(out)]


def write_swf(f, raw):
    for id, s, r, e, n in raw:
        f.write("%d %d -1 %d %d -1 -1 %d %d -1 1 -1 -1 -1 -1 -1 -1 -1\n" % (id, s, r, n, n, e))


def random_workload(seed, tree):
    """A workload in which ties, overruns, jobs of all types and too large ones are common."""
    rng = random.Random(seed)
    count = rng.randint(5, 60)
    pace = rng.choice([1, 3, 10, 40])
    now, out = rng.randint(0, 5), []
    for i in range(count):
        if rng.random() < 0.6:
            now += rng.randint(0, pace)
        size = rng.random()
        if size < 0.5:
            n = rng.randint(1, tree.K)
        elif size < 0.8:
            n = rng.randint(1, tree.podmax)
        else:
            n = rng.randint(1, tree.nodes + (1 if rng.random() < 0.1 else 0))
        r = rng.randint(1, 30) if rng.random() < 0.95 else rng.randint(-1, 1)
        e = r + rng.choice([0, 0, 1, 5, 20, -3, -r - 1])
        out.append((i + 1, now, r, e, n))
    if rng.random() < 0.3:
        rng.shuffle(out)
    return out


# ---------------------------------------------------------------- command line

def main(argv):
    opt = {"ppn": "1", "queue": "easy", "select": "first-fit", "seed": "1", "overrun": "cut"}
    args = []
    for a in argv:
        if a.startswith("--"):
            k, _, v = a[2:].partition("=")
            opt[k] = v
        else:
            args.append(a)
    if "tree" in opt:
        tree = Tree.regular(*map(int, opt["tree"].split(",")))
    else:
        tree = Tree.regular(1, 1, int(opt.get("nodes", 1)))
    if "random" in opt:
        with open(opt["out"], "w") as f:
            write_swf(f, random_workload(int(opt["random"]), tree))
        return
    if args and args[0] == "derive":
        raw = derive(read_swf(args[1], int(opt["ppn"])), int(opt.get("from-day", 0)),
                     int(opt.get("days", 10 ** 6)), int(opt["max-nodes"]), int(opt["machine"]),
                     float(opt["load"]), int(opt.get("mult", 1)))
        write_swf(sys.stdout, raw)
        return
    raw = read_swf(args[0], int(opt["ppn"]))
    jobs, dropped = choose(raw, tree.nodes, int(opt.get("first", 0)) or None, opt["overrun"])
    if opt["select"] == "buddy":
        jobs = [j for j in jobs if Buddy(tree).feasible(j, 0)]
    if opt.get("speedup") and selector(opt["select"], tree).topology:
        speed_up(jobs, opt["speedup"], int(opt["seed"]))
    replay(jobs, tree, opt["queue"], opt["select"], int(opt.get("depth", 0)) or None)
    lists = opt["select"] != "count"
    if "schedule" in opt:
        with open(opt["schedule"], "w") as f:
            f.write("job,submit,start,end,nodes,nodelist\n")
            for j in jobs:
                f.write("%d,%d,%d,%d,%d,%s\n" % (j.id, j.submit, j.start, j.end, j.n,
                                                 nodelist(j.nodes) if lists else ""))
    m = metrics(jobs, tree, lists)
    if "json" in opt:
        print(json.dumps(m))
    else:
        print("%d jobs, dropped %s, mean wait %.5f h, sum of starts %d"
              % (m["jobs"], dropped, m["mean_wait_h"], m["sum_start"]))


if __name__ == "__main__":
    main(sys.argv[1:])
