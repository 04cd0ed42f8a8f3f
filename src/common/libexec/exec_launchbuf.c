/* exec_launchbuf.c - the payload of wrexec.launch: see wrexec_wire.h for its format.
 *
 * The environment of a job is by far its largest part, and jobs that are submitted together mostly
 * have the same environment.  Therefore it is written once for a sequence of jobs with equal
 * environments.
 */
#include "wrexec_wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/buf.h"
#include "libutil/le.h"

#define MAGIC "WXL1"
#define MAGIC_LEN 4
#define HEAD LAUNCHREC_HEAD
#define SAME UINT32_MAX

struct launchbuf {
    buf_t *buf;
    size_t count;
    size_t env_at, env_len; /* of the last environment that was written */
};

launchbuf_t *exec_launchbuf_create(void)
{
    launchbuf_t *b = calloc(1, sizeof(*b));

    if (b && !(b->buf = buf_create(0))) {
        free(b);
        b = NULL;
    }
    return b;
}

void exec_launchbuf_destroy(launchbuf_t *b)
{
    int errnum = errno;

    if (!b)
        return;
    buf_destroy(b->buf);
    free(b);
    errno = errnum;
}

size_t exec_launchbuf_count(const launchbuf_t *b)
{
    return b->count;
}

static size_t add(char *dst, size_t at, const char *s)
{
    size_t n = s ? strlen(s) + 1 : 1;

    if (dst)
        memcpy(dst + at, s ? s : "", n);
    return n;
}

/* Write the strings to `dst`, or with dst NULL only measure them.  Returns their length. */
static size_t put_strings(char *dst, const struct launchreq *req, uint32_t *argc)
{
    size_t n = 0;

    for (int i = 0; i < WIRE_STRINGS; i++)
        n += add(dst, n, req->fixed[i]);
    for (size_t i = 0; i < 2 * req->nfiles; i++)
        n += add(dst, n, req->files[i]);
    for (*argc = 0; req->argv[*argc]; (*argc)++)
        n += add(dst, n, req->argv[*argc]);
    return n;
}

static int same_env(const launchbuf_t *b, const struct launchreq *req)
{
    const char *data = buf_data(b->buf);

    return b->count > 0 && b->env_len == req->envlen &&
           (req->envlen == 0 || memcmp(data + b->env_at, req->env, req->envlen) == 0);
}

int exec_launchbuf_add(launchbuf_t *b, const struct launchreq *req)
{
    const char *env = req->env;
    size_t jlen, slen, elen, head = b->count ? 0 : MAGIC_LEN, total, before;
    uint32_t argc;
    char *json, *p;
    int same;

    if (!req->argv || !req->argv[0] || (req->envlen && env[req->envlen - 1] != '\0')) {
        errno = EINVAL;
        return -1;
    }
    if (!(json = flux_schema_encode(&wrexec_launch_schema, req->launch)))
        return -1;
    jlen = strlen(json);
    slen = put_strings(NULL, req, &argc);
    same = same_env(b, req);
    elen = same ? 0 : req->envlen;
    total = head + HEAD + jlen + slen + elen;
    before = buf_len(b->buf);
    if (before + total > LAUNCH_MAX || total > LAUNCH_MAX) {
        free(json);
        errno = EMSGSIZE;
        return -1;
    }
    if (!(p = buf_reserve(b->buf, total))) {
        free(json);
        errno = ENOMEM;
        return -1;
    }
    if (head)
        memcpy(p, MAGIC, MAGIC_LEN);
    p += head;
    le_put32((uint8_t *)p, (uint32_t)jlen);
    le_put32((uint8_t *)p + 4, (uint32_t)req->nfiles);
    le_put32((uint8_t *)p + 8, argc);
    le_put32((uint8_t *)p + 12, (uint32_t)slen);
    le_put32((uint8_t *)p + 16, same ? SAME : (uint32_t)elen);
    memcpy(p + HEAD, json, jlen);
    put_strings(p + HEAD + jlen, req, &argc);
    if (elen)
        memcpy(p + HEAD + jlen + slen, env, elen);
    buf_commit(b->buf, total);
    if (!same) {
        b->env_at = before + total - elen;
        b->env_len = elen;
    }
    b->count++;
    free(json);
    return 0;
}

