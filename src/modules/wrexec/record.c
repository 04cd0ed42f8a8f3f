/* What the key-value store keeps of a job, under job.ID:
 *
 *    jobspec     JSON: command, cwd, nnodes, ntasks, cores, limit (seconds, when there is one)
 *    env         its environment, NAME=value with NUL between; equal ones are stored once
 *    state       "running", then "complete" (exit code 0) or "failed"
 *    nnodes, ntasks, ranks (idset), starttime, endtime (seconds since 1970)
 *    exitcode    of the job; status: JSON [[wait status, "tasks"], ...]
 *    reason      the sentence that says what ended it, if anything but its tasks did
 *    output.N    of a detached job without output files: chunk N from 0, records one after the
 *                other, each a line "TASK STREAM LENGTH" and that many bytes (STREAM: 1 stdout,
 *                2 stderr)
 *    outputlost  bytes beyond the cap of 16 MiB, which were not kept
 */
#include "config.h"
#include "wrexec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libkvs/kvs.h"
#include "libutil/strbuf.h"
#include "libutil/strutil.h"

#define COMMAND_MAX 512

__attribute__((format(printf, 4, 5))) static int put(flux_kvs_txn_t *txn, struct job *j,
                                                     const char *name, const char *fmt, ...)
{
    char key[96], text[1024], *big = NULL;
    va_list ap;
    int n, rc;

    snprintf(key, sizeof(key), "job.%" PRIu64 ".%s", j->id, name);
    va_start(ap, fmt);
    n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof(text)) {
        va_start(ap, fmt);
        n = vasprintf(&big, fmt, ap);
        va_end(ap);
        if (n < 0)
            return -1;
    }
    rc = flux_kvs_txn_put(txn, key, big ? big : text, NULL);
    free(big);
    return rc;
}

/* A JSON string of any bytes: those that are no UTF-8 become '?'. */
static json_t *text_of(const char *s)
{
    size_t len = strlen(s), at = 0;
    json_t *val = json_string(s);
    char *copy;

    if (val || !(copy = strdup(s)))
        return val;
    while ((at += str_utf8_span(copy + at, len - at)) < len)
        copy[at] = '?';
    val = json_string(copy);
    free(copy);
    return val;
}

static char *jobspec(struct job *j, const struct jobreq *strings, const struct wrexec_run *run)
{
    json_t *obj = json_object(), *argv = json_array();
    char *text = NULL;
    int rc = 0;

    for (uint32_t i = 0; i < strings->argc; i++)
        rc |= json_array_append_new(argv, text_of(jobreq_string(strings, WIRE_STRINGS + i)));
    rc |= json_object_set(obj, "command", argv);
    rc |= json_object_set_new(obj, "cwd", text_of(jobreq_string(strings, WIRE_S_CWD)));
    rc |= json_object_set_new(obj, "nnodes", json_integer(j->nnodes));
    rc |= json_object_set_new(obj, "ntasks", json_integer(j->spec.ntasks));
    rc |= json_object_set_new(obj, "cores", json_integer(run->cores));
    if (run->limit > 0)
        rc |= json_object_set_new(obj, "limit", json_real(run->limit));
    if (rc == 0)
        text = json_dumps(obj, JSON_COMPACT);
    json_decref(argv);
    json_decref(obj);
    return text;
}

int record_start(flux_kvs_txn_t *txn, struct job *j, const struct jobreq *strings,
                 const struct wrexec_run *run, double now)
{
    char *spec = jobspec(j, strings, run), *ranks = idset_format(j->ranks, 0), key[64];
    const char *env = jobreq_string(strings, (size_t)WIRE_STRINGS + strings->argc);
    size_t envlen = (size_t)(strings->strings + strings->strings_len - env);
    int rc = -1;

    snprintf(key, sizeof(key), "job.%" PRIu64 ".env", j->id);
    if (spec && ranks && put(txn, j, "jobspec", "%s", spec) == 0 &&
        flux_kvs_txn_put_raw(txn, key, env, envlen, NULL) == 0 &&
        put(txn, j, "state", "running") == 0 && put(txn, j, "nnodes", "%u", j->nnodes) == 0 &&
        put(txn, j, "ntasks", "%u", j->spec.ntasks) == 0 && put(txn, j, "ranks", "%s", ranks) == 0)
        rc = put(txn, j, "starttime", "%.6f", now);
    free(spec);
    free(ranks);
    return rc;
}

int record_output(flux_kvs_txn_t *txn, struct job *j, uint32_t num, const void *data, size_t len)
{
    char key[64];

    snprintf(key, sizeof(key), "job.%" PRIu64 ".output.%u", j->id, num);
    return flux_kvs_txn_put_raw(txn, key, data, len, NULL);
}

int record_end(flux_kvs_txn_t *txn, struct job *j, int code, const char *text, uint64_t lost,
               double now)
{
    json_t *obj = result_to_json(j->result);
    char *status = obj ? json_dumps(obj, JSON_COMPACT) : NULL;
    int rc = -1;

    if (status && put(txn, j, "state", "%s", code ? "failed" : "complete") == 0 &&
        put(txn, j, "exitcode", "%d", code) == 0 && put(txn, j, "status", "%s", status) == 0 &&
        (!text || put(txn, j, "reason", "%s", text) == 0) &&
        (!lost || put(txn, j, "outputlost", "%" PRIu64, lost) == 0))
        rc = put(txn, j, "endtime", "%.6f", now);
    free(status);
    json_decref(obj);
    return rc;
}

char *record_command(const struct jobreq *strings)
{
    strbuf_t *sb = strbuf_create(0);
    char *text;

    for (uint32_t i = 0; i < strings->argc && strbuf_len(sb) < COMMAND_MAX; i++) {
        if (i)
            strbuf_addc(sb, ' ');
        strbuf_add(sb, jobreq_string(strings, WIRE_STRINGS + i));
    }
    strbuf_trunc(sb, COMMAND_MAX);
    if ((text = strbuf_take(sb)))
        for (size_t at = 0, len = strlen(text); (at += str_utf8_span(text + at, len - at)) < len;)
            text[at] = '?';
    return text;
}
