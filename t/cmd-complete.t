#!/usr/bin/env bash
# Completion of the flux command for bash: what is offered for a line.
# shellcheck disable=SC2016,SC2154 # awk expands; set by run
. "$(dirname "$0")/lib.sh"
need_flux start submit getattr ping topo up dmesg module
PATH=$(dirname "$FLUX"):$PATH
# shellcheck disable=SC1091
. "$SRCDIR/etc/flux.bash-completion"

# The words offered behind the arguments, the last of which is being written, as bash splits them.
complete_line() {
    COMP_WORDS=(flux "$@")
    COMP_CWORD=$#
    COMPREPLY=()
    _flux 2>/dev/null
    out=" ${COMPREPLY[*]} "
}
# offers "LINE" WORD...: all of these are among them.  A line is split at blanks, "=" and ":" apart.
offers() {
    local line=$1 word words
    shift
    read -ra words <<<"$line"
    [[ -n $line && $line != *" " ]] || words+=("")
    complete_line "${words[@]}"
    for word in "$@"; do
        [[ $out == *" $word "* ]] || {
            fail "flux $line: offers $word (not: $out)"
            return
        }
    done
    pass "flux $line: offers $*"
}

COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
offers "" submit jobs
offers "up --" --quiet --json --help
offers "topo --" --json --help
offers "dmesg --" --json --help
offers "ping --" --count= --interval= --timeout= --quiet
offers "getattr --" --help
offers "module " load unload reload list stats
offers "module list --" --json
offers "module reload --" --force
offers "event sub --" --timeout=
offers "live " status history
offers "start --" --size= --hosts= --ssh
offers "kap --" --producers=
offers "stream " ls cat record replay tee transform stat format readers policy switch pause resume throttle rm
offers "stream record --" --append --policy= --count=
offers "stream cat --policy = " block drop-oldest latest
offers "batch --" --cc= --wait --queue=
offers "jobs -s " held failed running
if "$FLUX" sim --help >/dev/null 2>&1; then
    offers "sim " derive check network
    offers "sim --" --tree= --queue= --report= --figures=
    offers "sim log --select = first-fit,inter" first-fit,interference-free
    offers "sim log --queue = " fcfs easy conservative replan
    offers "sim derive --" --machine= --load= --mult=
    offers "sim check --" --trace= --links= --all
    offers "sim check s.csv --links = " apart shared
    offers "sim network --" --tree= --sizes= --flows= --workloads= --json
fi
offers "job " info attach cancel
offers "job info --" --json --help
offers "job attach --" --label-io --quiet
offers "job cancel --" --note= --user=
mapfile -t columns < <("$FLUX" jobs -o help | awk '{print $1}')
offers "jobs -o " "${columns[@]}"
offers "jobs --format = " "${columns[@]}"
offers "wreck ls -o " "${columns[@]}"
offers "jobs -o id,na" id,name
offers "jobs -o +canc" +canceled_by
offers "submit --queue = " default
offers "submit --dependency = after" after: afterany: afterok: afternotok:

hold 2
flux=$("$FLUX" submit sleep 1000)
offers "submit --dependency = afterok :" "$flux"
offers "submit --dependency = afterok : $flux" "$flux"
offers "submit --dependency afterok : " "$flux"
COMP_WORDBREAKS=$' \t\n'
offers "submit --dependency afterok:" "afterok:$flux"
COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
for what in info attach cancel; do
    offers "job $what " "$flux"
done
offers "job info $flux " jobspec R eventlog
offers "getattr r" rundir
offers "getattr si" size
offers "module reload k" kvs
offers "module stats k" kvs
offers "ping " 0 1 all kvs
offers "exec -r " 0 1 all
offers "cancel " "$flux"
offers "wreck attach " "$flux"
release
finish
