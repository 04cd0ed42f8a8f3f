/* kvs_probe.c - requests of the key-value store, one by one, in any namespace, for tests.
 *
 *    kvs_probe [-N NAMESPACE] [-o OWNER] MODE [ARGUMENT...]
 *
 *    create NAME RANK               a namespace
 *    remove NAME
 *    list                           NAME OWNER RANK live|lost, sorted by nobody
 *    put KEY VALUE                  print the version
 *    append KEY VALUE
 *    get KEY [ROOTREF]
 *    unlink KEY
 *    tag KEY                        print its tag
 *    guard KEY TAG|- KEY VALUE      put the second if the first has this tag (is not there)
 *    range KEY OFFSET COUNT [ROOTREF]
 *    page KEY COUNT [AFTER]         names of a page, then "more" or "end"
 *    pages KEY COUNT                the number of entries in all pages at one root, and of pages
 *    version, rootref
 *    wait VERSION SECONDS
 *    snapshot SECONDS KEY           hold the root of now; after that print the key as it was
 *    fence NAME NPROCS TIMES        this many fences one by one, "ok" or the error for each
 *    upload KEY MIB SEED            store chunks and commit them
 *    upload-only BYTES              store chunks that nobody refers to
 *    watch KEY FLAGS COUNT          this many results: "value|whole|add BYTES DATA", "absent"
 *    watchers KEY N                 N watchers of KEY.0 to KEY.N-1; "ready", then one line a result
 *    churn N RANK                   make a namespace, put a key, remove it, N times one by one
 *    stat NAME                      a counter of kvs.stats
 *    call TOPIC JSON                the answer
 *
 * Errors: "NAME-OF-ERRNO: sentence" on standard error, exit code 1.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/future.h"
#include "libflux/handle.h"
#include "libkvs/kvs.h"

struct probe {
    flux_t *h;
    const char *ns;
    uint32_t owner;
};

static int fail(int errnum, const char *text)
{
    fprintf(stderr, "%s: %s\n", strerrorname_np(errnum), text);
    return 1;
}

static int wait_for(flux_future_t *f)
{
    if (!f)
        return fail(errno, "no request could be made");
    if (flux_future_wait(f, 60.) < 0)
        return fail(errno, "no answer");
    return 0;
}

static int done(flux_future_t *f)
{
    errmsg_t err;
    int rc = wait_for(f);

    if (rc == 0 && flux_rpc_get(f, &err) < 0)
        rc = fail(errno, err.text);
    flux_future_destroy(f);
    return rc;
}

static int create(struct probe *p, int argc, char **argv)
{
    return done(
        flux_kvs_namespace_create(p->h, argv[0], p->owner, (uint32_t)strtoul(argv[1], NULL, 10)));
}

static int remove_ns(struct probe *p, int argc, char **argv)
{
    return done(flux_kvs_namespace_remove(p->h, argv[0]));
}

static int list(struct probe *p, int argc, char **argv)
{
    flux_future_t *f = flux_kvs_namespace_list(p->h);
    struct flux_kvs_namespace n;
    size_t pos = 0;
    errmsg_t err;
    int rc = wait_for(f);
    int more = rc;

    while (rc == 0 && (more = flux_kvs_namespace_next(f, &pos, &n, &err)) == 1)
        printf("%s %u %u %s\n", n.name, n.owner, n.rank, n.lost ? "lost" : "live");
    if (rc == 0 && more < 0)
        rc = fail(errno, err.text);
    flux_future_destroy(f);
    return rc;
}

static int committed(flux_future_t *f)
{
    uint64_t version;
    errmsg_t err;
    int rc = wait_for(f);

    if (rc == 0 && flux_kvs_commit_get(f, &version, NULL, &err) < 0)
        rc = fail(errno, err.text);
    if (rc == 0)
        printf("%" PRIu64 "\n", version);
    flux_future_destroy(f);
    return rc;
}

static int commit(struct probe *p, flux_kvs_txn_t *txn, int made, const errmsg_t *err)
{
    int rc = made < 0 ? fail(errno, err->text) : committed(flux_kvs_commit(p->h, p->ns, txn));

    flux_kvs_txn_destroy(txn);
    return rc;
}

static int put(struct probe *p, int argc, char **argv)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    errmsg_t err;

    return commit(p, txn, flux_kvs_txn_put(txn, argv[0], argv[1], &err), &err);
}

static int append(struct probe *p, int argc, char **argv)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    errmsg_t err;

    return commit(p, txn, flux_kvs_txn_append(txn, argv[0], argv[1], strlen(argv[1]), &err), &err);
}

static int unlink_key(struct probe *p, int argc, char **argv)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    errmsg_t err;

    return commit(p, txn, flux_kvs_txn_unlink(txn, argv[0], FLUX_KVS_RECURSIVE, &err), &err);
}

static int guard(struct probe *p, int argc, char **argv)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    const char *tag = strcmp(argv[1], "-") == 0 ? NULL : argv[1];
    errmsg_t err;
    int made = flux_kvs_txn_guard(txn, argv[0], tag, &err);

    if (made == 0)
        made = flux_kvs_txn_put(txn, argv[2], argv[3], &err);
    return commit(p, txn, made, &err);
}

static int print_value(flux_future_t *f)
{
    const char *data;
    size_t len;
    errmsg_t err;
    int rc = wait_for(f);

    if (rc == 0 && flux_kvs_lookup_get(f, &data, &len, &err) < 0)
        rc = fail(errno, err.text);
    if (rc == 0)
        printf("%.*s\n", (int)len, data);
    flux_future_destroy(f);
    return rc;
}

static int get(struct probe *p, int argc, char **argv)
{
    return print_value(flux_kvs_lookup(p->h, p->ns, argv[0], 0, argc > 1 ? argv[1] : NULL));
}

static int range(struct probe *p, int argc, char **argv)
{
    return print_value(flux_kvs_lookup_range(p->h, p->ns, argv[0], argc > 3 ? argv[3] : NULL,
                                             strtoull(argv[1], NULL, 10),
                                             (uint32_t)strtoul(argv[2], NULL, 10)));
}

static int tag(struct probe *p, int argc, char **argv)
{
    flux_future_t *f = flux_kvs_lookup(p->h, p->ns, argv[0], FLUX_KVS_TAG, NULL);
    struct flux_kvs_info info;
    errmsg_t err;
    int rc = wait_for(f);

    if (rc == 0 && flux_kvs_lookup_get_info(f, &info, &err) < 0)
        rc = fail(errno, err.text);
    if (rc == 0)
        printf("%s\n", info.tag);
    flux_future_destroy(f);
    return rc;
}

static int page(struct probe *p, int argc, char **argv)
{
    flux_future_t *f =
        flux_kvs_readdir_page(p->h, p->ns, argv[0], 0, NULL, argc > 2 ? argv[2] : NULL,
                              (uint32_t)strtoul(argv[1], NULL, 10));
    struct flux_kvs_dirent e;
    size_t pos = 0;
    errmsg_t err;
    int rc = wait_for(f);
    int more = rc;

    while (rc == 0 && (more = flux_kvs_readdir_next(f, &pos, &e, &err)) == 1)
        printf("%s\n", e.name);
    if (rc == 0 && more < 0)
        rc = fail(errno, err.text);
    else if (rc == 0)
        puts(flux_kvs_readdir_more(f) ? "more" : "end");
    flux_future_destroy(f);
    return rc;
}

/* The root of now, held as long as the future lives. */
static flux_future_t *hold(struct probe *p, char ref[128])
{
    flux_future_t *f = flux_kvs_snapshot(p->h, p->ns, NULL);
    const char *rootref;
    errmsg_t err;

    if (wait_for(f) == 0 && flux_kvs_commit_get(f, NULL, &rootref, &err) == 0) {
        snprintf(ref, 128, "%s", rootref);
        return f;
    }
    if (f)
        fail(errno, err.text);
    flux_future_destroy(f);
    return NULL;
}

