/* streams_member.c - writers and readers of the scenario `streams`, and what they must be told.
 *
 * They send the requests that libstream sends, and read the responses.  What holds:
 *
 *  1. A reader is told once that a writer has joined, with its address and what admits this
 *     reader to it, and once that it has left, and why; writers in the order in which they
 *     joined, and the next writer of a rank only after the former one has left.  Writers that
 *     are there at the same time are of one size and of one run, and no run comes after a later
 *     one.
 *  2. If it is said that more may follow about a writer that has left, that follows.
 *  3. In the end every reader knows those writers that are there, and no other; every writer knows
 *     the policy and the switch of each reader, the pause and the limit of its stream, and how many
 *     readers stay.
 *  4. No writer begins with a step that one of its rank had counted before in this run, and no rank
 *     is given an epoch twice, or one in which it was there when that began, as long as the stream
 *     exists.  A writer that begins anew when no other one is there begins a run, with step 0, and
 *     nobody else does.  If members of groups stay, no run begins; a writer begins at most with the
 *     step that the one before it had counted as needed by them, and in the end knows them all.
 *  5. A request is refused only for what really stands in its way.
 *  6. Whoever was there when its stream was removed learns that, whatever had failed by then.
 *
 * One whose request has ended because a broker on its way was lost sends it again some time later,
 * as libstream does when it next looks for messages, and is told everything once more.  What a
 * reader is not told again has left meanwhile: of that, its connection to the writer tells it.
 *
 * An instance of the module that takes the place of another one gives new numbers, and does not
 * know who has left before it had their requests, nor who is away until it asks again: after that,
 * 1 and 3 to 5 are checked only as far as it can know.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libstream/far_key.h"
#include "libutil/hex.h"
#include "streams.h"

#define AWAY SIM_S /* at most, until a request is sent again */

static const char *const names[STREAMS] = {"heat", "atoms", "bonds", "x", "a.very.long.name"};
static const char *const policies[] = {"block", "drop-oldest", "drop-newest", "latest", "sample:3"};

const char *streams_name(unsigned stream)
{
    return names[stream];
}

const char *streams_policy(sim_t *s)
{
    return policies[rng_below(&s->rng, sizeof(policies) / sizeof(policies[0]))];
}

bool streams_lives(const struct streams_member *m)
{
    return !m->client->gone && sim_connected(m->ss->s, m->client->broker->rank);
}

bool streams_in(const struct streams_member *m)
{
    return m->told && !m->over && !m->closed && !m->client->gone;
}

static void describe(const struct streams_member *m, char *buf, size_t size)
{
    if (m->writer)
        snprintf(buf, size, "writer %u (stream %s, rank %u, at broker %u)", m->serial,
                 names[m->stream], m->rank, m->client->broker->rank);
    else
        snprintf(buf, size, "reader %u (stream %s, at broker %u)", m->serial, names[m->stream],
                 m->client->broker->rank);
}

void streams_fail(const struct streams_member *m, const char *what, const struct streams_member *of)
{
    char text[100], other[100] = "";

    describe(m, text, sizeof(text));
    if (of)
        describe(of, other, sizeof(other));
    sim_fail(m->ss->s, "%s %s %s", text, what, other);
}

int64_t streams_grace(const sim_t *s)
{
    int64_t grace = (int64_t)(2. * s->cfg.heal * 1e9) + 2 * SIM_S;

    /* The news of it may be lost with a broker, and the root may stand still meanwhile. */
    if (s->cfg.live && s->faults > 0)
        grace += STREAMS_AWAY_MAX + SIM_ROOT_STILL_MAX + SIM_ABSENT_MAX;
    return grace + sim_max_delay(s) * 4 * s->cfg.size;
}

/* The moment from which on it is no longer there, as far as that was noticed. */
static void note_end(struct streams_member *m)
{
    if (m->ended == 0 && (m->over || m->closed || m->client->gone))
        m->ended = sim_now(m->ss->s);
}

void streams_note(struct streams *ss)
{
    for (struct streams_member *m = ss->members; m; m = m->next)
        note_end(m);
}

