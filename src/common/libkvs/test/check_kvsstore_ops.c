/* check_kvsstore_ops.c - all operations against a model in plain C: contents, errors, canonical
 * roots, references; and each operation's own rules. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvs_txn.h"
#include "libkvs/kvsstore_private.h"
#include "libkvs/kvsvalue.h"
#include "libutil/test/suite.h"

#include "store_fixture.h"

static struct kvsmiss miss;

/* --- the model: a sorted list of keys --- */

struct item {
    char key[100];
    bool dir;
    char *data;
    size_t len;
};
struct model {
    struct item *item;
    size_t n;
};

static int cmp_item(const void *a, const void *b)
{
    return strcmp(((const struct item *)a)->key, ((const struct item *)b)->key);
}

static struct item *find(struct model *m, const char *key)
{
    struct item want;
    snprintf(want.key, sizeof(want.key), "%s", key);
    return bsearch(&want, m->item, m->n, sizeof(want), cmp_item);
}

static void add_item(struct model *m, const char *key, bool dir, const char *data, size_t len)
{
    m->item = realloc(m->item, (m->n + 1) * sizeof(*m->item));
    struct item *it = &m->item[m->n++];
    snprintf(it->key, sizeof(it->key), "%s", key);
    it->dir = dir;
    it->data = malloc(len + 1);
    it->len = len;
    if (len)
        memcpy(it->data, data, len);
    qsort(m->item, m->n, sizeof(*m->item), cmp_item);
}

static bool below(const char *key, const char *dir)
{
    size_t n = strlen(dir);
    return strncmp(key, dir, n) == 0 && (key[n] == '.' || key[n] == '\0');
}

static void del_tree(struct model *m, const char *key)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++) {
        if (below(m->item[i].key, key))
            free(m->item[i].data);
        else
            m->item[n++] = m->item[i];
    }
    m->n = n;
}

static struct model copy_model(const struct model *m)
{
    struct model c = {.item = malloc((m->n + 1) * sizeof(struct item)), .n = m->n};
    for (size_t i = 0; i < m->n; i++) {
        c.item[i] = m->item[i];
        c.item[i].data = malloc(m->item[i].len + 1);
        memcpy(c.item[i].data, m->item[i].data, m->item[i].len);
    }
    return c;
}

static void free_model(struct model *m)
{
    for (size_t i = 0; i < m->n; i++)
        free(m->item[i].data);
    free(m->item);
    *m = (struct model){NULL, 0};
}

/* Make the directories on the way; ENOTDIR when one is a value. */
static int make_way(struct model *m, const char *key)
{
    char dir[100];
    for (const char *dot = strchr(key, '.'); dot; dot = strchr(dot + 1, '.')) {
        snprintf(dir, sizeof(dir), "%.*s", (int)(dot - key), key);
        struct item *it = find(m, dir);
        if (!it)
            add_item(m, dir, true, NULL, 0);
        else if (!it->dir)
            return ENOTDIR;
    }
    return 0;
}

static int way_error(struct model *m, const char *key)
{
    char dir[100];
    for (const char *dot = strchr(key, '.'); dot; dot = strchr(dot + 1, '.')) {
        snprintf(dir, sizeof(dir), "%.*s", (int)(dot - key), key);
        struct item *it = find(m, dir);
        if (it && !it->dir)
            return ENOTDIR;
        if (!it)
            return 0;
    }
    return 0;
}

static int m_put(struct model *m, const char *key, const char *data, size_t len, bool append)
{
    int rc = make_way(m, key);
    struct item *it = find(m, key);
    if (rc)
        return rc;
    if (!it) {
        add_item(m, key, false, data, len);
        return 0;
    }
    if (it->dir)
        return EISDIR;
    size_t at = append ? it->len : 0;
    it->data = realloc(it->data, at + len + 1);
    memcpy(it->data + at, data, len);
    it->len = at + len;
    return 0;
}

static int m_mkdir(struct model *m, const char *key)
{
    int rc = make_way(m, key);
    struct item *it = find(m, key);
    if (rc)
        return rc;
    if (!it)
        add_item(m, key, true, NULL, 0);
    return it && !it->dir ? EEXIST : 0;
}

static int m_unlink(struct model *m, const char *key)
{
    int rc = way_error(m, key);
    if (!rc)
        del_tree(m, key);
    return rc;
}

static int m_transfer(struct model *m, const char *from, const char *to, bool move)
{
    struct item *src;
    struct model tree = {NULL, 0};
    char key[200];
    bool root = strcmp(from, ".") == 0;
    if (!root) {
        int rc = way_error(m, from);
        if (rc)
            return rc;
        if (!(src = find(m, from)))
            return ENOENT;
        if (move && src->dir && strcmp(from, to) != 0 && below(to, from))
            return EINVAL;
    }
    bool dir = root || find(m, from)->dir;
    /* What is copied is what was there before the way was made. */
    for (size_t i = 0; i < m->n; i++) {
        if (root || below(m->item[i].key, from)) {
            const char *rest = root ? m->item[i].key : m->item[i].key + strlen(from);
            snprintf(key, sizeof(key), "%s%s%s", to, root ? "." : "", rest);
            if (strlen(key) >= 90) {
                free_model(&tree);
                return -1; /* too deep for the model: not done */
            }
            add_item(&tree, key, m->item[i].dir, m->item[i].data, m->item[i].len);
        }
    }
    int rc = make_way(m, to);
    struct item *dst = find(m, to);
    if (rc == 0 && move && strcmp(from, to) == 0) {
        free_model(&tree);
        return 0;
    }
    if (rc == 0 && dst && dst->dir)
        rc = EISDIR;
    if (rc == 0 && dst && dir)
        rc = EEXIST;
    if (rc == 0) {
        if (move)
            del_tree(m, from);
        if (find(m, to))
            del_tree(m, to);
        if (root)
            add_item(m, to, true, NULL, 0);
        for (size_t i = 0; i < tree.n; i++)
            add_item(m, tree.item[i].key, tree.item[i].dir, tree.item[i].data, tree.item[i].len);
    }
    free_model(&tree);
    return rc;
}

