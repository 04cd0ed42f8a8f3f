/* km_entries.c - a response of many entries under construction.
 *
 * Format:
 *    KVS_ANSWER_HEADER bytes     written at the end, by km_entries_take()
 *    entry, entry, ...           header, name, data (kvs_wire.h)
 *
 * Invariants:
 *  1. The sum includes `cap` as long as `buf` belongs to the response under construction.
 *  2. The block has at least one byte more than the response (km_read.answer).
 *
 * Failure: an entry that would make the response too large, or for which there is no memory, is not
 * added.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "km_entries.h"
#include "libutil/invariant.h"

#define LEN_MAX ((size_t)KM_ENTRIES_MAX_MIB << 20)
#define FIRST_CAP 1024

struct km_entries_sum {
    size_t bytes;
};

struct km_entries_sum *km_entries_sum_create(void)
{
    return calloc(1, sizeof(struct km_entries_sum));
}

void km_entries_sum_destroy(struct km_entries_sum *sum)
{
    free(sum);
}

size_t km_entries_sum_bytes(const struct km_entries_sum *sum)
{
    return sum->bytes;
}

void km_entries_clear(struct km_entries *es)
{
    int saved = errno;

    es->sum->bytes -= es->cap;
    free(es->buf);
    es->buf = NULL;
    es->cap = 0;
    errno = saved;
}

static int grow(struct km_entries *es, size_t need)
{
    size_t cap = es->cap * 2;
    uint8_t *p;

    if (cap < need)
        cap = need;
    if (!(p = realloc(es->buf, cap)))
        return -1;
    es->sum->bytes += cap - es->cap;
    es->buf = p;
    es->cap = cap;
    return 0;
}

int km_entries_init(struct km_entries *es, struct km_entries_sum *sum, const char *too_large)
{
    *es = (struct km_entries){sum, too_large, NULL, KVS_ANSWER_HEADER, 0, 0};
    return grow(es, FIRST_CAP);
}

uint8_t *km_entries_reserve(struct km_entries *es, size_t namelen, size_t datalen, errmsg_t *err)
{
    size_t head = es->len + KVS_ANSWER_ENTRY_HEADER + namelen;

    if (head + datalen > LEN_MAX)
        errmsg_fail(err, EMSGSIZE, "%s", es->too_large);
    else if (head + datalen + 1 > es->cap && grow(es, head + datalen + 1) < 0)
        errmsg_fail(err, ENOMEM, "out of memory for the entries of a directory");
    else
        return es->buf + head;
    return NULL;
}

void km_entries_add(struct km_entries *es, const struct kvs_answer_entry *e, const char *name)
{
    uint8_t *p = es->buf + es->len;

    kvs_answer_entry_encode_header(e, p);
    memcpy(p + KVS_ANSWER_ENTRY_HEADER, name, e->namelen);
    es->len += KVS_ANSWER_ENTRY_HEADER + e->namelen + (e->has_data ? e->size : 0);
    es->count++;
    INVARIANT(2, es->len < es->cap);
}

uint8_t *km_entries_take(struct km_entries *es, struct kvs_answer *a, size_t *len)
{
    uint8_t *buf = es->buf;

    a->count = es->count;
    kvs_answer_encode_header(a, buf);
    *len = es->len;
    es->buf = NULL;
    km_entries_clear(es);
    return buf;
}
