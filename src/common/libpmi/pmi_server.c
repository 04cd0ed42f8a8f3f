/* pmi_server.c - the server side of PMI-1 for the tasks of one job on one node.
 *
 * States of a task, and what it may say in them (column `in` of the table of handlers):
 *
 *   NEW      --initack--> NEW   --init--> READY
 *   READY    --barrier_in--> BARRIER --pmi_server_barrier_done()--> READY
 *   READY    --publish, lookup, unpublish--> NAME --pmi_server_name_done()--> READY
 *   READY    --finalize--> DONE
 *   NEW, READY, BARRIER, NAME --abort--> ABORTED
 *   any      --broken line, EOF, failed send--> GONE
 *
 * Invariants:
 *  1. Every request that has a response in the wire table gets exactly one, success or rc=-1, also
 * in the wrong state.  The exceptions are a line that cannot be parsed, an unknown command and a
 *     request while the last one is unanswered: there the dialog is lost, so client_error ends it.
 *  2. The embedding is asked for a barrier when `entered` reaches nlocal and not otherwise;
 * `handed` is true from then to pmi_server_barrier_done().
 *  3. A put is seen by tasks of this node at once and by those of other nodes after the barrier.  A
 * key that has a value keeps it: another value is refused, the same one accepted.
 *  4. What one pmi_server_input() call makes to say to its task leaves in one send, or in pieces of
 *     FLUSH bytes.  A look-up copies its value once, from the table to that output.
 *  5. The barrier is handed over after all lines of the input and after its answers were sent, and
 * a name call with its task already in state NAME: so both may be completed within the callback.
 *
 * Failure: a task's fault is answered to it or reported by client_error, with one sentence, and
 * touches no other task; without memory the task concerned is given up the same way.
 */
#include "config.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libpmi/pmi_pack.h"
#include "libpmi/pmi_server.h"
#include "libpmi/pmi_spawn.h"
#include "libpmi/pmi_table.h"
#include "libpmi/pmi_wire.h"
#include "libutil/buf.h"

#define FLUSH ((size_t)256 * 1024)
#define REPLY_MAX ((size_t)1024) /* of a reply without names and values */
#define NAME_HARD_MAX ((size_t)1024)
#define MSG_MAX ((size_t)256)

enum state { NEW = 1, READY = 2, BARRIER = 4, NAME = 8, DONE = 16, ABORTED = 32, GONE = 64 };

#define LEFT (DONE | ABORTED | GONE)

struct task {
    uint32_t rank;
    enum state state;
    enum pmi_cmd name_cmd; /* in state NAME: what is pending */
    bool inited;
    bool finalized;
    bool acked; /* said initack */
    bool deaf;  /* a send failed */
    struct pmi_spawn spawn;
    buf_t *in; /* an incomplete line; NULL when there never was one */
};

struct pmi_server {
    const struct pmi_server_ops *ops;
    void *arg;
    struct pmi_server_params p;
    char *kvsname;
    struct pmi_table *table;
    struct pmi_pack *batch; /* put by local tasks since the last barrier */
    buf_t *out;             /* for the task `cur` */
    struct task *cur;       /* whose input is being handled */
    size_t entered;         /* tasks in state BARRIER */
    size_t left;            /* tasks in a state of LEFT */
    size_t absent;          /* of them, those that went without a word */
    bool handed;            /* the barrier is with the embedding */
    bool busy;              /* in pmi_server_input() */
    struct task tasks[];
};

struct handler {
    int in; /* states in which it is allowed */
    void (*fn)(struct pmi_server *s, struct task *t, const struct pmi_msg *msg);
};

static int fail(int errnum)
{
    errno = errnum;
    return -1;
}

static size_t index_of(const struct pmi_server *s, const struct task *t)
{
    return (size_t)(t - s->tasks);
}

