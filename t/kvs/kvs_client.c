/* kvs_client.c - what the tests of the key-value store do that the command line cannot.
 *
 *    kvs_client fence NAME NPROCS [KEY=VALUE...]   take part in a fence, print the version
 *    kvs_client fence-at RANKS NAME NPROCS [KEY=VALUE...]
 *                                                  the same, and say where participants are
 *    kvs_client sync                               make durable what was committed, by a durable
 *                                                  commit that changes nothing
 *    kvs_client fill DIR N                         put N keys in one commit, print the version
 *    kvs_client overwrite KEY N                    N commits of KEY, 64 of them under way
 *    kvs_client seq KEY N                          the same, one after the other
 *    kvs_client append KEY FILE                    append lines 1, 2, ... to KEY in a commit each,
 *                                                  64 of them under way, until FILE exists; print
 *                                                  the number of the last one
 *    kvs_client raw TOPIC HEX                      send bytes as a request; print the answer's size
 *    kvs_client noise SEED N                       N requests of random bytes to all of the service
 *
 * Errors: "NAME-OF-ERRNO: sentence" on standard error, exit code 1.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libflux/future.h"
#include "libflux/handle.h"
#include "libkvs/kvs.h"

#define WINDOW 64

static int fail(int errnum, const char *text)
{
    fprintf(stderr, "%s: %s\n", strerrorname_np(errnum), text);
    return 1;
}

/* Wait for a commit or fence, print its version when `print`. */
static int committed(flux_future_t *f, bool print)
{
    uint64_t version;
    errmsg_t err;
    int rc = 0;

    if (!f)
        return fail(errno, "no request could be made");
    if (flux_future_wait(f, -1.) < 0)
        rc = fail(errno, "the connection is gone");
    else if (flux_kvs_commit_get(f, &version, NULL, &err) < 0)
        rc = fail(errno, err.text);
    else if (print)
        printf("%" PRIu64 "\n", version);
    flux_future_destroy(f);
    return rc;
}

static int fence_at(flux_t *h, const char *ranks, int argc, char **argv)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    errmsg_t err;
    int rc = 0;

    for (int i = 2; i < argc && rc == 0; i++) {
        char *eq = strchr(argv[i], '=');
        if (!eq)
            rc = fail(EINVAL, "KEY=VALUE is needed");
        else {
            *eq = '\0';
            if (flux_kvs_txn_put(txn, argv[i], eq + 1, &err) < 0)
                rc = fail(errno, err.text);
        }
    }
    if (rc == 0)
        rc = committed(flux_kvs_fence_ranks(h, NULL, argv[0], (uint32_t)strtoul(argv[1], NULL, 10),
                                            ranks, txn),
                       true);
    flux_kvs_txn_destroy(txn);
    return rc;
}

static int fence(flux_t *h, int argc, char **argv)
{
    return fence_at(h, NULL, argc, argv);
}

static int ranked_fence(flux_t *h, int argc, char **argv)
{
    return fence_at(h, argv[0], argc - 1, argv + 1);
}

static int sync_store(flux_t *h, int argc, char **argv)
{
    return committed(flux_kvs_commit_durable(h, NULL, NULL), true);
}

static int fill(flux_t *h, int argc, char **argv)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    unsigned long n = strtoul(argv[1], NULL, 10);
    char key[300];
    char value[32];
    errmsg_t err;
    int rc = 0;

    for (unsigned long i = 0; i < n && rc == 0; i++) {
        snprintf(key, sizeof(key), "%s.k%lu", argv[0], i);
        snprintf(value, sizeof(value), "v%lu", i);
        if (flux_kvs_txn_put(txn, key, value, &err) < 0)
            rc = fail(errno, err.text);
    }
    if (rc == 0)
        rc = committed(flux_kvs_commit(h, NULL, txn), true);
    flux_kvs_txn_destroy(txn);
    return rc;
}

static int overwrite(flux_t *h, char **argv, size_t size)
{
    flux_future_t *window[WINDOW] = {NULL};
    unsigned long n = strtoul(argv[1], NULL, 10);
    char value[400];
    errmsg_t err;
    int rc = 0;

    for (unsigned long i = 0; i < n + size && rc == 0; i++) {
        flux_future_t **slot = &window[i % size];
        flux_kvs_txn_t *txn;
        if (*slot) {
            rc = committed(*slot, false);
            *slot = NULL;
        }
        if (i >= n || rc != 0)
            continue;
        /* Too long to stand in its directory, so that each is an object of its own. */
        snprintf(value, sizeof(value), "%0399lu", i);
        txn = flux_kvs_txn_create();
        if (flux_kvs_txn_put(txn, argv[0], value, &err) < 0)
            rc = fail(errno, err.text);
        else
            *slot = flux_kvs_commit(h, NULL, txn);
        flux_kvs_txn_destroy(txn);
    }
    for (size_t i = 0; i < WINDOW; i++)
        flux_future_destroy(window[i]);
    return rc;
}

static int windowed(flux_t *h, int argc, char **argv)
{
    return overwrite(h, argv, WINDOW);
}

static int one_by_one(flux_t *h, int argc, char **argv)
{
    return overwrite(h, argv, 1);
}

