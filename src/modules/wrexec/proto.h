/* What the wrexec service and those who use it say to each other.
 *
 *    wrexec.run     to rank 0, streaming, raw: struct jobreq with struct wrexec_run as its JSON.
 *                   Responses: JSON struct wrexec_notice (the first says the id), raw output
 *                   records (wire.h), and as the last, not streaming, JSON struct
 *                   wrexec_result; for a detached job the notice with the id is the last.
 *    wrexec.signal  to rank 0, {id, signum} -> {}; SIGKILL ends all there is of the job
 *    wrexec.stdin   to rank 0, no response, raw: u64 id, bytes (none: end of file); at most
 *                   WIRE_STDIN_WINDOW bytes that no notice has acknowledged
 *    wrexec.credit  no response, raw: u64 id, u32 bytes: so much more output may be sent to me
 *    wrexec.list    to rank 0, {} -> {"jobs":[struct wrexec_job...]}
 *
 * Between instances:
 *    wrexec.start   to a child in the tree, streaming, raw: struct jobreq with struct
 *                   wrexec_start; responses as of wrexec.run
 *    wrexec.ctl     to a child, no response, {id, signum}
 *
 * Numbers in raw payloads are little-endian.
 *
 * Functions are pure and thread-safe.
 */
#ifndef WREXEC_PROTO_H
#define WREXEC_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libflux/schema.h"
#include "libutil/errmsg.h"
#include "wire.h"

/* A request to run something: JSON, and strings that JSON cannot carry.
 *    "WXR1", u32 length of JSON, u32 argc, u32 envc, JSON, strings as of struct wire_run */
struct jobreq {
    const char *json; /* not NUL-terminated */
    size_t json_len;
    uint32_t argc;
    uint32_t envc;
    const char *strings;
    size_t strings_len;
};
/* malloc'd; *len its length, one more byte is there for flux_msg_take_raw().  NULL with ENOMEM. */
void *jobreq_encode(const struct jobreq *req, size_t *len);
/* Strict; pointers lead into `data`.  -1 with EPROTO and a sentence. */
int jobreq_decode(const void *data, size_t len, struct jobreq *req, errmsg_t *err);
/* Gather the strings; malloc'd.  NULLs count as "".  NULL with ENOMEM. */
char *jobreq_strings(const char *const fixed[WIRE_STRINGS], char *const *argv, char *const *envp,
                     struct jobreq *req);
/* String number i of the request: the fixed ones, then argv, then the environment. */
const char *jobreq_string(const struct jobreq *req, size_t i);

struct wrexec_run {
    bool exec;       /* flux exec: one task on each of `ranks`; no job: no id, no record, no PMI */
    bool detach;     /* answer with the id as soon as the job is on record */
    uint32_t nnodes; /* 0: as many as there are, up to ntasks */
    uint32_t ntasks; /* 0: one a node */
    uint32_t cores;  /* a task, for the record */
    const char *ranks; /* idset: where to run; NULL: the first that are up */
    const char *input; /* "first", "all", "none": which tasks read standard input */
    double limit;      /* seconds; 0: none */
    uint32_t window;   /* first credit for output */
};
extern const struct flux_schema wrexec_run_schema;

struct wrexec_start {
    uint64_t id;
    const char *ranks;
    uint32_t ntasks;
    uint32_t flags; /* WIRE_F_* */
    uint32_t window;
};
extern const struct flux_schema wrexec_start_schema;

/* One of: started (`ranks`), failing (`text`; what is left will be killed), standard input taken
 * (`taken` bytes on node `node`). */
struct wrexec_notice {
    uint64_t id;
    const char *ranks;
    int code;
    const char *text;
    uint64_t taken;
    uint32_t node;
};
extern const struct flux_schema wrexec_notice_schema;

struct wrexec_result {
    int code;         /* exit code of the whole: of what ended it, else of the worst task */
    const char *text; /* what ended it; NULL: the tasks did */
    json_t *status;   /* [[wait status, "tasks"], ...] */
};
extern const struct flux_schema wrexec_result_schema;

struct wrexec_signal {
    uint64_t id;
    int signum;
};
extern const struct flux_schema wrexec_signal_schema;

struct wrexec_job {
    uint64_t id;
    const char *state;
    const char *ranks;
    uint32_t nnodes;
    uint32_t ntasks;
    const char *command;
};
extern const struct flux_schema wrexec_job_schema;

#define WREXEC_CLIENT_WINDOW (1u << 20)
#define WREXEC_STDIN_HEAD 8
#define WREXEC_CREDIT_SIZE 12

#endif
