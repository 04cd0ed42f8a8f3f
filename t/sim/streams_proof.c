/* streams_proof.c - what everybody must know in the end of the scenario `streams`.
 *
 * See the invariants 3, 4 and 6 of streams_member.c, and what it says of another instance of the
 * module.
 */
#include "config.h"
#include <stdlib.h>
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

/* It was told last when nothing happened any more. */
static void check_stays(const struct streams_member *w)
{
    uint32_t stays = 0, shares = 0;

    for (const struct streams_member *r = w->ss->members; r; r = r->next) {
        if (r->writer || r->stream != w->stream || !streams_in(r))
            continue;
        if (!streams_lives(r)) /* the module may not know yet */
            return;
        stays += r->stay;
        shares += r->shares;
    }
    if (w->nstays != stays || w->nshares != shares)
        streams_fail(w, "was told of another number of readers that stay than there are", NULL);
}

static void check_writer(struct streams_member *w)
{
    const struct streams *ss = w->ss;

    if (w->paused != ss->paused[w->stream] || w->limit != ss->limit[w->stream])
        streams_fail(w, "was not told the pause or the limit of its stream", NULL);
    check_stays(w);
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

/* --- runs, epochs and steps --- */

static int by_id(const void *a, const void *b)
{
    const struct streams_member *v = *(const struct streams_member *const *)a;
    const struct streams_member *w = *(const struct streams_member *const *)b;

    return v->id < w->id ? -1 : v->id > w->id;
}

static bool anew(const struct streams_member *w)
{
    return strcmp(w->start, "anew") == 0;
}

/* Two writers of which one has joined after the other one. */
static void check_pair(struct streams_member *w, const struct streams_member *former)
{
    const struct streams *ss = w->ss;
    bool shares = ss->shared[w->stream] || ss->shares[w->stream];

    if (!w->named || !former->named)
        return;
    if (w->run == former->run && w->rank == former->rank && w->begin < former->counted && !shares)
        streams_fail(w, "begins with a step that was counted before by", former);
    if (w->run < former->run)
        streams_fail(w, "is of an earlier run than", former);
    if (w->run != former->run && ss->shared[w->stream])
        streams_fail(w, "has begun anew, although members of a group stay, after", former);
}

/* A writer, and those before it, in the order in which they have joined.  `hidden`: there may have
 * been others that began runs. */
static void check_run(struct streams_member *const *ws, size_t n, bool hidden)
{
    struct streams_member *w = ws[n];
    const struct streams_member *last = NULL;
    bool may = hidden || anew(w); /* may a run have begun? */

    for (size_t i = 0; i < n; i++)
        check_pair(w, ws[i]);
    for (size_t i = n; i > 0 && !last; i--) {
        if (ws[i - 1]->named)
            last = ws[i - 1];
        else
            may = may || anew(ws[i - 1]);
    }
    if (n > 0 && w->epoch < ws[n - 1]->epoch)
        streams_fail(w, "has an earlier epoch than", ws[n - 1]);
    /* Otherwise it may be a task that a group lacks. */
    if (n > 0 && w->alone && w->job == 0 && w->epoch == ws[n - 1]->epoch)
        streams_fail(w, "begins a group in the epoch of", ws[n - 1]);
    if (n > 0 && w->alone && w->job == 0 && anew(w) && w->begin > 0)
        streams_fail(w, "begins anew, but not with step 0, after", ws[n - 1]);
    if (!w->named || !last)
        return;
    if (w->alone && w->job == 0 && anew(w) && w->run == last->run)
        streams_fail(w, "begins anew in the run of", last);
    if (!may && w->run != last->run)
        streams_fail(w, "does not continue the run of", last);
}

/* As long as a reader keeps the stream, and the module is the same. */
static void check_runs(struct streams *ss, unsigned stream)
{
    struct streams_member **ws = sim_alloc(ss->s, ss->nmembers * sizeof(struct streams_member *));
    size_t n = 0;
    bool hidden = false;

    for (struct streams_member *m = ss->members; m; m = m->next) {
        if (!m->writer || m->stream != stream)
            continue;
        if (m->told)
            ws[n++] = m;
        else if (anew(m) && !m->refused)
            hidden = true;
    }
    qsort(ws, n, sizeof(struct streams_member *), by_id);
    for (size_t i = 0; i < n && !ss->s->failed; i++)
        check_run(ws, i, hidden);
}

void streams_check(struct streams *ss)
{
    for (unsigned i = 0; i < STREAMS && !ss->reloads; i++) {
        if (ss->anchored[i])
            check_runs(ss, i);
    }
    for (struct streams_member *m = ss->members; m && !ss->s->failed; m = m->next) {
        if (m->over || m->closed || !streams_lives(m))
            continue;
        if (m->removed && !ss->reloads)
            streams_fail(m, "was not told that its stream was removed", NULL);
        if (!m->told && m->writer)
            streams_fail(m, "was never answered", NULL);
        else if (m->told && m->writer)
            check_writer(m);
        else if (!m->writer)
            check_reader(m);
    }
}
