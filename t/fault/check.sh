# shellcheck shell=bash
# What must be true of what the load was told (see load.sh), whatever happened to the session.  Each
# prints a line for each violation, and nothing when there is none; t/fault/checks.t plants each of them.
#
#     jobs_violations ACCEPTED RUNS LISTED STARTS   of jobs
#     losses_violations REASONS GONE              of jobs that have lost nodes
#     events_violations FILE [LAST [none]]        of what one subscriber printed
#     barriers_violations MET EXCUSES             of barriers
#     rings_violations RINGS                      of programs of MPI
#     outputs_violations FILE                     of the output of jobs
#     failures_violations ACCEPTED LISTED CAUSES  of jobs that failed
#     wreckruns_violations FILE EXCUSES           of those that were run with flux wreckrun, and failed
#     zombies_violations ZOMBIES                  of brokers that were counted as lost, and went on
#     refusals_violations FILE                    of what commands said that failed
#
# Lines of ACCEPTED: "ID TASKS KIND" for each id that a client was told; KIND is `endless` for a
# job that cannot complete by itself, `survive` for one that goes on when it loses a node, `fails` for
# one whose task fails by itself.  Of
# RUNS: "ID TASK" by each task when it begins.  Of LISTED: "ID RESULT TASKS" by `flux jobs -a` at
# the end.  Of STARTS: "ID NUMBER", how often that job was started by its event log (default:
# once).  Of REASONS: "ID NOTE" by the same.  Of GONE: a rank whose broker was ended or cut off, or its wrexec.
# Of MET: "NAME TASKS ENTERED LEFT CODE RANK CHOSEN" by each participant of a barrier; RANK was up at
# CHOSEN.  Of EXCUSES: "BEGIN END RANK" for a fault in which that rank was lost or let no client in, or `all`
# when the session ended or its barriers were reloaded, and `jobs` when jobs may fail.  Of RINGS: "NUMBER says
# LINE" for what a program printed, "NUMBER exit CODE BEGIN END", and then "NUMBER err LINE" for what its client
# said; the same for jobs of two tasks that count, with `told` as the code when the event log says that output
# was lost for want of room.
# Of CAUSES: "ID", for an exception in the event log of a job that failed.
# Of ZOMBIES: "RANK CODE BEFORE AFTER LEFT TOLD KEY",
# where CODE is the exit code of the broker ("-": it has none); BEFORE and AFTER are the newest values of
# its task in the store when the rank was counted as lost, and at the end; LEFT processes of the broker are still
# there; and TOLD is the exit code of a client that asked it then to write KEY ("none": the store has none).

jobs_violations() {
    awk '
        FILENAME == ARGV[1] {
            if ($1 in accepted)
                print "id " $1 " was given to two jobs"
            accepted[$1] = $3
            next
        }
        FILENAME == ARGV[2] {
            if ($0 !~ /^[0-9]+ [0-9]+$/) {
                print "a task wrote \"" $0 "\""
                next
            }
            if (++ran[$1, $2] == 1)
                tasks[$1]++
            runs[$1]++
            next
        }
        FILENAME == ARGV[4] {
            starts[$1] = $2
            next
        }
        {
            if (++listed[$1] == 2)
                print "job " $1 ": is on record twice"
            if ($2 !~ /^(completed|failed|canceled|timeout)$/)
                print "job " $1 ": has not ended: \"" $2 "\""
            # A task may be lost with its node before it can say that it runs.
            if ($2 == "completed" && accepted[$1] != "survive" && tasks[$1] != $3)
                print "job " $1 ": completed, and " tasks[$1] + 0 " of " $3 " tasks ran"
            if ($2 == "completed" && accepted[$1] == "endless")
                print "job " $1 ": completed, which it cannot by itself"
        }
        END {
            for (id in accepted)
                if (!(id in listed))
                    print "job " id ": was accepted, and is not on record"
            for (id in runs)
                if (!(id in listed))
                    print "job " id ": ran, and is not on record"
            for (one in ran) {
                split(one, part, SUBSEP)
                most = part[1] in starts ? starts[part[1]] : 1
                if (ran[one] > most)
                    print "job " part[1] ": task " part[2] " ran " ran[one] " times in " \
                        most (most == 1 ? " attempt" : " attempts")
            }
        }' "$1" "$2" "$3" "$4"
}

