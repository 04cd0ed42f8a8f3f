/* coord.c - the coordinator's side of the requests of the job module, at rank 0.
 *
 * Purpose: start and signal the jobs that the job module names, and report their ends to it on one
 * stream (wrexec.jobs).
 *
 * Invariants:
 *  1. A launch waits if it arrives before the shape of the tree is known, or while its nodes are
 *     asked which of them share a host (coord_hosts.c).  All launches and signals that arrive
 *     during this time wait behind it, in the order of arrival.  A launch of many jobs is done in
 *     slices (libflux/slice.h); launches and signals that arrive between two slices wait, too.
 *  2. Reports are collected in arrays and sent as one response at the end of the pass, or earlier
 *     when ENDED_MAX of them have been collected.  While the job module does not have a stream open
 *     (it is being reloaded), the reports wait here: all ends, and up to RAISE_MAX messages about
 *     jobs.
 *  3. The first response on a stream lists the jobs that run, for a job module or a coordinator
 *     that has lost its memory.  It also repeats the ends of the last jobs (PAST_MAX bytes),
 *     because a job module that was being reloaded may have missed them.  Messages about jobs are
 *     not repeated: an end names the type of the failure, so that it does not need the message
 *     that a node was lost.
 *  4. Every request gets an answer: wrexec.launch and wrexec.kill once they have been handled, or
 *     EAGAIN if there is no room for them; the job module then sends them again.
 *
 * Failure: a job that cannot be started counts as ended, with exit code 126 and an error message.
 * A malformed launch message is refused and logged.  A job that the job module considers as
 * running, but that the first response of its next stream does not list, is dead.
 */
#include "config.h"
#include "coord.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/slice.h"
#include "libutil/le.h"

#define WAITING_MAX 65536
#define ENDED_MAX \
    10000 /* in one message: a number and a code each, which cost the same for every job */
#define RAISE_MAX 1024 /* messages kept while the job module does not have a stream open */
#define REFUSED_CODE 126
#define PAST_MAX (256u << 10) /* bytes of ends that are kept: about 3000 ends */

/* A message that has reported ends of jobs. */
struct past {
    struct list_node node;
    size_t len;
    char json[];
};

/* A request that may have to wait, and the function that handles it. */
struct waiting {
    struct list_node node;
    bool (*fn)(struct coord *r, struct waiting *w); /* false: to be called again later */
    const flux_msg_t *msg;
    flux_msg_t *kept;     /* reference to the request while it waits */
    size_t pos;           /* launch: place of the first record that is not handled */
    struct launchrec rec; /* launch: the record before it, whose environment it may share */
    bool now;             /* it must not wait any longer */
};

static bool launch(struct coord *r, struct waiting *w);

/* --- reports to the job module --- */

static void past_drop(struct coord *r, struct past *t)
{
    list_remove(&t->node);
    r->past_bytes -= t->len;
    free(t);
}

static void past_clear(struct coord *r)
{
    struct list_node *n;

    while ((n = list_first(&r->past)))
        past_drop(r, list_entry(n, struct past, node));
}

static void past_keep(struct coord *r, const char *json)
{
    size_t len = strlen(json) + 1;
    struct past *t = malloc(sizeof(*t) + len);

    if (!t)
        return;
    t->len = len;
    memcpy(t->json, json, len);
    list_append(&r->past, &t->node);
    r->past_bytes += len;
    while (r->past_bytes > PAST_MAX && list_first(&r->past) != &t->node)
        past_drop(r, list_entry(list_first(&r->past), struct past, node));
}

/* Return the ends of the last jobs, both reported and not yet reported, or NULL if there are
 * none. */
static json_t *last_ends(const struct coord *r)
{
    json_t *all = json_array();

    LIST_FOREACH(it, &r->past)
    {
        json_t *m = json_loads(list_entry(it, struct past, node)->json, 0, NULL);

        json_array_extend(all, json_object_get(m, "ended"));
        json_decref(m);
    }
    if (r->ended)
        json_array_extend(all, r->ended);
    if (json_array_size(all) > 0)
        return all;
    json_decref(all);
    return NULL;
}

