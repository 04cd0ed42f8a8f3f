/* scen_streams.c - the module `stream`, with writers and readers of some streams at random ranks.
 *
 * They join, leave and die; streams are paused, throttled, removed, policies and switches are
 * changed, the module is reloaded, brokers and links fail, and brokers return.  The data of streams
 * do not pass the session, so there are none.  Writers take the places of others, some of them as
 * soon as these have left; they continue the stream, or begin it anew; when no writer is there, the
 * next group may be of another size.  Some readers stay, and some of these are members of a group:
 * then writers count what the group needs of them, and those that take their places must not begin
 * above it.  What everybody must be told is in streams_member.c, and what they must know in the end
 * in streams_proof.c; when nothing happens any more, everybody must know what is, a place that
 * nobody has can be taken, and when all have left, nothing is kept.
 *
 * In three of ten seeds brokers are lost because nobody hears them for a while (absent.c), and all
 * of that takes longer.  In half of these, events have connections of their own, which may fall
 * silent alone.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streams.h"

#define ACTIONS 150
#define SPAN (3 * SIM_S) /* in which they happen */
#define LONGER 20        /* with absences: that is this many times longer */
#define ABSENCES 6
#define MEMBERS_MAX 120 /* that are there at a time */

/* --- what is done --- */

static struct sim_ep *client_new(struct streams *ss)
{
    sim_t *s = ss->s;
    uint32_t rank = sim_random_alive(s);

    if (core_state(s->nodes[rank].core) != CORE_RUN)
        rank = 0;
    return sim_client_add(s, rank, "process");
}

/* A client of its own, or one that is another member already. */
static struct sim_ep *client_for(struct streams *ss, unsigned stream)
{
    for (struct streams_member *m = ss->members; m; m = m->next) {
        if (m->stream == stream && streams_in(m) && m->client != ss->controller &&
            rng_chance(&ss->s->rng, 0.05))
            return m->client;
    }
    return client_new(ss);
}

/* Any writer or reader that is there; NULL. */
static struct streams_member *any(struct streams *ss, bool writer)
{
    struct streams_member *found = NULL;
    uint32_t n = 0;

    for (struct streams_member *m = ss->members; m; m = m->next) {
        if (m->writer == writer && streams_in(m) && !m->away && m->client != ss->controller &&
            rng_below(&ss->s->rng, ++n) == 0)
            found = m;
    }
    return found;
}

static const char *start(struct streams *ss)
{
    static const char *const starts[] = {"append", "append", "anew", ""};

    return starts[rng_below(&ss->s->rng, sizeof(starts) / sizeof(starts[0]))];
}

static bool taken(const struct streams *ss, unsigned stream, uint32_t rank)
{
    for (struct streams_member *m = ss->members; m; m = m->next) {
        if (m->writer && m->stream == stream && m->rank == rank && !m->over && !m->closed &&
            !m->client->gone)
            return true;
    }
    return false;
}

static bool written(const struct streams *ss, unsigned stream)
{
    for (uint32_t rank = 0; rank < ss->size[stream]; rank++) {
        if (taken(ss, stream, rank))
            return true;
    }
    return false;
}

/* The next group is of any size. */
static void resize(struct streams *ss, unsigned stream)
{
    ss->size[stream] = rng_range(&ss->s->rng, 1, STREAMS_RANKS);
    memset(ss->most[stream], 0, sizeof(ss->most[stream]));
}

static void join(struct streams *ss, bool writer)
{
    sim_t *s = ss->s;
    unsigned stream = rng_below(&s->rng, STREAMS);
    uint32_t rank;

    if (writer && !written(ss, stream) && rng_chance(&s->rng, 0.3))
        resize(ss, stream);
    rank = rng_below(&s->rng, ss->size[stream]);
    if (!writer)
        streams_read(ss, client_for(ss, stream), stream);
    else if (!taken(ss, stream, rank) || rng_chance(&s->rng, 0.1))
        streams_write(ss, client_for(ss, stream), stream, rank, start(ss));
}

static void end(struct streams *ss, struct streams_member *m)
{
    if (rng_chance(&ss->s->rng, 0.5)) {
        streams_close(m);
    } else {
        sim_trace_add(ss->s, 12, m->serial);
        sim_client_remove(m->client);
    }
}

static void leave(struct streams *ss, bool writer)
{
    struct streams_member *m = any(ss, writer);

    if (m)
        end(ss, m);
}

