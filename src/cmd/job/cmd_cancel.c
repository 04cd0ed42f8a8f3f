/* cmd_cancel.c - flux cancel: end jobs, or take them out of the queue. */
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
    {'a', "all", NULL, "all active jobs of mine"},
    {'u', "user", "USER", "all active jobs of a user, or of all: 'all'"},
    {'s', "states", "STATES", "of these only: pending, running, or names of states"},
    {'N', "name", "NAME", "of these only: jobs of that name"},
    {'m', "note", "TEXT", "why: it is put on record"},
    {'n', "dry-run", NULL, "only say how many it would be"},
    {'q', "quiet", NULL, "do not say how many it were"},
    {KEY_WAIT, "wait", NULL, "wait until they have ended"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] ID...\n[OPTION...] --all|--user=USER|--states=STATES|--name=NAME",
    "End jobs: those that wait leave the queue, those that run get SIGTERM and, after their\n"
    "grace period, SIGKILL.  ID is a job's id or several: 1-10,12.",
    opts,
    "Exit code 1 also when one of the jobs is not there or has ended.",
    0,
};

static int collect(void *arg, const struct job_info *info, json_t *json)
{
    return idset_set(arg, (uint32_t)info->id);
}

static void ended(void *arg, const struct job_ended *e)
{
}

static int wait_for(struct cmd *c, flux_t *h, const idset_t *ids)
{
    const struct jobfollow_cb cb = {.ended = ended};
    jobfollow_t *jf = jobfollow_create(c, h, 0, &cb);
    int rc = jf ? 0 : -1;

    for (uint32_t id = idset_first(ids); rc == 0 && id != IDSET_NONE; id = idset_next(ids, id))
        rc = jobfollow_add(jf, id);
    if (rc == 0)
        rc = jobfollow_run(jf);
    jobfollow_destroy(jf);
    return rc < 0 ? CMD_FAIL : CMD_OK;
}

int cmd_cancel(struct cmd *c, int argc, char **argv)
{
    struct job_list query;
    const char *val, *note = NULL;
    bool filter = false, quiet = false, dry = false, wait = false;
    idset_t *ids = NULL;
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
            rc = job_args_states(c, "--states", val, &query.states);
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
        return cmd_usage_error(c, "ids do not go with --all, --user, --states and --name");
    if (!filter && argc == 0)
        return cmd_usage_error(c, "an ID is needed, or --all");
    if (!(ids = filter ? idset_create() : job_args_ids(c, argc, argv)))
        return CMD_USAGE;
    if (!(h = cmd_handle(c)) || (filter && job_args_list(c, h, &query, collect, ids) < 0))
        goto out;
    if (dry || idset_empty(ids)) {
        if (!quiet)
            printf("%zu job%s%s\n", idset_count(ids), idset_count(ids) == 1 ? "" : "s",
                   dry ? " would be canceled" : "");
        code = CMD_OK;
        goto out;
    }
    if ((text = job_args_format(c, ids)))
        code = job_args_finish(c, flux_job_cancel(h, text, note), "jobs to be canceled", &count);
    if (text && filter && !quiet)
        printf("%u job%s\n", count, count == 1 ? "" : "s");
    if (wait && count > 0 && wait_for(c, h, ids) != CMD_OK)
        code = CMD_FAIL;
out:
    free(text);
    idset_destroy(ids);
    return code;
}
