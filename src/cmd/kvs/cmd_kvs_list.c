/* cmd_kvs_list.c - flux kvs dir and ls: read directories of any size.
 *
 * A directory is read in pages, in the order of the store, and sorted by name when all pages have
 * arrived.  Each entry takes some 40 bytes and its name, and values are kept within a budget; a
 * value that exceeds the budget is looked up when it is printed.  Each level has half of the
 * budget of its parent, so that all levels together stay within twice the budget.
 *
 *    contents                      root
 *    one directory in one page     not held
 *    otherwise                     everything is read at one root, held by a snapshot
 *
 * Output, including JSON, is printed while reading, so that memory does not grow with the output.
 *
 * Failure: the error message names the directory.  Output that has been printed remains.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_kvs.h"
#include "libkvs/kvs_key.h"

#define PAGE_NAMES 8192
#define PAGE_VALUES 512
#define BLOCK ((size_t)256 * 1024)
#define BUDGET ((size_t)64 * 1024 * 1024)
#define DEPTH_MAX 128

/* --- a root that stays --- */

int kvs_root_hold(struct cmd *c, flux_t *h, const struct kvs_args *a, struct kvs_root_held *r)
{
    errmsg_t err;

    r->version = 0;
    r->ref = NULL;
    r->f = flux_kvs_snapshot(h, a->ns, a->at);
    /* A root of the past that cannot be kept any more may still be there: each read is of that root
     * or fails. */
    if (r->f && a->at && flux_future_wait(r->f, -1.) == 0 && flux_future_errnum(r->f) == ENOENT) {
        r->ref = a->at;
        return CMD_OK;
    }
    if (cmd_wait(c, r->f, -1., "a snapshot") == 0) {
        if (flux_kvs_commit_get(r->f, &r->version, &r->ref, &err) == 0)
            return CMD_OK;
        cmd_error(c, "%s", err.text);
    }
    kvs_root_release(r);
    return CMD_FAIL;
}

void kvs_root_release(struct kvs_root_held *r)
{
    flux_future_destroy(r->f);
    r->f = NULL;
    r->ref = NULL;
}

/* --- one directory --- */

struct kvs_block {
    struct kvs_block *next;
    size_t len, cap;
    char data[];
};

static void kvs_list_free(struct kvs_list *l)
{
    while (l->blocks) {
        struct kvs_block *b = l->blocks;
        l->blocks = b->next;
        free(b);
    }
    free(l->item);
    l->item = NULL;
    l->n = l->cap = l->kept = 0;
}

/* A copy that lives as long as the list, NUL-terminated. */
static const char *keep(struct kvs_list *l, const char *data, size_t len)
{
    struct kvs_block *b = l->blocks;
    char *p;

    if (!b || b->cap - b->len < len + 1) {
        size_t cap = len + 1 > BLOCK ? len + 1 : BLOCK;
        if (!(b = malloc(sizeof(*b) + cap)))
            return NULL;
        b->len = 0;
        b->cap = cap;
        b->next = l->blocks;
        l->blocks = b;
    }
    p = b->data + b->len;
    memcpy(p, data, len);
    p[len] = '\0';
    b->len += len + 1;
    return p;
}

static int add_item(struct kvs_list *l, const struct flux_kvs_dirent *e)
{
    struct kvs_item *it;

    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        if (!(it = reallocarray(l->item, cap, sizeof(*it))))
            return -1;
        l->item = it;
        l->cap = cap;
    }
    it = &l->item[l->n];
    it->namelen = (uint8_t)strlen(e->name);
    it->type = (uint8_t)e->type;
    it->size = e->size;
    it->data = NULL;
    if (!(it->name = keep(l, e->name, it->namelen)))
        return -1;
    if (e->data && (e->type == FLUX_KVS_LINK ||
                    (e->size <= FLUX_KVS_CHUNK && l->kept + e->size <= l->budget))) {
        if (!(it->data = keep(l, e->data, e->size)))
            return -1;
        l->kept += e->size;
    }
    l->n++;
    return 0;
}