static int pages(struct probe *p, int argc, char **argv)
{
    uint32_t count = (uint32_t)strtoul(argv[1], NULL, 10);
    char after[256] = "", ref[128];
    flux_future_t *snap = hold(p, ref);
    size_t entries = 0, n = 0;
    bool more = true;
    int rc = snap ? 0 : 1;

    while (rc == 0 && more) {
        flux_future_t *f =
            flux_kvs_readdir_page(p->h, p->ns, argv[0], 0, ref, *after ? after : NULL, count);
        struct flux_kvs_dirent e;
        size_t pos = 0;
        errmsg_t err;
        int r = 0;
        rc = wait_for(f);
        while (rc == 0 && (r = flux_kvs_readdir_next(f, &pos, &e, &err)) == 1) {
            entries++;
            memcpy(after, e.name, sizeof(after));
        }
        if (rc == 0 && r < 0)
            rc = fail(errno, err.text);
        more = rc == 0 && flux_kvs_readdir_more(f);
        n++;
        flux_future_destroy(f);
    }
    flux_future_destroy(snap);
    if (rc == 0)
        printf("%zu %zu\n", entries, n);
    return rc;
}

static int version(struct probe *p, int argc, char **argv)
{
    return committed(flux_kvs_version(p->h, p->ns));
}

