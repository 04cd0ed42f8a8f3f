/* kvs_stream.c - values of any size in bounded memory.
 *
 * The writer cuts a value into pieces of 1 MiB.  A kvs.store request takes each piece to the
 * master and returns the digests of its chunks; less than WINDOW of them are outstanding when the
 * caller gets control.  A piece is kept until it is accepted, because the master may have no room
 * for it yet.  The transaction contains the digests only.  A value of one piece is not sent in
 * advance: the transaction contains its bytes.
 *
 * The reader first requests 1 MiB.  If that is not the whole value, it takes a snapshot and begins
 * again at its root, with up to WINDOW requests of 1 MiB outstanding.
 *
 * Invariants:
 *  1. Pieces other than the last have PIECE bytes, so that chunks begin where the format requires.
 *  2. Slots are used in turn: digests are noted, and ranges returned, in the order of the value.
 *  3. All ranges are read at one root.  The snapshot keeps it, unless the caller named a root for
 *     which no snapshot can be taken any more: then a read fails once that root is gone.
 *
 * Failure: after an error of a request, or of memory, the writer can only be destroyed.  An error
 * of the transaction (an invalid key, say) leaves the value in the writer.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kvs_stream.h"
#include "kvs_txn.h"
#include "kvs_wire.h"

#define PIECE FLUX_KVS_STORE_MAX
#define WINDOW 4
/* Digests of a value must fit in a transaction. */
#define SIZE_LIMIT (UINT64_C(62) << 30)
/* When the master has no room: retry after each commit there, at least once per ROOM_STEP seconds,
 * and at most ROOM_TRIES times. */
#define ROOM_STEP 1.
#define ROOM_TRIES 60

/* Wait for a result.  -1 with an error message if none comes, or it is an error. */
static int wait_for(flux_future_t *f, const char *what, errmsg_t *err)
{
    if (!f)
        return errmsg_fail(err, errno, "%s: cannot make the request: %s", what, strerror(errno));
    if (flux_future_wait(f, -1.) < 0)
        return errmsg_fail(err, errno, "%s: %s", what,
                           errno == EPIPE ? "the connection to the broker was lost"
                                          : strerror(errno));
    return flux_rpc_get(f, err);
}

/* NULL stays NULL. */
static int copy_text(char **copy, const char *s)
{
    *copy = s ? strdup(s) : NULL;
    return s && !*copy ? -1 : 0;
}

/* --- writing --- */

struct piece {
    flux_future_t *f; /* the request of this slot; NULL: none is outstanding */
    uint8_t *data;    /* PIECE bytes, allocated when first needed */
    size_t len;
};

struct flux_kvs_writer {
    flux_t *h;
    char *ns;
    struct piece slot[WINDOW];
    unsigned fill;   /* slot that is being filled */
    unsigned oldest; /* the slot whose request is the oldest, if any is outstanding */
    unsigned underway;
    uint64_t size;
    uint8_t *digests;
    size_t n, cap, dsize; /* chunks, room for chunks, bytes of a digest */
    int errnum;
    errmsg_t error;
};

flux_kvs_writer_t *flux_kvs_writer_create(flux_t *h, const char *ns)
{
    flux_kvs_writer_t *w;

    if (!h || (ns && kvs_ns_check(ns, strlen(ns), NULL) < 0)) {
        errno = EINVAL;
        return NULL;
    }
    if ((w = calloc(1, sizeof(*w)))) {
        w->h = h;
        if (copy_text(&w->ns, ns) < 0) {
            free(w);
            w = NULL;
        }
    }
    return w;
}

static void writer_reset(flux_kvs_writer_t *w)
{
    for (unsigned i = 0; i < WINDOW; i++) {
        flux_future_destroy(w->slot[i].f);
        w->slot[i].f = NULL;
        w->slot[i].len = 0;
    }
    w->fill = w->oldest = w->underway = 0;
    w->size = 0;
    w->n = 0;
}

void flux_kvs_writer_destroy(flux_kvs_writer_t *w)
{
    if (!w)
        return;
    int saved = errno;
    writer_reset(w);
    for (unsigned i = 0; i < WINDOW; i++)
        free(w->slot[i].data);
    free(w->digests);
    free(w->ns);
    free(w);
    errno = saved;
}

uint64_t flux_kvs_writer_size(const flux_kvs_writer_t *w)
{
    return w->size;
}

/* Keep the first error: later calls fail with it. */
static int writer_fail(flux_kvs_writer_t *w, errmsg_t *err)
{
    if (!w->errnum)
        w->errnum = errno ? errno : EIO;
    return errmsg_fail(err, w->errnum, "%s", w->error.text);
}

