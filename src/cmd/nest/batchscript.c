/* batchscript.c - see batchscript.h.
 *
 *    what      line                                     next
 *    comments  blank, comment, first line "#!..."       comments
 *    comments  a block begins                           block, until the line that has its end
 *    comments  anything else                            code
 *    code      a comment with FLUX:, #SBATCH            code; reported as ignored
 *
 * A line of a block may begin with a decorative '*' or '#'.  A block without an end extends to the
 * end of the script, as it does in the language.
 */
#include "batchscript.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "libutil/strutil.h"

struct span {
    const char *p;
    size_t len;
};

static const char *const line_comments[] = {"//", "--", "#", "%", ";"};
static const char *const word_comments[] = {"REM", "dnl"};
static const struct {
    const char *open;
    const char *close;
} blocks[] = {
    {"\"\"\"", "\"\"\""}, {"'''", "'''"},  {"--[[", "]]"}, {"/*", "*/"},
    {"=begin", "=end"},   {"<!--", "-->"}, {"{-", "-}"},   {"(*", "*)"},
};
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

static struct span trim(struct span s)
{
    while (s.len && blank(s.p[0]))
        s.p++, s.len--;
    while (s.len && blank(s.p[s.len - 1]))
        s.len--;
    return s;
}

static bool take(struct span *s, const char *prefix)
{
    size_t n = strlen(prefix);

    if (s->len < n || memcmp(s->p, prefix, n) != 0)
        return false;
    s->p += n;
    s->len -= n;
    return true;
}

static bool has(struct span s, const char *what)
{
    return memmem(s.p, s.len, what, strlen(what)) != NULL;
}

/* Take the mark of a comment off, and its repetitions ("###"). */
static bool take_comment(struct span *s)
{
    for (size_t i = 0; i < COUNT(line_comments); i++) {
        if (take(s, line_comments[i])) {
            char c = line_comments[i][0];
            while (s->len && s->p[0] == c)
                s->p++, s->len--;
            return true;
        }
    }
    for (size_t i = 0; i < COUNT(word_comments); i++) {
        size_t n = strlen(word_comments[i]);
        if (s->len >= n && strncasecmp(s->p, word_comments[i], n) == 0 &&
            (s->len == n || blank(s->p[n]))) {
            s->p += n;
            s->len -= n;
            return true;
        }
    }
    return false;
}

/* What opens a block, as `close` of it; NULL. */
static const char *open_block(struct span *s)
{
    for (size_t i = 0; i < COUNT(blocks); i++) {
        if (take(s, blocks[i].open))
            return blocks[i].close;
    }
    return NULL;
}

/* An option, not a dash in a sentence. */
static bool option_follows(struct span s)
{
    s = trim(s);
    return s.len >= 2 && s.p[0] == '-' &&
           (isalnum((unsigned char)s.p[1]) ||
            (s.p[1] == '-' && s.len >= 3 && isalpha((unsigned char)s.p[2])));
}

/* "FLUX:" or "flux:"; in any other spelling, or without the colon, only when an option follows. */
static bool take_flux(struct span *s)
{
    struct span rest = *s;
    bool exact = take(&rest, "FLUX:") || take(&rest, "flux:");

    if (!exact) {
        if (s->len < 5 || strncasecmp(s->p, "flux", 4) != 0 || (s->p[4] != ':' && !blank(s->p[4])))
            return false;
        rest = (struct span){s->p + 5, s->len - 5};
        if (!option_follows(rest))
            return false;
    }
    *s = rest;
    return true;
}

static void found(struct batch_directive *d, enum batch_kind kind, struct span text)
{
    text = trim(text);
    d->kind = kind;
    d->text = text.p;
    d->len = text.len;
}

static bool directive(struct span s, const char *close, struct batch_directive *d)
{
    const char *end;

    s = trim(s);
    if (!take_flux(&s))
        return false;
    if (close && (end = memmem(s.p, s.len, close, strlen(close))))
        s.len = (size_t)(end - s.p);
    found(d, BATCH_FLUX, s);
    return true;
}

/* Of other schedulers: "#SBATCH", but not "##SBATCH", which is one that was switched off. */
static bool foreign(struct span line, struct batch_directive *d)
{
    static const struct {
        const char *mark;
        enum batch_kind kind;
    } marks[] = {{"#SBATCH", BATCH_SBATCH}, {"#PBS", BATCH_OTHER}, {"#BSUB", BATCH_OTHER}};

    for (size_t i = 0; i < COUNT(marks); i++) {
        struct span rest = line;

        if (take(&rest, marks[i].mark) && (rest.len == 0 || blank(rest.p[0]))) {
            found(d, marks[i].kind, marks[i].kind == BATCH_OTHER ? line : rest);
            return true;
        }
    }
    return false;
}

/* A line, trimmed: is it a directive?  Changes the state. */
static bool look(struct batchscript *s, struct span line, struct batch_directive *d)
{
    const char *close = s->close;
    bool is_one;

    if (!close && !s->code)
        close = open_block(&line);
    else if (close)
        while (line.len && (line.p[0] == '*' || line.p[0] == '#') && !has(line, close))
            line.p++, line.len--;
    if (close) {
        is_one = directive(line, close, d);
        s->close = has(line, close) ? NULL : close;
        return is_one;
    }
    if (line.len == 0)
        return false;
    if (foreign(line, d))
        return true;
    if (take_comment(&line))
        return directive(line, NULL, d);
    s->code = true;
    return false;
}

void batchscript_init(struct batchscript *s, const char *text, size_t len)
{
    *s = (struct batchscript){.next = text, .end = text + len};
}

bool batchscript_next(struct batchscript *s, struct batch_directive *d)
{
    while (s->next < s->end) {
        size_t left = (size_t)(s->end - s->next);
        const char *nl = memchr(s->next, '\n', left);
        struct span line = {s->next, nl ? (size_t)(nl - s->next) : left};
        bool code = s->code;

        s->next += line.len + (nl != NULL);
        s->line++;
        if (look(s, trim(line), d)) {
            d->line = s->line;
            d->late = code;
            return true;
        }
    }
    return false;
}

size_t batchscript_bad_line(const char *text, size_t len)
{
    size_t good = str_utf8_span(text, len);
    const char *nul = memchr(text, 0, len);
    size_t line = 1;

    if (nul && (size_t)(nul - text) < good)
        good = (size_t)(nul - text);
    if (good == len)
        return 0;
    for (size_t i = 0; i < good; i++)
        line += text[i] == '\n';
    return line;
}

bool batchscript_dos(const char *text, size_t len)
{
    const char *nl = memchr(text, '\n', len);

    return nl && nl - text > 2 && text[0] == '#' && text[1] == '!' && nl[-1] == '\r';
}
