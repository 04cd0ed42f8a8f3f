#!/usr/bin/env bash
# flux pstree: sessions in sessions, as a tree and as JSON.
# shellcheck disable=SC2016,SC2154 # set by run
. "$(dirname "$0")/lib.sh"
need_flux start batch pstree submit proxy

hold 2
export LC_ALL=C
is "$("$FLUX" pstree)" "session of 2 brokers" "nothing runs"
cat >job.sh <<'END'
#!/bin/sh
#FLUX: -N2 -n2
flux submit --quiet --cc=1-2 -N1 sleep 100
exec sleep 100
END
id=$("$FLUX" batch --name=outer job.sh)
complete() {
    [ "$("$FLUX" pstree | grep -c sleep)" = 2 ]
}
ok "a session with two jobs" wait_until 20 complete
is "$("$FLUX" pstree)" "session of 2 brokers
\`-- $id outer: 2 nodes, session of 2 brokers
    |-- 1 sleep: 1 node
    \`-- 2 sleep: 1 node" "the tree"
like "$("$FLUX" pstree --compact)" '2\*sleep' "--compact"
is "$("$FLUX" pstree --relay)" "$("$FLUX" pstree)" "by relays"
is "$("$FLUX" pstree --sessions | wc -l)" 2 "--sessions"
unlike "$("$FLUX" pstree --level=1)" sleep "--level"
is "$("$FLUX" pstree "$id" | head -n 1)" "session of 2 brokers" "from a session within"
like "$(LC_ALL=C.UTF-8 "$FLUX" pstree)" $'\xe2\x94\x94' "Unicode"
unlike "$(LC_ALL=C.UTF-8 "$FLUX" pstree --ascii)" $'\xe2\x94\x94' "--ascii"
run "$FLUX" pstree --json
like "$out" '"level": 1' "JSON: levels"
like "$out" '"name": "sleep"' "JSON: jobs of the session within"
unlike "$out" expiration "JSON: no end without a limit"
limited=$("$FLUX" batch -N1 -t 2h --wrap sleep 100)
ok "a session that has a limit says what is left of it" wait_until 20 sh -c \
    '"$0" pstree | grep -q "$1 wrap: 1 node, session of 1 broker, 1[01][0-9]m left"' "$FLUX" "$limited"
like "$("$FLUX" pstree --json)" '"expiration": [0-9]+\.' "... in JSON, too"
"$FLUX" cancel "$limited"
"$FLUX" wreck wait "$limited"
waits=$("$FLUX" submit --urgency=hold true)
unlike "$("$FLUX" pstree)" "$waits true" "jobs that wait are not shown"
like "$("$FLUX" pstree -p)" "$waits true: held" "unless --pending, with the word that flux jobs has for their state"
exits 2 "no path of ids" "$FLUX" pstree 1/x
fails "no such job" "$FLUX" pstree 4711
release
finish
