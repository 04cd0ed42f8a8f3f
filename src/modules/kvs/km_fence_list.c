/* km_fence_list.c - the list of open fences.
 *
 *    kvs.fences       {} -> stream of {"fences":[...]} (libkvs/kvs_json_wire.h): the open fences
 *                     that this instance knows, in namespaces that the sender may use
 *
 * The list is made in slices (libservice/longlist.h).
 *
 * Failure: ENOMEM ends the stream.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "km_fence.h"
#include "libkvs/kvs_json_wire.h"
#include "libschema/jsonout.h"

static void put_fence(strbuf_t *sb, const struct longlist_place *place, const flux_msg_t *req)
{
    const struct km_fence *f = list_entry(place, struct km_fence, place);
    struct kvs_fence_item item = {.namespace = f->ns->name,
                                  .name = f->name,
                                  .nprocs = f->nprocs,
                                  .entered = f->here,
                                  .age = flux_now(f->ns->h) - f->since};
    const idset_t *known = f->ranks ? f->ranks : grace_suspects(f->grace);
    char *ranks;

    if (!km_space_permitted(f->ns, req))
        return;
    ranks = known ? idset_format(known, 0) : strdup("");
    item.ranks = ranks;
    if (ranks)
        jsonout_struct(sb, NULL, &kvs_fence_item_schema, &item);
    else
        strbuf_fail(sb, ENOMEM);
    free(ranks);
}

void km_fence_list_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km *k = arg;

    longlist_answer(k->fences, msg);
}

longlist_t *km_fence_list_create(struct km *k)
{
    return longlist_create(k->h, k->senders, "fences", put_fence);
}