static int note_digests(flux_kvs_writer_t *w, struct piece *p)
{
    const uint8_t *digests;
    size_t n, dsize;

    if (flux_kvs_store_get(p->f, &digests, &n, &dsize, &w->error) < 0)
        return -1;
    if (n != (p->len + FLUX_KVS_CHUNK - 1) / FLUX_KVS_CHUNK || (w->n > 0 && dsize != w->dsize))
        return errmsg_fail(&w->error, EPROTO,
                           "the response to kvs.store does not have one digest per chunk");
    w->dsize = dsize;
    if (w->n + n > w->cap) {
        size_t cap = w->cap ? 2 * w->cap : PIECE / FLUX_KVS_CHUNK * WINDOW;
        uint8_t *more = reallocarray(w->digests, cap, dsize);
        if (!more)
            return errmsg_fail(&w->error, ENOMEM, "out of memory for a large value");
        w->digests = more;
        w->cap = cap;
    }
    memcpy(w->digests + w->n * dsize, digests, n * dsize);
    w->n += n;
    return 0;
}

/* Chunks that wait for a commit fill the master's room: wait for the next commit there. */
static int wait_for_room(flux_kvs_writer_t *w)
{
    flux_future_t *f = flux_kvs_version(w->h, w->ns);
    uint64_t version;
    int rc = wait_for(f, "kvs.version", &w->error);

    if (rc == 0 && (rc = flux_kvs_commit_get(f, &version, NULL, &w->error)) == 0) {
        flux_future_destroy(f);
        f = flux_kvs_wait_version(w->h, w->ns, version + 1);
        if (!f || (flux_future_wait(f, ROOM_STEP) < 0 && errno != ETIMEDOUT))
            rc = wait_for(f, "kvs.wait-version", &w->error);
    }
    flux_future_destroy(f);
    return rc;
}

static int send_piece(flux_kvs_writer_t *w, struct piece *p)
{
    p->f = flux_kvs_store(w->h, w->ns, p->data, p->len);
    return p->f ? 0 : errmsg_fail(&w->error, errno, "kvs.store: %s", strerror(errno));
}

/* Wait for the oldest outstanding piece. */
static int finish_oldest(flux_kvs_writer_t *w)
{
    struct piece *p = &w->slot[w->oldest];

    for (unsigned tries = 0; wait_for(p->f, "kvs.store", &w->error) < 0; tries++) {
        if (errno != EAGAIN || flux_future_errnum(p->f) != EAGAIN || tries == ROOM_TRIES)
            return -1;
        flux_future_destroy(p->f);
        p->f = NULL;
        if (wait_for_room(w) < 0 || send_piece(w, p) < 0)
            return -1;
    }
    if (note_digests(w, p) < 0)
        return -1;
    flux_future_destroy(p->f);
    p->f = NULL;
    p->len = 0;
    w->oldest = (w->oldest + 1) % WINDOW;
    w->underway--;
    return 0;
}

/* Send the slot that is being filled, and make sure that the next one is empty. */
static int flush_piece(flux_kvs_writer_t *w)
{
    if (send_piece(w, &w->slot[w->fill]) < 0)
        return -1;
    w->underway++;
    w->fill = (w->fill + 1) % WINDOW;
    return w->underway == WINDOW ? finish_oldest(w) : 0;
}

int flux_kvs_writer_write(flux_kvs_writer_t *w, const void *data, size_t len, errmsg_t *err)
{
    const uint8_t *from = data;

    if (w->errnum)
        return writer_fail(w, err);
    if (len > SIZE_LIMIT || w->size + len > SIZE_LIMIT) {
        errmsg_set(&w->error, "a value has at most 62 GiB");
        errno = EFBIG;
        return writer_fail(w, err);
    }
    while (len > 0) {
        struct piece *p = &w->slot[w->fill];
        size_t n = PIECE - p->len < len ? PIECE - p->len : len;
        /* A full slot is sent when more bytes come: the transaction holds a value of one piece. */
        if (n == 0) {
            if (flush_piece(w) < 0)
                return writer_fail(w, err);
            continue;
        }
        if (!p->data && !(p->data = malloc(PIECE))) {
            errmsg_set(&w->error, "out of memory for a large value");
            errno = ENOMEM;
            return writer_fail(w, err);
        }
        memcpy(p->data + p->len, from, n);
        p->len += n;
        w->size += n;
        from += n;
        len -= n;
    }
    return 0;
}

int flux_kvs_writer_put(flux_kvs_writer_t *w, flux_kvs_txn_t *txn, const char *key, errmsg_t *err)
{
    struct piece *p = &w->slot[w->fill];
    int rc;

    if (w->errnum)
        return writer_fail(w, err);
    if (w->n == 0 && w->underway == 0) {
        rc = flux_kvs_txn_put_raw(txn, key, p->data ? (void *)p->data : "", p->len, err);
    } else {
        if (p->len > 0 && flush_piece(w) < 0)
            return writer_fail(w, err);
        while (w->underway > 0) {
            if (finish_oldest(w) < 0)
                return writer_fail(w, err);
        }
        rc = flux_kvs_txn_put_chunks(txn, key, w->size, w->digests, w->n, w->dsize, err);
    }
    if (rc == 0)
        writer_reset(w);
    return rc;
}

/* --- reading --- */

