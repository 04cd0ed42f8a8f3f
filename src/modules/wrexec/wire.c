/* Frames between module and launcher: see wire.h for the format. */
#include "wire.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "layout.h"

#define MAGIC 0x5746

static const struct {
    uint32_t min, max;
    bool known;
} lengths[] = {
    [WIRE_RUN] = {WIRE_RUN_FIXED, WIRE_PAYLOAD_MAX, true},
    [WIRE_SIGNAL] = {4, 4, true},
    [WIRE_KILL] = {0, 0, true},
    [WIRE_STDIN] = {4, 4 + WIRE_STDIN_WINDOW, true},
    [WIRE_CREDIT] = {4, 4, true},
    [WIRE_PMI_DONE] = {4, WIRE_PAYLOAD_MAX, true},
    [WIRE_PMI_NAMED] = {8, 8 + 4096, true},
    [WIRE_OUTPUT] = {WIRE_RECORD, WIRE_PAYLOAD_MAX, true},
    [WIRE_STDIN_ACK] = {4, 4, true},
    [WIRE_FAIL] = {12, 12 + 4096, true},
    [WIRE_PMI_FENCE] = {4, WIRE_PAYLOAD_MAX, true},
    [WIRE_DONE] = {4, 4 * WIRE_TASKS_MAX, true},
    [WIRE_PMI_NAME] = {8 + 2, 8 + 2 * (WIRE_NAME_MAX + 1), true},
    [WIRE_PMIX_READY] = {8, WIRE_PAYLOAD_MAX, true},
    [WIRE_PMIX_CLIENT] = {8, 8, true},
};
#define NTYPES (sizeof(lengths) / sizeof(*lengths))

uint32_t wire_u32(const void *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

int32_t wire_i32(const void *p)
{
    return (int32_t)wire_u32(p);
}

void wire_header(void *dst, enum wire_type type, uint64_t job, uint32_t len)
{
    uint16_t t = (uint16_t)type, magic = MAGIC;
    uint8_t *p = dst;

    memcpy(p, &len, 4);
    memcpy(p + 4, &t, 2);
    memcpy(p + 6, &magic, 2);
    memcpy(p + 8, &job, 8);
}

ptrdiff_t wire_parse(const void *data, size_t len, struct wire_frame *f, errmsg_t *err)
{
    const uint8_t *p = data;
    uint16_t type, magic;

    if (len < WIRE_HEADER)
        return 0;
    memcpy(&f->len, p, 4);
    memcpy(&type, p + 4, 2);
    memcpy(&magic, p + 6, 2);
    memcpy(&f->job, p + 8, 8);
    if (magic != MAGIC || type >= NTYPES || !lengths[type].known)
        return errmsg_fail(err, EPROTO, "bytes that are no frame (magic %x, type %u)", magic, type);
    if (f->len < lengths[type].min || f->len > lengths[type].max)
        return errmsg_fail(err, EPROTO, "a frame of type %u with %u bytes", type, f->len);
    if (len < WIRE_HEADER + (size_t)f->len)
        return 0;
    f->type = (enum wire_type)type;
    f->payload = p + WIRE_HEADER;
    return WIRE_HEADER + (ptrdiff_t)f->len;
}

void wire_record_header(void *dst, uint32_t task, uint32_t stream, uint32_t len)
{
    uint32_t h[3] = {htole32(task), htole32(stream), htole32(len)};

    memcpy(dst, h, sizeof(h));
}

int wire_record_next(const void **p, size_t *left, struct wire_record *rec)
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

void wire_run_put(void *dst, const struct wire_run *run)
{
    uint32_t v[8] = {run->flags,  run->nnodes, run->node, run->ntasks,
                     run->window, run->argc,   run->envc, 0};

    memcpy(dst, v, sizeof(v));
}

int wire_strings_ok(const char *strings, size_t len, size_t count)
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

int wire_run_get(const void *data, size_t len, struct wire_run *run, errmsg_t *err)
{
    uint32_t v[8];

    if (len < WIRE_RUN_FIXED)
        return errmsg_fail(err, EPROTO, "a request to start tasks is too short");
    memcpy(v, data, sizeof(v));
    *run = (struct wire_run){.flags = v[0],
                             .nnodes = v[1],
                             .node = v[2],
                             .ntasks = v[3],
                             .window = v[4],
                             .argc = v[5],
                             .envc = v[6],
                             .strings = (const char *)data + WIRE_RUN_FIXED,
                             .strings_len = len - WIRE_RUN_FIXED};
    if (v[7] || (run->flags & ~WIRE_FLAGS_ALL))
        return errmsg_fail(err, EPROTO, "a request to start tasks has unknown flags");
    if (run->nnodes == 0 || run->node >= run->nnodes || run->ntasks < run->nnodes ||
        layout_count(run->ntasks, run->nnodes, run->node) > WIRE_TASKS_MAX)
        return errmsg_fail(err, EPROTO, "%u tasks on node %u of %u make no sense", run->ntasks,
                           run->node, run->nnodes);
    if (run->argc == 0 || !wire_strings_ok(run->strings, run->strings_len,
                                           (size_t)WIRE_STRINGS + run->argc + run->envc))
        return errmsg_fail(err, EPROTO, "the strings of a request to start tasks are damaged");
    return 0;
}