/* The next writer of a rank comes at once. */
static void replace(struct streams *ss)
{
    struct streams_member *w = any(ss, true);

    if (!w)
        return;
    end(ss, w);
    streams_write(ss, w->closed ? w->client : client_new(ss), w->stream, w->rank, start(ss));
}

/* --- control --- */

/* A change that the controller has asked for. */
struct change {
    struct streams *ss;
    unsigned stream;
    void (*done)(struct change *c);
    struct streams_member *reader;
    bool on;
    double limit;
    const char *policy;
    int64_t asked;
};

static void changed_cb(flux_future_t *f, void *arg)
{
    struct change *c = arg;
    struct streams *ss = c->ss;
    int errnum = flux_future_errnum(f);

    ss->answers--;
    ss->control[c->stream] = false;
    if (errnum == 0)
        c->done(c);
    else if (errnum != ENOENT)
        sim_fail(ss->s, "a change of stream %s was refused: %s", streams_name(c->stream),
                 flux_future_error(f));
    flux_future_destroy(f);
}

static void ask(struct change *c, const char *topic, const struct flux_schema *schema,
                const void *in)
{
    struct streams *ss = c->ss;
    flux_future_t *f = flux_rpc_struct(ss->controller->h, topic, schema, in, FLUX_NODEID_ANY, 0);

    ss->answers++;
    ss->control[c->stream] = true;
    if (!f || flux_future_then(f, -1., changed_cb, c) < 0)
        sim_fail(ss->s, "a change could not be asked for: %s", strerror(errno));
}

static struct change *change_new(struct streams *ss, unsigned stream, void (*done)(struct change *))
{
    struct change *c = sim_alloc(ss->s, sizeof(*c));

    *c = (struct change){.ss = ss, .stream = stream, .done = done, .asked = sim_now(ss->s)};
    return c;
}

static void pause_done(struct change *c)
{
    c->ss->paused[c->stream] = c->on;
}

static void pause_stream(struct streams *ss, unsigned stream)
{
    struct change *c = change_new(ss, stream, pause_done);

    c->on = rng_chance(&ss->s->rng, 0.5);
    ask(c, "stream.pause", &stream_pause_schema,
        &(struct stream_pause){streams_name(stream), c->on});
}

static void throttle_done(struct change *c)
{
    c->ss->limit[c->stream] = c->limit;
}

static void throttle(struct streams *ss, unsigned stream)
{
    struct change *c = change_new(ss, stream, throttle_done);

    c->limit = rng_below(&ss->s->rng, 4) * 2.5;
    ask(c, "stream.throttle", &stream_throttle_schema,
        &(struct stream_throttle){streams_name(stream), c->limit});
}

static void policy_done(struct change *c)
{
    c->reader->policy = c->policy;
}

static void set_policy(struct streams *ss, struct streams_member *r)
{
    struct change *c = change_new(ss, r->stream, policy_done);

    c->reader = r;
    c->policy = streams_policy(ss->s);
    ask(c, "stream.policy", &stream_policy_schema,
        &(struct stream_policy){streams_name(r->stream), r->number, c->policy});
}

static void remove_done(struct change *c)
{
    for (struct streams_member *m = c->ss->members; m; m = m->next) {
        if (m->stream == c->stream && streams_in(m) && m->heard < c->asked)
            m->removed = true;
    }
}

/* A stream with a member that is away, or any. */
static unsigned to_remove(struct streams *ss)
{
    for (struct streams_member *m = ss->members; m; m = m->next) {
        if (m->away && streams_in(m) && !ss->anchored[m->stream])
            return m->stream;
    }
    return rng_below(&ss->s->rng, STREAMS);
}

static void remove_stream(struct streams *ss, unsigned stream)
{
    ss->removed[stream]++;
    ask(change_new(ss, stream, remove_done), "stream.remove", &stream_name_schema,
        &(struct stream_name){streams_name(stream)});
}

static void turned_cb(flux_future_t *f, void *arg)
{
    struct streams *ss = arg;

    ss->answers--;
    ss->turning = false;
    if (flux_future_errnum(f))
        sim_fail(ss->s, "a switch could not be turned: %s", flux_future_error(f));
    flux_future_destroy(f);
}