/* --- the ends of requests --- */

/* Was a writer of the stream of another job? */
static bool others(const struct streams_member *w)
{
    for (const struct streams_member *m = w->ss->members; m; m = m->next) {
        if (m->writer && m->stream == w->stream && m->job != w->job)
            return true;
    }
    return false;
}

/* Is another member of the stream, that is there or about to be, a reason for this error? */
static bool hinders(const struct streams_member *m, const struct streams_member *w, int errnum)
{
    bool foreign = !*w->start && (m->writer ? w->launched && m->job != w->job : m->stay);

    switch (errnum) {
    case EEXIST:
        return (m->writer && m->rank == w->rank) || (foreign && others(w));
    case EBUSY:
        return strcmp(w->start, "anew") == 0 && (m->writer || m->shares);
    case EINVAL:
        return m->writer && m->size != w->size;
    default:
        return false;
    }
}

/* Is another member of the stream there, or was it until a moment ago, or will it be? */
static bool beside(struct streams_member *m, const struct streams_member *w)
{
    const sim_t *s = w->ss->s;

    if (m == w || m->stream != w->stream)
        return false;
    note_end(m);
    /* What a client does, arrives in this order. */
    if (m->closed && m->client == w->client && m->ended <= w->asked && s->faults == 0)
        return false;
    return m->ended == 0 || m->ended + streams_grace(s) >= w->asked;
}

static bool hindered(const struct streams_member *w, int errnum)
{
    for (struct streams_member *m = w->ss->members; m; m = m->next) {
        if (beside(m, w) && hinders(m, w, errnum))
            return true;
    }
    return false;
}

static bool ask(struct streams_member *m);

/* Send the request again. */
static void ask_again(void *arg, void *data)
{
    struct streams_member *m = data;
    size_t pos = 0;
    void *val;

    m->away = false;
    if (m->client->gone)
        return;
    while (m->seen && hmap_next(m->seen, &pos, NULL, NULL, &val)) {
        struct streams_seen *seen = val;

        seen->again = !seen->gone;
        seen->more = false;
    }
    m->last = 0;
    if (m->writer) {
        hmap_destroy(m->demands);
        m->demands = hmap_create_u64(free);
    }
    (void)ask(m);
}

/* Was a broker on the way of the request lost?  Then it is sent again. */
static bool asks_again(struct streams_member *m, int errnum)
{
    sim_t *s = m->ss->s;

    if (errnum != EHOSTUNREACH || !m->answered || s->faults == 0)
        return false;
    flux_future_destroy(m->f);
    m->f = NULL;
    m->away = true;
    sim_at(s, sim_now(s) + (int64_t)(rng_real(&s->rng) * (double)AWAY), ask_again, m->ss, m);
    return true;
}

static void request_ended(struct streams_member *m, int errnum)
{
    struct streams *ss = m->ss;
    bool excused = false;

    if (asks_again(m, errnum))
        return;
    if (errnum == ECANCELED)
        excused = ss->removed[m->stream] > 0;
    else if (errnum == EHOSTUNREACH)
        excused = ss->s->faults > 0;
    else if (m->writer && (!m->told || (ss->reloads > 0 && !m->answered)))
        excused = hindered(m, errnum);
    m->over = true;
    m->refused = !m->told && errnum != EHOSTUNREACH && errnum != ECANCELED;
    note_end(m);
    if (!excused) {
        char text[400];

        snprintf(text, sizeof(text), "was refused, or ended: %s", flux_future_error(m->f));
        streams_fail(m, text, NULL);
    }
    flux_future_destroy(m->f);
    m->f = NULL;
}

/* --- a writer --- */

static const char group[] = "group:all";

static const char *policy_of(const char *text)
{
    if (strcmp(text, group) == 0)
        return group;
    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        if (strcmp(policies[i], text) == 0)
            return policies[i];
    }
    return NULL;
}

