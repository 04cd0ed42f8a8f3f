/* format_text.c - the canonical text of formats, its hash, and its reader.
 *
 * doc/stream-format.rst describes the text line by line.  A format has exactly one text.  The
 * parser makes the tables that a program would have written (format.h), builds the format of the
 * last one, and prints it again: the result must be the same bytes.  This single comparison refuses
 * blanks, other orders of records, and other spellings of numbers.
 *
 * A sketch is such a text without layouts, for programs without C structs: blanks at the beginning
 * of lines, empty lines, and the first line are not needed either.
 *
 * Invariants:
 *  1. A format that was parsed, and is not a sketch, has the text that was parsed.
 *  2. The reader allocates in proportion to the text, which has at most STREAM_TEXT_MAX bytes.
 *
 * Failure: EPROTO with an error message that names the line, or the error in the format.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "format_private.h"
#include "libutil/hex.h"
#include "libutil/strbuf.h"
#include "libutil/strutil.h"

/* --- printing --- */

struct print {
    strbuf_t *out;
    const stream_format_t *done[STREAM_RECORDS_MAX];
    size_t n;
};

static void print_attrs(strbuf_t *out, const struct stream_attr *attrs)
{
    for (const struct stream_attr *a = attrs; a->name; a++) {
        strbuf_addf(out, "attr %s \"", a->name);
        for (const char *p = a->value; *p; p++) {
            if (*p == '"' || *p == '\\')
                strbuf_addf(out, "\\%c", *p);
            else if ((*p > 0 && *p < ' ') || *p == 0x7f)
                strbuf_addf(out, "\\x%02x", (unsigned)*p);
            else
                strbuf_addc(out, *p);
        }
        strbuf_add(out, "\"\n");
    }
}

static void print_field(strbuf_t *out, const stream_format_t *f, const struct stream_field *fd)
{
    strbuf_addf(out, "field %s %s%s", fd->name, fd->flags & STREAM_POINTER ? "*" : "",
                fd->of ? fd->of->name : stream_elem_name(fd->type));
    for (unsigned d = 0; d < fd->ndims; d++) {
        if (fd->dims[d].fixed)
            strbuf_addf(out, "[%" PRIu64 "]", fd->dims[d].fixed);
        else
            strbuf_addf(out, "[%s]", f->fields[fd->dims[d].field].name);
    }
    strbuf_addf(out, "%s at %zu\n", fd->flags & STREAM_OPTIONAL ? " optional" : "", fd->offset);
    print_attrs(out, fd->attrs);
}

static void print_format(struct print *p, const stream_format_t *f)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->done[i] == f)
            return;
    for (size_t i = 0; i < f->nfields; i++)
        if (f->fields[i].of && f->fields[i].of != f)
            print_format(p, f->fields[i].of);
    p->done[p->n++] = f;
    strbuf_addf(p->out, "record %s size %zu align %zu\n", f->name, f->size, f->align);
    print_attrs(p->out, f->attrs);
    for (size_t i = 0; i < f->nfields; i++)
        print_field(p->out, f, &f->fields[i]);
}

int stream_format_text_make(stream_format_t *f, errmsg_t *err)
{
    struct print p = {.out = strbuf_create(STREAM_TEXT_MAX), .n = 0};

    strbuf_addf(p.out, "flux-format 1 pointers %zu\n", f->pointer);
    print_format(&p, f);
    if (!(f->text = strbuf_take(p.out)))
        return errmsg_fail(err, errno,
                           errno == E2BIG ? "the text of format %s has more than %d bytes"
                                          : "out of memory for the text of format %s",
                           f->name, STREAM_TEXT_MAX);
    crypto_hash_sha256(f->hash, (const unsigned char *)f->text, strlen(f->text));
    return 0;
}

const char *stream_format_text(const stream_format_t *f)
{
    return f->text;
}

const uint8_t *stream_format_hash(const stream_format_t *f)
{
    return f->hash;
}

uint64_t stream_format_id(const stream_format_t *f)
{
    uint64_t id = 0;

    for (int i = 0; i < 8; i++)
        id = id << 8 | f->hash[i];
    return id;
}

/* --- reading --- */

/* The tables as they are being made.  Their rows and attributes are stored consecutively in two
 * arrays; an element of zeros ends each list. */
struct reader {
    char *text; /* a copy, in which words are terminated by NUL */
    unsigned line;
    errmsg_t *err;
    struct stream_table *tables;
    size_t ntables;
    struct stream_row *rows;
    size_t nrows;
    struct stream_attr *attrs;
    size_t nattrs;
    const struct stream_attr **owner; /* the list to which the next attribute belongs */
    size_t pointer;
    bool sketch; /* layouts may be left out: size of the record, offset of the field */
};

static int line_fail(struct reader *r, const char *what)
{
    return errmsg_fail(r->err, EPROTO, "line %u of the text of a format: %s", r->line, what);
}

