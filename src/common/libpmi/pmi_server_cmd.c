/* pmi_server_cmd.c - the commands of PMI-1 in the server.
 *
 * A table lists the states of a task in which each command is allowed; other commands are refused,
 * or end the dialog (pmi_server.c, invariant 1).  A handler responds immediately, except for the
 * commands that the embedding completes: barriers, names and spawns.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libpmi/pmi_server_private.h"

#define MSG_MAX ((size_t)256)

struct handler {
    int in; /* states in which it is allowed */
    void (*fn)(struct pmi_server *s, struct pmi_task *t, const struct pmi_msg *msg);
};

static void reply_int(struct pmi_server *s, struct pmi_task *t, enum pmi_cmd cmd, const char *name,
                      long value)
{
    struct pmi_reply r;

    pmi_reply_begin(s, t, &r, cmd, 0);
    pmi_out_int(&r.o, name, value);
    pmi_reply_end(s, t, &r);
}

static void on_initack(struct pmi_server *s, struct pmi_task *t, const struct pmi_msg *msg)
{
    int id;

    if (t->acked || pmi_msg_get_int(msg, "pmiid", 0, INT32_MAX, &id) < 0 ||
        (uint32_t)id != t->rank) {
        pmi_server_refuse(s, t, msg->cmd, "pmiid is not the rank of this task");
        return;
    }
    t->acked = true;
    reply_int(s, t, PMI_CMD_INITACK, "rc", 0);
    reply_int(s, t, PMI_CMD_SET, "size", s->p.size);
    reply_int(s, t, PMI_CMD_SET, "rank", t->rank);
    reply_int(s, t, PMI_CMD_SET, "debug", 0);
}

static void on_init(struct pmi_server *s, struct pmi_task *t, const struct pmi_msg *msg)
{
    struct pmi_reply r;
    int version;
    bool ok = pmi_msg_get_int(msg, "pmi_version", 0, INT32_MAX, &version) == 0 && version == 1;

    pmi_reply_begin(s, t, &r, PMI_CMD_RESPONSE_TO_INIT, 0);
    pmi_out_int(&r.o, "pmi_version", 1);
    pmi_out_int(&r.o, "pmi_subversion", 1);
    pmi_out_int(&r.o, "rc", ok ? 0 : -1);
    if (ok) {
        t->inited = true;
        pmi_server_set_state(s, t, READY);
    } else {
        pmi_out_text(&r.o, "msg", "only pmi_version=1 is supported");
    }
    pmi_reply_end(s, t, &r);
}

static void on_get_maxes(struct pmi_server *s, struct pmi_task *t, const struct pmi_msg *msg)
{
    struct pmi_reply r;

    pmi_reply_begin(s, t, &r, PMI_CMD_MAXES, 0);
    pmi_out_int(&r.o, "kvsname_max", (long)s->p.name_max);
    pmi_out_int(&r.o, "keylen_max", (long)s->p.key_max);
    pmi_out_int(&r.o, "vallen_max", (long)s->p.value_max);
    /* Old clients ignore names that they do not know. */
    pmi_out_int(&r.o, "wide_vallen_max", (long)s->p.wide_value_max);
    pmi_reply_end(s, t, &r);
}

static void on_get_appnum(struct pmi_server *s, struct pmi_task *t, const struct pmi_msg *msg)
{
    reply_int(s, t, PMI_CMD_APPNUM, "appnum", t->appnum);
}

static void on_get_universe_size(struct pmi_server *s, struct pmi_task *t,
                                 const struct pmi_msg *msg)
{
    reply_int(s, t, PMI_CMD_UNIVERSE_SIZE, "size", s->p.universe_size);
}

static void on_get_my_kvsname(struct pmi_server *s, struct pmi_task *t, const struct pmi_msg *msg)
{
    struct pmi_reply r;

    pmi_reply_begin(s, t, &r, PMI_CMD_MY_KVSNAME, strlen(s->kvsname));
    pmi_out_str(&r.o, "kvsname", s->kvsname);
    pmi_reply_end(s, t, &r);
}

/* The checks that put and get share.  False if they failed and the task has its response. */
static bool take_key(struct pmi_server *s, struct pmi_task *t, const struct pmi_msg *msg,
                     struct pmi_slice *key)
{
    struct pmi_slice kvsname;
    const char *why = NULL;

    if (!pmi_msg_get(msg, "kvsname", &kvsname) || !pmi_slice_eq(kvsname, s->kvsname))
        why = "kvsname is not that of this job";
    else if (!pmi_msg_get(msg, "key", key) || key->len == 0)
        why = "no key";
    else if (!pmi_wire_word_ok(key->p, key->len, s->p.key_max))
        why = "key is longer than keylen_max";
    if (why)
        pmi_server_refuse(s, t, msg->cmd, why);
    return !why;
}