static void tell(struct coord *r)
{
    struct wrexec_jobs m = {.ended = r->ended, .raise = r->raise};
    char *json;

    if (!r->jobs_req || (!m.ended && !m.raise))
        return;
    if (!(json = flux_schema_encode(&wrexec_jobs_schema, &m))) {
        flux_log(r->ctx->h, LOG_ERR, "no memory to tell how jobs ended: tried again");
        return;
    }
    flux_respond_more(r->ctx->h, r->jobs_req, json);
    if (m.ended)
        past_keep(r, json);
    free(json);
    json_decref(r->ended);
    json_decref(r->raise);
    r->ended = r->raise = NULL;
    window_reset(&r->window);
}

static void flusher_cb(flux_reactor_t *reactor, flux_watcher_t *w, int revents, void *arg)
{
    tell(arg);
}

static void gather(struct coord *r, json_t **array, json_t *entry)
{
    if (!entry || (!*array && !(*array = json_array())) ||
        json_array_append_new(*array, entry) < 0) {
        flux_log(r->ctx->h, LOG_ERR, "no memory to tell how a job ended");
        return;
    }
    if (window_add(&r->window, 0))
        tell(r);
    flux_watcher_start(r->flusher);
}

static void tell_ended(struct coord *r, struct wrexec_ended *e)
{
    e->t = flux_wall(r->ctx->h);
    gather(r, &r->ended, flux_schema_encode_json(&wrexec_ended_schema, e));
}

void coord_tell_ended(struct coord *r, struct coord_job *rj, const struct wrexec_result *res)
{
    struct wire_times times = exec_result_times(rj->j->result);
    struct wrexec_ended e = {.id = rj->j->id,
                             .attempt = rj->j->spec->w.attempt,
                             .code = res->code,
                             .text = res->text,
                             .type = rj->fail_lost ? "node-lost" : NULL,
                             .status = res->status,
                             .failed = res->failed,
                             .t_started = (double)times.started * 1e-6,
                             .t_exited = (double)times.exited * 1e-6,
                             .outputlost = rj->lost};

    tell_ended(r, &e);
}

static void tell_refused(struct coord *r, uint64_t id, const char *text)
{
    json_t *none = json_array();
    struct wrexec_ended e = {.id = id, .code = REFUSED_CODE, .text = text, .status = none};

    if (none)
        tell_ended(r, &e);
    json_decref(none);
    coord_clients_unknown(r->clients, id);
}

void coord_tell_raise(struct coord *r, uint64_t id, const char *type, int severity,
                      const char *note)
{
    const struct subjob *j = hmap_get_u64(r->ctx->jobs, id);
    struct wrexec_raise e = {.id = id,
                             .attempt = j ? j->spec->w.attempt : 0,
                             .type = type,
                             .severity = severity,
                             .note = note};

    if (!r->jobs_req && json_array_size(r->raise) >= RAISE_MAX) {
        if (r->unraised++ == 0)
            flux_log(r->ctx->h, LOG_ERR,
                     "the job module cannot be reached: messages about jobs are dropped from the "
                     "%dth on, the first one is of job %" PRIu64 ": %s",
                     RAISE_MAX + 1, id, note);
        return;
    }
    gather(r, &r->raise, flux_schema_encode_json(&wrexec_raise_schema, &e));
}

/* Add the jobs whose launches wait here: for the job module these jobs run, since it has asked for
 * them. */
static void add_waiting(const struct coord *r, json_t *running)
{
    LIST_FOREACH(it, &r->waiting)
    {
        const struct waiting *w = list_entry(it, struct waiting, node);
        struct launchrec rec = w->rec;
        size_t len, pos = w->pos;
        const void *data = flux_msg_payload(w->msg, &len);
        errmsg_t err;

        while (w->fn == launch && exec_launchrec_next(data, len, &pos, &rec, &err) == 1) {
            uint64_t id = 0;

            exec_spec_destroy(exec_spec_create(rec.json, rec.json_len, r->ctx->size, &id, &err));
            /* A job that will be refused is included: its end is reported when that happens. */
            if (id)
                json_array_append_new(running, json_integer((json_int_t)id));
        }
    }
}

