/* broker.c - one broker from boot to exit: creates its parts and connects them.
 *
 *    boot -> core -> connector, module host -> link -> modules load -> ready -> RUN; only then is
 *    the launcher notified that this broker has started (boot_finish())
 *    rank 0 in RUN: runs the initial program; when that ends, the session shuts down with its code
 *    rank 0 at a shutdown request: first asks the initial program and the jobs (ending.h) to end
 *    DOWN: children first, then modules, then goodbye, then EXIT
 *
 * Drawing (broker): the threads of a broker and the queues between them.
 *
 *     programs                   broker, main thread                     threads of modules
 *    +--------+  UNIX socket   +-----------------------+   mailbox   +-------------------------+
 *    | handle |<-------------->| connector             |       +---->| sched: reactor, handlers|
 *    +--------+                |    |                  |       |     +-------------------------+
 *                              |    v                  |       |                  |
 *    +--------+                |  core: routing,       |-------+                  |
 *    | handle |<-------------->|  events, life         |  one mailbox for all     |
 *    +--------+                |    |                  |<-------------------------+
 *                              |    |   mailboxes      |
 *                              |    +--> modules on    |
 *                              |    |    the loop:     |
 *                              |    v    kvs, job, ... |
 *                              |  link: a queue        |
 *                              |  for each peer        |
 *                              +-----------------------+
 *                                ^       ^           ^
 *                                |       |           |
 *                                v       v           v
 *                              tree    events      ring
 *
 * Neighbors on the same host are connected by UNIX sockets, others by ZeroMQ, which adds one I/O
 * thread.
 *
 * Attributes read here, besides those of boot.h:
 *    modules              comma-separated; default: the table below
 *    join.timeout, orphan.timeout, heal.timeout, overlay.settle, shutdown.grace   durations
 *    overlay.fanout-max   children beyond which a broker gives those of lost brokers to others
 *    event.buffer         size: events kept for children that missed some
 *    event.backlog        size: the same while a child does not keep up
 *    inflight.max         outstanding requests per client
 *    module.stop-timeout  time for modules to end, after which the broker ends without them
 *    module.turn-max      a module whose turn takes longer is logged
 *    module.place         loop, thread; default: as each module declares
 *    trace.file           file for the messages that pass through (tracer.c)
 *    quorum               ranks that must be up to start the initial program; default: all, or 1
 *                         after boot.timeout
 *    boot.hosts           ranks that have a host at the start; default: all
 *    boot.timeout         time after which these ranks suffice, and the others are absent
 *    leave.jobs, leave.grace   how jobs on a leaving node end
 *
 * Signals: SIGTERM and SIGHUP shut the session down in order; a second one ends this broker at
 * once.  In a session whose brokers are started one by one (by configuration file, or with
 * --restart), a broker other than rank 0 leaves instead once the session runs, and the session
 * continues: its nodes are drained and it waits for jobs (leaving.h); a second signal ends the
 * wait, and so does the first one if the broker was asked to leave before. SIGINT is handled by the
 * initial program, which shares the terminal.
 *
 * Failure: a broker that cannot start prints the reason on standard error, cleans up, and exits 1.
 * If its modules cannot be loaded, the session ends; one that could leave (see above) leaves.
 */
#include "config.h"
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "boot.h"
#include "boot_add.h"
#include "broker.h"
#include "connector.h"
#include "ending.h"
#include "leaving.h"
#include "libflux/log.h"
#include "libflux/overlay_wire.h"
#include "libflux/sigwatch.h"
#include "libutil/duration.h"
#include "libutil/size.h"
#include "libutil/strutil.h"
#include "libutil/strvec.h"
#include "modhost.h"
#include "nested.h"
#include "program.h"
#include "reserve.h"
#include "sockwatch.h"
#include "tracer.h"

#define SIGNAL_AGAIN 1.
/* Seconds, at level 0: timeouts for the initial program and for the jobs to end, before they are
 * killed. */