static int rootref(struct probe *p, int argc, char **argv)
{
    flux_future_t *f = flux_kvs_version(p->h, p->ns);
    const char *ref;
    errmsg_t err;
    int rc = wait_for(f);

    if (rc == 0 && flux_kvs_commit_get(f, NULL, &ref, &err) < 0)
        rc = fail(errno, err.text);
    if (rc == 0)
        puts(ref);
    flux_future_destroy(f);
    return rc;
}

static int wait_version(struct probe *p, int argc, char **argv)
{
    flux_future_t *f = flux_kvs_wait_version(p->h, p->ns, strtoull(argv[0], NULL, 10));

    if (!f)
        return fail(errno, "no request could be made");
    if (flux_future_wait(f, strtod(argv[1], NULL)) < 0) {
        flux_future_destroy(f);
        return fail(ETIMEDOUT, "that version did not come");
    }
    return committed(f);
}

static int snapshot(struct probe *p, int argc, char **argv)
{
    char ref[128];
    flux_future_t *snap = hold(p, ref);
    int rc;

    if (!snap)
        return 1;
    puts(ref);
    fflush(stdout);
    /* Until the time is up, or the snapshot ends. */
    flux_future_next(snap);
    if (flux_future_wait(snap, strtod(argv[0], NULL)) == 0) {
        rc = done(snap);
        return rc ? rc : fail(EPROTO, "a snapshot said something again");
    }
    rc = print_value(flux_kvs_lookup(p->h, p->ns, argv[1], 0, ref));
    flux_future_destroy(snap);
    return rc;
}

static int fence(struct probe *p, int argc, char **argv)
{
    unsigned long times = strtoul(argv[2], NULL, 10);

    for (unsigned long i = 0; i < times; i++) {
        flux_future_t *f =
            flux_kvs_fence(p->h, p->ns, argv[0], (uint32_t)strtoul(argv[1], NULL, 10), NULL);
        errmsg_t err;
        if (wait_for(f) != 0)
            return 1;
        if (flux_kvs_commit_get(f, NULL, NULL, &err) < 0)
            printf("%s: %s\n", strerrorname_np(errno), err.text);
        else
            puts("ok");
        fflush(stdout);
        flux_future_destroy(f);
    }
    return 0;
}

static int upload(struct probe *p, int argc, char **argv)
{
    size_t mib = strtoul(argv[1], NULL, 10), n = 0, dsize = 0;
    uint32_t x = (uint32_t)strtoul(argv[2], NULL, 10) * 2654435761u + 1;
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    uint8_t *digests = NULL;
    errmsg_t err;
    int rc = 0;

    for (size_t i = 0; i < mib && rc == 0; i++) {
        uint32_t *buf = malloc(FLUX_KVS_STORE_MAX);
        flux_future_t *f;
        const uint8_t *d;
        size_t k;
        for (size_t j = 0; j < FLUX_KVS_STORE_MAX / 4; j++)
            buf[j] = x = x * 1664525u + 1013904223u;
        f = flux_kvs_store(p->h, p->ns, buf, FLUX_KVS_STORE_MAX);
        rc = wait_for(f);
        if (rc == 0 && flux_kvs_store_get(f, &d, &k, &dsize, &err) < 0)
            rc = fail(errno, err.text);
        if (rc == 0) {
            digests = realloc(digests, (n + k) * dsize);
            memcpy(digests + n * dsize, d, k * dsize);
            n += k;
        }
        flux_future_destroy(f);
        free(buf);
    }
    if (rc == 0)
        rc = commit(
            p, txn,
            flux_kvs_txn_put_chunks(txn, argv[0], (uint64_t)mib << 20, digests, n, dsize, &err),
            &err);
    else
        flux_kvs_txn_destroy(txn);
    free(digests);
    return rc;
}

