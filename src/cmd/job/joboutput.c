/* joboutput.c - the output of a job in the key-value store, from its beginning, in bounded memory.
 *
 * Purpose.  The value job.ID.output only grows, and may have gigabytes.  A watch of the value would
 * queue its bytes in the broker for a program whose output is read slowly, until the broker
 * disconnects the program.  So a watch of the directory job.ID reports the length of the value, and
 * the bytes are requested in pieces of PIECE bytes, one at a time, when the program has room for
 * them.
 *
 * Invariants:
 *  1. At most one piece is under way; none is requested while reading is paused.
 *  2. seen <= size while the value grows; a smaller size than `seen` is another value, which is
 *     read from its beginning.
 *
 * Failure: an error of the store is reported once, and nothing is requested after it.  A directory
 * that is not there (yet, or any more) is not an error: the watch goes on.
 */
#include "config.h"
#include "joboutput.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libjob/job.h"
#include "libkvs/kvs.h"

#define PIECE FLUX_KVS_STORE_MAX
#define NAME "output"

struct joboutput {
    flux_t *h;
    struct joboutput_cb cb;
    char key[FLUX_JOB_KEY_MAX];
    flux_future_t *watch, *piece;
    uint64_t seen, size;
    uint64_t final; /* of the value, once the job has ended */
    bool paused, failed;
    bool anew; /* the next bytes are the first of another value */
};

static void fail(joboutput_t *o, const char *text)
{
    if (!o->failed)
        o->cb.failed(o->cb.arg, text);
    o->failed = true;
}

static void ask(joboutput_t *o);

static void piece_cb(flux_future_t *f, void *arg)
{
    joboutput_t *o = arg;
    const char *data = NULL;
    bool anew = o->anew;
    errmsg_t err;
    size_t len = 0;
    int rc = flux_kvs_lookup_get(f, &data, &len, &err);

    o->piece = NULL;
    if (rc < 0 && errno != ENOENT) {
        fail(o, err.text);
    } else if (rc < 0 || len == 0) {
        /* Purged, or shorter than it was said to be: the watch tells when that changes. */
        o->size = o->seen;
        if (o->final > o->seen)
            fail(o, "the rest of the job's output is lost: the job was purged");
    } else {
        o->anew = false;
        o->seen += len;
        if (o->size < o->seen)
            o->size = o->seen;
        ask(o);
        o->cb.data(o->cb.arg, data, len, anew); /* which may destroy `o` */
    }
    flux_future_destroy(f);
}

static void ask(joboutput_t *o)
{
    uint64_t left = o->size - o->seen;

    if (o->paused || o->failed || o->piece || left == 0)
        return;
    o->piece = flux_kvs_lookup_range(o->h, NULL, o->key, NULL, o->seen,
                                     left > PIECE ? PIECE : (uint32_t)left);
    if (!o->piece || flux_future_then(o->piece, -1., piece_cb, o) < 0)
        fail(o, "out of memory");
}

/* The present length of the value, in bytes. */
static void known(joboutput_t *o, uint64_t size)
{
    if (size < o->seen) {
        o->seen = 0;
        o->anew = true;
        flux_future_destroy(o->piece);
        o->piece = NULL;
    }
    o->size = size;
    ask(o);
}

void joboutput_ended(joboutput_t *o, uint64_t size)
{
    o->final = size;
    if (size > o->seen)
        known(o, size);
}

static void watch_cb(flux_future_t *f, void *arg)
{
    joboutput_t *o = arg;
    struct flux_kvs_dirent e;
    errmsg_t err;
    size_t pos = 0;
    int rc = 0;

    while (!flux_kvs_watch_absent(f) && (rc = flux_kvs_readdir_next(f, &pos, &e, &err)) > 0) {
        if (strcmp(e.name, NAME) == 0 && e.type == FLUX_KVS_VALUE && e.size != o->size)
            known(o, e.size);
    }
    if (rc < 0)
        fail(o, err.text);
    if (!o->failed)
        flux_future_next(f);
}

joboutput_t *joboutput_create(flux_t *h, uint64_t id, const struct joboutput_cb *cb)
{
    joboutput_t *o = calloc(1, sizeof(*o));
    char dir[FLUX_JOB_KEY_MAX];

    if (!o)
        return NULL;
    o->h = h;
    o->cb = *cb;
    flux_job_key(id, NAME, o->key, sizeof(o->key));
    memcpy(dir, o->key, sizeof(dir));
    *strrchr(dir, '.') = '\0';
    o->watch = flux_kvs_watch(h, NULL, dir, 0);
    if (!o->watch || flux_future_then(o->watch, -1., watch_cb, o) < 0) {
        joboutput_destroy(o);
        errno = ENOMEM;
        return NULL;
    }
    return o;
}

void joboutput_destroy(joboutput_t *o)
{
    if (o) {
        int saved = errno;

        flux_future_destroy(o->watch);
        flux_future_destroy(o->piece);
        free(o);
        errno = saved;
    }
}

void joboutput_pause(joboutput_t *o)
{
    o->paused = true;
}

void joboutput_resume(joboutput_t *o)
{
    o->paused = false;
    ask(o);
}

uint64_t joboutput_seen(const joboutput_t *o)
{
    return o->seen;
}