#define KILL_AFTER 5.
#define JOBS_AFTER 5.
#define LEAVE_GRACE 5.
#define MODULES_AFTER 30.
#define TURN_MAX 0.01
#define QUORUM_AFTER 10. /* a session with a quorum waits as long for the others */
#define HEAL_TIMEOUT 5.
#define SETTLE 30.
/* Seconds: a nested session that has lost its root must not hold its job's resources. */
#define NESTED_ORPHAN 1.

/* Modules that every broker loads by default. */
static const struct {
    const char *name;
    bool root_only;
} default_modules[] = {
    {"log", false},   {"hb", true},      {"nest", true},  {"barrier", false}, {"kvs", false},
    {"resrc", false}, {"wrexec", false}, {"sched", true}, {"job", true},      {"stream", true},
};

struct broker {
    attrs_t *attrs;
    char *const *argv;
    bool verbose;
    bool restart; /* brokers of this session that fail are started again */
    flux_reactor_t *r;
    boot_t *boot;
    core_t *core;
    connector_t *connector;
    flux_handlers_t *connector_handlers;
    sockwatch_t *sockwatch;
    tracer_t *tracer;
    modhost_t *modhost;
    struct transport_link link;
    program_t *program;
    ending_t *ending;
    leaving_t *leaving;
    boot_add_t *add;
    uint32_t quorum;    /* ranks that are needed to start */
    double leave_grace; /* negative: wait for jobs without limit */
    bool again;         /* it leaves to be started again */
    flux_handlers_t *leave_handlers;
    struct nested nested;
    sigwatch_t *signals; /* those that end the broker */
    flux_watcher_t *kill_timer;
    flux_watcher_t *module_timer;
    double module_timeout;
    char uri[160];
    double signaled; /* reactor time of the first signal; 0: none */
    bool going_down;
    bool children_gone;
    bool program_over;
    bool program_asked; /* it was asked to end */
    bool modules_over;
    bool abandoned; /* modules_over, but module threads still run */
    bool orderly;
    bool ran;    /* it was in CORE_RUN */
    bool failed; /* this broker itself failed */
    int exit_code;
};

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    fprintf(stderr, "flux-broker: %s\n", text);
}

static void log_cb(core_t *c, int level, const char *text, void *arg)
{
    struct broker *b = arg;

    if (b->verbose || level <= LOG_ERR)
        say("%s", text);
    if (b->core && core_state(c) < CORE_DOWN)
        flux_log(core_handle(c), level, "%s", text);
}

/* --- shutdown --- */

static void modules_stopped(modhost_t *mh, const char *error, void *arg)
{
    struct broker *b = arg;

    if (b->modules_over)
        return;
    b->modules_over = true;
    core_local_down_done(b->core);
}

/* A module that neither returns to its reactor nor can be interrupted must not keep the broker
 * alive. */
static void module_timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct broker *b = arg;
    char *names = modhost_running(b->modhost);

    if (!b->modules_over) {
        say("rank %u: modules did not end within %g s: %s; the broker ends without them",
            core_rank(b->core), b->module_timeout, names ? names : "?");
        b->abandoned = true;
        modules_stopped(b->modhost, NULL, b);
    }
    free(names);
}

static void kill_timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct broker *b = arg;

    program_signal(b->program, SIGKILL);
}

/* Modules stop when the children and the initial program are gone. */
static void maybe_stop_modules(struct broker *b)
{
    if (b->children_gone && (!b->program || b->program_over)) {
        flux_timer_start(b->module_timer, nested_patience(&b->nested, b->module_timeout), 0.);
        if (attrs_get(b->attrs, "statedir") || attrs_get(b->attrs, "config.file"))
            connector_ending(b->connector);
        modhost_stop(b->modhost, modules_stopped, b);
    }
}

static void program_done(program_t *p, int code, void *arg)
{
    struct broker *b = arg;

    b->program_over = true;
    if (core_state(b->core) < CORE_DOWN)
        core_shutdown(b->core, code, "the initial program has ended");
    else
        maybe_stop_modules(b);
}

static void ask_program(struct broker *b)
{
    if (!b->program || b->program_over || b->program_asked)
        return;
    b->program_asked = true;
    program_signal(b->program, SIGHUP);
    program_signal(b->program, SIGTERM);
    program_signal(b->program, SIGCONT);
    flux_timer_start(b->kill_timer, nested_patience(&b->nested, KILL_AFTER), 0.);
}