static const char *store(struct pmi_server *s, const struct pmi_pair *pair)
{
    struct pmi_pair old;

    if (pmi_table_get(s->table, pair->key, pair->keylen, &old) == 0) {
        if (old.valuelen == pair->valuelen && !memcmp(old.value, pair->value, old.valuelen))
            return NULL;
        return "duplicate key: it already has a different value";
    }
    if (pmi_pack_add(s->batch, pair) < 0)
        return "the tasks of this node put too much data between two barriers; put less, or enter "
               "a barrier";
    /* A pair in the batch that is not in the table is harmless: the merge adds it. */
    if (pmi_table_put(s->table, pair) < 0)
        return "the store of this node is full";
    return NULL;
}

static void on_put(struct pmi_server *s, struct pmi_task *t, const struct pmi_msg *msg)
{
    struct pmi_slice key, value;
    struct pmi_pair pair;
    const char *why = NULL;
    struct pmi_reply r;

    if (!take_key(s, t, msg, &key))
        return;
    if (!pmi_msg_get(msg, "value", &value)) {
        why = "no value";
    } else if (value.len > s->p.wide_value_max) {
        why = "value is longer than vallen_max";
    } else {
        pair = (struct pmi_pair){key.p, key.len, value.p, value.len};
        why = store(s, &pair);
    }
    if (why) {
        pmi_server_refuse(s, t, msg->cmd, why);
        return;
    }
    if (s->ops->put)
        s->ops->put(s->arg, (size_t)(t - s->tasks), &pair);
    pmi_reply_begin(s, t, &r, PMI_CMD_PUT_RESULT, 0);
    pmi_reply_rc(&r, 0, "success");
    pmi_reply_end(s, t, &r);
}

static void on_get(struct pmi_server *s, struct pmi_task *t, const struct pmi_msg *msg)
{
    struct pmi_slice key;
    struct pmi_pair pair;
    struct pmi_reply r;

    if (!take_key(s, t, msg, &key))
        return;
    if (pmi_table_get(s->table, key.p, key.len, &pair) < 0) {
        pmi_server_refuse(s, t, msg->cmd, "key not found");
        return;
    }
    pmi_reply_begin(s, t, &r, PMI_CMD_GET_RESULT, pair.valuelen);
    pmi_reply_rc(&r, 0, "success");
    pmi_out_bytes(&r.o, "value", pair.value, pair.valuelen);
    pmi_reply_end(s, t, &r);
}

static void on_barrier_in(struct pmi_server *s, struct pmi_task *t, const struct pmi_msg *msg)
{
    errmsg_t e;

    if (s->left)
        pmi_server_refuse(s, t, msg->cmd,
                          "a task of this node has exited; the barrier cannot complete");
    /* Some clients ignore the response, and would wait forever. */
    if (s->absent && s->ops->client_error) {
        errmsg_set(&e,
                   "PMI: rank %u is in a barrier that cannot complete, because a task of its node "
                   "exited before init (kvs %s)",
                   t->rank, s->kvsname);
        s->ops->client_error(s->arg, pmi_server_index(s, t), e.text);
    }
    if (!s->left)
        pmi_server_set_state(s, t, BARRIER);
}

static void on_finalize(struct pmi_server *s, struct pmi_task *t, const struct pmi_msg *msg)
{
    struct pmi_reply r;

    pmi_server_set_state(s, t, DONE);
    t->finalized = true;
    pmi_reply_begin(s, t, &r, PMI_CMD_FINALIZE_ACK, 0);
    pmi_reply_end(s, t, &r);
}

static void on_abort(struct pmi_server *s, struct pmi_task *t, const struct pmi_msg *msg)
{
    struct pmi_slice text;
    char line[MSG_MAX] = "";
    int code = 1;

    if (pmi_msg_get_int(msg, "exitcode", INT32_MIN, INT32_MAX, &code) < 0)
        code = 1;
    if (pmi_msg_get(msg, "error_msg", &text))
        snprintf(line, sizeof(line), "%.*s", (int)(text.len < MSG_MAX ? text.len : MSG_MAX),
                 text.p);
    pmi_server_set_state(s, t, ABORTED);
    if (s->ops->abort)
        s->ops->abort(s->arg, pmi_server_index(s, t), code, line);
}

static void on_name(struct pmi_server *s, struct pmi_task *t, const struct pmi_msg *msg)
{
    char service[PMI_NAME_HARD_MAX + 1], port[PMI_NAME_HARD_MAX + 1] = "";
    size_t idx = pmi_server_index(s, t);
    struct pmi_slice a, b;
    int rc = -1;

    pmi_msg_get(msg, "service", &a);
    pmi_msg_get(msg, "port", &b);
    if (!pmi_wire_word_ok(a.p, a.len, s->p.port_max) || b.len > s->p.port_max ||
        (b.len == 0 && msg->cmd == PMI_CMD_PUBLISH_NAME)) {
        pmi_server_refuse(s, t, msg->cmd, "service or port is missing or too long");
        return;
    }
    memcpy(service, a.p, a.len);
    service[a.len] = '\0';
    memcpy(port, b.p, b.len);
    port[b.len] = '\0';
    pmi_server_set_state(s, t, NAME);
    t->name_cmd = msg->cmd;
    if (msg->cmd == PMI_CMD_PUBLISH_NAME && s->ops->publish)
        rc = s->ops->publish(s->arg, idx, service, port);
    else if (msg->cmd == PMI_CMD_LOOKUP_NAME && s->ops->lookup)
        rc = s->ops->lookup(s->arg, idx, service);
    else if (msg->cmd == PMI_CMD_UNPUBLISH_NAME && s->ops->unpublish)
        rc = s->ops->unpublish(s->arg, idx, service);
    if (rc < 0 && t->state == NAME) {
        pmi_server_set_state(s, t, READY);
        pmi_server_refuse(s, t, msg->cmd, "no name service for this job");
    }
}