static flux_future_t *append_line(flux_t *h, const char *key, unsigned long number)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    flux_future_t *f = NULL;
    char line[24];

    snprintf(line, sizeof(line), "%lu\n", number);
    if (txn && flux_kvs_txn_append(txn, key, line, strlen(line), NULL) == 0)
        f = flux_kvs_commit(h, NULL, txn);
    flux_kvs_txn_destroy(txn);
    return f;
}

static int append(flux_t *h, int argc, char **argv)
{
    flux_future_t *window[WINDOW] = {NULL};
    unsigned long begun = 0, over = 0;
    int rc = 0;

    while (rc == 0 && access(argv[1], F_OK) != 0) {
        flux_future_t **slot = &window[begun % WINDOW];
        if (*slot) {
            rc = committed(*slot, false);
            over++;
        }
        *slot = append_line(h, argv[0], ++begun);
    }
    while (over < begun) { /* also those after one that has failed */
        int more = committed(window[over++ % WINDOW], false);
        rc = rc ? rc : more;
    }
    printf("%lu\n", over);
    return rc;
}

static int answered(flux_future_t *f)
{
    const void *data;
    size_t len;
    errmsg_t err;
    int rc = 0;

    if (!f)
        return fail(errno, "no request could be made");
    if (flux_future_wait(f, 30.) < 0)
        rc = fail(errno, "no answer");
    else if (flux_rpc_get_raw(f, &data, &len, &err) < 0)
        rc = fail(errno, err.text);
    else
        printf("%zu\n", len);
    flux_future_destroy(f);
    return rc;
}

static int raw(flux_t *h, int argc, char **argv)
{
    size_t len = strlen(argv[1]) / 2;
    uint8_t *buf = malloc(len + 1);
    int rc;

    for (size_t i = 0; i < len; i++) {
        unsigned v = 0;
        sscanf(argv[1] + 2 * i, "%2x", &v);
        buf[i] = (uint8_t)v;
    }
    rc = answered(flux_rpc_raw(h, argv[0], buf, len, FLUX_NODEID_ANY, 0));
    free(buf);
    return rc;
}

/* Half of it begins as a request of that kind does, so that it gets further than the first check.
 */
static int noise(flux_t *h, int argc, char **argv)
{
    static const char *const topics[] = {"kvs.lookup",
                                         "kvs.readdir",
                                         "kvs.commit",
                                         "kvs.fence",
                                         "kvs.fence-abort",
                                         "kvs.fence-told",
                                         "kvs.load",
                                         "kvs.getroot",
                                         "kvs.version",
                                         "kvs.wait-version",
                                         "kvs.watch",
                                         "kvs.snapshot",
                                         "kvs.store",
                                         "kvs.gc",
                                         "kvs.stats",
                                         "kvs.follow",
                                         "kvs.namespace-create",
                                         "kvs.namespace-remove",
                                         "kvs.namespace-find",
                                         "kvs.namespace-open",
                                         "kvs.namespace-close",
                                         "kvs.namespace-drop",
                                         "kvs.namespace-lost",
                                         "kvs.namespace-check",
                                         "kvs.namespace-register",
                                         "kvs.disconnect",
                                         "kvs.cancel",
                                         "kvs.nonsense",
                                         "kvs.stats.deeper",
                                         "kvs.dropcache"};
    uint64_t x = strtoull(argv[0], NULL, 10) | 1;
    unsigned long n = strtoul(argv[1], NULL, 10);
    unsigned long good = 0;

    for (unsigned long i = 0; i < n; i++) {
        uint8_t buf[64];
        flux_future_t *f;
        const char *topic;
        for (size_t j = 0; j < sizeof(buf); j += 8) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            memcpy(buf + j, &x, 8);
        }
        topic = topics[x % (sizeof(topics) / sizeof(topics[0]))];
        if (x & 0x100 && strcmp(topic, "kvs.commit") == 0)
            memcpy(buf, "\7\0\0\0primaryT\1\0\0\1\0\0\0", 19);
        if (x & 0x100 && strcmp(topic, "kvs.lookup") == 0)
            memcpy(buf, "\0\0\7\0\4\0\0\0", 8);
        if (x & 0x100 && strcmp(topic, "kvs.store") == 0)
            memcpy(buf, "\7\0\0\0primary", 11);
        f = flux_rpc_raw(h, topic, buf, (x >> 20) % sizeof(buf), FLUX_NODEID_ANY, 0);
        if (flux_future_wait(f, 30.) < 0) {
            flux_future_destroy(f);
            return fail(errno, topic);
        }
        good += flux_rpc_get(f, NULL) == 0;
        flux_future_destroy(f);
    }
    printf("%lu of %lu were not refused\n", good, n);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int min;
        int (*fn)(flux_t *h, int argc, char **argv);
    } modes[] = {
        {"fence", 2, fence},        {"fence-at", 3, ranked_fence}, {"fill", 2, fill},
        {"overwrite", 2, windowed}, {"seq", 2, one_by_one},        {"raw", 2, raw},
        {"noise", 2, noise},        {"append", 2, append},         {"sync", 0, sync_store},
    };

    for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(argv[1], modes[i].name) == 0 && argc - 2 >= modes[i].min) {
            errmsg_t err;
            flux_t *h = flux_open(NULL, NULL, &err);
            int rc;
            if (!h)
                return fail(errno, err.text);
            rc = modes[i].fn(h, argc - 2, argv + 2);
            flux_close(h);
            return rc;
        }
    }
    fprintf(stderr, "kvs_client: see its source for how to use it\n");
    return 2;
}