static int add_page(struct cmd *c, flux_future_t *f, const char *key, struct kvs_list *l)
{
    struct flux_kvs_dirent e;
    size_t pos = 0;
    errmsg_t err;
    int rc;

    while ((rc = flux_kvs_readdir_next(f, &pos, &e, &err)) == 1) {
        if (add_item(l, &e) < 0)
            return cmd_error(c, "%s: out of memory after %zu entries", key, l->n);
    }
    return rc < 0 ? kvs_key_error(c, key, &err) : CMD_OK;
}

/* A page after what is in the list; *more: there are others. */
static int read_page(struct cmd *c, flux_t *h, const char *ns, const char *key, int flags,
                     const char *rootref, struct kvs_list *l, bool *more)
{
    const char *after = l->n > 0 ? l->item[l->n - 1].name : NULL;
    flux_future_t *f = flux_kvs_readdir_page(h, ns, key, flags, rootref, after,
                                             flags & FLUX_KVS_VALUES ? PAGE_VALUES : PAGE_NAMES);
    size_t before = l->n;
    int rc = CMD_FAIL;

    if (!f)
        return cmd_error(c, "%s: %s", key, strerror(errno));
    /* Many large values make too long an answer: names now, values one by one. */
    if (flags & FLUX_KVS_VALUES && flux_future_wait(f, -1.) == 0 &&
        flux_future_errnum(f) == EMSGSIZE) {
        flux_future_destroy(f);
        return read_page(c, h, ns, key, 0, rootref, l, more);
    }
    if (cmd_wait(c, f, -1., key) == 0 && (rc = add_page(c, f, key, l)) == CMD_OK) {
        *more = flux_kvs_readdir_more(f);
        if (*more && l->n == before)
            rc = cmd_error(c, "%s: received an empty page before the end of the directory", key);
    }
    flux_future_destroy(f);
    return rc;
}

static int compare_items(const void *a, const void *b)
{
    return strcmp(((const struct kvs_item *)a)->name, ((const struct kvs_item *)b)->name);
}

static int list_read(struct cmd *c, flux_t *h, const char *ns, const char *key, int flags,
                     const char *rootref, struct kvs_list *l)
{
    bool more = true;
    int rc;

    while (more) {
        if ((rc = read_page(c, h, ns, key, flags, rootref, l, &more)) != CMD_OK)
            return rc;
        if (more)
            cmd_progress(c, "%s: %zu entries", key, l->n);
    }
    cmd_progress_end(c);
    if (l->n > 1)
        qsort(l->item, l->n, sizeof(*l->item), compare_items);
    return CMD_OK;
}

/* All entries of a directory, in pages; `flags`: FLUX_KVS_VALUES. */
static int kvs_list_read(struct cmd *c, flux_t *h, const char *ns, const char *key, int flags,
                         const char *rootref, struct kvs_list *l)
{
    int rc = list_read(c, h, ns, key, flags, rootref, l);

    if (rc != CMD_OK)
        kvs_list_free(l);
    return rc;
}

/* --- walking --- */

char *kvs_join(struct cmd *c, const char *dir, const char *name)
{
    char *key;

    if (strcmp(dir, ".") == 0)
        key = strdup(name);
    else if (asprintf(&key, "%s.%s", dir, name) < 0)
        key = NULL;
    if (!key)
        cmd_error(c, "out of memory");
    return key;
}

static int walk_list(struct cmd *c, struct kvs_walk *w, const char *base, const char *dir,
                     const struct kvs_list *l, unsigned depth);

