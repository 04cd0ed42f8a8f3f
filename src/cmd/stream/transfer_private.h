/* What transfer.c and export.c share: a process that reads steps and passes them on. */
#ifndef CMD_STREAM_TRANSFER_PRIVATE_H
#define CMD_STREAM_TRANSFER_PRIVATE_H

#include <signal.h>

#include "libstream/stream.h"
#include "opts.h"
#include "transfer.h"

#define TRANSFER_SLICE 0.2 /* seconds between checks for signals */

struct transfer {
    struct cmd *c;
    flux_t *h;  /* of the stream that is read; NULL: not connected yet */
    flux_t *to; /* of the one that is written; NULL: the same */
    flux_stream_t *in;
    flux_stream_t **outs; /* all writers of the stream that is written */
    uint32_t nouts;
    const char *policy;
    bool stay;         /* as in struct flux_stream_opts, */
    uint32_t keep;     /* this too, */
    const char *start; /* and this */
    double timeout;    /* < 0: none */
    uint32_t count;    /* 0: all */
    sigset_t stop;
    bool stopped;
};

/* One of the options that they have in common: CMD_OK or CMD_USAGE. */
int transfer_option(struct transfer *t, int key, const char *val);
/* Open the stream to read: CMD_OK, or CMD_FAIL after an error message. */
int transfer_in_open(struct transfer *t, const char *name);
/* Open a stream for writing, with as many writers as the one that is read has. */
int transfer_outs_open(struct transfer *t, const char *name);
void transfer_outs_close(struct transfer *t);
/* From now on signals are looked for; but those that were ignored. */
void transfer_signals(struct transfer *t);
/* Has a signal come, or does one come within some seconds? */
bool transfer_stopped(struct transfer *t, double seconds);
/* Begin the next step.  1; 0: the end, or a signal; -1 after a sentence. */
int transfer_next(struct transfer *t, uint64_t *step);
/* What the writers of a stream say its variables are, to be freed; NULL: they have not. */
char *transfer_format(struct transfer *t, const char *name);
/* Say the same of the stream that is written.  CMD_OK, or CMD_FAIL after an error message. */
int transfer_define(struct transfer *t, const char *name);
/* Put the step that was begun into the stream that is written, and end it there.  A signal leaves
 * it to be lost. */
int transfer_outs_step(struct transfer *t);
/* Close what is open; readers of what is written are told of a failure, unless `rc` is CMD_OK. */
void transfer_close(struct transfer *t, int rc);

#endif
