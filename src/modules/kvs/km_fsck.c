/* km_fsck.c - check the file of a store.
 *
 *    what is checked                          against
 *    the database                             SQLite's own check
 *    each object                              its hash, its format, its recorded size
 *    each namespace's checkpoint              the objects present, of the right kind and size
 *                                             (kvsstore_load_root(), as at a start)
 *    each row of the journal                  the root that results when it is applied
 *
 * Invariants:
 *  1. The file is not changed.
 *  2. No byte is trusted: bytes are hashed before they are parsed.  Large values are hashed one at
 *     a time and not kept; the few that a replay needs are read again.
 *  3. One problem does not hide independent ones; but contents below a damaged root, and rows after
 *     a damaged row, cannot be checked.
 *
 * Failure: problems of the file are reported; an obstacle to the check itself is an error.
 */
#include "config.h"
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sqlfile.h"
#include "km_fsck.h"
#include "libcontent/content.h"
#include "libkvs/kvsdisk.h"
#include "libkvs/kvsstore.h"
#include "libkvs/treeobj.h"

struct ns {
    struct ns *next;
    uint32_t id;
    uint64_t version;
    bool has_root;
    uint8_t root[BLOBREF_DIGEST_MAX];
    char name[256];
};

struct fsck {
    struct km_fsck *f;
    sqlfile_t *file;
    blobref_t *blobref;
    size_t dsize;
    struct ns *spaces, **tail;
    /* the current namespace */
    const struct ns *ns;
    content_t *content;
    kvsstore_t *store;
    bool blobs; /* the scan is one of blobs, not of nodes */
    uint64_t idle;
    errmsg_t *err; /* the error that ends the check */
};

__attribute__((format(printf, 3, 4))) static void say(struct fsck *x, bool bad, const char *fmt,
                                                      ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    x->f->problems += bad;
    x->f->report(x->f->arg, bad, text);
}

/* Report a problem.  -1 if errno is ENOMEM: the check ends. */
static int problem(struct fsck *x, const errmsg_t *why)
{
    if (errno == ENOMEM) {
        errmsg_fail(x->err, ENOMEM, "out of memory to check the store");
        return -1;
    }
    if (x->ns)
        say(x, true, "namespace '%s': %s", x->ns->name, why->text);
    else
        say(x, true, "%s", why->text);
    return 0;
}

/* --- objects --- */

static int object(const struct kvs_storage_rec *rec, void *arg)
{
    struct fsck *x = arg;
    uint8_t digest[BLOBREF_DIGEST_MAX];
    char text[BLOBREF_TEXT_MAX];
    errmsg_t err, why;
    bool kind;

    *(x->blobs ? &x->f->blobs : &x->f->nodes) += 1;
    x->f->bytes += rec->len;
    blobref_format(x->blobref, rec->root, text);
    if (blobref_hash(x->blobref, rec->data, rec->len, digest) < 0 ||
        memcmp(digest, rec->root, x->dsize) != 0) {
        errmsg_fail(&err, EIO, "object %s: its bytes have a different hash", text);
        return problem(x, &err);
    }
    if (treeobj_check(rec->data, rec->len, x->dsize, &why) < 0) {
        errmsg_fail(&err, EIO, "object %s: %.150s", text, why.text);
        return problem(x, &err);
    }
    kind = treeobj_kind(rec->data) == TREEOBJ_BLOB;
    if (kind != x->blobs || (x->blobs && rec->version != rec->len)) {
        errmsg_fail(&err, EIO, "object %s: %s", text,
                    kind == x->blobs ? "its recorded size is wrong"
                                     : "it is in the table of another kind");
        return problem(x, &err);
    }
    if (kvsstore_load(x->store, rec->root, kind && rec->len >= CONTENT_SEPARATE ? NULL : rec->data,
                      rec->len, &err) < 0)
        return problem(x, &err);
    return 0;
}

static int objects(struct fsck *x)
{
    errmsg_t err;
    uint64_t after = 0;

    x->blobs = false;
    int rc = sqlfile_nodes(x->file, x->ns->id, &after, object, x, &err);
    if (rc == 0) {
        x->blobs = true;
        after = 0;
        rc = sqlfile_blobs_full(x->file, x->ns->id, &after, object, x, &err);
    }
    if (rc < 0 && x->err->text[0])
        return -1;
    return rc < 0 ? problem(x, &err) : 0;
}

/* --- references between objects --- */

static struct content_obj *child(struct fsck *x, const uint8_t *digest)
{
    return content_find(x->content, digest);
}

static bool is_blob(const struct content_obj *o)
{
    return !o->data || treeobj_kind(o->data) == TREEOBJ_BLOB;
}

/* Is the object of the right kind and size for a value of `size` bytes at `level` (0: a blob)?
 * Missing objects are reported by roots(). */
