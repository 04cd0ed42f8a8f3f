/* job_args.c - what the commands that act on jobs have in common: arguments and results.
 *
 * Arguments: sets of ids, states, users, signals.  A list of states mixes names of states (depend),
 * names of groups (pending), and the words of the column STATE that stand for a part of a state
 * (held, failed): the service is asked for whole states, and job_args_shown() selects the jobs.
 *
 * Results: jobs that a request could not act on are printed one by one, at most ERRORS_SHOWN.
 *
 * Failure: an error message has been printed, and the return value says so.
 */
#include "config.h"
#include "job_args.h"

#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "jobs_table.h"
#include "libjob/job.h"
#include "libutil/strutil.h"

#define ERRORS_SHOWN 10

idset_t *job_args_ids(struct cmd *c, int argc, char *const *argv)
{
    idset_t *all = idset_create();

    if (!all) {
        cmd_error(c, "out of memory");
        return NULL;
    }
    for (int i = 0; i < argc; i++) {
        errmsg_t err;
        idset_t *ids = idset_parse(argv[i], &err);
        int rc = ids ? idset_add(all, ids) : -1;

        idset_destroy(ids);
        if (rc < 0) {
            idset_destroy(all);
            cmd_usage_error(c, "'%s' is not a job id or a set of job ids (1-10,12)", argv[i]);
            return NULL;
        }
    }
    if (idset_empty(all)) {
        idset_destroy(all);
        cmd_usage_error(c, "a job id is required");
        return NULL;
    }
    return all;
}

int job_args_id(struct cmd *c, int argc, char *const *argv, uint64_t *id)
{
    if (argc != 1)
        return cmd_usage_error(c, "exactly one job id is required"), -1;
    if (str2u64(argv[0], id) < 0 || *id == 0 || *id > IDSET_MAX)
        return cmd_usage_error(c, "'%s' is not a job id", argv[0]), -1;
    return 0;
}

char *job_args_format(struct cmd *c, const idset_t *ids)
{
    char *text = idset_format(ids, 0);

    if (!text)
        cmd_error(c, "out of memory");
    return text;
}

int job_args_finish(struct cmd *c, flux_future_t *f, const char *what, uint32_t *count)
{
    struct job_acted acted = {0};
    int code = CMD_FAIL;
    errmsg_t err;

    if (count)
        *count = 0;
    if (cmd_wait(c, f, -1., what) < 0)
        goto out;
    if (flux_job_acted_get(f, &acted, &err) < 0) {
        cmd_error(c, "%s", err.text);
        goto out;
    }
    if (count)
        *count = acted.count;
    for (size_t i = 0; i < json_array_size(acted.errors); i++) {
        const char *text;
        uint64_t id;
        int errnum;

        if (i == ERRORS_SHOWN) {
            cmd_error(c, "... and %zu more", json_array_size(acted.errors) - i);
            break;
        }
        if (job_error_at(acted.errors, i, &id, &errnum, &text) < 0)
            break;
        cmd_error(c, "%s", text);
    }
    code = json_array_size(acted.errors) ? CMD_FAIL : CMD_OK;
out:
    flux_future_destroy(f);
    return code;
}

static const struct {
    const char *name;
    uint32_t mask;
} groups[] = {
    {"queued", JOB_STATES_PENDING}, {"running", JOB_STATE_BIT(JOB_STATE_RUN)},
    {"active", JOB_STATES_ACTIVE},  {"ending", JOB_STATE_BIT(JOB_STATE_CLEANUP)},
    {"all", JOB_STATES_ALL},        {"inactive", JOB_STATE_BIT(JOB_STATE_INACTIVE)},
};

static uint32_t state_mask(const char *name)
{
    int state = job_state_parse(name);

    if (state > 0)
        return JOB_STATE_BIT(state);
    for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++) {
        if (strcasecmp(groups[i].name, name) == 0)
            return groups[i].mask;
    }
    return 0;
}

/* Words of flux_job_state_word() that stand for a part of the jobs in these states. */
static const struct {
    const char *name;
    uint32_t mask;
} words[] = {
    {"held", JOB_STATE_BIT(JOB_STATE_PRIORITY) | JOB_STATE_BIT(JOB_STATE_SCHED)},
    {"pending", JOB_STATE_BIT(JOB_STATE_SCHED)},
    {"completed", JOB_STATE_BIT(JOB_STATE_INACTIVE)},
    {"failed", JOB_STATE_BIT(JOB_STATE_INACTIVE)},
    {"canceled", JOB_STATE_BIT(JOB_STATE_INACTIVE)},
    {"timeout", JOB_STATE_BIT(JOB_STATE_INACTIVE)},
};

