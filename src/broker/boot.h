/* Boot: how a broker learns its rank in a session and finds its neighbors.
 *
 * boot_create() picks one of three methods:
 *
 *   pmi     a launcher started the brokers: `flux start --size`, mpiexec.hydra, srun, or
 *           `flux wreckrun` of an enclosing session.  PMI exchanges keys and addresses.
 *   config  a configuration file names the hosts; brokers share a certificate, or have one each.
 *   single  a session of one broker.
 *
 * There are two phases, since the core needs rank and size, and the link needs the core:
 *
 *   struct boot_config bcfg = { .attr = attr_lookup, .attr_arg = attrs };
 *   boot_t *b = boot_create(&bcfg, &err);                phase 1: rank, size, topology, directories
 *   for (size_t i = 0; (value = boot_attr_at(b, i, &name)); i++)
 *       ... the attributes that only the configuration file sets ...
 *   cc.rank = boot_rank(b), cc.size = boot_size(b), cc.topology = boot_topology(b);
 *   core_t *core = core_create(&cc, reactor, ...);
 *   struct transport_link link;
 *   if (boot_link(b, core, &link, &err) < 0) ...         phase 2: bind, exchange, connect, plug in
 *   core_start(core);
 *   ... run ...
 *   if (link.arg)                                        NULL for a session of one broker
 *       link.ops->destroy(link.arg);
 *   core_destroy(core);
 *   boot_destroy(b);                                     removes boot_rankdir() and its contents
 *
 * Both phases block, before the reactor runs.  They end with an error if the launcher dies.
 *
 * Thread rules: belongs to the broker's main thread.
 */
#ifndef BROKER_BOOT_H
#define BROKER_BOOT_H

#include "boot_hosts.h"
#include "core.h"
#include "link/transport.h"

typedef struct boot boot_t;

/* Attributes that boot reads; each may be absent.
 *
 *   boot.method     pmi, config or single.  Default: config if config.file is set; pmi if the
 *                   environment has PMI_FD or PMI_PORT, names a PMIx job, or is that of a parallel
 *                   step of srun; else single
 *   config.file     the Lua configuration file
 *   boot.rank       config: rank of this broker, if the host's name does not determine it
 *   topology        default kary:16
 *   rundir          private directory for sockets; created if absent, removed if left empty
 *   curve           no: neighbors neither authenticate nor encrypt.  Default yes
 *   tcp.address     numeric address to listen on with TCP.  Default: the first that is not loopback
 *   tcp.interface   ... or the first of this interface
 *   live.probe, live.slow, live.lost, live.patience
 *                   how long a neighbor may be silent: link/silence.h
 *   link.transport  the name of a transport (link/transport.h).  Default auto
 *   link.queue      messages queued for one neighbor.  Default 1000
 */
struct boot_config {
    /* Value of an attribute given on the command line, or NULL. */
    const char *(*attr)(void *arg, const char *name);
    void *attr_arg;
};

/* Check a configuration file for a session that boots by another method than config: 1: it has a
 * section `session`, which would have no effect; 0: it has none; -1 with an error message. */
int boot_config_unused(const char *path, errmsg_t *err);

/* Phase 1.  NULL with errno and an error message. */
boot_t *boot_create(const struct boot_config *cfg, errmsg_t *err);
void boot_destroy(boot_t *b); /* NULL-safe, keeps errno */

const char *boot_method(const boot_t *b); /* "pmi", "config" or "single" */
uint32_t boot_rank(const boot_t *b);
uint32_t boot_size(const boot_t *b);
const char *boot_topology(const boot_t *b); /* libtopology's spec */
/* The hosts that the configuration file lists, in a session with room for others (session.size), in
 * which every broker has to say on which host it is.  NULL: another method, or no more ranks than
 * hosts. */
boot_hosts_t *boot_listed(const boot_t *b);
const char *boot_host(const boot_t *b);    /* name of this host; valid as long as `b` */
const char *boot_rundir(const boot_t *b);  /* directory of the session (on this host), 0700 */
const char *boot_rankdir(const boot_t *b); /* RUNDIR/RANK: sockets of this broker, 0700 */
/* Create these directories again if they were removed.  1: created; 0: they exist; -1 with an error
 * message. */
int boot_restore_dirs(boot_t *b, errmsg_t *err);

/* The connection of rank 0 to `flux start`, for boot_add_create(); the caller closes it.  -1: there
 * is none. */
int boot_launcher(boot_t *b);

/* The i-th attribute, and its name, that the configuration file sets and the command line does not;
 * NULL beyond the last. */
const char *boot_attr_at(const boot_t *b, size_t i, const char **name);

/* The place where the configuration file sets them, "FILE:LINE". */
const char *boot_attr_source(const boot_t *b);

/* Phase 2.  link->arg is NULL for a session of one broker, whose link reaches no peer.  -1 with
 * errno and an error message. */
int boot_link(boot_t *b, core_t *core, struct transport_link *link, errmsg_t *err);

/* Phase 3, when the session runs or shuts down in order: from now on the launcher need not regard
 * the end of this broker as a failed start.  Until then, a launcher that detects the death of a
 * broker ends the whole session, since no broker could detect the loss of one that never connected
 * to its parent.  May be called repeatedly.  -1 with errno and an error message: the launcher is
 * gone. */
int boot_finish(boot_t *b, errmsg_t *err);

/* Get the public key of a rank below this broker that may join here while the brokers between are
 * dead; `key` has room for CORE_KEY_SIZE bytes.  Returns false if it is not known. */
bool boot_key(boot_t *b, uint32_t rank, char *key);

#endif
