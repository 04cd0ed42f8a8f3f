/* block.c - the layout of a step.
 *
 * doc/stream-format.rst describes it byte by byte, in the section "Steps".  Values, and the bytes
 * that describe them, are not checked here.
 *
 * Invariants:
 *  1. Values follow each other without overlaps, and the last one ends within the step.
 *  2. Names are unique, and have 1 to BLOCK_NAME_MAX bytes of printable ASCII without blanks.
 *
 * Failure: any other step is EPROTO.  The table is copied before it is checked,
 * since a writer could change it meanwhile.
 */
#include "config.h"
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "libstream/block.h"
#include "libutil/hmap.h"
#include "libutil/invariant.h"
#include "libutil/le.h"

#define HEAD 24
#define ENTRY 21 /* bytes of an entry without name and description */
#define BLOCK_VERSION 1
#define ALIGN 64
#define SIZE_MAX_BYTES ((uint64_t)1 << 60)

static const char magic[8] = {'F', 'L', 'U', 'X', 'S', 'T', 'E', 'P'};

struct block {
    struct block_var *vars;
    size_t n;
    size_t room;
    uint64_t table; /* bytes */
    uint64_t end;   /* end of the last value, relative to the end of the table */
    hmap_t *names;
};

block_t *block_create(void)
{
    block_t *b = calloc(1, sizeof(*b));

    if (b && !(b->names = hmap_create_str(NULL))) {
        free(b);
        b = NULL;
    }
    return b;
}

void block_clear(block_t *b)
{
    for (size_t i = 0; i < b->n; i++) {
        hmap_del(b->names, b->vars[i].name);
        free(b->vars[i].name);
        free(b->vars[i].desc);
    }
    b->n = 0;
    b->table = b->end = 0;
}

void block_destroy(block_t *b)
{
    int saved = errno;

    if (!b)
        return;
    block_clear(b);
    hmap_destroy(b->names);
    free(b->vars);
    free(b);
    errno = saved;
}

