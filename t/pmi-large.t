#!/bin/bash
# More PMI pairs than a frame between broker and launcher holds: the job they belong to fails, and
# no other.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
need_flux start submit wreckrun
need python3

# pmi_put.py MIB: put so much, enter a barrier, look for a pair of the neighbor's; says what failed
cat >pmi_put.py <<'END_PY'
import os, sys
conn = os.fdopen(int(os.environ["PMI_FD"]), "r+b", buffering=0)
reader = os.fdopen(os.dup(conn.fileno()), "rb")
rank = int(os.environ["PMI_RANK"])

def ask(line):
    conn.write(line.encode() + b"\n")
    answer = reader.readline().decode()
    if "rc=-1" in answer:
        sys.exit("refused: " + answer)
    return dict(w.split("=", 1) for w in answer.split() if "=" in w)

ask("cmd=init pmi_version=1 pmi_subversion=1")
name = ask("cmd=get_my_kvsname")["kvsname"]
for i in range(int(sys.argv[1]) * 128):
    ask("cmd=put kvsname=%s key=k-%d-%d value=%s" % (name, rank, i, "v" * 8100))
ask("cmd=barrier_in")
got = ask("cmd=get kvsname=%s key=k-%d-0" % (name, 1 - rank))
print("length", len(got["value"]))
ask("cmd=finalize")
END_PY

hold 2
other=$("$FLUX" submit -N2 -n2 --overcommit sh -c ': >up; exec sleep 600')
wait_until 30 test -e up || bail "no job runs"
run "$FLUX" wreckrun -N2 -n2 --overcommit python3 pmi_put.py 20
is "$status" 0 "20 MiB of pairs on each of two nodes"
is "$(grep -c 'length 8100' <<<"$out")" 2 "... are seen by both"
run "$FLUX" wreckrun -N2 -n2 --overcommit python3 pmi_put.py 40
isnt "$status" 0 "40 MiB on each of two nodes are more than both can be sent"
like "$err" "exceed 67108864 bytes" "... as is said"
run "$FLUX" wreckrun -N2 -n2 --overcommit python3 pmi_put.py 70
isnt "$status" 0 "70 MiB on one node"
like "$err" "refused.*too_much_data_between_two_barriers" "... are refused there"
is "$("$FLUX" jobs -no '{state}' "$other")" running "none of this ends another job of these nodes"
ok "that one is canceled" "$FLUX" cancel "$other"
release
finish
