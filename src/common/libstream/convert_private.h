/* How the two files of conversions see a conversion: convert.c makes it, convert_run.c does it. */
#ifndef STREAM_CONVERT_PRIVATE_H
#define STREAM_CONVERT_PRIVATE_H

#include "convert.h"
#include "format_private.h"

/* Bytes that are copied as they are, offsets in the fixed parts. */
struct convert_move {
    size_t from, to, len;
};

/* Elements in place that are converted. */
struct convert_loop {
    const struct stream_field *from;
    size_t to;    /* offset */
    size_t bytes; /* written there */
    stream_elem_f convert;
};

/* A size of arrays: it is read once, and written where the reader wants it. */
struct convert_size {
    const struct stream_field *from;
    const struct stream_field *to; /* NULL: the reader does not want it */
};

/* What a field of the reader gets that nobody wrote, unless it is zeros. */
struct convert_fill {
    const struct stream_field *to;       /* NULL: zeros will do */
    const char *string;                  /* of strings */
    const struct convert_record *record; /* of records in place */
    char value[16];                      /* of others */
};

/* A field that is more than elements in place. */
struct convert_part {
    const struct stream_field *from;
    const struct stream_field *to;       /* NULL: skipped */
    stream_elem_f convert;               /* numbers and the like */
    bool copies;                         /* ...of which each is copied as it is */
    const struct convert_record *record; /* records */
    struct convert_fill absent;          /* if it is absent, or one of its pointers is null */
};

/* What becomes of a record of `from` that is to be one of `to`. */
struct convert_record {
    const stream_format_t *from; /* NULL: nobody wrote it */
    const stream_format_t *to;   /* NULL: skipped */
    bool same;                   /* one copy does it */
    bool quiet;                  /* there is nothing to check, and nothing that needs memory */
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
    struct convert_record *records; /* all of them */
};

#endif
