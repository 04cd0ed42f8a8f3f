#!/usr/bin/env bash
# Groups whose members divide the records of each step: each record at one member, also of several writers and by TCP;
# those of members that are killed at another one; the records of one key in order; and flux stream cat as a member.
# shellcheck disable=SC2154 # set by run
. "$(dirname "$0")/lib.sh"
# shellcheck source=t/stream/lib.sh
. "$SRCDIR/t/stream/lib.sh"
PEER=$BUILDDIR/t/stream/part

hold 2 --set=modules=log,barrier,stream

members() { # FIRST LAST NAME ARGUMENT...
    local k first=$1 last=$2 name=$3
    shift 3
    for ((k = first; k <= last; k++)); do
        [ $((k % 2)) = 0 ] || export FLUX_STREAM_TRANSPORT=tcp
        peer r$k $((k % 2)) read "$name" "$name.log" r$k by=record "$@"
        unset FLUX_STREAM_TRANSPORT
    done
}
# What is wrong with the records of STEPS steps of SIZE writers: one that nobody has done; one that was done twice, or
# begun by two members of which none has died; and, if they have a KEY, one that was begun while a member that lives had
# one of the same id, or after one of a later step.
wrong_records() { # LOG STEPS SIZE KEY
    awk -v steps="$2" -v size="$3" -v key="$4" '
        NR == FNR {if ($1 == "z") lives[$2] = 1; next}
        $1 == "z" {next}
        {for (i = 4; i <= NF; i++) {
            split($i, part, ".")
            record = $3 "/" part[1] "/" part[2]
            id = part[3]
            if ($1 == "e") {
                if (done[record]++) print "record " record " was done twice"
                if (latest[id] < $3) latest[id] = $3
                if (--has[id, $2] == 0 && owner[id] == $2) owner[id] = ""
                continue
            }
            if (lives[$2] && begun[record]++) print "record " record " was begun twice"
            if (key == "") continue
            if (latest[id] > $3) print "record " record " of id " id " comes after step " latest[id]
            if (owner[id] != "" && owner[id] != $2 && lives[owner[id]])
                print "id " id " is at " owner[id] " and " $2
            owner[id] = $2
            has[id, $2]++
        }}
        END {for (s = 0; s < steps; s++) for (w = 0; w < size; w++) for (i = 0; i < 40; i++)
                if (!done[s "/" w "/" i]) print "record " s "/" w "/" i " is missing"}' "$1" "$1" | head -n 5
}
# How many members have done records.
at_work() {
    awk '$1 == "e" && NF > 3 {did[$2] = 1} END {for (m in did) n++; print n + 0}' "$1"
}

# One writer, and then three: no key.
for size in 1 3; do
    writers plain$size 30 $size 3
    members 0 2 plain$size
    all_open r0 r1 r2
    for ((k = 0; k < size; k++)); do
        opened w$k
        go w$k
    done
    for ((k = 0; k < size; k++)); do
        wait_all w$k
    done
    wait_all r0 r1 r2
    is "$(wrong_records plain$size.log 30 $size "")" "" "each record of $size writers is at one member"
    is "$(at_work plain$size.log)" 3 "and all members have some"
    is "$(cat w[0-2].out r[0-2].out | sort -u)" open "nobody has failed"
done

# Writers that leave, and have given what waits to their members.
writers left 30 2 3 leave
members 0 2 left
all_open w0 w1 r0 r1 r2
go w0
go w1
wait_all w0 w1 r0 r1 r2
is "$(wrong_records left.log 30 2 "")" "" "each record of writers that have left is at one member"
is "$(cat w[01].out r[0-2].out | sort -u)" open "and nobody has failed"

# Members that are killed with records that they have begun, in order of a key: of a field in a field, and of a text.
for key in at.id tag; do
    for size in 1 2; do
        name=$key$size
        writers "$name" 40 $size 4
        members 0 0 "$name" key=$key crash=1
        members 1 1 "$name" key=$key crash=5
        members 2 3 "$name" key=$key
        all_open r0 r1 r2 r3 w0
        for ((k = 0; k < size; k++)); do
            opened w$k
            go w$k
        done
        wait_all w0 r0 r1 r2 r3
        [ $size = 1 ] || wait_all w1
        is "$(wrong_records "$name.log" 40 $size $key)" "" "records of members that were killed are done by others, in order of $key: $size"
        is "$(cat w0.out r[23].out | sort -u)" open "nobody else has failed: $key, $size"
        is "$(grep '^z r0' "$name.log")" "" "and one was killed: $key, $size"
    done
done

# What is planted is noticed.
sed '0,/^e/{/^e/d}' plain1.log >missing.log
like "$(wrong_records missing.log 30 1 "")" "is missing" "a record that is missing is noticed"
cat plain1.log plain1.log >twice.log
like "$(wrong_records twice.log 30 1 "")" "was begun twice" "one that is done twice is noticed"
awk '{if ($1 ~ /[be]/) $3 = 39 - $3; print}' at.id1.log >falls.log
like "$(wrong_records falls.log 40 1 key)" "comes after step" "another order is noticed"

# flux stream cat, and what is refused.
writers cat 2 1 1
opened w0
"$FLUX" stream cat --group=g --by=record --var=atoms --json cat >cat.out 2>&1 &
cat=$!
read_by_group() {
    "$FLUX" stream readers cat | grep -q group:g
}
wait_until 20 read_by_group
run "$FLUX" stream cat --group=g cat
is "$status" 1 "a member that shares by step is refused"
like "$err" "does not share the work by step: all members share it in the same way" "with a sentence"
go w0
wait_all w0
wait $cat
is "$(grep -o '"tag"' cat.out | wc -l)" 80 "flux stream cat --by=record prints the records of its own"
run "$FLUX" stream cat --group=g --by=record --stay --var=atoms cat
is "$status" 2 "a member that shares by record does not stay"
like "$err" "a restarted writer does not know which records are done; use --by=step" "with the reason"
run "$FLUX" stream cat --by=record --var=atoms cat
is "$status" 2 "--by is for members of groups"
run "$FLUX" stream cat --group=g --by=atom cat
is "$status" 2 "by what members share is step or record"
like "$err" "use step or record" "with a sentence"
run "$FLUX" stream cat --group=g --by=record cat
is "$status" 2 "--by=record needs a variable"
release
is "$status" 0 "the session ends well"
finish