static void writer_begins(struct streams_member *w, const struct stream_written *out)
{
    struct streams *ss = w->ss;
    uint64_t given = (uint64_t)w->stream << 48 | (uint64_t)w->rank << 40 | out->epoch;
    uint64_t *most = &ss->most[w->stream][w->rank];

    w->begin = w->step = w->need = out->step;
    w->heard = sim_now(ss->s);
    w->alone = true;
    for (struct streams_member *m = ss->members; m; m = m->next)
        w->alone = w->alone && !(m->writer && beside(m, w));
    if (!ss->anchored[w->stream] || ss->reloads)
        return;
    if (ss->shared[w->stream] && *most > 0 && w->step >= *most)
        streams_fail(w, "begins above a step that a group may need of its rank", NULL);
    *most = w->step + 1;
    if (hmap_get_u64(ss->epochs, given))
        streams_fail(w, "was given an epoch that its rank had before", NULL);
    hmap_put_u64(ss->epochs, given, w);
}

static void written_cb(flux_future_t *f, void *arg)
{
    struct streams_member *w = arg;
    struct stream_written out;
    errmsg_t err;
    json_t *item;
    size_t i;

    if (flux_rpc_get_struct(f, &stream_written_schema, &out, &err) < 0) {
        request_ended(w, errno);
        return;
    }
    if (!w->told)
        writer_begins(w, &out);
    if (w->id != out.writer && w->told && !w->ss->reloads)
        streams_fail(w, "was given another number", NULL);
    if (w->epoch != out.epoch && w->epoch > 0 && !w->ss->reloads)
        streams_fail(w, "was given another epoch than a reader was told", NULL);
    if (w->id != out.writer) { /* what another instance has said is void */
        hmap_destroy(w->demands);
        w->demands = hmap_create_u64(free);
    }
    w->told = w->answered = true;
    w->id = out.writer;
    w->epoch = out.epoch;
    w->nstays = out.stays;
    w->nshares = out.shares;
    w->paused = out.paused;
    w->limit = out.limit;
    json_array_foreach(out.gone, i, item)
    {
        if (!hmap_del_u64(w->demands, (uint64_t)json_integer_value(item)) && !w->ss->reloads)
            streams_fail(w, "was told that a reader has left of which it was told nothing", NULL);
    }
    json_array_foreach(out.readers, i, item)
    {
        struct stream_demand in;
        struct streams_demand *d = calloc(1, sizeof(*d));

        if (!d || flux_schema_decode_json(&stream_demand_schema, item, &in, &err) < 0 ||
            !(d->policy = policy_of(in.policy)) || hmap_put_u64(w->demands, in.reader, d) < 0) {
            streams_fail(w, "was told of a reader that cannot be", NULL);
            free(d);
            break;
        }
        d->off = in.off;
    }
    flux_future_next(f);
}

/* --- a reader --- */

static struct streams_member *writer_by_address(struct streams_member *r, const char *address)
{
    unsigned serial;
    char kind;

    if (sscanf(address, "%c%u", &kind, &serial) == 2) {
        for (struct streams_member *m = r->ss->members; m; m = m->next) {
            if (m->serial == serial && m->writer && m->stream == r->stream &&
                kind == (m->far == r->far ? 'w' : 't'))
                return m;
        }
    }
    return NULL;
}

/* Is this what admits the reader to the writer? */
static bool admits(const struct streams_member *r, const struct streams_member *w,
                   const struct stream_member *in)
{
    struct far_grant g = {names[r->stream], r->number, in->expires};
    unsigned char key[FAR_KEY_LEN], secret[FAR_KEY_LEN];
    char digits[2 * FAR_KEY_LEN + 1];

    if (r->far == w->far)
        return !in->far && strcmp(in->key, w->key) == 0;
    hex_decode(key, w->key, sizeof(key));
    far_key_grant(secret, key, &g);
    *hex_encode(digits, secret, sizeof(secret)) = '\0';
    return in->far && in->reader == r->number && strcmp(in->key, digits) == 0;
}

/* The least number of a writer that is there. */
static uint64_t oldest(const struct streams_member *r)
{
    uint64_t least = UINT64_MAX;
    size_t pos = 0;
    void *val;

    while (hmap_next(r->seen, &pos, NULL, NULL, &val)) {
        const struct streams_seen *seen = val;

        if (!seen->gone && !seen->again && seen->number < least)
            least = seen->number;
    }
    return least;
}