static void jobs_ended(void *arg)
{
    struct broker *b = arg;

    core_shutdown_now(b->core);
}

static bool hold_cb(core_t *c, int rc, const char *reason, void *arg)
{
    struct broker *b = arg;

    flux_log(core_handle(c), LOG_NOTICE, "the session ends: %s", reason);
    /* The enclosing session reports why it ends a job; this session only gets a signal. */
    if (!b->program_over && !(b->nested.level > 0 && b->signaled != 0.))
        say("the session ends: %s", reason);
    ask_program(b);
    b->ending = ending_start(c, nested_patience(&b->nested, JOBS_AFTER), jobs_ended, b);
    return b->ending != NULL;
}

/* Are enough ranks up to start?  Ranks may be lost during the start of the session. */
static bool quorum(struct broker *b)
{
    size_t up = idset_count(core_ranks_up(b->core));
    bool one = idset_count(core_ranks_lost(b->core)) == 1;
    char *lost;

    if (up >= b->quorum)
        return true;
    lost = idset_format(core_ranks_lost(b->core), 0);
    say("rank%s %s %s lost while the session came up: %zu of %u ranks are up (to start with "
        "fewer, set attribute quorum)",
        one ? "" : "s", lost ? lost : "?", one ? "was" : "were", up, b->quorum);
    free(lost);
    return false;
}

static void start_program(struct broker *b)
{
    errmsg_t err;

    if (!quorum(b)) {
        core_shutdown(b->core, 1, "too few ranks came up");
        return;
    }
    if (!(b->program = program_start(b->r, b->argv, b->uri, program_done, b, &err))) {
        int code = errno == ENOENT ? 127 : 126;
        say("%s", err.text);
        core_shutdown(b->core, code, err.text);
    }
}

static void start_program_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_watcher_destroy(w);
    start_program(arg);
}

/* Is this broker started again individually when it has ended?  Otherwise it is one process of a
 * launcher's job. */
static bool alone(const struct broker *b)
{
    return b->restart || strcmp(boot_method(b->boot), "config") == 0;
}

/* Has the session ended because the broker of rank 0 was told to end, for instance as its host
 * stops? Then this broker is to be started again, and to wait for the next session. */
static bool ended_by_signal(const struct broker *b)
{
    return strcmp(boot_method(b->boot), "config") == 0 && !core_is_root(b->core) &&
           core_down_announced(b->core) && core_exit_code(b->core) == 128 + SIGTERM;
}

/* May the launcher regard the end of this broker as orderly?  Not if it has given up joining: the
 * others would wait for it forever, unless the session may start without some ranks. */
static bool in_order(struct broker *b, enum core_state state)
{
    return state == CORE_RUN || b->ran || core_is_root(b->core) || core_down_announced(b->core) ||
           attrs_get(b->attrs, "quorum") || attrs_get(b->attrs, "boot.timeout");
}

static void state_cb(core_t *c, enum core_state state, void *arg)
{
    struct broker *b = arg;
    flux_watcher_t *w;
    errmsg_t err;

    if (b->verbose)
        say("rank %u: state %s", core_rank(c), core_state_name(state));
    if ((state == CORE_RUN || state == CORE_DOWN) && in_order(b, state) &&
        boot_finish(b->boot, &err) < 0 && b->verbose)
        say("rank %u: %s", core_rank(c), err.text);
    switch (state) {
    case CORE_RUN:
        b->ran = true;
        if (b->link.arg && b->link.ops->running)
            b->link.ops->running(b->link.arg);
        if (core_is_root(c)) {
            /* Deferred: the subscribers of the event overlay.run come first. */
            if ((w = flux_defer_create(b->r, start_program_cb, b)))
                flux_watcher_start(w);
            else
                start_program(b);
        }
        break;
    case CORE_DOWN:
        /* This state is entered twice: at the beginning of the shutdown, and when the children are
         * gone. */
        if (!b->going_down) {
            b->going_down = true;
            ask_program(b);
        } else {
            b->children_gone = true;
            maybe_stop_modules(b);
        }
        break;
    case CORE_EXIT:
        /* The exit code of the session is that of rank 0.  A broker that gave up before the session
         * ran reports that.  It is not a failure to be notified of the end of the session before
         * its start, as when the initial program ends at once.  A broker that cannot continue
         * without its parent is to be started again if it was started individually; but the nursery
         * never restarts a broker that has left, so in a nursery it would wait for its parent in
         * vain. */
        if (b->restart && core_left_for_good(c) && !b->failed)
            b->exit_code = 0;
        else if (core_is_root(c) || b->failed || b->again || (core_parent_gone(c) && alone(b)) ||
                 (!b->ran && !core_down_announced(c)))
            b->exit_code = core_exit_code(c);
        else
            b->exit_code = ended_by_signal(b) ? OVERLAY_EXIT_AGAIN : 0;
        b->orderly = !b->abandoned;
        flux_reactor_stop(b->r, 0);
        break;
    default:
        break;
    }
}

