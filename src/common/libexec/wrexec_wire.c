/* wrexec_wire.c - messages of the service "wrexec", and the raw layouts that some of them carry
 * (wrexec_wire.h).
 *
 * Failure: EPROTO and an error message for a payload that is cut off or malformed.
 */
#include "wrexec_wire.h"
#include "wrexec_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/le.h"

#define MAGIC "WXR1"
#define HEAD 16
#define JSON_MAX (1 << 20) /* bytes, most of them a set of ranks */

#define OPT FLUX_FIELD_OPTIONAL
#define REQ FLUX_FIELD_REQUIRED

static const struct flux_field run_fields[] = {
    FLUX_FIELD_STR(struct wrexec_run, ranks, REQ),
    FLUX_FIELD_STR(struct wrexec_run, input, OPT),
    FLUX_FIELD_U32(struct wrexec_run, window, OPT),
    FLUX_FIELD_END,
};
const struct flux_schema wrexec_run_schema = FLUX_SCHEMA(struct wrexec_run, run_fields);

static const struct flux_field notice_fields[] = {
    FLUX_FIELD_U64(struct wrexec_notice, id, REQ),
    FLUX_FIELD_STR(struct wrexec_notice, ranks, OPT),
    FLUX_FIELD_INT(struct wrexec_notice, code, OPT),
    FLUX_FIELD_STR(struct wrexec_notice, text, OPT),
    FLUX_FIELD_STR(struct wrexec_notice, warning, OPT),
    FLUX_FIELD_U64(struct wrexec_notice, taken, OPT),
    FLUX_FIELD_END,
};
const struct flux_schema wrexec_notice_schema = FLUX_SCHEMA(struct wrexec_notice, notice_fields);

static const struct flux_field result_fields[] = {
    FLUX_FIELD_INT(struct wrexec_result, code, REQ),
    FLUX_FIELD_STR(struct wrexec_result, text, OPT),
    FLUX_FIELD_ARRAY(struct wrexec_result, status, REQ),
    FLUX_FIELD_ARRAY(struct wrexec_result, failed, OPT),
    FLUX_FIELD_END,
};
const struct flux_schema wrexec_result_schema = FLUX_SCHEMA(struct wrexec_result, result_fields);

static const struct flux_field host_fields[] = {
    FLUX_FIELD_STR(struct wrexec_host, mark, REQ),
    FLUX_FIELD_END,
};
const struct flux_schema wrexec_host_schema = FLUX_SCHEMA(struct wrexec_host, host_fields);

static const struct flux_field task_fields[] = {
    FLUX_FIELD_U64(struct wrexec_task, id, REQ),
    FLUX_FIELD_U32(struct wrexec_task, task, REQ),
    FLUX_FIELD_END,
};
const struct flux_schema wrexec_task_schema = FLUX_SCHEMA(struct wrexec_task, task_fields);

static const struct flux_field end_fields[] = {
    FLUX_FIELD_INT(struct wrexec_end, status, REQ),
    FLUX_FIELD_END,
};
const struct flux_schema wrexec_end_schema = FLUX_SCHEMA(struct wrexec_end, end_fields);

static const struct flux_field signal_fields[] = {
    FLUX_FIELD_U64(struct wrexec_signal, id, REQ),
    FLUX_FIELD_INT(struct wrexec_signal, signum, REQ),
    FLUX_FIELD_U32(struct wrexec_signal, number, OPT),
    FLUX_FIELD_END,
};
const struct flux_schema wrexec_signal_schema = FLUX_SCHEMA(struct wrexec_signal, signal_fields);

