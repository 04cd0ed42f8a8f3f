#!/usr/bin/env bash
# flux proxy: into sessions that are jobs, directly and by relays, through several levels.
# shellcheck disable=SC2016,SC2154 # the inner shell expands; set by run
. "$(dirname "$0")/lib.sh"
need_flux start batch proxy jobs cancel

hold 2
cat >inner.sh <<'END'
#!/bin/sh
flux kvs put where=inner
exec sleep 100
END
cat >outer.sh <<'END'
#!/bin/sh
#FLUX: -N2
flux kvs put where=outer
flux batch --quiet -N1 inner.sh
exec sleep 100
END
id=$("$FLUX" batch outer.sh)
proxy() {
    run_with_timeout 30 "$FLUX" proxy "$@"
}
is "$(proxy --wait=20 "$id" "$FLUX" getattr size)" 2 "into a session"
is "$(proxy "$id" "$FLUX" getattr instance-level)" 1 "one level down"
# --wait waits for the session of a job, not for a job: first the script has to submit it.
submitted() {
    [ -n "$(proxy "$id" "$FLUX" jobs -n)" ]
}
ok "the job in the session is there" wait_until 20 submitted
is "$(proxy --wait=20 "$id/1" "$FLUX" getattr instance-level)" 2 "two levels down"
has() {
    [ "$(proxy "$1" "$FLUX" kvs get where)" = "$2" ]
}
ok "each has its own store" wait_until 10 has "$id" outer
ok "each has its own store" wait_until 10 has "$id/1" inner
is "$(proxy --relay "$id" "$FLUX" kvs get where)" outer "by a relay"
is "$(proxy --relay "$id/1" "$FLUX" kvs get where)" inner "by two"
# The address of such a session, and of one two levels down, leads there without a proxy, too.
uri=$("$FLUX" uri "$id")
is "$uri" "$("$FLUX" jobs -n -o '{uri}' "$id" | sed 's#^flux://[^/]*#local://#; s/?.*//')" "flux uri ID is the address of the session that job ID is"
FLUX_URI=$uri run "$FLUX" kvs get where
is "$out" outer "... and leads into it"
FLUX_URI=$("$FLUX" uri "$id/1") run "$FLUX" kvs get where
is "$out" inner "flux uri ID/ID leads two levels down"
run "$FLUX" uri --json "$id"
like "$out" "\"uri\": \"$uri\"" "flux uri --json ID has it"
exits 6 "the exit code" proxy "$id" sh -c 'exit 6'
exits 6 "the exit code beside a relay" proxy --relay "$id" sh -c 'exit 6'
exits 127 "no such command" proxy "$id" /no/such/command
exits 127 "no such command beside a relay" proxy --relay "$id" /no/such/command
like "$(proxy --uri "$id")" '^local:///' "--uri"
head -c 5000000 /dev/urandom >data
ok "5 MB through a relay" proxy --relay "$id/1" sh -c "'$FLUX' kvs put --raw big=- <data &&
    '$FLUX' kvs get --raw big | cmp - data"
ok "many connections at a time" proxy --relay "$id" sh -c 'for i in 1 2 3 4 5 6 7 8; do
    "$0" getattr size & done; wait' "$FLUX"
is "$(wc -l <<<"$out")" 8 "all are answered"
address=$("$FLUX" jobs -n -o '{uri}' "$id")
like "$address" '^flux://.*\?rank=' "the address of a session"
is "$(proxy "$address" "$FLUX" getattr instance-level)" 1 "may stand for its id"
# Another host, as far as sockets go: the job's directory cannot be seen.
elsewhere() {
    run_with_timeout 30 unshare -rm sh -c 'mount -t tmpfs none "$1" && shift && exec "$@"' sh "$@"
}
dir=${address#flux://*/}
dir=/${dir%%/*}
case $dir in
/dev) dir=/dev/shm ;;
esac
if elsewhere "$dir" true 2>/dev/null && [ "$dir" = /dev/shm ]; then
    is "$(elsewhere "$dir" "$FLUX" proxy "$id/1" "$FLUX" kvs get where)" inner \
        "by relays where sockets are out of sight"
    like "$(elsewhere "$dir" "$FLUX" pstree)" "$id outer.*1 inner" "flux pstree, too"
else
    skip 2 "no mounts of one's own here"
fi
fails "a job that is not there" proxy 4711 true
like "$err" 4711 "the sentence names it"
exits 2 "no path of ids" proxy 1/x true
completes() {
    bash -c '. "$0"; compopt() { :; }; COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _flux; echo "${COMPREPLY[*]}"' "$SRCDIR/etc/flux.bash-completion" "$@"
}
PATH=$(dirname "$FLUX"):$PATH
like "$(completes flux proxy '')" "^$id( |$)" "bash completes ids"
like "$(completes flux proxy --r)" '--relay' "and options"
like "$(completes flux batch --start)" '--start-option=' "of flux batch, too"
plain=$("$FLUX" submit sleep 100)
fails "a job that is not a session" proxy "$plain" true
like "$err" "is not a session" "the sentence says so"
"$FLUX" cancel "$plain" "$id"
ok "canceled" wait_until 10 no_active_jobs
fails "a job that has ended" proxy "$id" true
like "$err" ended "the sentence says so"
release
finish
