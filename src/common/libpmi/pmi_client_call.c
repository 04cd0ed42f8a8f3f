/* pmi_client_call.c - the requests of a program to a PMI-1 server: pairs, barriers, names, spawn,
 * abort.
 *
 * A value that is longer than the server's limit is divided into segments, as by MPICH's clients:
 * KEY has "segments=N", and KEY-seg-1/N to KEY-seg-N/N have the pieces.
 */
#include "config.h"
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "libpmi/pmi_client_private.h"

#define ABORT_WAIT 5000 /* ms, for a launcher that does not kill */

static int int_call(struct pmi_client *c, enum pmi_cmd cmd, const char *field, int *value,
                    errmsg_t *err)
{
    struct pmi_msg msg;

    if (pmi_client_simple_call(c, cmd, &msg, err) < 0)
        return -1;
    if (pmi_msg_get_int(&msg, field, INT32_MIN, INT32_MAX, value) < 0)
        return errmsg_fail(err, EPROTO, "PMI: the server's response to %s has no number %s",
                           pmi_cmd_name(cmd), field);
    return 0;
}

int pmi_client_finalize(struct pmi_client *c, errmsg_t *err)
{
    struct pmi_msg msg;
    int rc = pmi_client_simple_call(c, PMI_CMD_FINALIZE, &msg, err);

    if (rc == 0)
        c->finalized = true;
    return rc;
}

int pmi_client_rank(const struct pmi_client *c)
{
    return c->rank;
}

int pmi_client_size(const struct pmi_client *c)
{
    return c->size;
}

bool pmi_client_is_singleton(const struct pmi_client *c)
{
    return c->fd < 0;
}

const char *pmi_client_kvsname(const struct pmi_client *c)
{
    return c->kvsname;
}

size_t pmi_client_name_max(const struct pmi_client *c)
{
    return c->name_max;
}

size_t pmi_client_key_max(const struct pmi_client *c)
{
    return c->key_max;
}

size_t pmi_client_value_max(const struct pmi_client *c)
{
    return c->value_max;
}

int pmi_client_universe_size(struct pmi_client *c, int *size, errmsg_t *err)
{
    return int_call(c, PMI_CMD_GET_UNIVERSE_SIZE, "size", size, err);
}

int pmi_client_appnum(struct pmi_client *c, int *appnum, errmsg_t *err)
{
    return int_call(c, PMI_CMD_GET_APPNUM, "appnum", appnum, err);
}

static int check_word(const char *what, const char *word, size_t max, errmsg_t *err)
{
    if (word && pmi_wire_word_ok(word, strlen(word), max))
        return 0;
    return errmsg_fail(err, EINVAL, "PMI: a %s must have 1 to %zu bytes without blanks", what, max);
}

static void key_request(struct pmi_client *c, struct pmi_out *o, enum pmi_cmd cmd, const char *key)
{
    pmi_out_init(o, c->out, sizeof(c->out));
    pmi_out_cmd(o, cmd);
    pmi_out_str(o, "kvsname", c->kvsname);
    pmi_out_str(o, "key", key);
}

static int put_one(struct pmi_client *c, const char *key, const char *value, size_t len,
                   errmsg_t *err)
{
    struct pmi_msg msg;
    struct pmi_out o;

    key_request(c, &o, PMI_CMD_PUT, key);
    pmi_out_bytes(&o, "value", value, len);
    if (pmi_client_call(c, &o, PMI_CMD_PUT_RESULT, &msg, err) < 0)
        return -1;
    return pmi_client_check_rc(c, &msg, "put", err);
}

#define SEGMENTS "segments="

/* Name of a segment; -1 when it does not fit. */
static int segment_key(const struct pmi_client *c, char *buf, size_t size, const char *key,
                       size_t i, size_t n)
{
    int len = snprintf(buf, size, "%s-seg-%zu/%zu", key, i, n);

    return len < 0 || (size_t)len >= size || (size_t)len > c->key_max ? -1 : 0;
}

/* Put the pieces first, so that a task that sees KEY also sees them. */
static int put_segments(struct pmi_client *c, const char *key, const char *value, size_t len,
                        errmsg_t *err)
{
    size_t n = len ? (len + c->value_max - 1) / c->value_max : 1;
    char name[PMI_CLIENT_NAME_MAX + 1], count[32];

    if (segment_key(c, name, sizeof(name), key, n, n) < 0)
        return errmsg_fail(
            err, EINVAL,
            "PMI: the value of %s is too long for one line, and its key too long for "
            "several: keys have at most %zu bytes",
            key, c->key_max);
    for (size_t i = 0; i < n; i++) {
        size_t at = i * c->value_max, left = len - at;

        segment_key(c, name, sizeof(name), key, i + 1, n);
        if (put_one(c, name, value + at, left < c->value_max ? left : c->value_max, err) < 0)
            return -1;
    }
    snprintf(count, sizeof(count), SEGMENTS "%zu", n);
    return put_one(c, key, count, strlen(count), err);
}

