/* resrc_store.c - the inventory and the drained nodes, in the key-value store.
 *
 *    resource.inventory   the nodes and pools (libresource/resgraph.h)
 *    resource.drained     {"nodes":[{"ranks","reason","time"}..]}
 *
 * Invariants:
 *  1. One commit is under way at a time; changes that arrive meanwhile go into the next one.
 *  2. An unchanged inventory is not committed again.
 *  3. Nothing is written before the drained nodes have been read, so an older record is not lost.
 *  4. The inventory is read only to recall nodes that were lost before this instance was loaded and
 *     cannot be asked any more (resrc_root.c).
 *
 * Failure: without a store nothing is recorded, but requests are answered as if it were.  Any other
 * error is logged (once, until a commit succeeds) and reported to the clients that wait, and the
 * commit is tried again after 1 s, 2 s and so on up to 30 s, or with the next change.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvs.h"
#include "resrc_root.h"

#define PAUSE_MIN 1. /* seconds */
#define PAUSE_MAX 30.

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

/* Look up a key.  If memory is short: NULL, and *known is set, as if the key did not exist. */
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

static void again_cb(flux_reactor_t *reactor, flux_watcher_t *w, int revents, void *arg)
{
    resrc_store_save(arg);
}

/* A commit has failed: try it again later.  If memory for a timer is short, the next change does
 * that. */
static void failed(struct root *r, int errnum, const char *error)
{
    if (r->pause == 0.)
        flux_log(r->ctx->h, LOG_ERR, "resources are not put on record: %s; trying again", error);
    r->pause = r->pause == 0. ? PAUSE_MIN : r->pause < PAUSE_MAX / 2. ? 2. * r->pause : PAUSE_MAX;
    r->save_inventory = r->save_inventory || r->saving_inventory;
    r->save_drained = r->save_drained || r->saving_drained;
    if (r->saving_inventory) {
        free(r->inventory); /* the store does not have this one */
        r->inventory = NULL;
    }
    r->saving_inventory = r->saving_drained = false;
    answer(r, &r->committing, errnum, error);
    if (r->again || (r->again = flux_timer_create(flux_get_reactor(r->ctx->h), again_cb, r)))
        flux_timer_start(r->again, r->pause, 0.);
}

static void commit_cb(flux_future_t *f, void *arg)
{
    struct root *r = arg;
    int errnum = flux_future_errnum(f);

    r->commit_f = NULL;
    if (errnum && errnum != ENOSYS) {
        failed(r, errnum, flux_future_error(f));
        if (!list_empty(&r->to_commit)) /* changes that arrived meanwhile do not wait */
            resrc_store_save(r);
    } else {
        r->pause = 0.;
        r->saving_inventory = r->saving_drained = false;
        answer(r, &r->committing, 0, NULL);
        resrc_store_save(r);
    }
    flux_future_destroy(f);
}

static int put_inventory(struct root *r, flux_kvs_txn_t *txn, errmsg_t *err)
{
    const char *text = resrc_root_text(r);

    r->save_inventory = false;
    r->saving_inventory = true;
    if (!text)
        return errmsg_fail(err, ENOMEM, "no memory for an inventory");
    if (r->inventory && strcmp(r->inventory, text) == 0)
        return 0;
    free(r->inventory);
    if (!(r->inventory = strdup(text)))
        return errmsg_fail(err, ENOMEM, "no memory for an inventory");
    return flux_kvs_txn_put(txn, RESRC_KEY_INVENTORY, text, err);
}

static int put_drained(struct root *r, flux_kvs_txn_t *txn, errmsg_t *err)
{
    char *text = resrc_drain_list_format(&r->drained);
    int rc;

    r->save_drained = false;
    r->saving_drained = true;
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
        failed(r, errno, err.text);
    } else if (flux_kvs_txn_count(txn) == 0) {
        r->saving_inventory = false;
        answer(r, &r->committing, 0, NULL);
    } else {
        r->commit_f = flux_kvs_commit(r->ctx->h, NULL, txn);
        r->commits++;
        if (!r->commit_f || flux_future_then(r->commit_f, -1., commit_cb, r) < 0) {
            flux_future_destroy(r->commit_f);
            r->commit_f = NULL;
            failed(r, ENOMEM, "no memory for a commit");
        }
    }
    flux_kvs_txn_destroy(txn);
}

void resrc_store_stop(struct root *r)
{
    answer(r, &r->to_commit, ECONNABORTED, "the resrc module was unloaded");
    answer(r, &r->committing, ECONNABORTED, "the resrc module was unloaded");
    flux_watcher_destroy(r->again);
    flux_future_destroy(r->commit_f);
    flux_future_destroy(r->drained_f);
    flux_future_destroy(r->record_f);
    resgraph_destroy(r->record);
    free(r->inventory);
}
