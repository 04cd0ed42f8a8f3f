/* store_mem.h - a store whose objects are all in memory. */
#ifndef TEST_STORE_MEM_H
#define TEST_STORE_MEM_H

#include "libkvs/kvsstore.h"

struct store {
    blobref_t *b;
    content_t *c;
    kvsstore_t *s;
};

/* `st` must be closed even if this returns false: out of memory. */
static inline bool store_open(struct store *st, const char *hash)
{
    st->b = blobref_create(hash, NULL);
    st->c = st->b ? content_create(st->b, 0) : NULL;
    st->s = st->c ? kvsstore_create(st->c) : NULL;
    return st->s != NULL;
}

static inline void store_close(struct store *st)
{
    kvsstore_destroy(st->s);
    content_destroy(st->c);
    blobref_destroy(st->b);
}

#endif