/* Can this broker end by itself, while the session continues without it? */
static bool may_leave(const struct broker *b)
{
    return !core_is_root(b->core) && core_session_runs(b->core);
}

static void leave(void *arg)
{
    struct broker *b = arg;

    if (core_state(b->core) < CORE_DOWN)
        core_leave(b->core, b->again ? OVERLAY_EXIT_AGAIN : 0,
                   "the broker above leaves the session");
}

/* Leave when no job runs on this node any more; at once, if this broker has not joined the session
 * yet. */
static void begin_leaving(struct broker *b, const char *from)
{
    char why[160];

    snprintf(why, sizeof(why), "leaving, by %s", from);
    flux_log(core_handle(b->core), LOG_NOTICE, "rank %u is %s", core_rank(b->core), why);
    core_draining(b->core);
    if (idset_empty(core_ranks_up(b->core)) ||
        !(b->leaving = leaving_start(b->core, why, b->leave_grace, leave, b)))
        leave(b);
}

static void leave_cb(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct broker *b = arg;
    struct overlay_leave in = {0};
    json_t *owner;
    char from[128];

    if (flux_request_decode(h, req, &overlay_leave_schema, &in, &owner) < 0)
        return;
    if (core_is_root(b->core))
        flux_respond_error(h, req, EINVAL, "the session ends with rank 0: use flux shutdown");
    else if (!may_leave(b))
        flux_respond_error(h, req, EINVAL, "rank %u cannot leave before the session runs",
                           core_rank(b->core));
    else if (in.restart && !alone(b))
        flux_respond_error(h, req, EINVAL,
                           "rank %u would not be started again: the session was started neither "
                           "by configuration file nor with --restart",
                           core_rank(b->core));
    else if (b->signaled > 0. || b->leaving || core_state(b->core) >= CORE_DOWN)
        flux_respond_error(h, req, EALREADY, "rank %u is leaving already", core_rank(b->core));
    else {
        flux_respond(h, req, "{}");
        b->again = in.restart;
        snprintf(from, sizeof(from), "%.64s (user %u)", in.reason, flux_msg_userid(req));
        str_clean(from); /* a multi-byte character may have been cut */
        begin_leaving(b, from);
    }
    json_decref(owner);
}

static const struct flux_handler leave_handlers[] = {
    {FLUX_MSG_REQUEST, "overlay.leave", leave_cb, 0},
    FLUX_HANDLER_END,
};

static void signal_cb(const struct signalfd_siginfo *info, void *arg)
{
    struct broker *b = arg;
    int signum = (int)info->ssi_signo;
    char from[128];
    double now = flux_reactor_now(b->r);

    if (b->signaled > 0. && now - b->signaled < SIGNAL_AGAIN)
        return;
    if (b->signaled > 0. && b->leaving && core_state(b->core) < CORE_DOWN) {
        b->signaled = now;
        leave(b);
        return;
    }
    if (b->signaled > 0.) {
        program_signal(b->program, SIGKILL);
        b->exit_code = 128 + signum;
        flux_reactor_stop(b->r, 0);
        return;
    }
    b->signaled = now;
    if (core_state(b->core) >= CORE_DOWN)
        return;
    sigwatch_describe(info, from, sizeof(from));
    if (b->leaving) { /* by overlay.leave; it is not to be started again */
        b->again = false;
        leave(b);
    } else if (may_leave(b))
        begin_leaving(b, from);
    else
        core_shutdown(b->core, 128 + signum, from);
}

