/* launcher.c - an emulated wrexec: jobs take time, and nothing is run.
 *
 * It says to the job module what wrexec says (libexec/wrexec_wire.h): wrexec.launch, wrexec.kill
 * and the stream wrexec.jobs.  The parts of that which clients use (output, standard input) are not
 * here, nor are the instances at other ranks: what happens to tasks there is decided at rank 0.
 *
 *    state      left by                                            then
 *    starting   a few milliseconds                                 running, or ended with 127 (f)
 *    running    TIME; SIGTERM (unless d), SIGKILL and a delay      ended
 *               the loss of one of its nodes and a delay           ended with 137 and a sentence
 *
 * The loss of a node raises the exception node-lost, as in wrexec, and a job that survives it goes
 * on as long as it has other nodes.
 *
 * Invariants:
 *  1. Each launch has exactly one end.
 *  2. What ended while nobody asks is kept, and reported to the next caller; so are the last ends,
 *     once more, as a module that takes over may not know them.
 *
 * Faults planted on purpose (launcher_ops.plant): an end that is not reported, a wrong exit code,
 * tasks that survive SIGKILL.
 */
#include "config.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher.h"
#include "libexec/exec_spec.h"
#include "libexec/wrexec_wire.h"
#include "libflux/overlay_wire.h"
#include "libutil/hmap.h"

#define TOLD_MAX 200

enum state { STARTING, RUNNING, ENDING };

struct run {
    launcher_t *x;
    uint64_t id;
    uint32_t attempt;
    bool survives; /* the loss of some of its nodes */
    idset_t *ranks;
    idset_t *lost; /* of these */
    flux_watcher_t *timer;
    enum state state;
    double t_launch;  /* virtual time */
    double t_started; /* the wall clock's; 0: not yet */
    double time;
    int code;
    char how[8];
    int signum;       /* that is ending it */
    const char *text; /* what is */
};

/* The last attempt of a job that is over. */
struct past {
    uint32_t attempt;
    double seconds;
};

struct launcher {
    flux_t *h;
    const struct launcher_ops *ops;
    void *arg;
    flux_handlers_t *handlers;
    flux_future_t *subscribed;
    flux_watcher_t *defer;
    flux_msg_t *stream;
    hmap_t *runs;
    json_t *ended, *raise; /* to be told */
    json_t *told;
    idset_t *down;
    hmap_t *ran; /* job -> struct past */
};

static void run_free(void *val)
{
    struct run *run = val;

    flux_watcher_destroy(run->timer);
    idset_destroy(run->ranks);
    idset_destroy(run->lost);
    free(run);
}

double launcher_ran(const launcher_t *x, uint64_t id)
{
    const struct past *p = hmap_get_u64(x->ran, id);

    return p ? p->seconds : -1.;
}

size_t launcher_running(const launcher_t *x)
{
    return hmap_count(x->runs);
}

static bool does(const struct run *run, char what)
{
    return strchr(run->how, what) != NULL;
}

static double delay(launcher_t *x, double max)
{
    return x->ops->delay ? x->ops->delay(x->arg, max) : 0.;
}

static bool planted(launcher_t *x, enum launcher_fault fault)
{
    return x->ops->plant && x->ops->plant(x->arg, fault);
}

/* --- telling --- */

static void tell_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    launcher_t *x = arg;
    struct wrexec_jobs m = {.ended = x->ended, .raise = x->raise};
    char *json;

    if (!x->stream || (!m.ended && !m.raise))
        return;
    if ((json = flux_schema_encode(&wrexec_jobs_schema, &m)))
        flux_respond_more(x->h, x->stream, json);
    free(json);
    json_array_extend(x->told, x->ended);
    while (json_array_size(x->told) > TOLD_MAX)
        json_array_remove(x->told, 0);
    json_decref(x->ended);
    json_decref(x->raise);
    x->ended = x->raise = NULL;
}

static void gather(launcher_t *x, json_t **list, json_t *entry)
{
    if (!*list)
        *list = json_array();
    json_array_append_new(*list, entry);
    flux_watcher_start(x->defer);
}