static const struct flux_field launch_fields[] = {
    FLUX_FIELD_U64(struct wrexec_launch, id, REQ),
    FLUX_FIELD_U32(struct wrexec_launch, uid, OPT),
    FLUX_FIELD_ARRAY(struct wrexec_launch, nodes, REQ),
    FLUX_FIELD_STR(struct wrexec_launch, names, OPT),
    FLUX_FIELD_STR(struct wrexec_launch, hosts, OPT),
    FLUX_FIELD_STR(struct wrexec_launch, name, OPT),
    FLUX_FIELD_STR(struct wrexec_launch, layout, OPT),
    FLUX_FIELD_STR(struct wrexec_launch, input, OPT),
    FLUX_FIELD_STR(struct wrexec_launch, output, OPT),
    FLUX_FIELD_STR(struct wrexec_launch, affinity, OPT),
    FLUX_FIELD_STR(struct wrexec_launch, gpuaffinity, OPT),
    FLUX_FIELD_STR(struct wrexec_launch, mpi, OPT),
    FLUX_FIELD_BOOL(struct wrexec_launch, label, OPT),
    FLUX_FIELD_BOOL(struct wrexec_launch, killbad, OPT),
    FLUX_FIELD_BOOL(struct wrexec_launch, survive, OPT),
    FLUX_FIELD_U32(struct wrexec_launch, attempt, OPT),
    FLUX_FIELD_BOOL(struct wrexec_launch, nested, OPT),
    FLUX_FIELD_BOOL(struct wrexec_launch, memlimit, OPT),
    FLUX_FIELD_ARRAY(struct wrexec_launch, commands, OPT),
    FLUX_FIELD_BOOL(struct wrexec_launch, crowded, OPT),
    FLUX_FIELD_BOOL(struct wrexec_launch, exec, OPT),
    FLUX_FIELD_BOOL(struct wrexec_launch, overcommit, OPT),
    FLUX_FIELD_U64(struct wrexec_launch, parent, OPT),
    FLUX_FIELD_U32(struct wrexec_launch, first, OPT),
    FLUX_FIELD_U32(struct wrexec_launch, universe, OPT),
    FLUX_FIELD_DOUBLE(struct wrexec_launch, grace, OPT),
    FLUX_FIELD_OBJECT(struct wrexec_launch, rlimits, OPT),
    FLUX_FIELD_OBJECT(struct wrexec_launch, softlimits, OPT),
    FLUX_FIELD_INT(struct wrexec_launch, mask, OPT),
    FLUX_FIELD_U64(struct wrexec_launch, outputlimit, OPT),
    FLUX_FIELD_DOUBLE(struct wrexec_launch, expiration, OPT),
    FLUX_FIELD_END,
};
const struct flux_schema wrexec_launch_schema = FLUX_SCHEMA(struct wrexec_launch, launch_fields);

static const struct flux_field spawned_fields[] = {
    FLUX_FIELD_STR(struct wrexec_spawned, name, REQ),
    FLUX_FIELD_END,
};
const struct flux_schema wrexec_spawned_schema = FLUX_SCHEMA(struct wrexec_spawned, spawned_fields);

static const struct flux_field jobs_fields[] = {
    FLUX_FIELD_ARRAY(struct wrexec_jobs, running, OPT),
    FLUX_FIELD_ARRAY(struct wrexec_jobs, ended, OPT),
    FLUX_FIELD_ARRAY(struct wrexec_jobs, raise, OPT),
    FLUX_FIELD_END,
};
const struct flux_schema wrexec_jobs_schema = FLUX_SCHEMA(struct wrexec_jobs, jobs_fields);

static const struct flux_field ended_fields[] = {
    FLUX_FIELD_U64(struct wrexec_ended, id, REQ),
    FLUX_FIELD_INT(struct wrexec_ended, code, REQ),
    FLUX_FIELD_STR(struct wrexec_ended, text, OPT),
    FLUX_FIELD_STR(struct wrexec_ended, type, OPT),
    FLUX_FIELD_ARRAY(struct wrexec_ended, status, REQ),
    FLUX_FIELD_DOUBLE(struct wrexec_ended, t, REQ),
    FLUX_FIELD_DOUBLE(struct wrexec_ended, t_started, OPT),
    FLUX_FIELD_DOUBLE(struct wrexec_ended, t_exited, OPT),
    FLUX_FIELD_U64(struct wrexec_ended, outputlost, OPT),
    FLUX_FIELD_ARRAY(struct wrexec_ended, failed, OPT),
    FLUX_FIELD_U32(struct wrexec_ended, attempt, OPT),
    FLUX_FIELD_END,
};
const struct flux_schema wrexec_ended_schema = FLUX_SCHEMA(struct wrexec_ended, ended_fields);

