#!/usr/bin/env bash
# Settings: what is unknown or cannot be ends the start, flux config shows all with their sources,
# and no attribute that the sources read is missing in the table.
# shellcheck disable=SC2154 # set by run, ok
. "$(dirname "$0")/lib.sh"
need_flux start config getattr

# refused SETTING WORDS
refused() {
    exits 2 "--set=$1" run_with_timeout 60 "$FLUX" start --size=1 --set="$1" true
    like "$err" "$2" "... is refused with a sentence"
}
refused sched.queue_policy=easy "there is no setting 'sched.queue_policy'; did you mean sched.queue-policy\?"
refused foo=bar "there is no setting 'foo'"
refused size=3 "size cannot be set"
refused job.grace=foo "job.grace=foo: "
refused log.ring-size=0 "range is 1 to 1048576"
refused kvs.sync=never "one of commit,interval"
refused log.forward-level=wrn "one of emerg,.*,none; did you mean warn\?"
refused wrexec.prolog=/nonexistent "wrexec.prolog=/nonexistent: No such file"
refused wrexec.epilog=/etc/passwd "it is not a program"
refused wrexec.lua-path=/etc:/nonexistent "the directory /nonexistent: No such file"
refused wrexec.tmpdir=/etc/passwd "/etc/passwd is not a directory"
refused wrexec.cgroup=nothing "expected a directory, from '/', or none"
# What is known when the modules are.
ends() { # SETTING WORDS
    fails "--set=$1" run_with_timeout 60 "$FLUX" start --size=1 --set="$1" true
    like "$err" "$2" "... ends the start"
}
ends sched.plugin-path=/nonexistent "sched.plugin-path: the directory /nonexistent: No such file"
ends module.place=kvvs:loop "module.place=kvvs:loop: there is no module 'kvvs'; did you mean kvs\?"
ends content.hash=md6 "md6"
exits 2 "the broker itself refuses it, too" "$BUILDDIR/src/broker/flux-broker" --set=foo=bar true
like "$err" "there is no setting 'foo'" "... with the same sentence"

port=$(free_ports 1)
config() {
    printf 'local n = 1\nsession {\n  hosts = "%s", address = "tcp://127.0.0.1:%d",\n  %s\n}\n' \
        "$(hostname)" "$port" "$1" >config.lua
    run run_with_timeout 60 "$FLUX" start --config=config.lua --set=modules=log \
        sh -c "'$FLUX' config get; '$FLUX' config get --json hb.period"
}
config 'curve = flase'
is "$status" 1 "a misspelt constant in a configuration file"
like "$err" "config.lua:4: there is no variable 'flase'; did you mean false\?" "... is named"
config 'curve = false, topolgy = "flat"'
like "$err" "session has no field \"topolgy\"; did you mean topology\?" "a misspelt field, too"
config 'curve = false, attrs = { ["job.grcae"] = "1s" }'
is "$status" 1 "an unknown setting in the file"
like "$err" "config.lua:2: session.attrs: there is no setting 'job.grcae'; did you mean job.grace\?" "... is named"
config 'curve = false, attrs = { ["job.grace"] = "soon" }'
like "$err" "config.lua:2: session.attrs: job.grace=soon: " "a bad value, too"
config 'curve = false, attrs = { ["hb.period"] = "7s", ["user.own"] = 3 }'
is "$status" 0 "a file without mistakes"
like "$out" $'\n'"hb.period +7s +config.lua:2"$'\n' "flux config get: the file and line"
like "$out" $'\n'"modules +log +--set"$'\n' "... the command line"
like "$out" $'\n'"job.grace +5s +default"$'\n' "... a default"
like "$out" $'\n'"size +1 +broker"$'\n' "... what the broker says"
like "$out" $'\n'"user.own +3 +config.lua:2"$'\n' "... what is the user's own"
like "$out" '"source": "config.lua:2"' "... as JSON"

# The section session has no effect where a session starts otherwise.
config 'curve = false'
for how in --size=1 --size=2 --boot=single --boot=pmi; do
    exits 2 "$how with a section session" run_with_timeout 60 "$FLUX" start $how --config=config.lua true
    like "$err" "config.lua: the section session has no effect .*: leave that out, or the section" "... is a usage error"
