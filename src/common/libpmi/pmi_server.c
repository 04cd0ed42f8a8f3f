/* pmi_server.c - the server side of PMI-1 for the tasks of one job on one node.
 *
 * States of a task, and the requests allowed in them (column `in` of the table in
 * pmi_server_cmd.c):
 *
 *   NEW      --initack--> NEW   --init--> READY
 *   READY    --barrier_in--> BARRIER --pmi_server_barrier_done()--> READY
 *   READY    --publish, lookup, unpublish--> NAME --pmi_server_name_done()--> READY
 *   READY    --spawn--> NAME --pmi_server_spawn_done()--> READY
 *   READY    --finalize--> DONE
 *   NEW, READY, BARRIER, NAME --abort--> ABORTED
 *   any      --broken line, EOF, failed send--> GONE
 *
 * Invariants:
 *  1. Every request that has a response in the wire table gets exactly one, success or rc=-1, also
 *     in the wrong state.  The exceptions are a line that cannot be parsed, an unknown command, and
 *     a request while the last one is unanswered: these end the dialog by client_error.
 *  2. The server hands a barrier to the embedding exactly when `entered` reaches nlocal; `handed`
 *     is true from then to pmi_server_barrier_done().
 *  3. A put is visible to tasks of this node at once, and to those of other nodes after the
 *     barrier. A key that has a value keeps it: a different value is refused, the same value is
 *     accepted.
 *  4. The output of one pmi_server_input() call for its task is sent at once, or in pieces of FLUSH
 *     bytes.  A look-up copies its value once, from the table to that output.
 *  5. The barrier is handed over after all lines of the input were processed and its responses were
 *     sent, and a name call with its task already in state NAME: both can therefore be completed
 *     within the callback.
 *  6. The state of a task changes by the transitions of `moves` only.
 *
 * Failure: an error of a task is reported to that task, or by client_error, with an error message,
 * and affects no other task; if memory is short, the dialog with the task ends in the same way.
 */
#include "config.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libpmi/pmi_server_private.h"
#include "libutil/invariant.h"

#define FLUSH ((size_t)256 * 1024)

static int fail(int errnum)
{
    errno = errnum;
    return -1;
}

static const struct transition moves[] = {
    {NEW, READY, "on_init"},
    {READY, BARRIER, "on_barrier_in"},
    {BARRIER, READY, "pmi_server_barrier_done"},
    {READY, NAME, "on_name, spawn"},
    {NAME, READY, "pmi_server_name_done, pmi_server_spawn_done; on_name, spawn (refused)"},
    {READY, DONE, "on_finalize"},
    {NEW, ABORTED, "on_abort"},
    {READY, ABORTED, "on_abort"},
    {BARRIER, ABORTED, "on_abort"},
    {NAME, ABORTED, "on_abort"},
    {NEW, GONE, "pmi_server_give_up, pmi_server_eof"},
    {READY, GONE, "pmi_server_give_up"},
    {BARRIER, GONE, "pmi_server_give_up"},
    {NAME, GONE, "pmi_server_give_up"},
    {DONE, GONE, "pmi_server_give_up, pmi_server_eof"},
    {ABORTED, GONE, "pmi_server_give_up"},
    TRANSITION_END,
};

void pmi_server_set_state(struct pmi_server *s, struct pmi_task *t, enum pmi_task_state state)
{
    s->entered += (state == BARRIER);
    s->entered -= (t->state == BARRIER);
    s->left += !!(state & LEFT);
    s->left -= !!(t->state & LEFT);
    TRANSITION(6, moves, t->state, state);
    t->state = state;
}

void pmi_server_give_up(struct pmi_server *s, struct pmi_task *t, const char *fmt, ...)
{
    char what[160];
    errmsg_t e;
    va_list ap;

    if (t->state == GONE)
        return;
    pmi_server_set_state(s, t, GONE);
    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    errmsg_set(&e, "PMI: rank %u %s (kvs %s)", t->rank, what, s->kvsname);
    if (s->ops->client_error)
        s->ops->client_error(s->arg, pmi_server_index(s, t), e.text);
}

static void send_bytes(struct pmi_server *s, struct pmi_task *t, const void *data, size_t len)
{
    if (len == 0 || t->deaf)
        return;
    if (s->ops->send(s->arg, pmi_server_index(s, t), data, len) < 0)
        t->deaf = true;
}

static void flush(struct pmi_server *s)
{
    send_bytes(s, s->cur, buf_data(s->out), buf_len(s->out));
    buf_consume(s->out, buf_len(s->out));
}

