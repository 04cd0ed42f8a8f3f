/* cmd_overlay.c - flux overlay: what is done to the brokers of a session.
 *
 * `restart` asks each broker in turn to leave (overlay.leave), and waits until the next broker of
 * its rank is up, and all ranks that were up before:
 *
 *     asked     the rank is drained, and waits for its jobs or ends them (leave.jobs)
 *     gone      it has left; whoever started it (systemd, flux start --restart) starts it again
 *     returned  its incarnation is higher, and nobody else is missing any more
 *
 * `add` asks rank 0 to admit further hosts (overlay.add), for up to ASKED_MAX at a time.  In a
 * session of flux start --hosts, brokers are started there, and the answers come when these are up,
 * or have failed.  In a session by configuration file, hosts start their brokers themselves, and
 * the answers say at which ranks.
 *
 * `restore` asks the brokers above those that came back to give them their subtrees
 * (overlay.restore), and those that have taken ranks of their places (overlay.fanout-max), until a
 * round of this moves nobody: each moves a rank one step.
 *
 * `restart` asks rank 0 for the state after each event of the overlay, and after events that were
 * lost on their way here (event.lost): one of the overlay may have been among them.
 *
 * Failure: `restart` stops at the first rank that cannot be asked, or does not return in time; the
 * ranks after it are as they were.  `restore` prints why a rank has not moved, and goes on; so
 * does `add` for each host.
 */
#include "config.h"

#include "../cmd_all.h"
#include "cmd_session.h"
#include "libflux/dispatch.h"
#include "libflux/overlay_wire.h"
#include "libidset/hostlist.h"
#include "libutil/strvec.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT 60.
#define PATIENCE 300. /* seconds for one rank */
#define ASKED_MAX 512 /* rank 0 has room for more, also for those of other commands */

struct wait {
    struct cmd *c;
    flux_t *h;
    flux_watcher_t *timer;
    flux_handlers_t *handlers;
    double timeout;
    bool changed; /* an event of the overlay has come, or may have been lost */
    bool late;
    bool waiting;
};

/* --- waiting for the overlay --- */

static void event_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct wait *r = arg;

    r->changed = true;
    if (r->waiting)
        flux_reactor_stop(flux_get_reactor(h), 0);
}

static void timer_cb(flux_reactor_t *reactor, flux_watcher_t *w, int revents, void *arg)
{
    struct wait *r = arg;

    r->late = true;
    if (r->waiting)
        flux_reactor_stop(reactor, 0);
}

static void wait_end(struct wait *r)
{
    flux_watcher_destroy(r->timer);
    flux_handlers_remove(r->handlers);
}

/* Notice changes of the overlay from now on.  wait_end() follows in any case. */
static int wait_begin(struct wait *r)
{
    static const struct flux_handler tab[] = {
        {FLUX_MSG_EVENT, "overlay.", event_cb, 0},
        {FLUX_MSG_EVENT, "event.lost", event_cb, 0},
        FLUX_HANDLER_END,
    };
    flux_future_t *f = flux_event_subscribe(r->h, "overlay.");
    int rc = -1;

    r->handlers = flux_handlers_add(r->h, tab, r);
    r->timer = flux_timer_create(flux_get_reactor(r->h), timer_cb, r);
    if (!r->handlers || !r->timer)
        cmd_error(r->c, "out of memory");
    else
        rc = cmd_wait(r->c, f, TIMEOUT, "event.subscribe");
    flux_future_destroy(f);
    return rc;
}

/* Until the overlay changes, or it is too late.  -1 with an error message when the broker is lost.
 */
static int wait_change(struct wait *r)
{
    int rc = 0;

    r->waiting = true;
    if (!r->changed && !r->late)
        rc = flux_run(r->h);
    r->waiting = false;
    r->changed = false;
    if (rc < 0)
        cmd_error(r->c, "the connection to the broker was lost");
    return rc < 0 ? -1 : 0;
}

/* Is there a new broker of this rank, and is everybody there who was? */
static bool whole_again(const struct session *before, const struct session *now, uint32_t rank)
{
    return session_rank_incarnation(now, rank) > session_rank_incarnation(before, rank) &&
           idset_subset(before->up, now->up);
}