static int upload_only(struct probe *p, int argc, char **argv)
{
    size_t len = strtoul(argv[0], NULL, 10);
    char *buf = calloc(1, len + 1);
    flux_future_t *f = flux_kvs_store(p->h, p->ns, buf, len);
    const uint8_t *d;
    size_t n, dsize;
    errmsg_t err;
    int rc = wait_for(f);

    if (rc == 0 && flux_kvs_store_get(f, &d, &n, &dsize, &err) < 0)
        rc = fail(errno, err.text);
    if (rc == 0)
        printf("%zu\n", n);
    flux_future_destroy(f);
    free(buf);
    return rc;
}

static void print_changes(flux_future_t *f)
{
    static const char *const what[] = {"", "+", "*", "-"};
    struct flux_kvs_change c;
    size_t pos = 0;

    while (flux_kvs_change_next(f, &pos, &c, NULL) == 1)
        printf("%s%s ", what[c.change], c.key);
    putchar('\n');
}

static int watch(struct probe *p, int argc, char **argv)
{
    int flags = (int)strtol(argv[1], NULL, 10);
    unsigned long count = strtoul(argv[2], NULL, 10);
    flux_future_t *f = flux_kvs_watch(p->h, p->ns, argv[0], flags);

    for (unsigned long i = 0; i < count; i++) {
        const char *data;
        size_t len;
        errmsg_t err;
        if (wait_for(f) != 0)
            return 1;
        if (flux_kvs_watch_absent(f)) {
            puts("absent");
        } else if (flags & FLUX_KVS_WATCH_DIFF) {
            if (flux_rpc_get(f, &err) < 0)
                return fail(errno, err.text);
            print_changes(f);
        } else if (flux_kvs_lookup_get(f, &data, &len, &err) < 0) {
            return fail(errno, err.text);
        } else {
            const char *what = !(flags & FLUX_KVS_WATCH_APPEND) ? "value"
                               : flux_kvs_watch_whole(f)        ? "whole"
                                                                : "add";
            char text[61] = "";
            for (size_t j = 0; j < len && j < sizeof(text) - 1; j++)
                text[j] = data[j] > ' ' && data[j] <= '~' ? data[j] : '?';
            printf("%s %zu %s\n", what, len, text);
        }
        fflush(stdout);
        if (i + 1 < count)
            flux_future_next(f);
    }
    flux_future_destroy(f);
    return 0;
}

struct watchers {
    unsigned long n, seen, first;
};

static void watched_cb(flux_future_t *f, void *arg)
{
    struct watchers *w = arg;

    if (w->seen < w->n) {
        if (++w->seen == w->n)
            puts("ready");
    } else {
        puts("again");
    }
    fflush(stdout);
    flux_future_next(f);
}

static int watchers(struct probe *p, int argc, char **argv)
{
    struct watchers w = {.n = strtoul(argv[1], NULL, 10)};

    for (unsigned long i = 0; i < w.n; i++) {
        char key[300];
        flux_future_t *f;
        snprintf(key, sizeof(key), "%s.%lu", argv[0], i);
        f = flux_kvs_watch(p->h, p->ns, key, 0);
        if (!f || flux_future_then(f, -1., watched_cb, &w) < 0)
            return fail(errno, "no request could be made");
    }
    return flux_run(p->h) < 0;
}

