/* exec_wire.c - frames between the module and the launcher (format: exec_wire.h).
 *
 * The table `lengths` has the bounds of the payload of each type, so no reader of a payload has to
 * check its length again.
 *
 * Failure: a frame out of bounds is WIRE_BAD, and ends the job that it names; a header without the
 * magic number ends the connection.
 */
#include "exec_wire.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/le.h"

#define MAGIC 0x5746

static const struct {
    uint32_t min, max;
    bool known;
} lengths[] = {
    [WIRE_LAUNCH] = {WIRE_LAUNCH_HEAD + 2 + 20, WIRE_PAYLOAD_MAX, true},
    [WIRE_TAKEN] = {WIRE_ROUND + 12, WIRE_ROUND + 12, true},
    [WIRE_RESULT] = {WIRE_ROUND, WIRE_PAYLOAD_MAX, true},
    [WIRE_CONFIG] = {WIRE_CONFIG_STRINGS, 1u << 20, true},
    [WIRE_RUN] = {WIRE_RUN_FIXED, WIRE_PAYLOAD_MAX, true},
    [WIRE_SIGNAL] = {4, 4, true},
    [WIRE_KILL] = {0, 0, true},
    [WIRE_STDIN] = {4, 4 + WIRE_STDIN_WINDOW, true},
    [WIRE_CREDIT] = {4, 4, true},
    [WIRE_PMI_DONE] = {4, WIRE_PAYLOAD_MAX, true},
    [WIRE_ASK_END] = {4, 4, true},
    [WIRE_PMI_NAMED] = {8, 8 + 4096, true},
    [WIRE_OUTPUT] = {WIRE_RECORD, WIRE_PAYLOAD_MAX, true},
    [WIRE_STDIN_ACK] = {4, 4, true},
    [WIRE_FAIL] = {12, 12 + 4096, true},
    [WIRE_PMI_FENCE] = {4, WIRE_PAYLOAD_MAX, true},
    [WIRE_END] = {8, 8, true},
    [WIRE_DONE] = {WIRE_TIMES + 4, WIRE_TIMES + 4 * WIRE_TASKS_MAX, true},
    [WIRE_NOTE] = {1, 4096, true},
    [WIRE_BEGUN] = {0, WIRE_ROUND, true},
    [WIRE_PMI_NAME] = {8 + 2, 8 + 2 * (WIRE_NAME_MAX + 1), true},
    [WIRE_SPAWNED] = {8, 8 + 4096, true},
    [WIRE_SPAWN] = {WIRE_SPAWN_HEAD + WIRE_STRINGS, WIRE_PAYLOAD_MAX, true},
    [WIRE_STARTED] = {0, WIRE_ROUND + 4, true},
    [WIRE_WARNING] = {1, 4096, true},
    [WIRE_LOST] = {WIRE_ROUND + 2, WIRE_PAYLOAD_MAX, true},
    [WIRE_SWEPT] = {4, 4, true},
    [WIRE_PMIX_READY] = {8, WIRE_PAYLOAD_MAX, true},
    [WIRE_PMIX_CLIENT] = {8, 8, true},
    [WIRE_PMIX_JOIN] = {4, WIRE_PAYLOAD_MAX, true},
    [WIRE_PMIX_LEAVE] = {0, 0, true},
    [WIRE_NUMBERED] = {WIRE_NUMBERED_HEAD + 1, WIRE_PAYLOAD_MAX, true},
    [WIRE_INPUT] = {16, 16 + WIRE_STDIN_WINDOW, true},
    [WIRE_ACK] = {16, 16, true},
    [WIRE_AGAIN] = {8, 8, true},
    [WIRE_OVER] = {0, 0, true},
    [WIRE_NTH_SIGNAL] = {8, 8, true},
};
#define NTYPES (sizeof(lengths) / sizeof(*lengths))

