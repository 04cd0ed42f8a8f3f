/* outlet_stats.c - what a writer counts, as a whole and for each reader.
 *
 * The counters of the whole are kept where things happen (outlet.c, outlet_far.c).  For a reader,
 * the time that the writer has waited for it and the steps that it did not get are counted as well;
 * its queue is what its lane has.  outlet_get_queues() returns differences, so that whoever adds
 * them up need not know how long a reader has been there.  The time that a writer waits for a group
 * belongs to none of its members.
 *
 * Invariants:
 *  1. `told` of a reader is what the caller knows of its `counts`; nothing is returned twice.
 *
 * Failure: what is not returned because there was no room stays in `counts` for the next call.
 */
#include "config.h"

#include "libstream/outlet_private.h"

void outlet_get_stats(outlet_t *o, struct outlet_stats *st)
{
    pthread_mutex_lock(&o->lock);
    outlet_reap(o);
    *st = o->stats;
    st->readers = o->nreaders;
    LIST_FOREACH(it, &o->readers)
    {
        const struct outlet_conn *c = list_entry(it, struct outlet_conn, node);

        st->connections += c->far && !c->gone;
    }
    pthread_mutex_unlock(&o->lock);
}

/* The differences of a reader: false if there are none. */
static bool differs(struct outlet_conn *c, struct outlet_queue *q)
{
    const struct outlet_queue *now = &c->counts;
    const struct outlet_queue *told = &c->told;

    *q = (struct outlet_queue){.reader = c->want.reader,
                               .bytes = lane_tx_bytes(c->lane),
                               .dropped = now->dropped - told->dropped,
                               .blocked = now->blocked - told->blocked};
    return !c->gone && (q->bytes > 0 || told->bytes > 0 || q->dropped > 0 || q->blocked > 0.);
}

size_t outlet_get_queues(outlet_t *o, struct outlet_queue *q, size_t max)
{
    size_t n = 0;
    unsigned i = 0;
    unsigned first;

    pthread_mutex_lock(&o->lock);
    outlet_reap(o);
    first = o->turn;
    o->turn = 0;
    LIST_FOREACH(it, &o->readers)
    {
        struct outlet_conn *c = list_entry(it, struct outlet_conn, node);
        struct outlet_queue one;

        if (i++ < first || !differs(c, &one))
            continue;
        if (n == max) {
            o->turn = i - 1;
            break;
        }
        c->told = c->counts;
        c->told.bytes = one.bytes;
        q[n++] = one;
    }
    pthread_mutex_unlock(&o->lock);
    return n;
}