static void raise_note(const struct run *run, const char *type, int severity, const char *note)
{
    launcher_t *x = run->x;
    struct wrexec_raise r = {
        .id = run->id, .attempt = run->attempt, .type = type, .severity = severity, .note = note};

    gather(x, &x->raise, flux_schema_encode_json(&wrexec_raise_schema, &r));
}

static void keep_past(const struct run *run)
{
    launcher_t *x = run->x;
    struct past *p = malloc(sizeof(*p));

    hmap_del_u64(x->ran, run->id);
    if (!p)
        return;
    *p = (struct past){run->attempt, flux_now(x->h) - run->t_launch};
    if (hmap_put_u64(x->ran, run->id, p) < 0)
        free(p);
}

/* `status` as of wait(2); `text`: what ended it, when that was not the tasks. */
static void end(struct run *run, int status, int code, const char *text)
{
    launcher_t *x = run->x;
    double now = flux_wall(x->h);
    json_t *entry = json_array(), *list = json_array();
    struct wrexec_ended e = {.id = run->id,
                             .attempt = run->attempt,
                             .code = code,
                             .text = text,
                             .status = list,
                             .t = now};

    json_array_append_new(entry, json_integer(status));
    json_array_append_new(entry, json_string("0"));
    json_array_append_new(list, entry);
    if (run->t_started > 0) {
        e.t_started = run->t_started;
        e.t_exited = now;
    }
    e.outputlost = does(run, 'o') ? 100 : 0;
    if (!planted(x, LAUNCHER_LOST_END))
        gather(x, &x->ended, flux_schema_encode_json(&wrexec_ended_schema, &e));
    json_decref(list);
    keep_past(run);
    hmap_del_u64(x->runs, run->id);
}

/* --- tasks --- */

static void started(struct run *run)
{
    launcher_t *x = run->x;

    run->state = RUNNING;
    if (does(run, 'f')) {
        end(run, LAUNCHER_FAIL_CODE << 8, LAUNCHER_FAIL_CODE, "exec: the program was not found");
        return;
    }
    run->t_started = flux_wall(x->h);
    if (does(run, 'n'))
        raise_note(run, "exec", 1, "something worth telling");
    if (does(run, 'l')) {
        run->text = "lost the tasks on a rank: its launcher has gone";
        run->time /= 2;
    }
    flux_timer_start(run->timer, run->time, 0.);
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct run *run = arg;
    int code = run->code;

    if (run->state == STARTING)
        started(run);
    else if (run->text)
        end(run, SIGKILL, LAUNCHER_LOST_CODE, run->text);
    else if (run->signum)
        end(run, run->signum, 128 + run->signum, NULL);
    else {
        if (planted(run->x, LAUNCHER_WRONG_CODE))
            code ^= 1;
        end(run, code << 8, code, NULL);
    }
}

/* Something ends it, a little later. */
static void wind_up(struct run *run, int signum, const char *text, double within)
{
    run->state = ENDING;
    run->signum = signum;
    run->text = text;
    flux_timer_start(run->timer, delay(run->x, within), 0.);
}

/* These ranks are lost: those of the job are new to it. */
static void lose(struct run *run, const idset_t *ranks, const char *text, double within)
{
    idset_t *fresh = idset_intersect(ranks, run->ranks);

    if (!fresh || idset_subtract(fresh, run->lost) < 0 || idset_add(run->lost, fresh) < 0)
        run->x->ops->fail(run->x->arg, "out of memory");
    else if (!idset_empty(fresh) && run->survives && !idset_equal(run->lost, run->ranks))
        raise_note(run, "node-lost", 1, text);
    else if (!idset_empty(fresh) && !(run->state == ENDING && run->text)) {
        /* A signal before the loss decides the result. */
        raise_note(run, "node-lost", run->state == ENDING ? 1 : 0, text);
        wind_up(run, SIGKILL, text, within);
    }
    idset_destroy(fresh);
}