void coord_jobs(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct coord *r = ctx->coord;
    struct wrexec_jobs m = {0};
    size_t pos = 0;
    char *json;
    void *val;

    if (!r || !flux_msg_has_flag(req, FLUX_MSGF_STREAMING)) {
        flux_respond_error(h, req, EINVAL, "wrexec.jobs is a streaming request to rank 0");
        return;
    }
    if (r->jobs_req) {
        flux_respond_error(h, r->jobs_req, ENODATA, "another has taken over");
        flux_msg_destroy(r->jobs_req);
    }
    r->jobs_req = flux_msg_incref(req);
    flux_msg_sender(req, r->jobs_sender, sizeof(r->jobs_sender));
    m.running = json_array();
    while (m.running && hmap_next(ctx->jobs, &pos, NULL, NULL, &val)) {
        const struct subjob *j = val;

        /* The end of a job that is in `over` has been reported, or is about to be. */
        if (j->rj && !j->rj->exec && !j->rj->parent && list_empty(&j->over))
            json_array_append_new(m.running, json_integer((json_int_t)j->id));
    }
    if (m.running)
        add_waiting(r, m.running);
    m.ended = last_ends(r);
    m.raise = r->raise;
    json = m.running ? flux_schema_encode(&wrexec_jobs_schema, &m) : NULL;
    if (json) {
        flux_respond_more(h, req, json);
        past_clear(r);
        if (m.ended)
            past_keep(r, json);
        json_decref(r->ended);
        json_decref(r->raise);
        r->ended = r->raise = NULL;
        if (r->unraised > 0)
            flux_log(h, LOG_ERR, "%" PRIu64 " messages about jobs were dropped", r->unraised);
        r->unraised = 0;
        window_reset(&r->window);
    } else {
        flux_respond_error(h, req, ENOMEM, "out of memory for the list of running jobs");
        flux_msg_destroy(r->jobs_req);
        r->jobs_req = NULL;
    }
    free(json);
    json_decref(m.running);
    json_decref(m.ended);
}

/* --- launches --- */

struct subjob *coord_start(struct coord *r, struct spec *spec, const struct launchrec *rec,
                           struct listener *l, errmsg_t *err)
{
    struct launchrec past = *rec;
    struct subjob *j = NULL;
    char *json = NULL;

    if (coord_hosts_tell(r->hosts, &spec, &past, &json, err) < 0)
        exec_spec_destroy(spec);
    else
        j = subjob_create(r->ctx, spec, err);
    if (!j) {
        free(json);
        return NULL;
    }
    if (!(j->rj = coord_job_create(r, j))) {
        errmsg_fail(err, ENOMEM, "no memory for a job");
        subjob_free(j);
        free(json);
        return NULL;
    }
    j->nonce = flux_random(r->ctx->h);
    if (l) {
        j->rj->l = l;
        l->rj = j->rj;
        l->id = j->id;
    }
    coord_clients_job(r->clients, j->rj);
    subjob_launch(j, j->ranks, &past);
    free(json);
    if (j->rj->l && !j->rj->l->input)
        (void)subjob_flow_stdin(j, j->input_end, NULL, 0);
    subjob_check(j);
    return j;
}