static int wait_return(struct wait *r, const struct session *before, uint32_t rank)
{
    struct session now;
    bool over = false;

    r->late = false;
    if (isfinite(r->timeout))
        flux_timer_start(r->timer, r->timeout, 0.);
    while (!over && !r->late) {
        if (wait_change(r) < 0 || session_query(r->c, &now, false) < 0)
            return -1;
        over = whole_again(before, &now, rank);
        session_clear(&now);
    }
    flux_watcher_stop(r->timer);
    if (over)
        return 0;
    cmd_error(r->c,
              "rank %u did not return within %g s (--timeout): is it started again when it ends "
              "(systemd, flux start --restart)?",
              rank, r->timeout);
    return -1;
}

/* --- restart --- */

static int restart_one(struct wait *r, uint32_t rank)
{
    const struct overlay_leave in = {.reason = "flux overlay restart", .restart = true};
    struct session before;
    flux_future_t *f;
    int rc = -1;

    if (session_query(r->c, &before, false) < 0)
        return -1;
    if (!idset_test(before.up, rank)) {
        cmd_error(r->c, "rank %u is not up", rank);
        session_clear(&before);
        return -1;
    }
    r->changed = false;
    f = flux_rpc_struct(r->h, "overlay.leave", &overlay_leave_schema, &in, rank, 0);
    if (cmd_wait(r->c, f, TIMEOUT, "the broker") == 0)
        rc = wait_return(r, &before, rank);
    flux_future_destroy(f);
    session_clear(&before);
    if (rc == 0) {
        printf("rank %u is up again\n", rank);
        fflush(stdout);
    }
    return rc;
}

static int restart_all(struct wait *r, const idset_t *ranks)
{
    int rc = wait_begin(r);

    for (uint32_t rank = idset_first(ranks); rc == 0 && rank != IDSET_NONE;
         rank = idset_next(ranks, rank))
        rc = restart_one(r, rank);
    wait_end(r);
    return rc < 0 ? CMD_FAIL : CMD_OK;
}

static const struct cmd_opt restart_opts[] = {
    {'t', "timeout", "DURATION", "time that one rank has to return (default: 5m)"},
    CMD_OPT_END,
};
static const struct cmd_usage restart_usage = {
    "[OPTION...] RANKS",
    "Restart the brokers of these ranks, one after the other: each leaves the session as after\n"
    "SIGTERM, is restarted by the process that started it, and is up before the next one leaves.",
    restart_opts,
    NULL,
    0,
};

static int cmd_overlay_restart(struct cmd *c, int argc, char **argv)
{
    struct wait r = {.c = c, .timeout = PATIENCE};
    const char *val;
    idset_t *ranks;
    int key, rc;

    while ((key = cmd_option(c, &restart_usage, argc, argv, &val)) > 0)
        if (cmd_parse_duration(c, "--timeout", val, &r.timeout) < 0)
            return CMD_USAGE;
    if (key < 0)
        return cmd_option_exit(key);
    if (argc != c->optind + 1)
        return cmd_usage_error(c, "one argument RANKS is required");
    if (!(r.h = cmd_handle(c)))
        return CMD_FAIL;
    if (!(ranks = cmd_parse_ranks(c, r.h, argv[c->optind])))
        return CMD_USAGE;
    if (idset_test(ranks, 0))
        rc = cmd_usage_error(c, "rank 0 cannot be restarted: the session ends with it");
    else if (idset_test(ranks, flux_rank(r.h)))
        rc =
            cmd_usage_error(c, "rank %u is the broker that this command talks to: run it elsewhere",
                            flux_rank(r.h));
    else
        rc = restart_all(&r, ranks);
    idset_destroy(ranks);
    return rc;
}

/* --- restore --- */

/* Wait for one answer.  1: ranks have moved; 0: none; -1 with an error message. */
static int restored(struct cmd *c, flux_future_t *f, idset_t *moved)
{
    struct overlay_restored out = {0}; /* `why` is optional */
    idset_t *ranks = NULL;
    int rc = -1;

    if (cmd_wait_struct(c, f, PATIENCE, "the broker", &overlay_restored_schema, &out) < 0)
        return -1;
    if (!(ranks = idset_parse(out.moved, NULL)) || idset_add(moved, ranks) < 0)
        cmd_error(c, "the answer of the broker cannot be read");
    else if (out.why)
        cmd_error(c, "%s", out.why);
    else
        rc = !idset_empty(ranks);
    idset_destroy(ranks);
    return rc;
}

