/* What the files of the kvs module share: the instance, and what its files do for each other.  See
 * kvs_module.c for how they work together, and kvs_ns.h for what belongs to one namespace. */
#ifndef KVS_MODULE_PRIVATE_H
#define KVS_MODULE_PRIVATE_H

#include "kvs_ns.h"
#include "kvs_sender.h"
#include "libflux/module.h"

struct km {
    flux_t *h;
    flux_handlers_t *handlers;
    flux_watcher_t *defer; /* what is to be done when all that came in was looked at */
    bool first;            /* rank 0: the master of the primary namespace */
    bool started;          /* the attributes are here */
    char hash[16];
    blobref_t *blobref; /* NULL until the hash is known */
    uint64_t cache_limit;
    hmap_t *spaces;        /* name -> struct km_ns */
    struct list_node busy; /* namespaces that have work for the deferral */
    struct km_ns *primary; /* always there */
    struct km_senders *senders;
    flux_future_t *starting; /* attributes */
    flux_future_t *subscribing;
};

/* The namespace that a request is for, once it is ready; NULL when the request was answered with an
 * error, or put by until then: `cb` gets it again. */
struct km_ns *km_ns_request(struct km *k, const flux_msg_t *msg, const char *name, size_t len,
                            flux_handler_f cb);
/* The raw payload of a request that is something for a namespace.  -1 after answering. */
int km_decode(flux_t *h, const flux_msg_t *msg, struct kvs_ns_req *q);
/* Learn the hash of the session from the text of a reference.  -1 with EPROTO or ENOMEM. */
int km_learn_hash(struct km *k, const char *ref, errmsg_t *err);

/* --- kvs_version.c --- */

void km_version_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_wait_version_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_getroot_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_setroot_cb(flux_t *h, const flux_msg_t *event, void *arg);

/* --- kvs_stats.c --- */

void km_stats_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_dropcache_cb(flux_t *h, const flux_msg_t *msg, void *arg);

/* --- kvs_commit.c, kvs_fence.c, kvs_load.c, kvs_read.c, kvs_watch.c --- */

void km_commit_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_fence_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_fence_abort_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_load_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_lookup_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_readdir_cb(flux_t *h, const flux_msg_t *msg, void *arg);
void km_watch_cb(flux_t *h, const flux_msg_t *msg, void *arg);

#endif
