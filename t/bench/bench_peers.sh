#!/bin/bash
# The key-value store beside Redis and etcd: see bench_peers.c.
#
# Redis: on a UNIX socket, without persistence.  etcd: one server on the loopback, its data on the
# same disk as the session's state.  A server that is not installed (deps_install bench) is said,
# and left out.
. "$(dirname "$0")/bench_lib.sh"

pids=()
# shellcheck disable=SC2317 # called by the trap
stop() {
    [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null
    wait
    rm -rf "$_root"
}
trap stop EXIT
# until FILE has a line that matches REGEX
wait_line() {
    local i
    for ((i = 0; i < 200; i++)); do
        grep -qE "$2" "$1" 2>/dev/null && return 0
        sleep 0.05
    done
    echo "bench: this server does not start:" >&2
    tail -5 "$1" >&2
    return 1
}

status=0
if command -v redis-server >/dev/null; then
    redis-server --port 0 --unixsocket "$TMPDIR/redis" --save '' --appendonly no \
        --dir "$TMPDIR" >"$TMPDIR/redis.log" 2>&1 &
    pids+=($!)
    if wait_line "$TMPDIR/redis.log" 'ready to accept'; then
        in_session 1 -- "$BENCH_DIR/bench_peers" redis "$TMPDIR/redis" || status=1
    else
        status=1
    fi
    kill "${pids[@]}"
    wait
    pids=()
else
    echo "# redis-server is not installed: nothing beside Redis"
fi

state=$(mktemp -d "${FLUX_BENCH_DISK:-$BUILDDIR}/bench-disk.XXXXXX") || exit 1
trap 'stop; rm -rf "$state"' EXIT
in_session 1 --statedir="$state/flux" -- "$FLUX" kvs put probe=1
if [ ! -s "$state/flux/content.sqlite" ]; then
    echo "# sessions write no content.sqlite into their statedir: nothing durable"
    exit $status
fi
port=()
if command -v etcd >/dev/null; then
    for ((i = 0; i < 5 && ${#port[@]} == 0; i++)); do
        p=$((RANDOM % 20000 + 20000))
        etcd --data-dir "$state/etcd" --listen-client-urls "http://127.0.0.1:$p" \
            --advertise-client-urls "http://127.0.0.1:$p" \
            --listen-peer-urls "http://127.0.0.1:$((p + 1))" \
            --initial-advertise-peer-urls "http://127.0.0.1:$((p + 1))" \
            --initial-cluster "default=http://127.0.0.1:$((p + 1))" \
            --log-level error --quota-backend-bytes 8589934592 >"$TMPDIR/etcd.log" 2>&1 &
        pids+=($!)
        for ((k = 0; k < 200; k++)); do
            kill -0 "${pids[-1]}" 2>/dev/null || break
            if (: <"/dev/tcp/127.0.0.1/$p") 2>/dev/null; then
                port=("$p")
                break
            fi
            sleep 0.05
        done
    done
    if [ ${#port[@]} -eq 0 ]; then
        echo "bench: etcd does not start:" >&2
        tail -5 "$TMPDIR/etcd.log" >&2
        status=1
    fi
    sleep 2 # until it has elected itself
else
    echo "# etcd is not installed: nothing beside etcd"
fi
in_session 1 --statedir="$state/flux" -- \
    "$BENCH_DIR/bench_peers" durable "$state" ${port[@]+"${port[@]}"} || status=1
exit $status