/* The mask of a word, which is added to `shown`; 0 if there is no such word. */
static uint32_t word_mask(const char *name, struct job_args_shown *shown)
{
    size_t n = 0;

    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        if (strcasecmp(words[i].name, name) != 0)
            continue;
        while (shown->only[n] && shown->only[n] != words[i].name)
            n++;
        shown->only[n] = words[i].name;
        return words[i].mask;
    }
    return 0;
}

int job_args_states(struct cmd *c, const char *what, const char *val, uint32_t *mask,
                    struct job_args_shown *shown)
{
    strvec_t *names = strvec_split(val, ',');
    int rc = 0;

    *mask = 0;
    *shown = (struct job_args_shown){0};
    for (size_t i = 0; rc == 0 && i < strvec_count(names); i++) {
        uint32_t one = state_mask(strvec_at(names, i));

        if (one)
            shown->whole |= one;
        if (one == 0)
            one = word_mask(strvec_at(names, i), shown);
        if (one == 0)
            rc = (cmd_usage_error(c,
                                  "%s: '%s' is not one of depend, held, pending, running, ending, "
                                  "completed, failed, canceled, timeout, "
                                  "queued, active, inactive, all, "
                                  "priority, sched, run, cleanup",
                                  what, strvec_at(names, i)),
                  -1);
        *mask |= one;
    }
    if (!names)
        rc = (cmd_error(c, "out of memory"), -1);
    else if (rc == 0 && *mask == 0)
        rc = (cmd_usage_error(c, "%s: the list of states is empty", what), -1);
    strvec_destroy(names);
    return rc;
}

bool job_args_shown(const struct job_args_shown *shown, const struct job_info *info)
{
    int state = info->state ? job_state_parse(info->state) : -1;

    if (!shown->only[0] || (state > 0 && shown->whole & JOB_STATE_BIT(state)))
        return true;
    for (size_t i = 0; shown->only[i]; i++) {
        if (strcmp(flux_job_state_word(info), shown->only[i]) == 0)
            return true;
    }
    return false;
}

bool job_args_exact(const struct job_args_shown *shown)
{
    /* The held jobs of SCHED have urgency 0, so they come last. */
    return !shown->only[0] ||
           (!shown->whole && !shown->only[1] && strcmp(shown->only[0], "pending") == 0);
}

int job_args_user(struct cmd *c, const char *what, const char *val, int64_t *user)
{
    struct passwd *pw;
    uint32_t uid;

    if (strcmp(val, "all") == 0)
        *user = -1;
    else if (str2u32(val, &uid) == 0)
        *user = uid;
    else if ((pw = getpwnam(val)))
        *user = pw->pw_uid;
    else
        return cmd_usage_error(c, "%s: there is no user '%s'", what, val), -1;
    return 0;
}

int job_args_signal(struct cmd *c, const char *what, const char *val, int *signum)
{
    const char *name = strncasecmp(val, "SIG", 3) == 0 ? val + 3 : val;
    uint32_t num;

    if (str2u32(val, &num) == 0 && num > 0 && num < NSIG) {
        *signum = (int)num;
        return 0;
    }
    for (int i = 1; i < NSIG; i++) {
        const char *abbrev = sigabbrev_np(i);

        if (abbrev && strcasecmp(abbrev, name) == 0) {
            *signum = i;
            return 0;
        }
    }
    return cmd_usage_error(c, "%s: '%s' is not a signal", what, val), -1;
}

int job_args_list(struct cmd *c, flux_t *h, const struct job_list *query,
                  int (*each)(void *arg, const struct job_info *info, json_t *json), void *arg)
{
    flux_future_t *f = flux_job_list(h, query);
    const json_t *jobs;
    errmsg_t err;
    int rc = -1;

    if (!f) {
        cmd_error(c, "cannot request the list of jobs: %s", strerror(errno));
        return -1;
    }
    for (;;) {
        /* The end of the stream is not an error to be printed: so no cmd_wait(). */
        while (!flux_future_ready(f) && flux_future_wait(f, 2.) < 0 && errno == ETIMEDOUT)
            cmd_progress(c, "waiting for the list of jobs");
        cmd_progress_end(c);
        if (flux_future_errnum(f) == ENODATA) {
            rc = 0;
            break;
        }
        if (flux_job_list_get(f, &jobs, &err) < 0) {
            cmd_error(c, "%s", err.text);
            break;
        }
        for (size_t i = 0; i < json_array_size(jobs); i++) {
            struct job_info info = {0};

            if (flux_job_list_at(jobs, i, &info, &err) < 0) {
                cmd_error(c, "%s", err.text);
                goto out;
            }
            if (each(arg, &info, json_array_get(jobs, i)) < 0)
                goto out;
        }
        if (flux_future_next(f) < 0) {
            rc = 0;
            break;
        }
    }
out:
    flux_future_destroy(f);
    return rc;
}
