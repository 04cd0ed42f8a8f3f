/* cmd_barrier.c - flux barrier: enter a barrier and wait until all are there. */
#include "config.h"
#include <stdio.h>
#include <string.h>

#include "cmd_all.h"
#include "libflux/proto_barrier.h"

static const struct cmd_opt opts[] = {
    {'n', "nprocs", "N", "as many processes enter (default: one a broker)"},
    {CMD_KEY(0), "name", "NAME", "the same as NAME"},
    {'t', "timeout", "DURATION", "give up after that time (default: never)"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] NAME",
    "Enter the barrier NAME and return when as many processes have entered it. When one of\n"
    "them ends before, or says another number, it fails for all.",
    opts,
    NULL,
    0,
};

int cmd_barrier(struct cmd *c, int argc, char **argv)
{
    struct barrier_enter e = {NULL, 0};
    double timeout = 0.;
    const char *val;
    char what[96];
    flux_future_t *f;
    flux_t *h;
    int key;
    int rc;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        if (key == 'n') {
            if (cmd_parse_u32(c, "--nprocs", val, &e.nprocs) < 0)
                return CMD_USAGE;
            if (e.nprocs == 0)
                return cmd_usage_error(c, "--nprocs must be at least 1");
        } else if (key == 't') {
            if (cmd_parse_duration(c, "--timeout", val, &timeout) < 0)
                return CMD_USAGE;
        } else
            e.name = val;
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (!e.name && c->optind < argc)
        e.name = argv[c->optind++];
    if (!e.name || argc > c->optind)
        return cmd_usage_error(c, "one NAME is needed");
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    if (e.nprocs == 0)
        e.nprocs = flux_size(h);
    snprintf(what, sizeof(what), "barrier '%.32s' of %u processes", e.name, e.nprocs);
    f = flux_rpc_struct(h, "barrier.enter", &barrier_enter_schema, &e, FLUX_NODEID_ANY, 0);
    rc = cmd_wait(c, f, timeout, what) < 0 ? CMD_FAIL : CMD_OK;
    flux_future_destroy(f);
    return rc;
}