static void set_state(struct pmi_server *s, struct task *t, enum state state)
{
    s->entered += (state == BARRIER);
    s->entered -= (t->state == BARRIER);
    s->left += !!(state & LEFT);
    s->left -= !!(t->state & LEFT);
    t->state = state;
}

static void give_up(struct pmi_server *s, struct task *t, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void give_up(struct pmi_server *s, struct task *t, const char *fmt, ...)
{
    char what[160];
    errmsg_t e;
    va_list ap;

    if (t->state == GONE)
        return;
    set_state(s, t, GONE);
    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    errmsg_set(&e, "PMI: rank %u %s (kvs %s)", t->rank, what, s->kvsname);
    if (s->ops->client_error)
        s->ops->client_error(s->arg, index_of(s, t), e.text);
}

static void send_bytes(struct pmi_server *s, struct task *t, const void *data, size_t len)
{
    if (len == 0 || t->deaf)
        return;
    if (s->ops->send(s->arg, index_of(s, t), data, len) < 0)
        t->deaf = true;
}

static void flush(struct pmi_server *s)
{
    send_bytes(s, s->cur, buf_data(s->out), buf_len(s->out));
    buf_consume(s->out, buf_len(s->out));
}

/* A reply goes into the output of the task whose input is being handled; to any other task it is
 * sent right away. */
struct reply {
    struct pmi_out o;
    char *mem; /* of its own */
    char small[REPLY_MAX];
};

static void reply_begin(struct pmi_server *s, struct task *t, struct reply *r, enum pmi_cmd cmd,
                        size_t extra)
{
    char *p = r->small;
    size_t cap = sizeof(r->small);

    r->mem = NULL;
    if (t == s->cur) {
        cap = REPLY_MAX + extra;
        p = buf_reserve(s->out, cap);
    } else if (extra) {
        cap = REPLY_MAX + extra;
        p = r->mem = malloc(cap);
    }
    pmi_out_init(&r->o, p, p ? cap : 0);
    pmi_out_cmd(&r->o, cmd);
}

static void reply_end(struct pmi_server *s, struct task *t, struct reply *r)
{
    pmi_out_end(&r->o);
    if (r->o.bad) {
        give_up(s, t, "got no memory for an answer; start fewer tasks on this node");
    } else if (t == s->cur) {
        buf_commit(s->out, r->o.len);
        if (buf_len(s->out) >= FLUSH)
            flush(s);
    } else {
        send_bytes(s, t, r->o.p, r->o.len);
    }
    free(r->mem);
}

static void rc_fields(struct reply *r, int rc, const char *text)
{
    pmi_out_int(&r->o, "rc", rc);
    pmi_out_text(&r->o, "msg", text);
}

/* Say no, in the words that readers of this command look for. */
static void refuse(struct pmi_server *s, struct task *t, enum pmi_cmd cmd, const char *text)
{
    struct reply r;

    reply_begin(s, t, &r, pmi_cmd_response(cmd), 0);
    if (cmd == PMI_CMD_PUBLISH_NAME || cmd == PMI_CMD_LOOKUP_NAME || cmd == PMI_CMD_UNPUBLISH_NAME)
        pmi_out_str(&r.o, "info", "failed");
    rc_fields(&r, -1, text);
    if (cmd == PMI_CMD_GETBYIDX)
        pmi_out_text(&r.o, "reason", text);
    if (cmd == PMI_CMD_GET)
        pmi_out_str(&r.o, "value", "unknown");
    reply_end(s, t, &r);
}

static void reply_int(struct pmi_server *s, struct task *t, enum pmi_cmd cmd, const char *name,
                      long value)
{
    struct reply r;

    reply_begin(s, t, &r, cmd, 0);
    pmi_out_int(&r.o, name, value);
    reply_end(s, t, &r);
}

static void on_initack(struct pmi_server *s, struct task *t, const struct pmi_msg *msg)
{
    int id;

    if (t->acked || pmi_msg_get_int(msg, "pmiid", 0, INT32_MAX, &id) < 0 ||
        (uint32_t)id != t->rank) {
        refuse(s, t, msg->cmd, "pmiid is not the rank of this task");
        return;
    }
    t->acked = true;
    reply_int(s, t, PMI_CMD_INITACK, "rc", 0);
    reply_int(s, t, PMI_CMD_SET, "size", s->p.size);
    reply_int(s, t, PMI_CMD_SET, "rank", t->rank);
    reply_int(s, t, PMI_CMD_SET, "debug", 0);
}

static void on_init(struct pmi_server *s, struct task *t, const struct pmi_msg *msg)
{
    struct reply r;
    int version;
    bool ok = pmi_msg_get_int(msg, "pmi_version", 0, INT32_MAX, &version) == 0 && version == 1;

    reply_begin(s, t, &r, PMI_CMD_RESPONSE_TO_INIT, 0);
    pmi_out_int(&r.o, "pmi_version", 1);
    pmi_out_int(&r.o, "pmi_subversion", 1);
    pmi_out_int(&r.o, "rc", ok ? 0 : -1);
    if (ok) {
        t->inited = true;
        set_state(s, t, READY);
    } else {
        pmi_out_text(&r.o, "msg", "only pmi_version=1 is served here");
    }
    reply_end(s, t, &r);
}

static void on_get_maxes(struct pmi_server *s, struct task *t, const struct pmi_msg *msg)
{
    struct reply r;

    reply_begin(s, t, &r, PMI_CMD_MAXES, 0);
    pmi_out_int(&r.o, "kvsname_max", (long)s->p.name_max);
    pmi_out_int(&r.o, "keylen_max", (long)s->p.key_max);
    pmi_out_int(&r.o, "vallen_max", (long)s->p.value_max);
    /* old clients ignore names that they do not know */
    pmi_out_int(&r.o, "wide_vallen_max", (long)s->p.wide_value_max);
    reply_end(s, t, &r);
}

static void on_get_appnum(struct pmi_server *s, struct task *t, const struct pmi_msg *msg)
{
    reply_int(s, t, PMI_CMD_APPNUM, "appnum", s->p.appnum);
}

static void on_get_universe_size(struct pmi_server *s, struct task *t, const struct pmi_msg *msg)
{
    reply_int(s, t, PMI_CMD_UNIVERSE_SIZE, "size", s->p.universe_size);
}

static void on_get_my_kvsname(struct pmi_server *s, struct task *t, const struct pmi_msg *msg)
{
    struct reply r;

    reply_begin(s, t, &r, PMI_CMD_MY_KVSNAME, strlen(s->kvsname));
    pmi_out_str(&r.o, "kvsname", s->kvsname);
    reply_end(s, t, &r);
}

/* The checks that put and get share; false when the request was answered. */
static bool take_key(struct pmi_server *s, struct task *t, const struct pmi_msg *msg,
                     struct pmi_slice *key)
{
    struct pmi_slice kvsname;
    const char *why = NULL;

    if (!pmi_msg_get(msg, "kvsname", &kvsname) || !pmi_slice_eq(kvsname, s->kvsname))
        why = "kvsname is not the one of this job";
    else if (!pmi_msg_get(msg, "key", key) || key->len == 0)
        why = "no key";
    else if (!pmi_wire_word_ok(key->p, key->len, s->p.key_max))
        why = "key is longer than keylen_max";
    if (why)
        refuse(s, t, msg->cmd, why);
    return !why;
}

static const char *store(struct pmi_server *s, const struct pmi_pair *pair)
{
    struct pmi_pair old;

    if (pmi_table_get(s->table, pair->key, pair->keylen, &old) == 0) {
        if (old.valuelen == pair->valuelen && !memcmp(old.value, pair->value, old.valuelen))
            return NULL;
        return "duplicate key: it has another value already";
    }
    if (pmi_pack_add(s->batch, pair) < 0)
        return "no room in the store of this node";
    /* a pair that is shipped but not in the table would be odd, but comes back with the merge */
    if (pmi_table_put(s->table, pair) < 0)
        return "no room in the store of this node";
    return NULL;
}

static void on_put(struct pmi_server *s, struct task *t, const struct pmi_msg *msg)
{
    struct pmi_slice key, value;
    const char *why = NULL;
    struct reply r;

    if (!take_key(s, t, msg, &key))
        return;
    if (!pmi_msg_get(msg, "value", &value))
        why = "no value";
    else if (value.len > s->p.wide_value_max)
        why = "value is longer than vallen_max";
    else
        why = store(s, &(struct pmi_pair){key.p, key.len, value.p, value.len});
    if (why) {
        refuse(s, t, msg->cmd, why);
        return;
    }
    reply_begin(s, t, &r, PMI_CMD_PUT_RESULT, 0);
    rc_fields(&r, 0, "success");
    reply_end(s, t, &r);
}

static void on_get(struct pmi_server *s, struct task *t, const struct pmi_msg *msg)
{
    struct pmi_slice key;
    struct pmi_pair pair;
    struct reply r;

    if (!take_key(s, t, msg, &key))
        return;
    if (pmi_table_get(s->table, key.p, key.len, &pair) < 0) {
        refuse(s, t, msg->cmd, "key not found");
        return;
    }
    reply_begin(s, t, &r, PMI_CMD_GET_RESULT, pair.valuelen);
    rc_fields(&r, 0, "success");
    pmi_out_bytes(&r.o, "value", pair.value, pair.valuelen);
    reply_end(s, t, &r);
}

static void on_barrier_in(struct pmi_server *s, struct task *t, const struct pmi_msg *msg)
{
    errmsg_t e;

    if (s->left)
        refuse(s, t, msg->cmd, "a task of this node has left; the barrier cannot complete");
    /* Some clients do not look at the answer, and would wait for ever. */
    if (s->absent && s->ops->client_error) {
        errmsg_set(&e,
                   "PMI: rank %u is in a barrier that a task of its node, which left before init, "
                   "will not enter (kvs %s)",
                   t->rank, s->kvsname);
        s->ops->client_error(s->arg, index_of(s, t), e.text);
    }
    if (!s->left)
        set_state(s, t, BARRIER);
}

static void on_finalize(struct pmi_server *s, struct task *t, const struct pmi_msg *msg)
{
    struct reply r;

    set_state(s, t, DONE);
    t->finalized = true;
    reply_begin(s, t, &r, PMI_CMD_FINALIZE_ACK, 0);
    reply_end(s, t, &r);
}

static void on_abort(struct pmi_server *s, struct task *t, const struct pmi_msg *msg)
{
    struct pmi_slice text;
    char line[MSG_MAX] = "";
    int code = 1;

    if (pmi_msg_get_int(msg, "exitcode", INT32_MIN, INT32_MAX, &code) < 0)
        code = 1;
    if (pmi_msg_get(msg, "error_msg", &text))
        snprintf(line, sizeof(line), "%.*s", (int)(text.len < MSG_MAX ? text.len : MSG_MAX),
                 text.p);
    set_state(s, t, ABORTED);
    if (s->ops->abort)
        s->ops->abort(s->arg, index_of(s, t), code, line);
}

static void on_name(struct pmi_server *s, struct task *t, const struct pmi_msg *msg)
{
    char service[NAME_HARD_MAX + 1], port[NAME_HARD_MAX + 1] = "";
    size_t idx = index_of(s, t);
    struct pmi_slice a, b;
    int rc = -1;

    pmi_msg_get(msg, "service", &a);
    pmi_msg_get(msg, "port", &b);
    if (!pmi_wire_word_ok(a.p, a.len, s->p.name_max) || b.len > s->p.name_max ||
        (b.len == 0 && msg->cmd == PMI_CMD_PUBLISH_NAME)) {
        refuse(s, t, msg->cmd, "service or port is missing or too long");
        return;
    }
    memcpy(service, a.p, a.len);
    service[a.len] = '\0';
    memcpy(port, b.p, b.len);
    port[b.len] = '\0';
    set_state(s, t, NAME);
    t->name_cmd = msg->cmd;
    if (msg->cmd == PMI_CMD_PUBLISH_NAME && s->ops->publish)
        rc = s->ops->publish(s->arg, idx, service, port);
    else if (msg->cmd == PMI_CMD_LOOKUP_NAME && s->ops->lookup)
        rc = s->ops->lookup(s->arg, idx, service);
    else if (msg->cmd == PMI_CMD_UNPUBLISH_NAME && s->ops->unpublish)
        rc = s->ops->unpublish(s->arg, idx, service);
    if (rc < 0 && t->state == NAME) {
        set_state(s, t, READY);
        refuse(s, t, msg->cmd, "no name service for this job");
    }
}

static void on_getbyidx(struct pmi_server *s, struct task *t, const struct pmi_msg *msg)
{
    refuse(s, t, msg->cmd, "iteration is not supported; get by key");
}

static void on_other_kvs(struct pmi_server *s, struct task *t, const struct pmi_msg *msg)
{
    refuse(s, t, msg->cmd, "a job has one kvs; see get_my_kvsname");
}

#define NO_SPAWN "spawn is not supported; submit another job"

static void on_spawn(struct pmi_server *s, struct task *t, const struct pmi_msg *msg)
{
    if (!msg->block)
        refuse(s, t, msg->cmd, NO_SPAWN);
    else if (msg->nfields > 0)
        give_up(s, t, "sent mcmd=spawn with fields on its line");
    else
        pmi_spawn_begin(&t->spawn);
}

/* Clients send one block for each command of a spawn and then wait for one answer. */
static void block_line(struct pmi_server *s, struct task *t, const char *line, size_t len)
{
    int rc = pmi_spawn_line(&t->spawn, line, len);

    if (rc < 0) {
        give_up(s, t, "sent a line that is not part of an mcmd=spawn block (%.*s)",
                len < 64 ? (int)len : 64, line);
    } else if (rc == 2) {
        memset(&t->spawn, 0, sizeof(t->spawn));
        refuse(s, t, PMI_CMD_SPAWN,
               t->state == READY ? NO_SPAWN
                                 : "spawn is not possible before init or after finalize");
    }
}

#define IDLE (NEW | READY | DONE)

/* By command.  A request that is not allowed in an idle state is refused. */
static const struct handler handlers[PMI_CMD_COUNT] = {
    [PMI_CMD_ABORT] = {NEW | READY | BARRIER | NAME, on_abort},
    [PMI_CMD_BARRIER_IN] = {READY, on_barrier_in},
    [PMI_CMD_CREATE_KVS] = {READY, on_other_kvs},
    [PMI_CMD_DESTROY_KVS] = {READY, on_other_kvs},
    [PMI_CMD_FINALIZE] = {READY, on_finalize},
    [PMI_CMD_GET] = {READY, on_get},
    [PMI_CMD_GET_APPNUM] = {READY, on_get_appnum},
    [PMI_CMD_GET_MAXES] = {READY, on_get_maxes},
    [PMI_CMD_GET_MY_KVSNAME] = {READY, on_get_my_kvsname},
    [PMI_CMD_GET_UNIVERSE_SIZE] = {READY, on_get_universe_size},
    [PMI_CMD_GETBYIDX] = {READY, on_getbyidx},
    [PMI_CMD_INIT] = {NEW, on_init},
    [PMI_CMD_INITACK] = {NEW, on_initack},
    [PMI_CMD_LOOKUP_NAME] = {READY, on_name},
    [PMI_CMD_PUBLISH_NAME] = {READY, on_name},
    [PMI_CMD_PUT] = {READY, on_put},
    [PMI_CMD_SPAWN] = {IDLE, on_spawn},
    [PMI_CMD_UNPUBLISH_NAME] = {READY, on_name},
};

static void one_line(struct pmi_server *s, struct task *t, const char *line, size_t len)
{
    const struct handler *h;
    struct pmi_msg msg;

    if (t->spawn.in_block) {
        block_line(s, t, line, len);
        return;
    }
    if (pmi_wire_parse(line, len, &msg) < 0) {
        give_up(s, t,
                errno == ENOSYS ? "sent a command that PMI-1 does not have (%.*s)"
                                : "sent a line that is not PMI-1 (%.*s)",
                len < 64 ? (int)len : 64, line);
        return;
    }
    h = &handlers[msg.cmd];
    if (t->spawn.done && msg.cmd != PMI_CMD_ABORT && !(msg.cmd == PMI_CMD_SPAWN && msg.block))
        give_up(s, t, "sent %s within a spawn of %d commands", pmi_cmd_name(msg.cmd),
                t->spawn.total);
    else if (!h->fn)
        give_up(s, t, "sent %s, which only a server says", pmi_cmd_name(msg.cmd));
    else if (t->state & h->in)
        h->fn(s, t, &msg);
    else if (t->state & (BARRIER | NAME))
        give_up(s, t, "sent %s before the last request was answered", pmi_cmd_name(msg.cmd));
    else if (msg.cmd == PMI_CMD_ABORT)
        give_up(s, t, "sent abort after finalize");
    else
        refuse(s, t, msg.cmd,
               t->state == NEW    ? "init has to come first"
               : t->state == DONE ? "this task has finalized already"
                                  : "init was done already");
}

/* Bytes that do not end with a newline wait in t->in. */
static void keep_rest(struct pmi_server *s, struct task *t, const char *data, size_t len)
{
    if (len == 0)
        return;
    if (!t->in)
        t->in = buf_create(PMI_WIRE_LINE_MAX);
    if (t->in && buf_append(t->in, data, len) == 0)
        return;
    if (t->in && errno == ENOBUFS)
        give_up(s, t, "sent a line of more than %d bytes", PMI_WIRE_LINE_MAX);
    else
        give_up(s, t, "got no memory for its input; start fewer tasks on this node");
}

static void all_lines(struct pmi_server *s, struct task *t, const char *data, size_t len)
{
    const int over = GONE | ABORTED;
    ptrdiff_t n;

    if (t->in && buf_len(t->in)) {
        n = pmi_wire_line(data, len);
        keep_rest(s, t, data, n < 0 ? len : (size_t)n);
        if (n < 0 || (t->state & over))
            return;
        one_line(s, t, buf_data(t->in), buf_len(t->in));
        buf_consume(t->in, buf_len(t->in));
        data += n + 1;
        len -= (size_t)n + 1;
    }
    while (!(t->state & over) && (n = pmi_wire_line(data, len)) >= 0) {
        one_line(s, t, data, (size_t)n);
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
    struct task *t;
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
    struct task *t;

    if (idx >= s->p.nlocal)
        return;
    t = &s->tasks[idx];
    t->deaf = true;
    if (t->state & (DONE | NEW)) {
        bool waited_for = s->entered > 0 && t->state == NEW;

        s->absent += (t->state == NEW);
        if (waited_for)
            give_up(s, t, "left while others wait for it in a barrier");
        else
            set_state(s, t, GONE);
    } else if (t->state != ABORTED) {
        give_up(s, t, "closed its connection without finalize");
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
        struct task *t = &s->tasks[i];
        struct reply r;

        if (t->state != BARRIER)
            continue;
        set_state(s, t, READY);
        if (rc) {
            refuse(s, t, PMI_CMD_BARRIER_IN, text ? text : "the barrier failed");
            continue;
        }
        reply_begin(s, t, &r, PMI_CMD_BARRIER_OUT, 0);
        reply_end(s, t, &r);
    }
    return 0;
}

int pmi_server_name_done(struct pmi_server *s, size_t idx, int rc, const char *port,
                         const char *text)
{
    struct reply r;
    struct task *t;

    if (idx >= s->p.nlocal || s->tasks[idx].state != NAME)
        return fail(EINVAL);
    t = &s->tasks[idx];
    set_state(s, t, READY);
    if (rc == 0 && t->name_cmd == PMI_CMD_LOOKUP_NAME &&
        !(port && *port && pmi_wire_value_ok(port, strlen(port), s->p.name_max))) {
        rc = -1;
        text = "the port found is not fit for the wire";
    }
    if (rc) {
        refuse(s, t, t->name_cmd, text ? text : "the name service failed");
        return 0;
    }
    reply_begin(s, t, &r, pmi_cmd_response(t->name_cmd), port ? strlen(port) : 0);
    pmi_out_str(&r.o, "info", "ok");
    rc_fields(&r, 0, "success");
    if (t->name_cmd == PMI_CMD_LOOKUP_NAME)
        pmi_out_str(&r.o, "port", port);
    reply_end(s, t, &r);
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

size_t pmi_server_count(const struct pmi_server *s)
{
    return pmi_table_count(s->table);
}

int pmi_server_identify(const void *data, size_t len, uint32_t *id)
{
    ptrdiff_t n = pmi_wire_line(data, len);
    struct pmi_msg msg;
    int value;

    if (n < 0)
        return len > 256 ? fail(EPROTO) : 0;
    if (pmi_wire_parse(data, (size_t)n, &msg) < 0 || msg.cmd != PMI_CMD_INITACK ||
        pmi_msg_get_int(&msg, "pmiid", 0, INT32_MAX, &value) < 0)
        return fail(EPROTO);
    *id = (uint32_t)value;
    return 1;
}

static size_t or_default(size_t value, size_t dflt)
{
    return value ? value : dflt;
}

static int check_params(struct pmi_server_params *p, errmsg_t *err)
{
    p->name_max = or_default(p->name_max, 256);
    p->key_max = or_default(p->key_max, 64);
    p->value_max = or_default(p->value_max, 1024);
    p->wide_value_max = or_default(p->wide_value_max, 8192);
    p->store_max = or_default(p->store_max, (size_t)256 * 1024 * 1024);
    if (p->wide_value_max < p->value_max)
        p->wide_value_max = p->value_max;
    if (p->universe_size == 0)
        p->universe_size = p->size;
    if (p->name_max > NAME_HARD_MAX || p->key_max > PMI_PACK_KEY_MAX ||
        p->wide_value_max > PMI_WIRE_LINE_MAX / 2)
        return errmsg_fail(err, EINVAL,
                           "PMI server: names and keys may have up to 1024 bytes and values 32768; "
                           "lower the limits asked for");
    if (!p->kvsname || !pmi_wire_word_ok(p->kvsname, strlen(p->kvsname), p->name_max))
        return errmsg_fail(err, EINVAL,
                           "PMI server: the kvs name is empty, too long or has blanks");
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
        s->tasks[i].state = NEW;
    }
    s->kvsname = strdup(p.kvsname);
    s->table = pmi_table_create(p.store_max);
    s->batch = pmi_pack_create(p.store_max);
    s->out = buf_create(0);
    if (!s->kvsname || !s->table || !s->batch || !s->out)
        goto nomem;
    s->p.kvsname = s->kvsname;
    s->p.ranks = NULL;
    return s;
nomem:
    pmi_server_destroy(s);
    errmsg_fail(err, ENOMEM, "PMI server: no memory for %zu tasks", p.nlocal);
    return NULL;
}

void pmi_server_destroy(struct pmi_server *s)
{
    int saved = errno;

    if (s) {
        for (size_t i = 0; i < s->p.nlocal; i++)
            buf_destroy(s->tasks[i].in);
        free(s->kvsname);
        pmi_table_destroy(s->table);
        pmi_pack_destroy(s->batch);
        buf_destroy(s->out);
        free(s);
    }
    errno = saved;
}