static const struct flux_field raise_fields[] = {
    FLUX_FIELD_U64(struct wrexec_raise, id, REQ),
    FLUX_FIELD_STR(struct wrexec_raise, type, REQ),
    FLUX_FIELD_INT(struct wrexec_raise, severity, REQ),
    FLUX_FIELD_STR(struct wrexec_raise, note, REQ),
    FLUX_FIELD_U32(struct wrexec_raise, attempt, OPT),
    FLUX_FIELD_END,
};
const struct flux_schema wrexec_raise_schema = FLUX_SCHEMA(struct wrexec_raise, raise_fields);

static const struct flux_field kill_fields[] = {
    FLUX_FIELD_ARRAY(struct wrexec_kill, ids, REQ),
    FLUX_FIELD_INT(struct wrexec_kill, signum, REQ),
    FLUX_FIELD_END,
};
const struct flux_schema wrexec_kill_schema = FLUX_SCHEMA(struct wrexec_kill, kill_fields);

static const struct flux_field listen_fields[] = {
    FLUX_FIELD_U64(struct wrexec_listen, id, REQ),
    FLUX_FIELD_U32(struct wrexec_listen, window, OPT),
    FLUX_FIELD_BOOL(struct wrexec_listen, input, OPT),
    FLUX_FIELD_U64(struct wrexec_listen, received, OPT),
    FLUX_FIELD_U64(struct wrexec_listen, paid, OPT),
    FLUX_FIELD_U64(struct wrexec_listen, token, OPT),
    FLUX_FIELD_BOOL(struct wrexec_listen, ended, OPT),
    FLUX_FIELD_END,
};
const struct flux_schema wrexec_listen_schema = FLUX_SCHEMA(struct wrexec_listen, listen_fields);

static const struct flux_field stats_fields[] = {
    FLUX_FIELD_U64(struct wrexec_stats, jobs, REQ),
    FLUX_FIELD_U64(struct wrexec_stats, running, REQ),
    FLUX_FIELD_INT(struct wrexec_stats, launcher, REQ),
    FLUX_FIELD_U32(struct wrexec_stats, launchers, REQ),
    FLUX_FIELD_END,
};
const struct flux_schema wrexec_stats_schema = FLUX_SCHEMA(struct wrexec_stats, stats_fields);

void *wrexec_jobreq_encode(const struct jobreq *req, size_t *len)
{
    size_t n = HEAD + req->json_len + req->strings_len;
    uint8_t *p = malloc(n + 1);

    if (!p)
        return NULL;
    memcpy(p, MAGIC, 4);
    le_put32(p + 4, (uint32_t)req->json_len);
    le_put32(p + 8, req->argc);
    le_put32(p + 12, req->envc);
    memcpy(p + HEAD, req->json, req->json_len);
    memcpy(p + HEAD + req->json_len, req->strings, req->strings_len);
    p[n] = '\0';
    *len = n;
    return p;
}

int wrexec_jobreq_decode(const void *data, size_t len, struct jobreq *req, errmsg_t *err)
{
    const uint8_t *p = data;

    if (!p || len < HEAD || memcmp(p, MAGIC, 4) != 0)
        return errmsg_fail(err, EPROTO, "the request to run a process has an invalid format");
    req->json_len = le_get32(p + 4);
    req->argc = le_get32(p + 8);
    req->envc = le_get32(p + 12);
    if (req->json_len > len - HEAD)
        return errmsg_fail(err, EPROTO, "the request to run a process is cut off");
    if (req->json_len > JSON_MAX)
        return errmsg_fail(err, EMSGSIZE,
                           "the request to run a process has %zu bytes of JSON: the limit is %d",
                           req->json_len, JSON_MAX);
    req->json = (const char *)p + HEAD;
    req->strings = req->json + req->json_len;
    req->strings_len = len - HEAD - req->json_len;
    if (req->argc == 0 || !exec_wire_strings_ok(req->strings, req->strings_len,
                                                (size_t)WIRE_STRINGS + req->argc + req->envc))
        return errmsg_fail(err, EPROTO, "the strings of the request to run a process are invalid");
    return 0;
}

static size_t add(char *dst, const char *s)
{
    size_t n = strlen(s) + 1;

    if (dst)
        memcpy(dst, s, n);
    return n;
}

