/* cmd_submit.c - flux submit: submit jobs to the queue.
 *
 *    arguments                     number of jobs
 *    COMMAND with options          one
 *    the same with --cc=IDSET      one for each member: {{cc}}, $FLUX_JOB_CC
 *    --from=FILE                   one for each line: a jobspec, or a command with these options
 *
 * Ids are printed in order of submission, one per line, as the service accepts the jobs, so that a
 * reader can start before the last job is submitted.
 *
 * Failure: a rejected job results in an error message and, at the end, in exit code 1; the other
 * jobs are still submitted.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../cmd_all.h"
#include "jobfollow.h"
#include "jobopts.h"
#include "jobsubmit.h"
#include "job_waitline.h"
#include "libjob/job.h"
#include "libutil/clock.h"

#define KEY_CC CMD_KEY(0)
#define KEY_FROM CMD_KEY(1)
#define KEY_WAIT CMD_KEY(2)
#define KEY_WATCH CMD_KEY(3)
#define KEY_PROGRESS CMD_KEY(4)
#define KEY_QUIET CMD_KEY(5)

#define PROGRESS_STEP 0.1
#define REFUSALS_SHOWN 10

static const struct cmd_opt opts[] = {
    CMD_OPT_HEADING("Submission"),
    {KEY_CC, "cc", "IDSET",
     "submit a job for each member: {{cc}} is replaced by the member,\n"
     "which tasks also find in FLUX_JOB_CC"},
    {KEY_FROM, "from", "FILE",
     "submit a job for each line of FILE ('-': standard input): a\n"
     "jobspec in JSON, or a command, which gets the options given\n"
     "here"},
    {KEY_QUIET, "quiet", NULL, "do not print job ids"},
    {KEY_WAIT, "wait", NULL, "wait until the jobs have ended; exit with the greatest exit code"},
    {KEY_WATCH, "watch", NULL, "wait, and print the output of the jobs"},
    {KEY_PROGRESS, "progress", NULL, "wait, and show the progress"},
    JOBOPTS_RESOURCES,
    JOBOPTS_JOB,
    JOBOPTS_TASKS,
    JOBOPTS_FILES,
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] COMMAND [ARG...] [: [-n N] [--env=...] COMMAND [ARG...]]...\n[OPTION...] "
    "--from=FILE",
    "Submit jobs to the queue, and print the id of each on a line of its own.",
    opts,
    "Exit code 1 also when a job was rejected; with --wait, --watch and --progress the greatest\n"
    "exit code of all jobs.",
    CMD_STOP,
};

struct submit {
    struct cmd *c;
    flux_t *h;
    jobopts_t *jo;
    idset_t *cc;
    const char *from;
    bool quiet, wait, watch, progress;
    jobsubmit_t *js;
    idset_t *ids;  /* to be waited for */
    size_t *lines; /* --from: line of job number i */
    size_t nlines;
    size_t accepted, refused, ended, failed;
    size_t explained; /* of the failed ones, why */
    int code;         /* worst of those that ended */
    double start, drawn;
    bool tty, shown;
};

/* --- progress --- */

static void draw(struct submit *s, bool last)
{
    double now = clock_now();
    size_t all = s->accepted;
    int width = 30, full = all ? (int)(s->ended * (size_t)width / all) : 0;

    if (!s->progress || (!last && (!s->tty || all == 0 || now - s->drawn < PROGRESS_STEP)))
        return;
    s->drawn = now;
    if (s->tty) {
        fprintf(stderr, "\r\033[K[");
        for (int i = 0; i < width; i++)
            fputc(i < full ? '#' : '.', stderr);
        fprintf(stderr, "] ");
    }
    fprintf(stderr, "%zu of %zu ended", s->ended, all);
    if (s->failed)
        fprintf(stderr, ", %zu failed", s->failed);
    if (s->refused)
        fprintf(stderr, ", %zu refused", s->refused);
    if (now > s->start && s->ended)
        fprintf(stderr, ", %.3g/s", (double)s->ended / (now - s->start));
    fprintf(stderr, ", %.1f s%s", now - s->start, last ? "\n" : "");
    fflush(stderr);
    s->shown = s->tty && !last;
}

static void erase(struct submit *s)
{
    if (s->shown)
        fputs("\r\033[K", stderr);
    s->shown = false;
}

/* --- results --- */

static const char *from_name(const struct submit *s)
{
    return strcmp(s->from, "-") == 0 ? "standard input" : s->from;
}

