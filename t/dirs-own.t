#!/usr/bin/env bash
# Directories of sessions and jobs: a broker or launcher takes over and removes what one of its kind
# has left on this host, and nothing else, whatever its name.
# shellcheck disable=SC2016,SC2154 # the jobs expand; set by run
. "$(dirname "$0")/lib.sh"
need_flux start submit exec queue

boot=$(head -c 8 /proc/sys/kernel/random/boot_id)
host=$(uname -n)

# --- RUNDIR/RANK ---
mkdir -p rd/0 rd/1/deep
chmod 700 rd rd/?
echo precious >rd/1/deep/file
echo precious >rd/0/file
for size in 1 2; do
    fails "a rundir with somebody's directory 0 is refused, $size brokers" \
        "$FLUX" start --size="$size" --set=modules=log --rundir="$PWD/rd" true
    like "$err" "$PWD/rd/0 contains files that no broker created" "with a sentence that names it"
done
is "$(cat rd/0/file rd/1/deep/file | tr '\n' ' ')" "precious precious " "nothing was removed"
rm -r rd/0
fails "likewise directory 1" "$FLUX" start --size=2 --set=modules=log --rundir="$PWD/rd" true
is "$(cat rd/1/deep/file)" precious "nothing was removed"
rm -rf rd

mkdir -p rd/0
chmod 700 rd rd/0
printf '%s %s' 00000000 elsewhere >rd/0/broker
: >rd/0/local
fails "a directory of a broker on another host is refused" \
    "$FLUX" start --set=modules=log --rundir="$PWD/rd" true
like "$err" 'rd/0 was created by a broker on host elsewhere' "with a sentence that names the host"
ok "and left alone" test -e rd/0/local
rm -f rd/0/local
printf '%s %s' 00000000 "$host" >rd/0/broker
ok "one from before this host was restarted is taken over" \
    "$FLUX" start --set=modules=log --rundir="$PWD/rd" true
ok "and removed at the end" test ! -e rd/0
rm -rf rd

# Another broker of the host was faster with its link than rank 0 with its mark.
mkdir -p rd/0
chmod 700 rd rd/0
ln -s 1 rd/0/inventory-0123456789abcdef
ok "a directory with the link of another rank is taken over" \
    "$FLUX" start --set=modules=log --rundir="$PWD/rd" true
ok "and removed at the end" test ! -e rd/0
rm -rf rd

# Killed after its mark was made and before it was written.
mkdir -p rd/0
chmod 700 rd rd/0
: >rd/0/broker
ok "a directory with an empty mark alone is taken over" \
    "$FLUX" start --set=modules=log --rundir="$PWD/rd" true
ok "and removed at the end" test ! -e rd/0
mkdir -p rd/0
chmod 700 rd/0
: >rd/0/broker
echo precious >rd/0/file
fails "one with an empty mark and other files is refused" \
    "$FLUX" start --set=modules=log --rundir="$PWD/rd" true
is "$(cat rd/0/file)" precious "nothing was removed"
rm -rf rd

# --- the launcher's ---
mkdir base
base=$PWD/base
prefix=flux-$(id -u)
others=("$prefix-backup" "$prefix-0123456789abcdef" "$prefix-$boot-notes" "$prefix-00000000-0123456789abcdef")
stale=$base/$prefix-$boot-0123456789abcdef
for name in "${others[@]}"; do
    mkdir "$base/$name"
    echo precious >"$base/$name/file"
done
mkdir "$stale"
: >"$stale/file"
hold 1 --set=wrexec.tmpdir="$base"
ok "a job" "$FLUX" submit --wait true
ok "what a launcher of this host left is removed" test ! -e "$stale"
for name in "${others[@]}"; do
    is "$(cat "$base/$name/file")" precious "$name is left alone"
    rm -r "${base:?}/$name"
done

# A launcher is killed while a task makes files: its directory goes when the task is gone.
launcher() {
    "$FLUX" exec -r 0 sh -c 'echo $PPID'
}
alone() {
    [ "$(find "$base" -mindepth 1 -maxdepth 1 | wc -l)" -le 1 ]
}
for i in 1 2 3 4 5; do
    "$FLUX" submit --quiet bash -c 'echo "$FLUX_JOB_TMPDIR" >job.dir
        while :; do mkdir -p "$FLUX_JOB_TMPDIR/$RANDOM/$RANDOM"; done'
    wait_until 30 test -s job.dir
    old=$(dirname "$(cat job.dir)")
    rm -f job.dir
    kill -KILL "$(launcher)"
    wait_until 30 "$FLUX" submit --wait true
    ok "kill $i: the directory of the launcher is gone" wait_until 30 test ! -e "$old"
    ok "and there is no other" wait_until 10 alone
done
release
is "$status" 0 "the session ends well"
is "$(find "$base" -mindepth 1 -maxdepth 1 | wc -l)" 0 "nothing is left"

finish