/* Another writer has joined: a former one of its rank has left, and others that are there are of
 * the same run. */
static void take_beside(struct streams_member *r, const struct streams_member *w,
                        const struct stream_member *in)
{
    bool anew = strcmp(w->start, "anew") == 0;
    uint64_t group = oldest(r);
    size_t pos = 0;
    void *val;

    if (in->run < r->in_run)
        streams_fail(r, "was told of an earlier run than before by", w);
    while (hmap_next(r->seen, &pos, NULL, NULL, &val)) {
        struct streams_seen *former = val;
        bool there = !former->gone && !former->again;

        if (former->w->rank == w->rank && there)
            streams_fail(r, "was told of a second writer of a rank:", w);
        if (former->w->rank == w->rank &&
            (in->epoch <= former->epoch || in->epoch <= former->beside))
            streams_fail(r, "was told of an epoch in which another one of its rank was there:", w);
        if (former->w->rank == w->rank && anew && former->number > group)
            streams_fail(r,
                         "was told of one that has begun anew while others of its group write:", w);
        if (there && former->w->run != in->run)
            streams_fail(r, "was told of another run than that of those who are there:", w);
        if (there && former->beside < in->epoch)
            former->beside = in->epoch;
    }
}

/* It is the same for every reader, and for the writer. */
static void take_run(const struct streams_member *r, struct streams_member *w,
                     const struct stream_member *in)
{
    bool same = !w->named || w->run == in->run;

    if (!r->ss->reloads && (!same || (w->epoch > 0 && w->epoch != in->epoch)))
        streams_fail(r, "was told of another run or epoch than others were:", w);
    w->run = in->run;
    w->named = true;
    if (w->epoch == 0)
        w->epoch = in->epoch;
}

/* A writer has joined. */
static void take_writer(struct streams_member *r, const struct stream_member *in, uint32_t size)
{
    struct streams_member *w = writer_by_address(r, in->address);
    struct streams_seen *seen;

    if (!w || in->rank != w->rank) {
        streams_fail(r, "was told of a writer that there is not", w);
        return;
    }
    if (size != w->size)
        streams_fail(r, "was told another number of writers than that of", w);
    if (!admits(r, w, in))
        streams_fail(r, "is not admitted by what it was told of", w);
    take_run(r, w, in);
    seen = hmap_get_u64(r->seen, w->serial);
    if (seen && seen->again && seen->number == in->writer) {
        seen->again = false;
        r->last = in->writer;
        return;
    }
    if (!r->ss->reloads && (seen || in->writer <= r->last))
        streams_fail(r, seen ? "was told twice of" : "was told late of", w);
    r->last = in->writer;
    if (!r->ss->reloads)
        take_beside(r, w, in);
    r->in_run = in->run;
    if (!seen && (seen = calloc(1, sizeof(*seen))) && hmap_put_u64(r->seen, w->serial, seen) < 0) {
        free(seen);
        seen = NULL;
    }
    if (seen)
        *seen = (struct streams_seen){
            .w = w, .number = in->writer, .told = ++r->ntold, .off = r->off, .epoch = in->epoch};
}

/* Two instances of the module may have given a number: the later one counts. */
static struct streams_seen *seen_by_number(const struct streams_member *r, uint64_t number)
{
    struct streams_seen *found = NULL;
    size_t pos = 0;
    void *val;

    while (hmap_next(r->seen, &pos, NULL, NULL, &val)) {
        struct streams_seen *seen = val;

        if (seen->number == number && (!found || seen->told > found->told))
            found = seen;
    }
    return found;
}

