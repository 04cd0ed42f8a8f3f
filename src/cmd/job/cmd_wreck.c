/* cmd_wreck.c - flux wreck: inspect and control jobs.
 *
 * This file contains the commands that consist of a request and its response.  Commands that read
 * the record of a job are in cmd_wreck_info.c, the one that follows a job is in
 * cmd_wreck_attach.c.
 */
#include "config.h"
#include "cmd_wreck.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cmd_all.h"
#include "cmd_jobs.h"
#include "job_args.h"
#include "jobfollow.h"
#include "job_waitline.h"
#include "libutil/strutil.h"

#define SHOWN_MAX 10 /* failed jobs that are described */

#define KEY_KEEP CMD_KEY(0)
#define KEY_AGE CMD_KEY(1)
#define KEY_FORCE CMD_KEY(2)
#define KEY_TYPE CMD_KEY(3)
#define KEY_SEVERITY CMD_KEY(4)

static int wreck_ls(struct cmd *c, int argc, char **argv)
{
    return jobs_main(c, argc, argv, true);
}

/* Operands are ids: do it to all of them. */
static int act(struct cmd *c, int argc, char **argv, const char *what,
               flux_future_t *(*send)(flux_t *h, const char *ids, void *arg), void *arg)
{
    idset_t *ids = job_args_ids(c, argc, argv);
    char *text = ids ? job_args_format(c, ids) : NULL;
    int code = ids ? CMD_FAIL : CMD_USAGE;
    flux_t *h;

    if (text && (h = cmd_handle(c)))
        code = job_args_finish(c, send(h, text, arg), what, NULL);
    free(text);
    idset_destroy(ids);
    return code;
}

/* --- kill --- */

static flux_future_t *send_kill(flux_t *h, const char *ids, void *arg)
{
    return flux_job_kill(h, ids, *(int *)arg);
}

static int wreck_kill(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {'s', "signal", "SIGNAL", "TERM (the default), SIGUSR1, 9..."},
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {
        "[-s SIGNAL] ID...", "Send a signal to all tasks of running jobs.", opts, NULL, 0};
    int key, signum = SIGTERM;
    const char *val;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        if (job_args_signal(c, "--signal", val, &signum) < 0)
            return CMD_USAGE;
    }
    if (key < 0)
        return cmd_option_exit(key);
    return act(c, argc - c->optind, argv + c->optind, "the signal to be sent", send_kill, &signum);
}

/* --- urgency --- */

static flux_future_t *send_urgency(flux_t *h, const char *ids, void *arg)
{
    return flux_job_urgency(h, ids, *(uint32_t *)arg);
}

static int wreck_urgency(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {"ID... URGENCY",
                                           "Change the urgency of pending jobs: URGENCY is a "
                                           "number from 0 (hold) to 31, or one of hold,\n"
                                           "default (16) and expedite (31).",
                                           NULL, NULL, 0};
    const char *val;
    uint32_t urgency;
    int key;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0)
        ;
    if (key < 0)
        return cmd_option_exit(key);
    argc -= c->optind, argv += c->optind;
    if (argc < 2)
        return cmd_usage_error(c, "ids and an urgency are required");
    val = argv[argc - 1];
    if (strcmp(val, "hold") == 0)
        urgency = JOB_URGENCY_HOLD;
    else if (strcmp(val, "default") == 0)
        urgency = JOB_URGENCY_DEFAULT;
    else if (strcmp(val, "expedite") == 0)
        urgency = JOB_URGENCY_MAX;
    else if (str2u32(val, &urgency) < 0 || urgency > JOB_URGENCY_MAX)
        return cmd_usage_error(c, "'%s' is not an urgency from 0 to %d", val, JOB_URGENCY_MAX);
    return act(c, argc - 1, argv, "the urgency to be changed", send_urgency, &urgency);
}

static int set_urgency(struct cmd *c, int argc, char **argv, const struct cmd_usage *usage,
                       uint32_t urgency)
{
    const char *val;
    int key;

    while ((key = cmd_option(c, usage, argc, argv, &val)) > 0)
        ;
    if (key < 0)
        return cmd_option_exit(key);
    return act(c, argc - c->optind, argv + c->optind, "the urgency to be changed", send_urgency,
               &urgency);
}

static int wreck_hold(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "ID...", "Hold pending jobs by setting their urgency to 0.", NULL, NULL, 0};

    return set_urgency(c, argc, argv, &usage, JOB_URGENCY_HOLD);
}

static int wreck_release(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "ID...", "Release held jobs by setting their urgency to 16.", NULL, NULL, 0};

    return set_urgency(c, argc, argv, &usage, JOB_URGENCY_DEFAULT);
}