void pmi_reply_begin(struct pmi_server *s, struct pmi_task *t, struct pmi_reply *r,
                     enum pmi_cmd cmd, size_t extra)
{
    char *p = r->small;
    size_t cap = sizeof(r->small);

    r->mem = NULL;
    if (t == s->cur) {
        cap = PMI_REPLY_MAX + extra;
        p = buf_reserve(s->out, cap);
    } else if (extra) {
        cap = PMI_REPLY_MAX + extra;
        p = r->mem = malloc(cap);
    }
    pmi_out_init(&r->o, p, p ? cap : 0);
    pmi_out_cmd(&r->o, cmd);
}

void pmi_reply_end(struct pmi_server *s, struct pmi_task *t, struct pmi_reply *r)
{
    pmi_out_end(&r->o);
    if (r->o.bad) {
        pmi_server_give_up(s, t,
                           "ran out of memory for a response; start fewer tasks on this node");
    } else if (t == s->cur) {
        buf_commit(s->out, r->o.len);
        if (buf_len(s->out) >= FLUSH)
            flush(s);
    } else {
        send_bytes(s, t, r->o.p, r->o.len);
    }
    free(r->mem);
}

void pmi_reply_rc(struct pmi_reply *r, int rc, const char *text)
{
    pmi_out_int(&r->o, "rc", rc);
    pmi_out_text(&r->o, "msg", text);
}

void pmi_server_refuse(struct pmi_server *s, struct pmi_task *t, enum pmi_cmd cmd, const char *text)
{
    struct pmi_reply r;

    pmi_reply_begin(s, t, &r, pmi_cmd_response(cmd), 0);
    if (cmd == PMI_CMD_PUBLISH_NAME || cmd == PMI_CMD_LOOKUP_NAME || cmd == PMI_CMD_UNPUBLISH_NAME)
        pmi_out_str(&r.o, "info", "failed");
    pmi_reply_rc(&r, -1, text);
    if (cmd == PMI_CMD_GETBYIDX)
        pmi_out_text(&r.o, "reason", text);
    if (cmd == PMI_CMD_GET)
        pmi_out_str(&r.o, "value", "unknown");
    pmi_reply_end(s, t, &r);
}

/* Store bytes that do not end with a newline in t->in, until the rest arrives. */
static void keep_rest(struct pmi_server *s, struct pmi_task *t, const char *data, size_t len)
{
    if (len == 0)
        return;
    if (!t->in)
        t->in = buf_create(PMI_WIRE_LINE_MAX);
    if (t->in && buf_append(t->in, data, len) == 0)
        return;
    if (t->in && errno == ENOBUFS)
        pmi_server_give_up(s, t, "sent a line of more than %d bytes", PMI_WIRE_LINE_MAX);
    else
        pmi_server_give_up(s, t, "ran out of memory for its input; start fewer tasks on this node");
}

static void all_lines(struct pmi_server *s, struct pmi_task *t, const char *data, size_t len)
{
    const int over = GONE | ABORTED;
    ptrdiff_t n;

    if (t->in && buf_len(t->in)) {
        n = pmi_wire_line(data, len);
        keep_rest(s, t, data, n < 0 ? len : (size_t)n);
        if (n < 0 || (t->state & over))
            return;
        pmi_server_line(s, t, buf_data(t->in), buf_len(t->in));
        buf_consume(t->in, buf_len(t->in));
        data += n + 1;
        len -= (size_t)n + 1;
    }
    while (!(t->state & over) && (n = pmi_wire_line(data, len)) >= 0) {
        pmi_server_line(s, t, data, (size_t)n);
        data += n + 1;
        len -= (size_t)n + 1;
    }
    if (!(t->state & over))
        keep_rest(s, t, data, len);
}

static void hand_over(struct pmi_server *s)
{
    const void *blob;
    size_t len;

    if (s->handed || s->entered < s->p.nlocal)
        return;
    s->handed = true;
    blob = pmi_pack_data(s->batch, &len);
    s->ops->barrier(s->arg, blob, len, pmi_pack_count(s->batch));
    pmi_pack_reset(s->batch);
}

