# shellcheck shell=bash
# The faults.  fault_KIND draws what it needs (the same numbers for the same seed, however the session fares),
# says in a line what it does, does it, and undoes it where that is possible.  It fails when the session
# did something at once that it must not; what must be true afterwards is checked by the caller.
#
#     draw N          a number below N in $drawn, from the stream of this fault
#     draw_rank       one of the ranks that are up in $drawn
# shellcheck disable=SC2034,SC2153,SC2154 # of t/lib.sh, lib.sh and load.sh

# In the order that is shuffled; what this host does not allow is left out (see fault.t).
KINDS=(kill stop return launcher client reload disk clock descriptors cut restart crash leave deaf loss)

stream=0
draw() {
    stream=$((stream * 6364136223846793005 + 1442695040888963407))
    drawn=$((((stream >> 33) & 0x7fffffff) % $1))
}
# A stream of its own for each purpose: what one fault draws does not change the next one.
draw_from() { # SEED RUN NUMBER
    stream=$(($1 * 1000003 + $2 * 10007 + $3))
    draw 2
    draw 2
}
draw_rank() {
    draw ${#up[@]}
    drawn=${up[$drawn]}
}
# A pause of FROM up to TO hundredths of a second: in $drawn, as a number for sleep.
draw_pause() {
    draw $(($2 - $1))
    drawn=$((drawn + $1))
    drawn=$((drawn / 100)).$(printf %02d $((drawn % 100)))
}

# --- brokers ---

# Ranks whose loss leaves at least two, and the session.
killable() {
    some=()
    [ ${#up[@]} -lt 3 ] || mapfile -t some < <(printf '%s\n' "${up[@]}" | grep -vx 0)
}

# When too few are left, the session is started again first: that brings all back.
enough() {
    killable
    [ ${#some[@]} -eq 0 ] || return 0
    session_revive && killable || return 1
    [ ${#some[@]} -eq 0 ] || return 0
    echo "too few are left: the session is started again"
    restart_orderly && killable
}

fault_kill() {
    local r
    enough || return 1
    draw ${#some[@]}
    r=${some[$drawn]}
    echo "kill the broker of rank $r"
    kill_broker "$r"
}
kill_broker() { # RANK
    kill -KILL "${pids[$1]}"
    # Nobody on its host is left to remove its directory.
    [ "$where" != hosts ] || abandoned+=("$(dirname "$(dirname "${uris[$1]#local://}")")")
    session_lose "$1"
}

# Hosts have brokers that are started one by one, so those that are lost can be.
fault_return() {
    local r lost=()
    [ ${#up[@]} -lt "$n" ] || {
        fault_kill && wait_until 30 up_is || return 1
    }
    for ((r = 1; r < n; r++)); do
        [[ " ${up[*]} " == *" $r "* ]] || lost+=("$r")
    done
    [ ${#lost[@]} -gt 0 ] || return 0 # too few were left
    echo "start the brokers of ranks ${lost[*]} again"
    for r in "${lost[@]}"; do
        wait_until 60 all_dead "${pids[$r]}" || return 1
    done
    session_return "${lost[@]}"
}

# A broker that is asked to end leaves: its node is drained, and the session goes on without it.  Nobody
# starts it again.
fault_leave() {
    local r
    enough || return 1
    draw ${#some[@]}
    r=${some[$drawn]}
    echo "ask the broker of rank $r to end"
    kill -TERM "${pids[$r]}"
    session_lose "$r" left
}

# In a third of the cases until it is counted as lost.
fault_stop() {
    local r begin took
    draw 3
    if [ "$drawn" = 0 ]; then
        enough || return 1
        draw ${#some[@]}
        r=${some[$drawn]}
        draw_pause 0 200
        echo "stop the broker of rank $r until it is lost, and for $drawn s"
        zombie_begin "$r" || return 1
        kill -STOP "${pids[$r]}"
        zombie_lost || return 1
        sleep "$drawn"
        kill -CONT "${pids[$r]}"
        zombie_end
        return
    fi
    draw_rank
    r=$drawn
    # A sign of life is due every half second, so its silence may have begun before it is stopped.
    draw_pause 20 $((r == 0 ? 100 * ROOT_STOPS : 100 * lost_after - 70))
    echo "stop the broker of rank $r for $drawn s"
    begin=${EPOCHREALTIME/[.,]/}
    kill -STOP "${pids[$r]}"
    sleep "$drawn"
    kill -CONT "${pids[$r]}"
    took=$(((${EPOCHREALTIME/[.,]/} - begin) / 10000))
    [ "$r" != 0 ] && [ "$took" -gt $((100 * lost_after - 60)) ] || return 0
    echo "this host was late, so that the broker may be lost: kill it"
    kill_broker "$r" && enough
}

fault_descriptors() {
    local r hard used i waiting=() bad=0
    draw_rank
    r=$drawn
    draw 12
    used=$(find "/proc/${pids[$r]}/fd" -mindepth 1 -printf '%f\n' | sort -n | tail -n 1)
    hard=$(awk '/^Max open files/ { print $5 }' "/proc/${pids[$r]}/limits")
    echo "allow rank $r $drawn more descriptors than it has"
    prlimit --pid "${pids[$r]}" --nofile="$((used + 1 + drawn)):$hard" || return 1
    for i in $(seq 12); do
        at "$r" "$FLUX" kvs put "descriptors.$i=$i" 2>"descriptors.$i" &
        waiting+=($!)
    done
    for i in $(seq 12); do
        wait "${waiting[$((i - 1))]}" || [ -s "descriptors.$i" ] || bad=1
        refusals_violations "descriptors.$i" >violations
        [ ! -s violations ] || bad=1
        cat violations
    done
    prlimit --pid "${pids[$r]}" --nofile="$hard:$hard" || return 1
    return $bad
}

fault_reload() {
    local r force=() modules
    draw_rank
    r=$drawn
    if [ "$r" = 0 ]; then
        modules=(job sched resrc hb wrexec kvs barrier log)
    else
        modules=(wrexec kvs barrier log)
    fi
    draw ${#modules[@]}
    local module=${modules[$drawn]}
    draw 2
    # Without its say the store's module may be ended only where nothing is lost with it.
    [ "$drawn" = 0 ] || [ "$module" = kvs ] || force=(--force)
    echo "reload module $module at rank $r ${force[*]}"
    # It ends the tasks of those below, too, which have higher numbers.
    [ "${force[*]}$module" != --forcewrexec ] || seq "$r" $((n - 1)) >>unloaded
    at "$r" "$FLUX" module reload "${force[@]}" "$module" 2>reload.err && return
    cat reload.err
    [ ${#force[@]} = 0 ] && grep -q "module $module stays loaded: ." reload.err
}

# --- the session ---

restart_orderly() {
    session_end || return 1
    if [ "$status" != 0 ]; then
        echo "the session ended with exit code $status: $(tail -n 5 "log.$life")"
        return 1
    fi
    load_detach dead && session_start && load_attach "$seed"
}

fault_restart() {
    echo "end the session, and start it again"
    restart_orderly
}

fault_crash() {
    local stopped=
    draw 4
    case $drawn in
    0)
        echo "kill the broker of rank 0, and the session with it"
        session_crash "${pids[0]}" && start_again
        return
        ;;
    1)
        echo "kill flux start, and the session with it"
        session_crash "${starts[-1]}" && start_again
        return
        ;;
    2)
        draw_rank
        stopped=" while rank $drawn is stopped"
        kill -STOP "${pids[$drawn]}"
        draw_pause 10 100
        sleep "$drawn"
        ;;
    esac
    echo "kill all brokers and flux start$stopped"
    session_crash && start_again
}
start_again() {
    load_detach dead || return 1
    # What is written at times only may be lost: what is told from now on is another history.
    [ "$sync" = commit ] || era=$((era + 1))
    session_start && load_attach "$seed"
}

# --- what it stands on ---

fault_disk() {
    local how
    draw 3
    how=$drawn
    draw_pause 30 150
    echo "fill the disk for $drawn s$([ "$how" != 0 ] || echo ", and kill the session then")"
    fallocate -l 1G disk/filler 2>/dev/null
    dd if=/dev/zero of=disk/filler2 bs=4k 2>/dev/null
    sleep "$drawn"
    [ "$how" != 0 ] || session_crash || return 1
    rm -f disk/filler disk/filler2
    [ "$how" != 0 ] || start_again
}

fault_clock() {
    local seconds
    draw 2
    local sign=$((drawn * 2 - 1))
    draw 4
    local units=(1 60 3600 86400)
    local unit=${units[$drawn]}
    draw 5
    clock=$((clock + sign * unit * (drawn + 1)))
    echo "set the clock of the session to $clock s from what it is"
    echo "$clock" >clock.new && mv clock.new clock
}

# Shorter than a third of the limit: TCP may wait as long again before it sends what was lost.
fault_cut() {
    local r
    draw 3
    if [ "$drawn" = 0 ]; then
        enough || return 1
        draw ${#some[@]}
        r=${some[$drawn]}
        echo "cut rank $r off until it is lost"
        zombie_begin "$r" || return 1
        link "$r" down
        zombie_lost || return 1
        link "$r" up
        zombie_end
        return
    fi
    draw_rank
    r=$drawn
    draw_pause 20 $((34 * lost_after))
    echo "cut rank $r off for $drawn s"
    link "$r" down
    sleep "$drawn"
    link "$r" up
}

# For a while, nothing that others send reaches a host, or nothing that it sends reaches them.  In a
# third of the cases until it is counted as lost.
fault_deaf() {
    local r way=oifname what='rank %s is sent'
    draw_rank
    r=$drawn
    draw 2
    [ "$drawn" = 0 ] || way=iifname what='comes from rank %s'
    draw 3
    if [ "$drawn" = 0 ]; then
        enough || return 1
        draw ${#some[@]}
        r=${some[$drawn]}
        # shellcheck disable=SC2059 # one of the two above
        echo "drop what $(printf "$what" "$r") until it is lost"
        zombie_begin "$r" || return 1
        switch_drops "$way \"port$((r + 1))\"" || return 1
        zombie_lost || return 1
        switch_drops
        zombie_end
        return
    fi
    draw_pause 20 $((34 * lost_after))
    # shellcheck disable=SC2059 # one of the two above
    echo "for $drawn s, drop what $(printf "$what" "$r")"
    switch_drops "$way \"port$((r + 1))\"" || return 1
    sleep "$drawn"
    switch_drops
}

# For a while, the switch loses one packet in a hundred, or five.
fault_loss() {
    local percent=1
    draw 2
    [ "$drawn" = 0 ] || percent=5
    draw_pause 100 300
    echo "for $drawn s, lose $percent % of all packets"
    switch_drops "numgen random mod 100 < $percent" || return 1
    sleep "$drawn"
    switch_drops
}

# --- jobs and clients ---

# The parents of a process up to the broker.
launchers_of() {
    local pid=$1 broker=$2
    while pid=$(awk '/^PPid/ { print $2 }' "/proc/$pid/status") && [ "$pid" -gt 1 ] && [ "$pid" != "$broker" ]; do
        echo "$pid"
    done
}

fault_launcher() {
    local r id task parents told rank uri
    draw_rank
    r=$drawn
    draw 10
    echo "kill a launcher at rank $r"
    rm -f launched
    uri=${uris[$r]}
    submit_one "launcher" endless 1 --ranks="$r" -- "echo \$\$ >$TEST_DIR/launched; exec sleep 1000"
    [ -n "$told" ] || return 1
    wait_until 60 test -s launched || return 1
    mapfile -t parents < <(launchers_of "$(cat launched)" "${pids[$r]}")
    [ ${#parents[@]} -gt 0 ] || return 1
    kill -KILL "${parents[drawn % ${#parents[@]}]}"
    at "$r" "$FLUX" wreck wait "$told" >/dev/null 2>&1
    [ "$(at "$r" "$FLUX" jobs -a -n -o '{result}' "$told" | tr -d ' ')" = failed ]
}

# Clients that are killed at any moment, beside those of the load.
fault_client() {
    local i r count pid victims
    draw 8
    count=$((drawn + 3))
    echo "kill $count clients, and some of the load"
    for ((i = 0; i < count; i++)); do
        draw_rank
        r=$drawn
        draw 7
        case $drawn in
        0) victim "$r" kvs put "client.$i=$i" ;;
        1) victim "$r" submit --env=FAULT_TASK="$FLUX_TEST_ID" sh -c "$TASK$TEST_DIR/runs" ;;
        2) victim "$r" wreckrun --env=FAULT_TASK="$FLUX_TEST_ID" sh -c "$TASK$TEST_DIR/runs; sleep 0.3" ;;
        3) victim "$r" barrier -n 2 "client.$run.$i" ;;
        4) victim "$r" event sub ;;
        5) victim "$r" event pub fault.client '{}' ;;
        6) victim "$r" jobs -a ;;
        esac
    done
    # The load's clients are children of `timeout`.
    mapfile -t victims < <(pgrep -P "$(pgrep -d , -P "$(IFS=, && echo "${workers[*]}")" timeout)" 2>/dev/null)
    for pid in ${victims[@]+"${victims[@]}"}; do
        kill -KILL "$pid" 2>/dev/null
    done
    return 0
}
victim() { # RANK ARGUMENT...
    local uri=${uris[$1]} pid
    shift
    FLUX_URI=$uri "$FLUX" "$@" >/dev/null 2>&1 &
    pid=$!
    draw_pause 0 30
    sleep "$drawn"
    kill -KILL "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
}