static void turn(struct streams *ss, unsigned onoff)
{
    char json[64];
    flux_future_t *f;

    ss->on[onoff] = rng_chance(&ss->s->rng, 0.5);
    ss->turning = true;
    ss->answers++;
    snprintf(json, sizeof(json), "{\"name\":\"switch-%u\",\"on\":%s}", onoff,
             ss->on[onoff] ? "true" : "false");
    f = flux_event_publish(ss->controller->h, "stream.switch", json);
    if (!f || flux_future_then(f, -1., turned_cb, ss) < 0)
        sim_fail(ss->s, "a switch could not be turned: %s", strerror(errno));
}

static void control(struct streams *ss)
{
    unsigned stream = rng_below(&ss->s->rng, STREAMS);
    struct streams_member *r = any(ss, false);

    switch (rng_below(&ss->s->rng, 5)) {
    case 0:
        if (!ss->control[stream])
            pause_stream(ss, stream);
        break;
    case 1:
        if (!ss->control[stream])
            throttle(ss, stream);
        break;
    case 2:
        if (r && !r->shares && !ss->control[r->stream])
            set_policy(ss, r);
        break;
    case 3:
        if (!ss->turning)
            turn(ss, rng_below(&ss->s->rng, STREAMS_SWITCHES));
        break;
    default:
        stream = to_remove(ss);
        if (!ss->control[stream] && !ss->anchored[stream] && rng_chance(&ss->s->rng, 0.5))
            remove_stream(ss, stream);
    }
}

static void reload(void *arg, void *data)
{
    struct streams *ss = arg;
    struct sim_ep *module = sim_module_find(ss->s, 0, "stream");

    if (!module || ss->answers > 0) {
        sim_at(ss->s, sim_now(ss->s) + 10 * SIM_MS, reload, ss, NULL);
        return;
    }
    ss->reloads++;
    ss->reloaded = sim_now(ss->s);
    memset(ss->paused, 0, sizeof(ss->paused));
    memset(ss->limit, 0, sizeof(ss->limit));
    sim_module_stop(module, true);
}

static void act(void *arg, void *data)
{
    struct streams *ss = arg;
    uint32_t what = rng_below(&ss->s->rng, 100);
    unsigned there = 0;

    streams_note(ss);
    for (struct streams_member *m = ss->members; m; m = m->next)
        there += streams_in(m);
    if (what < 50 && there < MEMBERS_MAX)
        join(ss, what < 30);
    else if (what < 66)
        leave(ss, what < 60);
    else if (what < 72)
        replace(ss);
    else if (what < 85)
        control(ss);
    else if (any(ss, what < 95))
        streams_count(any(ss, what < 95));
}

/* --- the run --- */

static int64_t settling(const sim_t *s)
{
    return (int64_t)(2. * s->cfg.heal * 1e9) + 5 * SIM_S + sim_max_delay(s) * 8 * s->cfg.size;
}

static bool all_answered(sim_t *s, void *arg)
{
    return ((struct streams *)arg)->answers == 0;
}

static void wait_answers(struct streams *ss)
{
    if (!sim_run_until(ss->s, all_answered, ss, settling(ss->s)))
        sim_fail(ss->s, "%u changes of streams are not answered", ss->answers);
}

/* Everything is set anew, so that it is known how it is. */
static void set_all(struct streams *ss)
{
    wait_answers(ss);
    for (unsigned i = 0; i < STREAMS && !ss->s->failed; i++) {
        pause_stream(ss, i);
        throttle(ss, i);
    }
    for (unsigned i = 0; i < STREAMS_SWITCHES && !ss->s->failed; i++)
        turn(ss, i);
    for (unsigned i = 0; i < 4 && !ss->s->failed; i++) {
        struct streams_member *r = any(ss, false);

        wait_answers(ss);
        if (r && !r->shares && streams_in(r))
            set_policy(ss, r);
    }
    wait_answers(ss);
    sim_run_for(ss->s, settling(ss->s));
}

/* A rank that nobody has can be taken. */
static void take_all(struct streams *ss)
{
    for (unsigned i = 0; i < STREAMS && !ss->s->failed; i++) {
        for (uint32_t rank = 0; rank < ss->size[i]; rank++) {
            struct streams_member *w = NULL;

            if (!taken(ss, i, rank))
                w = streams_write(ss, sim_client_add(ss->s, 0, "last"), i, rank, "append");
            if (w)
                sim_run_for(ss->s, 10 * SIM_MS + sim_max_delay(ss->s));
            if (w && !w->told)
                sim_fail(ss->s, "rank %u of stream %s, which nobody has, cannot be taken", rank,
                         streams_name(i));
        }
    }
    /* They are there from the beginning of a stream, or learn from it how that is. */
    set_all(ss);
}