static void modules_started(modhost_t *mh, const char *error, void *arg)
{
    struct broker *b = arg;

    if (error && core_state(b->core) >= CORE_DOWN)
        return; /* shutdown came before all modules had started */
    if (error) {
        say("rank %u: %s", core_rank(b->core), error);
        b->failed = true;
        if (may_leave(b))
            core_leave(b->core, 1, "the broker above cannot load its modules");
        else
            core_shutdown(b->core, 1, error);
        return;
    }
    core_local_ready(b->core);
}

/* --- startup --- */

static int duration_attr(struct broker *b, const char *name, double *val, errmsg_t *err)
{
    const char *text = attrs_get(b->attrs, name);
    errmsg_t why;

    if (text && duration_parse(text, val, &why) < 0)
        return errmsg_fail(err, EINVAL, "attribute %s=%s: %s", name, text, why.text);
    return 0;
}

static int configure_core(struct broker *b, struct core_config *cc, errmsg_t *err)
{
    const char *text;
    uint64_t val;
    errmsg_t why;

    core_config_init(cc);
    cc->rank = boot_rank(b->boot);
    cc->size = boot_size(b->boot);
    cc->topology = boot_topology(b->boot);
    cc->userid = geteuid();
    if (getentropy(&cc->seed, sizeof(cc->seed)) < 0)
        cc->seed = (uint64_t)getpid() << 32 | cc->rank;
    if ((text = attrs_get(b->attrs, "boot.hosts")) &&
        (str2u32(text, &cc->expected) < 0 || cc->expected == 0 || cc->expected > cc->size))
        return errmsg_fail(err, EINVAL, "attribute boot.hosts=%s is not a number from 1 to %u",
                           text, cc->size);
    if (boot_listed(b->boot)) {
        cc->named = boot_hosts_listed(boot_listed(b->boot));
        cc->host = boot_host(b->boot);
    }
    cc->quorum = cc->expected ? cc->expected : cc->size;
    if ((text = attrs_get(b->attrs, "quorum"))) {
        if (str2u32(text, &cc->quorum) < 0 || cc->quorum == 0 || cc->quorum > cc->size)
            return errmsg_fail(err, EINVAL, "attribute quorum=%s is not a number from 1 to %u",
                               text, cc->size);
    }
    b->leave_grace = LEAVE_GRACE;
    if (duration_attr(b, "leave.grace", &b->leave_grace, err) < 0)
        return -1;
    if (isinf(b->leave_grace) ||
        ((text = attrs_get(b->attrs, "leave.jobs")) && strcmp(text, "wait") == 0))
        b->leave_grace = -1.;
    b->module_timeout = MODULES_AFTER;
    if (duration_attr(b, "module.stop-timeout", &b->module_timeout, err) < 0)
        return -1;
    if (cc->quorum < cc->size)
        cc->boot_timeout = QUORUM_AFTER;
    cc->boot_default = !attrs_get(b->attrs, "boot.timeout");
    cc->heal_timeout = HEAL_TIMEOUT;
    cc->settle = SETTLE;
    if (b->nested.level > 0)
        cc->orphan_timeout = NESTED_ORPHAN;
    if (duration_attr(b, "join.timeout", &cc->join_timeout, err) < 0 ||
        duration_attr(b, "boot.timeout", &cc->boot_timeout, err) < 0 ||
        duration_attr(b, "orphan.timeout", &cc->orphan_timeout, err) < 0 ||
        duration_attr(b, "heal.timeout", &cc->heal_timeout, err) < 0 ||
        duration_attr(b, "overlay.settle", &cc->settle, err) < 0 ||
        duration_attr(b, "shutdown.grace", &cc->shutdown_grace, err) < 0 ||
        duration_attr(b, "live.probe", &cc->beat, err) < 0)
        return -1;
    if (!attrs_get(b->attrs, "quorum") && attrs_get(b->attrs, "boot.timeout") &&
        cc->boot_timeout > 0.)
        cc->quorum = 1;
    b->quorum = cc->quorum;
    if ((text = attrs_get(b->attrs, "overlay.fanout-max")) && str2u32(text, &cc->fanout_max) < 0)
        return errmsg_fail(err, EINVAL, "attribute overlay.fanout-max=%s is not a number from 0 up",
                           text);
    if ((text = attrs_get(b->attrs, "event.buffer"))) {
        if (size_parse(text, &val, &why) < 0)
            return errmsg_fail(err, EINVAL, "attribute event.buffer=%s: %s", text, why.text);
        cc->event_buffer = val;
    }
    if ((text = attrs_get(b->attrs, "event.backlog"))) {
        if (size_parse(text, &val, &why) < 0)
            return errmsg_fail(err, EINVAL, "attribute event.backlog=%s: %s", text, why.text);
        cc->event_backlog = val;
    }
    if ((text = attrs_get(b->attrs, "inflight.max"))) {
        uint32_t n;
        if (str2u32(text, &n) < 0 || n == 0)
            return errmsg_fail(err, EINVAL, "attribute inflight.max=%s is not a number from 1 up",
                               text);
        cc->inflight_max = n;
    }
    return 0;
}

