/* check_kvs_restore.c - a store comes back from disk in turns: objects, references and journal of
 * 200,000 keys, and what was read is what was there. */
#include <time.h>
#include <unistd.h>

#include "bed.h"
#include "libutil/test/steps.h"
#include "libutil/fdutil.h"
#include "modules/kvs/km_disk.h"

#define KEYS 200000u
#define PER_DIR 1000u
#define NAMESPACE(name) "{\"namespace\":\"" name "\",\"owner\":0,\"rank\":0}"
#define PATIENCE 10000u /* times 5 ms */

static char *dir;

static struct km *km_of(struct bed *b)
{
    return b->ctx;
}

/* Start on what is in the directory, and wait until it is there. */
static struct bed *start(long step)
{
    struct bed *b = bed_new(0);

    b->statedir = dir;
    step_ns = step;
    for (unsigned i = 0; !km_of(b)->started; i++) {
        ck_assert_uint_lt(i, PATIENCE);
        settle(b);
    }
    step_ns = 0;
    settle(b);
    ck_assert_ptr_nonnull(km_of(b)->disk);
    return b;
}

/* `n` keys in one commit: d<I / PER_DIR>.k<I>. */
static void put_keys(struct bed *b, unsigned first, unsigned n)
{
    struct kvs_txn_buf txn = {0};
    struct kvs_ns_req q = {.ns = "primary", .nslen = strlen("primary")};
    flux_msg_t *msg = request("kvs.commit", 0, FLUX_ROLE_OWNER, 7);
    size_t answers = b->answers;
    uint8_t *buf;
    char key[32];

    for (unsigned i = first; i < first + n; i++) {
        snprintf(key, sizeof(key), "d%u.k%u", i / PER_DIR, i);
        ck_assert_int_eq(kvs_txn_buf_add(&txn, KVS_OP_PUT, 0, key, strlen(key), "v", 1, NULL), 0);
    }
    q.body = txn.data;
    q.len = txn.len;
    ck_assert_ptr_nonnull(buf = malloc(kvs_ns_req_size(&q)));
    kvs_ns_req_encode(&q, buf);
    flux_msg_set_raw(msg, buf, kvs_ns_req_size(&q));
    free(buf);
    kvs_txn_buf_clear(&txn);
    flux_handle_deliver(b->f.h, msg);
    while (b->answers == answers)
        settle(b);
    ck_assert_int_eq(b->errnum, 0);
}

static void setup(void)
{
    ck_assert_ptr_nonnull(dir = dir_create_runtime("check-restore", NULL));
}

static void teardown(void)
{
    ck_assert_int_eq(dir_remove_tree(dir), 0);
    free(dir);
}

static void is_back(struct bed *b, uint64_t version, const uint8_t *root)
{
    struct km_ns *ns = km_of(b)->primary;

    ck_assert_uint_eq(ns->version, version);
    ck_assert_mem_eq(kvsstore_root(ns->store), root, 32);
}

/* Loops are: from a checkpoint; from the journal. */
START_TEST(turns)
{
    struct bed *b = start(0);
    struct km_keep_stats ks;
    uint8_t root[32];
    uint64_t version;

    ck_assert_uint_lt(km_of(b)->disk->st.turns, 10); /* an empty store */
    for (unsigned i = 0; i < KEYS; i += 50000)
        put_keys(b, i, 50000);
    version = km_of(b)->primary->version;
    memcpy(root, kvsstore_root(km_of(b)->primary->store), 32);
    if (_i == 1) /* as if it were killed: no checkpoint at the end */
        km_of(b)->disk->failing = true;
    bed_free(b);
    /* A turn has 20 looks at the clock.  In a page there are 1,000 objects or more. */
    b = start(100000);
    is_back(b, version, root);
    km_keep_stats(km_of(b)->primary->keep, &ks);
    if (_i == 1)
        ck_assert_uint_gt(ks.journal_bytes, 1000000);
    else
        ck_assert_uint_eq(ks.journal_bytes, 0);
    ck_assert_uint_ge(ks.turns, 1000);
    put_keys(b, 0, 1);
    bed_free(b);
}
END_TEST

