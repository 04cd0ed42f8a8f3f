/* cmd_resource_places.c - flux resource list --by: print the resources and jobs by the places
 * above the nodes (leaf switches, pods, racks...).
 */
#include "config.h"
#include "cmd_resource.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../job/job_args.h"
#include "libutil/strbuf.h"

/* A job that has nodes. */
struct holder {
    uint64_t id;
    idset_t *ranks;
};
struct holders {
    struct cmd *c;
    struct holder *list;
    size_t n, room;
};

static void holders_clear(struct holders *hs)
{
    for (size_t i = 0; i < hs->n; i++)
        idset_destroy(hs->list[i].ranks);
    free(hs->list);
}

static int take_job(void *arg, const struct job_info *info, json_t *json)
{
    struct holders *hs = arg;
    struct holder *h;

    if (!info->ranks)
        return 0;
    if (hs->n == hs->room) {
        size_t room = hs->room ? 2 * hs->room : 64;
        struct holder *more = realloc(hs->list, room * sizeof(*more));

        if (!more)
            return cmd_error(hs->c, "out of memory"), -1;
        hs->list = more;
        hs->room = room;
    }
    h = &hs->list[hs->n];
    h->id = info->id;
    if (!(h->ranks = idset_parse(info->ranks, NULL)))
        return cmd_error(hs->c, "the response of the service job is invalid: ranks '%s'",
                         info->ranks),
               -1;
    hs->n++;
    return 0;
}

/* Jobs that have resources; none where there is no job module. */
static int find_holders(struct cmd *c, struct holders *hs)
{
    struct job_list q;
    flux_t *h = cmd_handle(c);
    flux_future_t *f =
        h ? flux_rpc(h, "job.stats", "{}", FLUX_NODEID_ROOT, FLUX_MSGF_IDEMPOTENT) : NULL;
    bool none = f && flux_future_wait(f, 60.) == 0 && flux_future_errnum(f) == ENOSYS;

    flux_future_destroy(f);
    if (none)
        return 0;
    flux_job_list_init(&q);
    q.states = JOB_STATES_RUNNING;
    return h ? job_args_list(c, h, &q, take_job, hs) : -1;
}

/* [{"id":7,"ranks":"0-3"}], "7:0-3 9:5": who is on these. */
static int cell_jobs(table_t *t, const struct holders *hs, const idset_t *ranks)
{
    strbuf_t *sb = strbuf_create(0);
    json_t *array = json_array();
    char *text;
    int rc = 0;

    for (size_t i = 0; i < hs->n; i++) {
        idset_t *here = idset_intersect(hs->list[i].ranks, ranks);
        char *list = here ? idset_format(here, 0) : NULL;

        if (!list)
            rc = -1;
        else if (*list) {
            strbuf_addf(sb, "%s%ju:%s", strbuf_len(sb) > 0 ? " " : "", (uintmax_t)hs->list[i].id,
                        list);
            rc |= json_array_append_new(
                array, json_pack("{s:I,s:s}", "id", (json_int_t)hs->list[i].id, "ranks", list));
        }
        idset_destroy(here);
        free(list);
    }
    text = strbuf_take(sb);
    if (rc < 0 || !text || json_array_size(array) == 0) {
        json_decref(array);
        array = NULL;
    }
    if (rc == 0 && text && !array)
        rc = table_null(t);
    else if (rc == 0 && text)
        rc = table_cell(t, array, text);
    free(text);
    return rc;
}

static int cell_pools(table_t *t, const struct resgraph_place *p)
{
    strbuf_t *sb = strbuf_create(0);
    char *text;

    for (size_t i = 0; i < p->npools; i++)
        strbuf_addf(sb, "%s%s", i > 0 ? "," : "", p->pools[i]);
    if (!(text = strbuf_take(sb)))
        return -1;
    table_str(t, *text ? text : NULL);
    free(text);
    return 0;
}

/* Nodes below a place that are free, have something allocated, or cannot be used; and by whom. */
static int add_place(table_t *t, const struct res *res, const idset_t *used, size_t i,
                     const struct holders *hs, bool pools)
{
    idset_t *below = resgraph_ranks_below(res->g, i);
    idset_t *taken = below ? idset_intersect(below, used) : NULL;
    idset_t *rest = below ? idset_difference(below, used) : NULL;
    idset_t *usable = idset_difference(res->up, res->drained);
    idset_t *free_ids = rest && usable ? idset_intersect(rest, usable) : NULL;
    idset_t *lost = free_ids ? idset_difference(rest, free_ids) : NULL;
    struct resgraph_place p, up;
    int rc = -1;

    if (taken && lost && resgraph_place(res->g, i, &p)) {
        table_row(t);
        table_str(t,
                  p.parent >= 0 && resgraph_place(res->g, (size_t)p.parent, &up) ? up.name : NULL);
        table_str(t, p.name);
        table_u64(t, idset_count(below));
        res_cell_idset(t, free_ids);
        res_cell_idset(t, taken);
        res_cell_idset(t, lost);
        rc = pools ? cell_pools(t, &p) : 0;
        if (rc == 0)
            rc = cell_jobs(t, hs, below);
    }
    idset_destroy(below);
    idset_destroy(taken);
    idset_destroy(rest);
    idset_destroy(usable);
    idset_destroy(free_ids);
    idset_destroy(lost);
    return rc;
}