/* --- both --- */

static void add(struct kvs_txn_buf *b, enum kvs_op_type type, unsigned flags, const char *key,
                const void *val, size_t len)
{
    errmsg_t err = {""};
    ck_assert_msg(kvs_txn_buf_add(b, type, flags, key, strlen(key), val, len, &err) == 0, "%s",
                  err.text);
}

static void random_key(char *buf, size_t size, uint64_t *seed)
{
    static const char *const names[] = {"a", "b", "c", "d.e", "a.b", "b.c.d"};
    unsigned r = rnd(seed) % 100;
    if (r < 30)
        snprintf(buf, size, "%s", names[rnd(seed) % 6]);
    else if (r < 70)
        snprintf(buf, size, "%s.k%u", names[rnd(seed) % 6], rnd(seed) % 60);
    else
        snprintf(buf, size, "%s.%s", names[rnd(seed) % 6], names[rnd(seed) % 6]);
}

static size_t random_len(uint64_t *seed)
{
    unsigned r = rnd(seed) % 100;
    if (r < 60)
        return rnd(seed) % 40;
    if (r < 80)
        return 250 + rnd(seed) % 15;
    if (r < 95)
        return 1000 + rnd(seed) % 3000;
    return r < 98 ? TREEOBJ_CHUNK - 5 + rnd(seed) % 10 : 60000 + rnd(seed) % 40000;
}

static struct treeobj_entry entry(struct fixture *f, const char *key)
{
    struct treeobj_entry e;
    miss.n = 0;
    if (kvswalk_find(f->content, kvsstore_root(f->store), key, strlen(key), KVSWALK_NOFOLLOW, &e,
                     NULL, &miss, NULL) < 0)
        e.type = 0;
    return e;
}

struct counted {
    struct fixture *f;
    size_t n;
};

static int count_entry(const struct treeobj_entry *e, void *arg)
{
    struct counted *x = arg;
    x->n++;
    return e->type == TREEOBJ_DIR
               ? kvswalk_dir(x->f->content, e->digest, count_entry, x, &miss, NULL)
               : 0;
}

static void compare(struct fixture *f, struct model *m)
{
    struct counted x = {f, 0};
    for (size_t i = 0; i < m->n; i++) {
        const struct item *it = &m->item[i];
        struct treeobj_entry e = entry(f, it->key);
        if (it->dir) {
            ck_assert_msg(e.type == TREEOBJ_DIR, "%s", it->key);
            continue;
        }
        ck_assert_msg(treeobj_is_value(&e), "%s", it->key);
        ck_assert_uint_eq(e.len, it->len);
        char *buf = malloc(it->len + 1);
        ck_assert_int_eq(kvsvalue_read(f->content, &e, 0, it->len, buf, &miss, NULL), 0);
        ck_assert(memcmp(buf, it->data, it->len) == 0);
        free(buf);
    }
    ck_assert_int_eq(kvswalk_dir(f->content, kvsstore_root(f->store), count_entry, &x, &miss, NULL),
                     0);
    ck_assert_uint_eq(x.n, m->n);
}

/* The contents of the model, put into another store in another order: the same root, and as many
 * objects, so no reference too many or too few. */
static void rebuild(struct fixture *f, struct model *m, uint64_t *seed)
{
    struct fixture g = fresh();
    struct kvs_txn_buf b = {0};
    size_t *order = malloc((m->n + 1) * sizeof(*order));
    for (size_t i = 0; i < m->n; i++)
        order[i] = i;
    for (size_t i = m->n; i > 1; i--) {
        size_t j = rnd(seed) % i, t = order[i - 1];
        order[i - 1] = order[j];
        order[j] = t;
    }
    for (size_t i = 0; i < m->n; i++) {
        const struct item *it = &m->item[order[i]];
        add(&b, it->dir ? KVS_OP_MKDIR : KVS_OP_PUT, 0, it->key, it->data, it->dir ? 0 : it->len);
    }
    if (b.nops > 0) {
        ck_assert_int_eq(kvsstore_begin(g.store), 0);
        ck_assert_int_eq(kvsstore_apply(g.store, b.data, b.len, NULL), 0);
        ck_assert_int_eq(kvsstore_end(g.store, NULL), 1);
    }
    while (kvsstore_collect(g.store, 1000))
        ;
    ck_assert_mem_eq(kvsstore_root(f->store), kvsstore_root(g.store), 32);
    struct content_stats a, c;
    content_get_stats(f->content, &a);
    content_get_stats(g.content, &c);
    ck_assert_uint_eq(a.objects, c.objects);
    ck_assert_uint_eq(a.bytes, c.bytes);
    free(order);
    kvs_txn_buf_clear(&b);
    drop(&g);
}

