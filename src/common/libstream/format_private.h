/* The internals of formats, for the files of libstream. */
#ifndef STREAM_FORMAT_PRIVATE_H
#define STREAM_FORMAT_PRIVATE_H

#include "format.h"
#include "libutil/hmap.h"

/* Bytes of a record that belong to no field. */
struct stream_hole {
    size_t offset, len;
};

struct stream_format {
    int refs;
    char *name;
    size_t size, align, pointer;
    struct stream_attr *attrs;
    size_t nfields;
    struct stream_field *fields;
    hmap_t *index;                  /* name -> struct stream_field */
    size_t sizes[STREAM_SIZES_MAX]; /* fields that are sizes of arrays */
    unsigned nsizes;
    struct stream_hole *holes;
    size_t nholes;
    unsigned depth; /* depth of nested formats */
    bool flat;      /* no pointers */
    bool plain;     /* flat, without holes, also in nested formats */
    bool truth;     /* has truth values in place */
    char *text;     /* NULL in formats of fields */
    uint8_t hash[32];
};

/* The place of field number `field` among the sizes of its format. */
static inline unsigned stream_format_size_index(const stream_format_t *f, size_t field)
{
    unsigned i = 0;

    while (i + 1 < f->nsizes && f->sizes[i] != field)
        i++;
    return i;
}

/* Print the text of a new format, and hash it.  0, or -1 with E2BIG or ENOMEM. */
int stream_format_text_make(stream_format_t *f, errmsg_t *err);

#endif
