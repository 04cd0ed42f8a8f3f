/* cmd_barrier.c - flux barrier: enter a barrier and wait until all are there, or list those that are
 * not over.
 *
 * No instance knows who has entered where: the list asks every rank for its own participants, and
 * adds up by name.  Ranks that cannot be reached have none.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_all.h"
#include "libflux/proto_barrier.h"
#include "libidset/idset.h"
#include "libutil/hmap.h"

#define LIST_TIMEOUT 30.

static const struct cmd_opt opts[] = {
    {'n', "nprocs", "N", "as many processes enter (default: one a broker)"},
    {CMD_KEY(0), "name", "NAME", "the same as NAME"},
    {'r', "ranks", "IDSET", "fail when one of these ranks is lost (default without -n: all)"},
    {'t', "timeout", "DURATION", "give up after that time (default: never)"},
    {'l', "list", NULL, "list the barriers that are not over, and who is waited for"},
    {'j', "json", NULL, "JSON output of --list"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] NAME | --list [--json]",
    "Enter the barrier NAME and return when as many processes have entered it. When one of\n"
    "them ends before, or says another number, it fails for all.",
    opts,
    NULL,
    0,
};

/* --- list --- */

struct open_barrier {
    char *name;
    uint32_t nprocs;
    uint32_t entered;
    idset_t *here;  /* ranks where somebody has entered */
    idset_t *ranks; /* that were announced */
};

static void open_barrier_free(void *val)
{
    struct open_barrier *b = val;

    idset_destroy(b->here);
    idset_destroy(b->ranks);
    free(b->name);
    free(b);
}

/* The one of that name, made if it is new.  NULL with ENOMEM. */
static struct open_barrier *open_barrier_get(hmap_t *all, const struct barrier_item *item)
{
    struct open_barrier *b = hmap_get(all, item->name);

    if (b || !(b = calloc(1, sizeof(*b))))
        return b;
    b->nprocs = item->nprocs;
    if (!(b->name = strdup(item->name)) || !(b->here = idset_create()) ||
        !(b->ranks = idset_create()) || hmap_put(all, b->name, b) < 0) {
        open_barrier_free(b);
        errno = ENOMEM;
        return NULL;
    }
    return b;
}

/* What one rank says.  -1 after printing a sentence. */
static int add_list(struct cmd *c, hmap_t *all, uint32_t rank, const json_t *barriers)
{
    struct barrier_item item;
    errmsg_t err = {"out of memory"};
    size_t i;
    json_t *o;

    json_array_foreach((json_t *)barriers, i, o)
    {
        struct open_barrier *b;
        idset_t *ranks = NULL;
        int rc = -1;

        if (flux_schema_decode_json(&barrier_item_schema, o, &item, &err) == 0 &&
            (ranks = idset_parse(item.ranks, &err)) && (b = open_barrier_get(all, &item))) {
            b->entered += item.entered;
            rc = idset_add(b->ranks, ranks);
            if (rc == 0 && item.entered > 0)
                rc = idset_set(b->here, rank);
        }
        idset_destroy(ranks);
        if (rc < 0)
            return cmd_error(c, "rank %u: %s", rank, err.text), -1;
    }
    return 0;
}

static int ask_ranks(struct cmd *c, flux_t *h, hmap_t *all)
{
    uint32_t size = flux_size(h);
    flux_future_t **f = calloc(size, sizeof(*f));
    int rc = f ? 0 : -1;

    for (uint32_t rank = 0; f && rank < size; rank++)
        f[rank] = flux_rpc(h, "barrier.list", NULL, rank, 0);
    for (uint32_t rank = 0; f && rank < size && rc == 0; rank++) {
        struct barrier_list list;
        errmsg_t err;

        if (!f[rank] || flux_future_wait(f[rank], LIST_TIMEOUT) < 0) {
            cmd_error(c, "rank %u does not answer: %s", rank, strerror(errno));
            rc = -1;
        } else if (flux_future_errnum(f[rank]) == EHOSTUNREACH ||
                   flux_future_errnum(f[rank]) == ENOSYS) {
            continue;
        } else if (flux_rpc_get_struct(f[rank], &barrier_list_schema, &list, &err) < 0) {
            cmd_error(c, "rank %u: %s", rank, err.text);
            rc = -1;
        } else {
            rc = add_list(c, all, rank, list.barriers);
        }
    }
    for (uint32_t rank = 0; f && rank < size; rank++)
        flux_future_destroy(f[rank]);
    if (!f)
        cmd_error(c, "out of memory");
    free(f);
    return rc;
}

static void idset_cell(table_t *t, const idset_t *ids)
{
    char *text = ids && !idset_empty(ids) ? idset_format(ids, 0) : NULL;

    table_str(t, text);
    free(text);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(struct open_barrier *const *)a)->name,
                  (*(struct open_barrier *const *)b)->name);
}

static int print_list(struct cmd *c, hmap_t *all, bool json)
{
    struct open_barrier **list = calloc(hmap_count(all) + 1, sizeof(*list));
    table_t *t = table_create();
    size_t n = 0, pos = 0;
    void *val;

    if (!list) {
        table_destroy(t);
        return cmd_error(c, "out of memory");
    }
    while (hmap_next(all, &pos, NULL, NULL, &val))
        list[n++] = val;
    qsort(list, n, sizeof(*list), by_name);
    table_column(t, "name", "NAME", TABLE_LEFT);
    table_column(t, "nprocs", "NPROCS", TABLE_RIGHT);
    table_column(t, "entered", "ENTERED", TABLE_RIGHT);
    table_column(t, "ranks", "AT", TABLE_LEFT);
    table_column(t, "waits_for", "WAITS FOR", TABLE_LEFT);
    for (size_t i = 0; i < n; i++) {
        idset_t *missing = idset_difference(list[i]->ranks, list[i]->here);

        table_row(t);
        table_str(t, list[i]->name);
        table_u64(t, list[i]->nprocs);
        table_u64(t, list[i]->entered);
        idset_cell(t, list[i]->here);
        idset_cell(t, missing);
        idset_destroy(missing);
    }
    free(list);
    return cmd_print_table(c, t, json);
}

static int list_barriers(struct cmd *c, bool json)
{
    flux_t *h = cmd_handle(c);
    hmap_t *all;
    int rc;

    if (!h)
        return CMD_FAIL;
    if (!(all = hmap_create_str(open_barrier_free)))
        return cmd_error(c, "out of memory");
    rc = ask_ranks(c, h, all) < 0 ? CMD_FAIL : print_list(c, all, json);
    hmap_destroy(all);
    return rc;
}

/* --- enter --- */

/* The ranks that may not be lost: as said, or all when each broker has one participant.  NULL after
 * printing a sentence. */
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
        return cmd_usage_error(c, "--list goes with --json only");
    if (json && !list)
        return cmd_usage_error(c, "--json is for --list");
    if (list)
        return list_barriers(c, json);
    if (!e.name || argc > c->optind)
        return cmd_usage_error(c, "one NAME is needed");
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
