/* modhost_serve.c - the part of the module host that is the same wherever a module runs.
 *
 * A module runs in a thread of its own (modhost_thread.c) or on the broker's loop (modhost_loop.c).
 * Either way its messages come from its mailbox and are served by sender (fairq.c), so a client
 * waits for only a few requests of each other client, however many these have sent; and in slices,
 * between which the module's timers and files get their turn.
 *
 * Each message is a turn.  Turns are counted and timed; one that takes longer than module.turn-max
 * is logged with its topic, at most once every LOG_EVERY seconds for each module.  On the loop,
 * callbacks of the module's timers, files and deferrals are turns, too.  They have no topic: the
 * file and offset of the function are logged, since most such functions are static and have no name
 * at run time; `addr2line -f -e FILE OFFSET` finds it.
 *
 * A module that has handed over is mute: messages sent with its handle are dropped until it has
 * ended.  A module that waits for something before it ends (`stop` in libflux/module.h) is deaf:
 * its messages stay in the mailbox for its successor.
 *
 * Failure: an error of init or of the reactor is left in `errnum` and `error`, which the host reads
 * after EXITED.
 */
#include "config.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/route.h"
#include "libflux/slice.h"
#include "modhost_private.h"

/* Weight at which a report is sent early, so that the client can send more requests. */
#define RUN_WEIGHT 64
#define TALLIES 8
/* Envelopes of each group that are read in one pass when several groups wait: a client may wait
 * this long for work that the module puts off to the end of the pass. */
#define PER_GROUP 8
#define MODULES 0x80000000u /* added to CORE_ACCOUNT_RANK: the modules of a rank, not its clients */
#define LOG_EVERY 10.0

/* Returns the result of hand_over: see libflux/module.h. */
static int hand_over(struct module *m, errmsg_t *err)
{
    flux_handover_t *o = flux_handover_create();
    int rc;

    if (!o)
        return errmsg_fail(err, ENOMEM, "out of memory");
    if ((rc = m->desc->hand_over(m->h, m->ctx, o, err)) == 1)
        m->leaves = o;
    else
        flux_handover_destroy(o);
    return rc;
}

static bool agrees(struct module *m, int code)
{
    errmsg_t err = {""};
    int rc = code == CODE_ASK_RELOAD && m->desc->hand_over ? hand_over(m, &err) : 0;

    if (rc == 1 || (rc == 0 && (!m->desc->may_stop || m->desc->may_stop(m->h, m->ctx, &err) == 0)))
        return true;
    m->refusal = errno ? errno : EBUSY;
    m->refused = err;
    m->place->report(m, CODE_REFUSED);
    return false;
}

/* Does it end at once?  Otherwise it stops its reactor later, and gets no more messages. */
static bool ends(struct module *m)
{
    m->ending = m->desc->stop && !m->desc->stop(m->h, m->ctx);
    return !m->ending;
}

/* --- input --- */

/* Requests of one account that were taken and must be reported to the broker. */
struct tally {
    uint32_t from;
    unsigned weight;
};
struct tallies {
    struct tally of[TALLIES];
    size_t n;
};

static void tell_tally(struct module *m, struct tally *t)
{
    if (t->weight > 0)
        m->place->took(m, t->from, t->weight);
    t->weight = 0;
}

static void tell_tallies(struct module *m, struct tallies *ts)
{
    for (size_t i = 0; i < ts->n; i++)
        tell_tally(m, &ts->of[i]);
    ts->n = 0;
}

static void took(struct module *m, struct tallies *ts, const struct envelope *l)
{
    uint32_t from = (uint32_t)(uintptr_t)l->from;
    size_t i = 0;

    if (!from)
        return;
    while (i < ts->n && ts->of[i].from != from)
        i++;
    if (i == TALLIES) {
        tell_tallies(m, ts);
        i = 0;
    }
    if (i == ts->n)
        ts->of[ts->n++] = (struct tally){.from = from};
    ts->of[i].weight += core_request_weight(l->msg);
    if (ts->of[i].weight >= RUN_WEIGHT)
        tell_tally(m, &ts->of[i]);
}

/* The group with which an envelope takes turns.  Responses, events, and requests of this broker and
 * its modules come before the requests of clients, in their own order.  The clients of a local
 * process are one group; all clients of another rank are one group, and its modules are another.
 * The notice that a client is gone comes after the requests that it has left; it has a broker's
 * role, and is not in the client's group if no request of the client is left. */
