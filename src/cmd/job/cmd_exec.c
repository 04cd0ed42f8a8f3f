/* cmd_exec.c - flux exec: run a process on selected ranks.
 *
 * The processes are not a job: they have no job id, no record and no PMI, and the failure of one
 * rank does not end the others.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../cmd_all.h"
#include "../resource/cmd_res.h"
#include "../session/cmd_session.h"
#include "job_attach.h"

extern char **environ;

#define KEY_FIRST CMD_KEY(0)

static const struct cmd_opt opts[] = {
    {'r', "rank", "RANKS",
     "run on these ranks or hosts: 0-3, node[0-3] (default: all ranks\n"
     "that are up)"},
    {'x', "exclude", "RANKS", "exclude these ranks or hosts"},
    {KEY_FIRST, "first", NULL, "run on the first of these ranks only"},
    {'l', "labelio", NULL, "prefix each line of output with its rank"},
    {'d', "dir", "DIR", "working directory (default: the current directory)"},
    {'n', "noinput", NULL, "do not forward standard input"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] COMMAND [ARG...]",
    "Run a process on each of the selected ranks. Standard input is forwarded to all processes, "
    "and\n"
    "signals as by flux wreckrun.",
    opts,
    "Exit code: the greatest exit code of all processes, 128 + N for signal N; 127 when the "
    "program\n"
    "is not found on some rank.",
    CMD_STOP,
};

/* "all", ranks, or hosts.  NULL after a sentence, with *code. */
static idset_t *parse_ranks(struct cmd *c, flux_t *h, const char *text, int *code)
{
    idset_t *set = strcmp(text, "all") ? idset_parse(text, NULL) : NULL;
    bool number = set || strcmp(text, "all") == 0;
    struct res res;
    errmsg_t err;

    idset_destroy(set);
    *code = CMD_USAGE;
    if (number) {
        if ((set = cmd_parse_ranks(c, h, text)))
            *code = CMD_FAIL;
        return set;
    }
    if (res_query(c, &res, false) < 0) {
        *code = CMD_FAIL;
        return NULL;
    }
    if (!(set = resgraph_ranks_of_hosts(res.g, text, &err)))
        cmd_usage_error(c, "'%s' is not a set of ranks, and as hosts: %s", text, err.text);
    else
        *code = CMD_FAIL;
    res_clear(&res);
    return set;
}

/* The ranks as text, to be freed.  NULL after a sentence. */
static char *choose(struct cmd *c, flux_t *h, const char *ranks, const char *exclude, bool first,
                    int *code)
{
    struct session s;
    idset_t *set = NULL, *not_these = NULL;
    char *text = NULL;

    if (ranks) {
        set = parse_ranks(c, h, ranks, code);
    } else if (session_query(c, &s, false) == 0) {
        if (!(set = idset_copy(s.up)))
            cmd_error(c, "out of memory");
        session_clear(&s);
    }
    if (!set || (exclude && !(not_these = parse_ranks(c, h, exclude, code))))
        goto out;
    if (not_these && idset_subtract(set, not_these) < 0)
        cmd_error(c, "out of memory");
    else if (idset_empty(set))
        cmd_error(c, "the set of ranks to run on is empty");
    else if (!(text = first ? NULL : idset_format(set, 0)) &&
             (!first || asprintf(&text, "%u", idset_first(set)) < 0))
        cmd_error(c, "out of memory");
out:
    idset_destroy(not_these);
    idset_destroy(set);
    return text;
}

/* Absolute, since the processes start elsewhere.  To be freed; NULL after a sentence. */
static char *working_dir(struct cmd *c, const char *dir)
{
    char *cwd, *full;

    if (dir && dir[0] == '/')
        return strdup(dir);
    if (!(cwd = getcwd(NULL, 0))) {
        cmd_error(c, "cannot determine the working directory: %s", strerror(errno));
        return NULL;
    }
    if (!dir)
        return cwd;
    if (asprintf(&full, "%s/%s", cwd, dir) < 0)
        full = NULL;
    free(cwd);
    return full;
}

int cmd_exec(struct cmd *c, int argc, char **argv)
{
    struct job_attach_params p = {.run.input = "all", .label_rank = true};
    const char *val, *ranks = NULL, *exclude = NULL, *dir = NULL;
    char *cwd = NULL, *set = NULL;
    int key, code = CMD_FAIL;
    bool first = false;
    flux_t *h;

    job_attach_standard_fds();
    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        switch (key) {
        case 'r':
            ranks = val;
            break;
        case 'x':
            exclude = val;
            break;
        case KEY_FIRST:
            first = true;
            break;
        case 'l':
            p.label = true;
            break;
        case 'd':
            dir = val;
            break;
        case 'n':
            p.run.input = "none";
            break;
        }
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (argc - c->optind < 1)
        return cmd_usage_error(c, "a COMMAND is required");
    if (!(cwd = working_dir(c, dir)))
        return CMD_FAIL;
    if ((h = cmd_handle(c)) && (set = choose(c, h, ranks, exclude, first, &code))) {
        p.run.ranks = set;
        p.argv = argv + c->optind;
        p.env = environ;
        p.fixed[WIRE_S_CWD] = cwd;
        code = job_attach_exec(c, &p);
    }
    free(set);
    free(cwd);
    return code;
}