/* "POD" where all places of the level are in pods, else "IN". */
static void titles(const struct res *res, const char *level, char *in, char *own, size_t size)
{
    struct resgraph_place p, up;
    const char *above = NULL;
    bool same = true;

    for (size_t i = 0; resgraph_place(res->g, i, &p); i++) {
        if (strcmp(p.level, level) != 0)
            continue;
        if (p.parent >= 0 && resgraph_place(res->g, (size_t)p.parent, &up)) {
            same = same && (!above || strcmp(above, up.level) == 0);
            above = up.level;
        }
    }
    snprintf(in, size, "%s", same && above ? above : "in");
    snprintf(own, size, "%s", level);
    for (char *s = in; *s; s++)
        *s = *s >= 'a' && *s <= 'z' ? (char)(*s - 'a' + 'A') : *s;
    for (char *s = own; *s; s++)
        *s = *s >= 'a' && *s <= 'z' ? (char)(*s - 'a' + 'A') : *s;
}

/* The levels that there are, each once, from the outermost on. */
static char *levels(const struct res *res)
{
    strbuf_t *sb = strbuf_create(0);
    struct resgraph_place p, q;

    for (size_t i = 0; resgraph_place(res->g, i, &p); i++) {
        size_t k = 0;

        while (k < i && resgraph_place(res->g, k, &q) && strcmp(q.level, p.level) != 0)
            k++;
        if (k == i)
            strbuf_addf(sb, "%s%s", strbuf_len(sb) > 0 ? ", " : "", p.level);
    }
    return strbuf_take(sb);
}

/* The session has no such level: say which it has. */
static int no_level(struct cmd *c, const struct res *res, const char *level)
{
    char *known = levels(res);

    if (!known)
        return cmd_error(c, "out of memory");
    if (*known)
        cmd_error(c, "the session has no level '%s' above its nodes; its levels are: %s", level,
                  known);
    else
        cmd_error(
            c, "the session has no description of what is above its nodes: set resource.topology "
               "(switches), or describe places in the configuration (see flux-resource(5))");
    free(known);
    return CMD_FAIL;
}

int resource_list_by(struct cmd *c, const struct res *res, const char *level, bool json)
{
    struct holders hs = {.c = c};
    char in[256], own[256];
    struct resgraph_place p;
    bool pools = json;
    idset_t *used;
    table_t *t;
    size_t n = 0;

    for (size_t i = 0; resgraph_place(res->g, i, &p); i++) {
        n += strcmp(p.level, level) == 0;
        pools |= strcmp(p.level, level) == 0 && p.npools > 0;
    }
    if (n == 0)
        return no_level(c, res, level);
    if (find_holders(c, &hs) < 0) {
        holders_clear(&hs);
        return CMD_FAIL;
    }
    titles(res, level, in, own, sizeof(in));
    used = rset_ranks(res->allocated);
    t = table_create();
    table_column(t, "in", in, TABLE_LEFT);
    table_column(t, "name", own, TABLE_LEFT);
    table_column(t, "nnodes", "NNODES", TABLE_RIGHT);
    table_column(t, "free", "FREE", TABLE_LEFT);
    table_column(t, "allocated", "ALLOCATED", TABLE_LEFT);
    table_column(t, "unusable", "UNUSABLE", TABLE_LEFT);
    if (pools)
        table_column(t, "pools", "POOLS", TABLE_LEFT);
    table_column(t, "jobs", "JOBS", TABLE_LEFT);
    for (size_t i = 0; used && resgraph_place(res->g, i, &p); i++) {
        if (strcmp(p.level, level) == 0 && add_place(t, res, used, i, &hs, pools) < 0) {
            idset_destroy(used);
            used = NULL;
        }
    }
    holders_clear(&hs);
    if (!used) {
        table_destroy(t);
        return cmd_error(c, "out of memory");
    }
    idset_destroy(used);
    return cmd_print_table(c, t, json);
}
