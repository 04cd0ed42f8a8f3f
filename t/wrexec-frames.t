#!/usr/bin/env bash
# Frames between a broker and its launcher that are not valid: such a frame ends the job that it
# names, and no other.  Bytes that are not a frame end the connection, and so the jobs of that node.
#
# The program `between` relays the frames of both, and adds one when a file tells it to.
# shellcheck disable=SC2154 # set by lib.sh
. "$(dirname "$0")/lib.sh"
need_flux start submit wreck jobs wreckrun
need python3

mkdir between
cat >between/flux-launcher <<'END_PY'
#!/usr/bin/env python3
import os, select, socket, struct, sys
rank = next(a[7:] for a in sys.argv if a.startswith("--rank="))
where = os.environ["FRAMES_DIR"] + "/"
ours, theirs = socket.socketpair()
if os.fork() == 0:
    os.dup2(theirs.fileno(), 3)
    os.execv(os.environ["FRAMES_LAUNCHER"], sys.argv)
theirs.close()
broker = socket.socket(fileno=3)
ends = {broker: ours, ours: broker}
got = {broker: b"", ours: b""}
def whole(data):
    at = 0
    while len(data) - at >= 16 and len(data) - at - 16 >= struct.unpack_from("=I", data, at)[0]:
        at += 16 + struct.unpack_from("=I", data, at)[0]
    return at
while True:
    for end in select.select(list(ends), [], [], 0.05)[0]:
        data = end.recv(1 << 16)
        if not data:
            ours.close() # ends the launcher
            os.wait()
            sys.exit(0)
        got[end] += data
        n = whole(got[end])
        ends[end].sendall(got[end][:n])
        got[end] = got[end][n:]
    # TO KIND MAGIC JOB: a frame without payload
    if os.path.exists(where + "order." + rank):
        with open(where + "order." + rank) as f:
            to, kind, magic, job = f.read().split()
        os.unlink(where + "order." + rank)
        {"launcher": ours, "broker": broker}[to].sendall(
            struct.pack("=IHHQ", 0, int(kind), int(magic, 16), int(job)))
END_PY
chmod +x between/flux-launcher
FRAMES_DIR=$PWD
FRAMES_LAUNCHER=$BUILDDIR/src/launcher/flux-launcher
export FRAMES_DIR FRAMES_LAUNCHER
FLUX_EXEC_PATH=$PWD/between hold 2

# order RANK TO KIND MAGIC JOB
order() {
    local rank=$1
    shift
    echo "$*" >order.tmp
    mv order.tmp "order.$rank"
}
running() {
    [ "$("$FLUX" jobs -no '{state}' "$1")" = running ]
}
# started NAME NODES: submit a job with a task on each node, and wait until all run
started() {
    job=$("$FLUX" submit -N"$2" -n"$2" --overcommit sh -c "echo \$\$ >$1.\$FLUX_TASK_RANK; exec sleep 600")
    wait_until 30 running "$job" && wait_until 30 test -s "$1.0" && wait_until 30 test -s "$1.$(($2 - 1))"
}

ok "a job that is not concerned" started neighbor 2
neighbor=$job
# Types that do not exist, or that cannot be without a payload: 2 is SIGNAL, 20 is DONE.
for bad in "launcher 15" "launcher 2" "launcher 33" "broker 31" "broker 16" "broker 20"; do
    to=${bad% *}
    kind=${bad#* }
    ok "a job" started "victim.$to.$kind" 2
    order 0 "$to" "$kind" 5746 "$job"
    exits 1 "a frame of type $kind to the $to ends it" run_with_timeout 60 "$FLUX" wreck wait "$job"
    like "$err" "sent a frame that is not valid \\(type $kind, 0 bytes\\)" "... as its user is told"
    ok "... and both of its tasks" wait_until 30 sh -c "! kill -0 $(cat "victim.$to.$kind.0") &&
        ! kill -0 $(cat "victim.$to.$kind.1")"
    ok "... not the other job" running "$neighbor"
done
# Frames of a job that does not exist.
order 0 launcher 15 5746 999999
wait_until 30 test ! -e order.0
order 0 broker 31 5746 999999
wait_until 30 test ! -e order.0
ok "a frame of a job that does not exist has no effect on the next job" "$FLUX" wreckrun -N2 true
ok "... nor on one that runs" running "$neighbor"

# Without a valid magic number the length is not known, so nothing tells where the next frame
# begins.
for to in launcher broker; do
    order 1 "$to" 15 beef 1
    wait_until 30 test ! -e order.1
    exits 137 "bytes to the $to that are not a frame end the jobs of the node" \
        run_with_timeout 60 "$FLUX" wreck wait "$neighbor"
    like "$err" "the launcher of rank 1 was lost" "... with a sentence"
    ok "... and the next job runs there" "$FLUX" wreckrun -N2 true
    ok "a job" started "next.$to" 2
    neighbor=$job
done
"$FLUX" cancel "$neighbor"
release
is "$status" 0 "the session ends well"
finish
