/* All settings, sorted by name (check_settings.c verifies that).
 *
 *    ROW(name, reader, type, default, min, max, words, what)    ANY: min, max and words
 *
 * Included by settings.c.
 */
#define ANY 0, HUGE_VAL, NULL
ROW("barrier.grace", "barrier", DURATION, "1m", 1e-9, 999999, NULL,
    "after a broker is lost, time for a barrier without announced ranks to complete")
ROW("boot.host", NULL, TEXT, NULL, ANY,
    "name of this host in a session by configuration file; default: its host name")
ROW("boot.hosts", NULL, COUNT, NULL, 1, 4294967295., NULL,
    "ranks that have a host when the session starts (flux start --hosts with a larger --size)")
ROW("boot.method", NULL, WORD, NULL, 0, 0, "pmi,config,single",
    "how brokers find each other; default: depends on the environment")
ROW("boot.rank", NULL, COUNT, NULL, 0, 4294967294., NULL,
    "rank of this broker; default: determined by its host name")
ROW("boot.timeout", NULL, DURATION, "0", ANY,
    "time after which the session starts with quorum ranks, or with any; 0: it waits for all")
ROW("broker.pid", NULL, FIXED, NULL, ANY, "process id of the broker")
ROW("config.file", NULL, TEXT, NULL, ANY, "configuration file (flux start --config)")
ROW("content.cache-limit", "kvs", SIZE, "16M", ANY,
    "memory that the store of a broker may use for its cache")
ROW("content.expire", "kvs", DURATION, "5m", ANY,
    "how long a broker keeps objects that are not used")
ROW("content.hash", "kvs", TEXT, NULL, ANY, "hash function of the store: sha1, sha256, blake2b...")
ROW("curve", NULL, BOOL, "yes", 0, 0, NULL, "brokers authenticate each other and encrypt")
ROW("event.backlog", NULL, SIZE, "64M", ANY, "events kept for a child that does not keep up")
ROW("event.buffer", NULL, SIZE, "4M", ANY, "events kept for children that missed some")
ROW("hb.period", "hb", DURATION, "2s", 0.001, 1e9, NULL, "time between heartbeats")
ROW("heal.timeout", NULL, DURATION, "5s", ANY,
    "how long those below a lost broker may take to connect above it; 0: they are lost with it")
ROW("inflight.max", NULL, COUNT, "65536", 1, 4294967295., NULL,
    "requests that a client may have outstanding")
ROW("instance-level", NULL, FIXED, NULL, ANY, "number of sessions that enclose this one")
ROW("job.client-grace", "job", DURATION, "1m", ANY,
    "time that a job waits for its client when the client's broker was lost")
ROW("job.grace", "job", DURATION, "5s", ANY, "time from SIGTERM to SIGKILL when a job has to end")
ROW("job.max-queued", "job", COUNT, "1000000", ANY, "maximum number of waiting jobs")
ROW("job.purge-age", "job", AGE, "never", ANY, "time after which ended jobs are removed")
ROW("job.purge-count", "job", COUNT, "100000", ANY, "number of ended jobs that are kept")
ROW("jobid", NULL, FIXED, NULL, ANY, "the job as which this session runs")
ROW("join.timeout", NULL, DURATION, "60s", ANY, "time after which a broker gives up joining")
ROW("kvs.checkpoint-bytes", "kvs", SIZE, "16M", ANY,
    "size of the journal at which a checkpoint is written")
ROW("kvs.checkpoint-interval", "kvs", DURATION, "10s", 1e-9, 999999, NULL,
    "time from a change to a checkpoint")
ROW("kvs.fence-grace", "kvs", DURATION, "1m", 1e-9, 999999, NULL,
    "after a broker is lost, time for a fence whose calls name no ranks to complete")
ROW("kvs.sync", "kvs", WORD, "commit", 0, 0, "commit,interval",
    "when committed changes must be on disk")
ROW("kvs.sync-interval", "kvs", DURATION, "1s", 1e-9, 999999, NULL,
    "time between writes to disk with kvs.sync=interval")
ROW("leave.grace", NULL, DURATION, "5s", ANY,
    "time that jobs have on a node whose broker leaves with leave.jobs=end")
ROW("leave.jobs", NULL, WORD, "end", 0, 0, "wait,end",
    "jobs on a node whose broker leaves: wait for them, or end them after leave.grace")
ROW("link.queue", NULL, COUNT, "1000", 1, 4294967295., NULL,
    "messages that may wait for one neighbor")
ROW("link.transport", NULL, TEXT, "auto", ANY,
    "how brokers are connected: auto, unix, mixed or zmq; auto: the first that can connect them")
ROW("live.lost", NULL, DURATION, "3s", 0, 1e6, NULL,
    "silence after which a neighbor is lost; 0: never")
ROW("live.patience", NULL, DURATION, "60s", 0.1, 1e6, NULL,
    "silence after which a neighbor that joins or leaves, or rank 0, is lost; at least live.lost")
ROW("live.probe", NULL, DURATION, "1s", 0.01, 1e6, NULL,
    "time in which a neighbor gets two signs of life; by default at most a third of live.lost")
ROW("live.slow", NULL, DURATION, "2s", 0.02, 1e6, NULL,
    "silence after which a neighbor is slow; by default at most two thirds of live.lost")
