/* km_watch.c - watching keys and directories, at a cost that depends on the changes.
 *
 * Purpose: watched keys form a tree of watch keys, one for each name (km_watchkey.c).  The watch
 * keys below a directory are sorted by the hash of their names, which is the order of the store's
 * tries.  When the root has changed, the old and the new trie are walked together, but only into
 * subtrees whose digests differ and that contain a watch key.  A watch key stores a mark of the
 * entry that it last had; when the entry differs, its watchers look the key up and answer.  A
 * watcher of an unchanged key is never touched, however many other keys change.
 *
 * Links: a watcher whose key leads through symbolic links has several ways: one to its own watch
 * key, and one for each link to the watch key of the resulting path.  Each look-up determines the
 * ways again.
 *
 * Invariants:
 *  1. `done` is the root up to which watch keys are right: a mark describes the entry at that root,
 *     or is unknown.  When a walk stops because an object is missing, the marks that it has set
 *     become unknown, since the walk may be repeated towards another root.  When a walk is given
 *     up, all marks become unknown.
 *  2. A watcher sends a result only if it differs from the result that it sent last; an additional
 *     look-up does no harm.
 *  3. A watcher has at most one look-up under way.  A change meanwhile makes the watcher `dirty`,
 *     so that its last answer is the result at the newest root.
 *  4. A watcher that answered from a root other than `done` does a look-up after the next walk.
 *  5. A watcher without a look-up under way has a way to each key through which its last look-up
 *     went.  Below a watch key where a link is, or was, all watchers with ways elsewhere do a
 *     look-up.
 *
 * Failure: when an object cannot be loaded, the look-ups that need it fail; their watchers get the
 * error, which ends their streams.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "km_delta.h"
#include "km_private.h"
#include "km_watchkey.h"
#include "libflux/slice.h"

#define WATCHERS_MAX 262144 /* for one namespace at one instance */

/* A key through which the look-up of a watcher went: its own key, or the path that resulted from a
 * link. */
struct way {
    struct list_node node; /* in key.watchers */
    struct watcher *w;
    struct km_watchkey *key;
    struct way *next;
};

struct watcher {
    struct list_node all_node;   /* in km_watch_table.all */
    struct list_node dirty_node; /* in km_watch_table.dirty */
    struct list_node early_node; /* in km_watch_table.early */
    struct way way;
    bool lost; /* there was no memory for a way */
    struct km_read read;
    bool reading;
    bool sent_any;
    struct km_watchkey_mark sent;
    struct km_delta *delta; /* watchers that get only changes; else NULL */
    struct claim claim;
    flux_msg_t *req;
};

struct km_watch_table {
    struct km_watchkey *top;
    struct list_node all, dirty, early;
    size_t count;
    bool known; /* `done` is a root */
    uint8_t done[BLOBREF_DIGEST_MAX];
    uint8_t target[BLOBREF_DIGEST_MAX]; /* of the walk that waits for objects */
    struct km_load_wait wait;
    bool waiting;
    unsigned tries;
};

/* --- watchers --- */

static void watcher_dirty(struct km_ns *ns, struct watcher *w)
{
    if (list_empty(&w->dirty_node))
        list_append(&ns->watches->dirty, &w->dirty_node);
    km_ns_poke(ns);
}

static void key_dirty(struct km_ns *ns, struct km_watchkey *s)
{
    LIST_FOREACH(n, &s->watchers)
    watcher_dirty(ns, list_entry(n, struct way, node)->w);
}

/* --- ways --- */

static void way_leave(struct way *way)
{
    list_remove(&way->node);
    km_watchkey_prune(way->key);
}

/* Leave and free all ways after this one. */
static void ways_end(struct way *last)
{
    for (struct way *way = last->next, *next; way; way = next) {
        next = way->next;
        way_leave(way);
        free(way);
    }
    last->next = NULL;
}

