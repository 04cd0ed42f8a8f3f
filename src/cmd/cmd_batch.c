/* cmd_batch.c - flux batch: submit a script that runs in a session of its own.
 *
 * The text of the script travels in the jobspec (attributes.system.files); the launchers put it
 * into the job's directory, and what is done to the file afterwards does not matter.
 *
 * Options in the script come first, those of the command line after them: they win.
 *
 * Failure: an option of the script that is wrong is a sentence with the file and the line, exit code
 * 2, and nothing is submitted.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "batchscript.h"
#include "cmd_all.h"
#include "jobfollow.h"
#include "jobopts.h"
#include "libutil/fdutil.h"
#include "libutil/strbuf.h"
#include "nestjob.h"

#define SCRIPT_MAX (4u << 20)
#define SCRIPT_NAME "script"
#define OPTIONS_MAX 1024

enum { KEY_WRAP = CMD_KEY(0), KEY_WAIT };

static const struct cmd_opt opts[] = {
    CMD_OPT_HEADING("Script"),
    {KEY_WRAP, "wrap", NULL, "what follows is no file but a command line"},
    {'q', "quiet", NULL, "do not print the id"},
    {KEY_WAIT, "wait", NULL, "wait until the job has ended; exit with its code"},
    NESTJOB_OPTION,
    JOBOPTS_RESOURCES,
    JOBOPTS_JOB,
    JOBOPTS_TASKS,
    JOBOPTS_FILES,
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] [SCRIPT [ARG...]]\n[OPTION...] --wrap COMMAND [ARG...]",
    "Put a script into the queue, and print the id of the job. On its allocation it runs in a\n"
    "session of its own, with one broker on each node: flux submit and flux wreckrun in it share\n"
    "out what the job has. Without SCRIPT, or for '-', it is read from standard input. Comments\n"
    "at its beginning may hold options: #FLUX: -N4 --time-limit=1h",
    opts,
    "Output goes to flux-{{id}}.out in the working directory, unless --output says otherwise.\n"
    "With --wait the exit code is that of the script.\n",
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
    char *text;
    const char *name; /* of the file, as errors name it */
};

/* --- options --- */

static int own(void *arg, int key, const char *val)
{
    struct batch *b = arg;

    switch (key) {
    case 'q':
        b->quiet = true;
        return 1;
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

static int directive(struct batch *b, const struct batch_directive *d)
{
    char where[320];
    char *line = strndup(d->text, d->len);
    int rc;

    if (!line)
        return cmd_error(b->c, "out of memory"), -1;
    snprintf(where, sizeof(where), "%.255s:%zu", b->name, d->line);
    rc = jobopts_words(b->jo, &usage, line, where, own, b);
    free(line);
    return rc;
}

static int directives(struct batch *b, size_t len)
{
    struct batchscript s;
    struct batch_directive d;

    batchscript_init(&s, b->text, len);
    while (batchscript_next(&s, &d)) {
        if (d.late) {
            fprintf(stderr,
                    "flux batch: %s:%zu: this option does not count: it stands behind the first "
                    "line of the program\n",
                    b->name, d.line);
            return 0; /* once is enough, and it may be text of another script */
        }
        if (directive(b, &d) < 0)
            return -1;
    }
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
            cmd_error(c, "%s is larger than %u MiB: that is no script", name, SCRIPT_MAX >> 20);
        else
            cmd_error(c, "cannot read %s: %s", name, strerror(errno));
    } else if (len == 0) {
        cmd_error(c, "%s is empty", name);
        free(text);
        text = NULL;
    } else if ((bad = batchscript_bad_line(text, len))) {
        cmd_error(c, "%s:%zu: this is no text in UTF-8; a program is run by flux batch --wrap",
                  name, bad);
        free(text);
        text = NULL;
    } else if (batchscript_dos(text, len)) {
        cmd_error(c,
                  "%s:1: the line ends with a carriage return, which the system would take for a "
                  "part of the interpreter's name; make lines end as they do here (tr -d '\\r')",
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
            return cmd_usage_error(b->c, "--wrap: a COMMAND is needed"), -1;
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
    int *code = arg;

    *code = e->error ? CMD_FAIL : e->code;
    if (e->text)
        fprintf(stderr, "flux batch: job %" PRIu64 ": %s\n", e->id, e->text);
}

static int wait_for(struct batch *b, flux_t *h, uint64_t id)
{
    int code = CMD_FAIL;
    const struct jobfollow_cb cb = {.ended = on_ended, .arg = &code};
    jobfollow_t *jf = jobfollow_create(b->c, h, 0, &cb);

    if (!jf)
        return CMD_FAIL;
    if (jobfollow_add(jf, id) < 0 || jobfollow_run(jf) < 0)
        code = CMD_FAIL;
    jobfollow_destroy(jf);
    return code;
}

static int submit(struct batch *b)
{
    uint64_t id;
    flux_t *h;

    if (jobopts_dry_run(b->jo)) {
        char *spec = jobopts_jobspec(b->jo, false);
        if (spec)
            puts(spec);
        free(spec);
        return spec ? CMD_OK : CMD_FAIL;
    }
    if (!(h = cmd_handle(b->c)) || jobopts_empty_files(b->jo) < 0 ||
        jobopts_submit(b->jo, h, 0, &id) < 0)
        return CMD_FAIL;
    if (!b->quiet) {
        printf("%" PRIu64 "\n", id);
        fflush(stdout);
    }
    return b->wait ? wait_for(b, h, id) : CMD_OK;
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
    }
    if (!b || !b->start)
        cmd_error(c, "out of memory");
    else if (b->jo)
        rc = batch(b, argc, argv);
    if (b) {
        jobopts_destroy(b->jo);
        strvec_destroy(b->start);
        free(b->text);
        free(b);
    }
    return rc;
}
