/* The plan of a conversion: convert.c makes it, convert_run.c executes it. */
#ifndef STREAM_CONVERT_PRIVATE_H
#define STREAM_CONVERT_PRIVATE_H

#include "convert.h"
#include "format_private.h"

/* Bytes to be copied; offsets in the fixed parts. */
struct convert_move {
    size_t from, to, len;
};

/* Elements in place to be converted. */
struct convert_loop {
    const struct stream_field *from;
    size_t to;    /* offset */
    size_t bytes; /* number of bytes written there */
    stream_elem_f convert;
};

/* A size of arrays: it is read once, and written to the reader's field. */
struct convert_size {
    const struct stream_field *from;
    const struct stream_field *to; /* NULL: the reader does not have it */
};

/* The content of a reader's field that the writer does not have, unless it is zeros. */
struct convert_fill {
    const struct stream_field *to;       /* NULL: the content is zeros */
    const char *string;                  /* of strings */
    const struct convert_record *record; /* of records in place */
    char value[16];                      /* of other types */
};

/* A field that is not just elements in place. */
struct convert_part {
    const struct stream_field *from;
    const struct stream_field *to;       /* NULL: skipped */
    stream_elem_f convert;               /* numbers and the like */
    bool copies;                         /* ...each of which is copied unchanged */
    const struct convert_record *record; /* records */
    struct convert_fill absent;          /* if it is absent, or one of its pointers is null */
};

/* The conversion of a record of `from` to a record of `to`. */
struct convert_record {
    const stream_format_t *from; /* NULL: the writer does not have it */
    const stream_format_t *to;   /* NULL: skipped */
    bool same;                   /* one copy converts the record */
    bool quiet;                  /* there is nothing to check, and nothing needs memory */
    bool full;                   /* moves and loops write every byte */
    bool flat;                   /* there are moves and loops only */
    struct convert_move *moves;
    size_t nmoves;
    struct convert_loop *loops;
    size_t nloops;
    struct convert_size sizes[STREAM_SIZES_MAX];
    struct convert_part *parts;
    size_t nparts;
    struct convert_fill *fills;
    size_t nfills;
    struct convert_record *next; /* in the list of all */
};

struct stream_convert {
    stream_format_t *from;
    stream_format_t *to;
    enum stream_order order;
    bool in_place;
    struct convert_record *top;
    struct convert_record *records; /* list of all records */
};

#endif