/* A writer has left, or it is told once more why. */
static void take_gone(struct streams_member *r, const struct stream_gone *in)
{
    struct streams_seen *seen = seen_by_number(r, in->writer);
    bool closed = strstr(in->why, "has closed its end");

    if (!seen) {
        /* The second notice may reach who has joined after the first one. */
        if (!strstr(in->why, "of writer job") && !r->ss->reloads)
            streams_fail(r, "was told of the end of a writer that it does not know", NULL);
        return;
    }
    if (seen->gone && !seen->more && !r->ss->reloads)
        streams_fail(r, "was told twice of the end of", seen->w);
    if (closed && !seen->w->closed)
        streams_fail(r, "was told that it has closed its end:", seen->w);
    if (!closed && seen->w->closed && !seen->w->client->gone && r->ss->s->faults == 0 &&
        !r->ss->removed[r->stream])
        streams_fail(r, "was told that it has died:", seen->w);
    if (!closed && streams_in(seen->w) && r->ss->s->faults == 0 && !r->ss->removed[r->stream])
        streams_fail(r, "was told of the end of what is there:", seen->w);
    seen->gone = true;
    seen->more = in->more;
}

static void read_cb(flux_future_t *f, void *arg)
{
    struct streams_member *r = arg;
    struct stream_members ms;
    struct stream_member m;
    struct stream_gone g;
    errmsg_t err;
    json_t *item;
    size_t i;

    if (flux_rpc_get_struct(f, &stream_members_schema, &ms, &err) < 0) {
        request_ended(r, errno);
        return;
    }
    if (!r->told)
        r->heard = sim_now(r->ss->s);
    r->told = r->answered = true;
    r->off = ms.off;
    json_array_foreach(ms.gone, i, item)
    {
        if (flux_schema_decode_json(&stream_gone_schema, item, &g, &err) == 0)
            take_gone(r, &g);
        else
            sim_fail(r->ss->s, "the end of a writer cannot be read: %s", err.text);
    }
    json_array_foreach(ms.writers, i, item)
    {
        if (flux_schema_decode_json(&stream_member_schema, item, &m, &err) == 0)
            take_writer(r, &m, ms.size);
        else
            sim_fail(r->ss->s, "a writer cannot be read: %s", err.text);
    }
    flux_future_next(f);
}

/* --- requests --- */

static struct streams_member *member_add(struct streams *ss, struct sim_ep *client, unsigned stream)
{
    struct streams_member *m = sim_alloc(ss->s, sizeof(*m));

    *m = (struct streams_member){.next = ss->members, .ss = ss, .client = client};
    m->serial = ++ss->nmembers;
    m->stream = stream;
    m->asked = sim_now(ss->s);
    m->far = rng_chance(&ss->s->rng, 0.3);
    ss->members = m;
    return m;
}

static bool ask(struct streams_member *m)
{
    m->answered = false;
    m->f = flux_rpc(m->client->h, m->writer ? "stream.write" : "stream.read", m->request,
                    FLUX_NODEID_ANY, FLUX_MSGF_STREAMING | FLUX_MSGF_IDEMPOTENT);
    if (m->f && flux_future_then(m->f, -1., m->writer ? written_cb : read_cb, m) == 0)
        return true;
    sim_fail(m->ss->s, "a request could not be sent: %s", strerror(errno));
    return false;
}

static struct streams_member *sent(struct streams_member *m, const struct flux_schema *desc,
                                   const void *in)
{
    m->request = flux_schema_encode(desc, in);
    return ask(m) ? m : NULL;
}

struct streams_member *streams_write(struct streams *ss, struct sim_ep *client, unsigned stream,
                                     uint32_t rank, const char *start)
{
    struct streams_member *m = member_add(ss, client, stream);
    unsigned char key[FAR_KEY_LEN];
    char address[16], far[16];
    struct stream_write in = {.name = names[stream],
                              .rank = rank,
                              .size = ss->size[stream],
                              .host = "host",
                              .place = m->far ? "there" : "here",
                              .address = address,
                              .far = far,
                              .key = m->key,
                              .launched = rng_chance(&ss->s->rng, 0.3),
                              .start = start};

    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (unsigned char)rng_next(&ss->s->rng);
    *hex_encode(m->key, key, sizeof(key)) = '\0';
    snprintf(address, sizeof(address), "w%u", m->serial);
    snprintf(far, sizeof(far), "t%u", m->serial);
    in.job = rng_chance(&ss->s->rng, 0.3) ? 1 : 0;
    m->writer = true;
    m->rank = rank;
    m->size = in.size;
    m->job = in.job;
    m->launched = in.launched;
    m->start = start;
    m->demands = hmap_create_u64(free);
    return sent(m, &stream_write_schema, &in);
}

