#!/usr/bin/env bash
# A broker inside the tree is killed while tasks below it exchange data by PMI: barriers are complete,
# names are published and found, and tasks are spawned once.
# shellcheck disable=SC2016,SC2154 # the tasks expand; set by hold and release
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/heal.sh
. "$SRCDIR/t/heal.sh"
need_flux start up wreckrun exec overlay getattr

# again RANK N: its N-th broker is up.
again() {
    "$FLUX" up --long | finds -E "^ *$1 +up +[0-9]+ +[0-9]+ +$2\$"
}
pid_of() {
    "$FLUX" getattr -r "$1" broker.pid
}
lines() {
    [ "$(wc -l <"$1")" -ge "$2" ]
}
# kills FILE N: kill the broker of rank 1 N times while FILE grows, and give its subtree back.
kills() {
    local i now
    for ((i = 0; i < $2; i++)); do
        now=$(wc -l <"$1")
        wait_until 30 lines "$1" $((now + 3)) || return
        kill -KILL "$(pid_of 1)"
        wait_until 30 again 1 $((++incarnation)) || return
        "$FLUX" overlay restore 1 >/dev/null
    done
}

cat >pmi.sh <<'EOF'
ask() { echo "$1" >&"$PMI_FD"; IFS= read -r answer <&"$PMI_FD"; }
field() { [[ " $answer " =~ \ $1=([^ ]*)\  ]] && echo "${BASH_REMATCH[1]}"; }
good() { [[ " $answer " == *" rc=0 "* ]] || { echo "wrong: $answer"; exit 1; }; }
ask "cmd=init pmi_version=1 pmi_subversion=1"
good
ask "cmd=get_my_kvsname"
kvs=$(field kvsname)
EOF
# Each round ends when the test has said so, as long as it does not have the end.
cat >rounds.sh <<'EOF'
. ./pmi.sh
for ((i = 0; ; i++)); do
    end=no
    [ -e stop ] && end=yes
    ask "cmd=put kvsname=$kvs key=k.$i.$PMI_RANK value=$PMI_RANK.$i.$end"
    good
    ask "cmd=barrier_in"
    for ((r = 0; r < PMI_SIZE; r++)); do
        ask "cmd=get kvsname=$kvs key=k.$i.$r"
        good
        value=$(field value)
        [[ $value == "$r.$i".* ]] || { echo "wrong: $value"; exit 1; }
        [[ $value == *.yes ]] && end=yes
    done
    echo "round $i"
    sleep 0.02
    [ $end = no ] || break
done
ask "cmd=finalize"
EOF
cat >names.sh <<'EOF'
. ./pmi.sh
ask "cmd=barrier_in"
for ((i = 0; ; i++)); do
    [ -e stop ] && break
    ask "cmd=publish_name service=$PMI_RANK.$i port=at.$PMI_RANK.$i"
    good
    ask "cmd=lookup_name service=$PMI_RANK.$i"
    good
    [ "$(field port)" = "at.$PMI_RANK.$i" ] || { echo "wrong: $answer"; exit 1; }
    ask "cmd=unpublish_name service=$PMI_RANK.$i"
    good
    echo "name $i"
    sleep 0.02
done
ask "cmd=finalize"
EOF
cat >spawns.sh <<'EOF'
. ./pmi.sh
ask "cmd=barrier_in"
for ((i = 0; ; i++)); do
    [ -e stop ] && break
    printf 'mcmd=spawn\nnprocs=1\nexecname=bash\ntotspawns=1\nspawnssofar=1\narg1=child.sh\narg2=%s.%s\nargcnt=2\npreput_num=0\ninfo_num=0\nendcmd\n' \
        "$PMI_RANK" "$i" >&"$PMI_FD"
    IFS= read -r answer <&"$PMI_FD"
    good
    echo "spawned $PMI_RANK.$i"
    sleep 0.05
done
ask "cmd=finalize"
EOF

cat >child.sh <<'EOF'
. ./pmi.sh
echo "child $1"
ask "cmd=finalize"
EOF

# Ranks 3 and 4 are below rank 1, and rank 7 is below rank 3.  A rank that is lost too often is held
# off, so there is a session for each kind.
begin_session() {
    hold 8 --topology=kary:2 --restart --set=overlay.settle=0
    incarnation=1
}
for kind in rounds names spawns; do
    begin_session
    rm -f stop
    "$FLUX" wreckrun --ranks=3,4,5,7 -N4 -n4 --overcommit bash "$kind.sh" >"$kind.out" 2>"$kind.err" &
    job=$!
    ok "$kind go on while the broker above dies" kills "$kind.out" 2
    touch stop
    ok "the job ends well" wait "$job"
    is "$(cat "$kind.err")" "" "without complaint"
    is "$(grep -c wrong "$kind.out")" 0 "and with what was right"
    release
    is "$status" 0 "the session ends well"
done
is "$(sed -n 's/^child //p' spawns.out | sort)" "$(sed -n 's/^spawned //p' spawns.out | sort)" "each task is spawned once"
begin_session
for ((n = 0; n < 2; n++)); do
    "$FLUX" wreckrun --ranks=3,4,5,7 -N4 -n4 --overcommit bash rounds.sh >"first.$n" 2>&1 &
    job=$!
    kill -KILL "$(pid_of 1)"
    ok "a job that begins while the broker dies ends well" wait "$job"
    wait_until 30 again 1 $((++incarnation))
    "$FLUX" overlay restore 1 >/dev/null
done
release
is "$status" 0 "the session ends well"
finish