/* One random operation on both: what the model says of it (-1: cannot be modeled). */
static int random_op(struct model *m, struct kvs_txn_buf *b, uint64_t *seed)
{
    static char data[110000];
    char key[100], from[100];
    unsigned r = rnd(seed) % 100;
    random_key(key, sizeof(key), seed);
    random_key(from, sizeof(from), seed);
    size_t len = random_len(seed);
    memset(data, 'a' + (int)(rnd(seed) % 26), len);
    if (len > 12)
        snprintf(data, 12, "%u", rnd(seed));
    if (r < 40) {
        add(b, KVS_OP_PUT, 0, key, data, len);
        return m_put(m, key, data, len, false);
    }
    if (r < 65) {
        add(b, KVS_OP_APPEND, 0, key, data, len);
        return m_put(m, key, data, len, true);
    }
    if (r < 75) {
        add(b, KVS_OP_UNLINK, KVS_OP_RECURSIVE, key, NULL, 0);
        return m_unlink(m, key);
    }
    if (r < 80) {
        add(b, KVS_OP_MKDIR, 0, key, NULL, 0);
        return m_mkdir(m, key);
    }
    if (r < 85) {
        bool there = way_error(m, key) == 0 && find(m, key);
        add(b, KVS_OP_GUARD, KVS_OP_ABSENT, key, NULL, 0);
        return there ? EAGAIN : 0;
    }
    if (r < 92) {
        int rc = m_transfer(m, from, key, true);
        if (rc >= 0)
            add(b, KVS_OP_MOVE, 0, key, from, strlen(from));
        return rc;
    }
    if (r == 92 && m->n < 20)
        snprintf(from, sizeof(from), ".");
    int rc = m_transfer(m, from, key, false);
    if (rc >= 0)
        add(b, KVS_OP_COPY, 0, key, from, strlen(from));
    return rc;
}

/* A slice is one step: the rest is done by calling again.  Meanwhile others use the store. */
struct pace {
    struct fixture *f;
    unsigned asked, pauses;
};

static bool one_step(void *arg)
{
    struct pace *p = arg;
    return p->asked++ == 0;
}

static void others(struct pace *p)
{
    p->pauses++;
    p->asked = 0;
    ck_assert(!kvsstore_collect(p->f->store, 100));
    ck_assert_uint_eq(content_drop(p->f->content, 100), 0);
    content_trim(p->f->content);
    ck_assert_uint_eq(content_expire(p->f->content, UINT32_MAX, 100), 0);
}

static int apply_paced(struct pace *p, const struct kvs_txn_buf *b, errmsg_t *err)
{
    int rc;
    while ((rc = kvsstore_apply(p->f->store, b->data, b->len, err)) == KVSSTORE_MORE)
        others(p);
    return rc;
}

static int end_paced(struct pace *p)
{
    int rc;
    while ((rc = kvsstore_end(p->f->store, NULL)) == KVSSTORE_MORE)
        others(p);
    return rc;
}

/* Of every other seed the changes are made in slices, and some are given up at their end. */
START_TEST(model)
{
    struct fixture f = fresh();
    struct model m = {NULL, 0};
    uint64_t seed = 100 + (uint64_t)_i;
    unsigned failures = 0;
    struct pace pace = {.f = &f};
    if (_i % 2)
        kvsstore_pace(f.store, one_step, &pace);
    for (int change = 0; change < 60; change++) {
        struct kvs_txn_buf txns[8] = {{0}};
        unsigned ntxns = rnd(&seed) % 8 + 1;
        bool given_up = _i % 2 && rnd(&seed) % 8 == 0;
        struct model before = copy_model(&m);
        uint64_t version = kvsstore_version(f.store);
        pace.asked = 0;
        ck_assert_int_eq(kvsstore_begin(f.store), 0);
        for (unsigned t = 0; t < ntxns; t++) {
            struct model next = copy_model(&m);
            unsigned nops = rnd(&seed) % 6 + 1;
            int want = 0;
            errmsg_t err = {""};
            if (m.n > 400) { /* keep it small */
                add(&txns[t], KVS_OP_UNLINK, KVS_OP_RECURSIVE, "a", NULL, 0);
                add(&txns[t], KVS_OP_UNLINK, KVS_OP_RECURSIVE, "b", NULL, 0);
                m_unlink(&next, "a");
                m_unlink(&next, "b");
            }
            for (unsigned i = 0; i < nops && want <= 0; i++)
                want = random_op(&next, &txns[t], &seed);
            want = want < 0 ? 0 : want;
            if (txns[t].nops == 0) {
                free_model(&next);
                continue;
            }
            int rc = apply_paced(&pace, &txns[t], &err);
            ck_assert_msg(want == (rc < 0 ? errno : 0), "want %s, got %s: %s", strerror(want),
                          rc < 0 ? strerror(errno) : "success", err.text);
            if (want) {
                failures++;
                ck_assert_str_ne(err.text, "");
                free_model(&next);
            } else {
                free_model(&m);
                m = next;
            }
        }
        if (given_up) {
            if (rnd(&seed) % 2)
                (void)kvsstore_apply(f.store, txns[0].data, txns[0].len, NULL);
            kvsstore_cancel(f.store);
            ck_assert_uint_eq(kvsstore_version(f.store), version);
            free_model(&m);
            m = before;
        } else {
            ck_assert_int_ge(end_paced(&pace), 0);
            free_model(&before);
        }
        for (unsigned t = 0; t < ntxns; t++)
            kvs_txn_buf_clear(&txns[t]);
        for (pace.asked = 0; kvsstore_collect(f.store, 7); pace.asked = 0)
            ;
        if (change % 10 == 9) {
            compare(&f, &m);
            rebuild(&f, &m, &seed);
        }
    }
    ck_assert_uint_gt(failures, 10);
    ck_assert(_i % 2 == 0 || pace.pauses > 100);
    free_model(&m);
    drop(&f);
}
END_TEST

/* --- rules of one operation --- */

