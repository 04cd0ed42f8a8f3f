/* A feed of the job module (sched_wire.h), decoded completely before any entry is applied.
 *
 * Thread rules: one thread per object.
 */
#ifndef SCHED_FEEDDATA_H
#define SCHED_FEEDDATA_H

#include "sched.h"
#include "sched_wire.h"

struct sched_feeddata {
    struct sched_job *add; /* their requests are in the array `req` */
    struct rreq *req;
    size_t nadd;
    struct sched_wire_running *running;
    rset_t **R; /* the resources of each of these jobs */
    size_t nrunning;
    uint64_t *free, *remove, *urgency;
    uint32_t *level; /* the new urgency of each job in `urgency` */
    size_t nfree, nremove, nurgency;
};

/* Decode all arrays of a feed strictly: 0, or -1 with EPROTO (or ENOMEM) and an error message.  The
 * caller has to clear *f in both cases. */
int sched_feeddata_read(struct sched_feeddata *f, const struct sched_feed *in, errmsg_t *err);
void sched_feeddata_clear(struct sched_feeddata *f);

#endif