static int walk_dir(struct cmd *c, struct kvs_walk *w, const char *base, const char *key,
                    const struct kvs_item *e, unsigned depth)
{
    struct kvs_list below = {.budget = BUDGET >> (depth < 16 ? depth : 16)};
    struct kvs_item with_count = *e;
    char *full;
    int rc;

    if (depth > DEPTH_MAX)
        return cmd_error(c, "%s is more than %d levels deep", key, DEPTH_MAX);
    if (!(full = kvs_join(c, base, key)))
        return CMD_FAIL;
    rc = kvs_list_read(c, w->h, w->ns, full, w->flags, w->rootref, &below);
    free(full);
    if (rc != CMD_OK)
        return rc;
    with_count.size = below.n;
    if ((rc = w->entry(c, w, key, &with_count)) == CMD_OK &&
        (rc = walk_list(c, w, base, key, &below, depth)) == CMD_OK && w->leave)
        rc = w->leave(c, w, key);
    kvs_list_free(&below);
    return rc;
}

/* A value that was not kept. */
static int walk_value(struct cmd *c, struct kvs_walk *w, const char *base, const char *key,
                      const struct kvs_item *e)
{
    struct kvs_item with_data = *e;
    char *full = kvs_join(c, base, key);
    flux_future_t *f;
    size_t len;
    errmsg_t err;
    int rc = CMD_FAIL;

    if (!full)
        return CMD_FAIL;
    f = flux_kvs_lookup(w->h, w->ns, full, 0, w->rootref);
    if (cmd_wait(c, f, -1., full) == 0) {
        if (flux_kvs_lookup_get(f, &with_data.data, &len, &err) < 0)
            kvs_key_error(c, full, &err);
        else {
            with_data.size = len;
            rc = w->entry(c, w, key, &with_data);
        }
    }
    flux_future_destroy(f);
    free(full);
    return rc;
}

/* 1: it is, and was reported. */
static int is_too_long(struct cmd *c, struct kvs_walk *w, const char *base, const char *key)
{
    char *full;
    errmsg_t why;
    int rc = 0;

    if (!w->too_long)
        return 0;
    if (!(full = kvs_join(c, base, key)))
        return -1;
    if (kvs_key_check(full, strlen(full), &why) < 0)
        rc = w->too_long(c, w, full, &why) == CMD_OK ? 1 : -1;
    free(full);
    return rc;
}

/* The entries of base.dir, where `dir` is "." for base itself. */
static int walk_list(struct cmd *c, struct kvs_walk *w, const char *base, const char *dir,
                     const struct kvs_list *l, unsigned depth)
{
    int rc = CMD_OK;

    for (size_t i = 0; i < l->n && rc == CMD_OK; i++) {
        const struct kvs_item *e = &l->item[i];
        char *key = kvs_join(c, dir, e->name);
        int too_long = key ? is_too_long(c, w, base, key) : -1;
        if (too_long)
            rc = too_long < 0 ? CMD_FAIL : CMD_OK;
        else if (e->type == FLUX_KVS_DIR && w->recursive)
            rc = walk_dir(c, w, base, key, e, depth + 1);
        else if (e->type == FLUX_KVS_VALUE && w->flags & FLUX_KVS_VALUES && !e->data &&
                 e->size > 0 && e->size <= FLUX_KVS_CHUNK)
            rc = walk_value(c, w, base, key, e);
        else
            rc = w->entry(c, w, key, e);
        free(key);
    }
    return rc;
}

int kvs_walk(struct cmd *c, struct kvs_walk *w, const char *key)
{
    struct kvs_list l = {.budget = BUDGET};
    int rc = kvs_list_read(c, w->h, w->ns, key, w->flags, w->rootref, &l);

    if (rc != CMD_OK)
        return rc;
    rc = walk_list(c, w, key, ".", &l, 0);
    kvs_list_free(&l);
    return rc;
}

/* Walk at one root.  Whether a directory needs more than one request is known once the first has
 * been answered; a walk through several holds a root from the beginning. */