static void followed(struct km_read *r, unsigned nth, const char *path, size_t len)
{
    struct watcher *w = r->arg;
    struct way *last = &w->way, *way;
    struct km_watchkey *s = km_watchkey_get(r->ns->watches->top, path, len);
    if (!s) {
        w->lost = true;
        return;
    }
    for (; nth > 0 && last->next; nth--)
        last = last->next;
    if ((way = last->next) && way->key == s)
        return;
    if (way) {
        list_remove(&way->node);
        list_append(&s->watchers, &way->node);
        km_watchkey_prune(way->key);
        way->key = s;
    } else if ((way = calloc(1, sizeof(*way)))) {
        list_init(&way->node);
        list_append(&s->watchers, &way->node);
        way->w = w;
        way->key = s;
        last->next = way;
    } else {
        km_watchkey_prune(s);
        w->lost = true;
    }
}

/* Drop the ways through which the last look-up did not go. */
static void ways_cut(struct watcher *w, unsigned nlinks)
{
    struct way *last = &w->way;
    for (; nlinks > 0 && last->next; nlinks--)
        last = last->next;
    ways_end(last);
}

static void watcher_free(struct km_ns *ns, struct watcher *w)
{
    if (w->reading)
        km_read_cancel(&w->read);
    list_remove(&w->all_node);
    list_remove(&w->dirty_node);
    list_remove(&w->early_node);
    ways_end(&w->way);
    way_leave(&w->way);
    km_watchkey_mark_clear(&w->sent);
    if (w->delta)
        km_delta_clear(ns, w->delta);
    free(w->delta);
    claim_drop(ns->k->senders, &w->claim);
    flux_msg_destroy(w->req);
    free(w);
    ns->watches->count--;
}

static void watcher_gone(struct claim *c, bool canceled)
{
    struct watcher *w = list_entry(c, struct watcher, claim);
    struct km_ns *ns = w->read.ns;
    flux_respond_error(ns->h, w->req, ENODATA, "the watch %s", claim_gone_why(canceled));
    watcher_free(ns, w);
}

static void send_absent(struct km_ns *ns, struct watcher *w)
{
    uint8_t buf[KVS_ANSWER_HEADER];
    struct kvs_answer a = {.type = 0, .version = w->read.version};
    kvs_answer_encode_header(&a, buf);
    flux_respond_more_raw(ns->h, w->req, buf, sizeof(buf));
}

static void looked(struct km_read *r, void *arg)
{
    struct watcher *w = arg;
    struct km_ns *ns = r->ns;
    struct km_watch_table *ws = ns->watches;
    bool absent = r->errnum == ENOENT || r->errnum == ENOTDIR;
    uint8_t bytes[KM_WATCHKEY_MARK_MAX];
    w->reading = false;
    if (r->errnum && w->delta && w->delta->sent &&
        (r->gone || r->errnum == EIO || r->errnum == EAGAIN)) {
        /* The last result is not available for a comparison any more: send a whole one. */
        km_delta_forget(ns, w->delta);
        w->sent_any = false;
        watcher_dirty(ns, w);
        return;
    }
    if (r->errnum && !absent) {
        flux_respond_error(ns->h, w->req, r->errnum, "%s", r->err.text);
        watcher_free(ns, w);
        return;
    }
    if (w->lost) {
        flux_respond_error(ns->h, w->req, ENOMEM, "out of memory for a watch through links");
        watcher_free(ns, w);
        return;
    }
    ways_cut(w, r->nlinks);
    if (list_empty(&w->early_node) && memcmp(ws->done, r->root, blobref_size(ns->k->blobref)) != 0)
        list_append(&ws->early, &w->early_node);
    /* A change during the look-up has made the watcher dirty, and may be the last: do the next
     * look-up. */
    if (!list_empty(&w->dirty_node) || !list_empty(&w->early_node))
        km_ns_poke(ns);
    size_t len =
        km_watchkey_mark_bytes(absent ? NULL : &r->entry, blobref_size(ns->k->blobref), bytes);
    if (w->sent_any && km_watchkey_mark_is(&w->sent, bytes, len) &&
        !(w->delta && km_delta_pending(w->delta))) {
        free(r->answer);
        r->answer = NULL;
        return;
    }
    km_watchkey_mark_set(&w->sent, bytes, len);
    w->sent_any = true;
    ns->st.watch_sent++;
    if (absent) {
        send_absent(ns, w);
        if (w->delta)
            km_delta_forget(ns, w->delta);
        return;
    }
    km_read_respond(r, w->req, true);
    if (w->delta) {
        km_delta_sent(r);
        if (km_delta_pending(w->delta))
            watcher_dirty(ns, w);
    }
}

