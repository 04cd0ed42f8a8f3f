/* What root.c and rootjob.c share: jobs as rank 0 sees them. */
#ifndef WREXEC_ROOT_H
#define WREXEC_ROOT_H

#include "libkvs/kvs.h"
#include "libutil/buf.h"
#include "wrexec.h"

enum known { UNKNOWN, ASKED, KNOWN };

struct waiting {
    struct list_node node;
    flux_msg_t *req;
};

struct root {
    struct ctx *ctx;
    enum known ids_state, up_state;
    uint64_t next_id, next_exec;
    bool kvs; /* there is one */
    bool warned;
    idset_t *up;
    struct list_node waiting;
    size_t nwaiting;
    flux_future_t *ids_f, *up_f;
};

struct rootjob {
    struct job *j;
    struct root *root;
    bool exec, detach, keep_output, gone, stored;
    char sender[FLUX_SENDER_MAX];
    uint32_t matchtag;
    flux_msg_t *req; /* the run request */
    char *command;
    int fail_code;
    char *fail_text;
    flux_watcher_t *limit, *grace, *record;
    double limit_seconds;
    flux_kvs_txn_t *txn; /* not yet committed */
    flux_future_t *commit, *final;
    uint64_t *taken; /* standard input to all: taken by each node */
    uint64_t acked;
    buf_t *outbuf;
    uint32_t nchunks;
    uint64_t kept, lost;
};

/* rootjob.c */
/* A job of this client begins: timers and the first half of its record. */
void rootjob_begin(struct rootjob *rj, const struct wrexec_run *run, const struct jobreq *strings);
/* Decide the exit code and the sentence; the first one counts. */
void rootjob_fail(struct rootjob *rj, int code, const char *text);
/* SIGTERM, and SIGKILL after a while. */
void rootjob_terminate(struct rootjob *rj);

#endif