ROW("log.forward-level", "log", WORD, "warning", 0, 0,
    "emerg,alert,crit,err,error,warning,warn,notice,info,debug,none",
    "lowest severity that is forwarded to rank 0")
ROW("log.ring-bytes", "log", SIZE, "1M", 4096, 1073741824., NULL, "memory for the log of a broker")
ROW("log.ring-size", "log", COUNT, "1024", 1, 1048576, NULL, "entries in the log of a broker")
ROW("module.place", NULL, TEXT, "declared", ANY,
    "where modules run: declared, loop, thread, or a list of NAME:loop and NAME:thread")
ROW("module.stop-timeout", NULL, DURATION, "30s", ANY,
    "time for modules to end, after which the broker ends without them")
ROW("module.turn-max", NULL, DURATION, "10ms", ANY,
    "time of a module for one message after which it is logged; 0: never")
ROW("modules", NULL, TEXT, NULL, ANY,
    "comma-separated modules that each broker loads; default: all")
ROW("orphan.timeout", NULL, DURATION, "30s", ANY,
    "how long a broker runs without its parent; 1s in a job")
ROW("overlay.fanout-max", NULL, COUNT, "0", 0, 4294967295., NULL,
    "children of a broker beyond which it gives those of lost brokers to others; 0: no limit")
ROW("overlay.settle", NULL, DURATION, "30s", ANY,
    "time that a broker has to stay before it gets its subtree back; 0: by request only")
ROW("parent-uri", NULL, FIXED, NULL, ANY, "address of the enclosing session")
ROW("quorum", NULL, COUNT, NULL, 1, 4294967295., NULL,
    "ranks that are needed to start when others are lost, or absent; default: all")
ROW("rank", NULL, FIXED, NULL, ANY, "rank of the broker")
ROW("resource.topology", "resrc", TEXT, NULL, ANY,
    "switches: P,L,K (pods, leaves, nodes) or a topology.conf of Slurm; default: none")
ROW("resrc.config", "resrc", TEXT, NULL, ANY,
    "file that defines the resources; default: they are detected")
ROW("rundir", NULL, TEXT, NULL, ANY, "directory for sockets; default: a new one")
ROW("sched.expiration", "sched", NUMBER, "0", ANY,
    "when the resources expire, in seconds since 1970; 0: never")
ROW("sched.node-policy", "sched", TEXT, "first-fit", ANY,
    "which nodes a job gets: first-fit, best-fit, spread, compact, buddy, "
    "interference-free[:wait=T], a plugin or Lua file")
ROW("sched.plugin-path", "sched", TEXT, NULL, ANY, "directories with policies, separated by ':'")
ROW("sched.queue-policy", "sched", TEXT, "easy", ANY,
    "which job starts next: fcfs, easy[:depth=N], conservative[:N], replan[:N], a plugin or Lua "
    "file")
ROW("shutdown.grace", NULL, DURATION, "5s", ANY, "how long a broker waits for its children to end")
ROW("size", NULL, FIXED, NULL, ANY, "number of brokers; see flux start --size")
ROW("statedir", NULL, TEXT, NULL, ANY, "directory for data that outlives the session")
ROW("stream.share", NULL, BOOL, "no", 0, 0, NULL,
    "all streams between two hosts share one connection")
ROW("tcp.address", NULL, TEXT, NULL, ANY,
    "address to listen on; default: the first that is not loopback")
ROW("tcp.interface", NULL, TEXT, NULL, ANY, "network interface to listen on")
ROW("topology", NULL, TEXT, "kary:16", ANY, "shape of the tree")
ROW("trace.file", NULL, TEXT, NULL, ANY, "file to which brokers append each message; default: none")
ROW("uri", NULL, FIXED, NULL, ANY, "address of the broker for programs")
ROW("userid", NULL, FIXED, NULL, ANY, "user as whom the session and its jobs run")
ROW("version", NULL, FIXED, NULL, ANY, "version of the broker")
ROW("wrexec.cgroup", "wrexec", DIR, NULL, 0, 0, "none",
    "directory of cgroups that limit the memory of jobs, or none; default: the delegated one")
ROW("wrexec.epilog", "wrexec", PROGRAM, NULL, ANY, "program to run on each node after a job")
ROW("wrexec.hook-timeout", "wrexec", DURATION, "60s", ANY, "time that a prolog or epilog may take")
ROW("wrexec.hung-max", "wrexec", COUNT, "255", 1, 255, NULL,
    "number of hung file system calls on a node at which it refuses jobs")
ROW("wrexec.lua-path", "wrexec", DIRS, NULL, ANY, "directories with Lua plugins, separated by ':'")
ROW("wrexec.output-limit", "wrexec", SIZE, "64M", 1, HUGE_VAL, NULL,
    "maximum output of a job in the store")
ROW("wrexec.prolog", "wrexec", PROGRAM, NULL, ANY, "program to run on each node before a job")
ROW("wrexec.share-hosts", "wrexec", BOOL, "yes", 0, 0, NULL,
    "brokers on one host count as one host for MPI")
ROW("wrexec.tmpdir", "wrexec", DIR, NULL, ANY,
    "where directories of jobs are created; default: /dev/shm, $TMPDIR, /tmp")
#undef ANY