static int commit(struct fixture *f, struct kvs_txn_buf *b, errmsg_t *err)
{
    errmsg_t own;
    int errnum = 0;
    err = err ? err : &own;
    ck_assert_int_eq(kvsstore_begin(f->store), 0);
    if (kvsstore_apply(f->store, b->data, b->len, err) < 0)
        errnum = errno;
    ck_assert_int_ge(kvsstore_end(f->store, NULL), 0);
    kvs_txn_buf_clear(b);
    while (kvsstore_collect(f->store, 10))
        ;
    return errnum;
}

static int op(struct fixture *f, enum kvs_op_type type, unsigned flags, const char *key,
              const char *val)
{
    struct kvs_txn_buf b = {0};
    add(&b, type, flags, key, val, val ? strlen(val) : 0);
    return commit(f, &b, NULL);
}

static const char *get(struct fixture *f, const char *key)
{
    static char buf[100];
    struct treeobj_entry e;
    miss.n = 0;
    if (kvswalk_find(f->content, kvsstore_root(f->store), key, strlen(key), 0, &e, NULL, &miss,
                     NULL) < 0)
        return "(none)";
    if (e.type == TREEOBJ_DIR)
        return "(dir)";
    ck_assert_uint_lt(e.len, sizeof(buf));
    kvsvalue_read(f->content, &e, 0, e.len, buf, &miss, NULL);
    buf[e.len] = '\0';
    return buf;
}

START_TEST(links)
{
    struct fixture f = fresh();
    ck_assert_int_eq(op(&f, KVS_OP_PUT, 0, "d.x", "1"), 0);
    ck_assert_int_eq(op(&f, KVS_OP_SYMLINK, 0, "l", "d.x"), 0);
    ck_assert_int_eq(op(&f, KVS_OP_SYMLINK, 0, "dl", "d"), 0);
    ck_assert_int_eq(op(&f, KVS_OP_APPEND, 0, "l", "2"), 0);
    ck_assert_str_eq(get(&f, "d.x"), "12");
    ck_assert_int_eq(op(&f, KVS_OP_APPEND, 0, "dl.y", "3"), 0);
    ck_assert_str_eq(get(&f, "d.y"), "3");
    ck_assert_int_eq(op(&f, KVS_OP_APPEND, 0, "dl", "3"), EISDIR);
    /* A link at the end is copied and moved itself, and replaced itself. */
    ck_assert_int_eq(op(&f, KVS_OP_COPY, 0, "l2", "l"), 0);
    ck_assert_int_eq(entry(&f, "l2").type, TREEOBJ_LINK);
    ck_assert_int_eq(op(&f, KVS_OP_MOVE, 0, "e.l3", "l2"), 0);
    ck_assert_int_eq(entry(&f, "e.l3").type, TREEOBJ_LINK);
    ck_assert_int_eq(entry(&f, "l2").type, 0);
    ck_assert_int_eq(op(&f, KVS_OP_COPY, 0, "e.l3", "dl.y"), 0);
    ck_assert_str_eq(get(&f, "e.l3"), "3");
    ck_assert_str_eq(get(&f, "d.x"), "12");
    /* Into itself, by way of a link too. */
    ck_assert_int_eq(op(&f, KVS_OP_MOVE, 0, "d.in", "d"), EINVAL);
    ck_assert_int_eq(op(&f, KVS_OP_MOVE, 0, "dl.a.b", "d"), EINVAL);
    ck_assert_int_eq(op(&f, KVS_OP_MOVE, 0, "d", "d"), 0);
    ck_assert_int_eq(op(&f, KVS_OP_MOVE, 0, "x", "nothing"), ENOENT);
    ck_assert_int_eq(op(&f, KVS_OP_COPY, 0, "d.copy", "d"), 0);
    ck_assert_str_eq(get(&f, "d.copy.x"), "12");
    ck_assert_str_eq(get(&f, "d.copy.copy"), "(none)");
    ck_assert_int_eq(op(&f, KVS_OP_COPY, 0, "all", "."), 0);
    ck_assert_str_eq(get(&f, "all.d.copy.x"), "12");
    ck_assert_str_eq(get(&f, "all.all"), "(none)");
    /* Copies are independent. */
    ck_assert_int_eq(op(&f, KVS_OP_PUT, 0, "d.x", "new"), 0);
    ck_assert_str_eq(get(&f, "all.d.x"), "12");
    drop(&f);
}
END_TEST

/* A key of `n` names, each the same letter. */
static const char *names(char *buf, char letter, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        buf[2 * i] = letter;
        buf[2 * i + 1] = i + 1 < n ? '.' : '\0';
    }
    return buf;
}

/* What is copied or moved does not get keys of more than 64 names or 1024 bytes, nor do links lead
 * to some. */