static const char *boot_attr_cb(void *arg, const char *name)
{
    struct broker *b = arg;

    return attrs_get(b->attrs, name);
}

static int fill_attrs(struct broker *b)
{
    attrs_t *a = b->attrs;

    if (attrs_setf(a, "rank", true, "%u", boot_rank(b->boot)) < 0 ||
        attrs_setf(a, "size", true, "%u", boot_size(b->boot)) < 0 ||
        attrs_set(a, "topology", boot_topology(b->boot), true) < 0 ||
        attrs_set(a, "boot.method", boot_method(b->boot), true) < 0 ||
        attrs_set(a, "rundir", boot_rundir(b->boot), true) < 0 ||
        attrs_set(a, "uri", b->uri, true) < 0 ||
        attrs_setf(a, "userid", true, "%u", (unsigned)geteuid()) < 0 ||
        attrs_set(a, "version", PACKAGE_VERSION, true) < 0 ||
        attrs_setf(a, "broker.pid", true, "%d", (int)getpid()) < 0 ||
        nested_attrs(&b->nested, a) < 0)
        return -1;
    return 0;
}

static bool root_only(const char *name)
{
    for (size_t i = 0; i < sizeof(default_modules) / sizeof(default_modules[0]); i++) {
        if (strcmp(default_modules[i].name, name) == 0)
            return default_modules[i].root_only;
    }
    return false;
}

static const char *default_module(size_t i)
{
    return i < sizeof(default_modules) / sizeof(default_modules[0]) ? default_modules[i].name
                                                                    : NULL;
}

/* The modules of a broker of rank 0, or of another.  NULL with ENOMEM. */
static strvec_t *list_modules(const attrs_t *attrs, bool root)
{
    const char *names = attrs_get(attrs, "modules");
    strvec_t *list = names ? strvec_split(names, ',') : strvec_create();
    int rc = list ? 0 : -1;

    for (size_t i = 0; !names && i < sizeof(default_modules) / sizeof(default_modules[0]); i++)
        rc |= strvec_add(list, default_modules[i].name);
    for (size_t i = rc == 0 ? strvec_count(list) : 0; i-- > 0;) {
        if (!root && root_only(strvec_at(list, i)))
            strvec_remove(list, i);
    }
    if (rc == 0)
        return list;
    strvec_destroy(list);
    return NULL;
}

preload_t *broker_preload(const attrs_t *attrs)
{
    strvec_t *list = list_modules(attrs, false);
    preload_t *preload = list ? preload_create(list) : NULL;

    strvec_destroy(list);
    return preload;
}

static int start_modules(struct broker *b)
{
    strvec_t *list = list_modules(b->attrs, core_is_root(b->core));
    char *text;
    int rc = -1;

    for (size_t i = list && b->nested.level == 0 ? strvec_count(list) : 0; i-- > 0;) {
        if (strcmp(strvec_at(list, i), "nest") == 0)
            strvec_remove(list, i);
    }
    if (list && (text = strvec_join(list, ","))) {
        rc = modhost_start(b->modhost, text, modules_started, b);
        free(text);
    }
    strvec_destroy(list);
    return rc;
}

