/* pmi_table.c - the key-value table of a node's PMI server.
 *
 * After the fence of a job of P processes the table holds P or more pairs, and each of them is
 * looked up P times, so the cost of look-ups dominates: a look-up is one hash probe, and neither
 * copies nor allocates memory.
 *
 * Invariants:
 *  1. Records (format of pmi_pack.c) lie in chunks which never move and are freed together; the
 *     index maps a key to its record.
 *  2. A merged blob becomes one chunk: its records are indexed where they lie.
 *  3. `used` is the sum of all chunk sizes and never above `max`.  Overwritten values
 *     keep their space: PMI keys are written once, so reclaiming would gain nothing.
 *
 * Failure: see the header; the table is always consistent.
 */
#include "config.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libpmi/pmi_table.h"
#include "libutil/hmap.h"

#define CHUNK_MIN ((size_t)4096)
#define CHUNK_MAX ((size_t)256 * 1024)

struct chunk {
    struct chunk *next;
    char data[];
};

struct pmi_table {
    hmap_t *index;
    struct chunk *chunks; /* the newest first */
    char *free;           /* room for single records, in some chunk */
    size_t room;
    size_t step; /* size of the next chunk for single records */
    size_t used;
    size_t max;
};

static int fail(int errnum)
{
    errno = errnum;
    return -1;
}

struct pmi_table *pmi_table_create(size_t max)
{
    struct pmi_table *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    t->max = max ? max : SIZE_MAX;
    t->step = CHUNK_MIN;
    t->index = hmap_create_str(NULL);
    if (!t->index) {
        free(t);
        errno = ENOMEM;
        return NULL;
    }
    return t;
}

void pmi_table_destroy(struct pmi_table *t)
{
    int saved = errno;

    if (t) {
        hmap_destroy(t->index);
        while (t->chunks) {
            struct chunk *c = t->chunks;

            t->chunks = c->next;
            free(c);
        }
        free(t);
    }
    errno = saved;
}

static char *add_chunk(struct pmi_table *t, size_t size)
{
    struct chunk *c;

    if (size > t->max - t->used) {
        errno = ENOSPC;
        return NULL;
    }
    c = malloc(sizeof(*c) + size);
    if (!c)
        return NULL;
    c->next = t->chunks;
    t->chunks = c;
    t->used += size;
    return c->data;
}

/* Keys of the index are NUL-terminated. */
static int index_record(struct pmi_table *t, const struct pmi_pair *pair, const void *rec)
{
    char key[PMI_PACK_KEY_MAX + 1];

    memcpy(key, pair->key, pair->keylen);
    key[pair->keylen] = '\0';
    return hmap_put(t->index, key, (void *)rec);
}

int pmi_table_put(struct pmi_table *t, const struct pmi_pair *pair)
{
    size_t size = pmi_record_size(pair);

    if (pair->keylen == 0 || pair->keylen > PMI_PACK_KEY_MAX ||
        pair->valuelen > PMI_PACK_VALUE_MAX || memchr(pair->key, '\0', pair->keylen))
        return fail(EINVAL);
    if (size > t->room) {
        size_t want = size > t->step ? size : t->step;
        char *p;

        if (want > t->max - t->used)
            want = size;
        p = add_chunk(t, want);
        if (!p)
            return -1;
        t->free = p;
        t->room = want;
        if (t->step < CHUNK_MAX)
            t->step *= 2;
    }
    pmi_record_write(t->free, pair);
    if (index_record(t, pair, t->free) < 0)
        return -1;
    t->free += size;
    t->room -= size;
    return 0;
}

int pmi_table_get(const struct pmi_table *t, const char *key, size_t keylen, struct pmi_pair *pair)
{
    char name[PMI_PACK_KEY_MAX + 1];
    const void *rec;

    if (keylen == 0 || keylen > PMI_PACK_KEY_MAX)
        return fail(ENOENT);
    memcpy(name, key, keylen);
    name[keylen] = '\0';
    rec = hmap_get(t->index, name);
    if (!rec)
        return fail(ENOENT);
    pmi_record_read(rec, pair);
    return 0;
}

int pmi_table_merge(struct pmi_table *t, const void *blob, size_t len)
{
    struct pmi_unpack u;
    struct pmi_pair pair;
    char *copy;
    int rc;

    if (pmi_unpack_check(blob, len, NULL) < 0)
        return -1;
    if (len == 0)
        return 0;
    copy = add_chunk(t, len);
    if (!copy)
        return -1;
    memcpy(copy, blob, len);
    pmi_unpack_init(&u, copy, len);
    while ((rc = pmi_unpack_next(&u, &pair)) == 1) {
        if (index_record(t, &pair, pmi_record_of(&pair)) < 0)
            return -1;
    }
    return rc;
}
