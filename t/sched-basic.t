#!/usr/bin/env bash
# The scheduler's module, with a program in the place of the job module: the protocol of the two.
# shellcheck disable=SC2154 # set by run
# shellcheck source=t/lib.sh
. "$(dirname "$0")/lib.sh"
need_flux start module resource
# shellcheck source=t/sched/lib.sh
. "$SRCDIR/t/sched/lib.sh"

cat >res.lua <<'END'
resource { nodes = "n[0-3]", cores = 4, emulate = true, pools = { power = 10 } }
END
hold 1 --set=resrc.config="$PWD/res.lua"
"$FLUX" module unload --force job >/dev/null

ask sched.status '{}'
like "$out" '"queue":"easy","node":"first-fit","attached":false' "it has its defaults"
fails "a feed of nobody is refused" "$PEER" ask sched.feed '{"generation":1}'
like "$err" "no job module is attached" "with a sentence"
fails "to attach is a streaming request" "$PEER" ask sched.attach '{}'

ok "a job module attaches" peer_start "{}"
R1='{"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0-1"}}],"nodelist":["n0"],"starttime":0,"expiration":0}}'
feed '{"running":[{"id":1,"R":'"$R1"'}],"add":[{"id":2,"urgency":16,"t_submit":1,"uid":0,"req":{"nnodes":1,"cores":2}}]}'
ask sched.status '{}'
like "$out" '"queued":1' "a job is in the queue"
ok "nothing starts before it is said" never '"alloc"'
ask sched.why '{"ids":[2,99]}'
is "$out" '{"why":[[2,null,"waits: no jobs are started at present"]]}' "the reason is told"
feed '{"enabled":true}'
ok "then it does, beside what runs" seen '"id":2,"R":.*"rank":"0","children":\{"core":"2-3"'
feed '{"running":[{"id":3,"R":'"$R1"'}]}'
run "$FLUX" dmesg
like "$out" "job 3 cannot have that of node 0" "two that run on the same core are told apart"

feed '{"add":[{"id":4,"urgency":16,"t_submit":1,"uid":0,"req":{"nnodes":4,"exclusive":true,"duration":60}},{"id":5,"urgency":0,"t_submit":1,"uid":0,"req":{"nnodes":1}},{"id":6,"urgency":16,"t_submit":1,"uid":0,"req":{"nnodes":5}},{"id":7,"urgency":16,"t_submit":1,"uid":0,"req":{"nnodes":4,"exclusive":true,"duration":60}}]}'
ok "what can never run is denied" seen '"deny":\[\{"id":6,"note":"needs 5 nodes; there are 4"\}\]'
ask sched.why '{"ids":[4,5]}'
is "$out" '{"why":[[4,null,"waits for 4 whole nodes: 3 are free; job 2 holds the rest and has no time limit"],[5,null,"is held"]]}' \
    "others are told why they wait"
feed '{"free":[1,2,3],"remove":[5,77],"urgency":[[7,20],[78,1]]}'
ok "what comes back goes to the most urgent" seen '"id":7,"R":.*"rank":"0-3"'
ask sched.resources '{}'
like "$out" '"allocated":\{.*"rank":"0-3".*"free":\{.*"power":10' "what is allocated can be asked for"
ask sched.why '{"ids":[4]}'
like "$out" '\[4,[0-9.]+,"waits for 4 whole nodes: 0 are free; job 7 holds the rest until' \
    "... and when the next one will start"

feed '{"remove":[4],"bad":1}'
ok "a feed that is malformed is refused" seen '^refused: .*bad'
feed '{"remove":[4],"add":[{"id":8,"urgency":16,"t_submit":1,"uid":0,"req":{"nnodes":-1}}]}'
ok "... as a whole" seen '^refused: .*nnodes'
ask sched.why '{"ids":[4]}'
like "$out" '\[4,' "... so nothing of it was done"
feed '{"generation":12,"remove":[4]}'
ask sched.why '{"ids":[4]}'
like "$out" '\[4,' "a feed of another generation is passed over"
fails "somebody else cannot feed" "$PEER" ask sched.feed '{"generation":1}'
like "$err" "another job module is attached" "... which is said"

"$FLUX" resource drain 0 "for a test" >/dev/null
feed '{"free":[7],"add":[{"id":9,"urgency":31,"t_submit":1,"uid":0,"req":{"nnodes":1,"pools":[["power",7]]}}]}'
ok "nothing goes to a node that is drained" seen '"id":9,"R":.*"rank":"1"'
ask sched.why '{"ids":[4]}'
like "$out" "only 3 such nodes are up; rank 0 is drained" "... and who needs it waits"
told_of_drain() { "$FLUX" dmesg | finds "job 4 waits for 4 whole nodes: only 3 such nodes are up; rank 0 is drained"; }
ok "... and the log tells it" wait_until 10 told_of_drain
"$FLUX" resource undrain 0 >/dev/null
feed '{"free":[9]}'
ok "until it is undrained" seen '"id":4,"R":.*"rank":"0-3"'

: >peer.out
ok "it can be reloaded" "$FLUX" module reload sched
ok "... and asks for everything again, on the same stream" seen '^attached'
_fed=0
feed '{"enabled":true,"add":[{"id":10,"urgency":16,"t_submit":1,"uid":0,"req":{"nslots":2,"cores":3}}]}'
ok "... and starts jobs" seen '"id":10,"R":.*"rank":"0-1","children":\{"core":"0-2"'

ask sched.policy '{"queue":"fcfs","node":"spread"}'
is "$out" '{"queue":"fcfs","node":"spread"}' "policies can be changed"
feed '{"add":[{"id":11,"urgency":16,"t_submit":1,"uid":0,"req":{"nslots":1,"cores":1}}]}'
ok "... which shows" seen '"id":11,"R":.*"rank":"2"'
fails "one that is not there cannot" "$PEER" ask sched.policy '{"queue":"none"}'
like "$err" "no policy none \(built in: fcfs, easy, " "... which is said"
fails "... nor one that is for something else" "$PEER" ask sched.policy '{"queue":"spread"}'

peer_end
ask sched.status '{}'
like "$out" '"attached":false,"enabled":false,.*"queued":0,.*"running":0' \
    "when the job module is gone its jobs are forgotten"
peer_start '{"estimates":2}'
feed '{"enabled":true,"add":[{"id":20,"urgency":16,"t_submit":1,"uid":0,"req":{"nnodes":4,"exclusive":true,"duration":60}},{"id":21,"urgency":16,"t_submit":1,"uid":0,"req":{"nnodes":1}}]}'
ok "estimates are told when they were asked for" seen '"estimate":\[\[21,[0-9.]+,"waits for 1 node'
peer_end
"$FLUX" module unload sched >/dev/null
fails "an argument that it does not know is refused" "$FLUX" module load sched wrong=1
like "$err" "has no setting 'wrong'" "... which is said"
release
is "$status" 0 "the session ends well"
finish
