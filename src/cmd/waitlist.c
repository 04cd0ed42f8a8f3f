/* waitlist.c - merge the open barriers or fences that each rank reports into one list.
 *
 * Failure: a rank that is lost, or that does not run the module, contributes nothing.  A rank that
 * does not respond in time, or with an invalid response, ends the list with an error message: a
 * table without its entries would show processes as missing that have entered there.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libidset/idset.h"
#include "libutil/hmap.h"
#include "waitlist.h"

#define LIST_TIMEOUT 30.

struct row {
    char *space;
    char *name;
    uint32_t nprocs;
    uint32_t entered;
    double age;
    idset_t *here;  /* ranks where somebody has entered */
    idset_t *ranks; /* that were announced */
};

static void row_free(void *val)
{
    struct row *r = val;

    idset_destroy(r->here);
    idset_destroy(r->ranks);
    free(r->space);
    free(r->name);
    free(r);
}

/* The one of that name, made if it is new.  NULL with ENOMEM. */
static struct row *row_get(hmap_t *all, const struct waitlist_item *item)
{
    const char *space = item->space ? item->space : "";
    struct row *r = NULL;
    char *key = NULL;

    if (asprintf(&key, "%s %s", space, item->name) < 0)
        return NULL;
    if ((r = hmap_get(all, key)) || !(r = calloc(1, sizeof(*r))))
        goto done;
    r->nprocs = item->nprocs;
    if (!(r->space = strdup(space)) || !(r->name = strdup(item->name)) ||
        !(r->here = idset_create()) || !(r->ranks = idset_create()) || hmap_put(all, key, r) < 0) {
        row_free(r);
        r = NULL;
    }
done:
    free(key);
    return r;
}

/* What one rank says.  -1 after printing an error message. */
static int add_list(struct cmd *c, hmap_t *all, const struct waitlist_source *src,
                    const char *space, uint32_t rank, const json_t *list)
{
    size_t i;
    json_t *o;

    json_array_foreach((json_t *)list, i, o)
    {
        struct waitlist_item item = {NULL, NULL, 0, 0, NULL, 0.};
        errmsg_t err = {"out of memory"};
        idset_t *ranks = NULL;
        struct row *r;
        int rc = -1;

        if (src->item(o, &item, &err) == 0 && space && item.space && strcmp(space, item.space) != 0)
            continue;
        if (item.name && (ranks = idset_parse(item.ranks, &err)) && (r = row_get(all, &item))) {
            r->entered += item.entered;
            if (item.age > r->age)
                r->age = item.age;
            rc = idset_add(r->ranks, ranks);
            if (rc == 0 && item.entered > 0)
                rc = idset_set(r->here, rank);
        }
        idset_destroy(ranks);
        if (rc < 0)
            return cmd_error(c, "rank %u: %s", rank, err.text), -1;
    }
    return 0;
}

/* All pages of one rank.  -1 after printing an error message. */
static int add_pages(struct cmd *c, hmap_t *all, const struct waitlist_source *src,
                     const char *space, uint32_t rank, flux_future_t *f)
{
    const json_t *list;
    errmsg_t err;

    for (;; flux_future_next(f)) {
        if (!f || flux_future_wait(f, LIST_TIMEOUT) < 0) {
            cmd_error(c, "rank %u does not answer: %s", rank, strerror(errno));
            return -1;
        }
        switch (flux_future_errnum(f)) {
        case ENODATA:
        case EHOSTUNREACH:
        case ENOSYS:
            return 0;
        default:
            break;
        }
        if (!(list = src->list(f, &err))) {
            cmd_error(c, "rank %u: %s", rank, err.text);
            return -1;
        }
        if (add_list(c, all, src, space, rank, list) < 0)
            return -1;
    }
}

static int ask_ranks(struct cmd *c, flux_t *h, hmap_t *all, const struct waitlist_source *src,
                     const char *space)
{
    uint32_t size = flux_size(h);
    flux_future_t **f = calloc(size, sizeof(*f));
    int rc = f ? 0 : -1;

    for (uint32_t rank = 0; f && rank < size; rank++)
        f[rank] = flux_rpc(h, src->topic, NULL, rank,
                           FLUX_MSGF_STREAMING | FLUX_MSGF_IDEMPOTENT | FLUX_MSGF_WHOLE);
    for (uint32_t rank = 0; f && rank < size && rc == 0; rank++)
        rc = add_pages(c, all, src, space, rank, f[rank]);
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
    const struct row *x = *(struct row *const *)a, *y = *(struct row *const *)b;
    int rc = strcmp(x->space, y->space);

    return rc ? rc : strcmp(x->name, y->name);
}

static int print_rows(struct cmd *c, hmap_t *all, bool spaces, bool json)
{
    struct row **list = calloc(hmap_count(all) + 1, sizeof(*list));
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
    if (spaces)
        table_column(t, "namespace", "NAMESPACE", TABLE_LEFT);
    table_column(t, "name", "NAME", TABLE_LEFT);
    table_column(t, "nprocs", "NPROCS", TABLE_RIGHT);
    table_column(t, "entered", "ENTERED", TABLE_RIGHT);
    table_column(t, "age", "AGE", TABLE_RIGHT);
    table_column(t, "ranks", "AT", TABLE_LEFT);
    table_column(t, "waits_for", "WAITS FOR", TABLE_LEFT);
    for (size_t i = 0; i < n; i++) {
        idset_t *missing = idset_difference(list[i]->ranks, list[i]->here);

        table_row(t);
        if (spaces)
            table_str(t, list[i]->space);
        table_str(t, list[i]->name);
        table_u64(t, list[i]->nprocs);
        table_u64(t, list[i]->entered);
        table_duration(t, list[i]->age);
        idset_cell(t, list[i]->here);
        idset_cell(t, missing);
        idset_destroy(missing);
    }
    free(list);
    return cmd_print_table(c, t, json);
}

int waitlist_print(struct cmd *c, const struct waitlist_source *src, const char *space, bool json)
{
    flux_t *h = cmd_handle(c);
    hmap_t *all;
    int rc;

    if (!h)
        return CMD_FAIL;
    if (!(all = hmap_create_str(row_free)))
        return cmd_error(c, "out of memory");
    rc = ask_ranks(c, h, all, src, space) < 0 ? CMD_FAIL : print_rows(c, all, src->spaces, json);
    hmap_destroy(all);
    return rc;
}