static void refused(struct submit *s, size_t index, const char *text)
{
    s->refused++;
    if (s->refused > REFUSALS_SHOWN)
        return;
    const char *where = s->c->where; /* the current line is another one */
    s->c->where = NULL;
    erase(s);
    if (s->lines && index < s->nlines)
        cmd_error(s->c, "%s, line %zu: %s", from_name(s), s->lines[index], text);
    else if (s->cc && idset_count(s->cc) > 1)
        cmd_error(s->c, "--cc=%u: %s", idset_nth(s->cc, index), text);
    else
        cmd_error(s->c, "%s", text);
    s->c->where = where;
}

static void on_submitted(void *arg, size_t index, uint64_t id, int errnum, const char *text)
{
    struct submit *s = arg;

    if (id == 0) {
        refused(s, index, text ? text : strerror(errnum));
        return;
    }
    s->accepted++;
    if (!s->quiet) {
        erase(s);
        printf("%" PRIu64 "\n", id);
    }
    if (s->ids && idset_set(s->ids, (uint32_t)id) < 0)
        cmd_error(s->c, "out of memory: job %" PRIu64 " is not waited for", id);
}

static void on_ended(void *arg, const struct job_ended *e)
{
    struct submit *s = arg;
    int code = e->error ? CMD_FAIL : e->code;

    s->ended++;
    if (code > s->code)
        s->code = code;
    if (code)
        s->failed++;
    if (code || e->warning) {
        if (e->error || s->watch || s->explained++ < REFUSALS_SHOWN) {
            erase(s);
            job_waitline_ended(s->c, e, NULL,
                               s->accepted > 1 ? JOBTELL_TASKS_OF_MANY : JOBTELL_TASKS);
        }
    }
    draw(s, false);
}

/* Output and the line of progress must not be mixed. */
static void on_output(void *arg, uint64_t id)
{
    erase(arg);
}

static int wait_for_all(struct submit *s)
{
    const struct jobfollow_cb cb = {on_ended, on_output, s};
    int flags = s->progress ? JOBFOLLOW_SILENT : 0, code;

    if (s->watch) {
        flags |= JOBFOLLOW_OUTPUT;
        if (jobopts_label(s->jo))
            flags |= s->accepted > 1 ? JOBFOLLOW_LABEL_ID : JOBFOLLOW_LABEL;
    }
    draw(s, false);
    code = jobfollow_run(s->c, s->h, s->ids, flags, &cb);
    erase(s);
    draw(s, true);
    return code == CMD_OK ? s->code : code;
}

/* --- what is submitted --- */

static int add(struct submit *s, const char *spec, size_t len)
{
    if (jobopts_dry_run(s->jo)) {
        json_t *o = json_loadb(spec, len, JSON_REJECT_DUPLICATES, NULL);

        if (!o)
            return cmd_error(s->c, "this is not JSON: %.60s", spec), -1;
        if (isatty(STDOUT_FILENO)) {
            cmd_print_json(s->c, o);
        } else {
            json_decref(o);
            printf("%.*s\n", (int)len, spec);
        }
        return 0;
    }
    draw(s, false);
    return jobsubmit_add(s->js, jobopts_urgency(s->jo), 0, spec, len);
}

static int add_copies(struct submit *s)
{
    char *spec = jobopts_jobspec(s->jo, s->cc != NULL), *copy;
    int rc = 0;

    if (!spec)
        return -1;
    if (!s->cc)
        rc = add(s, spec, strlen(spec));
    for (uint32_t id = idset_first(s->cc); rc == 0 && id != IDSET_NONE;
         id = idset_next(s->cc, id)) {
        if (!(copy = jobopts_replace_cc(spec, id)))
            rc = (cmd_error(s->c, "out of memory"), -1);
        else
            rc = add(s, copy, strlen(copy));
        free(copy);
    }
    free(spec);
    return rc;
}

static int remember_line(struct submit *s, size_t line)
{
    if ((s->nlines & (s->nlines - 1)) == 0) {
        size_t *more = realloc(s->lines, (s->nlines ? 2 * s->nlines : 16) * sizeof(*more));

        if (!more)
            return cmd_error(s->c, "out of memory"), -1;
        s->lines = more;
    }
    s->lines[s->nlines++] = line;
    return 0;
}

/* A line: empty, a comment, a jobspec or a command. */
static int add_line(struct submit *s, const char *line, size_t len, size_t num)
{
    char *spec;
    int rc;

    while (len > 0 && strchr(" \t\r\n", line[len - 1]))
        len--;
    while (len > 0 && strchr(" \t", *line))
        line++, len--;
    if (len == 0 || *line == '#')
        return 0;
    if (*line == '{')
        return remember_line(s, num) < 0 || add(s, line, len) < 0 ? -1 : 0;
    char *text = strndup(line, len);
    rc = text ? jobopts_command_line(s->jo, text) : (cmd_error(s->c, "out of memory"), -1);
    free(text);
    if (rc < 0 || !(spec = jobopts_jobspec(s->jo, false)))
        return -1;
    rc = remember_line(s, num) < 0 || add(s, spec, strlen(spec)) < 0 ? -1 : 0;
    free(spec);
    return rc;
}

