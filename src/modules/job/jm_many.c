/* jm_many.c - requests about many jobs, a slice of them in each pass of the reactor.
 *
 * Purpose: one request may name a million ids (cancel, raise, kill, urgency, wait, purge).  One
 * slice of the work (libflux/slice.h) is done when the request arrives, so that requests about a
 * few jobs, as most are, take effect in the order in which they arrive.  The rest of a larger
 * request is done in later passes, between which all other work continues.  If there are several
 * such requests, each pass does a slice of one, in turn.
 *
 * Invariants:
 *  1. A request is in the list exactly while some of its work is left.
 *  2. At most MANY_MAX requests are in the list; further ones are refused with EAGAIN.
 *
 * Failure: none of its own.  A request is executed even if its client has disconnected.
 */
#include "config.h"
#include "jm_private.h"

#include <errno.h>
#include <stdlib.h>

#define MANY_MAX 1024

struct jm_many_table {
    struct list_node waiting; /* struct jm_many with more to do */
    size_t n;
};

bool jm_many_full(struct jm *jm, const flux_msg_t *req)
{
    if (jm->many->n < MANY_MAX)
        return false;
    flux_respond_error(jm->h, req, EAGAIN, "%d large requests are in progress: try again later",
                       MANY_MAX);
    return true;
}

void jm_many_start(struct jm *jm, struct jm_many *m)
{
    struct flux_slice slice;

    list_init(&m->node);
    m->jm = jm;
    flux_slice_begin(&slice, jm->r, FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
    if (!m->step(m, &slice)) {
        list_append(&jm->many->waiting, &m->node);
        jm->many->n++;
    }
    jm_module_kick(jm);
}

void jm_many_stop(struct jm_many *m)
{
    if (!m->node.next || list_empty(&m->node))
        return;
    list_remove(&m->node);
    m->jm->many->n--;
}

void jm_many_pass(struct jm *jm)
{
    struct list_node *n = list_first(&jm->many->waiting);
    struct flux_slice slice;
    struct jm_many *m;

    if (!n)
        return;
    m = list_entry(n, struct jm_many, node);
    jm_many_stop(m);
    flux_slice_begin(&slice, jm->r, FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
    if (!m->step(m, &slice)) {
        list_append(&jm->many->waiting, n);
        jm->many->n++;
    }
    if (!list_empty(&jm->many->waiting))
        jm_module_kick(jm);
}

int jm_many_create(struct jm *jm)
{
    struct jm_many_table *p = calloc(1, sizeof(*p));

    if (!p)
        return -1;
    jm->many = p;
    list_init(&p->waiting);
    return 0;
}

void jm_many_destroy(struct jm *jm)
{
    struct jm_many_table *p = jm->many;
    struct list_node *n;

    if (!p)
        return;
    while ((n = list_first(&p->waiting))) {
        struct jm_many *m = list_entry(n, struct jm_many, node);

        jm_many_stop(m);
        m->drop(m);
    }
    free(p);
    jm->many = NULL;
}
