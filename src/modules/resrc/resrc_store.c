/* resrc_store.c - the inventory and what is drained, in the key-value store.
 *
 *    resource.inventory   the nodes and pools (libresource/resgraph.h)
 *    resource.drained     {"nodes":[{"ranks","reason","time"}..]}
 *
 *  1. One commit is under way at a time; what changes meanwhile goes together in the next.
 *  2. An inventory that is as it was is not committed again.
 *  3. Nothing is written before what is drained was read: an older record is not lost.
 *  4. The inventory is read for the sake of nodes that were lost before this instance was loaded, and cannot
 *     be asked any more (resrc_root.c).
 *
 * Failure: without a store nothing is kept, and requests are answered as if it were.  Any other error
 * is logged and told to who waits.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvs.h"
#include "resrc_root.h"

static void drained_cb(flux_future_t *f, void *arg)
{
    struct root *r = arg;
    const char *text;
    size_t len;
    errmsg_t err;
    int rc = flux_kvs_lookup_get(f, &text, &len, &err), errnum = flux_future_errnum(f);

    if (rc == 0 && resrc_drain_list_parse(&r->drained, text, len, &err) < 0)
        flux_log(r->ctx->h, LOG_ERR, "%s cannot be read, so no node is drained: %s",
                 RESRC_KEY_DRAINED, err.text);
    else if (rc < 0 && errnum != ENOENT && errnum != ENOSYS)
        flux_log(r->ctx->h, LOG_ERR, "it is not known which nodes are drained: %s", err.text);
    flux_future_destroy(f);
    r->drained_f = NULL;
    r->drained_known = true;
    resrc_root_changed(r, false);
}

static void record_cb(flux_future_t *f, void *arg)
{
    struct root *r = arg;
    const char *text;
    size_t len;
    errmsg_t err;
    int rc = flux_kvs_lookup_get(f, &text, &len, &err), errnum = flux_future_errnum(f);

    if (rc == 0 ? !(r->record = resgraph_parse(text, len, &err))
                : errnum != ENOENT && errnum != ENOSYS)
        flux_log(r->ctx->h, LOG_ERR, "%s cannot be read: %s", RESRC_KEY_INVENTORY, err.text);
    flux_future_destroy(f);
    r->record_f = NULL;
    r->record_known = true;
    resrc_root_changed(r, false);
}

/* The lookup of a key; NULL, and *known then, when there is no memory for it. */
static flux_future_t *lookup(struct root *r, const char *key, flux_future_f cb, bool *known)
{
    flux_future_t *f = flux_kvs_lookup(r->ctx->h, NULL, key, 0, NULL);

    if (f && flux_future_then(f, -1., cb, r) == 0)
        return f;
    flux_future_destroy(f);
    *known = true;
    return NULL;
}

void resrc_store_load(struct root *r)
{
    r->drained_f = lookup(r, RESRC_KEY_DRAINED, drained_cb, &r->drained_known);
    r->record_f = lookup(r, RESRC_KEY_INVENTORY, record_cb, &r->record_known);
}

static void answer(struct root *r, struct list_node *list, int errnum, const char *error)
{
    struct list_node *n;

    while ((n = list_first(list))) {
        struct waiter *w = list_entry(n, struct waiter, node);

        if (errnum)
            flux_respond_error(r->ctx->h, w->req, errnum, "done, but it is not on record: %s",
                               error);
        else
            flux_respond(r->ctx->h, w->req, w->text);
        resrc_root_waiter_free(w);
    }
}

static void commit_cb(flux_future_t *f, void *arg)
{
    struct root *r = arg;
    int errnum = flux_future_errnum(f);

    if (errnum && errnum != ENOSYS)
        flux_log(r->ctx->h, LOG_ERR, "resources are not put on record: %s", flux_future_error(f));
    answer(r, &r->committing, errnum == ENOSYS ? 0 : errnum, flux_future_error(f));
    flux_future_destroy(f);
    r->commit_f = NULL;
    resrc_store_save(r);
}

static int put_inventory(struct root *r, flux_kvs_txn_t *txn, errmsg_t *err)
{
    char *text = resgraph_format(root_graph(r));

    r->save_inventory = false;
    if (!text)
        return errmsg_fail(err, ENOMEM, "no memory for an inventory");
    if (r->inventory && strcmp(r->inventory, text) == 0) {
        free(text);
        return 0;
    }
    free(r->inventory);
    r->inventory = text;
    return flux_kvs_txn_put(txn, RESRC_KEY_INVENTORY, text, err);
}

static int put_drained(struct root *r, flux_kvs_txn_t *txn, errmsg_t *err)
{
    char *text = resrc_drain_list_format(&r->drained);
    int rc;

    r->save_drained = false;
    if (!text)
        return errmsg_fail(err, ENOMEM, "no memory for a record");
    rc = flux_kvs_txn_put(txn, RESRC_KEY_DRAINED, text, err);
    free(text);
    return rc;
}

void resrc_store_save(struct root *r)
{
    flux_kvs_txn_t *txn;
    errmsg_t err = {"no memory for a commit"};
    struct list_node *n;

    if (r->commit_f || !r->settled || !(r->save_inventory || r->save_drained))
        return;
    while ((n = list_first(&r->to_commit))) {
        list_remove(n);
        list_append(&r->committing, n);
    }
    if (!(txn = flux_kvs_txn_create()) || (r->save_inventory && put_inventory(r, txn, &err) < 0) ||
        (r->save_drained && put_drained(r, txn, &err) < 0)) {
        flux_log(r->ctx->h, LOG_ERR, "resources are not put on record: %s", err.text);
        answer(r, &r->committing, errno, err.text);
    } else if (flux_kvs_txn_count(txn) == 0) {
        answer(r, &r->committing, 0, NULL);
    } else {
        r->commit_f = flux_kvs_commit(r->ctx->h, NULL, txn);
        r->commits++;
        if (!r->commit_f || flux_future_then(r->commit_f, -1., commit_cb, r) < 0) {
            flux_future_destroy(r->commit_f);
            r->commit_f = NULL;
            answer(r, &r->committing, ENOMEM, "no memory for a commit");
        }
    }
    flux_kvs_txn_destroy(txn);
}

void resrc_store_stop(struct root *r)
{
    answer(r, &r->to_commit, ECONNABORTED, "the resrc module was unloaded");
    answer(r, &r->committing, ECONNABORTED, "the resrc module was unloaded");
    flux_future_destroy(r->commit_f);
    flux_future_destroy(r->drained_f);
    flux_future_destroy(r->record_f);
    resgraph_destroy(r->record);
    free(r->inventory);
}
