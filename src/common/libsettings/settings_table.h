/* All settings, sorted by name (check_settings.c verifies that).
 *
 *    ROW(name, type, default, min, max, words, what)    ANY: min, max and words
 *
 * Included by settings.c.
 */
#define ANY 0, HUGE_VAL, NULL
ROW("barrier.grace", DURATION, "1m", 1e-9, 999999, NULL,
    "after a broker is lost, time for a barrier without announced ranks to complete")
ROW("boot.method", WORD, NULL, 0, 0, "pmi,config,single",
    "how brokers find each other; default: depends on the environment")
ROW("boot.rank", COUNT, NULL, 0, 4294967294., NULL,
    "rank of this broker; default: determined by its host name")
ROW("boot.timeout", DURATION, "0", ANY,
    "time after which the session starts with quorum ranks; 0: it waits for all")
ROW("broker.pid", FIXED, NULL, ANY, "process id of the broker")
ROW("config.file", TEXT, NULL, ANY, "configuration file (flux start --config)")
ROW("content.cache-limit", SIZE, "16M", ANY,
    "memory that the store of a broker may use for its cache")
ROW("content.expire", DURATION, "5m", ANY, "how long a broker keeps objects that are not used")
ROW("content.hash", TEXT, NULL, ANY, "hash function of the store: sha1, sha256, blake2b...")
ROW("curve", BOOL, "yes", 0, 0, NULL, "brokers authenticate each other and encrypt")
ROW("event.backlog", SIZE, "64M", ANY, "events kept for a child that does not keep up")
ROW("event.buffer", SIZE, "4M", ANY, "events kept for children that missed some")
ROW("hb.period", DURATION, "2s", 0.001, 1e9, NULL, "time between heartbeats")
ROW("heal.timeout", DURATION, "5s", ANY,
    "how long those below a lost broker may take to connect above it; 0: they are lost with it")
ROW("inflight.max", COUNT, "65536", 1, 4294967295., NULL,
    "requests that a client may have outstanding")
ROW("instance-level", FIXED, NULL, ANY, "number of sessions that enclose this one")
ROW("job.grace", DURATION, "5s", ANY, "time from SIGTERM to SIGKILL when a job has to end")
ROW("job.max-queued", COUNT, "1000000", ANY, "maximum number of waiting jobs")
ROW("job.purge-age", AGE, "never", ANY, "time after which ended jobs are removed")
ROW("job.purge-count", COUNT, "100000", ANY, "number of ended jobs that are kept")
ROW("jobid", FIXED, NULL, ANY, "the job as which this session runs")
ROW("join.timeout", DURATION, "60s", ANY, "time after which a broker gives up joining")
ROW("kvs.checkpoint-bytes", SIZE, "16M", ANY,
    "size of the journal at which a checkpoint is written")
ROW("kvs.checkpoint-interval", DURATION, "10s", 1e-9, 999999, NULL,
    "time from a change to a checkpoint")
ROW("kvs.fence-grace", DURATION, "1m", 1e-9, 999999, NULL,
    "after a broker is lost, time for a fence whose calls name no ranks to complete")
ROW("kvs.sync", WORD, "commit", 0, 0, "commit,interval", "when committed changes must be on disk")
ROW("kvs.sync-interval", DURATION, "1s", 1e-9, 999999, NULL,
    "time between writes to disk with kvs.sync=interval")
ROW("leave.grace", DURATION, "5s", ANY,
    "time that jobs have on a node whose broker leaves with leave.jobs=end")
ROW("leave.jobs", WORD, "end", 0, 0, "wait,end",
    "jobs on a node whose broker leaves: wait for them, or end them after leave.grace")
ROW("link.queue", COUNT, "1000", 1, 4294967295., NULL, "messages that may wait for one neighbor")
ROW("link.transport", WORD, "auto", 0, 0, "auto,zmq",
    "how brokers are connected; auto: by UNIX sockets on one host, else by ZeroMQ")
ROW("live.lost", DURATION, "3s", 0, 1e6, NULL, "silence after which a neighbor is lost; 0: never")
ROW("live.patience", DURATION, "60s", 0.1, 1e6, NULL,
    "silence after which a neighbor that joins or leaves, or rank 0, is lost; at least live.lost")
ROW("live.probe", DURATION, "1s", 0.01, 1e6, NULL,
    "time between signs of life to a neighbor; by default at most a third of live.lost")
