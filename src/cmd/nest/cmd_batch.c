/* cmd_batch.c - flux batch: submit a script that runs in a session of its own.
 *
 * The text of the script is a part of the jobspec (attributes.system.files).  The launchers write
 * it to the job's directory, so that later changes of the file have no effect.
 *
 * Options in the script are parsed before those of the command line, which take precedence.  Lines
 * for Slurm's sbatch are translated (sbatch.h), unless the script also has options for flux: its
 * author then wants the latter here, and the former on Slurm only.
 *
 * Failure: an invalid option in the script results in an error message with file and line and in
 * exit code 2, and nothing is submitted.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "batchscript.h"
#include "../cmd_all.h"
#include "../job/jobfollow.h"
#include "../job/jobopts.h"
#include "../job/jobsubmit.h"
#include "../job/job_waitline.h"
#include "libutil/fdutil.h"
#include "libutil/strbuf.h"
#include "nestjob.h"
#include "sbatch.h"

#define SCRIPT_MAX (4u << 20)
#define SCRIPT_NAME "script"
#define OPTIONS_MAX 1024
#define REFUSALS_SHOWN 10

enum { KEY_WRAP = CMD_KEY(0), KEY_WAIT, KEY_CC, KEY_QUIET };

static const struct cmd_opt opts[] = {
    CMD_OPT_HEADING("Script"),
    {KEY_WRAP, "wrap", NULL, "run a command instead of a script file"},
    {KEY_CC, "cc", "IDSET",
     "submit a job for each member: {{cc}} is replaced in options and\n"
     "arguments; the script finds the member in FLUX_JOB_CC"},
    {KEY_QUIET, "quiet", NULL, "do not print job ids"},
    {KEY_WAIT, "wait", NULL,
     "wait until the job has ended; exit with its exit code (of\n"
     "several jobs, the greatest)"},
    NESTJOB_OPTION,
    JOBOPTS_RESOURCES,
    JOBOPTS_JOB,
    JOBOPTS_TASKS,
    JOBOPTS_FILES,
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] [SCRIPT [ARG...]]\n[OPTION...] --wrap COMMAND [ARG...]",
    "Submit a script to the queue, and print the job id. The script runs on its allocation in a\n"
    "session of its own with one broker per node: flux submit and flux wreckrun in the script use\n"
    "the resources of the job. Without SCRIPT, or with '-', it is read from standard input.\n"
    "Comments at its beginning can contain options: #FLUX: -N4 --time-limit=1h. Common options of\n"
    "Slurm's sbatch (#SBATCH -N4) are translated, others are ignored with a warning.",
    opts,
    "Output goes to flux-{{id}}.out in the working directory, unless --output is given. With\n"
    "--wait, the exit code is that of the script.",
    CMD_STOP,
};

struct option {
    int key;
    const char *val;
};

struct batch {
    struct cmd *c;
    jobopts_t *jo;
    strvec_t *start; /* options for flux start */
    struct option options[OPTIONS_MAX];
    size_t noptions; /* of the command line */
    bool wrap, quiet, wait;
    idset_t *cc;
    sbatch_t *slurm;
    strvec_t *warnings;  /* of what is ignored among its options */
    size_t nslurm;       /* lines with such options */
    size_t nflux;        /* and with our own */
    const char *foreign; /* what begins a line of another scheduler; NULL: there is none */
    char *text;
    const char *name; /* of the file, as errors name it */
    idset_t *ids;     /* of the jobs that were accepted */
    size_t refused;
    size_t shown; /* of those that failed, how */
    int code;     /* the worst of those that ended */
};

/* --- options --- */

static int take_cc(struct batch *b, const char *val)
{
    errmsg_t err;

    idset_destroy(b->cc);
    if (!(b->cc = idset_parse(val, &err)))
        return cmd_usage_error(b->c, "--cc: %s", err.text), -1;
    if (idset_empty(b->cc))
        return cmd_usage_error(b->c, "--cc: the set is empty"), -1;
    return 1;
}

static int own(void *arg, int key, const char *val)
{
    struct batch *b = arg;

    switch (key) {
    case KEY_QUIET:
        b->quiet = true;
        return 1;
    case KEY_CC:
        return take_cc(b, val);
    case KEY_WAIT:
        b->wait = true;
        return 1;
    case NESTJOB_KEY_START:
        return strvec_add(b->start, val) < 0 ? (cmd_error(b->c, "out of memory"), -1) : 1;
    default:
        return 0;
    }
}

static int apply(struct batch *b, int key, const char *val)
{
    int rc = jobopts_option(b->jo, key, val);

    return rc == 0 ? own(b, key, val) : rc;
}

