/* A feed of the job module (sched_wire.h), read as a whole before anything of it is taken in.
 *
 * Thread rules: one thread per object.
 */
#ifndef SCHED_FEEDDATA_H
#define SCHED_FEEDDATA_H

#include "sched.h"
#include "sched_wire.h"

struct sched_feeddata {
    struct sched_job *add; /* their requests are in `req` */
    struct rreq *req;
    size_t nadd;
    struct sched_wire_running *running;
    rset_t **R; /* of each of these */
    size_t nrunning;
    uint64_t *free, *remove, *urgency;
    uint32_t *level; /* the urgency of each of `urgency` */
    size_t nfree, nremove, nurgency;
};

/* Read all arrays of a feed strictly: 0, or -1 with EPROTO (or ENOMEM) and an error message.  To be
 * cleared in both cases. */
int sched_feeddata_read(struct sched_feeddata *f, const struct sched_feed *in, errmsg_t *err);
void sched_feeddata_clear(struct sched_feeddata *f);

#endif
