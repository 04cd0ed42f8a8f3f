/* Batches of key-value pairs as one compact binary blob, for shipping between nodes.
 *
 * Blobs merge by concatenation: an inner node of a reduction tree appends the blobs of its children
 * to its own, without reading them.  The empty blob holds no pairs.  Nothing here does I/O; one
 * object is to be used by one thread at a time.
 */
#ifndef PMI_PACK_H
#define PMI_PACK_H

#include <stddef.h>
#include <stdint.h>

#define PMI_PACK_KEY_MAX 1024
#define PMI_PACK_VALUE_MAX 65536

struct pmi_pair {
    const char *key; /* not NUL-terminated */
    size_t keylen;   /* 1..PMI_PACK_KEY_MAX, no NUL inside */
    const char *value;
    size_t valuelen; /* 0..PMI_PACK_VALUE_MAX */
};

struct pmi_pack;

/* `max`: most bytes of the blob (0: what the format allows, 4 GiB - 1).  NULL with ENOMEM. */
struct pmi_pack *pmi_pack_create(size_t max);
void pmi_pack_destroy(struct pmi_pack *pk); /* NULL-safe, keeps errno */

/* Append one pair (copied).  -1 with EINVAL (sizes, or NUL in the key), ENOBUFS (bound) or ENOMEM;
 * then nothing was added. */
int pmi_pack_add(struct pmi_pack *pk, const struct pmi_pair *pair);

/* The blob, valid until the next change; *len is 0 when there are no pairs. */
const void *pmi_pack_data(struct pmi_pack *pk, size_t *len);
size_t pmi_pack_count(const struct pmi_pack *pk);
void pmi_pack_reset(struct pmi_pack *pk); /* start the next batch */

/* Read pairs back.  The pairs point into the blob. */
struct pmi_unpack {
    const uint8_t *p;
    size_t left;    /* bytes of the blob that were not yet read */
    size_t seglen;  /* those of them in the current segment */
    uint32_t pairs; /* pairs of that segment that were not yet read */
};

void pmi_unpack_init(struct pmi_unpack *u, const void *blob, size_t len);

/* 1: *pair is the next pair; 0: end; -1 with EPROTO: not a blob of this format. */
int pmi_unpack_next(struct pmi_unpack *u, struct pmi_pair *pair);

/* Walk through a whole blob.  0 with *count (may be NULL) the number of pairs, or -1 with EPROTO.
 */
int pmi_unpack_check(const void *blob, size_t len, size_t *count);

/* Bytes of the first segment of a blob, which is a blob by itself (the builder makes segments of at
 * most PMI_SEGMENT_MAX bytes): so a large blob can be passed on in pieces.  0 at the end, or when
 * this is not a segment. */
#define PMI_SEGMENT_MAX ((size_t)4 << 20)
size_t pmi_segment_len(const void *blob, size_t len);

/* A single record, in the format of a blob: for tables that keep records in place. */
size_t pmi_record_size(const struct pmi_pair *pair);
void pmi_record_write(void *dst, const struct pmi_pair *pair);
/* Read a record that pmi_unpack_next() accepted or pmi_record_write() wrote. */
void pmi_record_read(const void *rec, struct pmi_pair *pair);
/* The record from which pmi_unpack_next() or pmi_record_read() filled *pair. */
const void *pmi_record_of(const struct pmi_pair *pair);

#endif