static int walk_at_root(struct cmd *c, struct kvs_walk *w, const struct kvs_args *a,
                        const char *key)
{
    struct kvs_root_held root = {0};
    struct kvs_list first = {.budget = BUDGET};
    bool more = true;
    int rc;

    w->rootref = a->at;
    if (!w->recursive) {
        rc = read_page(c, w->h, w->ns, key, w->flags, a->at, &first, &more);
        if (rc == CMD_OK && !more && first.kept <= BUDGET) {
            if (first.n > 0)
                qsort(first.item, first.n, sizeof(*first.item), compare_items);
            rc = walk_list(c, w, key, ".", &first, 0);
        }
        kvs_list_free(&first);
        if (rc != CMD_OK || !more)
            return rc;
    }
    if ((rc = kvs_root_hold(c, w->h, a, &root)) != CMD_OK)
        return rc;
    w->rootref = root.ref;
    rc = kvs_walk(c, w, key);
    kvs_root_release(&root);
    return rc;
}

/* --- dir --- */

struct dir_print {
    const char *prefix; /* of keys, "" or with its dot */
    unsigned depth;     /* JSON: how many objects are open */
    bool any;           /* JSON: the current object has a member */
    bool listed;        /* JSON: the outermost has begun */
};

static int dir_entry_text(struct cmd *c, struct kvs_walk *w, const char *key,
                          const struct kvs_item *e)
{
    const struct dir_print *d = w->arg;

    if (e->type == FLUX_KVS_DIR) {
        if (!w->recursive || e->size == 0)
            printf("%s%s.\n", d->prefix, key);
        return CMD_OK;
    }
    printf("%s%s %s ", d->prefix, key, e->type == FLUX_KVS_LINK ? "->" : "=");
    kvs_print_line(stdout, e->data, e->size);
    putchar('\n');
    return CMD_OK;
}

static void json_line(struct dir_print *d)
{
    printf("%s\n%*s", d->any ? "," : "", (int)(2 * d->depth), "");
    d->any = true;
}

static int dir_entry_json(struct cmd *c, struct kvs_walk *w, const char *key,
                          const struct kvs_item *e)
{
    struct dir_print *d = w->arg;

    json_line(d);
    if (kvs_put_json(c, json_stringn(e->name, e->namelen)) != CMD_OK)
        return CMD_FAIL;
    fputs(": ", stdout);
    if (e->type != FLUX_KVS_DIR)
        return kvs_put_json(c, e->type == FLUX_KVS_LINK ? kvs_link_json(e->data, e->size)
                                                        : kvs_value_json(e->data, e->size));
    putchar('{');
    if (!w->recursive) {
        putchar('}');
        return CMD_OK;
    }
    d->depth++;
    d->any = false;
    return CMD_OK;
}

static int dir_leave_json(struct cmd *c, struct kvs_walk *w, const char *key)
{
    struct dir_print *d = w->arg;

    d->depth--;
    if (d->any)
        printf("\n%*s", (int)(2 * d->depth), "");
    putchar('}');
    d->any = true;
    return CMD_OK;
}

/* Nothing is printed of a directory that cannot be read: the brace waits for the first entry. */
static int dir_first_json(struct cmd *c, struct kvs_walk *w, const char *key,
                          const struct kvs_item *e)
{
    struct dir_print *d = w->arg;

    if (!d->listed)
        putchar('{');
    d->listed = true;
    return dir_entry_json(c, w, key, e);
}

