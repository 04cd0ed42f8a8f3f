/* cmd_queue.c - flux queue: show, stop and start the job queue.
 *
 * The job service knows whether jobs are accepted and how many there are in each state; the
 * scheduler knows its policies.  `list` queries both, and works without the scheduler if it is not
 * loaded.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cmd_all.h"
#include "job_waitline.h"
#include "libjob/job.h"

#define KEY_QUEUE CMD_KEY(0)
#define KEY_NODE CMD_KEY(1)

/* One of the answers, as a new object; NULL after a sentence, or, with `optional`, silently. */
static json_t *ask(struct cmd *c, flux_future_t *f, const char *what, bool optional)
{
    const char *json;
    json_t *o = NULL;
    errmsg_t err;

    if (!f) {
        cmd_error(c, "out of memory");
    } else if (optional) {
        while (!flux_future_ready(f) && flux_future_wait(f, -1.) == 0)
            ;
        if (flux_rpc_get_json(f, &json, &err) == 0)
            o = json_loads(json, 0, NULL);
    } else if (cmd_wait(c, f, -1., what) == 0) {
        if (flux_rpc_get_json(f, &json, &err) < 0)
            cmd_error(c, "%s", err.text);
        else if (!(o = json_loads(json, 0, NULL)))
            cmd_error(c, "the response of the service is not JSON");
    }
    flux_future_destroy(f);
    return o;
}

static long long num(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static const char *text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "";
}

static void print_status(const json_t *job, const json_t *sched)
{
    const char *reason = text(job, "reason");

    printf("submission  %s\n",
           json_is_true(json_object_get(job, "accepting")) ? "accepted" : "disabled");
    printf("scheduling  %s\n",
           json_is_true(json_object_get(job, "scheduling")) ? "started" : "stopped");
    if (*reason)
        printf("reason      %s\n", reason);
    if (sched)
        printf("policy      %s, nodes %s\n", text(sched, "queue"), text(sched, "node"));
    printf("depend      %lld\n", num(job, "depend"));
    printf("held        %lld\n", num(job, "priority") + num(job, "held"));
    printf("pending     %lld\n", num(job, "sched") - num(job, "held"));
    printf("running     %lld\n", num(job, "run"));
    printf("ending      %lld\n", num(job, "cleanup"));
    printf("ended       %lld\n", num(job, "inactive"));
}

static int queue_list(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {'j', "json", NULL, "print the responses of the services as JSON"},
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {
        "[OPTION...]",
        "Print whether jobs are accepted and started, and the number of jobs in each state.", opts,
        NULL, 0};
    json_t *job, *sched;
    const char *val;
    bool json = false;
    int key, code = CMD_OK;
    flux_t *h;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0)
        json = true;
    if (key < 0)
        return cmd_option_exit(key);
    if (argc > c->optind)
        return cmd_usage_error(c, "no argument is expected");
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    flux_future_t *f = flux_rpc(h, "sched.status", "{}", FLUX_NODEID_ROOT,
                                FLUX_MSGF_IDEMPOTENT); /* while we wait for the other */
    if (!(job = ask(c, flux_job_queue(h, "status", NULL), "the state of the queue", false))) {
        flux_future_destroy(f);
        return CMD_FAIL;
    }
    sched = ask(c, f, "", true);
    if (json) {
        json_t *both = json_object();

        if (json_object_set(both, "jobs", job) < 0 ||
            (sched && json_object_set(both, "sched", sched) < 0))
            code = cmd_error(c, "out of memory");
        else
            code = cmd_print_json(c, json_incref(both));
        json_decref(both);
    } else {
        print_status(job, sched);
    }
    json_decref(job);
    json_decref(sched);
    return code;
}

struct until {
    flux_t *h;
    bool over, timed_out;
};

static void until_stop(struct until *u, bool timed_out)
{
    u->over = true;
    u->timed_out = timed_out;
    flux_reactor_stop(flux_get_reactor(u->h), 0);
}

static void answer_cb(flux_future_t *f, void *arg)
{
    until_stop(arg, false);
}

static void timeout_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    until_stop(arg, true);
}

/* Wait until no job is left, and tell on a terminal which ones are.  -1 after a sentence. */
static int wait_for_jobs(struct cmd *c, flux_t *h, flux_future_t *f, double timeout,
                         const char *what, const char *late)
{
    struct until u = {.h = h};
    flux_watcher_t *timer = NULL;
    job_waitline_t *tell = NULL;
    errmsg_t err;
    int rc = -1;

    if (!f || flux_future_then(f, -1., answer_cb, &u) < 0 ||
        (timeout > 0. && !(timer = flux_timer_create(flux_get_reactor(h), timeout_cb, &u)))) {
        cmd_error(c, "out of memory");
        return -1;
    }
    if (timer)
        flux_timer_start(timer, timeout, 0.);
    tell = job_waitline_start_set(c, h, NULL, what);
    if (flux_run(h) < 0 && !u.over)
        cmd_error(c, "the connection to the broker was lost");
    job_waitline_stop(tell);
    if (u.over && u.timed_out)
        cmd_error(c, "some jobs have not ended after %g s%s", timeout, late);
    else if (u.over && (rc = flux_rpc_get(f, &err)) < 0)
        cmd_error(c, "%s", err.text);
    flux_watcher_destroy(timer);
    return rc;
}