struct streams_member *streams_read(struct streams *ss, struct sim_ep *client, unsigned stream)
{
    struct streams_member *m = member_add(ss, client, stream);
    char onoff[24] = "";
    struct stream_read in = {.name = names[stream],
                             .place = m->far ? "there" : "here",
                             .host = "host",
                             .pid = m->serial,
                             .onoff = onoff};

    m->number = in.reader = rng_next(&ss->s->rng) >> 12;
    m->shares = rng_chance(&ss->s->rng, client == ss->controller ? 0.5 : 0.2);
    m->stay = in.stay = m->shares || rng_chance(&ss->s->rng, 0.3);
    m->joined = m->policy = in.policy = m->shares ? group : streams_policy(ss->s);
    m->onoff = !m->shares && rng_chance(&ss->s->rng, 0.4)
                   ? 1 + rng_below(&ss->s->rng, STREAMS_SWITCHES)
                   : 0;
    if (client == ss->controller)
        ss->shared[stream] = m->shares;
    else
        ss->shares[stream] |= m->shares;
    if (m->onoff)
        snprintf(onoff, sizeof(onoff), "switch-%u", m->onoff - 1);
    m->seen = hmap_create_u64(free);
    return sent(m, &stream_read_schema, &in);
}

void streams_close(struct streams_member *m)
{
    if (m->client->gone || m->over || m->closed)
        return;
    m->closed = true;
    if (m->writer && m->told)
        m->ss->most[m->stream][m->rank] = m->step + 1;
    note_end(m);
    flux_future_destroy(m->f);
    m->f = NULL;
}

static void counted_cb(flux_future_t *f, void *arg)
{
    struct streams_member *w = arg;
    const struct streams *ss = w->ss;
    int errnum = flux_future_errnum(f);

    w->counting = false;
    if (errnum == 0)
        w->counted = w->step;
    else if (errnum == ENOENT && ss->s->faults == 0 && !ss->reloads && !ss->removed[w->stream] &&
             !w->closed)
        streams_fail(w, "is not known to the module, though it is there", NULL);
    flux_future_destroy(f);
}

void streams_count(struct streams_member *m)
{
    struct stream_count c = {.name = names[m->stream], .writer = m->id};
    struct stream_took t = {.name = names[m->stream], .reader = m->number, .run = m->in_run};
    flux_future_t *f;

    if (!streams_in(m))
        return;
    if (!m->writer) {
        t.step = rng_below(&m->ss->s->rng, 100);
        flux_future_destroy(flux_rpc_struct(m->client->h, "stream.took", &stream_took_schema, &t,
                                            FLUX_NODEID_ANY, FLUX_MSGF_NORESPONSE));
        return;
    }
    if (m->counting)
        return;
    m->counting = true;
    m->step += rng_range(&m->ss->s->rng, 1, 10);
    c.step = m->step;
    m->need += rng_below(&m->ss->s->rng, (uint32_t)(m->step - m->need) + 1);
    c.need = m->need;
    m->ss->most[m->stream][m->rank] = m->need + 1;
    c.queues = json_array();
    f = flux_rpc_struct(m->client->h, "stream.count", &stream_count_schema, &c, FLUX_NODEID_ANY, 0);
    json_decref(c.queues);
    if (!f || flux_future_then(f, -1., counted_cb, m) < 0)
        sim_fail(m->ss->s, "a count could not be sent: %s", strerror(errno));
}

void streams_free(struct streams *ss)
{
    for (struct streams_member *m = ss->members; m; m = m->next) {
        hmap_destroy(m->demands);
        hmap_destroy(m->seen);
        free(m->request);
    }
    hmap_destroy(ss->epochs);
}