static void deliver(struct run *run, int signum)
{
    if (signum == SIGKILL) {
        if (planted(run->x, LAUNCHER_IMMORTAL))
            flux_watcher_stop(run->timer);
        else if (run->signum != SIGKILL)
            wind_up(run, SIGKILL, run->text, does(run, 'k') ? LAUNCHER_STUCK_MAX : 0.05);
    } else if (signum == SIGTERM && !does(run, 'd') && run->state != ENDING) {
        wind_up(run, SIGTERM, NULL, 0.02);
    }
}

static const char *arg_of(const struct launchrec *rec, uint32_t n)
{
    const char *p = rec->strings;

    if (n >= rec->argc)
        return "0";
    for (uint32_t i = 0; i < WIRE_STRINGS + 2 * rec->nfiles + n; i++)
        p += strlen(p) + 1;
    return p;
}

static void start(launcher_t *x, const struct launchrec *rec)
{
    struct run *run = calloc(1, sizeof(*run));
    const struct past *past;
    errmsg_t err = {"out of memory"};
    uint64_t id;
    struct spec *spec = exec_spec_create(rec->json, rec->json_len, flux_size(x->h), &id, &err);

    if (!run || !spec || !(run->ranks = idset_copy(spec->ranks)) || !(run->lost = idset_create()) ||
        !(run->timer = flux_timer_create(flux_get_reactor(x->h), timer_cb, run))) {
        x->ops->fail(x->arg, err.text);
        if (run)
            run_free(run);
        exec_spec_destroy(spec);
        return;
    }
    run->x = x;
    run->id = id;
    run->attempt = spec->w.attempt;
    run->survives = spec->w.survive;
    exec_spec_destroy(spec);
    run->t_launch = flux_now(x->h);
    run->time = 1e-6 * atof(arg_of(rec, 1));
    run->code = atoi(arg_of(rec, 2));
    snprintf(run->how, sizeof(run->how), "%s", arg_of(rec, 3));
    past = hmap_get_u64(x->ran, run->id);
    if (hmap_get_u64(x->runs, run->id))
        x->ops->fail(x->arg, "a job is launched while it runs");
    else if (past && past->attempt >= run->attempt && x->ops->again)
        x->ops->again(x->arg);
    hmap_put_u64(x->runs, run->id, run);
    flux_timer_start(run->timer, delay(x, 0.005), 0.);
    lose(run, x->down, "lost the tasks on a rank: it cannot be reached", 0.01);
}

/* --- requests --- */

static void jobs_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    launcher_t *x = arg;
    struct wrexec_jobs m = {.running = json_array(), .raise = x->raise};
    json_t *old = x->told;
    size_t pos = 0;
    uint64_t id;
    char *json;

    if (x->stream)
        flux_respond_error(h, x->stream, ENODATA, "another has taken over");
    flux_msg_destroy(x->stream);
    x->stream = flux_msg_incref(req);
    while (hmap_next(x->runs, &pos, NULL, &id, NULL))
        json_array_append_new(m.running, json_integer((json_int_t)id));
    json_array_extend(old, x->ended);
    m.ended = json_array_size(old) > 0 ? old : NULL;
    if ((json = flux_schema_encode(&wrexec_jobs_schema, &m)))
        flux_respond_more(h, req, json);
    free(json);
    json_decref(m.running);
    json_decref(x->ended);
    json_decref(x->raise);
    x->ended = x->raise = NULL;
}

/* As if the mailbox were full, now and then. */
static bool no_room(launcher_t *x, const flux_msg_t *req, bool kill)
{
    if (!x->ops->no_room || !x->ops->no_room(x->arg, kill))
        return false;
    flux_respond_error(x->h, req, EAGAIN, "no room");
    return true;
}

static void launch_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    launcher_t *x = arg;
    struct launchrec rec;
    size_t len, pos = 0;
    const void *data = flux_msg_payload(req, &len);
    errmsg_t err;
    int rc;

    if (no_room(x, req, false))
        return;
    while ((rc = exec_launchrec_next(data, len, &pos, &rec, &err)) == 1)
        start(x, &rec);
    if (rc < 0)
        x->ops->fail(x->arg, err.text);
    flux_respond(h, req, NULL);
}