/* The root for the next look-up of a diff-watch is held, or (errnum != 0) cannot be held. */
static void root_held(struct km_snapshot_hold *h, int errnum, const char *error)
{
    struct watcher *w = list_entry(h, struct km_delta, now_hold)->watcher;
    struct km_ns *ns = w->read.ns;
    if (errnum) {
        flux_respond_error(ns->h, w->req, errnum, "%s", error);
        watcher_free(ns, w);
        return;
    }
    memcpy(w->read.root, h->root, sizeof(w->read.root));
    w->read.version = h->version;
    w->read.fixed = true;
    km_read_start(&w->read);
}

static void look(struct km_ns *ns, struct watcher *w)
{
    if (w->reading)
        return; /* the watcher stays dirty, and looks again after this look-up */
    list_remove(&w->dirty_node);
    w->reading = true;
    ns->st.watch_looked++;
    if (w->read.q.flags & KVS_REQ_DIFF)
        km_snapshot_hold_newest(&w->delta->now_hold, ns, root_held);
    else
        km_read_start(&w->read);
}

/* --- the walk --- */

struct walk {
    struct km_ns *ns;
    size_t dsize;
    struct kvsmiss *miss;
    struct km_watchkey *marked; /* the watch key that was marked last */
    bool failed;                /* with an error other than a missing object */
};

static bool walk_dir(struct walk *x, struct km_watchkey *s, const uint8_t *old, const uint8_t *new);

/* A link has taken the place of a watched directory, so all watchers below it do a look-up; or
 * (`back`) the entry is no longer a link, and the watchers with ways elsewhere do one. */
static void key_dirty_below(struct km_ns *ns, struct km_watchkey *s, bool back)
{
    for (uint32_t i = 0; i < s->n; i++) {
        struct km_watchkey *c = s->child[i];
        LIST_FOREACH(n, &c->watchers)
        {
            struct watcher *w = list_entry(n, struct way, node)->w;
            if (!back || w->way.next)
                watcher_dirty(ns, w);
        }
        key_dirty_below(ns, c, back);
    }
}

/* The entry of a watched key has changed: its watchers do a look-up, unless they have sent the new
 * entry already (as after the first walk over a new key). */
static void key_changed(struct km_ns *ns, struct km_watchkey *s, const uint8_t *bytes, size_t len)
{
    LIST_FOREACH(n, &s->watchers)
    {
        struct watcher *w = list_entry(n, struct way, node)->w;
        if (w->reading || !w->sent_any || !km_watchkey_mark_is(&w->sent, bytes, len))
            watcher_dirty(ns, w);
    }
}

/* Compare the mark of a watch key with its entry at the new root (NULL: absent).  False: objects
 * are missing. */
static bool walk_key(struct walk *x, struct km_watchkey *s, const struct treeobj_entry *e)
{
    uint8_t bytes[KM_WATCHKEY_MARK_MAX];
    size_t len = km_watchkey_mark_bytes(e, x->dsize, bytes);
    if (km_watchkey_mark_is(&s->mark, bytes, len))
        return true;
    key_changed(x->ns, s, bytes, len);
    const uint8_t *old = s->mark.data && s->mark.data[0] == TREEOBJ_DIR ? s->mark.data + 1 : NULL;
    const uint8_t *new = e && e->type == TREEOBJ_DIR ? e->digest : NULL;
    if (s->n > 0 && !walk_dir(x, s, old, new))
        return false;
    bool is_link = e && e->type == TREEOBJ_LINK;
    if (is_link || !s->mark.data || s->mark.data[0] == TREEOBJ_LINK)
        key_dirty_below(x->ns, s, !is_link);
    km_watchkey_mark_set(&s->mark, bytes, len);
    s->marked = x->marked;
    x->marked = s;
    return true;
}