/* The module is unloaded in the midst of it. */
START_TEST(stopped)
{
    struct bed *b = start(0);
    uint8_t root[32];
    uint64_t version;

    put_keys(b, 0, 20000);
    version = km_of(b)->primary->version;
    memcpy(root, kvsstore_root(km_of(b)->primary->store), 32);
    if (_i % 2)
        km_of(b)->disk->failing = true;
    bed_free(b);
    b = bed_new(0);
    b->statedir = dir;
    step_ns = 100000;
    while (!km_of(b)->started &&
           (!km_of(b)->disk || km_of(b)->disk->st.turns < 1u + 3u * (unsigned)_i))
        settle(b);
    step_ns = 0;
    ck_assert(!km_of(b)->started);
    bed_free(b);
    b = start(0);
    is_back(b, version, root);
    bed_free(b);
}
END_TEST

static const struct kvs_storage_driver *real; /* NULL: no driver is full */

/* There is no room for a write ... */
static int submit_full(kvs_storage_t *s, struct kvs_storage_req *q)
{
    if (!kvs_storage_is_write(q->op))
        return real->submit(s, q);
    errno = EAGAIN;
    return -1;
}

/* ... and no reply, for which the end would wait. */
bool __real_km_driver_wait(const struct kvs_storage_driver *drv, kvs_storage_t *s, int ms);
bool __wrap_km_driver_wait(const struct kvs_storage_driver *drv, kvs_storage_t *s, int ms);

bool __wrap_km_driver_wait(const struct kvs_storage_driver *drv, kvs_storage_t *s, int ms)
{
    return !real && __real_km_driver_wait(drv, s, ms);
}

/* The module is unloaded while requests wait for room: each of them ends, and is answered. */
START_TEST(stopped_full)
{
    struct bed *b = start(0);
    struct kvs_storage_driver full = *km_of(b)->disk->drv;
    size_t answers = b->answers;

    (void)json(b, CREATE, 0, OWNER, NAMESPACE("old"));
    while (b->answers == answers)
        settle(b);
    ck_assert_int_eq(b->errnum, 0);
    real = km_of(b)->disk->drv;
    full.submit = submit_full;
    km_of(b)->disk->drv = &full;
    ck_assert_int_eq(json(b, REMOVE, 0, OWNER, "{\"namespace\":\"old\"}"), -1);
    ck_assert_int_eq(json(b, CREATE, 0, OWNER, NAMESPACE("new")), -1);
    ck_assert_int_eq(raw(b, "kvs.store", "primary", 0, 1000), -1);
    ck_assert_int_eq(put(b, "primary", 0, OWNER), -1);
    answers = b->answers;
    flux_module_kvs.fini(b->f.h, b->ctx);
    b->ctx = NULL;
    ck_assert_uint_eq(b->answers, answers + 4);
    ck_assert_int_eq(b->errnum, ECONNABORTED);
    bed_free(b);
    real = NULL;
}
END_TEST

struct loading {
    flux_reactor_t *r;
    unsigned calls;
    int errnum;
    char why[200];
};

static void loaded(void *arg, const struct kvs_storage_driver *drv, const errmsg_t *err)
{
    struct loading *l = arg;

    ck_assert_ptr_null(drv);
    l->calls++;
    l->errnum = errno;
    snprintf(l->why, sizeof(l->why), "%.199s", err->text);
    flux_reactor_stop(l->r, 0);
}

/* A file that is not a driver is reported with an error message; one that is given up is not. */
START_TEST(bad_driver)
{
    struct loading l = {.r = flux_reactor_create(false)};
    char path[200];
    km_driver_t *d;
    FILE *f;

    snprintf(path, sizeof(path), "%s/none.so", dir);
    for (int i = 0; i < 2; i++) {
        ck_assert_ptr_nonnull(d = km_driver_load(l.r, path, loaded, &l));
        ck_assert_int_eq(flux_reactor_run(l.r), 0);
        ck_assert_uint_eq(l.calls, i + 1);
        if (i == 0) {
            ck_assert_int_eq(l.errnum, ENOENT);
            ck_assert_ptr_nonnull(strstr(l.why, "the driver of the store"));
            ck_assert_ptr_nonnull(f = fopen(path, "w"));
            fputs("no library", f);
            fclose(f);
        } else {
            ck_assert_ptr_nonnull(strstr(l.why, "cannot load"));
        }
        km_driver_destroy(d);
    }
    ck_assert_ptr_nonnull(d = km_driver_load(l.r, path, loaded, &l));
    km_driver_destroy(d);
    flux_reactor_destroy(l.r);
    ck_assert_uint_eq(l.calls, 2);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("kvs restore");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, turns, 0, 2);
    tcase_add_loop_test(tc, stopped, 0, 6);
    tcase_add_test(tc, stopped_full);
    tcase_add_test(tc, bad_driver);
    return run_case("kvs_restore", tc);
}