static uint64_t align(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

bool block_name_ok(const char *name, size_t len)
{
    if (len == 0 || len > BLOCK_NAME_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (name[i] <= ' ' || name[i] > '~')
            return false;
    }
    return true;
}

static struct block_var *var_add(block_t *b, const char *name, size_t len, const void *desc,
                                 size_t desc_len)
{
    struct block_var *v;

    if (!block_name_ok(name, len)) {
        errno = EINVAL;
        return NULL;
    }
    if (b->n == BLOCK_VARS_MAX || desc_len > BLOCK_DESC_MAX) {
        errno = E2BIG;
        return NULL;
    }
    if (b->n == b->room) {
        size_t room = b->room > 0 ? b->room * 2 : 8;
        struct block_var *more = realloc(b->vars, room * sizeof(*more));

        if (!more)
            return NULL;
        b->vars = more;
        b->room = room;
    }
    v = &b->vars[b->n];
    *v = (struct block_var){.desc_len = (uint32_t)desc_len};
    if (!(v->name = strndup(name, len)) || (desc_len > 0 && !(v->desc = malloc(desc_len))))
        goto fail;
    if (hmap_get(b->names, v->name)) {
        errno = EEXIST;
        goto fail;
    }
    if (hmap_put(b->names, v->name, (void *)(uintptr_t)(b->n + 1)) < 0)
        goto fail;
    if (desc_len > 0)
        memcpy(v->desc, desc, desc_len);
    b->n++;
    b->table += align(ENTRY + len + desc_len, 8);
    return v;
fail:
    free(v->desc);
    free(v->name);
    return NULL;
}

int block_add(block_t *b, const char *name, const void *desc, size_t desc_len, uint64_t len)
{
    struct block_var *v;

    if (len > SIZE_MAX_BYTES || b->end > SIZE_MAX_BYTES) {
        errno = E2BIG;
        return -1;
    }
    if (!(v = var_add(b, name, strlen(name), desc, desc_len)))
        return -1;
    v->off = b->end;
    v->len = len;
    b->end = align(b->end + len, ALIGN);
    return 0;
}

void block_resize(block_t *b, size_t i, uint64_t len)
{
    b->vars[i].len = len;
    for (b->end = b->vars[i].off; i < b->n; i++) {
        b->vars[i].off = b->end;
        b->end = align(b->end + b->vars[i].len, ALIGN);
    }
}

/* The offset of the first value. */
static uint64_t values_at(const block_t *b)
{
    return align(HEAD + b->table, ALIGN);
}

uint64_t block_size(const block_t *b)
{
    return values_at(b) + b->end;
}

void block_write(block_t *b, void *buf)
{
    unsigned char *p = buf;

    memset(p, 0, values_at(b));
    memcpy(p, magic, sizeof(magic));
    le_put32(p + 8, BLOCK_VERSION);
    le_put32(p + 12, (uint32_t)b->n);
    le_put64(p + 16, b->table);
    p += HEAD;
    for (size_t i = 0; i < b->n; i++) {
        struct block_var *v = &b->vars[i];
        size_t len = strlen(v->name);

        v->off += values_at(b);
        le_put64(p, v->off);
        le_put64(p + 8, v->len);
        le_put32(p + 16, v->desc_len);
        p[20] = (unsigned char)len;
        memcpy(p + ENTRY, v->name, len);
        if (v->desc_len > 0)
            memcpy(p + ENTRY + len, v->desc, v->desc_len);
        p += align(ENTRY + len + v->desc_len, 8);
    }
    INVARIANT(1, p == (unsigned char *)buf + HEAD + b->table);
}

void block_unwrite(block_t *b)
{
    for (size_t i = 0; i < b->n; i++)
        b->vars[i].off -= values_at(b);
}

/* Parse the copied table: 0 or -1. */
static int table_read(block_t *b, const unsigned char *p, uint64_t size, uint32_t n, uint64_t total)
{
    uint64_t left = size;
    uint64_t next = align(HEAD + size, ALIGN);

    for (uint32_t i = 0; i < n; i++) {
        struct block_var *v;
        uint64_t used;
        uint64_t entry;

        if (left < ENTRY)
            return -1;
        used = ENTRY + (uint64_t)p[20] + le_get32(p + 16);
        entry = align(used, 8);
        if (entry > left)
            return -1;
        for (uint64_t k = used; k < entry; k++) {
            if (p[k] != 0)
                return -1;
        }
        if (!(v = var_add(b, (const char *)p + ENTRY, p[20], p + ENTRY + p[20], le_get32(p + 16))))
            return -1;
        v->off = le_get64(p);
        v->len = le_get64(p + 8);
        if (v->off != next || v->off > total || v->len > total - v->off)
            return -1;
        next = align(v->off + v->len, ALIGN);
        p += entry;
        left -= entry;
    }
    return left == 0 ? 0 : -1;
}

static bool head_ok(const unsigned char *head, uint64_t len)
{
    uint64_t size = le_get64(head + 16);

    return memcmp(head, magic, sizeof(magic)) == 0 && le_get32(head + 8) == BLOCK_VERSION &&
           le_get32(head + 12) <= BLOCK_VARS_MAX && size <= len - HEAD &&
           size <= (uint64_t)BLOCK_VARS_MAX * (ENTRY + BLOCK_NAME_MAX + BLOCK_DESC_MAX + 8);
}

uint64_t block_head_size(const void *data, uint64_t len)
{
    uint64_t size;

    if (len < HEAD || !head_ok(data, len))
        return 0;
    size = align(HEAD + le_get64((const unsigned char *)data + 16), ALIGN);
    return size < len ? size : len;
}

block_t *block_read(const void *data, uint64_t len, errmsg_t *err)
{
    unsigned char head[HEAD];
    unsigned char *table = NULL;
    block_t *b = NULL;
    uint64_t size;
    int errnum = EPROTO;

    if (len >= HEAD) {
        memcpy(head, data, HEAD);
        size = le_get64(head + 16);
        if (head_ok(head, len)) {
            table = malloc(size > 0 ? size : 1);
            b = block_create();
            if (!table || !b)
                errnum = ENOMEM;
            else {
                memcpy(table, (const unsigned char *)data + HEAD, size);
                errno = EPROTO;
                if (table_read(b, table, size, le_get32(head + 12), len) == 0) {
                    free(table);
                    return b;
                }
                errnum = errno == ENOMEM ? ENOMEM : EPROTO;
            }
        }
    }
    free(table);
    block_destroy(b);
    errmsg_fail(err, errnum,
                errnum == ENOMEM ? "out of memory for a step"
                                 : "a step of the stream is malformed");
    return NULL;
}

size_t block_count(const block_t *b)
{
    return b->n;
}

const struct block_var *block_at(const block_t *b, size_t i)
{
    return i < b->n ? &b->vars[i] : NULL;
}

const struct block_var *block_find(const block_t *b, const char *name)
{
    uintptr_t i = (uintptr_t)hmap_get(b->names, name);

    return i > 0 ? &b->vars[i - 1] : NULL;
}
