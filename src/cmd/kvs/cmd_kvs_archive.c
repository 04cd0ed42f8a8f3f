/* cmd_kvs_archive.c - write and parse the text of archives (cmd_kvs_archive.h).
 *
 * The parser reads one line at a time:
 *
 *    state     line                              next state                     by
 *    HEAD      flux-kvs-archive 1                BODY                           read_line
 *    BODY      a value                           VALUE                          read_value
 *              a link, a directory               BODY                           read_entry
 *              end                               DONE                           read_entry
 *    VALUE     a piece (begins with a blank)     VALUE                          read_piece
 *              other lines                       end of the value; as in BODY   end_value
 *    DONE      none but comments                 DONE                           read_line
 *
 * Invariants:
 *  1. Input is checked to the last byte: base64 has its padding and no stray bits, quotes
 *     are closed, and nothing follows the contents of a line.
 *  2. Memory is bounded by the length of one line.
 *  3. The state changes by the transitions of `moves` only.
 *
 * Failure: parsing ends at the first error, with the number of its line.
 */
#include "config.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_kvs_archive.h"
#include "libkvs/kvs_key.h"
#include "libutil/invariant.h"
#include "libutil/strutil.h"

#define LINE_MAX_BYTES ((size_t)1024 * 1024)
#define SHORT_VALUE 72
#define TEXT_LINE 2048   /* bytes of a text in one piece */
#define BINARY_LINE 3072 /* a multiple of 3 */

static const char head[] = "flux-kvs-archive 1";

/* --- writing --- */

static void put_quoted(FILE *out, const char *s, size_t len)
{
    putc('"', out);
    for (size_t i = 0; i < len; i++) {
        unsigned char ch = (unsigned char)s[i];
        if (ch == '\n')
            fputs("\\n", out);
        else if (ch == '\t')
            fputs("\\t", out);
        else if (ch == '\r')
            fputs("\\r", out);
        else if (ch == '"' || ch == '\\')
            fprintf(out, "\\%c", ch);
        else if (ch < 0x20 || ch == 0x7f)
            fprintf(out, "\\x%02x", ch);
        else
            putc(ch, out);
    }
    putc('"', out);
}

static bool bare_byte(unsigned char ch)
{
    return ch > 0x20 && ch != 0x7f && ch != '"' && ch != '\\';
}

