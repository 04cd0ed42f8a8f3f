/* What the wrexec module and its launcher say to each other, over a stream socket on one machine.
 *
 * A frame is a header of 16 bytes and a payload:
 *    0  u32  payload length, at most WIRE_PAYLOAD_MAX
 *    4  u16  type
 *    6  u16  magic 0x5746
 *    8  u64  job
 * Numbers are in the byte order of the machine, except in output records, which travel on.
 *
 * To the launcher:
 *    RUN        struct wire_run and its strings: start the local tasks of a job
 *    SIGNAL     i32 signal: to the process group of every running task
 *    KILL       (empty): SIGKILL to all there is of the job
 *    STDIN      u32 task (WIRE_ALL: all that have a pipe), data; no data: end of file
 *    CREDIT     u32: so many more bytes of output may be sent
 *    PMI_DONE   i32 rc, then pairs (rc 0) or a sentence: the barrier handed over is complete
 *    PMI_NAMED  u32 task (its number here), i32 rc, then a port (look-up, rc 0) or a sentence: the
 *               answer to its PMI_NAME
 *
 * From the launcher:
 *    OUTPUT     records, see below
 *    STDIN_ACK  u32: so many bytes of standard input were written (or were in vain)
 *    FAIL       i32 exit code, i32 first task (-1: none), u32 count, text: the job cannot go on
 *               (program not found, a task died within MPI, MPI_Abort)
 *    PMI_FENCE  u32 number of the barrier, pairs: all local tasks are in it
 *    PMI_NAME   u32 task (its number here), u32 enum wire_name, service, NUL, port, NUL; one a task
 *               at a time
 *    DONE       i32 wait status for each local task: nothing of the job is left here
 *
 * From flux-pmixd to the launcher, besides FAIL:
 *    PMIX_READY   u32 common, u32 each, strings with their NULs: environment that all tasks get,
 *                 then that of each local task in turn
 *    PMIX_CLIENT  u32 rank, u32 1 (it is there) or 2 (it has finalized)
 *
 * A record of output: u32 task, u32 stream (1 or 2), u32 length, all little-endian; then the bytes.
 *
 * Flow: the launcher sends no more bytes of OUTPUT payload than it was given credit for (it may
 * go over by one record).  The module sends no more bytes of STDIN than WIRE_STDIN_WINDOW
 * unacknowledged.  DONE is the last frame about a job from the launcher; what comes for a job that
 * is not there (any more) is ignored.
 *
 * Functions are pure and thread-safe.
 */
#ifndef WREXEC_WIRE_H
#define WREXEC_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "libutil/errmsg.h"

#define WIRE_HEADER 16
#define WIRE_PAYLOAD_MAX (64u << 20)
#define WIRE_ALL UINT32_MAX
#define WIRE_WINDOW (256u << 10)
#define WIRE_STDIN_WINDOW (256u << 10)
#define WIRE_TASKS_MAX (1u << 16) /* on one node */

enum wire_type {
    WIRE_RUN = 1,
    WIRE_SIGNAL,
    WIRE_KILL,
    WIRE_STDIN,
    WIRE_CREDIT,
    WIRE_PMI_DONE,
    WIRE_PMI_NAMED,
    WIRE_OUTPUT = 16,
    WIRE_STDIN_ACK,
    WIRE_FAIL,
    WIRE_PMI_FENCE,
    WIRE_DONE,
    WIRE_PMI_NAME,
    WIRE_PMIX_READY = 32,
    WIRE_PMIX_CLIENT,
};
enum wire_name { WIRE_NAME_PUBLISH = 1, WIRE_NAME_LOOKUP, WIRE_NAME_UNPUBLISH };
#define WIRE_NAME_MAX 1024 /* bytes of a service or a port */

struct wire_frame {
    enum wire_type type;
    uint64_t job;
    uint32_t len;
    const uint8_t *payload;
};

void wire_header(void *dst, enum wire_type type, uint64_t job, uint32_t len);
/* Look for a frame at the start of `data`: its whole size with *f filled; 0 when more bytes are
 * needed; -1 with EPROTO and a sentence.  Payloads of simple types have been checked for length. */
ptrdiff_t wire_parse(const void *data, size_t len, struct wire_frame *f, errmsg_t *err);

uint32_t wire_u32(const void *p); /* in the machine's order, from any address */
int32_t wire_i32(const void *p);

/* --- output records --- */

#define WIRE_RECORD 12
struct wire_record {
    uint32_t task;
    uint32_t stream;
    uint32_t len;
    const uint8_t *data;
};
void wire_record_header(void *dst, uint32_t task, uint32_t stream, uint32_t len);
/* Take the next record off: 1; 0 at the end; -1 with EPROTO. */
int wire_record_next(const void **p, size_t *left, struct wire_record *rec);

/* --- RUN --- */

enum {
    WIRE_F_EXEC = 1,      /* not a job: no PMI, no job id in the environment */
    WIRE_F_STDIN_ALL = 2, /* every task reads a copy of standard input */
    WIRE_F_STDIN_NONE = 4,
    WIRE_F_MPI_NONE = 8,  /* no PMI */
    WIRE_F_MPI_PMIX = 16, /* a PMIx server instead of PMI-1 */
};
#define WIRE_FLAGS_ALL 31u

struct wire_run {
    uint32_t flags;
    uint32_t nnodes;
    uint32_t node;   /* number of this node in the job */
    uint32_t ntasks; /* of the job, in blocks: see layout.h */
    uint32_t window; /* first credit for output */
    uint32_t argc;
    uint32_t envc;
    uint32_t reserved; /* 0 */
    /* Strings that follow, each with its NUL: WIRE_STRINGS fixed ones, argv, environment. */
    const char *strings;
    size_t strings_len;
};
enum { WIRE_S_CWD, WIRE_S_IN, WIRE_S_OUT, WIRE_S_ERR, WIRE_STRINGS };
#define WIRE_RUN_FIXED 32

/* Payload of RUN without the strings, WIRE_RUN_FIXED bytes. */
void wire_run_put(void *dst, const struct wire_run *run);
/* Strict; pointers lead into the payload.  -1 with EPROTO and a sentence. */
int wire_run_get(const void *data, size_t len, struct wire_run *run, errmsg_t *err);

/* Are these bytes exactly `count` NUL-terminated strings? */
int wire_strings_ok(const char *strings, size_t len, size_t count);

#endif