# A job loses tasks with the broker of their own node only, and not with one above it.
losses_violations() {
    awk '
        FILENAME == ARGV[1] { gone[$1] = 1; next }
        match($0, /lost (the tasks on )?ranks? [0-9,-]+/) {
            ranks = substr($0, RSTART, RLENGTH)
            sub(/.* /, "", ranks)
            n = split(ranks, part, ",")
            for (i = 1; i <= n; i++) {
                split(part[i], end, "-")
                for (r = end[1] + 0; r <= (end[2] == "" ? end[1] : end[2]) + 0; r++)
                    if (!(r in gone))
                        print "job " $1 ": lost its tasks on rank " r ", whose broker lives"
            }
        }' "$2" "$1"
}

# Lines of `flux event sub --json`.  Terms do not decrease; within one the numbers of events follow
# each other, or are named as lost, from the first that was seen on; with LAST, up to at least that
# one; with `none`, no event may be lost: its broker was never away.  The last line of a client that was killed may be a part of one.
events_violations() {
    awk -v last="${2:-0}" -v none="${3-}" -v file="${1##*/}" '
        function field(name) {
            return match($0, "\"" name "\":[0-9]+") ? substr($0, RSTART + length(name) + 3) + 0 : -1
        }
        { line[NR] = $0 }
        END {
            for (i = 1; i <= NR; i++) {
                $0 = line[i]
                if (!/^[{]"seq":[0-9]+,"term":[0-9]+,"topic":"[^"]+",.*[}]$/) {
                    if (i < NR || last)
                        print file ": line " i " is \"" $0 "\""
                    continue
                }
                from = to = field("seq")
                now = field("term")
                if (over) {
                    print file ": event " from " after the last one"
                    break
                }
                if (now < term || now < 1)
                    print file ": event " from " of term " now " follows one of term " term + 0
                else if (now > term)
                    next_one = 0
                term = now
                if (index($0, "\"topic\":\"event.lost\"")) {
                    from = field("from")
                    to = field("to")
                    if (to == 0) {
                        over = 1
                        continue
                    }
                }
                if (next_one && from != next_one)
                    print file ": event " from " follows " next_one - 1
                if (to < from)
                    print file ": events " from " to " to " are told as lost"
                else if (none && index($0, "\"topic\":\"event.lost\""))
                    lost += to - from + 1
                next_one = to + 1
            }
            if (last && (over || next_one <= last))
                print file ": ends before event " last
            if (lost)
                print file ": " lost " events are lost"
        }' "$1"
}

# Whoever was let through left after the last of TASKS participants had entered.  When all TASKS were there,
# nobody fails, unless the broker of one of them was lost meanwhile, or a client was killed: not for
# others who die, nor for a broker between them.
barriers_violations() {
    awk '
        FILENAME == ARGV[1] {
            begins[++excuses] = $1
            ends[excuses] = $2
            excused[excuses] = $3
            next
        }
        {
            tasks[$1] = $2
            if (!($1 in chosen) || $7 < chosen[$1])
                chosen[$1] = $7
            if ($4 > end[$1])
                end[$1] = $4
            ranks[$1] = ranks[$1] " " $6
            failed[$1] += $5 != 0
            if ($5 == 137)
                killed[$1] = 1
            entered[$1]++
            if ($3 > last[$1])
                last[$1] = $3
            if ($5 == 0 && (!($1 in first) || $4 < first[$1]))
                first[$1] = $4
        }
        END {
            for (name in first) {
                if (entered[name] != tasks[name])
                    print "barrier " name ": somebody left, and " entered[name] " of " tasks[name] " entered"
                else if (first[name] < last[name])
                    print "barrier " name ": somebody left before all had entered"
            }
            for (name in tasks) {
                if (!failed[name] || killed[name] || entered[name] != tasks[name])
                    continue
                why = 0
                for (i = 1; i <= excuses; i++)
                    if (begins[i] <= end[name] && ends[i] >= chosen[name] &&
                        (excused[i] == "all" || index(ranks[name] " ", " " excused[i] " ")))
                        why = 1
                if (!why)
                    print "barrier " name ": failed for " failed[name] " of " tasks[name] \
                        ", and the brokers of ranks" ranks[name] " live"
            }
        }' "$2" "$1"
}