static uint32_t group_of(const struct module *m, const struct envelope *l, uint32_t *sender)
{
    uint32_t from = (uint32_t)(uintptr_t)l->from;
    const flux_msg_t *msg = l->msg;
    size_t n = flux_msg_route_count(msg);
    uint32_t clients;

    *sender = 0;
    if (flux_msg_type(msg) != FLUX_MSG_REQUEST || n == 0)
        return FAIRQ_FIRST;
    *sender = flux_msg_route_at(msg, 0);
    if (n == 1)
        return from ? from : FAIRQ_FIRST;
    clients = CORE_ACCOUNT_RANK | flux_route_value(flux_msg_route_at(msg, 1));
    if (!(flux_msg_rolemask(msg) & FLUX_ROLE_BROKER) || fairq_has(m->queue, clients, *sender))
        return clients;
    return MODULES | clients;
}

/* Move envelopes to the queue, up to one that asks the module to stop: those before it are served
 * first.  On lack of memory the rest stay where they are. */
static void sort_mail(struct module *m)
{
    if (m->nrest == 0 && mailbox_has_new(m->inbox))
        m->rest = mailbox_take(m->inbox, &m->nrest);
    if (m->nrest == 1 && fairq_count(m->queue) == 0)
        return; /* its turn comes next anyway */
    while (m->nrest > 0 && m->rest->msg) {
        uint32_t sender;
        uint32_t group = group_of(m, m->rest, &sender);

        if (fairq_put(m->queue, group, sender, core_request_weight(m->rest->msg), m->rest) < 0)
            break;
        mailbox_set_aside(m->inbox, 1, flux_msg_encoded_size(m->rest->msg));
        m->rest++;
        m->nrest--;
    }
}

bool modhost_serve_next(struct module *m, struct envelope *l)
{
    if (fairq_next(m->queue, l)) {
        mailbox_done(m->inbox, 1, flux_msg_encoded_size(l->msg));
        return true;
    }
    if (m->nrest == 0)
        return false;
    *l = *m->rest++;
    m->nrest--;
    return true;
}

/* The number of envelopes to serve before the module does the work that it put off to the end of a
 * pass: all that wait now, or, if several groups wait, a few of each. */
static size_t pass_limit(const struct module *m, size_t limit)
{
    size_t few = PER_GROUP * fairq_groups(m->queue);

    return few > PER_GROUP && few < limit ? few : limit;
}

/* --- turns --- */

/* The place of a function: FILE+OFFSET. */
static void locate(flux_watcher_f cb, char *buf, size_t size)
{
    uintptr_t at = (uintptr_t)cb;
    const char *slash;
    Dl_info file;

    if (dladdr((void *)at, &file) == 0) {
        snprintf(buf, size, "0x%jx", (uintmax_t)at);
        return;
    }
    slash = strrchr(file.dli_fname, '/');
    snprintf(buf, size, "%s+0x%jx", slash ? slash + 1 : file.dli_fname,
             (uintmax_t)(at - (uintptr_t)file.dli_fbase));
}

void modhost_serve_turn(struct module *m, const char *what, const char *topic, flux_watcher_f cb,
                        double seconds)
{
    char place[256];
    double now;

    m->turns.n++;
    m->turns.ns += (uint64_t)(seconds * 1e9);
    if (seconds * 1e9 > (double)m->turns.longest)
        m->turns.longest = (uint64_t)(seconds * 1e9);
    if (m->mh->turn_max <= 0. || seconds <= m->mh->turn_max)
        return;
    m->turns.longer++;
    now = flux_reactor_now(m->r);
    if (m->logged > 0. && now < m->logged + LOG_EVERY)
        return;
    m->logged = now;
    if (cb) {
        locate(cb, place, sizeof(place));
        topic = place;
    }
    flux_log(m->h, LOG_NOTICE, "%s%s%s took %.1f ms of the %s, more than module.turn-max (%g ms)",
             what, topic ? " " : "", topic ? topic : "", seconds * 1e3,
             m->place == &modhost_on_loop ? "broker's loop" : "module's thread",
             m->mh->turn_max * 1e3);
}