/* The signals that end a broker stay blocked in all its threads; programs that it starts get an
 * empty signal mask (program.c, spawn.c). */
static int watch_signals(struct broker *b)
{
    static const int signums[] = {SIGTERM, SIGHUP};

    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    if (!(b->signals = sigwatch_create(b->r, signums, 2, false, signal_cb, b)) ||
        !(b->kill_timer = flux_timer_create(b->r, kill_timer_cb, b)) ||
        !(b->module_timer = flux_timer_create(b->r, module_timer_cb, b)))
        return -1;
    return 0;
}

/* The directory of the sockets has changed: create missing sockets again. */
static int sockets_cb(void *arg)
{
    struct broker *b = arg;
    errmsg_t err;
    int dirs = boot_restore_dirs(b->boot, &err);
    int client = dirs < 0 ? -1 : connector_relisten(b->connector, &err);
    int peers = client < 0 ? -1 : b->link.arg ? b->link.ops->rebind(b->link.arg, &err) : 0;

    if (peers < 0) {
        flux_log(core_handle(b->core), LOG_ERR,
                 "the sockets in %s were removed and cannot be created again, so no program can "
                 "connect: %s",
                 boot_rankdir(b->boot), err.text);
        return -1;
    }
    if (dirs > 0 || client > 0 || peers > 0)
        flux_log(core_handle(b->core), LOG_WARNING,
                 "sockets in %s had been removed; the broker created them again",
                 boot_rankdir(b->boot));
    return 0;
}

static void loads_cb(void *arg, const char *name)
{
    struct broker *b = arg;

    attrs_module_loads(b->attrs, name);
}

static bool key_cb(core_t *c, uint32_t rank, char key[CORE_KEY_SIZE], void *arg)
{
    const struct broker *b = arg;

    return boot_key(b->boot, rank, key);
}

static void admit_cb(core_t *c, uint32_t rank, const char *host, uint32_t number, void *arg)
{
    struct broker *b = arg;

    boot_add_admit(b->add, rank, host, number);
}

static int bring_up(struct broker *b, errmsg_t *err)
{
    static const struct core_callbacks cbs = {
        .state = state_cb, .hold = hold_cb, .key = key_cb, .admit = admit_cb, .log = log_cb};
    struct boot_config bc = {.attr = boot_attr_cb, .attr_arg = b};
    struct modhost_config mc = {
        .turn_max = TURN_MAX, .known = default_module, .loads = loads_cb, .arg = b};
    boot_roster_t *roster = NULL;
    struct core_config cc;
    const char *name;
    const char *value;
    char path[128];

    reserve_fill();
    if (!(b->boot = boot_create(&bc, err)))
        return -1;
    for (size_t i = 0; (value = boot_attr_at(b->boot, i, &name)); i++) {
        if (attrs_set(b->attrs, name, value, false) < 0 ||
            attrs_set_source(b->attrs, name, boot_attr_source(b->boot)) < 0)
            return errmsg_fail(err, errno, "attribute %s cannot be set: %s", name, strerror(errno));
    }
    if (configure_core(b, &cc, err) < 0)
        return -1;
    if (!(b->r = flux_reactor_create(true)) || watch_signals(b) < 0)
        return errmsg_fail(err, errno, "cannot create an event loop: %s", strerror(errno));
    if (!(b->core = core_create(&cc, b->r, &cbs, b, err)))
        return -1;
    snprintf(path, sizeof(path), "%s/local", boot_rankdir(b->boot));
    snprintf(b->uri, sizeof(b->uri), "local://%s", path);
    flux_log_set_source(core_handle(b->core), "broker");
    if (core_is_root(b->core) && boot_listed(b->boot) &&
        !(roster = boot_roster_create(boot_listed(b->boot), attrs_get(b->attrs, "statedir"), err)))
        return -1;
    if (!(b->add = boot_add_create(b->core, boot_launcher(b->boot), roster)))
        return errmsg_fail(err, errno, "out of memory for rank %u", cc.rank);
    if (fill_attrs(b) < 0 || attrs_serve(b->attrs, b->core) < 0 ||
        !(b->leave_handlers = flux_handlers_add(core_handle(b->core), leave_handlers, b)))
        return errmsg_fail(err, errno, "rank %u cannot set up its services: %s", cc.rank,
                           strerror(errno));
    if (duration_attr(b, "module.turn-max", &mc.turn_max, err) < 0)
        return -1;
    mc.places = attrs_get(b->attrs, "module.place");
    mc.modules = attrs_get(b->attrs, "modules");
    if (!(b->modhost = modhost_create(b->core, &mc, err)) ||
        !(b->tracer = tracer_create(b->core, attrs_get(b->attrs, "trace.file"), err)) ||
        !(b->connector = connector_create(b->core, path, &connector_limits_default, err)))
        return -1;
    if (!(b->connector_handlers = connector_service_add(b->connector, b->core)))
        return errmsg_fail(err, errno, "rank %u cannot serve the counters of its connector: %s",
                           cc.rank, strerror(errno));
    if (boot_link(b->boot, b->core, &b->link, err) < 0)
        return -1;
    if (!(b->sockwatch = sockwatch_create(b->r, boot_rankdir(b->boot), sockets_cb, b)))
        return errmsg_fail(err, ENOMEM, "out of memory for rank %u", cc.rank);
    if (core_start(b->core) < 0 || start_modules(b) < 0)
        return errmsg_fail(err, errno, "rank %u cannot start: %s", cc.rank, strerror(errno));
    return 0;
}

