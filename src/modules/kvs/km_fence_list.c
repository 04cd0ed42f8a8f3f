/* km_fence_list.c - the list of open fences.
 *
 *    kvs.fences       {} -> {"fences":[...]} (libkvs/kvs_json.h): the open fences that this
 *                     instance knows, in namespaces that the sender may use
 *
 * Failure: ENOMEM.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "km_fence.h"
#include "libkvs/kvs_json.h"

/* NULL with ENOMEM. */
static json_t *describe(const struct km_fence *f)
{
    struct kvs_fence_item item = {.namespace = f->ns->name,
                                  .name = f->name,
                                  .nprocs = f->nprocs,
                                  .age = flux_now(f->ns->h) - f->since};
    const idset_t *known = f->ranks ? f->ranks : grace_suspects(f->grace);
    char *ranks = known ? idset_format(known, 0) : strdup("");
    json_t *o;
    LIST_FOREACH(n, &f->parts)
    item.entered += !list_entry(n, struct km_fence_part, node)->instance;
    item.ranks = ranks;
    o = ranks ? flux_schema_encode_json(&kvs_fence_item_schema, &item) : NULL;
    free(ranks);
    return o;
}

void km_fence_list_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km *k = arg;
    struct kvs_fence_list out = {json_array()};
    int rc = out.fences ? 0 : -1;
    size_t pos = 0;
    void *space, *val;
    while (rc == 0 && hmap_next(k->spaces, &pos, NULL, NULL, &space)) {
        struct km_ns *ns = space;
        size_t at = 0;
        if (!km_space_permitted(ns, msg))
            continue;
        while (rc == 0 && hmap_next(ns->fences->by_name, &at, NULL, NULL, &val))
            rc = json_array_append_new(out.fences, describe(val));
    }
    if (rc == 0)
        flux_respond_struct(h, msg, &kvs_fence_list_schema, &out);
    else
        flux_respond_error(h, msg, ENOMEM, "rank %u is out of memory for a list", flux_rank(h));
    json_decref(out.fences);
}