/* --- raise --- */

struct raise_args {
    const char *type;
    uint32_t severity;
    const char *note;
};

static flux_future_t *send_raise(flux_t *h, const char *ids, void *arg)
{
    const struct raise_args *a = arg;

    return flux_job_raise(h, ids, a->type, (int)a->severity, a->note);
}

static int wreck_raise(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {KEY_TYPE, "type", "WORD", "type of the exception (default: user)"},
        {KEY_SEVERITY, "severity", "N", "0 ends the job (the default); 1 to 7 are informational"},
        {'m', "note", "TEXT", "description"},
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {
        "[OPTION...] ID...", "Raise an exception for jobs, and record it.", opts, NULL, 0};
    struct raise_args a = {.type = "user"};
    const char *val;
    int key, rc = 0;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        if (key == KEY_TYPE)
            a.type = val;
        else if (key == KEY_SEVERITY)
            rc = cmd_parse_u32(c, "--severity", val, &a.severity);
        else
            a.note = val;
        if (rc < 0 || a.severity > JOB_SEVERITY_MAX)
            return rc < 0 ? CMD_USAGE
                          : cmd_usage_error(c, "--severity: at most %d", JOB_SEVERITY_MAX);
    }
    if (key < 0)
        return cmd_option_exit(key);
    return act(c, argc - c->optind, argv + c->optind, "the exception to be raised", send_raise, &a);
}

/* --- wait --- */

struct waiting {
    struct cmd *c;
    bool verbose;
    size_t shown; /* how they failed */
    int code;
};

static void on_ended(void *arg, const struct job_ended *e)
{
    struct waiting *w = arg;
    int code = e->error ? CMD_FAIL : e->code;

    if (code > w->code)
        w->code = code;
    if (w->verbose && !e->error)
        printf("%" PRIu64 " %s %d%s%s\n", e->id, e->result ? e->result : "?", e->code,
               e->text ? " " : "", e->text ? e->text : "");
    else if (e->error || ((code || e->warning) && w->shown++ < SHOWN_MAX))
        job_waitline_ended(w->c, e, NULL, JOBTELL_TASKS_OF_MANY);
    fflush(stdout);
}

static int collect(void *arg, const struct job_info *info, json_t *json)
{
    return idset_set(arg, (uint32_t)info->id);
}

static idset_t *all_mine(struct cmd *c, flux_t *h)
{
    idset_t *ids = idset_create();
    struct job_list query;

    flux_job_list_init(&query);
    if (!ids || job_args_list(c, h, &query, collect, ids) < 0) {
        idset_destroy(ids);
        return NULL;
    }
    return ids;
}

static int wreck_wait(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {'a', "all", NULL, "wait for all jobs that are active now"},
        {'v', "verbose", NULL, "print a line for each job as it ends: ID RESULT CODE"},
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {
        "[-v] ID...\n[-v] --all", "Wait until jobs have ended.", opts,
        "Exit code: the greatest exit code of these jobs; 1 when one of them does not exist.", 0};
    struct waiting w = {.c = c};
    const struct jobfollow_cb cb = {.ended = on_ended, .arg = &w};
    bool all = false;
    idset_t *ids = NULL;
    const char *val;
    int key, code = CMD_FAIL;
    flux_t *h;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        all |= key == 'a';
        w.verbose |= key == 'v';
    }
    if (key < 0)
        return cmd_option_exit(key);
    argc -= c->optind, argv += c->optind;
    if (all && argc > 0)
        return cmd_usage_error(c, "--all cannot be combined with ids");
    if (!all && !(ids = job_args_ids(c, argc, argv)))
        return CMD_USAGE;
    cmd_returns(c);
    if ((h = cmd_handle(c)) && (ids || (ids = all_mine(c, h))))
        code = jobfollow_run(c, h, ids, 0, &cb);
    idset_destroy(ids);
    return code == CMD_OK ? w.code : code;
}

/* --- purge --- */

/* Of the ids that were given, those that cannot be forgotten are named.  CMD_FAIL when there
 * are. */
static int take_purgeable(void *arg, const struct job_info *info, json_t *json)
{
    idset_t **sets = arg; /* named and not seen; seen and active */
    bool active = info->state && job_state_parse(info->state) != JOB_STATE_INACTIVE;

    if (idset_clear(sets[0], (uint32_t)info->id) < 0)
        return -1;
    return active ? idset_set(sets[1], (uint32_t)info->id) : 0;
}