/* The number of lines that begin with this word, with or without blanks before it. */
static size_t count_lines(const char *text, const char *word)
{
    size_t n = 0;

    for (const char *p = text; (p = strstr(p, word)); p++)
        n += p == text || p[-1] == '\n' || p[-1] == ' ' || p[-1] == '\t';
    return n;
}

/* Cut off the next word, which ends before a character of `ends`: returns that character, or -1. */
static int next_word(char **at, const char *ends, char **word)
{
    char *end = *at + strcspn(*at, ends);
    int c = (unsigned char)*end;

    if (end == *at || c == '\0')
        return -1;
    *word = *at;
    *end = '\0';
    *at = end + 1;
    return c;
}

static int next_number(char **at, const char *ends, uint64_t *out)
{
    char *word;
    int c = next_word(at, ends, &word);

    return c < 0 || str2u64(word, out) < 0 ? -1 : c;
}

/* Skip `word` in the input.  False: it is not there. */
static bool take(char **at, const char *word)
{
    size_t len = strlen(word);

    if (strncmp(*at, word, len) != 0)
        return false;
    *at += len;
    return true;
}

static struct stream_table *find_table(struct reader *r, const char *name)
{
    for (size_t i = 0; i < r->ntables; i++)
        if (strcmp(r->tables[i].name, name) == 0)
            return &r->tables[i];
    return NULL;
}

/* record NAME size N align N */
static int read_record(struct reader *r, char **at)
{
    struct stream_table *t = &r->tables[r->ntables];
    uint64_t size = 0, align = 0;
    char *name;
    int c;

    if (r->ntables == STREAM_RECORDS_MAX)
        return line_fail(r, "there are too many records");
    c = next_word(at, " \n", &name);
    if (!(r->sketch && c == '\n') &&
        (c != ' ' || !take(at, "size ") || next_number(at, " \n", &size) != ' ' ||
         !take(at, "align ") || next_number(at, "\n", &align) < 0 || size == 0))
        return line_fail(r, r->sketch ? "expected 'record NAME'"
                                      : "expected 'record NAME size BYTES align BYTES'");
    if (find_table(r, name))
        return line_fail(r, "a record of that name is there already");
    r->nrows++;
    *t = (struct stream_table){.name = name,
                               .rows = &r->rows[r->nrows],
                               .size = size,
                               .align = align,
                               .pointer = r->pointer};
    r->ntables++;
    r->owner = &t->attrs;
    return 0;
}

static int read_type(struct reader *r, struct stream_row *row, const char *name)
{
    if (name[0] == '*') {
        row->flags |= STREAM_POINTER;
        name++;
    }
    row->type = stream_elem_by_name(name);
    if (row->type)
        return 0;
    row->type = STREAM_RECORD;
    row->of = find_table(r, name);
    return row->of ? 0 : line_fail(r, "the type is not known");
}

/* Parse the dimensions behind the name of a type: "[n][3]", each a number or a name; `c` is the
 * character after the type.  Returns the character after the last bracket, or -1. */
static int read_dims(struct stream_row *row, char **at, int c)
{
    for (unsigned d = 0; c == '['; d++) {
        char *size;

        if (d == STREAM_DIMS_MAX || next_word(at, "]\n", &size) != ']')
            return -1;
        if (size[0] < '0' || size[0] > '9')
            row->dims[d].field = size;
        else if (str2u64(size, &row->dims[d].fixed) < 0 || row->dims[d].fixed == 0)
            return -1;
        c = (unsigned char)*(*at)++;
        if (c == '\0')
            return -1;
    }
    return c;
}

/* field NAME TYPE at N */
static int read_field(struct reader *r, char **at)
{
    struct stream_row *row = &r->rows[r->nrows];
    uint64_t offset;
    char *name, *type;
    int c;

    if (r->ntables == 0)
        return line_fail(r, "a field has to follow its record");
    if (next_word(at, " \n", &name) != ' ' || (c = next_word(at, " [\n", &type)) < 0)
        return line_fail(r, "expected 'field NAME TYPE at OFFSET'");
    row->name = name;
    if (read_type(r, row, type) < 0)
        return -1;
    c = read_dims(row, at, c);
    if (r->sketch && c == ' ' && take(at, "optional\n")) {
        row->flags |= STREAM_OPTIONAL;
        c = '\n';
    }
    if (!(r->sketch && c == '\n')) {
        if (c != ' ')
            return line_fail(r, "expected ' at OFFSET' after the type, with its dimensions");
        if (take(at, "optional "))
            row->flags |= STREAM_OPTIONAL;
        if (!take(at, "at ") || next_number(at, "\n", &offset) < 0)
            return line_fail(r, r->sketch ? "expected 'optional', or the end of the line"
                                          : "expected 'at OFFSET'");
        row->offset = offset;
    }
    r->nrows++;
    r->owner = &row->attrs;
    return 0;
}