static int flux_line(struct batch *b, const char *line, const char *where)
{
    b->nflux++;
    return jobopts_words(b->jo, &usage, line, where, own, b);
}

/* A line for sbatch: understood at once, used when the whole script is known. */
static int slurm_line(struct batch *b, const char *line, const char *where)
{
    strvec_t *words = strvec_create();
    size_t shown;
    errmsg_t err;
    int rc = -1;

    b->nslurm++;
    if (!b->slurm && !(b->slurm = sbatch_create()))
        return cmd_error(b->c, "out of memory"), -1;
    shown = strvec_count(sbatch_ignored(b->slurm));
    if (!words || strvec_add(words, "#SBATCH") < 0)
        cmd_error(b->c, "out of memory");
    else if ((rc = jobopts_split(b->jo, line, where, words)) == 0 &&
             (rc = sbatch_line(b->slurm, (int)strvec_count(words), strvec_argv(words), &err)) < 0)
        cmd_error(b->c, "%s: %s", where, err.text);
    for (; rc == 0 && shown < strvec_count(sbatch_ignored(b->slurm)); shown++)
        rc = strvec_addf(b->warnings, "%s: #SBATCH %s", where,
                         strvec_at(sbatch_ignored(b->slurm), shown));
    strvec_destroy(words);
    return rc;
}

static int directive(struct batch *b, const struct batch_directive *d)
{
    char where[320];
    char *line;
    int rc = 0;

    if (d->kind == BATCH_OTHER) {
        b->foreign = d->text[1] == 'P' ? "#PBS" : "#BSUB";
        return 0;
    }
    if (!(line = strndup(d->text, d->len)))
        return cmd_error(b->c, "out of memory"), -1;
    snprintf(where, sizeof(where), "%.255s:%zu", b->name, d->line);
    rc = d->kind == BATCH_SBATCH ? slurm_line(b, line, where) : flux_line(b, line, where);
    free(line);
    return rc;
}