static bool value_fits(struct fsck *x, const uint8_t *digest, unsigned level, uint64_t size)
{
    struct content_obj *o = child(x, digest);
    uint64_t span = TREEOBJ_CHUNK;
    uint32_t n;

    if (!o)
        return true;
    if (level == 0)
        return is_blob(o) && o->len == TREEOBJ_HEADER + size;
    if (is_blob(o) || treeobj_kind(o->data) != TREEOBJ_INDEX || treeobj_depth(o->data) != level)
        return false;
    for (unsigned i = 1; i < level; i++)
        span *= TREEOBJ_INDEX_FAN;
    digest = treeobj_index(o->data, &n);
    if (n != (size + span - 1) / span)
        return false;
    /* All children but the last are full, which index_fits() checks. */
    return value_fits(x, digest + (n - 1) * x->dsize, level - 1, size - (n - 1) * span);
}

static bool dir_fits(struct fsck *x, const uint8_t *digest, unsigned depth, const uint32_t *count)
{
    struct content_obj *o = child(x, digest);

    if (!o)
        return true;
    return !is_blob(o) && treeobj_kind(o->data) != TREEOBJ_INDEX &&
           treeobj_depth(o->data) == depth &&
           (!count || treeobj_count(o->data, x->dsize) == *count);
}

static bool leaf_fits(struct fsck *x, const uint8_t *leaf)
{
    uint32_t n = treeobj_count(leaf, x->dsize);
    bool fits = true;

    for (uint32_t i = 0; i < n && fits; i++) {
        struct treeobj_entry e;
        treeobj_leaf_entry(leaf, x->dsize, i, &e);
        if (e.type == TREEOBJ_DIR)
            fits = dir_fits(x, e.digest, 0, NULL);
        else if (e.digest)
            fits = value_fits(x, e.digest, e.type == TREEOBJ_REF ? 0 : treeobj_level(e.len), e.len);
    }
    return fits;
}

static bool branch_fits(struct fsck *x, const uint8_t *branch)
{
    bool fits = true;

    for (unsigned i = 0; i < TREEOBJ_FAN && fits; i++) {
        const uint8_t *digest;
        uint32_t count;
        if (treeobj_branch_child(branch, x->dsize, i, &digest, &count))
            fits = dir_fits(x, digest, treeobj_depth(branch) + 1, &count);
    }
    return fits;
}

static bool index_fits(struct fsck *x, const uint8_t *index)
{
    unsigned level = treeobj_depth(index);
    uint64_t span = TREEOBJ_CHUNK;
    bool fits = true;
    uint32_t n;
    const uint8_t *digest = treeobj_index(index, &n);

    for (unsigned i = 1; i < level; i++)
        span *= TREEOBJ_INDEX_FAN;
    for (uint32_t i = 0; i + 1 < n && fits; i++)
        fits = value_fits(x, digest + i * x->dsize, level - 1, span);
    return fits;
}

static int edges(const struct kvs_storage_rec *rec, void *arg)
{
    struct fsck *x = arg;
    struct content_obj *o = content_find(x->content, rec->root);
    char text[BLOBREF_TEXT_MAX];
    bool fits = true;

    if (!o || !o->data)
        return 0;
    switch (treeobj_kind(o->data)) {
    case TREEOBJ_LEAF:
        fits = leaf_fits(x, o->data);
        break;
    case TREEOBJ_BRANCH:
        fits = branch_fits(x, o->data);
        break;
    case TREEOBJ_INDEX:
        fits = index_fits(x, o->data);
        break;
    case TREEOBJ_BLOB:
        break;
    }
    if (!fits)
        say(x, true, "namespace '%s': object %s disagrees with an object that it refers to",
            x->ns->name, blobref_format(x->blobref, rec->root, text));
    return 0;
}

/* --- roots --- */

/* Load the bytes that a replay needs of values that stayed on disk. */
static int supply(struct fsck *x, errmsg_t *err)
{
    const struct kvsmiss *miss = kvsstore_missing(x->store);

    for (unsigned i = 0; i < miss->n; i++) {
        struct kvs_storage_obj o = {.digest = miss->digest[i], .blob = true};
        uint8_t *data;
        size_t len;
        if (sqlfile_load(x->file, x->ns->id, &o, &data, &len, err) < 0)
            return -1;
        int rc = content_supply(x->content, miss->digest[i], data, len);
        free(data);
        if (rc < 0)
            return errmsg_fail(err, errno, "an object that a row needs is damaged");
        content_hold(x->content, content_find(x->content, miss->digest[i]));
    }
    return 0;
}

static int row(const struct kvs_storage_rec *rec, void *arg)
{
    struct fsck *x = arg;
    struct kvsdisk_replay r;
    errmsg_t err;
    int rc = kvsdisk_replay_begin(&r, x->store, rec->version, rec->root, x->dsize, rec->data,
                                  rec->len, &err);

    while (rc == 0 && (rc = kvsdisk_replay_step(&r, &err)) < 0 && errno == ENODATA)
        rc = supply(x, &err);
    if (rc < 0)
        return problem(x, &err) < 0 ? -1 : 1;
    x->f->rows++;
    return 0;
}

static void dead(void *arg, const uint8_t *digest)
{
    struct fsck *x = arg;

    x->idle++;
}