static int churn(struct probe *p, int argc, char **argv)
{
    unsigned long n = strtoul(argv[0], NULL, 10);
    int rc = 0;

    for (unsigned long i = 0; i < n && rc == 0; i++) {
        flux_kvs_txn_t *txn = flux_kvs_txn_create();
        char name[40];
        flux_future_t *f;
        snprintf(name, sizeof(name), "churn.%lu", i);
        rc = create(p, 2, (char *[]){name, argv[1]});
        flux_kvs_txn_put(txn, "a.key", "and its value", NULL);
        f = flux_kvs_commit(p->h, name, txn);
        flux_kvs_txn_destroy(txn);
        if (rc == 0)
            rc = done(f);
        else
            flux_future_destroy(f);
        if (rc == 0)
            rc = remove_ns(p, 1, (char *[]){name});
    }
    return rc;
}

static int call(struct probe *p, int argc, char **argv)
{
    flux_future_t *f = flux_rpc(p->h, argv[0], argc > 1 ? argv[1] : NULL, FLUX_NODEID_ANY, 0);
    const char *json;
    errmsg_t err;
    int rc = wait_for(f);

    if (rc == 0 && flux_rpc_get_json(f, &json, &err) < 0)
        rc = fail(errno, err.text);
    if (rc == 0)
        puts(json);
    flux_future_destroy(f);
    return rc;
}

static int stat_of(struct probe *p, int argc, char **argv)
{
    char ask[300] = "{}", name[80];
    flux_future_t *f;
    const char *json;
    errmsg_t err;
    int rc;

    if (p->ns)
        snprintf(ask, sizeof(ask), "{\"namespace\":\"%.250s\"}", p->ns);
    f = flux_rpc(p->h, "kvs.stats", ask, FLUX_NODEID_ANY, 0);
    rc = wait_for(f);

    if (rc == 0 && flux_rpc_get_json(f, &json, &err) < 0)
        rc = fail(errno, err.text);
    snprintf(name, sizeof(name), "\"%s\":", argv[0]);
    if (rc == 0 && (json = strstr(json, name)))
        printf("%llu\n", strtoull(json + strlen(name), NULL, 10));
    else if (rc == 0)
        rc = fail(ENOENT, "no such counter");
    flux_future_destroy(f);
    return rc;
}

static const struct {
    const char *name;
    int min;
    int (*fn)(struct probe *p, int argc, char **argv);
} modes[] = {
    {"create", 2, create},
    {"remove", 1, remove_ns},
    {"list", 0, list},
    {"put", 2, put},
    {"append", 2, append},
    {"unlink", 1, unlink_key},
    {"guard", 4, guard},
    {"get", 1, get},
    {"range", 3, range},
    {"tag", 1, tag},
    {"page", 2, page},
    {"pages", 2, pages},
    {"version", 0, version},
    {"rootref", 0, rootref},
    {"wait", 2, wait_version},
    {"snapshot", 2, snapshot},
    {"fence", 3, fence},
    {"upload", 3, upload},
    {"upload-only", 1, upload_only},
    {"watch", 3, watch},
    {"watchers", 2, watchers},
    {"churn", 2, churn},
    {"call", 1, call},
    {"stat", 1, stat_of},
};

int main(int argc, char **argv)
{
    struct probe p = {.owner = FLUX_KVS_OWNER_SELF};
    errmsg_t err;
    int i = 1;

    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        if (argv[i][1] == 'N')
            p.ns = argv[i + 1];
        else if (argv[i][1] == 'o')
            p.owner = (uint32_t)strtoul(argv[i + 1], NULL, 10);
    }
    for (size_t m = 0; i < argc && m < sizeof(modes) / sizeof(modes[0]); m++) {
        int rc;
        if (strcmp(argv[i], modes[m].name) != 0 || argc - i - 1 < modes[m].min)
            continue;
        if (!(p.h = flux_open(NULL, NULL, &err)))
            return fail(errno, err.text);
        rc = modes[m].fn(&p, argc - i - 1, argv + i + 1);
        flux_close(p.h);
        return rc;
    }
    fprintf(stderr, "kvs_probe: see its source for how to use it\n");
    return 2;
}
