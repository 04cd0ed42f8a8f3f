/* pmi_wire.c - lines of the PMI-1 "simple" wire protocol.
 *
 * Grammar:
 *
 *   line   = ("cmd=" | "mcmd=") command *(1*SP field) [1*SP tail] LF
 *   field  = name "=" *(byte above 0x20)        name: letters, digits, '_', '-', '.'
 *   tail   = tailname "=" *(byte from 0x20 on, or tab)      runs to the end of the line
 *   block  = mcmd-line *(name "=" bytes LF) "endcmd" LF
 *
 * The column `tail` of the table of commands names the field that is the tail: values, ports and
 * error messages may contain blanks, and senders put them last.
 *
 * Invariants:
 *  1. Parsing copies nothing and writes nothing: slices point into the caller's line.
 *  2. commands[] is sorted by name and indexed by enum pmi_cmd; look-up is a binary search.
 *  3. No field occurs twice in an accepted line.
 *  4. A line that was formatted here is parsed back to the same fields (the caller gives words
 *     that pmi_wire_word_ok() accepts).
 *
 * Failure: errno tells bad grammar (EPROTO), an unknown command (ENOSYS) and sizes (E2BIG) apart; a
 * formatter whose buffer is full sets `bad` and writes nothing more.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libpmi/pmi_wire.h"

#define TEXT_MAX 200

#define NO_RESPONSE PMI_CMD_COUNT

struct command {
    const char *name;
    const char *tail;      /* field that runs to the end of the line */
    enum pmi_cmd response; /* the response to it; NO_RESPONSE */
};

static const struct command commands[PMI_CMD_COUNT] = {
    [PMI_CMD_ABORT] = {"abort", "error_msg", NO_RESPONSE},
    [PMI_CMD_APPNUM] = {"appnum", NULL, NO_RESPONSE},
    [PMI_CMD_BARRIER_IN] = {"barrier_in", NULL, PMI_CMD_BARRIER_OUT},
    [PMI_CMD_BARRIER_OUT] = {"barrier_out", NULL, NO_RESPONSE},
    [PMI_CMD_CREATE_KVS] = {"create_kvs", NULL, PMI_CMD_NEWKVS},
    [PMI_CMD_DESTROY_KVS] = {"destroy_kvs", NULL, PMI_CMD_KVS_DESTROYED},
    [PMI_CMD_FINALIZE] = {"finalize", NULL, PMI_CMD_FINALIZE_ACK},
    [PMI_CMD_FINALIZE_ACK] = {"finalize_ack", NULL, NO_RESPONSE},
    [PMI_CMD_GET] = {"get", NULL, PMI_CMD_GET_RESULT},
    [PMI_CMD_GET_APPNUM] = {"get_appnum", NULL, PMI_CMD_APPNUM},
    [PMI_CMD_GET_MAXES] = {"get_maxes", NULL, PMI_CMD_MAXES},
    [PMI_CMD_GET_MY_KVSNAME] = {"get_my_kvsname", NULL, PMI_CMD_MY_KVSNAME},
    [PMI_CMD_GET_RESULT] = {"get_result", "value", NO_RESPONSE},
    [PMI_CMD_GET_UNIVERSE_SIZE] = {"get_universe_size", NULL, PMI_CMD_UNIVERSE_SIZE},
    [PMI_CMD_GETBYIDX] = {"getbyidx", NULL, PMI_CMD_GETBYIDX_RESULTS},
    [PMI_CMD_GETBYIDX_RESULTS] = {"getbyidx_results", "val", NO_RESPONSE},
    [PMI_CMD_INIT] = {"init", NULL, PMI_CMD_RESPONSE_TO_INIT},
    [PMI_CMD_INITACK] = {"initack", NULL, PMI_CMD_INITACK},
    [PMI_CMD_KVS_DESTROYED] = {"kvs_destroyed", NULL, NO_RESPONSE},
    [PMI_CMD_LOOKUP_NAME] = {"lookup_name", NULL, PMI_CMD_LOOKUP_RESULT},
    [PMI_CMD_LOOKUP_RESULT] = {"lookup_result", "port", NO_RESPONSE},
    [PMI_CMD_MAXES] = {"maxes", NULL, NO_RESPONSE},
    [PMI_CMD_MY_KVSNAME] = {"my_kvsname", NULL, NO_RESPONSE},
    [PMI_CMD_NEWKVS] = {"newkvs", NULL, NO_RESPONSE},
    [PMI_CMD_PUBLISH_NAME] = {"publish_name", "port", PMI_CMD_PUBLISH_RESULT},
    [PMI_CMD_PUBLISH_RESULT] = {"publish_result", NULL, NO_RESPONSE},
    [PMI_CMD_PUT] = {"put", "value", PMI_CMD_PUT_RESULT},
    [PMI_CMD_PUT_RESULT] = {"put_result", NULL, NO_RESPONSE},
    [PMI_CMD_RESPONSE_TO_INIT] = {"response_to_init", NULL, NO_RESPONSE},
    [PMI_CMD_SET] = {"set", NULL, NO_RESPONSE},
    [PMI_CMD_SPAWN] = {"spawn", NULL, PMI_CMD_SPAWN_RESULT},
    [PMI_CMD_SPAWN_RESULT] = {"spawn_result", NULL, NO_RESPONSE},
    [PMI_CMD_UNIVERSE_SIZE] = {"universe_size", NULL, NO_RESPONSE},
    [PMI_CMD_UNPUBLISH_NAME] = {"unpublish_name", NULL, PMI_CMD_UNPUBLISH_RESULT},
    [PMI_CMD_UNPUBLISH_RESULT] = {"unpublish_result", NULL, NO_RESPONSE},
};

