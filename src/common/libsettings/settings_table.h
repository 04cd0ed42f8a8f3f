/* All settings, in the order of their names (check_settings.c looks).
 *
 *    ROW(name, type, default, min, max, words, what)    ANY: min, max and words
 *
 * Included by settings.c.
 */
#define ANY 0, HUGE_VAL, NULL
ROW("boot.method", WORD, NULL, 0, 0, "pmi,config,single",
    "how brokers find each other; default: what fits")
ROW("boot.rank", COUNT, NULL, 0, 4294967294., NULL,
    "rank of this broker; default: by the name of its host")
ROW("broker.pid", FIXED, NULL, ANY, "process id of the broker")
ROW("config.file", TEXT, NULL, ANY, "configuration file (flux start --config)")
ROW("content.cache-limit", SIZE, "16M", ANY,
    "memory that the store of a broker may use for its cache")
ROW("content.expire", DURATION, "5m", ANY, "how long a broker keeps what nobody asks for")
ROW("content.hash", TEXT, NULL, ANY, "hash function of the store: sha1, sha256, blake2b...")
ROW("curve", BOOL, "yes", 0, 0, NULL, "brokers authenticate each other and encrypt")
ROW("event.backlog", SIZE, "64M", ANY, "events kept for a child that does not keep up")
ROW("event.buffer", SIZE, "4M", ANY, "events kept for children that missed some")
ROW("event.uri", TEXT, NULL, ANY,
    "epgm:// address for events by multicast; default: along the tree")
ROW("hb.period", DURATION, "2s", 0.001, 1e9, NULL, "time between heartbeats")
ROW("inflight.max", COUNT, "65536", 1, 4294967295., NULL,
    "requests that a client may have outstanding")
ROW("instance-level", FIXED, NULL, ANY, "how many sessions are around this one")
ROW("job.grace", DURATION, "5s", ANY, "time from SIGTERM to SIGKILL when a job has to end")
ROW("job.max-queued", COUNT, "1000000", ANY, "jobs that may wait")
ROW("job.purge-age", AGE, "never", ANY, "ended jobs are forgotten after this time")
ROW("job.purge-count", COUNT, "100000", ANY, "ended jobs that are kept")
ROW("jobid", FIXED, NULL, ANY, "the job that this session is")
ROW("join.timeout", DURATION, "60s", ANY, "a broker that its parent does not welcome gives up")
ROW("kvs.checkpoint-bytes", SIZE, "16M", ANY, "journal beyond which a checkpoint is written")
ROW("kvs.checkpoint-interval", DURATION, "10s", 1e-9, 999999, NULL, "checkpoint after a change")
ROW("kvs.sync", WORD, "commit", 0, 0, "commit,interval", "when what is committed has to be on disk")
ROW("kvs.sync-interval", DURATION, "1s", 1e-9, 999999, NULL,
    "time between writes to disk with kvs.sync=interval")
ROW("link.queue", COUNT, "1000", 1, 4294967295., NULL, "messages that may wait for one neighbour")
ROW("log.forward-level", TEXT, NULL, ANY, "least severity that goes up to rank 0; none")
ROW("log.ring-bytes", SIZE, "1M", 4096, 1073741824., NULL, "memory for the log of a broker")
ROW("log.ring-size", COUNT, "1024", 1, 1048576, NULL, "entries in the log of a broker")
ROW("module.stop-timeout", DURATION, "30s", ANY, "modules that do not end by then are left behind")
ROW("modules", TEXT, NULL, ANY, "modules that each broker loads, with commas; default: all")
ROW("orphan.timeout", DURATION, "30s", ANY, "a broker that has lost its parent ends; 1s in a job")
ROW("parent-uri", FIXED, NULL, ANY, "address of the session around this one")
ROW("peer.timeout", DURATION, "30s", ANY, "a silent neighbour counts as lost; 0: never")
ROW("quorum", COUNT, NULL, 1, 4294967295., NULL, "ranks that are needed to start; default: all")
ROW("rank", FIXED, NULL, ANY, "rank of the broker")
ROW("resource.topology", TEXT, NULL, ANY,
    "switches: P,L,K (pods, leaves, nodes) or a topology.conf of Slurm; default: none")
ROW("resrc.config", TEXT, NULL, ANY,
    "file that says which resources there are; default: what is found")
ROW("rundir", TEXT, NULL, ANY, "directory for sockets; default: a fresh one")
ROW("sched.expiration", NUMBER, "0", ANY, "when the resources go, in seconds since 1970; 0: never")
ROW("sched.node-policy", TEXT, "first-fit", ANY,
    "which nodes a job gets: first-fit, best-fit, spread, compact, buddy, "
    "interference-free[:wait=T], a "
    "plugin or Lua file")
ROW("sched.plugin-path", TEXT, NULL, ANY, "directories with policies, with ':' between them")
ROW("sched.queue-policy", TEXT, "easy", ANY,
    "which job is next: fcfs, easy[:depth=N], conservative[:N], replan[:N], a plugin or Lua file")
ROW("shutdown.grace", DURATION, "5s", ANY, "how long a broker waits for its children to end")
ROW("size", FIXED, NULL, ANY, "number of brokers; see flux start --size")
ROW("statedir", TEXT, NULL, ANY, "directory for what is to outlive the session")
ROW("tcp.address", TEXT, NULL, ANY, "address to listen on; default: the first that is not loopback")
ROW("tcp.interface", TEXT, NULL, ANY, "network interface to listen on")
ROW("topology", TEXT, "kary:16", ANY, "shape of the tree")
ROW("uri", FIXED, NULL, ANY, "address for programs")
ROW("userid", FIXED, NULL, ANY, "user that the session and its jobs run as")
ROW("version", FIXED, NULL, ANY, "version of the broker")
ROW("wrexec.cgroup", TEXT, NULL, ANY,
    "directory of cgroups that limit the memory of jobs; none; default: one delegated to it")
ROW("wrexec.epilog", TEXT, NULL, ANY, "program to be run on each node after a job")
ROW("wrexec.hook-timeout", DURATION, "60s", ANY, "time that a prolog or epilog may take")
ROW("wrexec.hung-max", COUNT, "255", 1, 255, NULL,
    "calls to file systems that may hang on a node before it refuses jobs")
ROW("wrexec.lua-path", TEXT, NULL, ANY, "directories with Lua plugins, with ':' between them")
ROW("wrexec.output-limit", SIZE, "64M", 1, HUGE_VAL, NULL, "output of a job that the store keeps")
ROW("wrexec.prolog", TEXT, NULL, ANY, "program to be run on each node before a job")
ROW("wrexec.share-hosts", BOOL, "yes", 0, 0, NULL, "brokers of one host are one host for MPI")
ROW("wrexec.tmpdir", TEXT, NULL, ANY,
    "where directories of jobs are made; default: /dev/shm, $TMPDIR, /tmp")
#undef ANY
