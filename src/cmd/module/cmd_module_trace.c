/* cmd_module_trace.c - flux module trace: print the messages that pass through brokers.
 *
 * Opens one stream trace.watch at each of the chosen ranks and prints what comes, a line for each
 * message, until the given number of lines was printed or a signal ends the command.
 *
 * Failure: a rank that cannot be asked, or whose stream ends, is named on standard error; the
 * others go on.  The exit code is then 1.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_module_trace.h"
#include "../session/cmd_session.h"
#include "libflux/trace_wire.h"
#include "libutil/strvec.h"

static const struct cmd_opt opts[] = {
    SESSION_RANK_OPTS,
    {'t', "topic", "PREFIX", "print only messages whose topic begins with PREFIX"},
    {'n', "count", "N", "exit after N messages"},
    {'j', "json", NULL, "print one JSON object per message"},
    CMD_OPT_END,
};

static const struct cmd_usage usage = {
    "[OPTION...] [NAME...]",
    "Print the messages that the modules NAME send and receive at a broker, as they pass: type,\n"
    "topic, sender, receiver, size, and for a response the time since its request. Without NAME,\n"
    "print all messages that pass through the broker.",
    opts,
    NULL,
    0,
};

struct trace {
    struct cmd *c;
    flux_t *h;
    bool json;
    uint32_t left;  /* lines to print; 0: no limit */
    size_t streams; /* that are open */
    bool over;
    int rc;
};

static int print_line(struct trace *t, flux_future_t *f, const struct trace_line *line)
{
    char text[1024];
    const char *json;
    errmsg_t err;

    if (!t->json) {
        trace_line_format(line, text, sizeof(text));
        puts(text);
    } else if (flux_rpc_get_json(f, &json, &err) == 0)
        puts(json);
    if (fflush(stdout) != 0)
        return cmd_error(t->c, "cannot write to standard output: %s", strerror(errno));
    return CMD_OK;
}

static void line_cb(flux_future_t *f, void *arg)
{
    struct trace *t = arg;
    struct trace_line line;
    errmsg_t err;

    if (t->over) /* other streams may be ready in the same turn of the loop */
        return;
    if (flux_rpc_get_struct(f, &trace_line_schema, &line, &err) < 0) {
        t->rc = cmd_error(t->c, "%s", err.text);
        if (--t->streams == 0)
            flux_reactor_stop(flux_get_reactor(t->h), 0);
        return;
    }
    if (print_line(t, f, &line) != CMD_OK)
        t->rc = CMD_FAIL;
    else if (t->left == 0 || --t->left > 0) {
        flux_future_next(f);
        return;
    }
    t->over = true;
    flux_reactor_stop(flux_get_reactor(t->h), 0);
}

static int run(struct trace *t, const struct trace_choice *choice, const uint32_t *ranks,
               size_t count)
{
    flux_future_t **f = calloc(count, sizeof(*f));

    if (!f)
        return cmd_error(t->c, "out of memory");
    for (size_t i = 0; i < count; i++) {
        f[i] = flux_rpc_struct(t->h, "trace.watch", &trace_choice_schema, choice, ranks[i],
                               FLUX_MSGF_STREAMING);
        if (!f[i] || flux_future_then(f[i], 0., line_cb, t) < 0) {
            t->rc = cmd_error(t->c, "cannot request the messages of rank %u: %s", ranks[i],
                              strerror(errno));
            t->streams = 0;
            break;
        }
        t->streams++;
    }
    if (t->streams > 0 && flux_run(t->h) < 0)
        t->rc = cmd_error(t->c, "the connection to the broker was lost");
    for (size_t i = 0; i < count; i++)
        flux_future_destroy(f[i]);
    free(f);
    return t->rc;
}

int cmd_module_trace(struct cmd *c, int argc, char **argv)
{
    struct trace t = {.c = c};
    struct trace_choice choice = {.prefix = ""};
    const char *set = NULL;
    const char *depth = NULL;
    strvec_t *names;
    char *modules;
    uint32_t *ranks;
    size_t count;
    const char *val;
    int key;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        if (session_rank_option(key, val, &set, &depth))
            continue;
        if (key == 't')
            choice.prefix = val;
        else if (key == 'j')
            t.json = true;
        else if (cmd_parse_u32(c, "--count", val, &t.left) < 0)
            return CMD_USAGE;
        else if (t.left == 0)
            return cmd_usage_error(c, "--count must be at least 1");
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (!(t.h = cmd_handle(c)))
        return CMD_FAIL;
    if ((t.rc = session_choose_ranks(c, t.h, set, depth, &ranks, &count)) != CMD_OK)
        return t.rc;
    names = strvec_create();
    for (char **name = argv + c->optind; names && *name; name++) {
        if (strvec_add(names, *name) < 0) {
            strvec_destroy(names);
            names = NULL;
        }
    }
    modules = names ? strvec_join(names, ",") : NULL;
    choice.modules = modules;
    t.rc = modules ? run(&t, &choice, ranks, count) : cmd_error(c, "out of memory");
    strvec_destroy(names);
    free(modules);
    free(ranks);
    return t.rc;
}