/* start, stop and the like: the same with another word. */
static int queue_op(struct cmd *c, int argc, char **argv, const char *op, const char *what,
                    const char *help, bool takes_reason, bool waits)
{
    static const struct cmd_opt with_timeout[] = {
        {'t', "timeout", "DURATION", "give up after this time, with exit code 1"},
        CMD_OPT_END,
    };
    const struct cmd_usage usage = {takes_reason ? "[REASON...]"
                                    : waits      ? "[OPTION...]"
                                                 : "",
                                    help, waits ? with_timeout : NULL, NULL, 0};
    char reason[512] = "";
    const char *val;
    double timeout = -1.;
    flux_future_t *f;
    flux_t *h;
    int key, rc;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        if (cmd_parse_duration(c, "--timeout", val, &timeout) < 0)
            return CMD_USAGE;
        if (timeout <= 0. || timeout > 1e9)
            timeout = -1.;
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (!takes_reason && argc > c->optind)
        return cmd_usage_error(c, "no argument is expected");
    for (int i = c->optind; i < argc; i++) {
        size_t n = strlen(reason);

        snprintf(reason + n, sizeof(reason) - n, "%s%s", n ? " " : "", argv[i]);
    }
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    f = flux_job_queue(h, op, *reason ? reason : NULL);
    if (waits)
        rc = wait_for_jobs(
            c, h, f, timeout, what,
            strcmp(op, "drain") == 0 ? "; no jobs are accepted until 'flux queue enable'" : "");
    else
        rc = cmd_wait(c, f, timeout, what);
    flux_future_destroy(f);
    return rc < 0 ? CMD_FAIL : CMD_OK;
}

static int queue_stop(struct cmd *c, int argc, char **argv)
{
    return queue_op(
        c, argc, argv, "stop", "the queue to stop",
        "Prevent jobs from being started. Jobs are still accepted, and running jobs continue.",
        true, false);
}

static int queue_start(struct cmd *c, int argc, char **argv)
{
    return queue_op(c, argc, argv, "start", "the queue to start", "Start jobs again.", false,
                    false);
}

static int queue_disable(struct cmd *c, int argc, char **argv)
{
    return queue_op(c, argc, argv, "disable", "submission to be disabled",
                    "Reject new jobs. REASON is shown to users who submit one.", true, false);
}

static int queue_enable(struct cmd *c, int argc, char **argv)
{
    return queue_op(c, argc, argv, "enable", "submission to be enabled", "Accept jobs again.",
                    false, false);
}

static int queue_drain(struct cmd *c, int argc, char **argv)
{
    return queue_op(c, argc, argv, "drain", "waiting for all jobs to end",
                    "Reject new jobs, and wait until all existing jobs have ended. The queue stays "
                    "disabled, even\n"
                    "after --timeout and ^C: 'flux queue enable' accepts jobs again.",
                    false, true);
}

static int queue_idle(struct cmd *c, int argc, char **argv)
{
    return queue_op(c, argc, argv, "idle", "waiting for the queue to be empty",
                    "Wait until no job is pending or running.", false, true);
}

static int queue_policy(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {KEY_QUEUE, "queue", "NAME",
         "policy that selects the next job: fcfs, easy, conservative,\n"
         "replan, a plugin or a Lua file"},
        {KEY_NODE, "nodes", "NAME",
         "policy that selects its nodes: first-fit, best-fit, spread,\n"
         "compact, buddy, interference-free, a plugin or a Lua file"},
        {'j', "json", NULL, "print JSON"},
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {
        "[OPTION...]", "Print the scheduling policies, or change them.", opts, NULL, 0};
    json_t *req = json_object(), *answer;
    const char *val;
    char *body;
    bool json = false;
    int key, rc = 0;
    flux_t *h;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        if (key == KEY_QUEUE)
            rc = json_object_set_new(req, "queue", json_string(val));
        else if (key == KEY_NODE)
            rc = json_object_set_new(req, "node", json_string(val));
        else
            json = true;
        if (rc < 0)
            key = (cmd_usage_error(c, "'%s' is not the name of a policy", val), -2);
        if (key < 0)
            break;
    }
    if (key < 0 || argc > c->optind) {
        json_decref(req);
        return key < 0 ? cmd_option_exit(key) : cmd_usage_error(c, "no argument is expected");
    }
    body = json_dumps(req, JSON_COMPACT);
    json_decref(req);
    if (!body || !(h = cmd_handle(c))) {
        free(body);
        return CMD_FAIL;
    }
    answer = ask(c, flux_rpc(h, "sched.policy", body, FLUX_NODEID_ROOT, 0),
                 "the policy to be changed", false);
    free(body);
    if (!answer)
        return CMD_FAIL;
    if (json)
        return cmd_print_json(c, answer);
    printf("queue  %s\nnodes  %s\n", text(answer, "queue"), text(answer, "node"));
    json_decref(answer);
    return CMD_OK;
}

int cmd_queue(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_sub subs[] = {
        {"list", queue_list, "[-j]", "print the state of the queue and the number of jobs"},
        {"stop", queue_stop, "[REASON...]", "prevent jobs from being started"},
        {"start", queue_start, "", "start jobs again"},
        {"disable", queue_disable, "[REASON...]", "reject new jobs"},
        {"enable", queue_enable, "", "accept jobs again"},
        {"drain", queue_drain, "[-t DURATION]", "reject new jobs, and wait until all have ended"},
        {"idle", queue_idle, "[-t DURATION]", "wait until no job is pending or running"},
        {"policy", queue_policy, "[--queue=NAME] [--nodes=NAME] [-j]",
         "print or change the scheduling policies"},
        CMD_SUB_END,
    };

    return cmd_subcommand(c, "The job queue.", subs, argc, argv);
}