static void close_link(struct broker *b)
{
    if (b->link.arg)
        b->link.ops->destroy(b->link.arg);
}

static void take_down(struct broker *b)
{
    program_destroy(b->program);
    ending_destroy(b->ending);
    leaving_destroy(b->leaving);
    sockwatch_destroy(b->sockwatch);
    flux_handlers_remove(b->connector_handlers);
    connector_destroy(b->connector);
    tracer_destroy(b->tracer);
    close_link(b);
    flux_handlers_remove(b->leave_handlers);
    boot_add_destroy(b->add);
    attrs_unserve(b->attrs);
    modhost_destroy(b->modhost);
    core_destroy(b->core);
    boot_destroy(b->boot);
    sigwatch_destroy(b->signals);
    flux_watcher_destroy(b->kill_timer);
    flux_watcher_destroy(b->module_timer);
    flux_reactor_destroy(b->r);
}

int broker_run(attrs_t *attrs, char *const argv[], bool verbose, bool restart, preload_t *preload)
{
    struct broker b = {.attrs = attrs, .argv = argv, .verbose = verbose, .restart = restart};
    struct rlimit files;
    errmsg_t err = {""};
    int rc;

    /* Use one arena of malloc(): threads mostly pass messages and allocate little, while an arena
     * for each thread takes more memory than the whole broker. */
    mallopt(M_ARENA_MAX, 1);
    nested_read(&b.nested);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < BROKER_NOFILE_MIN) {
        say("the limit on open files is %lu: a broker needs at least %d (ulimit -n)",
            (unsigned long)files.rlim_cur, BROKER_NOFILE_MIN);
        preload_destroy(preload);
        return 1;
    }
    rc = bring_up(&b, &err);
    preload_destroy(preload);
    if (rc < 0) {
        say("%s", err.text);
        b.exit_code = 1;
        b.orderly = true;
    } else if (!b.orderly) /* else it has ended already, for example because a module was not
                            * found */
        flux_reactor_run(b.r);
    if (b.orderly)
        take_down(&b);
    else if (b.abandoned) {
        /* Free what module threads do not use; process exit frees the rest. */
        program_destroy(b.program);
        ending_destroy(b.ending);
        leaving_destroy(b.leaving);
        sockwatch_destroy(b.sockwatch);
        connector_destroy(b.connector);
        close_link(&b);
        boot_destroy(b.boot);
    } else {
        /* Threads still use the other objects, so the process ends at once, without freeing
         * them. */
        boot_destroy(b.boot);
        _exit(b.exit_code);
    }
    return b.exit_code;
}