static void put_key(FILE *out, const char *key, size_t len)
{
    bool bare = key[0] != '#' && !(len == 3 && memcmp(key, "end", 3) == 0);

    for (size_t i = 0; i < len && bare; i++)
        bare = bare_byte((unsigned char)key[i]);
    if (bare)
        fwrite(key, 1, len, out);
    else
        put_quoted(out, key, len);
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void put_base64(FILE *out, const char *data, size_t len)
{
    const unsigned char *p = (const unsigned char *)data;

    fputs("base64 ", out);
    for (size_t i = 0; i < len; i += 3) {
        size_t n = len - i < 3 ? len - i : 3;
        unsigned v =
            (unsigned)p[i] << 16 | (n > 1 ? (unsigned)p[i + 1] << 8 : 0) | (n > 2 ? p[i + 2] : 0);
        putc(digits[v >> 18], out);
        putc(digits[v >> 12 & 63], out);
        putc(n > 1 ? digits[v >> 6 & 63] : '=', out);
        putc(n > 2 ? digits[v & 63] : '=', out);
    }
}

void archive_put_head(FILE *out, const char *comment)
{
    fprintf(out, "%s\n# %s\n", head, comment);
}

void archive_put_dir(FILE *out, const char *key)
{
    put_key(out, key, strlen(key));
    fputs(".\n", out);
}

void archive_put_link(FILE *out, const char *key, const char *target, size_t len)
{
    put_key(out, key, strlen(key));
    fputs(" -> ", out);
    put_key(out, target, len);
    putc('\n', out);
}

void archive_put_value(FILE *out, const char *key, uint64_t size)
{
    put_key(out, key, strlen(key));
    fputs(size == 0 ? " = \"\"\n" : size <= SHORT_VALUE ? " =" : " =\n", out);
}

/* How much of a text goes in one piece: to the end of its line, or as far as it may be long without
 * cutting a character in two. */
static size_t text_line(const char *data, size_t len)
{
    size_t max = len < TEXT_LINE ? len : TEXT_LINE;
    const char *nl = memchr(data, '\n', max);

    if (nl)
        return (size_t)(nl - data) + 1;
    return max == len ? len : str_utf8_span(data, max);
}

void archive_put_piece(FILE *out, const char *data, size_t len)
{
    /* A piece may end within a character. */
    size_t text = str_utf8_span(data, len);
    bool whole = len <= SHORT_VALUE;

    if (len - text > 3 || memchr(data, 0, len))
        text = 0;
    while (len > 0) {
        size_t n = text > 0 ? (whole ? text : text_line(data, text))
                            : (len < BINARY_LINE ? len : BINARY_LINE);
        fputs(whole ? " " : "  ", out);
        if (text > 0) {
            put_quoted(out, data, n);
            text -= n;
        } else
            put_base64(out, data, n);
        putc('\n', out);
        data += n;
        len -= n;
    }
}

void archive_put_left_out(FILE *out, const char *key)
{
    fputs("# left out, too long: ", out);
    put_key(out, key, strlen(key));
    putc('\n', out);
}

void archive_put_end(FILE *out)
{
    fputs("end\n", out);
}

/* --- reading --- */

enum state { HEAD, BODY, VALUE, DONE };

struct reader {
    FILE *in;
    const struct archive_ops *ops;
    void *arg;
    errmsg_t *err;
    enum state state;
    unsigned long number; /* of the line */
    char *line;           /* NUL-terminated, without its newline */
    size_t len;
    bool pieces; /* the value has any */
    char key[KVS_KEY_MAX + 1];
    char target[KVS_KEY_MAX + 1];
};

static const struct transition moves[] = {
    {HEAD, BODY, "read_line"},
    {BODY, VALUE, "read_value"},
    {BODY, DONE, "read_entry"},
    {VALUE, BODY, "end_value"},
    TRANSITION_END,
};

static void set_state(struct reader *r, enum state state)
{
    TRANSITION(3, moves, r->state, state);
    r->state = state;
}

static int bad(struct reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int bad(struct reader *r, const char *fmt, ...)
{
    char text[200];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return errmsg_fail(r->err, EPROTO, "line %lu: %s", r->number, text);
}

/* What an operation said, with the line. */
static int done(struct reader *r, int rc, const errmsg_t *err)
{
    return rc < 0 ? bad(r, "%s", err->text) : 0;
}

/* 1 with the next line, 0 at the end of the file, -1. */
static int next_line(struct reader *r)
{
    int ch;

    r->len = 0;
    while ((ch = getc_unlocked(r->in)) != EOF && ch != '\n') {
        if (r->len == LINE_MAX_BYTES) {
            r->number++;
            return bad(r, "the line has more than 1 MiB; divide the value into pieces");
        }
        r->line[r->len++] = (char)ch;
    }
    if (ch == EOF && ferror(r->in))
        return errmsg_fail(r->err, errno, "cannot read: %s", strerror(errno));
    if (ch == EOF && r->len == 0)
        return 0;
    r->number++;
    r->line[r->len] = '\0';
    if (memchr(r->line, 0, r->len))
        return bad(r, "the line contains a NUL byte; the file is not an archive, or is damaged");
    return 1;
}

static char *skip_blanks(char *p)
{
    return p + strspn(p, " \t");
}

static int hex_digit(char ch)
{
    return ch >= '0' && ch <= '9'   ? ch - '0'
           : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10
           : ch >= 'A' && ch <= 'F' ? ch - 'A' + 10
                                    : -1;
}

/* The byte that an escape stands for, *p moved on; -1 for none. */
static int unescape(char **p)
{
    static const char from[] = "ntr\"\\", to[] = "\n\t\r\"\\";
    const char *f = **p ? strchr(from, **p) : NULL;

    if (f) {
        ++*p;
        return to[f - from];
    }
    if (**p != 'x' || hex_digit((*p)[1]) < 0 || hex_digit((*p)[2]) < 0)
        return -1;
    *p += 3;
    return hex_digit((*p)[-2]) << 4 | hex_digit((*p)[-1]);
}

/* Text in quotes at *p, decoded in place; *p is moved behind it. */
static int parse_quoted(struct reader *r, char **p, size_t *len)
{
    char *in = *p + 1, *out = *p;

    while (*in != '"') {
        int ch = (unsigned char)*in++;
        if (ch == '\0')
            return bad(r, "a quote is not closed");
        if (ch == '\\' && (ch = unescape(&in)) < 0)
            return bad(r, "a backslash must be followed by one of n t r \" \\ xHH");
        *out++ = (char)ch;
    }
    *len = (size_t)(out - *p);
    *p = in + 1;
    return 0;
}

static int digit_value(char ch)
{
    const char *d = ch ? strchr(digits, ch) : NULL;

    return d ? (int)(d - digits) : -1;
}

/* Base64 at *p (RFC 4648, with padding), decoded in place. */
static int parse_base64(struct reader *r, char **p, size_t *len)
{
    char *in = *p, *out = *p;
    size_t n = strcspn(in, " \t");
    int pad = 0;

    if (n == 0 || n % 4 != 0)
        return bad(r, "base64 must consist of groups of four digits");
    for (size_t i = 0; i < n; i += 4, in += 4) {
        int v[4];
        for (int k = 0; k < 4; k++) {
            bool last = i + 4 == n && k >= 2 && in[k] == '=' && (k == 3 || in[3] == '=');
            v[k] = last ? 0 : digit_value(in[k]);
            if (v[k] < 0)
                return bad(r, "this is not a base64 digit");
            pad += last;
        }
        if ((pad == 2 && v[1] & 15) || (pad == 1 && v[2] & 3))
            return bad(r, "base64 ends with bits that do not form a byte");
        unsigned bits = (unsigned)(v[0] << 18 | v[1] << 12 | v[2] << 6 | v[3]);
        *out++ = (char)(bits >> 16);
        *out++ = (char)(bits >> 8);
        *out++ = (char)bits;
    }
    *len = (size_t)(out - *p) - (size_t)pad;
    *p = in;
    return 0;
}

static int end_of_line(struct reader *r, char *p)
{
    p = skip_blanks(p);
    return *p ? bad(r, "unexpected '%.40s' after the value", p) : 0;
}

static int read_piece(struct reader *r, char *p)
{
    char *data = p;
    size_t len = 0;
    errmsg_t err = {""};

    if (*p == '"') {
        if (parse_quoted(r, &p, &len) < 0)
            return -1;
    } else if (strncmp(p, "base64", 6) == 0 && (p[6] == ' ' || p[6] == '\t')) {
        data = p = skip_blanks(p + 6);
        if (parse_base64(r, &p, &len) < 0)
            return -1;
    } else
        return bad(r, "expected a value: text in quotes, or base64 and its digits");
    if (end_of_line(r, p) < 0)
        return -1;
    r->pieces = true;
    return done(r, r->ops->piece(r->arg, data, len, &err), &err);
}

/* A key at *p, checked and copied; *dot: a dot stands behind it. */
static int read_key(struct reader *r, char **p, char *key, bool *dot)
{
    char *start = *p;
    size_t len;
    errmsg_t err;

    if (*start == '"') {
        if (parse_quoted(r, p, &len) < 0)
            return -1;
        *dot = **p == '.';
        *p += *dot;
    } else {
        for (len = 0; bare_byte((unsigned char)start[len]);)
            len++;
        *p += len;
        *dot = len > 1 && start[len - 1] == '.';
        len -= *dot;
    }
    if (**p && **p != ' ' && **p != '\t')
        return bad(r, "expected a blank after the key; a key with other characters must be quoted");
    if (memchr(start, 0, len))
        return bad(r, "a key must not contain a NUL byte");
    if (!kvs_key_is_root(start, len) && kvs_key_check(start, len, &err) < 0)
        return bad(r, "%s", err.text);
    memcpy(key, start, len);
    key[len] = '\0';
    return 0;
}

static int read_link(struct reader *r, char *p)
{
    errmsg_t err = {""};
    bool dot;

    p = skip_blanks(p);
    if (read_key(r, &p, r->target, &dot) < 0)
        return -1;
    if (dot)
        return bad(r, "the target of a link is a key, which must not end with a dot");
    if (end_of_line(r, p) < 0)
        return -1;
    return done(r, r->ops->link(r->arg, r->key, r->target, &err), &err);
}

static int read_value(struct reader *r, char *p)
{
    errmsg_t err = {""};

    set_state(r, VALUE);
    r->pieces = false;
    if (done(r, r->ops->value(r->arg, r->key, &err), &err) < 0)
        return -1;
    p = skip_blanks(p);
    return *p ? read_piece(r, p) : 0;
}

static int read_entry(struct reader *r)
{
    char *p = r->line;
    errmsg_t err = {""};
    bool dot;

    if (strncmp(p, "end", 3) == 0 && !*skip_blanks(p + 3)) {
        set_state(r, DONE);
        return 0;
    }
    if (read_key(r, &p, r->key, &dot) < 0)
        return -1;
    if (strcmp(r->key, ".") == 0)
        return bad(r, "the root cannot be given as a key");
    if (dot) {
        if (end_of_line(r, p) < 0)
            return -1;
        return done(r, r->ops->dir(r->arg, r->key, &err), &err);
    }
    p = skip_blanks(p);
    if (p[0] == '=')
        return read_value(r, p + 1);
    if (p[0] == '-' && p[1] == '>')
        return read_link(r, p + 2);
    return bad(r, "expected = and a value, or -> and a key, after key '%.40s'", r->key);
}

static int end_value(struct reader *r)
{
    errmsg_t err = {""};

    if (r->state != VALUE)
        return 0;
    if (!r->pieces)
        return bad(r, "there is no value for '%.40s' before this line", r->key);
    set_state(r, BODY);
    return done(r, r->ops->value_end(r->arg, &err), &err);
}

static int read_line(struct reader *r)
{
    char *p = skip_blanks(r->line);

    if (r->state == HEAD) {
        if (strcmp(r->line, head) != 0)
            return bad(r, "expected the first line of an archive: '%s'", head);
        set_state(r, BODY);
        return 0;
    }
    if (!*p || *p == '#')
        return 0;
    if (r->state == DONE)
        return bad(r, "unexpected text after the end of the archive");
    if (p > r->line) {
        if (r->state != VALUE)
            return bad(r, "a line that begins with a blank continues a value, but there is no "
                          "value before it");
        return read_piece(r, p);
    }
    if (end_value(r) < 0)
        return -1;
    return read_entry(r);
}

int archive_read(FILE *in, const struct archive_ops *ops, void *arg, errmsg_t *err)
{
    struct reader r = {.in = in, .ops = ops, .arg = arg, .err = err};
    int rc;

    if (!(r.line = malloc(LINE_MAX_BYTES + 1)))
        return errmsg_fail(err, ENOMEM, "out of memory");
    while ((rc = next_line(&r)) == 1) {
        if (read_line(&r) < 0) {
            rc = -1;
            break;
        }
    }
    if (rc == 0 && r.state != DONE) {
        r.number++;
        rc = bad(&r, "the archive ends without its last line, 'end': it is incomplete");
    }
    free(r.line);
    return rc;
}