static void on_getbyidx(struct pmi_server *s, struct pmi_task *t, const struct pmi_msg *msg)
{
    pmi_server_refuse(s, t, msg->cmd, "iteration is not supported; get by key");
}

static void on_other_kvs(struct pmi_server *s, struct pmi_task *t, const struct pmi_msg *msg)
{
    pmi_server_refuse(s, t, msg->cmd, "a job has one kvs; see get_my_kvsname");
}

#define NO_SPAWN "spawn is not supported; submit another job"

static void on_spawn(struct pmi_server *s, struct pmi_task *t, const struct pmi_msg *msg)
{
    if (!msg->block)
        pmi_server_refuse(s, t, msg->cmd, NO_SPAWN);
    else if (msg->nfields > 0)
        pmi_server_give_up(s, t, "sent mcmd=spawn with fields on its line");
    else
        pmi_spawn_begin(&t->spawn);
}

static void spawn(struct pmi_server *s, struct pmi_task *t)
{
    const char *why = NO_SPAWN;
    bool able = t->state == READY && s->ops->spawn;
    size_t len = 0;
    void *req = able ? pmi_spawn_take(&t->spawn, &len) : NULL;

    if (t->state != READY) {
        why = "spawn is not possible before init or after finalize";
    } else if (able && !req) {
        why = "out of memory for a spawn";
    } else if (able) {
        pmi_spawn_clear(&t->spawn);
        pmi_server_set_state(s, t, NAME);
        t->name_cmd = PMI_CMD_SPAWN;
        if (s->ops->spawn(s->arg, pmi_server_index(s, t), req, len) == 0 || t->state != NAME)
            why = NULL;
        else
            pmi_server_set_state(s, t, READY);
        free(req);
    }
    pmi_spawn_clear(&t->spawn);
    if (why)
        pmi_server_refuse(s, t, PMI_CMD_SPAWN, why);
}

/* A client sends one block for each command of a spawn, and then waits for a single response. */
static void block_line(struct pmi_server *s, struct pmi_task *t, const char *line, size_t len)
{
    int rc = pmi_spawn_line(&t->spawn, line, len);

    if (rc < 0) {
        pmi_server_give_up(s, t, "sent a line that does not belong to an mcmd=spawn block (%.*s)",
                           len < 64 ? (int)len : 64, line);
    } else if (rc == 2) {
        spawn(s, t);
    }
}

#define IDLE (NEW | READY | DONE)

/* The handlers by command.  A request that is not allowed in an idle state is refused. */
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

void pmi_server_line(struct pmi_server *s, struct pmi_task *t, const char *line, size_t len)
{
    const struct handler *h;
    struct pmi_msg msg;

    if (t->spawn.in_block) {
        block_line(s, t, line, len);
        return;
    }
    if (pmi_wire_parse(line, len, &msg) < 0) {
        pmi_server_give_up(s, t,
                           errno == ENOSYS ? "sent a command that does not exist in PMI-1 (%.*s)"
                                           : "sent a line that is not PMI-1 (%.*s)",
                           len < 64 ? (int)len : 64, line);
        return;
    }
    h = &handlers[msg.cmd];
    if (t->spawn.done && msg.cmd != PMI_CMD_ABORT && !(msg.cmd == PMI_CMD_SPAWN && msg.block))
        pmi_server_give_up(s, t, "sent %s within a spawn of %d commands", pmi_cmd_name(msg.cmd),
                           t->spawn.total);
    else if (!h->fn)
        pmi_server_give_up(s, t, "sent %s, which only a server may send", pmi_cmd_name(msg.cmd));
    else if (t->state & h->in)
        h->fn(s, t, &msg);
    else if (t->state & (BARRIER | NAME))
        pmi_server_give_up(s, t, "sent %s before the response to its last request",
                           pmi_cmd_name(msg.cmd));
    else if (msg.cmd == PMI_CMD_ABORT)
        pmi_server_give_up(s, t, "sent abort after finalize");
    else
        pmi_server_refuse(s, t, msg.cmd,
                          t->state == NEW    ? "init must be the first request"
                          : t->state == DONE ? "this task has already finalized"
                                             : "init was already called");
}