/* Ask all brokers that have children: one may have a child of these ranks, or a rank that belongs
 * below one of these. */
static int restore_round(struct cmd *c, flux_t *h, const idset_t *ranks, idset_t *moved)
{
    char *text = idset_format(ranks, 0);
    const struct overlay_restore in = {text};
    struct session s;
    flux_future_t **all;
    size_t n = 0;
    int rc = 0;

    if (session_query(c, &s, true) < 0) {
        free(text);
        return -1;
    }
    if (!text || !(all = calloc(s.size, sizeof(*all)))) {
        all = NULL;
        rc = cmd_error(c, "out of memory");
    }
    for (uint32_t rank = idset_first(s.up); all && rank != IDSET_NONE;
         rank = idset_next(s.up, rank)) {
        if (topology_nchildren(s.topo, rank) > 0)
            all[n++] = flux_rpc_struct(h, "overlay.restore", &overlay_restore_schema, &in, rank, 0);
    }
    for (size_t i = 0; i < n; i++) {
        int one = restored(c, all[i], moved);

        rc = one < 0 || rc < 0 ? -1 : rc | one;
        flux_future_destroy(all[i]);
    }
    free(all);
    free(text);
    session_clear(&s);
    return rc;
}

static const struct cmd_usage restore_usage = {
    "[RANKS]",
    "Give the brokers of these ranks, which have come back, the subtrees that they had before, at\n"
    "once; without RANKS, give all of them.",
    NULL,
    NULL,
    0,
};

static int cmd_overlay_restore(struct cmd *c, int argc, char **argv)
{
    idset_t *moved = idset_create();
    idset_t *ranks = NULL;
    const char *val;
    char *text = NULL;
    flux_t *h;
    int rc;

    if ((rc = cmd_option(c, &restore_usage, argc, argv, &val)) != 0) {
        idset_destroy(moved);
        return cmd_option_exit(rc);
    }
    if (argc > c->optind + 1)
        rc = cmd_usage_error(c, "one argument RANKS is allowed");
    else if (!(h = cmd_handle(c)))
        rc = CMD_FAIL;
    else if (!(ranks = cmd_parse_ranks(c, h, argc > c->optind ? argv[c->optind] : "all")))
        rc = CMD_USAGE;
    else if (!moved)
        rc = cmd_error(c, "out of memory");
    else {
        while ((rc = restore_round(c, h, ranks, moved)) > 0)
            ;
        if ((text = idset_format(moved, 0)) && *text)
            printf("moved: %s\n", text);
        rc = rc < 0 ? CMD_FAIL : CMD_OK;
    }
    free(text);
    idset_destroy(ranks);
    idset_destroy(moved);
    return rc;
}

/* --- add --- */

struct adding;

struct added_host {
    struct adding *a;
    const char *name;
    flux_future_t *asked;
};

struct adding {
    struct cmd *c;
    flux_t *h;
    double timeout;
    strvec_t *hosts;
    struct added_host *all; /* one for each */
    size_t asked, answered; /* of them */
    int failed;
};

static void ask_more(struct adding *a);

static int add_name(const char *name, void *arg)
{
    return strvec_add(arg, name);
}

/* The answer for one host: its broker is up, or will not be; or there is none in time. */
static void added_cb(flux_future_t *f, void *arg)
{
    struct added_host *host = arg;
    struct adding *a = host->a;
    struct overlay_added out = {0};

    a->answered++;
    if (flux_future_errnum(f) == ETIMEDOUT) {
        cmd_error(a->c,
                  "host %s: no broker is up there after %g s (--timeout): see the messages of flux "
                  "start",
                  host->name, a->timeout);
        a->failed++;
    } else if (cmd_wait_struct(a->c, f, 0., "the broker", &overlay_added_schema, &out) < 0) {
        a->failed++;
    } else {
        if (out.waits)
            printf("rank %u is for host %s: start its broker there with --set=boot.rank=%u, or "
                   "with the host as rank %u in session.hosts\n",
                   out.rank, host->name, out.rank, out.rank);
        else
            printf("rank %u on host %s is up\n", out.rank, host->name);
        fflush(stdout);
    }
    ask_more(a);
}