/* Compare the watch keys from lo to hi, each by a look-up in the directory `new`. */
static bool walk_each(struct walk *x, struct km_watchkey *s, uint32_t lo, uint32_t hi,
                      const uint8_t *new)
{
    bool ok = true;
    for (uint32_t i = lo; i < hi; i++) {
        struct km_watchkey *c = s->child[i];
        struct treeobj_entry e;
        int rc =
            new ? kvswalk_entry(x->ns->content, new, c->name, c->namelen, &e, x->miss, NULL) : 0;
        if (rc < 0) {
            x->failed |= errno != EAGAIN;
            ok = false;
        } else if (!walk_key(x, c, rc ? &e : NULL)) {
            ok = false;
        }
    }
    return ok;
}

/* Compare two nodes at the same place of the old and the new trie, for the watch keys from lo to
 * hi. */
static bool walk_node(struct walk *x, struct km_watchkey *s, uint32_t lo, uint32_t hi,
                      const uint8_t *top, const uint8_t *old, const uint8_t *new, unsigned depth)
{
    if (lo == hi || (old && new &&memcmp(old, new, x->dsize) == 0))
        return true;
    if (!new)
        return walk_each(x, s, lo, hi, NULL);
    if (!old || hi - lo == 1)
        return walk_each(x, s, lo, hi, top);
    const void *n = kvswalk_node(x->ns->content, new, (int)depth, x->miss, NULL);
    if (!n) {
        x->failed |= errno != EAGAIN;
        return false;
    }
    struct content_obj *oo = content_get(x->ns->content, old);
    if (!oo || treeobj_kind(n) != TREEOBJ_BRANCH || treeobj_kind(oo->data) != TREEOBJ_BRANCH)
        return walk_each(x, s, lo, hi, top);
    bool ok = true;
    for (unsigned slot = 0; slot < TREEOBJ_FAN && lo < hi; slot++) {
        uint32_t end = lo;
        while (end < hi && treeobj_slot(s->child[end]->hash, depth) == slot)
            end++;
        const uint8_t *oc = NULL, *nc = NULL;
        if (end > lo) {
            if (!treeobj_branch_child(oo->data, x->dsize, slot, &oc, NULL))
                oc = NULL;
            if (!treeobj_branch_child(n, x->dsize, slot, &nc, NULL))
                nc = NULL;
            if ((oc || nc) && !walk_node(x, s, lo, end, top, oc, nc, depth + 1))
                ok = false;
        }
        lo = end;
    }
    return ok;
}

static bool walk_dir(struct walk *x, struct km_watchkey *s, const uint8_t *old, const uint8_t *new)
{
    /* The marks of watch keys that are newer than the old root are unknown.  The walk passes over
     * them if their directory has not changed, which is right: a watcher does its first look-up
     * when it begins. */
    return walk_node(x, s, 0, s->n, new, old, new, 0);
}

static void walk(struct km_ns *ns);

/* The walk is given up: all watchers do a look-up. */
static void all_look(struct km_ns *ns)
{
    struct km_watch_table *ws = ns->watches;
    km_watchkey_forget(ws->top);
    LIST_FOREACH(n, &ws->all)
    watcher_dirty(ns, list_entry(n, struct watcher, all_node));
}