int pmi_client_put(struct pmi_client *c, const char *key, const char *value, errmsg_t *err)
{
    size_t len = value ? strlen(value) : 0;

    if (check_word("key", key, c->key_max, err) < 0)
        return -1;
    if (!value || !pmi_wire_value_ok(value, len, PMI_CLIENT_VALUE_LIMIT))
        return errmsg_fail(err, EINVAL,
                           "PMI: the value of %s must have at most %zu printable bytes", key,
                           PMI_CLIENT_VALUE_LIMIT);
    /* A short value that looks like the head of segments is stored in segments, too; else a reader
     * would take it for one.
     */
    if (len > c->value_max || strncmp(value, SEGMENTS, strlen(SEGMENTS)) == 0)
        return put_segments(c, key, value, len, err);
    return put_one(c, key, value, len, err);
}

static int copy_out(struct pmi_slice s, char *dst, size_t cap, errmsg_t *err)
{
    if (s.len >= cap)
        return errmsg_fail(err, ERANGE, "PMI: %zu bytes do not fit in a buffer of %zu", s.len + 1,
                           cap);
    memcpy(dst, s.p, s.len);
    dst[s.len] = '\0';
    return 0;
}

static int get_one(struct pmi_client *c, const char *key, struct pmi_slice *value, errmsg_t *err)
{
    struct pmi_msg msg;
    struct pmi_out o;

    key_request(c, &o, PMI_CMD_GET, key);
    if (pmi_client_call(c, &o, PMI_CMD_GET_RESULT, &msg, err) < 0)
        return -1;
    if (pmi_client_check_rc(c, &msg, "get", NULL) < 0)
        return errmsg_fail(err, ENOENT, "PMI: no value for key %s", key);
    if (!pmi_msg_get(&msg, "value", value))
        return pmi_client_broken(c, err, EPROTO, "the response to get has no value");
    return 0;
}

/* The number of segments, if the value is a head of segments; else 0. */
static size_t segments_of(struct pmi_slice s)
{
    struct pmi_slice num = {s.p + strlen(SEGMENTS), s.len - strlen(SEGMENTS)};
    int n;

    if (s.len <= strlen(SEGMENTS) || memcmp(s.p, SEGMENTS, strlen(SEGMENTS)) != 0 ||
        pmi_slice_int(num, 1, (int)PMI_CLIENT_VALUE_LIMIT, &n) < 0)
        return 0;
    return (size_t)n;
}

static int get_segments(struct pmi_client *c, const char *key, size_t n, char *value, size_t cap,
                        errmsg_t *err)
{
    char name[PMI_CLIENT_NAME_MAX + 1];
    size_t at = 0;

    for (size_t i = 1; i <= n; i++) {
        struct pmi_slice s;

        if (segment_key(c, name, sizeof(name), key, i, n) < 0 || get_one(c, name, &s, err) < 0)
            return c->broken ? -1
                             : errmsg_fail(err, EREMOTEIO,
                                           "PMI: segment %zu of %zu of the value of %s is missing",
                                           i, n, key);
        if (s.len >= cap - at)
            return errmsg_fail(err, ERANGE, "PMI: the value of %s does not fit in a buffer of %zu",
                               key, cap);
        memcpy(value + at, s.p, s.len);
        at += s.len;
        value[at] = '\0';
    }
    return 0;
}

int pmi_client_get(struct pmi_client *c, const char *key, char *value, size_t cap, errmsg_t *err)
{
    struct pmi_slice s;
    size_t n;

    if (check_word("key", key, c->key_max, err) < 0 || get_one(c, key, &s, err) < 0)
        return -1;
    if ((n = segments_of(s)) > 0)
        return get_segments(c, key, n, value, cap, err);
    return copy_out(s, value, cap, err);
}

int pmi_client_barrier(struct pmi_client *c, errmsg_t *err)
{
    struct pmi_msg msg;

    return pmi_client_simple_call(c, PMI_CMD_BARRIER_IN, &msg, err);
}

int pmi_client_abort(struct pmi_client *c, int exitcode, const char *text, errmsg_t *err)
{
    struct pmi_out o;

    pmi_out_init(&o, c->out, sizeof(c->out));
    pmi_out_cmd(&o, PMI_CMD_ABORT);
    pmi_out_int(&o, "exitcode", exitcode);
    if (text && *text)
        pmi_out_text(&o, "error_msg", text);
    pmi_out_end(&o);
    if (pmi_client_request(c, &o, err) < 0)
        return -1;
    /* The server does not respond, but ends this process by a signal.  If the task went on to exit,
     * it would close its connections to other tasks, whose error messages could overtake this
     * request. */
    if (c->fd >= 0)
        poll(&(struct pollfd){.fd = c->fd, .events = POLLIN}, 1, ABORT_WAIT);
    return 0;
}

static int name_call(struct pmi_client *c, enum pmi_cmd cmd, const char *service, const char *port,
                     struct pmi_msg *msg, errmsg_t *err)
{
    struct pmi_out o;

    if (check_word("service name", service, c->name_max, err) < 0)
        return -1;
    pmi_out_init(&o, c->out, sizeof(c->out));
    pmi_out_cmd(&o, cmd);
    pmi_out_str(&o, "service", service);
    if (port)
        pmi_out_str(&o, "port", port);
    if (pmi_client_call(c, &o, pmi_cmd_response(cmd), msg, err) < 0)
        return -1;
    return pmi_client_check_rc(c, msg, pmi_cmd_name(cmd), err);
}

