/* stream_config.c - settings of streams in a file.
 *
 * The file uses a subset of XML: one element `streams`, which contains elements `stream` with
 * attributes and without content, and comments.  Values may have the five entities that XML
 * defines.
 *
 *    attribute   of        what
 *    name                  of the streams that are meant: a pattern (fnmatch(3))
 *    timeout     both      duration of opening
 *    transport   both      auto, tcp or ring
 *    secure      both      yes or no
 *    share       both      yes or no
 *    policy      readers   struct flux_stream_opts, also of those below
 *    depth       readers
 *    bytes       readers   a size: 64M
 *    group, key  readers
 *    by          readers   step or record
 *    team        readers
 *    resume      readers   a duration
 *    keep        writers
 *    readers     writers
 *    evict       writers   a duration
 *    at-reader   readers   transforms
 *    at-writer   writers   transforms
 *
 * The whole file is checked, whatever the name is.  The first element whose pattern matches is
 * used: its attributes override the options of the program, and all other options remain.  An
 * element may be for readers and writers: each side uses its own attributes.
 *
 * Failure: EINVAL, with the line and a sentence; the stream is not opened.
 */
#include "config.h"
#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "libstream/stream_config.h"
#include "libutil/duration.h"
#include "libutil/fdutil.h"
#include "libutil/size.h"
#include "libutil/strutil.h"

#define FILE_MAX_BYTES (256u * 1024)
#define WORD_MAX_BYTES 16
#define VALUE_MAX_BYTES 1024

/* READER and WRITER: texts that only that side uses. */
enum kind { TEXT, READER, WRITER, COUNT, SIZE, DURATION };

static const struct setting {
    const char *name;
    enum kind kind;
    size_t off;
} settings[] = {
    {"policy", TEXT, offsetof(struct flux_stream_opts, policy)},
    {"group", TEXT, offsetof(struct flux_stream_opts, group)},
    {"key", TEXT, offsetof(struct flux_stream_opts, key)},
    {"by", TEXT, offsetof(struct flux_stream_opts, by)},
    {"team", READER, offsetof(struct flux_stream_opts, team)},
    {"start", WRITER, offsetof(struct flux_stream_opts, start)},
    {"transport", TEXT, offsetof(struct flux_stream_opts, transport)},
    {"secure", TEXT, offsetof(struct flux_stream_opts, secure)},
    {"share", TEXT, offsetof(struct flux_stream_opts, share)},
    {"depth", COUNT, offsetof(struct flux_stream_opts, depth)},
    {"keep", COUNT, offsetof(struct flux_stream_opts, keep)},
    {"readers", COUNT, offsetof(struct flux_stream_opts, readers)},
    {"bytes", SIZE, offsetof(struct flux_stream_opts, bytes)},
    {"at-reader", READER, offsetof(struct flux_stream_opts, transforms)},
    {"at-writer", WRITER, offsetof(struct flux_stream_opts, transforms)},
    {"resume", DURATION, offsetof(struct flux_stream_opts, resume)},
    {"evict", DURATION, offsetof(struct flux_stream_opts, evict)},
    {"timeout", DURATION, offsetof(struct flux_stream_opts, timeout)},
};
#define NSETTINGS (sizeof(settings) / sizeof(settings[0]))

/* --- XML --- */

struct parser {
    const char *p;
    const char *end;
    unsigned line;
    errmsg_t *err;
};

static int wrong(struct parser *x, const char *what, const char *word)
{
    return errmsg_fail(x->err, EINVAL, "line %u: %s%s", x->line, what, word);
}

static bool looking_at(const struct parser *x, const char *text)
{
    size_t n = strlen(text);

    return (size_t)(x->end - x->p) >= n && memcmp(x->p, text, n) == 0;
}

static void skip(struct parser *x, size_t n)
{
    for (; n > 0 && x->p < x->end; n--) {
        if (*x->p++ == '\n')
            x->line++;
    }
}

