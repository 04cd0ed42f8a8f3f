#!/usr/bin/env bash
# flux sim network: messages by hand and against SimGrid; workloads.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
need_flux version
need python3
"$FLUX" sim --help >/dev/null 2>&1 || skip_all "flux sim has not been built"

# When each message ends, on the figure machine: 2 pods of 3 leaf switches of 3 nodes.
ends() {
    printf '%s\n' "$@" >flows
    "$FLUX" sim network --tree=2,3,3 --flows=flows | awk 'NR > 1 {printf "%s%g", (NR > 2 ? " " : ""), $4}'
}
is "$(ends '0 1 1')" 1 "alone"
is "$(ends '0 1 1' '0 2 1')" "2 2" "two from a node share its link"
is "$(ends '0 3 1' '1 4 1')" "1 1" "destinations with other uplinks"
is "$(ends '0 3 1' '1 6 1')" "2 2" "destinations with the same uplink, 0"
is "$(ends '0 9 1' '3 9 1')" "2 2" "two to a node"
is "$(ends '0 9 1' '3 12 1')" "1 1" "level 2: other uplinks, as 9 and 12 are of other leaves"
is "$(ends '0 9 1' '4 9 1' '2 5 1' '5 2 3')" "2 2 1 3" "both ways of a link are apart"
is "$(ends '0 3 1' '1 6 2' '2 7 3')" "2 3 3" "rates are raised when a message ends"
is "$(ends '# comment' '' '4 4 1' '0 1 1')" "0 1" "to oneself there is no way"
for line in '0' '0 1' '0 1 x' '0 1 0' '0 1 -1' '0 1 nan' '-1 1 1' '0 99999999999 1' '0 1 1 1' '0 18 1'; do
    printf '0 1 1\n%s\n' "$line" >bad
    exits 1 "'$line'" "$FLUX" sim network --tree=2,3,3 --flows=bad
    like "$err" "bad, line 2: expected two nodes below 18" "said"
done
exits 1 "no such file" "$FLUX" sim network --tree=2,3,3 --flows=none
exits 2 "no machine" "$FLUX" sim network
exits 2 "bad sizes" "$FLUX" sim network --tree=2,3,3 --sizes=5-2
exits 2 "too large" "$FLUX" sim network --tree=2,3,3 --sizes=5-20
exits 2 "too many links" "$FLUX" sim network --tree=1024,1,1024

# SimGrid has zones with the same routes; its flows end at the same times.
if printf '#include <simgrid/s4u.hpp>\n' | ${CXX:-g++} -E -x c++ - >/dev/null 2>&1; then
    ok "the peer compiles" "${CXX:-g++}" -O1 -o peer "$SRCDIR/t/sim-ref/simgrid_peer.cpp" -lsimgrid
    compare() {
        python3 -c '
import json, random, subprocess, sys
flux, p, l, k, n, seed = sys.argv[1:2] + [int(x) for x in sys.argv[2:]]
rng, nodes = random.Random(seed), p * l * k
flows = []
while len(flows) < n:
    a, b = rng.randrange(nodes), rng.randrange(nodes)
    if a != b:
        flows.append("%d %d %d" % (a, b, rng.randint(1, 9)))
open("random", "w").write("\n".join(flows) + "\n")
tree = [str(x) for x in (p, l, k)]
peer = subprocess.run(["./peer"] + tree + ["random"], stdout=subprocess.PIPE,
                      stderr=subprocess.DEVNULL, check=True).stdout.split()
ours = json.loads(subprocess.run([flux, "sim", "network", "--json", "--flows=random", "--tree=" + ",".join(tree)],
                                 stdout=subprocess.PIPE, check=True).stdout)
assert len(peer) == len(ours) == n
worst = max(abs(float(x) / y["end"] - 1) for x, y in zip(peer, ours))
print("worst difference %.6f %%" % (100 * worst))
sys.exit(worst > 0.05)' "$FLUX" "$@"
    }
    for case in '2 3 3 20 1' '2 3 3 200 2' '4 4 4 300 3' '3 2 5 150 4' '1 6 4 100 5' '8 4 4 500 6'; do
        # shellcheck disable=SC2086 # words
        ok "random messages as in SimGrid: $case" compare $case
        note "$out"
    done
else
    note "no SimGrid (libsimgrid-dev): not compared"
fi

# Workloads: all comes from the seed, and what two jobs share is never to the good of both.
network() {
    "$FLUX" sim network --tree=4,6,6 --workloads=2 --jobs=40 --sizes=12-60 "$@"
}
ok "workloads" network --json
one=$out
is "$(network --json)" "$one" "the same again"
ok "another seed" test "$(network --json --seed=2)" != "$one"
is "$(python3 -c '
import json, sys
rows = json.loads(sys.argv[1])
print([r["pattern"] for r in rows])
times = [r[k] for r in rows[:4] for k in ("time_first_fit", "time_interference_free")]
print(min(times) >= 0.999, all(r["jobs_first_fit"] > 0 for r in rows[:4]))
print(abs(rows[4]["ratio"] - sum(r["time_first_fit"] / r["time_interference_free"] for r in rows[:4]) / 4) < 1e-9)
' "$one")" "['4D stencil', '3D mesh', 'random pairs', 'all-to-all on lines', 'mean of the patterns']
True True
True" "a row for each pattern, no job faster than alone, and their mean"
like "$(network)" "mean times of jobs that send, 1 at best; machine 4,6,6, jobs of 12 to 60 nodes" "a table"
finish