void *exec_launchbuf_take(launchbuf_t *b, size_t *len)
{
    size_t n = buf_len(b->buf);
    char *p;

    if (b->count == 0) {
        errno = ENOENT;
        return NULL;
    }
    if (!(p = malloc(n + 1)))
        return NULL;
    memcpy(p, buf_data(b->buf), n);
    p[n] = '\0';
    buf_consume(b->buf, n);
    b->count = 0;
    *len = n;
    return p;
}

/* --- decoding --- */

static int bad(errmsg_t *err, const char *why)
{
    return errmsg_fail(err, EPROTO, "a request to launch jobs %s", why);
}

static int count_env(const char *env, size_t len, uint32_t *n)
{
    *n = 0;
    for (const char *p = env, *end = env + len; p < end; (*n)++) {
        if (!(p = memchr(p, '\0', (size_t)(end - p))))
            return -1;
        p++;
    }
    return 0;
}

void exec_launchrec_head(void *dst, const struct launchrec *rec)
{
    uint8_t *p = dst;

    le_put32(p, (uint32_t)rec->json_len);
    le_put32(p + 4, rec->nfiles);
    le_put32(p + 8, rec->argc);
    le_put32(p + 12, (uint32_t)rec->strings_len);
    le_put32(p + 16, (uint32_t)rec->env_len);
}

/* Decode one job at `p`, of at most `left` bytes, into *rec, which holds the preceding job.
 * Returns the length of the job, or -1.
 */
static ptrdiff_t get_one(const uint8_t *p, size_t left, struct launchrec *rec, errmsg_t *err)
{
    uint64_t nstrings;
    uint32_t elen;

    if (left < HEAD)
        return bad(err, "is cut off");
    left -= HEAD;
    rec->json_len = le_get32(p);
    rec->nfiles = le_get32(p + 4);
    rec->argc = le_get32(p + 8);
    rec->strings_len = le_get32(p + 12);
    elen = le_get32(p + 16);
    rec->json = (const char *)p + HEAD;
    rec->strings = rec->json + rec->json_len;
    if (rec->json_len > left || rec->strings_len > left - rec->json_len ||
        (elen != SAME && elen > left - rec->json_len - rec->strings_len))
        return bad(err, "is cut off");
    nstrings = (uint64_t)WIRE_STRINGS + 2ull * rec->nfiles + rec->argc;
    if (rec->argc == 0 || nstrings > rec->strings_len ||
        !exec_wire_strings_ok(rec->strings, rec->strings_len, (size_t)nstrings))
        return bad(err, "has invalid strings");
    if (elen != SAME) {
        rec->env = rec->strings + rec->strings_len;
        rec->env_len = elen;
        if (count_env(rec->env, elen, &rec->envc) < 0)
            return bad(err, "has an invalid environment");
    } else if (!rec->env) {
        return bad(err, "refers to an environment that does not exist");
    }
    return (ptrdiff_t)(HEAD + rec->json_len + rec->strings_len + (elen == SAME ? 0 : elen));
}

int exec_launchrec_next(const void *data, size_t len, size_t *pos, struct launchrec *rec,
                        errmsg_t *err)
{
    const uint8_t *p = data;
    ptrdiff_t n;

    if (*pos == 0) {
        if (!p || len < MAGIC_LEN || memcmp(p, MAGIC, MAGIC_LEN) != 0)
            return bad(err, "has an invalid format");
        *pos = MAGIC_LEN;
        memset(rec, 0, sizeof(*rec));
    }
    if (*pos == len)
        return 0;
    if ((n = get_one(p + *pos, len - *pos, rec, err)) < 0)
        return -1;
    *pos += (size_t)n;
    return 1;
}

int exec_launchrec_get(const void *data, size_t len, struct launchrec *rec, errmsg_t *err)
{
    ptrdiff_t n;

    memset(rec, 0, sizeof(*rec));
    if ((n = get_one(data, len, rec, err)) < 0)
        return -1;
    return (size_t)n == len ? 0 : bad(err, "is longer than its header states");
}