static void deliver(struct module *m, flux_msg_t *msg)
{
    static const char *const types[] = {[FLUX_MSG_REQUEST] = "the request",
                                        [FLUX_MSG_RESPONSE] = "the response to",
                                        [FLUX_MSG_EVENT] = "the event"};
    flux_msg_t *kept = flux_msg_incref(msg);
    double begin = flux_reactor_clock(m->r);

    flux_handle_deliver(m->h, msg);
    modhost_serve_turn(m, types[flux_msg_type(kept)], flux_msg_topic(kept), NULL,
                       flux_reactor_clock(m->r) - begin);
    flux_msg_destroy(kept);
}

enum serve modhost_serve(struct module *m)
{
    struct tallies tallies = {.n = 0};
    struct flux_slice s;
    bool stop = false;
    size_t limit;

    if (m->ending)
        return SERVE_NEVER;
    if (m->nrest == 0)
        m->rest = mailbox_take(m->inbox, &m->nrest);
    sort_mail(m);
    limit = pass_limit(m, fairq_count(m->queue) + m->nrest);
    flux_slice_begin(&s, m->r, FLUX_SLICE_SECONDS, FLUX_SLICE_THINGS);
    for (size_t n = 0; !stop && !m->ending && n < limit && flux_slice_more(&s); n++) {
        struct envelope l;

        if (!modhost_serve_next(m, &l))
            break;
        if (l.msg) {
            took(m, &tallies, &l);
            deliver(m, l.msg);
            stop = flux_reactor_stopped(m->r, NULL);
        } else
            stop = (l.code == CODE_STOP || agrees(m, l.code)) && ends(m);
        if (!stop && (m->nrest > 0 || mailbox_has_new(m->inbox))) {
            sort_mail(m);
            limit = pass_limit(m, limit);
        }
    }
    tell_tallies(m, &tallies);
    if (stop || m->ending)
        return stop ? SERVE_STOP : SERVE_NEVER;
    return fairq_count(m->queue) > 0 || m->nrest > 0 ? SERVE_MORE : SERVE_IDLE;
}

/* --- life --- */

static void fail(struct module *m, int errnum, const char *text)
{
    m->errnum = errnum ? errnum : EIO;
    if (m->error.text[0] == '\0')
        errmsg_set(&m->error, "%s", text);
}

static void started(void *arg)
{
    struct module *m = arg;

    m->place->report(m, CODE_READY);
}

int modhost_serve_open(struct module *m, flux_reactor_t *r, const struct flux_handle_ops *ops)
{
    m->errnum = 0;
    m->r = r;
    if (r && (m->h = flux_handle_create(ops, m, r, core_rank(m->mh->core), core_size(m->mh->core),
                                        m->seed)))
        return 0;
    fail(m, ENOMEM, "out of memory");
    return -1;
}

int modhost_serve_init(struct module *m)
{
    int rc;

    flux_log_set_source(m->h, m->name);
    m->host = (struct flux_module_host){.started = started, .arg = m};
    if ((m->inherited && flux_aux_set(m->h, "module::inherited", m->inherited, NULL) < 0) ||
        flux_aux_set(m->h, "module::host", &m->host, NULL) < 0 ||
        (m->successor && flux_aux_set(m->h, "module::reloaded", m, NULL) < 0)) {
        fail(m, ENOMEM, "out of memory");
        return -1;
    }
    rc = m->desc->init(m->h, m->argc, m->argv, &m->ctx, &m->error);
    if (rc < 0)
        fail(m, errno, strerror(errno));
    if (m->inherited) {
        (void)flux_aux_set(m->h, "module::inherited", NULL, NULL);
        flux_handover_destroy(m->inherited);
        m->inherited = NULL;
    }
    if (rc < 0)
        return -1;
    m->error.text[0] = '\0';
    if (!m->host.starting)
        started(m);
    return 0;
}

void modhost_serve_fini(struct module *m, int rc)
{
    errmsg_t *why;

    if (rc < 0) {
        m->errnum = errno ? errno : EIO;
        if ((why = flux_aux_get(m->h, "module::fail")))
            m->error = *why;
        else
            errmsg_set(&m->error, "it stopped with an error");
    }
    m->desc->fini(m->h, m->ctx);
}

void modhost_serve_close(struct module *m)
{
    flux_watcher_destroy(m->w);
    flux_close(m->h);
    flux_reactor_destroy(m->r);
    m->w = NULL;
    m->h = NULL;
    m->r = NULL;
}