static int fail(int errnum)
{
    errno = errnum;
    return -1;
}

static bool name_byte(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

static int slice_cmp(struct pmi_slice s, const char *str)
{
    size_t n = strlen(str);
    int rc = memcmp(s.p, str, s.len < n ? s.len : n);

    if (rc)
        return rc;
    return s.len < n ? -1 : s.len > n;
}

bool pmi_slice_eq(struct pmi_slice s, const char *str)
{
    return strlen(str) == s.len && !memcmp(s.p, str, s.len);
}

static int find_command(struct pmi_slice name, enum pmi_cmd *cmd)
{
    size_t lo = 0, hi = PMI_CMD_COUNT;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int rc = slice_cmp(name, commands[mid].name);

        if (rc == 0) {
            *cmd = (enum pmi_cmd)mid;
            return 0;
        }
        if (rc < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return fail(ENOSYS);
}

ptrdiff_t pmi_wire_line(const char *data, size_t len)
{
    const char *nl = len ? memchr(data, '\n', len) : NULL;

    return nl ? nl - data : -1;
}

bool pmi_wire_value_ok(const char *p, size_t len, size_t max)
{
    if (len > max)
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)p[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

bool pmi_wire_word_ok(const char *p, size_t len, size_t max)
{
    if (len == 0 || len > max)
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)p[i];

        if (c <= 0x20 || c == 0x7f)
            return false;
    }
    return true;
}

/* Read `name=` from *p; the caller reads the value. */
static int take_name(const char **p, const char *end, struct pmi_slice *name)
{
    name->p = *p;
    while (*p < end && name_byte((unsigned char)**p))
        (*p)++;
    name->len = (size_t)(*p - name->p);
    if (name->len == 0 || *p == end || **p != '=')
        return fail(EPROTO);
    (*p)++;
    return 0;
}

static struct pmi_slice take_word(const char **p, const char *end)
{
    struct pmi_slice s = {*p, 0};
    const char *sp = *p < end ? memchr(*p, ' ', (size_t)(end - *p)) : NULL;

    *p = sp ? sp : end;
    s.len = (size_t)(*p - s.p);
    return s;
}

static bool have_field(const struct pmi_msg *msg, struct pmi_slice name)
{
    for (size_t i = 0; i < msg->nfields; i++) {
        if (msg->fields[i].name.len == name.len && !memcmp(msg->fields[i].name.p, name.p, name.len))
            return true;
    }
    return false;
}

int pmi_wire_parse(const char *line, size_t len, struct pmi_msg *msg)
{
    const char *p = line, *end = line + len;
    struct pmi_slice name;
    const char *tail;

    msg->nfields = 0;
    msg->block = false;
    if (len >= PMI_WIRE_LINE_MAX)
        return fail(E2BIG);
    if (!pmi_wire_value_ok(line, len, PMI_WIRE_LINE_MAX) || take_name(&p, end, &name) < 0)
        return fail(EPROTO);
    msg->block = pmi_slice_eq(name, "mcmd");
    if (!msg->block && !pmi_slice_eq(name, "cmd"))
        return fail(EPROTO);
    if (find_command(take_word(&p, end), &msg->cmd) < 0)
        return -1;
    tail = commands[msg->cmd].tail;
    for (;;) {
        struct pmi_field *f = &msg->fields[msg->nfields];

        while (p < end && *p == ' ')
            p++;
        if (p == end)
            return 0;
        if (msg->nfields == PMI_WIRE_FIELDS_MAX)
            return fail(E2BIG);
        if (take_name(&p, end, &f->name) < 0 || have_field(msg, f->name))
            return fail(EPROTO);
        if (tail && pmi_slice_eq(f->name, tail)) {
            f->value = (struct pmi_slice){p, (size_t)(end - p)};
            p = end;
        } else {
            f->value = take_word(&p, end);
        }
        msg->nfields++;
    }
}

int pmi_wire_parse_block(const char *line, size_t len, struct pmi_field *field)
{
    const char *p = line, *end = line + len;

    if (len >= PMI_WIRE_LINE_MAX)
        return fail(E2BIG);
    if (!pmi_wire_value_ok(line, len, PMI_WIRE_LINE_MAX))
        return fail(EPROTO);
    if (len == 6 && !memcmp(line, "endcmd", 6))
        return 1;
    if (take_name(&p, end, &field->name) < 0)
        return -1;
    field->value = (struct pmi_slice){p, (size_t)(end - p)};
    return 0;
}

bool pmi_msg_get(const struct pmi_msg *msg, const char *name, struct pmi_slice *value)
{
    for (size_t i = 0; i < msg->nfields; i++) {
        if (pmi_slice_eq(msg->fields[i].name, name)) {
            *value = msg->fields[i].value;
            return true;
        }
    }
    *value = (struct pmi_slice){"", 0};
    return false;
}

int pmi_slice_int(struct pmi_slice s, int lo, int hi, int *value)
{
    bool neg = s.len > 0 && s.p[0] == '-';
    long n = 0;

    if (s.len == (size_t)neg || s.len - (size_t)neg > 10)
        return fail(EPROTO);
    for (size_t i = neg; i < s.len; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return fail(EPROTO);
        n = n * 10 + (s.p[i] - '0');
    }
    if (neg)
        n = -n;
    if (n < lo || n > hi)
        return fail(EPROTO);
    *value = (int)n;
    return 0;
}

int pmi_msg_get_int(const struct pmi_msg *msg, const char *name, int lo, int hi, int *value)
{
    struct pmi_slice s;

    if (!pmi_msg_get(msg, name, &s))
        return fail(ENOENT);
    return pmi_slice_int(s, lo, hi, value);
}

const char *pmi_cmd_name(enum pmi_cmd cmd)
{
    return commands[cmd].name;
}

enum pmi_cmd pmi_cmd_response(enum pmi_cmd cmd)
{
    return commands[cmd].response;
}

void pmi_out_init(struct pmi_out *o, void *mem, size_t cap)
{
    o->p = mem;
    o->cap = cap;
    o->len = 0;
    o->bad = false;
}

static void put_raw(struct pmi_out *o, const char *p, size_t len)
{
    if (o->bad || len > o->cap - o->len) {
        o->bad = true;
        return;
    }
    if (len)
        memcpy(o->p + o->len, p, len);
    o->len += len;
}

static void put_name(struct pmi_out *o, const char *name)
{
    put_raw(o, " ", 1);
    put_raw(o, name, strlen(name));
    put_raw(o, "=", 1);
}

void pmi_out_cmd(struct pmi_out *o, enum pmi_cmd cmd)
{
    put_raw(o, "cmd=", 4);
    put_raw(o, commands[cmd].name, strlen(commands[cmd].name));
}

void pmi_out_bytes(struct pmi_out *o, const char *name, const char *p, size_t len)
{
    put_name(o, name);
    put_raw(o, p, len);
}

void pmi_out_str(struct pmi_out *o, const char *name, const char *value)
{
    pmi_out_bytes(o, name, value, strlen(value));
}

void pmi_out_int(struct pmi_out *o, const char *name, long value)
{
    char num[24];
    int n = snprintf(num, sizeof(num), "%ld", value);

    pmi_out_bytes(o, name, num, (size_t)n);
}

void pmi_out_text(struct pmi_out *o, const char *name, const char *text)
{
    char word[TEXT_MAX];
    size_t n = 0;

    for (; *text && n < sizeof(word); text++)
        word[n++] = (unsigned char)*text <= 0x20 || *text == 0x7f ? '_' : *text;
    pmi_out_bytes(o, name, word, n);
}

void pmi_out_end(struct pmi_out *o)
{
    put_raw(o, "\n", 1);
}