char *wrexec_jobreq_strings(const char *const fixed[WIRE_STRINGS], char *const *argv,
                            char *const *envp, struct jobreq *req)
{
    char *mem = NULL;
    size_t n;

    /* Once to measure, once to copy. */
    for (int pass = 0; pass < 2; pass++) {
        n = 0;
        req->argc = req->envc = 0;
        for (int i = 0; i < WIRE_STRINGS; i++)
            n += add(mem ? mem + n : NULL, fixed[i] ? fixed[i] : "");
        for (; argv[req->argc]; req->argc++)
            n += add(mem ? mem + n : NULL, argv[req->argc]);
        for (; envp[req->envc]; req->envc++)
            n += add(mem ? mem + n : NULL, envp[req->envc]);
        if (!mem && !(mem = malloc(n)))
            return NULL;
    }
    req->strings = mem;
    req->strings_len = n;
    return mem;
}

const char *wrexec_jobreq_string(const struct jobreq *req, size_t i)
{
    const char *p = req->strings;

    while (i-- > 0)
        p += strlen(p) + 1;
    return p;
}

const struct flux_method wrexec_methods[] = {
    {.topic = "wrexec.jobs",
     .flags = FLUX_METHOD_STREAM,
     .response = &wrexec_jobs_schema,
     .what = "to rank 0, from the job module: jobs that have ended"},
    {.topic = "wrexec.launch",
     .takes = "raw: jobs to start",
     .what = "to rank 0, from the job module: start jobs"},
    {.topic = "wrexec.kill",
     .request = &wrexec_kill_schema,
     .gives = "empty object",
     .what = "to rank 0, from the job module: send a signal to all tasks of jobs"},
    {.topic = "wrexec.listen",
     .flags = FLUX_METHOD_STREAM,
     .request = &wrexec_listen_schema,
     .gives = "notices, raw records of output, and last the result",
     .what = "to rank 0: follow a job, or resume that"},
    {.topic = "wrexec.run",
     .flags = FLUX_METHOD_STREAM,
     .takes = "raw: an object, and strings",
     .gives = "as of wrexec.listen",
     .what = "to rank 0: run a program on chosen ranks"},
    {.topic = "wrexec.signal",
     .request = &wrexec_signal_schema,
     .gives = "empty object",
     .what = "to rank 0: send a signal to the tasks of a wrexec.run"},
    {.topic = "wrexec.stdin",
     .takes = "raw: u64 id, u64 position, bytes; none: end of file",
     .what = "to rank 0: standard input"},
    {.topic = "wrexec.credit",
     .takes = "raw: u64 id, u64 responses received, u64 bytes",
     .what = "to rank 0: output that the client has received, and has room for again"},
    {.topic = "wrexec.name",
     .request = &wrexec_name_schema,
     .response = &wrexec_named_schema,
     .what = "to rank 0: publish, look up or unpublish a name; only a look-up has a port"},
    {.topic = "wrexec.spawn",
     .takes = "raw: u64 job, u32 1 if by PMIx, frame SPAWN without its first number",
     .response = &wrexec_spawned_schema,
     .what = "to rank 0, from a rank where a task asks: more tasks for a job that runs"},
    {.topic = "wrexec.tree",
     .flags = FLUX_METHOD_STREAM | FLUX_METHOD_INSTANCES,
     .gives = "raw: frames that go up",
     .what = "to a child in the tree"},
    {.topic = "wrexec.down",
     .flags = FLUX_METHOD_INSTANCES,
     .takes = "raw: frames that go down",
     .what = "to a child in the tree"},
    {.topic = "wrexec.known",
     .takes = "raw: u64 job, u64 random number of its launch; repeated",
     .gives = "raw: those of them that rank 0 does not run",
     .what = "to rank 0, from an instance whose jobs have lost their parent"},
    {.topic = "wrexec.end",
     .flags = FLUX_METHOD_STREAM,
     .request = &wrexec_task_schema,
     .response = &wrexec_end_schema,
     .what = "to the rank of a task: how it ended, once it has"},
    {.topic = "wrexec.stats",
     .response = &wrexec_stats_schema,
     .what = "jobs so far, jobs that run, and the launcher of this rank"},
    FLUX_METHOD_END,
};
