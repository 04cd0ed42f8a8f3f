/* What stream.c, stream_writer.c and stream_reader.c share. */
#ifndef STREAM_PRIVATE_H
#define STREAM_PRIVATE_H

#include <stdbool.h>

#include "libflux/future.h"
#include "libstream/block.h"
#include "libstream/inlet.h"
#include "libstream/knock.h"
#include "libstream/outlet.h"
#include "libstream/stream.h"

#define STREAM_OPEN_TIMEOUT 30.

struct stream_source; /* a reader's: one writer */

struct flux_stream {
    flux_t *h;
    char *name;
    enum flux_stream_mode mode;
    flux_future_t *f; /* stream.write or stream.read: open as long as this is */
    uint64_t step;    /* see flux_stream_step() */

    /* Writer. */
    outlet_t *out;
    block_t *vars;       /* of the step, */
    const void **values; /* and where their values are */
    size_t room;         /* of `values` */
    uint64_t id;         /* of this writer in the stream */
    double counted;      /* when it last told the module how far it is */

    /* Reader. */
    struct knock_want want;
    struct stream_source *sources; /* by rank of the writer */
    uint32_t nsources;
    bool begun;
};

/* 0, or -1 with errno and an error message. */
int stream_writer_open(flux_stream_t *s, const struct flux_stream_opts *opts, errmsg_t *err);
int stream_writer_end(flux_stream_t *s, double timeout, errmsg_t *err);
void stream_writer_close(flux_stream_t *s);
int stream_reader_open(flux_stream_t *s, const struct flux_stream_opts *opts, errmsg_t *err);
int stream_reader_end(flux_stream_t *s, errmsg_t *err);
void stream_reader_close(flux_stream_t *s);

#endif
