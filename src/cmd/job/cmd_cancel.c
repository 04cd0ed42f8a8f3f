/* cmd_cancel.c - flux cancel: cancel pending or running jobs. */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../cmd_all.h"
#include "job_args.h"
#include "jobfollow.h"
#include "libjob/job.h"

#define KEY_WAIT CMD_KEY(0)

static const struct cmd_opt opts[] = {
    {'a', "all", NULL, "cancel all your active jobs"},
    {'u', "user", "USER", "cancel all active jobs of this user, or of 'all' users"},
    {'s', "states", "STATES", "only jobs in these states: pending, running, queued, held..."},
    {'N', "name", "NAME", "only jobs with this name"},
    {'m', "note", "TEXT", "reason, which is recorded"},
    {'n', "dry-run", NULL, "print the number of jobs that would be canceled, and do nothing"},
    {'q', "quiet", NULL, "do not print the number of jobs"},
    {KEY_WAIT, "wait", NULL, "wait until the jobs have ended"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] ID...\n[OPTION...] --all|--user=USER|--states=STATES|--name=NAME",
    "Cancel jobs: pending jobs are removed from the queue, running jobs get SIGTERM and, after\n"
    "their grace period, SIGKILL. ID is one job id or several: 1-10,12.",
    opts,
    "Exit code 1 also when one of the jobs does not exist or has ended.",
    0,
};

struct selection {
    struct job_args_shown shown;
    idset_t *ids;
};

static int collect(void *arg, const struct job_info *info, json_t *json)
{
    struct selection *s = arg;

    return job_args_shown(&s->shown, info) ? idset_set(s->ids, (uint32_t)info->id) : 0;
}

static void ended(void *arg, const struct job_ended *e)
{
}

int cmd_cancel(struct cmd *c, int argc, char **argv)
{
    const struct jobfollow_cb cb = {.ended = ended};
    struct job_list query;
    const char *val, *note = NULL;
    bool filter = false, quiet = false, dry = false, wait = false;
    struct selection sel = {.ids = NULL};
    char *text = NULL;
    int key, rc = 0, code = CMD_FAIL;
    uint32_t count = 0;
    flux_t *h;

    flux_job_list_init(&query);
    query.user = getuid();
    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        switch (key) {
        case 'a':
            filter = true;
            break;
        case 'u':
            filter = true;
            rc = job_args_user(c, "--user", val, &query.user);
            break;
        case 's':
            filter = true;
            rc = job_args_states(c, "--states", val, &query.states, &sel.shown);
            query.states &= JOB_STATES_ACTIVE;
            if (rc == 0 && !query.states)
                return cmd_usage_error(c, "--states: jobs that have ended cannot be canceled");
            break;
        case 'N':
            filter = true;
            query.name = val;
            break;
        case 'm':
            note = val;
            break;
        case 'n':
            dry = true;
            break;
        case 'q':
            quiet = true;
            break;
        case KEY_WAIT:
            wait = true;
            break;
        }
        if (rc < 0)
            return CMD_USAGE;
    }
    if (key < 0)
        return cmd_option_exit(key);
    argc -= c->optind, argv += c->optind;
    if (filter && argc > 0)
        return cmd_usage_error(c, "ids cannot be combined with --all, --user, --states and --name");
    if (!filter && argc == 0)
        return cmd_usage_error(c, "an ID or --all is required");
    if (!(sel.ids = filter ? idset_create() : job_args_ids(c, argc, argv)))
        return CMD_USAGE;
    if (!(h = cmd_handle(c)) || (filter && job_args_list(c, h, &query, collect, &sel) < 0))
        goto out;
    if (dry || idset_empty(sel.ids)) {
        if (!quiet)
            printf("%zu job%s%s\n", idset_count(sel.ids), idset_count(sel.ids) == 1 ? "" : "s",
                   dry ? " would be canceled" : "");
        code = CMD_OK;
        goto out;
    }
    if ((text = job_args_format(c, sel.ids)))
        code =
            job_args_finish(c, flux_job_cancel(h, text, note), "the jobs to be canceled", &count);
    if (text && filter && !quiet)
        printf("%u job%s\n", count, count == 1 ? "" : "s");
    if (wait && count > 0 && jobfollow_run(c, h, sel.ids, 0, &cb) != CMD_OK)
        code = CMD_FAIL;
out:
    free(text);
    idset_destroy(sel.ids);
    return code;
}