START_TEST(depth)
{
    struct fixture f = fresh();
    char key[200], to[200], wide[256];
    ck_assert_int_eq(op(&f, KVS_OP_PUT, 0, names(key, 'a', 40), "1"), 0);
    ck_assert_int_eq(op(&f, KVS_OP_COPY, 0, names(to, 'b', 25), "a"), 0); /* 25 + 39 */
    ck_assert_int_eq(op(&f, KVS_OP_COPY, 0, names(to, 'c', 26), "a"), ENAMETOOLONG);
    ck_assert_int_eq(entry(&f, "c").type, 0);
    ck_assert_int_eq(op(&f, KVS_OP_COPY, 0, "x", "."), ENAMETOOLONG);
    drop(&f);

    f = fresh();
    ck_assert_int_eq(op(&f, KVS_OP_PUT, 0, names(key, 'a', 40), "1"), 0);
    ck_assert_int_eq(op(&f, KVS_OP_MOVE, 0, names(to, 'c', 26), "a"), ENAMETOOLONG);
    ck_assert_int_eq(entry(&f, "a").type, TREEOBJ_DIR);
    ck_assert_int_eq(op(&f, KVS_OP_MOVE, 0, names(to, 'c', 25), "a"), 0);
    /* What is empty has no keys below it, and less fits where more did not. */
    ck_assert_int_eq(op(&f, KVS_OP_MKDIR, 0, "empty", NULL), 0);
    ck_assert_int_eq(op(&f, KVS_OP_COPY, 0, names(to, 'd', 64), "empty"), 0);
    ck_assert_int_eq(op(&f, KVS_OP_UNLINK, KVS_OP_RECURSIVE, "d", NULL), 0);
    names(to, 'c', 25);
    strcat(to, ".a.a");
    ck_assert_int_eq(op(&f, KVS_OP_UNLINK, KVS_OP_RECURSIVE, to, NULL), 0);
    ck_assert_int_eq(op(&f, KVS_OP_COPY, 0, "x", "."), 0);
    /* By a link. */
    ck_assert_int_eq(op(&f, KVS_OP_SYMLINK, 0, "l", names(key, 'e', 40)), 0);
    strcpy(to, "l.");
    names(to + 2, 'f', 24);
    ck_assert_int_eq(op(&f, KVS_OP_PUT, 0, to, "1"), 0);
    names(to + 2, 'g', 25);
    ck_assert_int_eq(op(&f, KVS_OP_PUT, 0, to, "1"), ENAMETOOLONG);
    drop(&f);

    /* Bytes. */
    f = fresh();
    memset(wide, 'w', sizeof(wide));
    wide[255] = '\0';
    ck_assert_int_eq(op(&f, KVS_OP_PUT, 0, wide, "1"), 0);
    for (int i = 0; i < 3; i++) { /* each in itself: 511, 767, 1023 bytes */
        ck_assert_int_eq(op(&f, KVS_OP_COPY, 0, "t", "."), 0);
        ck_assert_int_eq(op(&f, KVS_OP_MOVE, 0, "u", "t"), 0);
        ck_assert_int_eq(op(&f, KVS_OP_UNLINK, KVS_OP_RECURSIVE, wide, NULL), 0);
        ck_assert_int_eq(op(&f, KVS_OP_MOVE, 0, wide, "u"), 0);
    }
    ck_assert_int_eq(op(&f, KVS_OP_MOVE, 0, "long", wide), 0); /* 772 bytes */
    ck_assert_int_eq(op(&f, KVS_OP_MOVE, 0, wide, "long"), 0);
    ck_assert_int_eq(op(&f, KVS_OP_COPY, 0, "1", "."), ENAMETOOLONG);
    drop(&f);
}
END_TEST

/* Thousands of moves in one transaction, each of all that was moved before. */
START_TEST(chain)
{
    struct fixture f = fresh();
    struct kvs_txn_buf b = {0};
    errmsg_t err;
    char from[16], to[32];
    add(&b, KVS_OP_PUT, 0, "d0", "1", 1);
    for (int i = 1; i <= 60; i++) {
        snprintf(from, sizeof(from), "d%d", i - 1);
        snprintf(to, sizeof(to), "d%d.d%d", i, i - 1);
        add(&b, KVS_OP_MOVE, 0, to, from, strlen(from));
    }
    ck_assert_int_eq(commit(&f, &b, &err), 0);
    for (int i = 61; i <= 3000; i++) {
        snprintf(from, sizeof(from), "d%d", i - 1);
        snprintf(to, sizeof(to), "d%d.d%d", i, i - 1);
        add(&b, KVS_OP_MOVE, 0, to, from, strlen(from));
    }
    ck_assert_int_eq(commit(&f, &b, &err), ENAMETOOLONG);
    ck_assert_ptr_nonnull(strstr(err.text, "the limit is 64"));
    ck_assert_int_eq(entry(&f, "d60").type, TREEOBJ_DIR);
    drop(&f);
}
END_TEST

static void add_guard(struct kvs_txn_buf *b, struct fixture *f, const char *key)
{
    uint8_t tag[KVS_TAG_SIZE];
    struct treeobj_entry e = entry(f, key);
    ck_assert_int_ne(e.type, 0);
    ck_assert_int_eq(kvsvalue_tag(blobref, &e, tag), 0);
    add(b, KVS_OP_GUARD, 0, key, tag, sizeof(tag));
}