static void kill_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    launcher_t *x = arg;
    struct wrexec_kill k;
    json_t *owner;

    if (no_room(x, req, true) || flux_request_decode(h, req, &wrexec_kill_schema, &k, &owner) < 0)
        return;
    for (size_t i = 0; i < json_array_size(k.ids); i++) {
        uint64_t id = (uint64_t)json_integer_value(json_array_get(k.ids, i));
        struct run *run = hmap_get_u64(x->runs, id);

        if (run)
            deliver(run, k.signum);
    }
    flux_respond(h, req, "{}");
    json_decref(owner);
}

static void down_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    launcher_t *x = arg;
    const char *json = flux_msg_json(msg);
    struct overlay_down d;
    json_t *owner =
        json ? flux_schema_decode(&overlay_down_schema, json, strlen(json), &d, NULL) : NULL;
    idset_t *ranks = owner ? idset_parse(d.ranks, NULL) : NULL;
    size_t pos = 0;
    void *val;

    json_decref(owner);
    if (!ranks)
        return;
    idset_add(x->down, ranks);
    while (hmap_next(x->runs, &pos, NULL, NULL, &val))
        lose(val, ranks, "lost the tasks on a rank: the rank was lost", 0.1);
    idset_destroy(ranks);
}

/* Other brokers of lost ranks have no tasks of the earlier ones. */
static void up_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    launcher_t *x = arg;
    const char *json = flux_msg_json(msg);
    struct overlay_up u;
    json_t *owner =
        json ? flux_schema_decode(&overlay_up_schema, json, strlen(json), &u, NULL) : NULL;
    idset_t *ranks = owner ? idset_parse(u.ranks, NULL) : NULL;

    if (ranks)
        idset_subtract(x->down, ranks);
    idset_destroy(ranks);
    json_decref(owner);
}

static void disconnect_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    launcher_t *x = arg;
    char who[FLUX_SENDER_MAX], whose[FLUX_SENDER_MAX];

    if (x->stream && strcmp(flux_msg_sender(req, who, sizeof(who)),
                            flux_msg_sender(x->stream, whose, sizeof(whose))) == 0) {
        flux_msg_destroy(x->stream);
        x->stream = NULL;
    }
}

static const struct flux_handler handlers[] = {
    {FLUX_MSG_REQUEST, "wrexec.jobs", jobs_cb, 0},
    {FLUX_MSG_REQUEST, "wrexec.launch", launch_cb, 0},
    {FLUX_MSG_REQUEST, "wrexec.kill", kill_cb, 0},
    {FLUX_MSG_REQUEST, "wrexec.disconnect", disconnect_cb, FLUX_ROLE_BROKER},
    {FLUX_MSG_EVENT, "overlay.down", down_cb, 0},
    {FLUX_MSG_EVENT, "overlay.up", up_cb, 0},
    FLUX_HANDLER_END,
};

/* --- life --- */

void launcher_destroy(launcher_t *x)
{
    if (x) {
        int saved = errno;

        flux_handlers_remove(x->handlers);
        flux_future_destroy(x->subscribed);
        flux_watcher_destroy(x->defer);
        flux_msg_destroy(x->stream);
        hmap_destroy(x->runs);
        hmap_destroy(x->ran);
        json_decref(x->ended);
        json_decref(x->raise);
        json_decref(x->told);
        idset_destroy(x->down);
        free(x);
        errno = saved;
    }
}

launcher_t *launcher_create(flux_t *h, const struct launcher_ops *ops, void *arg)
{
    launcher_t *x = calloc(1, sizeof(*x));

    if (!x)
        return NULL;
    x->h = h;
    x->ops = ops;
    x->arg = arg;
    if (!(x->runs = hmap_create_u64(run_free)) || !(x->ran = hmap_create_u64(free)) ||
        !(x->told = json_array()) || !(x->down = idset_create()) ||
        !(x->defer = flux_defer_create(flux_get_reactor(h), tell_cb, x)) ||
        !(x->handlers = flux_handlers_add(h, handlers, x)) ||
        !(x->subscribed = flux_event_subscribe(h, "overlay."))) {
        launcher_destroy(x);
        errno = ENOMEM;
        return NULL;
    }
    return x;
}