ROW("live.slow", DURATION, "2s", 0.02, 1e6, NULL,
    "silence after which a neighbor is slow; by default at most two thirds of live.lost")
ROW("log.forward-level", TEXT, NULL, ANY, "lowest severity that is forwarded to rank 0; none")
ROW("log.ring-bytes", SIZE, "1M", 4096, 1073741824., NULL, "memory for the log of a broker")
ROW("log.ring-size", COUNT, "1024", 1, 1048576, NULL, "entries in the log of a broker")
ROW("module.place", TEXT, "declared", ANY,
    "where modules run: declared, loop, thread, or a list of NAME:loop and NAME:thread")
ROW("module.stop-timeout", DURATION, "30s", ANY,
    "time for modules to end, after which the broker ends without them")
ROW("module.turn-max", DURATION, "10ms", ANY,
    "time of a module for one message after which it is logged; 0: never")
ROW("modules", TEXT, NULL, ANY, "comma-separated modules that each broker loads; default: all")
ROW("orphan.timeout", DURATION, "30s", ANY,
    "how long a broker runs without its parent; 1s in a job")
ROW("parent-uri", FIXED, NULL, ANY, "address of the enclosing session")
ROW("quorum", COUNT, NULL, 1, 4294967295., NULL,
    "ranks that are needed to start when others are lost, or absent; default: all")
ROW("rank", FIXED, NULL, ANY, "rank of the broker")
ROW("resource.topology", TEXT, NULL, ANY,
    "switches: P,L,K (pods, leaves, nodes) or a topology.conf of Slurm; default: none")
ROW("resrc.config", TEXT, NULL, ANY, "file that defines the resources; default: they are detected")
ROW("rundir", TEXT, NULL, ANY, "directory for sockets; default: a new one")
ROW("sched.expiration", NUMBER, "0", ANY,
    "when the resources expire, in seconds since 1970; 0: never")
ROW("sched.node-policy", TEXT, "first-fit", ANY,
    "which nodes a job gets: first-fit, best-fit, spread, compact, buddy, "
    "interference-free[:wait=T], a plugin or Lua file")
ROW("sched.plugin-path", TEXT, NULL, ANY, "directories with policies, separated by ':'")
ROW("sched.queue-policy", TEXT, "easy", ANY,
    "which job starts next: fcfs, easy[:depth=N], conservative[:N], replan[:N], a plugin or Lua "
    "file")
ROW("shutdown.grace", DURATION, "5s", ANY, "how long a broker waits for its children to end")
ROW("size", FIXED, NULL, ANY, "number of brokers; see flux start --size")
ROW("statedir", TEXT, NULL, ANY, "directory for data that outlives the session")
ROW("tcp.address", TEXT, NULL, ANY, "address to listen on; default: the first that is not loopback")
ROW("tcp.interface", TEXT, NULL, ANY, "network interface to listen on")
ROW("topology", TEXT, "kary:16", ANY, "shape of the tree")
ROW("trace.file", TEXT, NULL, ANY, "file to which brokers append each message; default: none")
ROW("uri", FIXED, NULL, ANY, "address of the broker for programs")
ROW("userid", FIXED, NULL, ANY, "user as whom the session and its jobs run")
ROW("version", FIXED, NULL, ANY, "version of the broker")
ROW("wrexec.cgroup", TEXT, NULL, ANY,
    "directory of cgroups that limit the memory of jobs, or none; default: the delegated one")
ROW("wrexec.epilog", TEXT, NULL, ANY, "program to run on each node after a job")
ROW("wrexec.hook-timeout", DURATION, "60s", ANY, "time that a prolog or epilog may take")
ROW("wrexec.hung-max", COUNT, "255", 1, 255, NULL,
    "number of hung file system calls on a node at which it refuses jobs")
ROW("wrexec.lua-path", TEXT, NULL, ANY, "directories with Lua plugins, separated by ':'")
ROW("wrexec.output-limit", SIZE, "64M", 1, HUGE_VAL, NULL, "maximum output of a job in the store")
ROW("wrexec.prolog", TEXT, NULL, ANY, "program to run on each node before a job")
ROW("wrexec.share-hosts", BOOL, "yes", 0, 0, NULL, "brokers on one host count as one host for MPI")
ROW("wrexec.tmpdir", TEXT, NULL, ANY,
    "where directories of jobs are created; default: /dev/shm, $TMPDIR, /tmp")
#undef ANY