static void warn(const struct batch *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void warn(const struct batch *b, const char *fmt, ...)
{
    va_list ap;

    fputs("flux batch: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

/* Use what the lines for sbatch say, and name what of them is not used. */
static int slurm_options(struct batch *b)
{
    size_t shown = strvec_count(sbatch_ignored(b->slurm));
    strvec_t *words = strvec_create();
    errmsg_t err;
    int rc;

    if (sbatch_finish(b->slurm, &err) < 0 || !words || strvec_add(words, "#SBATCH") < 0) {
        strvec_destroy(words);
        return cmd_error(b->c, "out of memory"), -1;
    }
    for (size_t i = 0; i < strvec_count(b->warnings); i++)
        warn(b, "%s (ignored)", strvec_at(b->warnings, i));
    for (; shown < strvec_count(sbatch_ignored(b->slurm)); shown++)
        warn(b, "%s: #SBATCH %s (ignored)", b->name, strvec_at(sbatch_ignored(b->slurm), shown));
    rc = 0;
    for (size_t i = 0; rc == 0 && i < strvec_count(sbatch_options(b->slurm)); i++)
        rc = strvec_add(words, strvec_at(sbatch_options(b->slurm), i));
    if (rc < 0)
        cmd_error(b->c, "out of memory");
    else
        rc = jobopts_take(b->jo, &usage, words, b->name, own, b);
    strvec_destroy(words);
    return rc;
}

static int directives(struct batch *b, size_t len)
{
    struct batchscript s;
    struct batch_directive d;

    batchscript_init(&s, b->text, len);
    while (batchscript_next(&s, &d)) {
        if (d.late) {
            warn(b, "%s:%zu: this option is ignored: it follows the first line of the program",
                 b->name, d.line);
            break; /* once is enough, and it may be text of another script */
        }
        if (directive(b, &d) < 0)
            return -1;
    }
    if (b->nslurm && b->nflux)
        warn(b, "%s: #SBATCH lines are ignored, because there are #FLUX lines", b->name);
    else if (b->nslurm && slurm_options(b) < 0)
        return -1;
    if (b->foreign && !b->nflux && !b->nslurm)
        warn(b, "%s: %s lines are ignored; write options as #FLUX: -N4 -t 1h", b->name, b->foreign);
    return 0;
}

/* --- the script --- */

/* One word is a line for the shell, as `sh -c` has it; of several each stays what it is. */
static char *wrapped(struct cmd *c, char **argv)
{
    strbuf_t *sb = strbuf_create(SCRIPT_MAX);
    char *text;

    strbuf_add(sb, "#!/bin/sh\n");
    if (!argv[1])
        strbuf_add(sb, argv[0]);
    for (size_t i = 0; argv[1] && argv[i]; i++) {
        strbuf_add(sb, i ? " '" : "'");
        for (const char *p = argv[i]; *p; p++) {
            if (*p == '\'')
                strbuf_add(sb, "'\\''");
            else
                strbuf_addc(sb, *p);
        }
        strbuf_addc(sb, '\'');
    }
    strbuf_addc(sb, '\n');
    if (!(text = strbuf_take(sb)))
        cmd_error(c, "the command line is too long");
    return text;
}

static char *read_script(struct cmd *c, const char *path, const char *name)
{
    int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    char *text = NULL;
    size_t len, bad;

    if (fd < 0 || fd_read_all(fd, SCRIPT_MAX, &text, &len) < 0) {
        if (errno == EFBIG)
            cmd_error(c, "%s is larger than %u MiB: this is not a script", name, SCRIPT_MAX >> 20);
        else
            cmd_error(c, "cannot read %s: %s", name, strerror(errno));
    } else if (len == 0) {
        cmd_error(c, "%s is empty", name);
        free(text);
        text = NULL;
    } else if ((bad = batchscript_bad_line(text, len))) {
        cmd_error(c, "%s:%zu: this is not UTF-8 text; use flux batch --wrap to run a program", name,
                  bad);
        free(text);
        text = NULL;
    } else if (batchscript_dos(text, len)) {
        cmd_error(c,
                  "%s:1: the line ends with a carriage return, which the system would treat as "
                  "part of the interpreter's name; remove carriage returns (tr -d '\\r')",
                  name);
        free(text);
        text = NULL;
    }
    if (fd > STDIN_FILENO)
        close(fd);
    return text;
}

/* Text and name of what is to run; argv goes to its arguments. */
static int get_script(struct batch *b, char ***argv)
{
    const char *path = **argv ? **argv : "-";

    if (b->wrap) {
        if (!**argv)
            return cmd_usage_error(b->c, "--wrap: a COMMAND is required"), -1;
        b->name = "the command line";
        b->text = wrapped(b->c, *argv);
        while (**argv)
            ++*argv;
        return b->text ? 0 : -1;
    }
    b->name = strcmp(path, "-") == 0 ? "standard input" : path;
    if (**argv)
        ++*argv;
    return (b->text = read_script(b->c, path, b->name)) ? 0 : -1;
}

/* --- the job --- */

static int command(struct batch *b, char **args)
{
    strvec_t *v = strvec_create();
    bool named = b->wrap || strncmp(b->text, "#!", 2) == 0; /* its first line says what runs it */
    int rc = named ? 0 : strvec_add(v, "/bin/sh");

    if (rc == 0)
        rc = strvec_add(v, "{{tmpdir}}/" SCRIPT_NAME);
    for (; rc == 0 && *args; args++)
        rc = strvec_add(v, *args);
    if (rc < 0)
        cmd_error(b->c, "out of memory");
    else
        rc = nestjob_command(b->c, b->jo, b->start, strvec_argv(v));
    strvec_destroy(v);
    return rc;
}

static int defaults(struct batch *b, const char *first)
{
    const char *base;
    int rc = 0;

    if (!jobopts_name(b->jo)) {
        base = strrchr(first, '/');
        rc = jobopts_option(b->jo, JOBOPTS_KEY_NAME, base && base[1] ? base + 1 : first);
    }
    if (rc >= 0 && !jobopts_output(b->jo))
        rc = jobopts_set_output(b->jo, "flux-{{id}}.out");
    if (rc >= 0 && !jobopts_error(b->jo))
        rc = jobopts_set_error(b->jo, jobopts_output(b->jo));
    if (rc >= 0 && !jobopts_input(b->jo))
        rc = jobopts_set_stdin(b->jo, "none");
    return rc < 0 ? -1 : 0;
}

static void on_ended(void *arg, const struct job_ended *e)
{
    struct batch *b = arg;
    int code = e->error ? CMD_FAIL : e->code;

    if (code > b->code)
        b->code = code;
    if (!code || b->shown++ < REFUSALS_SHOWN)
        job_waitline_ended(b->c, e, NULL,
                           idset_count(b->ids) > 1 ? JOBTELL_TASKS_OF_MANY : JOBTELL_TASKS);
}

static int wait_for_all(struct batch *b, flux_t *h)
{
    const struct jobfollow_cb cb = {.ended = on_ended, .arg = b};
    int code = jobfollow_run(b->c, h, b->ids, 0, &cb);

    return code == CMD_OK ? b->code : code;
}

static void on_submitted(void *arg, size_t index, uint64_t id, int errnum, const char *text)
{
    struct batch *b = arg;

    if (id == 0) {
        if (b->refused++ < REFUSALS_SHOWN)
            cmd_error(b->c, "%s", text ? text : strerror(errnum));
        return;
    }
    if (!b->quiet)
        printf("%" PRIu64 "\n", id);
    if (idset_set(b->ids, (uint32_t)id) < 0)
        cmd_error(b->c, "out of memory: job %" PRIu64 " is not waited for", id);
}

/* One job, or one for each member of --cc. */
static int add_jobs(struct batch *b, jobsubmit_t *js, const char *spec)
{
    uint32_t urgency = jobopts_urgency(b->jo);
    char *copy;
    int rc = 0;

    if (!b->cc)
        rc = jobsubmit_add(js, urgency, 0, spec, strlen(spec));
    for (uint32_t id = idset_first(b->cc); rc == 0 && id != IDSET_NONE;
         id = idset_next(b->cc, id)) {
        if (!(copy = jobopts_replace_cc(spec, id)))
            rc = (cmd_error(b->c, "out of memory"), -1);
        else
            rc = jobsubmit_add(js, urgency, 0, copy, strlen(copy));
        free(copy);
    }
    return jobsubmit_finish(js) < 0 ? -1 : rc;
}

static int dry_run(struct batch *b, const char *spec)
{
    char *copy;

    if (!b->cc)
        puts(spec);
    for (uint32_t id = idset_first(b->cc); id != IDSET_NONE; id = idset_next(b->cc, id)) {
        if (!(copy = jobopts_replace_cc(spec, id)))
            return cmd_error(b->c, "out of memory");
        puts(copy);
        free(copy);
    }
    return CMD_OK;
}

static int submit(struct batch *b)
{
    char *spec = jobopts_jobspec(b->jo, b->cc != NULL);
    jobsubmit_t *js = NULL;
    flux_t *h = NULL;
    int code;

    if (!spec || jobopts_dry_run(b->jo)) {
        code = spec ? dry_run(b, spec) : jobopts_exit(b->jo);
    } else if (!(b->ids = idset_create())) {
        code = cmd_error(b->c, "out of memory");
    } else if (!(h = cmd_handle(b->c)) || jobopts_empty_files(b->jo) < 0 ||
               !(js = jobsubmit_create(b->c, h, jobopts_env(b->jo), on_submitted, b))) {
        code = CMD_FAIL;
    } else {
        code = add_jobs(b, js, spec) < 0 || b->refused ? CMD_FAIL : CMD_OK;
        if (b->refused > REFUSALS_SHOWN)
            cmd_error(b->c, "%zu more jobs were rejected", b->refused - REFUSALS_SHOWN);
        fflush(stdout);
        if (b->wait && !idset_empty(b->ids)) {
            int worst = wait_for_all(b, h);
            code = worst ? worst : code;
        }
    }
    jobsubmit_destroy(js);
    free(spec);
    return code;
}

static int batch(struct batch *b, int argc, char **argv)
{
    struct cmd *c = b->c;
    const char *val, *first;
    int key;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        if (key == KEY_WRAP)
            b->wrap = true;
        else if (b->noptions == OPTIONS_MAX)
            return cmd_usage_error(c, "more than %d options", OPTIONS_MAX);
        else
            b->options[b->noptions++] = (struct option){key, val};
    }
    if (key < 0)
        return cmd_option_exit(key);
    argv += c->optind;
    first = *argv && strcmp(*argv, "-") != 0 ? *argv : "stdin";
    if (get_script(b, &argv) < 0)
        return b->wrap && !*argv && !b->text ? CMD_USAGE : CMD_FAIL;
    if (!b->wrap && directives(b, strlen(b->text)) < 0)
        return CMD_USAGE;
    for (size_t i = 0; i < b->noptions; i++) {
        if (apply(b, b->options[i].key, b->options[i].val) < 0)
            return CMD_USAGE;
    }
    if (defaults(b, b->wrap ? "wrap" : first) < 0 ||
        jobopts_add_file(b->jo, SCRIPT_NAME, b->text) < 0 || command(b, argv) < 0)
        return CMD_FAIL;
    return submit(b);
}

int cmd_batch(struct cmd *c, int argc, char **argv)
{
    struct batch *b = calloc(1, sizeof(*b));
    int rc = CMD_FAIL;

    if (b) {
        b->c = c;
        b->jo = jobopts_create(c);
        b->start = strvec_create();
        b->warnings = strvec_create();
    }
    if (!b || !b->start || !b->warnings)
        cmd_error(c, "out of memory");
    else if (b->jo)
        rc = batch(b, argc, argv);
    if (b) {
        jobopts_destroy(b->jo);
        strvec_destroy(b->start);
        strvec_destroy(b->warnings);
        sbatch_destroy(b->slurm);
        idset_destroy(b->cc);
        idset_destroy(b->ids);
        free(b->text);
        free(b);
    }
    return rc;
}