/* attr NAME "VALUE" */
static int read_attr(struct reader *r, char **at)
{
    struct stream_attr *a;
    char *name, *in, *out;

    if (!r->owner)
        return line_fail(r, "an attribute has to follow a record or a field");
    if (!*r->owner)
        *r->owner = &r->attrs[++r->nattrs]; /* behind the end of the preceding list */
    a = &r->attrs[r->nattrs++];
    if (next_word(at, " \n", &name) != ' ' || !take(at, "\""))
        return line_fail(r, "expected 'attr NAME \"VALUE\"'");
    a->name = name;
    a->value = out = in = *at;
    while (*in != '"' && *in != '\n' && *in) {
        int hi, lo;

        if (*in != '\\') {
            *out++ = *in++;
            continue;
        }
        if (in[1] == '"' || in[1] == '\\') {
            *out++ = in[1];
            in += 2;
        } else if (in[1] == 'x' && (hi = hex_value(in[2])) >= 0 && (lo = hex_value(in[3])) >= 0 &&
                   (hi | lo)) {
            *out++ = (char)(hi << 4 | lo);
            in += 4;
        } else {
            return line_fail(r, "the value has an escape that is not known");
        }
    }
    if (in[0] != '"' || in[1] != '\n')
        return line_fail(r, "the value does not end with '\"' and the line");
    *out = '\0';
    *at = in + 2;
    return 0;
}

static int read_lines(struct reader *r)
{
    static const struct {
        const char *word;
        int (*read)(struct reader *r, char **at);
    } kinds[] = {{"record ", read_record}, {"field ", read_field}, {"attr ", read_attr}};
    char *at = r->text;
    uint64_t pointer;

    if (r->sketch && strncmp(at, "flux-format ", 12) != 0)
        pointer = sizeof(void *);
    else {
        r->line = 1;
        if (!take(&at, "flux-format 1 pointers ") || next_number(&at, "\n", &pointer) < 0 ||
            (pointer != 4 && pointer != 8))
            return line_fail(r, "expected 'flux-format 1 pointers 4' or '8'");
    }
    r->pointer = pointer;
    while (*at) {
        size_t k = 0;

        r->line++;
        if (r->sketch) {
            at += strspn(at, " \t");
            if (take(&at, "\n"))
                continue;
        }
        while (k < 3 && !take(&at, kinds[k].word))
            k++;
        if (k == 3)
            return line_fail(r, "expected 'record', 'field' or 'attr'");
        if (kinds[k].read(r, &at) < 0)
            return -1;
    }
    return r->ntables > 0 ? 0 : line_fail(r, "there is no record");
}

/* Build the format of the tables, if its text equals the input. */
static stream_format_t *build_same(const struct reader *r, const char *text, size_t len)
{
    errmsg_t why = {""};
    stream_format_t *f = stream_format_create(&r->tables[r->ntables - 1], &why);

    if (!f) {
        errmsg_fail(r->err, errno == ENOMEM ? ENOMEM : EPROTO, "text of a format: %s", why.text);
        return NULL;
    }
    if (strlen(f->text) != len || memcmp(f->text, text, len) != 0) {
        errmsg_fail(r->err, EPROTO, "the text of format %s is not the canonical one", f->name);
        stream_format_destroy(f);
        return NULL;
    }
    return f;
}

static stream_format_t *read_text(const char *text, size_t len, bool sketch, errmsg_t *err)
{
    struct reader r = {.err = err, .sketch = sketch};
    stream_format_t *f = NULL;
    size_t lists;

    if (len > STREAM_TEXT_MAX || memchr(text, '\0', len)) {
        errmsg_fail(err, EPROTO, "the text of a format has more than %d bytes, or a NUL",
                    STREAM_TEXT_MAX);
        return NULL;
    }
    if ((r.text = malloc(len + 2))) {
        memcpy(r.text, text, len);
        strcpy(r.text + len, sketch && len > 0 && text[len - 1] != '\n' ? "\n" : "");
        lists = count_lines(r.text, "record ") + count_lines(r.text, "field ");
        r.tables = calloc(STREAM_RECORDS_MAX, sizeof(*r.tables));
        r.rows = calloc(lists + 2, sizeof(*r.rows));
        r.attrs = calloc(lists + count_lines(r.text, "attr ") + 2, sizeof(*r.attrs));
    }
    if (!r.text || !r.tables || !r.rows || !r.attrs)
        errmsg_fail(err, ENOMEM, "out of memory for the text of a format");
    else if (read_lines(&r) == 0)
        f = sketch ? stream_format_create(&r.tables[r.ntables - 1], err)
                   : build_same(&r, text, len);
    free(r.text);
    free(r.tables);
    free(r.rows);
    free(r.attrs);
    return f;
}

stream_format_t *stream_format_parse(const char *text, size_t len, errmsg_t *err)
{
    return read_text(text, len, false, err);
}

stream_format_t *stream_format_sketch(const char *text, errmsg_t *err)
{
    stream_format_t *f = read_text(text, strlen(text), true, err);

    if (!f && errno == EPROTO)
        errno = EINVAL;
    return f;
}