int pmi_server_input(struct pmi_server *s, size_t idx, const void *data, size_t len)
{
    struct pmi_task *t;
    bool was_done;

    if (idx >= s->p.nlocal || s->busy)
        return fail(s->busy ? EBUSY : EINVAL);
    t = &s->tasks[idx];
    if (t->state & (GONE | ABORTED))
        return fail(EPROTO);
    s->busy = true;
    was_done = t->finalized;
    s->cur = t;
    all_lines(s, t, data, len);
    flush(s);
    s->cur = NULL;
    if (t->finalized && !was_done && s->ops->finalized)
        s->ops->finalized(s->arg, idx);
    hand_over(s);
    s->busy = false;
    return t->state == GONE ? fail(EPROTO) : 0;
}

void pmi_server_eof(struct pmi_server *s, size_t idx)
{
    struct pmi_task *t;

    if (idx >= s->p.nlocal)
        return;
    t = &s->tasks[idx];
    t->deaf = true;
    if (t->state & (DONE | NEW)) {
        bool waited_for = s->entered > 0 && t->state == NEW;

        s->absent += (t->state == NEW);
        if (waited_for)
            pmi_server_give_up(s, t, "exited while other tasks wait for it in a barrier");
        else
            pmi_server_set_state(s, t, GONE);
    } else if (t->state != ABORTED) {
        pmi_server_give_up(s, t, "closed its connection without a finalize");
    }
}

int pmi_server_merge(struct pmi_server *s, const void *blob, size_t len)
{
    return pmi_table_merge(s->table, blob, len);
}

int pmi_server_barrier_done(struct pmi_server *s, int rc, const char *text)
{
    if (!s->handed)
        return fail(EINVAL);
    s->handed = false;
    for (size_t i = 0; i < s->p.nlocal; i++) {
        struct pmi_task *t = &s->tasks[i];
        struct pmi_reply r;

        if (t->state != BARRIER)
            continue;
        pmi_server_set_state(s, t, READY);
        if (rc) {
            pmi_server_refuse(s, t, PMI_CMD_BARRIER_IN, text ? text : "the barrier failed");
            continue;
        }
        pmi_reply_begin(s, t, &r, PMI_CMD_BARRIER_OUT, 0);
        pmi_reply_end(s, t, &r);
    }
    return 0;
}

int pmi_server_name_done(struct pmi_server *s, size_t idx, int rc, const char *port,
                         const char *text)
{
    struct pmi_reply r;
    struct pmi_task *t;

    if (idx >= s->p.nlocal || s->tasks[idx].state != NAME ||
        s->tasks[idx].name_cmd == PMI_CMD_SPAWN)
        return fail(EINVAL);
    t = &s->tasks[idx];
    pmi_server_set_state(s, t, READY);
    if (rc == 0 && t->name_cmd == PMI_CMD_LOOKUP_NAME &&
        !(port && *port && pmi_wire_value_ok(port, strlen(port), s->p.port_max))) {
        rc = -1;
        text = "the port that was found cannot be sent in PMI-1";
    }
    if (rc) {
        pmi_server_refuse(s, t, t->name_cmd, text ? text : "the name service failed");
        return 0;
    }
    pmi_reply_begin(s, t, &r, pmi_cmd_response(t->name_cmd), port ? strlen(port) : 0);
    pmi_out_str(&r.o, "info", "ok");
    pmi_reply_rc(&r, 0, "success");
    if (t->name_cmd == PMI_CMD_LOOKUP_NAME)
        pmi_out_str(&r.o, "port", port);
    pmi_reply_end(s, t, &r);
    return 0;
}

int pmi_server_spawn_done(struct pmi_server *s, size_t idx, int rc, const char *jobid,
                          const char *text)
{
    struct pmi_reply r;
    struct pmi_task *t;

    if (idx >= s->p.nlocal || s->tasks[idx].state != NAME ||
        s->tasks[idx].name_cmd != PMI_CMD_SPAWN)
        return fail(EINVAL);
    t = &s->tasks[idx];
    pmi_server_set_state(s, t, READY);
    if (rc) {
        pmi_server_refuse(s, t, PMI_CMD_SPAWN, text ? text : "the spawn failed");
        return 0;
    }
    /* Without `errcodes` all of them are 0. */
    pmi_reply_begin(s, t, &r, PMI_CMD_SPAWN_RESULT, jobid ? strlen(jobid) : 0);
    pmi_reply_rc(&r, 0, "success");
    if (jobid)
        pmi_out_str(&r.o, "jobid", jobid);
    pmi_reply_end(s, t, &r);
    return 0;
}

