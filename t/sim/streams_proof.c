/* streams_proof.c - what everybody must know in the end of the scenario `streams`.
 *
 * See invariant 3 of streams_member.c, and what it says of another instance of the module.
 */
#include "config.h"
#include <string.h>

#include "streams.h"

/* An instance of the module does not know who has left before it had their requests. */
static bool forgotten(const struct streams_member *w)
{
    const struct streams *ss = w->ss;

    return ss->reloads && w->ended <= ss->reloaded + streams_grace(ss->s);
}

static void check_reader(struct streams_member *r)
{
    const struct streams *ss = r->ss;
    size_t pos = 0;
    void *val;

    for (struct streams_member *w = ss->members; w && !ss->s->failed; w = w->next) {
        const struct streams_seen *seen;

        if (!w->writer || w->stream != r->stream)
            continue;
        seen = hmap_get_u64(r->seen, w->serial);
        if (streams_in(w) && streams_lives(w)) {
            if (!seen || seen->gone || seen->again)
                streams_fail(r, seen ? "believes that it has left:" : "was not told of", w);
        } else if (seen && !seen->gone && !seen->again && !streams_in(w) && !forgotten(w)) {
            streams_fail(r, "waits for one that has left:", w);
        }
    }
    while (!ss->reloads && hmap_next(r->seen, &pos, NULL, NULL, &val)) {
        if (((struct streams_seen *)val)->more)
            streams_fail(r, "was not told why it has died:", ((struct streams_seen *)val)->w);
    }
}

static void check_writer(struct streams_member *w)
{
    const struct streams *ss = w->ss;

    if (w->paused != ss->paused[w->stream] || w->limit != ss->limit[w->stream])
        streams_fail(w, "was not told the pause or the limit of its stream", NULL);
    for (struct streams_member *r = ss->members; r && !ss->s->failed; r = r->next) {
        const struct streams_demand *d;
        const struct streams_seen *seen;

        if (r->writer || r->stream != w->stream || !streams_in(r) || !streams_lives(r) ||
            !(seen = hmap_get_u64(r->seen, w->serial)))
            continue;
        d = hmap_get_u64(w->demands, r->number);
        /* Policies and states of switches that were set before a reload are forgotten. */
        if (r->shares && !d)
            streams_fail(w, "was not told of a member of a group:", r);
        if (strcmp(d ? d->policy : r->joined, r->policy) != 0 && !ss->reloads)
            streams_fail(w, "was not told the policy of", r);
        if ((d ? d->off : seen->off) != (r->onoff && !ss->on[r->onoff - 1]))
            streams_fail(w, "was not told how the switch is of", r);
    }
}

void streams_check(struct streams *ss)
{
    for (struct streams_member *m = ss->members; m && !ss->s->failed; m = m->next) {
        if (m->over || m->closed || !streams_lives(m))
            continue;
        if (!m->told && m->writer)
            streams_fail(m, "was never answered", NULL);
        else if (m->told && m->writer)
            check_writer(m);
        else if (!m->writer)
            check_reader(m);
    }
}