int kvs_dir(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {'R', "recursive", NULL, "include all directories below"},
        KVS_OPT_AT,
        KVS_OPT_NS,
        KVS_OPT_JSON,
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {"[OPTION...] [KEY]",
                                           "Print the entries of a directory with their values, "
                                           "one per line. The names of directories\n"
                                           "end with a dot; the default KEY is '.', the root.",
                                           opts, NULL, 0};
    struct dir_print d = {.prefix = "", .depth = 1};
    struct kvs_walk w = {.flags = FLUX_KVS_VALUES, .arg = &d};
    struct kvs_args a;
    const char *key = ".";
    char *prefix = NULL;
    int rc = kvs_parse(c, &usage, argc, argv, 0, 1, "at most one KEY is expected", &a);

    if (rc)
        return rc - 1;
    if (!(w.h = cmd_handle(c)))
        return CMD_FAIL;
    if (a.argc > 0)
        key = a.argv[0];
    if (strcmp(key, ".") != 0) {
        if (asprintf(&prefix, "%s.", key) < 0)
            return cmd_error(c, "out of memory");
        d.prefix = prefix;
    }
    w.ns = a.ns;
    w.recursive = a.recursive;
    w.entry = a.json ? dir_first_json : dir_entry_text;
    w.leave = a.json ? dir_leave_json : NULL;
    rc = walk_at_root(c, &w, &a, key);
    if (rc == CMD_OK && a.json)
        puts(d.listed ? "\n}" : "{}");
    free(prefix);
    return rc;
}

/* --- ls --- */

struct ls_print {
    bool long_form;
    bool any;
};

static int ls_entry_text(struct cmd *c, struct kvs_walk *w, const char *key,
                         const struct kvs_item *e)
{
    struct ls_print *p = w->arg;

    if (!p->long_form) {
        printf("%s%s\n", key, e->type == FLUX_KVS_DIR ? "." : "");
        return CMD_OK;
    }
    if (!p->any)
        printf("%-5s  %12s  NAME\n", "TYPE", "SIZE");
    p->any = true;
    printf("%-5s  ", kvs_type_name(e->type));
    if (e->type == FLUX_KVS_DIR && !w->recursive)
        printf("%12s  %s", "-", key);
    else
        printf("%12" PRIu64 "  %s", e->size, key);
    if (e->type == FLUX_KVS_LINK && e->data) {
        fputs(" -> ", stdout);
        kvs_print_line(stdout, e->data, e->size);
    }
    putchar('\n');
    return CMD_OK;
}

static int ls_entry_json(struct cmd *c, struct kvs_walk *w, const char *key,
                         const struct kvs_item *e)
{
    struct ls_print *p = w->arg;

    bool unknown = e->type == FLUX_KVS_DIR && !w->recursive;
    json_t *entry = json_object();
    int rc = json_object_set_new(entry, "name", json_string(key));

    rc |= json_object_set_new(entry, "type", json_string(kvs_type_name(e->type)));
    rc |= json_object_set_new(entry, "size",
                              unknown ? json_null() : json_integer((json_int_t)e->size));
    if (e->type == FLUX_KVS_LINK && e->data)
        rc |= json_object_set_new(entry, "target", json_stringn(e->data, (size_t)e->size));
    if (rc < 0) {
        json_decref(entry);
        entry = NULL;
    }
    printf("%s\n  ", p->any ? "," : "[");
    p->any = true;
    return kvs_put_json(c, entry);
}

int kvs_ls(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {'l', "long", NULL, "print types and sizes"},
        {'R', "recursive", NULL, "include all directories below"},
        KVS_OPT_AT,
        KVS_OPT_NS,
        KVS_OPT_JSON,
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {
        "[OPTION...] [KEY]",
        "Print the names in a directory, one per line. The names of directories end with a dot; "
        "the\n"
        "default KEY is '.', the root.",
        opts,
        "The size of a value is its number of bytes, that of a directory its number of entries.",
        0};
    struct ls_print p = {0};
    struct kvs_walk w = {.arg = &p};
    struct kvs_args a;
    int rc = kvs_parse(c, &usage, argc, argv, 0, 1, "at most one KEY is expected", &a);

    if (rc)
        return rc - 1;
    if (!(w.h = cmd_handle(c)))
        return CMD_FAIL;
    p.long_form = a.long_form;
    w.ns = a.ns;
    w.recursive = a.recursive;
    w.entry = a.json ? ls_entry_json : ls_entry_text;
    rc = walk_at_root(c, &w, &a, a.argc > 0 ? a.argv[0] : ".");
    if (rc == CMD_OK && a.json)
        puts(p.any ? "\n]" : "[]");
    return rc;
}
