/* The commands of `flux`, in the order of the alphabet.  Included by flux.c several times.
 *
 *    CMD(name, function, summary)     built in, when src/cmd/cmd_<...>.c is among the sources
 *    EXTERNAL(name, summary)          a program flux-<name> in the exec directory
 *
 * The summary is that of the man page.
 */
CMD("alloc", cmd_alloc, "wait for resources and work on them, in a session of its own")
CMD("barrier", cmd_barrier, "wait until a number of processes have come to the same point")
CMD("batch", cmd_batch, "submit a script that runs in a session of its own")
EXTERNAL("broker", "the daemon of one node; started by flux start")
CMD("cancel", cmd_cancel, "end jobs, or take them out of the queue")
CMD("dmesg", cmd_dmesg, "print the log of the session")
CMD("env", cmd_env, "print or apply the environment that programs of the session need")
CMD("event", cmd_event, "publish events, or subscribe to them and print them")
CMD("exec", cmd_exec, "run a process beside the brokers of chosen ranks")
CMD("getattr", cmd_getattr, "print an attribute of the broker")
CMD("help", cmd_help, "print the list of commands, or the manual page of one")
CMD("jobs", cmd_jobs, "list jobs: those that wait, run, or have ended")
CMD("kap", cmd_kap, "test how processes use the key-value store together")
EXTERNAL("keygen", "make the keys with which brokers prove themselves to each other")
CMD("kvs", cmd_kvs, "use the key-value store of the session")
CMD("logger", cmd_logger, "add a line to the log of the session")
CMD("lsattr", cmd_lsattr, "print all attributes of the broker")
CMD("module", cmd_module, "load, unload, reload and list the services of brokers")
CMD("ping", cmd_ping, "measure the way to a rank or a service")
CMD("proxy", cmd_proxy, "run a command in the session that a job is")
CMD("pstree", cmd_pstree, "print the tree of sessions and their jobs")
CMD("queue", cmd_queue, "look at the queue of jobs, stop it and start it")
CMD("setattr", cmd_setattr, "set an attribute of the broker")
CMD("start", cmd_start, "start a session")
CMD("submit", cmd_submit, "put jobs into the queue")
EXTERNAL("top", "show what the session does, on the whole screen")
CMD("topo", cmd_topo, "print the shape of the session's tree")
CMD("up", cmd_up, "print which ranks of the session are there")
CMD("version", cmd_version, "print the version")
CMD("wreck", cmd_wreck, "look at a job and act on it: status, output, signals, history")
CMD("wreckrun", cmd_wreckrun, "run a parallel program in the session")