static int roots(struct fsck *x)
{
    /* A namespace without a checkpoint began with an empty directory. */
    const uint8_t *root = x->ns->has_root ? x->ns->root : kvsstore_root(x->store);
    errmsg_t err;
    uint64_t after = 0;

    if (!x->ns->has_root && x->ns->version != 0) {
        say(x, true, "namespace '%s': version %llu, but no root", x->ns->name,
            (unsigned long long)x->ns->version);
        return 0;
    }
    if (kvsstore_load_root(x->store, root, x->ns->version, &err) < 0)
        return problem(x, &err);
    int rc = sqlfile_rows(x->file, x->ns->id, &after, row, x, &err);
    if (rc < 0 && x->err->text[0])
        return -1;
    if (rc < 0)
        return problem(x, &err);
    kvsstore_on_dead(x->store, dead, x);
    while (kvsstore_collect(x->store, 1000))
        ;
    return 0;
}

static int check_ns(struct fsck *x)
{
    errmsg_t err;
    uint64_t after = 0;
    int rc = -1;
    uint64_t before[] = {x->f->nodes, x->f->blobs, x->f->rows};
    unsigned problems = x->f->problems;

    x->idle = 0;
    if (!(x->content = content_create(x->blobref, SIZE_MAX)) ||
        !(x->store = kvsstore_create(x->content)))
        errmsg_fail(x->err, ENOMEM, "out of memory to check the store");
    else if (objects(x) == 0 &&
             (rc = sqlfile_nodes(x->file, x->ns->id, &after, edges, x, &err)) < 0)
        rc = problem(x, &err);
    if (rc == 0)
        rc = roots(x);
    if (rc == 0 && problems == x->f->problems)
        say(x, false,
            "namespace '%s': version %llu, %llu tree objects, %llu of values, %llu rows; %llu "
            "objects "
            "are not needed",
            x->ns->name, (unsigned long long)kvsstore_version(x->store),
            (unsigned long long)(x->f->nodes - before[0]),
            (unsigned long long)(x->f->blobs - before[1]),
            (unsigned long long)(x->f->rows - before[2]), (unsigned long long)x->idle);
    x->f->idle += x->idle;
    kvsstore_destroy(x->store);
    content_destroy(x->content);
    x->store = NULL;
    x->content = NULL;
    return rc;
}

/* --- the file --- */

static int note_ns(const struct kvs_storage_rec *rec, void *arg)
{
    struct fsck *x = arg;
    struct ns *ns = calloc(1, sizeof(*ns));

    if (!ns)
        return errmsg_fail(x->err, ENOMEM, "out of memory to check the store");
    ns->id = rec->ns;
    ns->version = rec->version;
    ns->has_root = rec->root != NULL;
    if (rec->root)
        memcpy(ns->root, rec->root, x->dsize);
    snprintf(ns->name, sizeof(ns->name), "%.*s", (int)rec->len, (const char *)rec->data);
    *x->tail = ns;
    x->tail = &ns->next;
    x->f->namespaces++;
    return 0;
}

static int check_file(struct fsck *x)
{
    errmsg_t err;

    snprintf(x->f->hash, sizeof(x->f->hash), "%s", sqlfile_hash(x->file));
    x->dsize = sqlfile_dsize(x->file);
    if (!(x->blobref = blobref_create(x->f->hash, x->err)))
        return -1;
    if (sqlfile_check(x->file, &err) < 0 && problem(x, &err) < 0)
        return -1;
    if (sqlfile_namespaces(x->file, note_ns, x, &err) < 0 &&
        (x->err->text[0] || problem(x, &err) < 0))
        return -1;
    for (x->ns = x->spaces; x->ns; x->ns = x->ns->next) {
        if (check_ns(x) < 0)
            return -1;
    }
    return 0;
}

int km_fsck(const char *path, struct km_fsck *f, errmsg_t *err)
{
    struct fsck x = {.f = f, .err = err};
    char file[PATH_MAX];
    struct stat st;
    int rc;

    x.tail = &x.spaces;
    err->text[0] = '\0';
    f->hash[0] = '\0';
    f->namespaces = f->problems = 0;
    f->nodes = f->blobs = f->bytes = f->rows = f->idle = 0;
    if (stat(path, &st) < 0)
        return errmsg_fail(err, errno, "cannot look at '%.150s': %s", path, strerror(errno));
    rc = snprintf(file, sizeof(file), S_ISDIR(st.st_mode) ? "%s/" KVS_STORAGE_FILE : "%s", path);
    if (rc >= (int)sizeof(file))
        return errmsg_fail(err, ENAMETOOLONG, "the name '%.100s...' is too long", path);
    if (!(x.file = sqlfile_open(file, NULL, SQLFILE_LOOK, err))) {
        /* Damage that prevents the opening is a problem like others.  A file without a store is not
         * a problem: a session that is killed at its start leaves one, which the next session
         * completes. */
        if (errno != EIO && errno != ENODATA)
            return -1;
        say(&x, errno == EIO, "%s", err->text);
        return 0;
    }
    rc = check_file(&x);
    int saved = errno;
    while (x.spaces) {
        struct ns *next = x.spaces->next;
        free(x.spaces);
        x.spaces = next;
    }
    blobref_destroy(x.blobref);
    sqlfile_close(x.file);
    errno = saved;
    return rc;
}
