/* pmi_pack.c - batches of key-value pairs as one binary blob.
 *
 * Format (numbers are big-endian):
 *
 *   blob    = *segment
 *   segment = "PMB1" count:u32 nbytes:u32 record*count        nbytes: of all its records
 *   record  = keylen:u16 valuelen:u32 key value
 *
 * Invariants:
 *  1. Two blobs one after the other are a blob; the order of pairs is kept.
 *  2. A segment is exactly its records: a length that disagrees with the records is an error, so
 *     a cut or shifted blob is never accepted in part.
 *  3. The builder fills one segment at a time, whose header is updated when the next one
 *     begins or the blob is read; none has more than PMI_SEGMENT_MAX bytes.
 *  4. A reader never touches a byte outside of the blob and does not allocate.
 *
 * Failure: EPROTO for bytes that are not of this format; ENOBUFS at the bound; a refused pair
 * leaves the blob unchanged.
 */
#include "config.h"
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "libpmi/pmi_pack.h"
#include "libutil/buf.h"

#define SEG_HEADER 12
#define REC_HEADER 6

static const uint8_t magic[4] = {'P', 'M', 'B', '1'};

struct pmi_pack {
    buf_t *out;
    size_t segment;    /* where the last one begins in `out` */
    uint32_t segcount; /* pairs in it; 0: there is none yet */
    size_t count;
};

static void put32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
}

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int fail(int errnum)
{
    errno = errnum;
    return -1;
}

static bool pair_ok(const struct pmi_pair *pair)
{
    return pair->keylen > 0 && pair->keylen <= PMI_PACK_KEY_MAX &&
           pair->valuelen <= PMI_PACK_VALUE_MAX && !memchr(pair->key, '\0', pair->keylen);
}

size_t pmi_record_size(const struct pmi_pair *pair)
{
    return REC_HEADER + pair->keylen + pair->valuelen;
}

void pmi_record_write(void *dst, const struct pmi_pair *pair)
{
    uint8_t *p = dst;

    p[0] = (uint8_t)(pair->keylen >> 8);
    p[1] = (uint8_t)pair->keylen;
    put32(p + 2, (uint32_t)pair->valuelen);
    memcpy(p + REC_HEADER, pair->key, pair->keylen);
    if (pair->valuelen)
        memcpy(p + REC_HEADER + pair->keylen, pair->value, pair->valuelen);
}

void pmi_record_read(const void *rec, struct pmi_pair *pair)
{
    const uint8_t *p = rec;

    pair->keylen = (size_t)p[0] << 8 | p[1];
    pair->valuelen = get32(p + 2);
    pair->key = (const char *)p + REC_HEADER;
    pair->value = pair->key + pair->keylen;
}

const void *pmi_record_of(const struct pmi_pair *pair)
{
    return pair->key - REC_HEADER;
}

struct pmi_pack *pmi_pack_create(size_t max)
{
    struct pmi_pack *pk = calloc(1, sizeof(*pk));

    if (!pk)
        return NULL;
    if (max == 0 || max > UINT32_MAX)
        max = UINT32_MAX;
    pk->out = buf_create(max);
    if (!pk->out) {
        free(pk);
        errno = ENOMEM;
        return NULL;
    }
    return pk;
}

void pmi_pack_destroy(struct pmi_pack *pk)
{
    int saved = errno;

    if (pk) {
        buf_destroy(pk->out);
        free(pk);
    }
    errno = saved;
}

static void segment_close(struct pmi_pack *pk)
{
    uint8_t *p = (uint8_t *)buf_data(pk->out) + pk->segment;

    if (pk->segcount == 0)
        return;
    memcpy(p, magic, sizeof(magic));
    put32(p + 4, pk->segcount);
    put32(p + 8, (uint32_t)(buf_len(pk->out) - pk->segment - SEG_HEADER));
}

int pmi_pack_add(struct pmi_pack *pk, const struct pmi_pair *pair)
{
    size_t have = buf_len(pk->out) - pk->segment;
    bool next = pk->segcount == 0 || have + pmi_record_size(pair) > PMI_SEGMENT_MAX;
    size_t head = next ? SEG_HEADER : 0;
    uint8_t *p;

    if (!pair_ok(pair))
        return fail(EINVAL);
    p = buf_reserve(pk->out, head + pmi_record_size(pair));
    if (!p)
        return -1;
    if (next) {
        segment_close(pk);
        pk->segment = buf_len(pk->out);
        pk->segcount = 0;
        memset(p, 0, head);
    }
    pmi_record_write(p + head, pair);
    buf_commit(pk->out, head + pmi_record_size(pair));
    pk->segcount++;
    pk->count++;
    return 0;
}

const void *pmi_pack_data(struct pmi_pack *pk, size_t *len)
{
    segment_close(pk);
    *len = buf_len(pk->out);
    return buf_data(pk->out);
}

size_t pmi_pack_count(const struct pmi_pack *pk)
{
    return pk->count;
}

void pmi_pack_reset(struct pmi_pack *pk)
{
    buf_consume(pk->out, buf_len(pk->out));
    pk->segment = pk->segcount = 0;
    pk->count = 0;
}

size_t pmi_segment_len(const void *blob, size_t len)
{
    const uint8_t *p = blob;
    size_t n;

    if (len < SEG_HEADER || memcmp(p, magic, sizeof(magic)) != 0)
        return 0;
    n = get32(p + 8);
    return n <= len - SEG_HEADER ? SEG_HEADER + n : 0;
}

void pmi_unpack_init(struct pmi_unpack *u, const void *blob, size_t len)
{
    u->p = blob;
    u->left = len;
    u->seglen = 0;
    u->pairs = 0;
}

/* Enter the next segment that has pairs: 1, 0 at the end, -1 with EPROTO. */
static int next_segment(struct pmi_unpack *u)
{
    while (u->pairs == 0) {
        if (u->seglen != 0)
            return fail(EPROTO);
        if (u->left == 0)
            return 0;
        if (u->left < SEG_HEADER || memcmp(u->p, magic, sizeof(magic)) != 0)
            return fail(EPROTO);
        u->pairs = get32(u->p + 4);
        u->seglen = get32(u->p + 8);
        u->p += SEG_HEADER;
        u->left -= SEG_HEADER;
        if (u->seglen > u->left)
            return fail(EPROTO);
    }
    return 1;
}

int pmi_unpack_next(struct pmi_unpack *u, struct pmi_pair *pair)
{
    int rc = next_segment(u);

    if (rc <= 0)
        return rc;
    if (u->seglen < REC_HEADER)
        return fail(EPROTO);
    pmi_record_read(u->p, pair);
    /* pair_ok() reads the key, so the lengths have to be checked first. */
    if (pair->keylen > PMI_PACK_KEY_MAX || pair->valuelen > PMI_PACK_VALUE_MAX ||
        pmi_record_size(pair) > u->seglen || !pair_ok(pair))
        return fail(EPROTO);
    u->p += pmi_record_size(pair);
    u->left -= pmi_record_size(pair);
    u->seglen -= pmi_record_size(pair);
    u->pairs--;
    return 1;
}

int pmi_unpack_check(const void *blob, size_t len, size_t *count)
{
    struct pmi_unpack u;
    struct pmi_pair pair;
    size_t n = 0;
    int rc;

    pmi_unpack_init(&u, blob, len);
    while ((rc = pmi_unpack_next(&u, &pair)) == 1)
        n++;
    if (count)
        *count = n;
    return rc;
}