static void walk_objects_came(struct km_load_wait *w)
{
    struct km_ns *ns = w->ns;
    struct km_watch_table *ws = ns->watches;
    ws->waiting = false;
    if (w->errnum && ++ws->tries > 3) {
        /* Objects could not be loaded in several walks: give up. */
        all_look(ns);
        memcpy(ws->done, ws->target, sizeof(ws->done));
        ws->tries = 0;
        km_load_wait_clear(w);
    }
    km_ns_poke(ns); /* objects that have arrived are held until the walk is over */
}

static void walk(struct km_ns *ns)
{
    struct km_watch_table *ws = ns->watches;
    if (ws->waiting)
        return;
    if (ws->count == 0 || !ws->known) {
        memcpy(ws->done, ns->root, sizeof(ws->done));
        ws->known = true;
        return;
    }
    size_t dsize = blobref_size(ns->k->blobref);
    if (memcmp(ws->done, ns->root, dsize) != 0) {
        struct walk x = {.ns = ns, .dsize = dsize, .miss = km_load_miss_begin(ns->k)};
        memcpy(ws->target, ns->root, sizeof(ws->target));
        bool ok = walk_dir(&x, ws->top, ws->done, ns->root);
        if (!ok && x.miss->n > 0 && km_load_wait_for(&ws->wait, x.miss) == 0) {
            ws->waiting = true;
            for (struct km_watchkey *s = x.marked; s; s = s->marked)
                km_watchkey_mark_clear(&s->mark);
            return;
        }
        if (!ok)
            all_look(ns);
        km_load_wait_clear(&ws->wait);
        ws->tries = 0;
        memcpy(ws->done, ws->target, sizeof(ws->done));
        key_dirty(ns, ws->top);
    }
    struct list_node *n;
    while ((n = list_first(&ws->early))) {
        list_remove(n);
        watcher_dirty(ns, list_entry(n, struct watcher, early_node));
    }
}

/* Watchers for which the slice has no time left are the first in the next one. */
void km_watch_work(struct km_ns *ns)
{
    struct km_watch_table *ws = ns->watches;
    struct flux_slice s;
    if (!ns->ready)
        return;
    walk(ns);
    struct list_node now, reading, *n;
    list_init(&now);
    list_init(&reading);
    list_splice(&now, &ws->dirty);
    flux_slice_begin(&s, flux_get_reactor(ns->h), KM_SLICE_SECONDS, FLUX_SLICE_THINGS);
    while ((n = list_first(&now))) {
        struct watcher *w = list_entry(n, struct watcher, dirty_node);
        if (!w->reading && !flux_slice_more(&s))
            break;
        list_remove(n);
        if (w->reading)
            list_append(&reading, n);
        else
            look(ns, w);
    }
    if (!list_empty(&now))
        km_ns_poke(ns);
    list_splice(&now, &ws->dirty); /* became dirty meanwhile */
    list_splice(&now, &reading);
    list_splice(&ws->dirty, &now);
}

/* --- requests --- */

struct km_watch_table *km_watch_table_create(void)
{
    struct km_watch_table *ws = calloc(1, sizeof(*ws));
    if (!ws || !(ws->top = km_watchkey_create(NULL, "", 0))) {
        free(ws);
        return NULL;
    }
    list_init(&ws->all);
    list_init(&ws->dirty);
    list_init(&ws->early);
    return ws;
}

static struct watcher *watcher_new(const struct kvs_lookup_req *q)
{
    struct watcher *w = calloc(1, sizeof(*w));
    if (!w || !(q->flags & (KVS_REQ_APPEND | KVS_REQ_DIFF)))
        return w;
    if ((w->delta = calloc(1, sizeof(*w->delta)))) {
        w->delta->watcher = w;
        return w;
    }
    free(w);
    return NULL;
}

