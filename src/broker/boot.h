/* Boot: how a broker learns its place in a session and finds its neighbours.
 *
 * Three methods, of which boot_create() picks one:
 *
 *   pmi     another launcher started the brokers: `flux start --size`, mpiexec.hydra, srun, or
 *           `flux wreckrun` of an enclosing session.  Keys and addresses are exchanged over PMI.
 *   config  a configuration file names the hosts; brokers share a certificate, or have one each.
 *   single  a session of one broker.
 *
 * It has two phases, since the core needs rank and size, and the link needs the core:
 *
 *   struct boot_config bcfg = { .attr = attr_lookup, .attr_arg = attrs };
 *   boot_t *b = boot_create(&bcfg, &err);                phase 1: rank, size, topology, directories
 *   for (size_t i = 0; (value = boot_attr_at(b, i, &name)); i++)
 *       ... what the configuration file sets and the command line did not ...
 *   cc.rank = boot_rank(b), cc.size = boot_size(b), cc.topology = boot_topology(b);
 *   core_t *core = core_create(&cc, reactor, ...);
 *   struct transport_link link;
 *   if (boot_link(b, core, &link, &err) < 0) ...         phase 2: bind, exchange, connect, plug in
 *   core_start(core);
 *   ... run ...
 *   if (link.arg)                                        NULL for a session of one
 *       link.ops->destroy(link.arg);
 *   core_destroy(core);
 *   boot_destroy(b);                                     removes boot_rankdir() and what is in it
 *
 * Both phases block; no reactor runs yet.  A launcher that dies meanwhile ends them with an error.
 *
 * Thread rules: belongs to the broker's main thread.
 */
#ifndef BROKER_BOOT_H
#define BROKER_BOOT_H

#include "core.h"
#include "link/transport.h"

typedef struct boot boot_t;

/* Attributes that boot looks at; each may be absent.
 *
 *   boot.method     pmi, config or single.  Default: config when config.file is set, pmi when the
 *                   environment has PMI_FD or PMI_PORT, or is a parallel step of srun, else single
 *   config.file     the Lua configuration file
 *   boot.rank       config: rank of this broker, when the host's name does not tell
 *   topology        default kary:16
 *   rundir          private directory for sockets; made when absent, removed when left empty
 *   curve           no: neighbours neither authenticate nor encrypt.  Default yes
 *   tcp.address     numeric address to listen on with TCP; default: the first that is not a loopback
 *   tcp.interface   ... or the first one of this interface
 *   peer.timeout    silence after which a neighbour counts as lost; 0 never.  Default 30s
 *   link.queue      messages queued towards one neighbour.  Default 1000
 *   event.uri       "epgm://INTERFACE;239.x.y.z:PORT": events by multicast
 */
struct boot_config {
    /* Value of an attribute given on the command line, or NULL. */
    const char *(*attr)(void *arg, const char *name);
    void *attr_arg;
};

/* Phase 1.  NULL with errno and a sentence. */
boot_t *boot_create(const struct boot_config *cfg, errmsg_t *err);
void boot_destroy(boot_t *b); /* NULL-safe, keeps errno */

const char *boot_method(const boot_t *b); /* "pmi", "config" or "single" */
uint32_t boot_rank(const boot_t *b);
uint32_t boot_size(const boot_t *b);
const char *boot_topology(const boot_t *b); /* libtopology's spec */
const char *boot_rundir(const boot_t *b);   /* directory of the session (on this host), 0700 */
const char *boot_rankdir(const boot_t *b);  /* RUNDIR/RANK: sockets of this broker, 0700 */
/* Make these directories again if somebody has removed them.  1: made; 0: they are there; -1 with a
 * sentence. */
int boot_restore_dirs(boot_t *b, errmsg_t *err);

/* Attributes that the configuration file sets, without those given on the command line: number i
 * with its name, or NULL beyond the end. */
const char *boot_attr_at(const boot_t *b, size_t i, const char **name);

/* Where those were said, "FILE:LINE". */
const char *boot_attr_source(const boot_t *b);

/* Phase 2.  link->arg is NULL for a session of one (a link that reaches nobody is plugged in).  -1 with
 * errno and a sentence. */
int boot_link(boot_t *b, core_t *core, struct transport_link *link, errmsg_t *err);

/* Phase 3, when the session runs or goes down in order: the launcher need not take the end of this
 * broker for a failure to start any more.  Until then a launcher that sees it die ends the whole
 * session; nobody else could know of a broker that never connected to its parent.  May be called
 * more than once.  -1 with errno and a sentence: the launcher was gone. */
int boot_finish(boot_t *b, errmsg_t *err);

#endif
