/* cmd_barrier.c - flux barrier: enter a barrier and wait until it is complete, or list the open
 * barriers (waitlist.c).
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_all.h"
#include "libflux/barrier_wire.h"
#include "libidset/idset.h"
#include "waitlist.h"

static const struct cmd_opt opts[] = {
    {'n', "nprocs", "N", "number of processes that enter (default: one per broker)"},
    {CMD_KEY(0), "name", "NAME", "same as the argument NAME"},
    {'r', "ranks", "IDSET", "fail when one of these ranks is lost (default without -n: all)"},
    {'t', "timeout", "DURATION", "give up after this time (default: never)"},
    {'l', "list", NULL, "list open barriers and the ranks that are missing"},
    {'j', "json", NULL, "with --list: print JSON"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] NAME | --list [--json]",
    "Enter the barrier NAME, and return when all processes have entered it. If a process ends\n"
    "before the barrier is complete, or gives a different number, the barrier fails for all.",
    opts,
    NULL,
    0,
};

/* --- list --- */

static const json_t *answer_list(flux_future_t *f, errmsg_t *err)
{
    struct barrier_list list;

    return flux_rpc_get_struct(f, &barrier_list_schema, &list, err) < 0 ? NULL : list.barriers;
}

static int answer_item(const json_t *o, struct waitlist_item *out, errmsg_t *err)
{
    struct barrier_item item;

    if (flux_schema_decode_json(&barrier_item_schema, o, &item, err) < 0)
        return -1;
    *out = (struct waitlist_item){.name = item.name,
                                  .nprocs = item.nprocs,
                                  .entered = item.entered,
                                  .ranks = item.ranks,
                                  .age = item.age};
    return 0;
}

static const struct waitlist_source source = {"barrier.list", false, answer_list, answer_item};

/* --- enter --- */

/* The ranks that may not be lost: as said, or all when each broker has one participant.  NULL after
 * printing an error message. */
static char *expected_ranks(struct cmd *c, flux_t *h, const char *given, bool each)
{
    idset_t *ids = NULL;
    char *text = NULL;

    if (!given && !each)
        ids = idset_create();
    else if (!(ids = cmd_parse_ranks(c, h, given ? given : "all")))
        return NULL;
    if (!ids || !(text = idset_format(ids, 0)))
        cmd_error(c, "out of memory");
    idset_destroy(ids);
    return text;
}

int cmd_barrier(struct cmd *c, int argc, char **argv)
{
    struct barrier_enter e = {NULL, 0, NULL};
    const char *given = NULL;
    char *ranks;
    bool list = false, json = false;
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
        } else if (key == 'r') {
            given = val;
        } else if (key == 'l') {
            list = true;
        } else if (key == 'j') {
            json = true;
        } else
            e.name = val;
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (!e.name && c->optind < argc)
        e.name = argv[c->optind++];
    if (list && (e.name || e.nprocs || given || timeout > 0. || argc > c->optind))
        return cmd_usage_error(c, "--list can be combined with --json only");
    if (json && !list)
        return cmd_usage_error(c, "--json requires --list");
    if (list)
        return waitlist_print(c, &source, NULL, json);
    if (!e.name || argc > c->optind)
        return cmd_usage_error(c, "one NAME is required");
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    if (!(ranks = expected_ranks(c, h, given, e.nprocs == 0)))
        return CMD_FAIL;
    e.ranks = ranks;
    if (e.nprocs == 0)
        e.nprocs = flux_size(h);
    snprintf(what, sizeof(what), "barrier '%.32s' of %u processes", e.name, e.nprocs);
    f = flux_rpc_struct(h, "barrier.enter", &barrier_enter_schema, &e, FLUX_NODEID_ANY, 0);
    rc = cmd_wait(c, f, timeout, what) < 0 ? CMD_FAIL : CMD_OK;
    flux_future_destroy(f);
    free(ranks);
    return rc;
}
