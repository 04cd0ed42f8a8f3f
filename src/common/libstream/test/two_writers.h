/* two_writers.h - a stream with two writers and a reader in one thread, for tests of their calls.
 * Each has a handle of its own, and the hook of these handles is the module.
 */
#ifndef STREAM_TWO_WRITERS_H
#define STREAM_TWO_WRITERS_H

#include <jansson.h>

#include "libflux/test/fake.h"
#include "libstream/stream.h"
#include "libutil/test/suite.h"

extern errmsg_t err; /* the last error message */

struct bed {
    struct fake *f[3];   /* of both writers, and the reader */
    flux_stream_t *w[2]; /* the writers */
    flux_stream_t *r;    /* the reader */
    char member[2][512];
    unsigned n;     /* writers that have come */
    json_t *format; /* of records: a response */
    unsigned asked; /* number of requests for it */
};

/* A handle of the session. */
struct fake *party(struct bed *b);
/* Open stream "s" with both writers, and then the reader. */
void bed_init(struct bed *b, const char *policy, uint32_t depth);
void bed_free(struct bed *b);
flux_stream_t *reader_open(struct bed *b, const struct flux_stream_opts *opts);

/* A call has returned -1 with this errno and error message; or no error. */
void fails(int rc, int errnum, const char *text);
void works(int rc);

/* Both writers end their step. */
void end(struct bed *b);
/* The reader begins a step, without waiting. */
int begin(struct bed *b, uint64_t which);
/* Writer k ends a step that has its number; the reader has this step of both, and ends it. */
void put_number(struct bed *b, int k);
void has(struct bed *b, uint64_t step);

#endif
