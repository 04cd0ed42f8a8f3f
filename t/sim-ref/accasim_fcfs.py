#!/usr/bin/env python3
"""Start times under FCFS as AccaSim (PyPI) sees them.

    accasim_fcfs.py LOG.swf NODES     prints "id,start" for each job, by id; processors are nodes

AccaSim 1.1.3 wants names that Python 3.10 has moved from collections to collections.abc.
"""
import calendar
import collections
import collections.abc
import contextlib
import json
import logging
import os
import sys
import time

for name in ("Mapping", "MutableMapping", "Iterable", "Sequence", "Callable"):
    setattr(collections, name, getattr(collections.abc, name))

from accasim.base.allocator_class import FirstFit  # noqa: E402
from accasim.base.scheduler_class import FirstInFirstOut  # noqa: E402
from accasim.base.simulator_class import Simulator  # noqa: E402

os.environ["TZ"] = "UTC"
time.tzset()
log, nodes = sys.argv[1], int(sys.argv[2])
with open("accasim.json", "w", encoding="ascii") as f:
    json.dump({"groups": {"g0": {"core": 1}}, "resources": {"g0": nodes},
               "equivalence": {"processor": {"core": 1}}, "start_time": 0}, f)
logging.disable(logging.CRITICAL)
with contextlib.redirect_stdout(sys.stderr):
    files = Simulator(log, "accasim.json", FirstInFirstOut(FirstFit()), RESULTS_FOLDER_PATH=os.getcwd(),
                      pprint_output=False, benchmark_output=False).start_simulation()
starts = {}
with open(files["sched-"], encoding="ascii") as f:
    for line in f:
        start = line.split("__")[2].split(";")[0]
        starts[int(line.split(";")[0])] = calendar.timegm(time.strptime(start, "%Y-%m-%d %H:%M:%S"))
for job in sorted(starts):
    print("%d,%d" % (job, starts[job]))
