#!/usr/bin/env bash
# Many clients use the key-value store at random on eight brokers, which are stopped, continued and
# killed meanwhile; what they were told keeps all the promises of the store.  And when a client lies
# about what it read, that is noticed.
#
# t/history/record writes the history, t/history/history-check reads it; doc/testing.rst tells how
# to read what they print.  FLUX_TEST_SEED=N repeats the random choices of a run (not its timing);
# FLUX_TEST_KEEP=DIR keeps the histories there.
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
need_flux start kvs
export SESSION_LIMIT=150 # for hold in lib.sh
RECORD=$BUILDDIR/t/history/record
CHECK=$BUILDDIR/t/history/history-check
if [ ! -x "$RECORD" ] || [ ! -x "$CHECK" ]; then
    skip_all "t/history has not been built"
fi
seed=${FLUX_TEST_SEED:-${SOAK_SEED:-8}} # make soak takes another each time
RANDOM=$seed
note "seed $seed"

declare -A recorder

# Find the brokers of the session at hand.
brokers() {
    local i
    pids=()
    uris=()
    for ((i = 0; i < $1; i++)); do
        pids+=("$("$FLUX" getattr -r "$i" broker.pid)")
        uris+=("$("$FLUX" getattr -r "$i" uri)")
    done
}
# record LOG OPTION...: from clients of all brokers.
record() {
    local log=$1
    shift
    : >"$log.out"
    run_with_timeout 120 "$RECORD" --seed="$seed" "$@" "$log" "${uris[@]}" >"$log.out" 2>"$log.err"
}
start_record() {
    : >"$1.out"
    record "$@" &
    recorder[${1%.log}]=$!
    wait_until 20 grep -q recording "$1.out" || bail "nothing is recorded: $(cat "$1.err")"
}
# more LOG N: until the log has N more lines, two for each operation: the clients have come so much
# further.
more() {
    wait_until 60 has_lines "$1" $(($(wc -l <"$1") + $2))
}
# enough LOG: its clients come to their end now.
enough() {
    kill -TERM "$(sed -n 's/^process \([0-9]*\): recording.*/\1/p' "$1.out")"
}
# end_record LOG WHAT: wait for it; all clients came to their end.
end_record() {
    wait "${recorder[${1%.log}]}"
    is $? 0 "$2: every client comes to its end"
    note "$(cat "$1.out" "$1.err")"
}
# number WORD...: the number in front of these words in what was printed last.
number() {
    sed -n "s/.*[^0-9]*\b\([0-9][0-9]*\) $*.*/\1/p" <<<"$out" | head -n 1
}
keeps_promises() {
    local what=$1
    shift
    ok "$what: all promises are kept" "$CHECK" "$@"
    note "$out"
    if [ -n "${FLUX_TEST_KEEP:-}" ]; then
        cp -- *.log "$FLUX_TEST_KEEP"
    fi
}
# Stop a broker for a moment.
stop_one() {
    local pid=${pids[$1]}
    kill -STOP "$pid"
    sleep "0.$((RANDOM % 9 + 1))"
    kill -CONT "$pid"
}

# --- nothing happens
# ----------------------------------------------------------------------------------

# So small a cache that values are fetched repeatedly.
hashes=(sha1 sha256 blake2b)
hold 8 --topology=kary:2 --set=modules=log,hb,kvs --set=orphan.timeout=60s --set=live.lost=60s \
    --set=content.cache-limit=200k --set=content.hash="${hashes[RANDOM % 3]}"
brokers 8
start_record calm.log --seconds=1.5
end_record calm.log "without faults"
keeps_promises "without faults" calm.log
is "$(number of unknown outcome)" 0 "without faults: every commit has an answer"
ok "without faults: there is something to check" [ "$(number commits,)" -gt 30 ]

# On a busy host there may be too few to be caught; then more time is given.
for s in 1.5 5 20; do
    rm -f lies.log
    start_record lies.log --seconds=$s --lie=0.03 --dir="l${s%.*}" --no-fences
    wait "${recorder[lies]}"
    code=$?
    note "$(cat lies.log.out lies.log.err)"
    run "$CHECK" lies.log
    [ "$status" = 1 ] && break
done
is "$code" 0 "with lies: every client comes to its end"
exits 1 "a client that tells older values is noticed" "$CHECK" lies.log
like "$out" 'VIOLATION (stale read|lost update|own write|read goes back|append lost|torn|causality)' \
    "and what it did has a name"
note "$(grep -A 9 '^[0-9]* violations' <<<"$out")"

# --- brokers that are stopped, and continued
# ------------------------------------------------------------

"$FLUX" kvs namespace create --rank=3 inner || bail "there is no namespace"
start_record stop.log --seconds=60 --dir=s --clients=4
start_record stop-ns.log --seconds=60 --dir=s --ns=inner --first=1000 --clients=3
for ((i = 0; i < 6; i++)); do
    stop_one $((RANDOM % 8))
    more stop.log $((RANDOM % 600))
done
enough stop.log
enough stop-ns.log
end_record stop.log "with stops"
end_record stop-ns.log "with stops, master at an interior rank"
keeps_promises "with stops" stop.log
keeps_promises "with stops, master at an interior rank" --ns=inner --master=3 stop-ns.log

# --- and killed: leaves, and then one with others below
# -----------------------------------------------

"$FLUX" kvs namespace create --rank=5 leaf || bail "there is no namespace"
start_record kill.log --seconds=60 --dir=d --clients=4
start_record kill-ns.log --seconds=60 --dir=d --ns=leaf --first=1000 --clients=3
more kill.log 1500
kill -KILL "${pids[7]}"
stop_one $((RANDOM % 7))
kill -STOP "${pids[6]}"
more kill.log 800
kill -KILL "${pids[6]}"
stop_one 0
more kill.log 800
kill -KILL "${pids[1]}"
for ((i = 0; i < 3; i++)); do
    more kill.log $((RANDOM % 600))
    stop_one $((RANDOM % 2 ? 5 : RANDOM % 2 ? 2 : 0))
done
more kill.log 800
enough kill.log
enough kill-ns.log
end_record kill.log "with kills"
end_record kill-ns.log "with kills, master at a leaf"
keeps_promises "with kills, master at a leaf" --ns=leaf --master=5 kill-ns.log
keeps_promises "with kills" kill.log
note "outcomes that are unknown with kills: $(number of unknown outcome)"
ok "the rest goes on" "$FLUX" kvs put after=1
release
is "$status" 0 "the session ends well"
finish