static void blanks(struct parser *x)
{
    while (x->p < x->end && strchr(" \t\r\n", *x->p) && *x->p)
        skip(x, 1);
}

/* Skip text from `begin` to `end`, repeatedly.  0, or -1: it has no end. */
static int skip_all(struct parser *x, const char *begin, const char *end)
{
    for (blanks(x); looking_at(x, begin); blanks(x)) {
        const char *at = memmem(x->p, (size_t)(x->end - x->p), end, strlen(end));

        if (!at)
            return wrong(x, "there is no end of ", begin);
        skip(x, (size_t)(at - x->p) + strlen(end));
    }
    return 0;
}

/* A name of lower-case letters and hyphens; "" if there is none. */
static int word(struct parser *x, char out[WORD_MAX_BYTES])
{
    size_t n = 0;

    while (x->p < x->end && ((*x->p >= 'a' && *x->p <= 'z') || *x->p == '-')) {
        if (n == WORD_MAX_BYTES - 1)
            return wrong(x, "the name is too long", "");
        out[n++] = *x->p++;
    }
    out[n] = '\0';
    return 0;
}

static int entity(struct parser *x, char *out)
{
    static const struct {
        const char *text;
        char c;
    } entities[] = {
        {"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}};

    for (size_t i = 0; i < sizeof(entities) / sizeof(entities[0]); i++) {
        if (looking_at(x, entities[i].text)) {
            skip(x, strlen(entities[i].text));
            *out = entities[i].c;
            return 0;
        }
    }
    return wrong(x, "a value has an entity that is not known", "");
}

/* ="value" or ='value' */
static int value(struct parser *x, char out[VALUE_MAX_BYTES])
{
    size_t n = 0;
    char quote;

    blanks(x);
    if (!looking_at(x, "="))
        return wrong(x, "an attribute has no value", "");
    skip(x, 1);
    blanks(x);
    if (!looking_at(x, "\"") && !looking_at(x, "'"))
        return wrong(x, "a value has no quotation marks", "");
    quote = *x->p;
    skip(x, 1);
    while (x->p < x->end && *x->p != quote) {
        if (n == VALUE_MAX_BYTES - 1 || *x->p == '<' || *x->p == '\0' || *x->p == '\n')
            return wrong(x, "a value is too long, or has a character that is not possible", "");
        if (*x->p != '&')
            out[n++] = *x->p++;
        else if (entity(x, &out[n++]) < 0)
            return -1;
    }
    if (x->p == x->end)
        return wrong(x, "a value has no end", "");
    skip(x, 1);
    out[n] = '\0';
    return 0;
}

/* --- an element --- */

struct element {
    char name[VALUE_MAX_BYTES];
    bool has[NSETTINGS];
    char texts[NSETTINGS][VALUE_MAX_BYTES];
    struct flux_stream_opts opts; /* without the texts */
};

static int set(struct parser *x, struct element *e, size_t i)
{
    const char *text = e->texts[i];
    void *to = (char *)&e->opts + settings[i].off;
    int rc = 0;

    if (settings[i].kind == COUNT)
        rc = str2u32(text, to);
    else if (settings[i].kind == SIZE)
        rc = size_parse(text, to, NULL);
    else if (settings[i].kind == DURATION)
        rc = duration_parse(text, to, NULL);
    if (isinf(e->opts.timeout))
        e->opts.timeout = -1.;
    e->has[i] = true;
    return rc < 0 ? wrong(x, "this is not a value of ", settings[i].name) : 0;
}

/* Parse attributes up to the end of the element. */
static int element(struct parser *x, struct element *e)
{
    char name[WORD_MAX_BYTES];

    memset(e, 0, sizeof(*e));
    for (blanks(x); !looking_at(x, "/>"); blanks(x)) {
        size_t i = 0;

        if (word(x, name) < 0)
            return -1;
        if (name[0] == '\0')
            return wrong(x, "an element stream ends with />", "");
        while (i < NSETTINGS && strcmp(settings[i].name, name) != 0)
            i++;
        if (i == NSETTINGS && strcmp(name, "name") != 0)
            return wrong(x, "a stream has no attribute ", name);
        if (i == NSETTINGS ? e->name[0] != '\0' : e->has[i])
            return wrong(x, "twice the attribute ", name);
        if (value(x, i == NSETTINGS ? e->name : e->texts[i]) < 0 ||
            (i < NSETTINGS && set(x, e, i) < 0))
            return -1;
    }
    skip(x, 2);
    return e->name[0] == '\0' ? wrong(x, "a stream has no name", "") : 0;
}

static int use(const struct element *e, enum flux_stream_mode mode, struct flux_stream_opts *opts,
               char **held, errmsg_t *err)
{
    static const size_t sizes[] = {
        [COUNT] = sizeof(uint32_t), [SIZE] = sizeof(uint64_t), [DURATION] = sizeof(double)};
    enum kind other = mode == FLUX_STREAM_READ ? WRITER : READER;
    char *text = malloc(sizeof(e->texts));

    if (!text)
        return errmsg_fail(err, ENOMEM, "out of memory");
    *held = memcpy(text, e->texts, sizeof(e->texts));
    for (size_t i = 0; i < NSETTINGS; i++) {
        char *to = (char *)opts + settings[i].off;

        if (!e->has[i] || settings[i].kind == other)
            continue;
        if (settings[i].kind <= WRITER)
            *(const char **)(void *)to = text + i * VALUE_MAX_BYTES;
        else
            memcpy(to, (const char *)&e->opts + settings[i].off, sizes[settings[i].kind]);
    }
    return 0;
}

int stream_config_apply(const char *text, size_t len, const char *name, enum flux_stream_mode mode,
                        struct flux_stream_opts *opts, char **held, errmsg_t *err)
{
    struct parser x = {.p = text, .end = text + len, .line = 1, .err = err};
    struct element e;

    if (skip_all(&x, "<?", "?>") < 0 || skip_all(&x, "<!--", "-->") < 0)
        return -1;
    if (!looking_at(&x, "<streams>"))
        return wrong(&x, "there is no <streams>", "");
    skip(&x, strlen("<streams>"));
    for (;;) {
        if (skip_all(&x, "<!--", "-->") < 0)
            return -1;
        if (looking_at(&x, "</streams>"))
            break;
        if (!looking_at(&x, "<stream ") && !looking_at(&x, "<stream\n"))
            return wrong(&x, "neither <stream ...> nor </streams>", "");
        skip(&x, strlen("<stream"));
        if (element(&x, &e) < 0)
            return -1;
        if (!*held && fnmatch(e.name, name, 0) == 0 && use(&e, mode, opts, held, err) < 0)
            return -1;
    }
    skip(&x, strlen("</streams>"));
    if (skip_all(&x, "<!--", "-->") < 0)
        return -1;
    return x.p == x.end ? 0 : wrong(&x, "something follows </streams>", "");
}

int stream_config_file(const char *name, enum flux_stream_mode mode, struct flux_stream_opts *opts,
                       char **held, errmsg_t *err)
{
    const char *path = getenv("FLUX_STREAM_CONFIG");
    char *text = NULL;
    errmsg_t why;
    size_t len;
    int rc;

    if (!path || !*path)
        return 0;
    if (file_read_all(path, FILE_MAX_BYTES, &text, &len) < 0)
        return errmsg_fail(err, errno, "the settings of streams, %s, cannot be read: %s", path,
                           strerror(errno));
    if ((rc = stream_config_apply(text, len, name, mode, opts, held, &why)) < 0)
        errmsg_fail(err, errno, "the settings of streams, %s: %s", path, why.text);
    free(text);
    return rc;
}