static bool launch(struct coord *r, struct waiting *w)
{
    struct ctx *ctx = r->ctx;
    struct launchrec *rec = &w->rec;
    struct flux_slice slice;
    const void *data;
    size_t len, pos = w->pos;
    errmsg_t err;
    int rc;

    data = flux_msg_payload(w->msg, &len);
    flux_slice_begin(&slice, flux_get_reactor(ctx->h), FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
    while ((rc = exec_launchrec_next(data, len, &pos, rec, &err)) == 1) {
        uint64_t id;
        struct spec *s;

        if (!flux_slice_more(&slice) && !w->now) {
            flux_watcher_start(r->more);
            return false;
        }
        s = exec_spec_create(rec->json, rec->json_len, ctx->size, &id, &err);
        if (s && !w->now && !coord_hosts_known(r->hosts, s)) {
            exec_spec_destroy(s);
            return false;
        }
        w->pos = pos;
        if (s && id >= JOB_EXEC_BIT) {
            errmsg_fail(&err, EINVAL, "id: %" PRIu64 " is too large", id);
            exec_spec_destroy(s);
        } else if (s && coord_start(r, s, rec, NULL, &err)) {
            continue;
        }
        if (id)
            tell_refused(r, id, err.text);
        else
            flux_log(ctx->h, LOG_ERR, "a job without id cannot be launched: %s", err.text);
    }
    if (rc < 0) {
        flux_log(ctx->h, LOG_ERR, "%s", err.text);
        flux_respond_error(ctx->h, w->msg, EPROTO, "%s", err.text);
    } else {
        flux_respond(ctx->h, w->msg, NULL);
    }
    return true;
}

static int wait_ready(struct coord *r, const struct waiting *req)
{
    struct waiting *w = r->nwaiting < WAITING_MAX ? calloc(1, sizeof(*w)) : NULL;

    if (!w)
        return -1;
    *w = *req;
    w->msg = w->kept = flux_msg_incref(req->msg);
    list_append(&r->waiting, &w->node);
    r->nwaiting++;
    return 0;
}

/* Handle a request at once, or when it is its turn. */
static void when_ready(struct coord *r, const flux_msg_t *req,
                       bool (*fn)(struct coord *r, struct waiting *w))
{
    struct waiting w = {.fn = fn, .msg = req};

    if (r->ctx->ready && list_empty(&r->waiting) && fn(r, &w))
        return;
    if (wait_ready(r, &w) == 0)
        return;
    if (w.pos > 0) { /* some of its jobs have been launched, so it must not be sent again */
        w.now = true;
        fn(r, &w);
        return;
    }
    flux_respond_error(r->ctx->h, req, EAGAIN,
                       "rank 0 is not ready to launch jobs yet, and too many requests wait");
}

void coord_launch(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;

    if (ctx->coord)
        when_ready(ctx->coord, req, launch);
    else
        flux_respond_error(h, req, EINVAL, "jobs are launched at rank 0, not at rank %u",
                           ctx->rank);
}

void coord_ready(struct coord *r)
{
    struct list_node *n;

    while (r->ctx->ready && (n = list_first(&r->waiting))) {
        struct waiting *w = list_entry(n, struct waiting, node);

        if (!w->fn(r, w))
            break;
        list_remove(n);
        r->nwaiting--;
        flux_msg_destroy(w->kept);
        free(w);
    }
    coord_execs_ready(r->runs);
}

static void more_cb(flux_reactor_t *reactor, flux_watcher_t *w, int revents, void *arg)
{
    coord_ready(arg);
}

/* --- other requests --- */

static void kill_one(struct coord *r, uint64_t id, int signum)
{
    struct subjob *j = hmap_get_u64(r->ctx->jobs, id);

    if (!j || !j->rj) {
        coord_clients_unknown(r->clients, id);
        return;
    }
    if (coord_job_over(j->rj))
        return;
    /* The first signal counts: a later SIGKILL may only mark the end of its grace period. */
    if (!j->rj->signaled && (signum == SIGTERM || signum == SIGKILL))
        j->rj->signaled = signum;
    if (signum == SIGKILL) {
        const struct listener *l = j->rj->l;
        bool again = j->killed;

        j->killed = true;
        /* A killed job does not wait for output without a client.  After the second SIGKILL it does
         * not wait for output that the client does not read either, since the client may be stopped
         * forever. */
        if (j->spec->output == SPEC_OUTPUT_CLIENT &&
            (!l || l->lost || (again && !coord_listener_room(l)))) {
            j->rj->gone = true;
            coord_job_signal(j->rj, signum);
            subjob_flow_flush(j);
            return;
        }
    }
    coord_job_signal(j->rj, signum);
}

static bool kill_all(struct coord *r, struct waiting *w)
{
    flux_t *h = r->ctx->h;
    const flux_msg_t *req = w->msg;
    struct wrexec_kill k;
    json_t *owner, *id;
    size_t i;

    if (flux_request_decode(h, req, &wrexec_kill_schema, &k, &owner) < 0)
        return true;
    if (k.signum <= 0 || k.signum >= _NSIG) {
        flux_respond_error(h, req, EINVAL, "%d is not a signal", k.signum);
    } else {
        json_array_foreach(k.ids, i, id)
        {
            if (json_is_integer(id))
                kill_one(r, (uint64_t)json_integer_value(id), k.signum);
        }
        flux_respond(h, req, "{}");
    }
    json_decref(owner);
    return true;
}

void coord_kill(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;

    if (ctx->coord)
        when_ready(ctx->coord, req, kill_all);
    else
        flux_respond_error(h, req, EINVAL, "jobs are ended at rank 0, not at rank %u", ctx->rank);
}

/* Return the listener of the job that the request names if it is from the same client, or NULL. */
static struct listener *client_of(const struct ctx *ctx, const uint8_t *data, const flux_msg_t *req)
{
    struct subjob *j = hmap_get_u64(ctx->jobs, le_get64(data));

    if (!j || !j->rj || !j->rj->l || !coord_listener_is(j->rj->l, req, le_get64(data + 8)))
        return NULL;
    return j->rj->l;
}

/* Take a piece of standard input from the client of the job. */
void coord_stdin(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct listener *l;
    size_t len;
    uint64_t pos;
    const uint8_t *data = flux_msg_payload(req, &len);

    if (len < WREXEC_STDIN_HEAD || len > WREXEC_STDIN_HEAD + WIRE_STDIN_WINDOW) {
        flux_respond_error(h, req, EPROTO, "standard input of %zu bytes in one message", len);
        return;
    }
    pos = le_get64(data + 16);
    if ((l = client_of(arg, data, req)) &&
        subjob_flow_stdin(l->rj->j, pos, data + WREXEC_STDIN_HEAD, len - WREXEC_STDIN_HEAD) < 0) {
        flux_respond_error(h, req, EPROTO,
                           "standard input from byte %" PRIu64 " on, but there are only %" PRIu64,
                           pos, l->rj->j->input_end);
        return;
    }
    /* The input of a job that has ended is discarded, like that of a task that has ended. */
    flux_respond(h, req, NULL);
}

/* Take credit for output. */
void coord_credit(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct listener *l;
    size_t len;
    const uint8_t *data = flux_msg_payload(req, &len);

    if (len != WREXEC_CREDIT_SIZE) {
        flux_respond_error(h, req, EPROTO, "credit in a message of %zu bytes", len);
        return;
    }
    if ((l = client_of(arg, data, req))) {
        coord_listener_credit(l, le_get64(data + 16), le_get64(data + 24));
        if (!coord_job_over(l->rj))
            subjob_flow_flush(l->rj->j);
    }
    flux_respond(h, req, NULL);
}

void coord_disconnect(struct coord *r, const flux_msg_t *notice, const char *sender,
                      uint32_t matchtag)
{
    if (!matchtag && flux_msg_has_flag(notice, FLUX_MSGF_IDEMPOTENT))
        coord_clients_away(r->clients, notice);
    else
        coord_clients_gone(r->clients, sender, matchtag);
    coord_execs_gone(r->runs, sender, matchtag);
    if (r->jobs_req && strcmp(sender, r->jobs_sender) == 0 &&
        (!matchtag || matchtag == flux_msg_matchtag(r->jobs_req))) {
        if (matchtag)
            flux_respond_error(r->ctx->h, r->jobs_req, ENODATA, "canceled");
        flux_msg_destroy(r->jobs_req);
        r->jobs_req = NULL;
    }
}

void coord_ranks_lost(struct coord *r, const idset_t *ranks)
{
    coord_clients_lost(r->clients, ranks);
}

/* --- reload --- */

static void save_array(const json_t *array, flux_handover_t *o)
{
    char *text = array ? json_dumps(array, JSON_COMPACT) : NULL;

    if (array && !text)
        flux_handover_fail(o, ENOMEM);
    flux_handover_put_str(o, text);
    free(text);
}

static json_t *load_array(flux_handover_t *o)
{
    const char *text = flux_handover_get_str(o);
    json_t *array = text ? json_loads(text, 0, NULL) : NULL;

    if (text && !json_is_array(array))
        flux_handover_fail(o, EPROTO);
    return array;
}

void coord_save(struct coord *r, flux_handover_t *o)
{
    flux_handover_put_mark(o, "root");
    flux_handover_put_msg(o, r->jobs_req);
    flux_handover_put(o, r->next_spawn);
    save_array(r->ended, o);
    save_array(r->raise, o);
    LIST_FOREACH(it, &r->past)
    flux_handover_put_str(o, list_entry(it, struct past, node)->json);
    flux_handover_put_str(o, NULL);
    LIST_FOREACH(it, &r->waiting)
    {
        const struct waiting *w = list_entry(it, struct waiting, node);

        flux_handover_put_msg(o, w->kept);
        flux_handover_put(o, w->fn == launch);
        flux_handover_put(o, w->pos);
    }
    flux_handover_put_msg(o, NULL);
    coord_execs_save(r->runs, o);
    coord_output_save(r->output, o);
    coord_hosts_save(r->hosts, o);
}

/* Skip the records of a launch that were handled before a reload. */
static int skip(struct waiting *w)
{
    errmsg_t err;
    size_t len, pos = 0;
    const void *data = flux_msg_payload(w->msg, &len);

    while (pos < w->pos)
        if (exec_launchrec_next(data, len, &pos, &w->rec, &err) <= 0)
            return -1;
    return pos == w->pos ? 0 : -1;
}

void coord_load(struct coord *r, flux_handover_t *o)
{
    const char *json;
    flux_msg_t *msg;

    flux_handover_get_mark(o, "root");
    if ((r->jobs_req = flux_handover_get_msg(o)))
        flux_msg_sender(r->jobs_req, r->jobs_sender, sizeof(r->jobs_sender));
    r->next_spawn = flux_handover_get(o, UINT64_MAX);
    r->ended = load_array(o);
    r->raise = load_array(o);
    while ((json = flux_handover_get_str(o)))
        past_keep(r, json);
    while ((msg = flux_handover_get_msg(o))) {
        struct waiting w = {.fn = flux_handover_get(o, 1) ? launch : kill_all, .msg = msg};

        w.pos = flux_handover_get(o, SIZE_MAX);
        if (skip(&w) < 0)
            flux_handover_fail(o, EPROTO);
        if (wait_ready(r, &w) < 0)
            flux_handover_fail(o, ENOMEM);
        flux_msg_destroy(msg);
    }
    coord_execs_load(r->runs, o);
    coord_output_load(r->output, o);
    coord_hosts_load(r->hosts, o);
    flux_watcher_start(r->flusher);
}

/* --- start and end --- */

struct coord *coord_create(struct ctx *ctx)
{
    struct coord *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    r->ctx = ctx;
    list_init(&r->waiting);
    list_init(&r->past);
    window_init(&r->window, (struct window_limits){.count = ENDED_MAX});
    r->flusher = flux_defer_create(flux_get_reactor(ctx->h), flusher_cb, r);
    r->more = flux_defer_create(flux_get_reactor(ctx->h), more_cb, r);
    r->output = coord_output_create(r);
    r->clients = coord_clients_create(r);
    r->runs = coord_execs_create(r);
    r->hosts = coord_hosts_create(r);
    if (!r->flusher || !r->more || !r->output || !r->clients || !r->runs || !r->hosts) {
        coord_destroy(r);
        errno = ENOMEM;
        return NULL;
    }
    return r;
}

void coord_destroy(struct coord *r)
{
    struct list_node *n;

    if (!r)
        return;
    while ((n = list_first(&r->waiting))) {
        struct waiting *w = list_entry(n, struct waiting, node);

        list_remove(n);
        flux_msg_destroy(w->kept);
        free(w);
    }
    if (r->jobs_req)
        flux_respond_error(r->ctx->h, r->jobs_req, ECONNABORTED, "the wrexec module was unloaded");
    flux_msg_destroy(r->jobs_req);
    json_decref(r->ended);
    json_decref(r->raise);
    past_clear(r);
    flux_watcher_destroy(r->flusher);
    flux_watcher_destroy(r->more);
    coord_hosts_destroy(r->hosts);
    coord_execs_destroy(r->runs);
    coord_clients_destroy(r->clients);
    coord_output_destroy(r->output);
    free(r);
}