static void stats_cb(flux_future_t *f, void *arg)
{
    struct streams *ss = arg;
    struct stream_stats st;
    errmsg_t err;

    ss->answers--;
    if (flux_rpc_get_struct(f, &stream_stats_schema, &st, &err) < 0)
        sim_fail(ss->s, "the module cannot be asked: %s", err.text);
    else if (st.streams > 0 || st.writers > 0 || st.readers > 0)
        sim_fail(ss->s,
                 "all have left, and %" PRIu64 " streams, %" PRIu64 " writers and %" PRIu64
                 " readers are kept",
                 st.streams, st.writers, st.readers);
    flux_future_destroy(f);
}

/* All leave, one way or the other. */
static void leave_all(struct streams *ss)
{
    sim_t *s = ss->s;
    flux_future_t *f;

    for (struct streams_member *m = ss->members; m && !s->failed; m = m->next) {
        if (m->over || m->closed || m->client->gone)
            continue;
        if (m->client == ss->controller || rng_chance(&s->rng, 0.5))
            streams_close(m);
        else
            sim_client_remove(m->client);
    }
    sim_run_for(s, settling(s));
    if (s->failed)
        return;
    ss->answers++;
    f = flux_rpc(ss->controller->h, "stream.stats", NULL, FLUX_NODEID_ANY, 0);
    if (!f || flux_future_then(f, -1., stats_cb, ss) < 0)
        sim_fail(s, "out of memory");
    wait_answers(ss);
}

static int64_t span(const sim_t *s)
{
    return SPAN * (s->cfg.live ? LONGER : 1);
}

static void streams_begin(struct streams *ss)
{
    sim_t *s = ss->s;
    bool faults = rng_chance(&s->rng, 0.6);
    bool reloads = rng_chance(&s->rng, 0.2);
    double within = (double)span(s);

    ss->controller = sim_client_add(s, 0, "controller");
    ss->epochs = hmap_create_u64(NULL);
    for (unsigned i = 0; i < STREAMS; i++) {
        ss->size[i] = i == 0 ? 1 : rng_range(&s->rng, 1, STREAMS_RANKS);
        if ((ss->anchored[i] = rng_chance(&s->rng, 0.5)))
            streams_read(ss, ss->controller, i);
    }
    for (unsigned i = 0; i < ACTIONS; i++)
        sim_at(s, sim_now(s) + (int64_t)(rng_real(&s->rng) * within), act, ss, NULL);
    if (faults)
        sim_faults(s, FAULT_ALL, rng_range(&s->rng, 1, 6), span(s));
    if (s->cfg.live)
        sim_absences(s, rng_range(&s->rng, 1, ABSENCES), span(s));
    if ((faults || s->cfg.live) && rng_chance(&s->rng, 0.5))
        sim_returns(s, span(s));
    for (unsigned i = reloads ? rng_range(&s->rng, 1, 2) : 0; i > 0; i--)
        sim_at(s, sim_now(s) + (int64_t)(rng_real(&s->rng) * within), reload, ss, NULL);
}

static void streams_run(sim_t *s)
{
    struct streams *ss = sim_alloc(s, sizeof(*ss));

    if (!sim_boot(s))
        return;
    ss->s = s;
    streams_begin(ss);
    sim_run_for(s, span(s));
    if (s->cfg.live)
        sim_all_back(s);
    streams_note(ss);
    /* The notice that a client has ended may be lost with a broker: then it is removed later. */
    sim_run_for(s, settling(s) + (s->faults > 0 ? STREAMS_AWAY_MAX : 0));
    if (!s->failed)
        set_all(ss);
    if (!s->failed)
        streams_check(ss);
    if (!s->failed)
        take_all(ss);
    if (!s->failed)
        streams_check(ss);
    if (!s->failed)
        leave_all(ss);
    sim_check_quiet(s);
    streams_free(ss);
}

static void streams_tune(struct sim_config *cfg, struct rng *rng)
{
    cfg->modules |= SIM_MOD_STREAM;
    cfg->heal = rng_chance(rng, 0.5) ? 5. : 0.;
    if (cfg->size > 256)
        cfg->size = 256;
    if (rng_chance(rng, 0.3)) {
        sim_tune_absences(cfg, rng);
        cfg->event_lines = rng_chance(rng, 0.5);
    }
}

const struct scenario scenario_streams = {
    "streams", "writers and readers of streams are told who is there, and nothing is kept",
    streams_run, streams_tune};