static int add_lines(struct submit *s)
{
    bool std = strcmp(s->from, "-") == 0;
    FILE *f = std ? stdin : fopen(s->from, "re");
    char where[320], *line = NULL;
    size_t size = 0, num = 0;
    ssize_t len;
    int rc = 0;

    if (!f)
        return cmd_error(s->c, "cannot open '%s': %s", s->from, strerror(errno)), -1;
    s->c->where = where;
    while (rc == 0 && (len = getline(&line, &size, f)) > 0) {
        snprintf(where, sizeof(where), "%s, line %zu", from_name(s), ++num);
        rc = add_line(s, line, (size_t)len, num);
    }
    s->c->where = NULL;
    if (rc == 0 && ferror(f))
        rc = (cmd_error(s->c, "cannot read '%s': %s", s->from, strerror(errno)), -1);
    free(line);
    if (!std)
        fclose(f);
    return rc;
}

/* --- the whole --- */

static int submit(struct submit *s)
{
    int rc;

    s->start = clock_now();
    s->tty = isatty(STDERR_FILENO);
    if (!jobopts_dry_run(s->jo)) {
        if (s->wait || s->watch)
            cmd_returns(s->c);
        if (!(s->h = cmd_handle(s->c)) ||
            !(s->js = jobsubmit_create(s->c, s->h, jobopts_env(s->jo), on_submitted, s)))
            return CMD_FAIL;
        if ((s->wait || s->watch || s->progress) && !(s->ids = idset_create()))
            return cmd_error(s->c, "out of memory");
    }
    rc = s->from ? add_lines(s) : add_copies(s);
    /* What was added before an error is in the queue: its ids are printed. */
    if (s->js && jobsubmit_finish(s->js) < 0)
        rc = -1;
    if (s->refused > REFUSALS_SHOWN)
        cmd_error(s->c, "%zu more jobs were rejected", s->refused - REFUSALS_SHOWN);
    if (s->ids && s->accepted > 0) {
        int code = wait_for_all(s);

        return code ? code : rc < 0 || s->refused ? CMD_FAIL : CMD_OK;
    }
    return rc < 0 ? jobopts_exit(s->jo) : s->refused ? CMD_FAIL : CMD_OK;
}

static int take_own(struct submit *s, int key, const char *val)
{
    errmsg_t err;

    switch (key) {
    case KEY_CC:
        idset_destroy(s->cc);
        if (!(s->cc = idset_parse(val, &err)))
            return cmd_usage_error(s->c, "--cc: %s", err.text), -1;
        if (idset_empty(s->cc))
            return cmd_usage_error(s->c, "--cc: the set is empty"), -1;
        break;
    case KEY_FROM:
        s->from = val;
        break;
    case KEY_QUIET:
        s->quiet = true;
        break;
    case KEY_WAIT:
        s->wait = true;
        break;
    case KEY_WATCH:
        s->watch = true;
        break;
    case KEY_PROGRESS:
        s->progress = true;
        break;
    }
    return 0;
}

static int parse_and_submit(struct submit *s, int argc, char **argv)
{
    struct cmd *c = s->c;
    const char *val;
    int key, rc;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        if ((rc = jobopts_option(s->jo, key, val)) == 0)
            rc = take_own(s, key, val);
        if (rc < 0)
            return CMD_USAGE;
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (s->from && (argc > c->optind || s->cc))
        return cmd_usage_error(c, "--from cannot be combined with %s",
                               s->cc ? "--cc" : "a COMMAND");
    if (!s->from && argc == c->optind)
        return cmd_usage_error(c, "a COMMAND is required");
    if (jobopts_stdin(s->jo) && strcmp(jobopts_stdin(s->jo), "none") != 0 && !jobopts_input(s->jo))
        return cmd_usage_error(c,
                               "--stdin: a submitted job has no standard input; use --input=FILE");
    if (!jobopts_input(s->jo) && jobopts_set_stdin(s->jo, "none") < 0)
        return CMD_FAIL;
    if (!s->from && jobopts_operands(s->jo, argv) < 0)
        return jobopts_exit(s->jo);
    if (jobopts_empty_files(s->jo) < 0)
        return CMD_FAIL;
    return submit(s);
}

int cmd_submit(struct cmd *c, int argc, char **argv)
{
    struct submit s = {.c = c, .jo = jobopts_create(c)};
    int code = s.jo ? parse_and_submit(&s, argc, argv) : CMD_FAIL;

    jobsubmit_destroy(s.js);
    jobopts_destroy(s.jo);
    idset_destroy(s.cc);
    idset_destroy(s.ids);
    free(s.lines);
    return code;
}