void km_watch_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct km_ns *ns;
    struct kvs_lookup_req q;
    errmsg_t err;
    size_t len;
    const void *data = flux_msg_payload(msg, &len);
    if (kvs_lookup_req_decode(data, len, &q, &err) < 0) {
        flux_respond_error(h, msg, errno, "%s", err.text);
        return;
    }
    if (!(ns = km_space_request_ready(arg, msg, q.ns, q.nslen, km_watch_cb)))
        return;
    struct km_watch_table *ws = ns->watches;
    if (q.flags & ~(unsigned)(KVS_REQ_READLINK | KVS_REQ_VALUES | KVS_REQ_APPEND | KVS_REQ_DIFF)) {
        flux_respond_error(h, msg, EPROTO, "flags %#x are not for a watch", q.flags);
        return;
    }
    if (!flux_msg_has_flag(msg, FLUX_MSGF_STREAMING) || q.reflen) {
        flux_respond_error(h, msg, EPROTO, "a watch must be a streaming request without a root");
        return;
    }
    if (ws->count >= WATCHERS_MAX) {
        flux_respond_error(h, msg, EAGAIN, "there are %d watchers at rank %u: too many",
                           WATCHERS_MAX, flux_rank(h));
        return;
    }
    struct watcher *w = watcher_new(&q);
    struct km_watchkey *s = w ? km_watchkey_get(ws->top, q.key, q.keylen) : NULL;
    if (!s || claim_take(ns->k->senders, &w->claim, msg, watcher_gone) < 0) {
        if (s)
            km_watchkey_prune(s);
        if (w)
            free(w->delta);
        free(w);
        flux_respond_error(h, msg, ENOMEM, "out of memory for a watch");
        return;
    }
    if (!ws->wait.done)
        km_load_wait_init(&ws->wait, ns, walk_objects_came);
    /* The first watcher: earlier changes do not matter, so `done` becomes the current root. */
    if (ws->count == 0 && !ws->waiting)
        walk(ns);
    ws->count++;
    w->way.w = w;
    w->way.key = s;
    w->req = flux_msg_incref(msg);
    list_init(&w->way.node);
    list_init(&w->all_node);
    list_init(&w->dirty_node);
    list_init(&w->early_node);
    list_append(&s->watchers, &w->way.node);
    list_append(&ws->all, &w->all_node);
    /* A diff-watch may end before its first read, while the request for its root is under way. */
    list_init(&w->read.node);
    list_init(&w->read.refresh_node);
    list_init(&w->read.slow_node);
    km_load_wait_init(&w->read.wait, ns, NULL);
    w->read.ns = ns;
    w->read.q = q; /* points to the payload of the message, which is kept */
    w->read.make = q.flags & KVS_REQ_APPEND ? km_delta_make_append
                   : q.flags & KVS_REQ_DIFF ? km_delta_make_diff
                                            : km_answer_make;
    w->read.delta = w->delta;
    w->read.followed = followed;
    w->read.list = true;
    w->read.done = looked;
    w->read.arg = w;
    look(ns, w);
}

size_t km_watch_count(const struct km_ns *ns)
{
    return ns->watches->count;
}

bool km_watch_pending(const struct km_ns *ns)
{
    const struct km_watch_table *ws = ns->watches;

    return ws->waiting || !list_empty(&ws->dirty) || !list_empty(&ws->early) ||
           (ws->count > 0 && ws->known &&
            memcmp(ws->done, ns->root, blobref_size(ns->k->blobref)) != 0);
}

void km_watch_shut(struct km_ns *ns, int errnum, const char *why)
{
    struct km_watch_table *ws = ns->watches;
    if (ws->wait.done)
        km_load_wait_clear(&ws->wait);
    LIST_FOREACH_SAFE(n, tmp, &ws->all)
    {
        struct watcher *w = list_entry(n, struct watcher, all_node);
        if (errnum)
            flux_respond_error(ns->h, w->req, errnum, "%s", why);
        watcher_free(ns, w);
    }
}

void km_watch_table_destroy(struct km_watch_table *ws)
{
    if (!ws)
        return;
    km_watchkey_mark_clear(&ws->top->mark);
    free(ws->top->child);
    free(ws->top);
    free(ws);
}
