/* Declarations that tape.c, which reads recordings, and tape_write.c share: see the section
 * "Recordings" of doc/stream-format.rst. */
#ifndef STREAM_TAPE_FORMAT_H
#define STREAM_TAPE_FORMAT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "libutil/le.h"
#include "libutil/siphash.h"

#define TAPE_HEAD 256     /* bytes with which a file begins */
#define TAPE_SECTION 64   /* bytes of the header of a section; all offsets are multiples of it */
#define TAPE_NAME_MAX 128 /* bytes of the name of a stream */
#define TAPE_NAME_AT 24
#define TAPE_TABLE_ENTRY 16 /* bytes of a writer in the table of a step */
#define TAPE_PIN_ENTRY 24   /* bytes of a writer in the table of what is pinned */
#define TAPE_INDEX_ENTRY 24 /* bytes of a step in an index */
#define TAPE_FORMAT_MAX ((uint64_t)512 * 1024)
#define TAPE_RECORDS_MAX ((uint64_t)256 * 1024) /* bytes of the format of records */
#define TAPE_WRITERS_MAX 65536
#define TAPE_VERSION 1

#define TAPE_MAGIC "FLUXTAPE" /* of 8 bytes */
#define TAPE_SECTION_MAGIC "FSC"

enum tape_kind { TAPE_FORMAT = 1, TAPE_STEP, TAPE_INDEX, TAPE_END, TAPE_RECORDS, TAPE_PINS };

struct tape_section {
    enum tape_kind kind;
    uint64_t number;
    uint64_t time;
    uint64_t len;
    uint64_t check;
    uint64_t link; /* offset of another section, or 0: of an index, of the last one of kind
                    * TAPE_RECORDS; of a step, of the one of kind TAPE_PINS that counts */
};

static inline uint64_t tape_check(const void *data, size_t len)
{
    static const struct siphash_key key;

    return siphash(&key, data, len);
}

static inline uint64_t tape_align(uint64_t n)
{
    return (n + TAPE_SECTION - 1) / TAPE_SECTION * TAPE_SECTION;
}

static inline void tape_section_encode(const struct tape_section *s,
                                       unsigned char buf[TAPE_SECTION])
{
    memset(buf, 0, TAPE_SECTION);
    memcpy(buf, TAPE_SECTION_MAGIC, 3);
    buf[3] = (unsigned char)s->kind;
    le_put64(buf + 8, s->number);
    le_put64(buf + 16, s->time);
    le_put64(buf + 24, s->len);
    le_put64(buf + 32, s->check);
    le_put64(buf + 40, s->link);
    le_put64(buf + 56, tape_check(buf, 56));
}

#endif