uint32_t exec_wire_u32(const void *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

int32_t exec_wire_i32(const void *p)
{
    return (int32_t)exec_wire_u32(p);
}

void exec_wire_header(void *dst, enum wire_type type, uint64_t job, uint32_t len)
{
    uint8_t *p = dst;

    le_put32(p, len);
    le_put16(p + 4, (uint16_t)type);
    le_put16(p + 6, MAGIC);
    le_put64(p + 8, job);
}

int exec_wire_put(buf_t *b, enum wire_type type, uint64_t job, const struct iovec *iov, int n)
{
    size_t len = 0;
    uint8_t *p;

    for (int i = 0; i < n; i++)
        len += iov[i].iov_len;
    if (len > WIRE_PAYLOAD_MAX) {
        errno = EMSGSIZE;
        return -1;
    }
    if (!(p = buf_reserve(b, WIRE_HEADER + len)))
        return -1;
    exec_wire_header(p, type, job, (uint32_t)len);
    p += WIRE_HEADER;
    for (int i = 0; i < n; i++) {
        if (iov[i].iov_len)
            memcpy(p, iov[i].iov_base, iov[i].iov_len);
        p += iov[i].iov_len;
    }
    buf_commit(b, WIRE_HEADER + len);
    return 0;
}

static bool fits(uint32_t type, uint32_t len)
{
    return type < NTYPES && lengths[type].known && len >= lengths[type].min &&
           len <= lengths[type].max;
}

ptrdiff_t exec_wire_parse(const void *data, size_t len, struct wire_frame *f, errmsg_t *err)
{
    const uint8_t *p = data;
    uint16_t type, magic;

    if (len < WIRE_HEADER)
        return 0;
    f->len = le_get32(p);
    type = le_get16(p + 4);
    magic = le_get16(p + 6);
    f->job = le_get64(p + 8);
    if (magic != MAGIC)
        return errmsg_fail(err, EPROTO, "bytes that are not a frame (magic %x)", magic);
    if (f->len > WIRE_PAYLOAD_MAX)
        return errmsg_fail(err, EPROTO, "a frame of type %u with %u bytes", type, f->len);
    if (len < WIRE_HEADER + (size_t)f->len)
        return 0;
    f->said = type;
    f->type = (enum wire_type)type;
    if (!fits(type, f->len)) {
        errmsg_set(err, "a frame of type %u with %u bytes", type, f->len);
        f->type = WIRE_BAD;
    }
    f->payload = p + WIRE_HEADER;
    return WIRE_HEADER + (ptrdiff_t)f->len;
}

void exec_wire_job_name(char name[WIRE_JOB_NAME_MAX], uint64_t job, uint64_t nonce)
{
    snprintf(name, WIRE_JOB_NAME_MAX, "job.%" PRIu64 ".%016" PRIx64, job, nonce);
}

void exec_wire_times_put(void *dst, const struct wire_times *t)
{
    le_put64(dst, t->started);
    le_put64((uint8_t *)dst + 8, t->exited);
}

int exec_wire_times_get(const void *p, struct wire_times *t, errmsg_t *err)
{
    uint64_t started = le_get64(p), exited = le_get64((const uint8_t *)p + 8);

    if (!started != !exited || exited < started)
        return errmsg_fail(err, EPROTO, "impossible times of tasks");
    *t = (struct wire_times){started, exited};
    return 0;
}

void exec_wire_launch_put(void *dst, const struct wire_launch *l)
{
    le_put32(dst, l->round);
    le_put32((uint8_t *)dst + 4, l->credit);
    le_put64((uint8_t *)dst + 8, l->nonce);
}

int exec_wire_launch_get(const struct wire_frame *f, struct wire_launch *l, errmsg_t *err)
{
    const uint8_t *p = f->payload + WIRE_LAUNCH_HEAD, *end = f->payload + f->len;
    const uint8_t *nul = memchr(p, '\0', (size_t)(end - p));

    *l = (struct wire_launch){.round = le_get32(f->payload),
                              .credit = le_get32(f->payload + 4),
                              .nonce = le_get64(f->payload + 8),
                              .ranks = (const char *)p};
    if (!nul)
        return errmsg_fail(err, EPROTO, "a job to be launched comes without its ranks");
    l->job = nul + 1;
    l->job_len = (size_t)(end - nul) - 1;
    return 0;
}

void exec_wire_numbered_put(void *dst, const struct wire_numbered *n)
{
    le_put32(dst, n->round);
    le_put32((uint8_t *)dst + 4, n->rank);
    le_put64((uint8_t *)dst + 8, n->number);
    le_put32((uint8_t *)dst + 16, n->f.type);
}

int exec_wire_numbered_get(const struct wire_frame *f, struct wire_numbered *n)
{
    uint32_t type = le_get32(f->payload + 16), len = f->len - WIRE_NUMBERED_HEAD;

    if ((type != WIRE_OUTPUT && type != WIRE_FAIL && type != WIRE_NOTE && type != WIRE_WARNING) ||
        !fits(type, len)) {
        errno = EPROTO;
        return -1;
    }
    *n = (struct wire_numbered){.round = le_get32(f->payload),
                                .rank = le_get32(f->payload + 4),
                                .number = le_get64(f->payload + 8),
                                .f = {.type = (enum wire_type)type,
                                      .said = type,
                                      .job = f->job,
                                      .len = len,
                                      .payload = f->payload + WIRE_NUMBERED_HEAD}};
    return 0;
}

void exec_wire_record_header(void *dst, uint32_t task, uint32_t stream, uint32_t len)
{
    uint32_t h[3] = {htole32(task), htole32(stream), htole32(len)};

    memcpy(dst, h, sizeof(h));
}

int exec_wire_record_next(const void **p, size_t *left, struct wire_record *rec)
{
    uint32_t h[3];

    if (*left == 0)
        return 0;
    if (*left >= WIRE_RECORD) {
        memcpy(h, *p, sizeof(h));
        rec->task = le32toh(h[0]);
        rec->stream = le32toh(h[1]);
        rec->len = le32toh(h[2]);
        rec->data = (const uint8_t *)*p + WIRE_RECORD;
        if ((rec->stream == 1 || rec->stream == 2) && rec->len <= *left - WIRE_RECORD) {
            *p = rec->data + rec->len;
            *left -= WIRE_RECORD + (size_t)rec->len;
            return 1;
        }
    }
    errno = EPROTO;
    return -1;
}

int exec_wire_strings_ok(const char *strings, size_t len, size_t count)
{
    const char *p = strings, *end = strings + len;

    for (size_t i = 0; i < count; i++) {
        p = p < end ? memchr(p, '\0', (size_t)(end - p)) : NULL;
        if (!p)
            return 0;
        p++;
    }
    return p == end;
}

void exec_wire_run_put(void *dst, const struct wire_run *run)
{
    uint32_t v[11] = {run->flags,     run->node,   run->window,  run->argc,
                      run->envc,      run->nfiles, run->nruns,   run->nlimits,
                      run->ncommands, run->first,  run->universe};
    uint64_t q[6] = {run->memory, run->expiration, run->grace, run->nonce, run->mask, run->parent};

    memcpy(dst, v, sizeof(v));
    memcpy((uint8_t *)dst + sizeof(v), q, sizeof(q));
}

static int run_size(struct wire_run *run)
{
    uint64_t nodes = 0, tasks = 0, own = 0;

    for (uint32_t i = 0; i < run->nruns; i++) {
        struct layout_run r;

        memcpy(&r, (const uint8_t *)run->runs + i * sizeof(r), sizeof(r));
        if (r.nodes == 0 || r.each == 0)
            return -1;
        if (run->node >= nodes && run->node - nodes < r.nodes)
            own = r.each;
        nodes += r.nodes;
        tasks += (uint64_t)r.nodes * r.each;
        if (tasks > LAYOUT_TASKS_MAX)
            return -1;
    }
    run->nnodes = (uint32_t)nodes;
    run->ntasks = (uint32_t)tasks;
    return own == 0 || own > WIRE_TASKS_MAX ? -1 : 0;
}

/* Do the commands add up to the tasks and words of the request? */
static int run_commands(const struct wire_run *run)
{
    uint64_t tasks = 0, words = 0;

    if (run->parent ? run->ncommands == 0 : run->first > 0)
        return -1;
    for (uint32_t i = 0; i < run->ncommands; i++) {
        struct wire_command c;

        memcpy(&c, (const uint8_t *)run->commands + i * sizeof(c), sizeof(c));
        if (c.ntasks == 0 || c.argc <= WIRE_COMMAND_ARGV)
            return -1;
        tasks += c.ntasks;
        words += (uint64_t)c.argc + c.envc;
    }
    return run->ncommands == 0 || (tasks == run->ntasks && words == run->argc) ? 0 : -1;
}

int exec_wire_run_get(const void *data, size_t len, struct wire_run *run, errmsg_t *err)
{
    uint64_t rest, nstrings, q[6];
    uint32_t v[11];

    if (len < WIRE_RUN_FIXED)
        return errmsg_fail(err, EPROTO, "a request to start tasks is too short");
    memcpy(v, data, sizeof(v));
    memcpy(q, (const uint8_t *)data + sizeof(v), sizeof(q));
    *run = (struct wire_run){.flags = v[0],
                             .node = v[1],
                             .window = v[2],
                             .argc = v[3],
                             .envc = v[4],
                             .nfiles = v[5],
                             .nruns = v[6],
                             .nlimits = v[7],
                             .ncommands = v[8],
                             .first = v[9],
                             .universe = v[10],
                             .memory = q[0],
                             .expiration = q[1],
                             .grace = q[2],
                             .nonce = q[3],
                             .mask = q[4],
                             .parent = q[5]};
    if (run->flags & ~WIRE_FLAGS_ALL)
        return errmsg_fail(err, EPROTO, "a request to start tasks has unknown flags");
    rest = (uint64_t)run->nruns * sizeof(struct layout_run) +
           (uint64_t)run->nlimits * sizeof(struct wire_limit) +
           (uint64_t)run->ncommands * sizeof(struct wire_command);
    if (run->nlimits > WIRE_LIMITS_MAX || run->ncommands > WIRE_COMMANDS_MAX ||
        rest > len - WIRE_RUN_FIXED)
        return errmsg_fail(err, EPROTO, "a request to start tasks is cut off");
    run->runs = (const uint8_t *)data + WIRE_RUN_FIXED;
    run->limits = (const uint8_t *)run->runs + run->nruns * sizeof(struct layout_run);
    run->commands = (const uint8_t *)run->limits + run->nlimits * sizeof(struct wire_limit);
    run->strings = (const char *)data + WIRE_RUN_FIXED + rest;
    run->strings_len = len - WIRE_RUN_FIXED - (size_t)rest;
    if (run_size(run) < 0)
        return errmsg_fail(err, EPROTO, "the layout of node %u is inconsistent", run->node);
    if (run_commands(run) < 0)
        return errmsg_fail(err, EPROTO,
                           "the commands of a request to start tasks are inconsistent");
    nstrings =
        (uint64_t)WIRE_NODE_STRINGS + WIRE_STRINGS + 2ull * run->nfiles + run->argc + run->envc;
    if (run->argc == 0 || nstrings > run->strings_len ||
        !exec_wire_strings_ok(run->strings, run->strings_len, (size_t)nstrings))
        return errmsg_fail(err, EPROTO, "the strings of a request to start tasks are invalid");
    return 0;
}

layout_t *exec_wire_run_layout(const struct wire_run *run, errmsg_t *err)
{
    struct layout_run few[16], *runs = few;
    layout_t *l;

    if (run->nruns > 16 && !(runs = malloc(run->nruns * sizeof(*runs)))) {
        errmsg_fail(err, ENOMEM, "out of memory for the layout of a job");
        return NULL;
    }
    memcpy(runs, run->runs, run->nruns * sizeof(*runs));
    l = exec_layout_create(run->flags & WIRE_F_CYCLIC ? LAYOUT_CYCLIC : LAYOUT_BLOCK, runs,
                           run->nruns, err);
    if (runs != few)
        free(runs);
    return l;
}