# A program that succeeded has printed that both ranks were right; none says that one was wrong.
rings_violations() {
    awk '
        $2 == "says" && /says rank [01] of 2 on .*: right$/ { right[$1]++ }
        $2 == "says" && /: got .*, want / { print "program " $0 }
        $2 == "exit" && $3 == 0 && right[$1] != 2 {
            print "program " $1 ": succeeded, and " right[$1] + 0 " of 2 ranks were right"
        }' "$1"
}

# It ends what it ran, writes nothing, and fails, so that it is started again.
zombies_violations() {
    awk '
        function says(text) { print "rank " $1 ", after it was counted as lost: " text }
        $2 == "-" { says("its broker goes on") }
        $2 != "-" && $2 != 1 { says("its broker ended with exit code " $2) }
        $4 != $3 { says("its task wrote " $4 " after " $3) }
        $5 != 0 { says($5 " of its processes go on") }
        $6 == 0 { says("it answered that a commit was done") }
        $7 != "none" { says("a commit was done") }' "$1"
}

# Each of two tasks counts from 0, and says "end" after that.  No line is lost or doubled; one that succeeded has
# said all.  The last line of a client that was killed may be a part of one.
outputs_violations() {
    awk '
        function judge(id, text, task, what) {
            if (text !~ /^[01]: ([0-9]+|end)$/) {
                print "job " id ": printed \"" text "\""
                return
            }
            task = substr(text, 1, 1)
            what = substr(text, 4)
            if (ended[id, task])
                print "job " id ": task " task " printed \"" what "\" after its end"
            else if (what == "end")
                ended[id, task] = 1
            else if (what != next_one[id, task] + 0)
                print "job " id ": task " task " printed " what " instead of " next_one[id, task] + 0
            next_one[id, task] = what + 1
        }
        $2 == "says" {
            if ($1 in held)
                judge($1, held[$1])
            held[$1] = substr($0, length($1) + 7)
        }
        $2 == "exit" {
            if ($1 in held && $3 != 137)
                judge($1, held[$1])
            if ($3 == 0 && ended[$1, 0] + ended[$1, 1] != 2)
                print "job " $1 ": succeeded, and " ended[$1, 0] + ended[$1, 1] " of 2 tasks printed all"
        }' "$1"
}

# A job fails when its task does, or for a cause that is on record.
failures_violations() {
    awk '
        FILENAME == ARGV[1] { kind[$1] = $3; next }
        FILENAME == ARGV[2] { cause[$1] = 1; next }
        $2 == "failed" && $1 in kind && kind[$1] != "fails" && !($1 in cause) {
            print "job " $1 ": failed, and there is no cause on record"
        }' "$1" "$3" "$2"
}

# One fails in a fault only, or when the client is killed.
wreckruns_violations() {
    awk '
        FILENAME == ARGV[1] { begins[++excuses] = $1; ends[excuses] = $2; next }
        $2 == "exit" {
            blamed = $3 != 0 && $3 != 137
            for (i = 1; i <= excuses; i++)
                if (begins[i] <= $5 && ends[i] >= $4)
                    blamed = 0
            if (blamed)
                print "program " $1 ": failed with code " $3
        }
        $2 == "err" && blamed' "$2" "$1"
}

# An error is a sentence of the command it comes from, and no crash.
refusals_violations() {
    grep -vE '^(flux|flux [a-z]+( [a-z]+)?): .' "$1" | grep -v '^$' | head -n 10
}