int pmi_server_preset(struct pmi_server *s, const char *key, const char *value)
{
    struct pmi_pair pair = {key, strlen(key), value, strlen(value)};

    if (!pmi_wire_word_ok(key, pair.keylen, s->p.key_max) ||
        !pmi_wire_value_ok(value, pair.valuelen, PMI_PACK_VALUE_MAX))
        return fail(EINVAL);
    return pmi_table_put(s->table, &pair);
}

bool pmi_server_initialized(const struct pmi_server *s, size_t idx)
{
    return idx < s->p.nlocal && s->tasks[idx].inited;
}

bool pmi_server_finalized(const struct pmi_server *s, size_t idx)
{
    return idx < s->p.nlocal && s->tasks[idx].finalized;
}

static size_t or_default(size_t value, size_t dflt)
{
    return value ? value : dflt;
}

static int check_params(struct pmi_server_params *p, errmsg_t *err)
{
    p->name_max = or_default(p->name_max, 256);
    p->port_max = or_default(p->port_max, PMI_NAME_HARD_MAX);
    p->key_max = or_default(p->key_max, 64);
    p->value_max = or_default(p->value_max, 1024);
    p->wide_value_max = or_default(p->wide_value_max, 8192);
    p->store_max = or_default(p->store_max, (size_t)256 * 1024 * 1024);
    p->batch_max = or_default(p->batch_max, p->store_max);
    if (p->wide_value_max < p->value_max)
        p->wide_value_max = p->value_max;
    if (p->universe_size == 0)
        p->universe_size = p->size;
    if (p->name_max > PMI_NAME_HARD_MAX || p->port_max > PMI_NAME_HARD_MAX ||
        p->key_max > PMI_PACK_KEY_MAX || p->wide_value_max > PMI_WIRE_LINE_MAX / 2)
        return errmsg_fail(err, EINVAL,
                           "PMI server: names and keys can have at most 1024 bytes and values "
                           "32768; lower the requested limits");
    if (!p->kvsname || !pmi_wire_word_ok(p->kvsname, strlen(p->kvsname), p->name_max))
        return errmsg_fail(err, EINVAL,
                           "PMI server: the kvs name is empty, too long or contains blanks");
    if (p->size == 0 || p->size > INT32_MAX || p->universe_size > INT32_MAX || p->nlocal == 0 ||
        p->nlocal > p->size || !p->ranks)
        return errmsg_fail(err, EINVAL, "PMI server: %zu local tasks of %u cannot be served",
                           p->nlocal, p->size);
    for (size_t i = 0; i < p->nlocal; i++) {
        if (p->ranks[i] >= p->size)
            return errmsg_fail(err, EINVAL, "PMI server: rank %u of a local task is not below %u",
                               p->ranks[i], p->size);
    }
    return 0;
}

struct pmi_server *pmi_server_create(const struct pmi_server_ops *ops, void *arg,
                                     const struct pmi_server_params *params, errmsg_t *err)
{
    struct pmi_server_params p = *params;
    struct pmi_server *s;

    if (check_params(&p, err) < 0)
        return NULL;
    s = calloc(1, sizeof(*s) + p.nlocal * sizeof(s->tasks[0]));
    if (!s)
        goto nomem;
    s->ops = ops;
    s->arg = arg;
    s->p = p;
    for (size_t i = 0; i < p.nlocal; i++) {
        s->tasks[i].rank = p.ranks[i];
        s->tasks[i].appnum = p.appnums ? p.appnums[i] : p.appnum;
        s->tasks[i].state = NEW;
    }
    s->kvsname = strdup(p.kvsname);
    s->table = pmi_table_create(p.store_max);
    s->batch = pmi_pack_create(p.batch_max);
    s->out = buf_create(0);
    if (!s->kvsname || !s->table || !s->batch || !s->out)
        goto nomem;
    s->p.kvsname = s->kvsname;
    s->p.ranks = NULL;
    s->p.appnums = NULL;
    return s;
nomem:
    pmi_server_destroy(s);
    errmsg_fail(err, ENOMEM, "PMI server: out of memory for %zu tasks", p.nlocal);
    return NULL;
}

static void task_clear(struct pmi_task *t)
{
    buf_destroy(t->in);
    pmi_spawn_clear(&t->spawn);
}

void pmi_server_destroy(struct pmi_server *s)
{
    int saved = errno;

    if (s) {
        for (size_t i = 0; i < s->p.nlocal; i++)
            task_clear(&s->tasks[i]);
        free(s->kvsname);
        pmi_table_destroy(s->table);
        pmi_pack_destroy(s->batch);
        buf_destroy(s->out);
        free(s);
    }
    errno = saved;
}
