#!/usr/bin/env bash
# What the flux command does without a session, and with its arguments.
. "$(dirname "$0")/lib.sh"
need_flux version help env

ok "version" "$FLUX" version
like "$out" '^flux [0-9]+\.[0-9]+' "prints one"
ok "--version" "$FLUX" --version
exits 2 "no command" "$FLUX"
like "$out" 'Usage: flux COMMAND' "prints what there is"
ok "--help" "$FLUX" --help
exits 127 "a command that does not exist" "$FLUX" nonsense-command
like "$err" "no command 'nonsense-command'" "is named"
exits 127 "a command with a typing error" "$FLUX" vresion
like "$err" 'did you mean version' "is guessed"
exits 2 "an option that does not exist" "$FLUX" --nonsense
exits 2 "an option that a command does not have" "$FLUX" version --nonsense
like "$err" "flux version: option '--nonsense'" "is named"
exits 2 "an option without its value" "$FLUX" ping --count
exits 2 "an option with a bad value" "$FLUX" ping --count=many
like "$err" "many" "is named"
exits 2 "an argument too many" "$FLUX" version 1

# Every command has help; none needs a session for it.
for name in $("$FLUX" help | awk '/^  [a-z]/ {print $1}'); do
    case $name in
    broker | keygen) continue ;;
    esac
    ok "$name --help" "$FLUX" "$name" --help
    like "$out" "Usage: +flux $name" "shows its use"
done

for args in up topo "getattr rank" lsattr dmesg "logger x" "module list" "event pub x" "ping" "barrier x"; do
    # shellcheck disable=SC2086 # several words are meant
    exits 1 "flux $args without a session" "$FLUX" $args
    like "$err" 'not inside a session' "says so"
done
export FLUX_URI=local:///nonexistent/socket
exits 1 "a session that has ended" "$FLUX" up
like "$err" 'no broker listens at /nonexistent/socket' "is said to have"
export FLUX_URI=nonsense
exits 1 "a bad FLUX_URI" "$FLUX" up
like "$err" "'nonsense' is not an address" "is shown"
unset FLUX_URI

# Other programs as commands: from FLUX_EXEC_PATH, then from PATH.
mkdir bin exec
printf '#!/bin/sh\necho "path $*"\nexit 7\n' >bin/flux-mine
printf '#!/bin/sh\necho "exec $*"\n' >exec/flux-mine
chmod +x bin/flux-mine exec/flux-mine
PATH=$PWD/bin:$PATH exits 7 "flux-mine on PATH is flux mine" "$FLUX" mine a b
is "$out" "path a b" "and gets its arguments"
FLUX_EXEC_PATH=$PWD/exec PATH=$PWD/bin:$PATH ok "FLUX_EXEC_PATH is searched first" "$FLUX" mine c
is "$out" "exec c" "and found"

ok "env" "$FLUX" env
like "$out" "export PATH='" "prints PATH"
FLUX_URI="local:///it's" ok "env with a strange value" "$FLUX" env
eval "$out"
is "$FLUX_URI" "local:///it's" "which a shell reads back"
unset FLUX_URI
exits 3 "env COMMAND has its exit code" "$FLUX" env sh -c 'exit 3'
ok "env COMMAND has PATH" "$FLUX" env sh -c 'command -v flux'
exits 127 "env with a command that does not exist" "$FLUX" env /nonexistent
exits 126 "env with one that cannot be run" "$FLUX" env /etc/passwd
exits 1 "help of a command that does not exist" "$FLUX" help submti
like "$err" "no command 'submti'; did you mean submit" "names the nearest"
exits 127 "a command of another tool" "$FLUX" srun true
like "$err" "there is no command 'srun'; here it is 'flux wreckrun'" "says what it is called here"
exits 2 "a misspelt option" "$FLUX" version --hlep
like "$err" "option '--hlep' is unknown or ambiguous; did you mean --help\?" "names the nearest"
exits 2 "a misspelt command of a command" "$FLUX" kvs gte a
like "$err" "there is no subcommand 'gte'; did you mean get\?" "names the nearest"
exits 2 "kap with an argument" "$FLUX" kap one
like "$err" "no argument is expected" "says so"

if [ -e /dev/full ]; then
    exits 1 "standard output that is full" sh -c "'$FLUX' help >/dev/full"
    like "$err" "No space left" "is said"
else
    skip 2 "no /dev/full"
fi

# It starts quickly: not measured here, but it must not drag in what brokers need.
if command -v ldd >/dev/null && [ -z "${FLUX_TEST_SANITIZERS:-}" ]; then
    unlike "$(ldd "$FLUX")" 'zmq|sodium|crypto|lua|hwloc' "links no library of the broker's"
else
    skip 1 "no ldd, or a sanitizer in the way"
fi
finish
