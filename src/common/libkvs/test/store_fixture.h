/* What the tests of the store share: a store in memory, and numbers that are the same each time. */
#ifndef KVS_TEST_STORE_FIXTURE_H
#define KVS_TEST_STORE_FIXTURE_H

#include <check.h>
#include <stdint.h>

#include "libkvs/kvsstore.h"
#include "libutil/test/rnd.h"

static blobref_t *blobref; /* from setup() to teardown() */

struct fixture {
    content_t *content;
    kvsstore_t *store;
};

static inline struct fixture fresh(void)
{
    struct fixture f;
    f.content = content_create(blobref, 0);
    f.store = kvsstore_create(f.content);
    ck_assert_ptr_nonnull(f.store);
    return f;
}

static inline void drop(struct fixture *f)
{
    kvsstore_destroy(f->store);
    content_destroy(f->content);
}

static inline void setup(void)
{
    blobref = blobref_create("sha256", NULL);
}

static inline void teardown(void)
{
    blobref_destroy(blobref);
}

#endif