struct flux_kvs_reader {
    flux_t *h;
    char *ns;
    char *key;
    char *rootref;           /* NULL: the value is one piece */
    flux_future_t *snapshot; /* keeps the root */
    flux_future_t *slot[WINDOW];
    unsigned next; /* slot with the next range */
    unsigned underway;
    uint64_t asked; /* end of the requested ranges */
    uint64_t given; /* end of the returned ranges */
    uint64_t size;
    flux_future_t *last; /* the piece that was returned last */
};

void flux_kvs_reader_destroy(flux_kvs_reader_t *r)
{
    if (!r)
        return;
    int saved = errno;
    for (unsigned i = 0; i < WINDOW; i++)
        flux_future_destroy(r->slot[i]);
    flux_future_destroy(r->last);
    flux_future_destroy(r->snapshot);
    free(r->rootref);
    free(r->key);
    free(r->ns);
    free(r);
    errno = saved;
}

uint64_t flux_kvs_reader_size(const flux_kvs_reader_t *r)
{
    return r->size;
}

static int ask(flux_kvs_reader_t *r, const char *rootref, uint64_t len, errmsg_t *err)
{
    unsigned slot = (r->next + r->underway) % WINDOW;

    if (len > PIECE)
        len = PIECE;
    r->slot[slot] = flux_kvs_lookup_range(r->h, r->ns, r->key, rootref, r->asked, (uint32_t)len);
    if (!r->slot[slot])
        return errmsg_fail(err, errno, "%s: %s", r->key, strerror(errno));
    r->underway++;
    r->asked += len;
    return 0;
}

/* Wait for the first response, which contains the size of the value. */
static int first_answer(flux_kvs_reader_t *r, size_t *len, errmsg_t *err)
{
    struct flux_kvs_info info;

    if (wait_for(r->slot[0], r->key, err) < 0 ||
        flux_kvs_lookup_get(r->slot[0], NULL, len, err) < 0 ||
        flux_kvs_lookup_get_info(r->slot[0], &info, err) < 0)
        return -1;
    r->size = info.size;
    return 0;
}

static int hold_root(flux_kvs_reader_t *r, const char *rootref, errmsg_t *err)
{
    const char *ref = rootref;
    int rc;

    r->snapshot = flux_kvs_snapshot(r->h, r->ns, rootref);
    rc = wait_for(r->snapshot, "kvs.snapshot", err);
    /* A past root that can no longer be kept may still be readable: every read uses it, or
     * fails. */
    if (rc < 0 && !(rootref && errno == ENOENT))
        return -1;
    if (rc == 0 && flux_kvs_commit_get(r->snapshot, NULL, &ref, err) < 0)
        return -1;
    if (copy_text(&r->rootref, ref) < 0)
        return errmsg_fail(err, ENOMEM, "out of memory for a large value");
    return 0;
}

static int reader_begin(flux_kvs_reader_t *r, const char *rootref, errmsg_t *err)
{
    size_t len;

    if (ask(r, rootref, PIECE, err) < 0 || first_answer(r, &len, err) < 0)
        return -1;
    if (len >= r->size) {
        r->asked = r->size;
        return 0;
    }
    flux_future_destroy(r->slot[0]);
    r->slot[0] = NULL;
    r->underway = 0;
    r->asked = 0;
    if (hold_root(r, rootref, err) < 0 || ask(r, r->rootref, PIECE, err) < 0 ||
        first_answer(r, &len, err) < 0)
        return -1;
    if (r->asked > r->size)
        r->asked = r->size;
    return 0;
}

flux_kvs_reader_t *flux_kvs_reader_create(flux_t *h, const char *ns, const char *key,
                                          const char *rootref, errmsg_t *err)
{
    flux_kvs_reader_t *r = calloc(1, sizeof(*r));

    if (!r || copy_text(&r->ns, ns) < 0 || copy_text(&r->key, key) < 0) {
        errmsg_set(err, "out of memory for reading a value");
        flux_kvs_reader_destroy(r);
        errno = ENOMEM;
        return NULL;
    }
    r->h = h;
    if (reader_begin(r, rootref, err) < 0) {
        flux_kvs_reader_destroy(r);
        return NULL;
    }
    return r;
}

ssize_t flux_kvs_reader_next(flux_kvs_reader_t *r, const char **data, errmsg_t *err)
{
    size_t len, want;

    flux_future_destroy(r->last);
    r->last = NULL;
    if (r->given == r->size)
        return 0;
    while (r->underway < WINDOW && r->asked < r->size) {
        if (ask(r, r->rootref, r->size - r->asked, err) < 0)
            return -1;
    }
    r->last = r->slot[r->next];
    r->slot[r->next] = NULL;
    r->next = (r->next + 1) % WINDOW;
    r->underway--;
    if (wait_for(r->last, r->key, err) < 0 || flux_kvs_lookup_get(r->last, data, &len, err) < 0)
        return -1;
    want = r->rootref && r->size - r->given > PIECE ? PIECE : (size_t)(r->size - r->given);
    if (len != want)
        return errmsg_fail(err, EPROTO,
                           "%s: received %zu of the %zu bytes at offset %" PRIu64
                           " that were requested",
                           r->key, len, want, r->given);
    r->given += len;
    return (ssize_t)len;
}