done
echo 'session { hots = "a" }' >wrong.lua
fails "its fields are checked" run_with_timeout 60 "$FLUX" start --size=2 --config=wrong.lua true
like "$err" 'wrong.lua:1: session has no field "hots"; did you mean hosts\?' "... with the same sentence"
echo 'session { hosts = "a", attrs = { ["job.grcae"] = 1 } }' >wrong.lua
fails "its attributes, too" run_with_timeout 60 "$FLUX" start --boot=single --config=wrong.lua true
like "$err" "wrong.lua:1: session.attrs: there is no setting 'job.grcae'; did you mean job.grace\?" "... likewise"
echo 'resource { pools = { license = 3 } }' >pools.lua
ok "a file without it" run_with_timeout 60 "$FLUX" start --size=2 --config=pools.lua --set=modules=log true

hold 2 --set=job.grace=9s
ok "a setting of another rank" "$FLUX" config get -r 1 job.grace
like "$out" "job.grace +9s +--set" "... is the same"
ok "a setting is changed" "$FLUX" setattr job.purge-count 7
like "$err" "job.purge-count is in effect when module job is reloaded" "... which says when it will be read"
run "$FLUX" config get job.purge-count
like "$out" "7 +setattr; in effect when job is reloaded\$" "... as is shown"
"$FLUX" setattr job.grace 9s 2>/dev/null
run "$FLUX" config get job.grace
like "$out" "9s +setattr\$" "... not for the value that is in effect"
ok "its module is reloaded" "$FLUX" module reload --force job
run "$FLUX" config get job.purge-count
like "$out" "7 +setattr\$" "... which has read it"
ok "a setting of the broker is changed" "$FLUX" setattr heal.timeout 7s
like "$err" "heal.timeout is not in effect in this session: brokers read it when they start" "... which has no effect"
run "$FLUX" config get heal.timeout
like "$out" "7s +setattr; not in effect: brokers read it when they start\$" "... as is shown"
ok "an attribute that is not a setting" "$FLUX" setattr user.own 1
is "$err" "" "... is just set"
fails "a word is checked" "$FLUX" setattr log.forward-level wrn
like "$err" "did you mean warn\?" "... has a suggestion"
fails "not to what it cannot be" "$FLUX" setattr job.purge-count many
fails "a setting that is not there" "$FLUX" config get job.grave
like "$err" "did you mean job.grace\?" "... has a suggestion"
release

ok "flux config list needs no session" "$FLUX" config list
like "$out" "hb.period +duration +2s +1ms to " "... and shows type, default and range"
ok "... as JSON" sh -c "'$FLUX' config list --json | grep -q '\"name\": \"hb.period\"'"

# Each attribute that is read somewhere is in the table: calls with a name, and tables of name and
# function.
{
    grep -rhoE --include='*.c' --exclude-dir=test \
        '(attrs_get|boot_attr|given|duration_attr|attr_bool|flux_attr_get(_async)?|ask_attr|ask|[a-z_]*_attr)\([^"()]*"[a-z]+[a-z.-]*"' \
        "$SRCDIR/src/broker" "$SRCDIR/src/modules" | sed 's/.*"\(.*\)"/\1/'
    grep -rhoE --include='*.c' --exclude-dir=test '\{"[a-z]+\.[a-z-]+", *("[a-z-]+=", *)?[a-z_]*set_[a-z_]+' "$SRCDIR/src/modules" |
        sed 's/^{"\([^"]*\)".*/\1/'
    grep -rhoE --include='*.c' 'SETUP_[A-Z_]+\("[a-z]+\.[a-z-]+"' "$SRCDIR/src/modules" | sed 's/.*"\(.*\)"/\1/'
    grep -hoE '\] = "wrexec\.[a-z-]+"' "$SRCDIR/src/modules/wrexec/settings.c" | sed 's/.*"\(.*\)"/\1/'
} | sort -u >used
"$FLUX" config list | awk 'NR > 1 { print $1 }' | sort >known
like "$(xargs <used)" "hb.period.*job.grace.*kvs.sync.*log.ring-size.*wrexec.prolog" "the sources are searched"
is "$(comm -23 used known | xargs)" "" "every attribute that the sources read is in the table"

# The table says which module reads a setting; the broker's rows name none.
(cd "$SRCDIR/src/modules" && grep -roE --include='*.c' --exclude-dir=test 'SETUP_[A-Z_]+\("[a-z]+\.[a-z-]+"' .) |
    sed -n 's|^\./\([a-z]*\)/[^"]*\("[^"]*"\)$|ROW(\2, "\1",|p' | grep -v '"config.file"' | sort >readers
sed -n 's/^\(ROW("[a-z.-]*", "[a-z]*",\).*/\1/p' "$SRCDIR/src/common/libsettings/settings_table.h" | sort >table
isnt "$(wc -l <table)" 0 "the table is read"
is "$(diff table readers)" "" "the table says who reads a setting"
finish