int pmi_client_publish(struct pmi_client *c, const char *service, const char *port, errmsg_t *err)
{
    struct pmi_msg msg;

    if (!port || !*port || !pmi_wire_value_ok(port, strlen(port), c->name_max))
        return errmsg_fail(err, EINVAL, "PMI: a port must have 1 to %zu printable bytes",
                           c->name_max);
    return name_call(c, PMI_CMD_PUBLISH_NAME, service, port, &msg, err);
}

int pmi_client_unpublish(struct pmi_client *c, const char *service, errmsg_t *err)
{
    struct pmi_msg msg;

    return name_call(c, PMI_CMD_UNPUBLISH_NAME, service, NULL, &msg, err);
}

int pmi_client_lookup(struct pmi_client *c, const char *service, char *port, size_t cap,
                      errmsg_t *err)
{
    struct pmi_slice s;
    struct pmi_msg msg;

    if (name_call(c, PMI_CMD_LOOKUP_NAME, service, NULL, &msg, err) < 0)
        return -1;
    if (!pmi_msg_get(&msg, "port", &s))
        return pmi_client_broken(c, err, EPROTO, "the response to lookup has no port");
    return copy_out(s, port, cap, err);
}

/* --- spawn --- */

/* Append a line of a block; the lines are written to the socket as they fill the buffer. */
static void spawn_line(struct pmi_out *o, const char *name, const char *value)
{
    size_t a = strlen(name), b = strlen(value);

    if (!pmi_wire_value_ok(value, b, PMI_WIRE_LINE_MAX) || a + b + 2 > o->cap - o->len) {
        o->bad = true;
        return;
    }
    memcpy(o->p + o->len, name, a);
    o->p[o->len + a] = '=';
    memcpy(o->p + o->len + a + 1, value, b);
    o->p[o->len + a + 1 + b] = '\n';
    o->len += a + b + 2;
}

static void spawn_number(struct pmi_out *o, const char *name, size_t n)
{
    char text[24];

    snprintf(text, sizeof(text), "%zu", n);
    spawn_line(o, name, text);
}

static void spawn_pairs(struct pmi_out *o, const char *what, const char *const *list, size_t n)
{
    char name[48];

    snprintf(name, sizeof(name), "%s_num", what);
    spawn_number(o, name, n);
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "%s_key_%zu", what, i);
        spawn_line(o, name, list[2 * i]);
        snprintf(name, sizeof(name), "%s_val_%zu", what, i);
        spawn_line(o, name, list[2 * i + 1]);
    }
}

static void spawn_block(struct pmi_out *o, const struct pmi_client_command *cmd, size_t i, size_t n)
{
    char name[32];
    size_t argc = 0;

    memcpy(o->p, "mcmd=spawn\n", o->len = 11);
    spawn_number(o, "nprocs", (size_t)cmd->nprocs);
    spawn_line(o, "execname", cmd->program);
    spawn_number(o, "totspawns", n);
    spawn_number(o, "spawnssofar", i + 1);
    for (; cmd->argv && cmd->argv[argc]; argc++) {
        snprintf(name, sizeof(name), "arg%zu", argc + 1);
        spawn_line(o, name, cmd->argv[argc]);
    }
    spawn_number(o, "argcnt", argc);
}

int pmi_client_spawn(struct pmi_client *c, const struct pmi_client_command *cmds, size_t ncmds,
                     const char *const *preput, size_t npreput, errmsg_t *err)
{
    struct pmi_msg msg;
    struct pmi_out o;

    for (size_t i = 0; i < ncmds; i++)
        if (cmds[i].nprocs < 1 || !cmds[i].program || !*cmds[i].program)
            return errmsg_fail(
                err, EINVAL,
                "PMI: a command to spawn requires a program and a number of processes");
    if (ncmds == 0)
        return errmsg_fail(err, EINVAL, "PMI: the list of commands to spawn is empty");
    for (size_t i = 0; i < ncmds; i++) {
        pmi_out_init(&o, c->out, sizeof(c->out));
        spawn_block(&o, &cmds[i], i, ncmds);
        spawn_pairs(&o, "preput", i == 0 ? preput : NULL, i == 0 ? npreput : 0);
        spawn_pairs(&o, "info", cmds[i].info, cmds[i].ninfo);
        if (o.bad || o.cap - o.len < 7) {
            /* A part may have been sent: then the dialog cannot go on. */
            if (i > 0)
                c->broken = EINVAL;
            return errmsg_fail(
                err, EINVAL, "PMI: command %zu to spawn has too many or unprintable arguments", i);
        }
        memcpy(o.p + o.len, "endcmd\n", 7);
        o.len += 7;
        if (pmi_client_request(c, &o, err) < 0)
            return -1;
    }
    if (pmi_client_response(c, PMI_CMD_SPAWN_RESULT, &msg, err) < 0)
        return -1;
    return pmi_client_check_rc(c, &msg, "spawn", err);
}