START_TEST(guards)
{
    static const char *const keys[] = {"small", "large", "d", "l"};
    struct fixture f = fresh();
    struct kvs_txn_buf b = {0};
    errmsg_t err = {""};
    char large[1000];
    memset(large, 'x', sizeof(large));
    add(&b, KVS_OP_PUT, 0, "small", "1", 1);
    add(&b, KVS_OP_PUT, 0, "large", large, sizeof(large));
    add(&b, KVS_OP_PUT, 0, "d.x", "1", 1);
    add(&b, KVS_OP_SYMLINK, 0, "l", "small", 5);
    ck_assert_int_eq(commit(&f, &b, NULL), 0);
    for (size_t i = 0; i < 4; i++) {
        struct kvs_txn_buf g = {0};
        uint64_t version = kvsstore_version(f.store);
        add_guard(&b, &f, keys[i]);
        add_guard(&g, &f, keys[i]);
        add(&b, KVS_OP_PUT, 0, "count", "1", 1);
        ck_assert_int_eq(commit(&f, &b, NULL), 0);
        ck_assert_uint_eq(kvsstore_version(f.store), version + 1);
        /* Changed: by value, below, or the link. */
        add(&g, KVS_OP_PUT, 0, "count", "2", 1);
        if (i == 3)
            ck_assert_int_eq(op(&f, KVS_OP_SYMLINK, 0, "l", "large"), 0);
        else
            ck_assert_int_eq(op(&f, KVS_OP_PUT, 0, i == 2 ? "d.x" : keys[i], "2"), 0);
        ck_assert_int_eq(commit(&f, &g, &err), EAGAIN);
        ck_assert_ptr_nonnull(strstr(err.text, keys[i]));
        ck_assert_str_eq(get(&f, "count"), "1");
    }
    ck_assert_int_eq(op(&f, KVS_OP_GUARD, KVS_OP_ABSENT, "small", NULL), EAGAIN);
    ck_assert_int_eq(op(&f, KVS_OP_GUARD, KVS_OP_ABSENT, "none.at.all", NULL), 0);
    ck_assert_int_eq(op(&f, KVS_OP_GUARD, KVS_OP_ABSENT, "small.below.a.value", NULL), 0);
    /* Of what was made in the same transaction, and in the same root change. */
    add(&b, KVS_OP_GUARD, KVS_OP_ABSENT, "new", NULL, 0);
    add(&b, KVS_OP_PUT, 0, "new", "1", 1);
    add(&b, KVS_OP_GUARD, KVS_OP_ABSENT, "new", NULL, 0);
    ck_assert_int_eq(commit(&f, &b, NULL), EAGAIN);
    ck_assert_str_eq(get(&f, "new"), "(none)");
    struct kvs_txn_buf first = {0}, second = {0};
    add_guard(&first, &f, "small");
    add(&first, KVS_OP_PUT, 0, "small", "first", 5);
    add_guard(&second, &f, "small");
    add(&second, KVS_OP_PUT, 0, "small", "second", 6);
    ck_assert_int_eq(kvsstore_begin(f.store), 0);
    ck_assert_int_eq(kvsstore_apply(f.store, first.data, first.len, NULL), 0);
    ck_assert_int_eq(kvsstore_apply(f.store, second.data, second.len, NULL), -1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_eq(kvsstore_end(f.store, NULL), 1);
    ck_assert_str_eq(get(&f, "small"), "first");
    kvs_txn_buf_clear(&first);
    kvs_txn_buf_clear(&second);
    /* Of a directory and a large value that were changed in this root change. */
    add(&b, KVS_OP_PUT, 0, "d.x", "1", 1);
    add(&b, KVS_OP_COPY, 0, "e", "d", 1);
    add(&b, KVS_OP_APPEND, 0, "large", large, 300);
    add(&b, KVS_OP_APPEND, 0, "large", large, 300);
    add(&b, KVS_OP_COPY, 0, "larger", "large", 5);
    ck_assert_int_eq(commit(&f, &b, NULL), 0);
    ck_assert_mem_eq(entry(&f, "d").digest, entry(&f, "e").digest, 32);
    ck_assert_mem_eq(entry(&f, "large").digest, entry(&f, "larger").digest, 32);
    drop(&f);
}
END_TEST

START_TEST(chunks)
{
    struct fixture f = fresh();
    struct kvs_txn_buf b = {0};
    static uint8_t data[TREEOBJ_CHUNK];
    uint8_t digests[3 * 32];
    struct kvsstore_stats st;
    errmsg_t err = {""};
    ck_assert_int_eq(kvsstore_upload(f.store, NULL, data, 0, 1, digests, &err), -1);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_int_eq(kvsstore_upload(f.store, NULL, data, TREEOBJ_CHUNK, 1, digests, &err), 0);
    data[0] = 1;
    ck_assert_int_eq(kvsstore_upload(f.store, NULL, data, TREEOBJ_CHUNK, 2, digests + 32, &err), 0);
    data[0] = 2;
    ck_assert_int_eq(kvsstore_upload(f.store, NULL, data, 10, 3, digests + 64, &err), 0);
    while (kvsstore_collect(f.store, 1000))
        ;
    /* One that is missing, one of the wrong size. */
    digests[40] ^= 1;
    ck_assert_int_eq(
        kvs_txn_buf_add_chunks(&b, "k", 1, 2 * TREEOBJ_CHUNK + 10, digests, 3, 32, NULL), 0);
    ck_assert_int_eq(commit(&f, &b, &err), ENOENT);
    ck_assert_ptr_nonnull(strstr(err.text, "'k'"));
    digests[40] ^= 1;
    ck_assert_int_eq(
        kvs_txn_buf_add_chunks(&b, "k", 1, 2 * TREEOBJ_CHUNK + 9, digests, 3, 32, NULL), 0);
    ck_assert_int_eq(commit(&f, &b, &err), EINVAL);
    ck_assert_int_eq(
        kvs_txn_buf_add_chunks(&b, "k", 1, 2 * TREEOBJ_CHUNK, digests + 32, 2, 32, NULL), 0);
    ck_assert_int_eq(commit(&f, &b, &err), EINVAL);
    ck_assert_int_eq(kvs_txn_buf_add_chunks(&b, "k", 1, 10, digests, 1, 20, NULL), 0);
    ck_assert_int_eq(commit(&f, &b, &err), EINVAL);
    /* An object that is not a chunk. */
    ck_assert_int_eq(kvs_txn_buf_add_chunks(&b, "k", 1, 10, kvsstore_root(f.store), 1, 32, NULL),
                     0);
    ck_assert_int_eq(commit(&f, &b, &err), ENOENT);
    kvsstore_get_stats(f.store, &st);
    ck_assert_uint_eq(st.uploads, 3);
    /* Two transactions in one root change; the second fails, and its uploads stay. */
    struct kvs_txn_buf bad = {0};
    ck_assert_int_eq(kvs_txn_buf_add_chunks(&b, "k", 1, 2 * TREEOBJ_CHUNK, digests, 2, 32, NULL),
                     0);
    ck_assert_int_eq(kvs_txn_buf_add_chunks(&bad, "j", 1, 10, digests + 64, 1, 32, NULL), 0);
    add(&bad, KVS_OP_UNLINK, KVS_OP_MUST, "nothing", NULL, 0);
    ck_assert_int_eq(kvsstore_begin(f.store), 0);
    ck_assert_int_eq(kvsstore_apply(f.store, b.data, b.len, NULL), 0);
    ck_assert_int_eq(kvsstore_apply(f.store, bad.data, bad.len, NULL), -1);
    ck_assert_int_eq(kvsstore_end(f.store, NULL), 1);
    kvs_txn_buf_clear(&b);
    kvs_txn_buf_clear(&bad);
    kvsstore_get_stats(f.store, &st);
    ck_assert_uint_eq(st.uploads, 1);
    ck_assert_uint_eq(entry(&f, "k").len, 2 * TREEOBJ_CHUNK);
    ck_assert_int_eq(kvs_txn_buf_add_chunks(&b, "j", 1, 10, digests + 64, 1, 32, NULL), 0);
    ck_assert_int_eq(commit(&f, &b, NULL), 0);
    ck_assert_uint_eq(entry(&f, "j").len, 10);
    /* Uploaded twice, named once: one is left.  Expiry. */
    for (uint32_t stamp = 10; stamp < 12; stamp++)
        ck_assert_int_eq(kvsstore_upload(f.store, NULL, data, 300, stamp, digests, &err), 0);
    ck_assert_int_eq(kvs_txn_buf_add_chunks(&b, "i", 1, 300, digests, 1, 32, NULL), 0);
    ck_assert_int_eq(commit(&f, &b, NULL), 0);
    ck_assert_int_eq(op(&f, KVS_OP_UNLINK, 0, "i", NULL), 0);
    ck_assert_int_eq(kvs_txn_buf_add_chunks(&b, "i", 1, 300, digests, 1, 32, NULL), 0);
    ck_assert_int_eq(commit(&f, &b, NULL), 0);
    kvsstore_get_stats(f.store, &st);
    ck_assert_uint_eq(st.uploads, 0);
    f.store->upload_limit = 1000 + 2 * KVSSTORE_UPLOAD_COST;
    ck_assert_int_eq(kvsstore_upload(f.store, NULL, data, 400, 20, digests, &err), 0);
    ck_assert_int_eq(kvsstore_upload(f.store, NULL, data, 500, 21, digests + 32, &err), 0);
    ck_assert_int_eq(kvsstore_upload(f.store, NULL, data, 501, 22, digests + 64, &err), -1);
    ck_assert_int_eq(errno, ENOBUFS);
    ck_assert_uint_eq(kvsstore_upload_expire(f.store, 20, 100), 0);
    ck_assert_uint_eq(kvsstore_upload_expire(f.store, 21, 100), 1);
    while (kvsstore_collect(f.store, 1000))
        ;
    ck_assert_ptr_null(content_find(f.content, digests));
    ck_assert_ptr_nonnull(content_find(f.content, digests + 32));
    ck_assert_uint_eq(kvsstore_upload_expire(f.store, 100, 100), 1);
    kvsstore_get_stats(f.store, &st);
    ck_assert_uint_eq(st.upload_bytes, 0);
    drop(&f);
}
END_TEST

static uint64_t waiting(struct fixture *f)
{
    struct kvsstore_stats st;
    kvsstore_get_stats(f->store, &st);
    return st.upload_bytes;
}

/* Upload chunks of `len` bytes, each of its own contents, until one is refused.  Returns their
 * number. */
static unsigned upload_all(struct fixture *f, kvsstore_client_t *c, uint32_t first, size_t len)
{
    uint8_t data[1000] = {0}, digest[32];
    errmsg_t err = {""};
    for (unsigned n = 0;; n++) {
        uint32_t mark = first + n;
        memcpy(data, &mark, sizeof(mark));
        if (kvsstore_upload(f->store, c, data, len, 1, digest, &err) < 0) {
            ck_assert_int_eq(errno, ENOBUFS);
            ck_assert_str_ne(err.text, "");
            return n;
        }
    }
}

/* Who takes all there is for one client leaves room for others, and gives it back with his end. */
START_TEST(shares)
{
    struct fixture f = fresh();
    struct kvs_txn_buf b = {0};
    uint8_t data[1000] = {0}, digest[32], blob[TREEOBJ_HEADER + 1000];
    errmsg_t err;
    f.store->upload_limit = 120 * (TREEOBJ_HEADER + 1000 + KVSSTORE_UPLOAD_COST);
    kvsstore_client_t *hog = kvsstore_client_create(f.store);
    kvsstore_client_t *other = kvsstore_client_create(f.store);
    ck_assert_uint_eq(upload_all(&f, hog, 1, 1000), 60);
    ck_assert_uint_eq(upload_all(&f, other, 1000, 1000), 30);
    /* What another has brought too counts for both, and stays when one goes. */
    kvsstore_client_t *third = kvsstore_client_create(f.store);
    uint64_t before = waiting(&f);
    memcpy(data, &(uint32_t){1}, 4);
    ck_assert_int_eq(kvsstore_upload(f.store, third, data, 1000, 1, digest, &err), 0);
    ck_assert_int_eq(kvsstore_upload(f.store, third, data, 1000, 1, digest, &err), 0);
    ck_assert_uint_eq(waiting(&f), before);
    kvsstore_client_destroy(hog);
    ck_assert_uint_lt(waiting(&f), before * 31 / 90 + 100);
    while (kvsstore_collect(f.store, 1000))
        ;
    ck_assert_int_eq(kvs_txn_buf_add_chunks(&b, "k", 1, 1000, digest, 1, 32, NULL), 0);
    ck_assert_int_eq(commit(&f, &b, NULL), 0);
    ck_assert_uint_eq(entry(&f, "k").len, 1000);
    /* What was used is no longer in a share. */
    for (uint32_t i = 0; i < 30; i++) {
        uint32_t mark = 1000 + i;
        memcpy(data, &mark, 4);
        treeobj_blob_header(blob);
        memcpy(blob + TREEOBJ_HEADER, data, 1000);
        blobref_hash(blobref, blob, sizeof(blob), digest);
        ck_assert_int_eq(kvs_txn_buf_add_chunks(&b, "m", 1, 1000, digest, 1, 32, NULL), 0);
        ck_assert_int_eq(commit(&f, &b, NULL), 0);
    }
    ck_assert_uint_gt(upload_all(&f, other, 2000, 1000), 50);
    kvsstore_client_destroy(other);
    kvsstore_client_destroy(third);
    ck_assert_uint_eq(waiting(&f), 0);
    /* Small ones are not for nothing. */
    other = kvsstore_client_create(f.store);
    ck_assert_uint_lt(upload_all(&f, other, 5000, 4), 320);
    kvsstore_client_destroy(other);
    drop(&f);
}
END_TEST

/* What was held stays readable and is given back when it is released; a store goes back to it. */
START_TEST(snapshots)
{
    struct fixture f = fresh();
    struct kvs_txn_buf b = {0};
    uint8_t root[32], first[32];
    errmsg_t err = {""};
    char key[32];
    for (int i = 0; i < 500; i++) {
        snprintf(key, sizeof(key), "d.k%d", i);
        add(&b, KVS_OP_PUT, 0, key, "old", 3);
    }
    ck_assert_int_eq(commit(&f, &b, NULL), 0);
    memcpy(first, kvsstore_root(f.store), 32);
    ck_assert_int_eq(kvsstore_hold_root(f.store, first, &err), 0);
    ck_assert_int_eq(kvsstore_hold_root(f.store, first, &err), 0);
    for (int round = 0; round < 5; round++) {
        snprintf(key, sizeof(key), "d.k%d", round * 70);
        ck_assert_int_eq(op(&f, KVS_OP_PUT, 0, key, "new"), 0);
    }
    ck_assert_int_eq(op(&f, KVS_OP_UNLINK, KVS_OP_RECURSIVE, "d", NULL), 0);
    struct treeobj_entry e;
    struct content_stats st;
    for (int i = 0; i < 500; i++) {
        snprintf(key, sizeof(key), "d.k%d", i);
        ck_assert_int_eq(kvswalk_find(f.content, first, key, strlen(key), 0, &e, NULL, &miss, NULL),
                         0);
        ck_assert_mem_eq(e.data, "old", 3);
    }
    memcpy(root, kvsstore_root(f.store), 32);
    ck_assert_int_eq(kvsstore_reset(f.store, first, 77, &err), 0);
    ck_assert_uint_eq(kvsstore_version(f.store), 77);
    ck_assert_str_eq(get(&f, "d.k350"), "old");
    ck_assert_int_eq(op(&f, KVS_OP_PUT, 0, "d.k350", "again"), 0);
    ck_assert_uint_eq(kvsstore_version(f.store), 78);
    ck_assert_int_eq(op(&f, KVS_OP_UNLINK, KVS_OP_RECURSIVE, "d", NULL), 0);
    ck_assert_mem_eq(root, kvsstore_root(f.store), 32);
    kvsstore_release_root(f.store, first);
    while (kvsstore_collect(f.store, 10))
        ;
    content_get_stats(f.content, &st);
    ck_assert_uint_gt(st.objects, 20);
    kvsstore_release_root(f.store, first);
    while (kvsstore_collect(f.store, 10))
        ;
    content_get_stats(f.content, &st);
    ck_assert_uint_eq(st.objects, 1);
    ck_assert_int_eq(kvsstore_hold_root(f.store, first, &err), -1);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_str_ne(err.text, "");
    ck_assert_int_eq(kvsstore_reset(f.store, first, 1, &err), -1);
    drop(&f);
}
END_TEST

/* A reader that holds an object when it dies does not keep it for ever. */
START_TEST(readers)
{
    struct fixture f = fresh();
    struct content_stats st;
    char large[400];
    struct kvs_txn_buf b = {0};
    memset(large, 'x', sizeof(large));
    add(&b, KVS_OP_PUT, 0, "k", large, sizeof(large));
    ck_assert_int_eq(commit(&f, &b, NULL), 0);
    struct content_obj *o = content_get(f.content, entry(&f, "k").digest);
    content_hold(f.content, o);
    ck_assert_int_eq(op(&f, KVS_OP_UNLINK, 0, "k", NULL), 0);
    ck_assert_mem_eq(o->data + TREEOBJ_HEADER, large, sizeof(large));
    content_release(f.content, o);
    content_trim(f.content);
    content_get_stats(f.content, &st);
    ck_assert_uint_eq(st.objects, 1);
    drop(&f);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, model, 0, 20);
    tcase_add_test(tc, links);
    tcase_add_test(tc, depth);
    tcase_add_test(tc, chain);
    tcase_add_test(tc, guards);
    tcase_add_test(tc, chunks);
    tcase_add_test(tc, shares);
    tcase_add_test(tc, snapshots);
    tcase_add_test(tc, readers);
    return run_case("kvsstore_ops", tc);
}
