/* sched_feeddata.c - decode a feed of the job module: from JSON to the scheduler's arguments.
 *
 * Failure: the first invalid entry ends the decoding, with an error message; the caller then
 * ignores the whole feed.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sched_feeddata.h"

void sched_feeddata_clear(struct sched_feeddata *f)
{
    for (size_t i = 0; i < f->nadd; i++)
        rreq_clear(&f->req[i]);
    for (size_t i = 0; i < f->nrunning; i++)
        rset_destroy(f->R[i]);
    free(f->add);
    free(f->req);
    free(f->running);
    free(f->R);
    free(f->free);
    free(f->remove);
    free(f->urgency);
    free(f->level);
}

static int data_alloc(struct sched_feeddata *f, const struct sched_feed *in, errmsg_t *err)
{
    size_t nadd = json_array_size(in->add);
    size_t nrunning = json_array_size(in->running);
    size_t nfree = json_array_size(in->free);
    size_t nremove = json_array_size(in->remove);
    size_t nurgency = json_array_size(in->urgency);

    if (nadd + nrunning + nfree + nremove + nurgency > SCHED_FEED_ENTRIES)
        return errmsg_fail(err, EPROTO, "more than %d entries in one feed", SCHED_FEED_ENTRIES);
    f->add = calloc(nadd + 1, sizeof(*f->add));
    f->req = calloc(nadd + 1, sizeof(*f->req));
    f->running = calloc(nrunning + 1, sizeof(*f->running));
    f->R = calloc(nrunning + 1, sizeof(rset_t *));
    f->free = calloc(nfree + 1, sizeof(*f->free));
    f->remove = calloc(nremove + 1, sizeof(*f->remove));
    f->urgency = calloc(nurgency + 1, sizeof(*f->urgency));
    f->level = calloc(nurgency + 1, sizeof(*f->level));
    if (!f->add || !f->req || !f->running || !f->R || !f->free || !f->remove || !f->urgency ||
        !f->level)
        return errmsg_fail(err, ENOMEM, "the scheduler is out of memory");
    return 0;
}

static int read_add(struct sched_feeddata *f, const json_t *entry, errmsg_t *err)
{
    struct sched_wire_add in = {0};
    struct rreq *req = &f->req[f->nadd];

    if (flux_schema_decode_json(&sched_wire_add_schema, entry, &in, err) < 0)
        return -1;
    if (in.id == 0 || in.urgency > SCHED_URGENCY_MAX)
        return errmsg_fail(err, EPROTO, "add: ids are from 1, urgencies 0 to %d",
                           SCHED_URGENCY_MAX);
    if (rreq_from_json(in.req, req, err) < 0)
        return -1;
    f->add[f->nadd++] = (struct sched_job){in.id, in.urgency, in.uid, in.t_submit, req};
    return 0;
}

static int read_running(struct sched_feeddata *f, const json_t *entry, errmsg_t *err)
{
    struct sched_wire_running *r = &f->running[f->nrunning];

    if (flux_schema_decode_json(&sched_wire_running_schema, entry, r, err) < 0 ||
        !(f->R[f->nrunning] = rset_from_json(r->R, err)))
        return -1;
    f->nrunning++;
    return 0;
}

static int read_ids(const json_t *array, uint64_t *ids, size_t *n, errmsg_t *err)
{
    for (; *n < json_array_size(array); (*n)++) {
        if (sched_wire_id_decode(json_array_get(array, *n), &ids[*n], err) < 0)
            return -1;
    }
    return 0;
}

int sched_feeddata_read(struct sched_feeddata *f, const struct sched_feed *in, errmsg_t *err)
{
    const json_t *entry;
    size_t i;

    memset(f, 0, sizeof(*f));
    if (in->enabled && !json_is_boolean(in->enabled))
        return errmsg_fail(err, EPROTO, "enabled: must be true or false");
    if (data_alloc(f, in, err) < 0)
        return -1;
    json_array_foreach(in->running, i, entry)
    {
        if (read_running(f, entry, err) < 0)
            return -1;
    }
    json_array_foreach(in->add, i, entry)
    {
        if (read_add(f, entry, err) < 0)
            return -1;
    }
    json_array_foreach(in->urgency, i, entry)
    {
        if (sched_wire_urgency_decode(entry, &f->urgency[i], &f->level[i], err) < 0)
            return -1;
        f->nurgency++;
    }
    return read_ids(in->free, f->free, &f->nfree, err) == 0 &&
                   read_ids(in->remove, f->remove, &f->nremove, err) == 0
               ? 0
               : -1;
}