static int check_purge(struct cmd *c, flux_t *h, const idset_t *ids, const char *text)
{
    idset_t *sets[2] = {idset_copy(ids), idset_create()};
    struct job_list query;
    char *left;
    int code = CMD_OK;

    flux_job_list_init(&query);
    query.ids = text;
    if (!sets[0] || !sets[1] || job_args_list(c, h, &query, take_purgeable, sets) < 0)
        code = CMD_FAIL;
    for (int i = 0; code != CMD_FAIL && i < 2; i++) {
        if (!idset_empty(sets[i]) && (left = idset_format(sets[i], 0))) {
            cmd_error(c, i == 0 ? "there is no job %s" : "job %s has not ended yet", left);
            free(left);
            code = i == 0 ? CMD_USAGE : code; /* more to be said */
        }
    }
    if (code == CMD_USAGE || (sets[1] && !idset_empty(sets[1])))
        code = CMD_FAIL;
    idset_destroy(sets[0]);
    idset_destroy(sets[1]);
    return code;
}

static int wreck_purge(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {KEY_AGE, "age", "DURATION", "jobs that ended longer ago than DURATION"},
        {KEY_KEEP, "keep", "N", "all but the most recent N jobs"},
        {KEY_FORCE, "force", NULL, "all ended jobs, if no other selection is given"},
        {'q', "quiet", NULL, "do not print the number of jobs"},
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {"[OPTION...] [ID...]",
                                           "Purge ended jobs: remove their records and output from "
                                           "the key-value store. Their ids are\n"
                                           "not reused.",
                                           opts, NULL, 0};
    struct job_purge what = {.keep = -1};
    const char *val;
    bool quiet = false, given = false;
    uint32_t purged = 0;
    idset_t *ids = NULL;
    char *text = NULL;
    uint64_t keep;
    errmsg_t err;
    flux_future_t *f;
    flux_t *h;
    int key, checked, code = CMD_FAIL;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        int rc = 0;

        if (key == KEY_AGE) {
            rc = cmd_parse_duration(c, "--age", val, &what.age);
        } else if (key == KEY_KEEP) {
            rc = cmd_parse_u64(c, "--keep", val, &keep);
            what.keep = keep > INT64_MAX ? INT64_MAX : (int64_t)keep;
        } else if (key == KEY_FORCE) {
            what.force = true;
        } else {
            quiet = true;
        }
        given |= key != 'q';
        if (rc < 0)
            return CMD_USAGE;
    }
    if (key < 0)
        return cmd_option_exit(key);
    argc -= c->optind, argv += c->optind;
    if (argc > 0 && (!(ids = job_args_ids(c, argc, argv)) || !(text = job_args_format(c, ids)))) {
        idset_destroy(ids);
        return CMD_USAGE;
    }
    what.ids = text;
    if (!text && !given)
        return cmd_usage_error(
            c, "select the jobs by IDs, --age or --keep, or all of them with --force");
    if (!(h = cmd_handle(c)))
        goto out;
    checked = ids ? check_purge(c, h, ids, text) : CMD_OK;
    f = flux_job_purge(h, &what);
    if (cmd_wait(c, f, -1., "the jobs to be purged") == 0) {
        if (flux_job_purge_get(f, &purged, &err) < 0) {
            cmd_error(c, "%s", err.text);
        } else {
            if (!quiet)
                printf("%u job%s forgotten\n", purged, purged == 1 ? "" : "s");
            code = checked;
        }
    }
    flux_future_destroy(f);
out:
    free(text);
    idset_destroy(ids);
    return code;
}

int cmd_wreck(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_sub subs[] = {
        {"ls", wreck_ls, "[OPTION...] [ID...]",
         "list jobs, including ended jobs (same as flux jobs -a)"},
        {"status", wreck_status, "[-j] ID...", "print everything about a job"},
        {"attach", wreck_attach, "[OPTION...] ID", "print its output until it ends"},
        {"kill", wreck_kill, "[-s SIGNAL] ID...", "send a signal to all its tasks"},
        {"cancel", cmd_cancel, "[OPTION...] ID...", "cancel it (same as flux cancel)"},
        {"wait", wreck_wait, "[-v] ID...", "wait until it has ended"},
        {"urgency", wreck_urgency, "ID... URGENCY", "change its urgency"},
        {"hold", wreck_hold, "ID...", "hold it: do not start it"},
        {"release", wreck_release, "ID...", "release it after a hold"},
        {"raise", wreck_raise, "[OPTION...] ID...", "raise an exception"},
        {"timing", wreck_timing, "[-j] ID...", "print the time spent in each phase"},
        {"eventlog", wreck_eventlog, "[OPTION...] ID", "print its events"},
        {"purge", wreck_purge, "[OPTION...] [ID...]", "purge ended jobs"},
        CMD_SUB_END,
    };

    return cmd_subcommand(c, "Inspect and control jobs.", subs, argc, argv);
}