/* Ask for the next hosts; with the last answer, the reactor stops. */
static void ask_more(struct adding *a)
{
    size_t n = strvec_count(a->hosts);

    while (a->asked < n && a->asked - a->answered < ASKED_MAX) {
        struct added_host *host = &a->all[a->asked++];
        const struct overlay_add in = {strvec_at(a->hosts, (size_t)(host - a->all))};
        flux_future_t *f =
            flux_rpc_struct(a->h, "overlay.add", &overlay_add_schema, &in, FLUX_NODEID_ROOT, 0);

        *host = (struct added_host){a, in.host, f};
        if (!f ||
            flux_future_then(f, isfinite(a->timeout) ? a->timeout : -1., added_cb, host) < 0) {
            cmd_error(a->c, "host %s cannot be asked for: %s", in.host, strerror(errno));
            a->answered++;
            a->failed++;
        }
    }
    if (a->answered == n)
        flux_reactor_stop(flux_get_reactor(a->h), 0);
}

static int add_all(struct adding *a)
{
    size_t n = strvec_count(a->hosts);
    int rc = (a->all = calloc(n, sizeof(a->all[0]))) ? 0 : -1;

    if (rc < 0)
        return cmd_error(a->c, "out of memory for %zu hosts", n);
    ask_more(a);
    if (a->answered < n && flux_run(a->h) < 0 && a->answered < n)
        rc = cmd_error(a->c, "the connection to the broker was lost");
    for (size_t i = 0; i < n; i++)
        flux_future_destroy(a->all[i].asked);
    free(a->all);
    return rc != 0 || a->failed > 0 ? CMD_FAIL : CMD_OK;
}

static const struct cmd_opt add_opts[] = {
    {'t', "timeout", "DURATION", "time for the brokers to join (default: 5m)"},
    CMD_OPT_END,
};
static const struct cmd_usage add_usage = {
    "[OPTION...] HOST...",
    "Add these hosts (node[4-7]) to the session: each gets a rank that has no host yet. A session "
    "of\n"
    "flux start --hosts, with a --size above the number of these, starts a broker on each, and "
    "the\n"
    "command waits until they are up. A session by configuration file, with a session.size above "
    "the\n"
    "number of its hosts, only admits them: the command prints their ranks, and the hosts start "
    "their\n"
    "brokers themselves.",
    add_opts,
    NULL,
    0,
};

static int cmd_overlay_add(struct cmd *c, int argc, char **argv)
{
    struct adding a = {.c = c, .timeout = PATIENCE, .hosts = strvec_create()};
    const char *val;
    int key, rc = CMD_OK;
    errmsg_t err = {"out of memory"};

    while ((key = cmd_option(c, &add_usage, argc, argv, &val)) > 0) {
        if (cmd_parse_duration(c, "--timeout", val, &a.timeout) < 0)
            rc = CMD_USAGE;
    }
    if (key < 0)
        rc = cmd_option_exit(key);
    else if (rc == CMD_OK && argc == c->optind)
        rc = cmd_usage_error(c, "an argument HOST is required");
    for (int i = c->optind; key == 0 && rc == CMD_OK && i < argc; i++) {
        if (hostlist_walk(argv[i], add_name, a.hosts, &err) < 0)
            rc = cmd_usage_error(c, "%s: %s", argv[i], err.text);
    }
    if (key == 0 && rc == CMD_OK && strvec_count(a.hosts) == 0)
        rc = cmd_usage_error(c, "the list of hosts is empty");
    if (key == 0 && rc == CMD_OK)
        rc = (a.h = cmd_handle(c)) ? add_all(&a) : CMD_FAIL;
    strvec_destroy(a.hosts);
    return rc;
}

static const struct cmd_sub subs[] = {
    {"add", cmd_overlay_add, "[OPTION...] HOST...", "add further hosts to the session"},
    {"restart", cmd_overlay_restart, "[OPTION...] RANKS", "restart brokers one by one"},
    {"restore", cmd_overlay_restore, "[RANKS]", "give brokers that came back their subtrees"},
    CMD_SUB_END,
};

int cmd_overlay(struct cmd *c, int argc, char **argv)
{
    return cmd_subcommand(c, "The brokers of the session and their connections.", subs, argc, argv);
}
