/* history.c - operations with their names and values, and the log file.
 *
 * A log is text, one line per question and one per answer, in any order:
 *
 *    # anything
 *    i TIME CLIENT NUMBER RANK NS CALL...                           invoked
 *    a TIME CLIENT NUMBER ok|fail|unknown VERSION ROOT ERROR KEY...  answered
 *
 *    CALL   commit WRITE...            WRITE  put:KEY=TOKEN
 *           fence NAME NPROCS WRITE...        append:KEY=TOKEN
 *           get ROOT KEY...                   unlink:KEY
 *           version                           guard:KEY=TOKEN,TOKEN...
 *           wait VERSION                      guard:KEY!            (absent)
 *           watch STREAM KEY
 *
 * Words are separated by one blank.  TIME is a number that grows: nanoseconds of a clock that all
 * who write logs to be read together share.  NS is the namespace, ROOT a reference; "-" stands for
 * what is not known or not given (the primary namespace, no error).  KEY in an answer is
 * "KEY=TOKEN,TOKEN" or "KEY!".  Each result of watching a key is an operation of its own; STREAM is
 * the client's number of what it watches.  An operation without an answer has an unknown outcome.
 *
 * Invariants:
 *  1. Items of one operation lie together, as do the tokens of one item.
 *  2. Times of one history that is being recorded are all different, in the order of the calls.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "history.h"
#include "libutil/hmap.h"
#include "libutil/strutil.h"

struct names {
    hmap_t *map;
    char **text;
    uint32_t n, cap;
};

struct history {
    struct names names[HIST_NAMES];
    struct hist_op *ops;
    struct hist_item *items;
    uint32_t *tokens;
    size_t nops, ops_cap, nitems, items_cap, ntokens, tokens_cap;
    uint64_t last;     /* time */
    hmap_t *by_client; /* client -> how many operations, plus one */
    hmap_t *open;      /* client, number -> operation plus one; while reading a log */
    FILE *log;
    bool failed;
};

/* Make room for `more` elements; false when memory is out. */
static bool grow(history_t *h, void *array, size_t *cap, size_t n, size_t more, size_t size)
{
    void **p = array;

    if (n + more <= *cap)
        return true;
    size_t want = *cap ? *cap * 2 : 256;
    while (want < n + more)
        want *= 2;
    void *grown = want <= UINT32_MAX ? realloc(*p, want * size) : NULL;
    if (!grown) {
        h->failed = true;
        return false;
    }
    *p = grown;
    *cap = want;
    return true;
}

history_t *history_create(void)
{
    history_t *h = calloc(1, sizeof(*h));

    if (!h)
        return NULL;
    for (int i = 0; i < HIST_NAMES; i++) {
        if (!(h->names[i].map = hmap_create_str(NULL)))
            h->failed = true;
    }
    h->by_client = hmap_create_u64(NULL);
    h->open = hmap_create_u64(NULL);
    if (!h->by_client || !h->open || h->failed ||
        !grow(h, &h->ops, &h->ops_cap, 0, 1, sizeof(*h->ops))) {
        history_destroy(h);
        errno = ENOMEM;
        return NULL;
    }
    return h;
}

void history_destroy(history_t *h)
{
    int saved = errno;

    if (h) {
        for (int i = 0; i < HIST_NAMES; i++) {
            hmap_destroy(h->names[i].map);
            for (uint32_t k = 0; k < h->names[i].n; k++)
                free(h->names[i].text[k]);
            free(h->names[i].text);
        }
        hmap_destroy(h->by_client);
        hmap_destroy(h->open);
        free(h->ops);
        free(h->items);
        free(h->tokens);
        free(h);
    }
    errno = saved;
}

bool history_failed(const history_t *h)
{
    return h->failed;
}

/* --- names --- */

uint32_t history_intern(history_t *h, enum hist_names table, const char *name, size_t len)
{
    struct names *t = &h->names[table];
    char *copy = strndup(name, len);
    size_t cap = t->cap;

    if (!copy) {
        h->failed = true;
        return 0;
    }
    uint32_t n = (uint32_t)(uintptr_t)hmap_get(t->map, copy);
    if (n) {
        free(copy);
        return n;
    }
    if (!grow(h, &t->text, &cap, t->n, 1, sizeof(*t->text)) ||
        hmap_put(t->map, copy, (void *)(uintptr_t)(t->n + 1)) < 0) {
        t->cap = (uint32_t)cap;
        h->failed = true;
        free(copy);
        return 0;
    }
    t->cap = (uint32_t)cap;
    t->text[t->n++] = copy;
    return t->n;
}

const char *history_name(const history_t *h, enum hist_names table, uint32_t n)
{
    return n > 0 && n <= h->names[table].n ? h->names[table].text[n - 1] : "-";
}

uint32_t history_names(const history_t *h, enum hist_names table)
{
    return h->names[table].n;
}

static uint32_t intern(history_t *h, enum hist_names table, const char *name)
{
    return name && strcmp(name, "-") != 0 ? history_intern(h, table, name, strlen(name)) : 0;
}

/* --- access --- */

size_t history_count(const history_t *h)
{
    return h->nops;
}

struct hist_op *history_op(const history_t *h, size_t op)
{
    return &h->ops[op];
}

struct hist_item *history_item_at(const history_t *h, size_t i)
{
    return &h->items[i];
}

uint32_t *history_token_at(const history_t *h, size_t i)
{
    return &h->tokens[i];
}

uint32_t history_add_tokens(history_t *h, const uint32_t *tokens, size_t n)
{
    uint32_t at = (uint32_t)h->ntokens;

    /* The source may be in the array that moves. */
    size_t inside = tokens >= h->tokens && tokens < h->tokens + h->ntokens
                        ? (size_t)(tokens - h->tokens)
                        : SIZE_MAX;
    if (!grow(h, &h->tokens, &h->tokens_cap, h->ntokens, n, sizeof(*h->tokens)))
        return 0;
    if (inside != SIZE_MAX)
        tokens = h->tokens + inside;
    if (n > 0)
        memcpy(h->tokens + h->ntokens, tokens, n * sizeof(*tokens));
    h->ntokens += n;
    return at;
}

/* --- recording --- */

void history_log(history_t *h, FILE *f)
{
    h->log = f;
}

static uint64_t next_time(history_t *h, uint64_t t)
{
    h->last = t > h->last ? t : h->last + 1;
    return h->last;
}

static size_t new_op(history_t *h, uint32_t client)
{
    /* There is room for one from the begin; without more nothing is recorded any longer, and
     * history_check() will say so. */
    if (!grow(h, &h->ops, &h->ops_cap, h->nops, 1, sizeof(*h->ops)))
        return h->nops - 1;
    h->ops[h->nops] = (struct hist_op){.client = client,
                                       .answered = HIST_NEVER,
                                       .version = HIST_NO_VERSION,
                                       .items = (uint32_t)h->nitems};
    return h->nops++;
}

size_t history_begin(history_t *h, uint64_t t, uint32_t client, uint32_t rank, const char *ns,
                     enum hist_call call)
{
    size_t op = new_op(h, client);
    uintptr_t n = (uintptr_t)hmap_get_u64(h->by_client, client);
    struct hist_op *o = &h->ops[op];

    if (hmap_put_u64(h->by_client, client, (void *)(n ? n + 1 : 2)) < 0)
        h->failed = true;
    o->number = (uint32_t)(n ? n : 1);
    o->rank = rank;
    o->ns = intern(h, HIST_OTHERS, ns);
    o->call = call;
    o->invoked = next_time(h, t);
    return op;
}

/* Take a stored value apart. */
static void add_value(history_t *h, struct hist_item *it, const char *data, size_t len)
{
    it->tokens = (uint32_t)h->ntokens;
    while (len > 0) {
        const char *end = memchr(data, ';', len);
        size_t n = end ? (size_t)(end - data) : len;
        size_t name = n;
        while (name > 0 && data[name - 1] == '~')
            name--;
        uint32_t id;
        if (!end || name == 0) {
            /* Not what anybody writes. */
            char bad[48];
            snprintf(bad, sizeof(bad), "?%zu-bytes-without-an-end", len);
            id = history_intern(h, HIST_TOKENS, bad, strlen(bad));
            n = len - 1;
        } else {
            id = history_intern(h, HIST_TOKENS, data, name);
        }
        if (!grow(h, &h->tokens, &h->tokens_cap, h->ntokens, 1, sizeof(*h->tokens)))
            return;
        h->tokens[h->ntokens++] = id;
        data += n + 1;
        len -= n + 1;
    }
    it->ntokens = (uint32_t)h->ntokens - it->tokens;
}

static struct hist_item *new_item(history_t *h, enum hist_item_kind kind, uint32_t key)
{
    if (!grow(h, &h->items, &h->items_cap, h->nitems, 1, sizeof(*h->items)))
        return NULL;
    struct hist_item *it = &h->items[h->nitems++];
    *it = (struct hist_item){.kind = kind, .key = key, .tokens = (uint32_t)h->ntokens};
    return it;
}

void history_ask(history_t *h, size_t op, enum hist_item_kind kind, const char *key,
                 const void *data, size_t len)
{
    struct hist_item *it = new_item(h, kind, intern(h, HIST_KEYS, key));

    if (!it)
        return;
    h->ops[op].nitems++;
    if (kind == HIST_GUARD) {
        it->absent = !data;
        add_value(h, it, data, data ? len : 0);
    } else if (data) {
        uint32_t token = history_intern(h, HIST_TOKENS, data, len);
        it->tokens = history_add_tokens(h, &token, 1);
        it->ntokens = 1;
    }
}

void history_set_fence(history_t *h, size_t op, const char *name, uint32_t nprocs)
{
    h->ops[op].fence = intern(h, HIST_OTHERS, name);
    h->ops[op].nprocs = nprocs;
}

void history_set_want(history_t *h, size_t op, uint64_t version)
{
    h->ops[op].want = version;
}

void history_set_at(history_t *h, size_t op, const char *rootref)
{
    h->ops[op].at = intern(h, HIST_ROOTS, rootref);
}

void history_answer(history_t *h, size_t op, uint64_t t, enum hist_outcome outcome, int errnum,
                    uint64_t version, const char *rootref)
{
    struct hist_op *o = &h->ops[op];
    const char *name = errnum ? strerrorname_np(errnum) : NULL;

    o->answered = next_time(h, t);
    o->outcome = outcome;
    o->error = errnum ? intern(h, HIST_OTHERS, name ? name : "E?") : 0;
    o->version = version;
    o->root = intern(h, HIST_ROOTS, rootref);
    o->results = (uint32_t)h->nitems;
    o->nresults = 0;
}

void history_got(history_t *h, size_t op, const char *key, const void *data, size_t len)
{
    struct hist_item *it = new_item(h, HIST_RESULT, intern(h, HIST_KEYS, key));

    if (!it)
        return;
    h->ops[op].nresults++;
    it->absent = !data;
    add_value(h, it, data, data ? len : 0);
}

size_t history_encode(char *buf, const char *token, size_t size)
{
    size_t len = strlen(token);

    if (size < len + 1)
        size = len + 1;
    memcpy(buf, token, len);
    memset(buf + len, '~', size - len - 1);
    buf[size - 1] = ';';
    return size;
}

/* --- writing --- */

static const char *const call_names[] = {"commit", "fence", "get", "version", "wait", "watch"};
static const char *const outcome_names[] = {"open", "ok", "fail", "unknown"};
static const char *const item_names[] = {"put:", "append:", "unlink:", "guard:", "", ""};

static void write_items(const history_t *h, FILE *f, size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++) {
        const struct hist_item *it = &h->items[i];
        fprintf(f, " %s%s%s", item_names[it->kind], history_name(h, HIST_KEYS, it->key),
                it->absent                                        ? "!"
                : it->kind == HIST_UNLINK || it->kind == HIST_KEY ? ""
                                                                  : "=");
        for (uint32_t k = 0; k < it->ntokens; k++)
            fprintf(f, "%s%s", k ? "," : "",
                    history_name(h, HIST_TOKENS, h->tokens[it->tokens + k]));
    }
}

static void write_invoked(const history_t *h, FILE *f, const struct hist_op *o)
{
    fprintf(f, "i %" PRIu64 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %s %s", o->invoked, o->client,
            o->number, o->rank, history_name(h, HIST_OTHERS, o->ns), call_names[o->call]);
    if (o->call == HIST_FENCE)
        fprintf(f, " %s %" PRIu32, history_name(h, HIST_OTHERS, o->fence), o->nprocs);
    else if (o->call == HIST_WAIT || o->call == HIST_WATCH)
        fprintf(f, " %" PRIu64, o->want);
    else if (o->call == HIST_GET)
        fprintf(f, " %s", history_name(h, HIST_ROOTS, o->at));
    write_items(h, f, o->items, o->nitems);
    fputc('\n', f);
}

static void write_answered(const history_t *h, FILE *f, const struct hist_op *o)
{
    fprintf(f, "a %" PRIu64 " %" PRIu32 " %" PRIu32 " %s ", o->answered, o->client, o->number,
            outcome_names[o->outcome]);
    if (o->version == HIST_NO_VERSION)
        fputc('-', f);
    else
        fprintf(f, "%" PRIu64, o->version);
    fprintf(f, " %s %s", history_name(h, HIST_ROOTS, o->root),
            history_name(h, HIST_OTHERS, o->error));
    write_items(h, f, o->results, o->nresults);
    fputc('\n', f);
}

void history_asked(history_t *h, size_t op)
{
    if (h->log)
        write_invoked(h, h->log, &h->ops[op]);
}

void history_answered(history_t *h, size_t op)
{
    if (h->log)
        write_answered(h, h->log, &h->ops[op]);
}

int history_write(const history_t *h, FILE *f)
{
    for (size_t i = 0; i < h->nops; i++) {
        write_invoked(h, f, &h->ops[i]);
        if (h->ops[i].outcome != HIST_OPEN)
            write_answered(h, f, &h->ops[i]);
    }
    return fflush(f) == 0 && !ferror(f) ? 0 : -1;
}

void history_describe(const history_t *h, size_t op, char *buf, size_t size)
{
    const struct hist_op *o = &h->ops[op];
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    buf[0] = '\0';
    if (!f)
        return;
    fprintf(f, "client %" PRIu32 " at rank %" PRIu32 ", its %" PRIu32 ". operation: %s", o->client,
            o->rank, o->number, call_names[o->call]);
    if (o->call == HIST_FENCE)
        fprintf(f, " %s of %" PRIu32, history_name(h, HIST_OTHERS, o->fence), o->nprocs);
    else if (o->call == HIST_WAIT || o->call == HIST_WATCH)
        fprintf(f, " %s %" PRIu64, o->call == HIST_WAIT ? "for" : "no.", o->want);
    else if (o->at)
        fprintf(f, " at %.20s", history_name(h, HIST_ROOTS, o->at));
    write_items(h, f, o->items, o->nitems);
    fprintf(f, " -> %s", outcome_names[o->outcome]);
    if (o->version != HIST_NO_VERSION)
        fprintf(f, ", version %" PRIu64, o->version);
    write_items(h, f, o->results, o->nresults);
    fclose(f);
    if (text)
        snprintf(buf, size, "%.300s%s", text, len > 300 ? "..." : "");
    free(text);
}

/* --- reading --- */

struct line {
    char *rest;
    errmsg_t *err;
};

static char *word(struct line *l)
{
    return l->rest ? strsep(&l->rest, " ") : NULL;
}

static int number(struct line *l, const char *what, uint64_t max, uint64_t *out)
{
    char *w = word(l);

    if (!w || str2u64(w, out) < 0 || *out > max)
        return errmsg_fail(l->err, EPROTO, "'%.40s' is no %s", w ? w : "", what);
    return 0;
}

static int find(const char *const *names, size_t n, const char *w)
{
    for (size_t i = 0; w && i < n; i++) {
        if (strcmp(names[i], w) == 0)
            return (int)i;
    }
    return -1;
}

static void add_names(history_t *h, struct hist_item *it, char *list)
{
    char *name;

    it->tokens = (uint32_t)h->ntokens;
    while ((name = strsep(&list, ","))) {
        uint32_t id = history_intern(h, HIST_TOKENS, name, strlen(name));
        history_add_tokens(h, &id, 1);
    }
    it->ntokens = (uint32_t)h->ntokens - it->tokens;
}

/* One word with a key: what stands before it decides how it goes on. */
static int read_item(history_t *h, struct line *l, char *w, bool answer, bool get)
{
    enum hist_item_kind kind = answer ? HIST_RESULT : HIST_KEY;

    for (size_t i = 0; !answer && !get && kind == HIST_KEY; i++) {
        if (i == HIST_KEY)
            return errmsg_fail(l->err, EPROTO, "'%.40s' is not a write", w);
        if (str_starts(w, item_names[i])) {
            kind = (enum hist_item_kind)i;
            w += strlen(item_names[i]);
        }
    }
    char *value = strchr(w, '=');
    size_t len = strlen(w);
    bool absent = !value && len > 1 && w[len - 1] == '!';
    if (value)
        *value++ = '\0';
    else if (absent)
        w[len - 1] = '\0';
    bool bare = kind == HIST_UNLINK || kind == HIST_KEY;
    if (!*w || bare == (value || absent) || (absent && kind != HIST_GUARD && kind != HIST_RESULT))
        return errmsg_fail(l->err, EPROTO, "'%.40s' is not what should stand there", w);
    struct hist_item *it = new_item(h, kind, intern(h, HIST_KEYS, w));
    if (!it)
        return errmsg_fail(l->err, ENOMEM, "out of memory");
    it->absent = absent;
    if (value && *value)
        add_names(h, it, value);
    if ((kind == HIST_PUT || kind == HIST_APPEND) && it->ntokens != 1)
        return errmsg_fail(l->err, EPROTO, "a write has one token");
    return 0;
}

static int read_items(history_t *h, struct line *l, bool answer, bool get, uint32_t *first,
                      uint32_t *n)
{
    char *w;

    *first = (uint32_t)h->nitems;
    while ((w = word(l))) {
        if (read_item(h, l, w, answer, get) < 0)
            return -1;
    }
    *n = (uint32_t)h->nitems - *first;
    return 0;
}

static int read_invoked(history_t *h, struct line *l)
{
    uint64_t t, client, num, rank, x;

    if (number(l, "time", HIST_NEVER - 1, &t) < 0 || number(l, "client", UINT32_MAX, &client) < 0 ||
        number(l, "number", UINT32_MAX, &num) < 0 || number(l, "rank", UINT32_MAX, &rank) < 0)
        return -1;
    char *ns = word(l);
    int call = find(call_names, 6, word(l));
    if (!ns || call < 0)
        return errmsg_fail(l->err, EPROTO, "there is no such call");
    if (hmap_get_u64(h->open, client << 32 | num))
        return errmsg_fail(l->err, EPROTO, "client %llu has its %llu. operation twice",
                           (unsigned long long)client, (unsigned long long)num);
    size_t op = new_op(h, (uint32_t)client);
    struct hist_op *o = &h->ops[op];
    o->number = (uint32_t)num;
    o->rank = (uint32_t)rank;
    o->ns = intern(h, HIST_OTHERS, ns);
    o->call = (enum hist_call)call;
    o->invoked = t;
    if (call == HIST_FENCE) {
        o->fence = intern(h, HIST_OTHERS, word(l));
        if (!o->fence || number(l, "size of a fence", UINT32_MAX, &x) < 0)
            return errmsg_fail(l->err, EPROTO, "a fence has a name and a size");
        o->nprocs = (uint32_t)x;
    } else if ((call == HIST_WAIT || call == HIST_WATCH) &&
               number(l, call == HIST_WAIT ? "version" : "stream", UINT64_MAX - 1, &o->want) < 0) {
        return -1;
    } else if (call == HIST_GET) {
        char *at = word(l);
        if (!at)
            return errmsg_fail(l->err, EPROTO, "a get has a root or '-'");
        o->at = intern(h, HIST_ROOTS, at);
    }
    if (read_items(h, l, false, call == HIST_GET || call == HIST_WATCH, &o->items, &o->nitems) < 0)
        return -1;
    if (hmap_put_u64(h->open, client << 32 | num, (void *)(uintptr_t)(op + 1)) < 0)
        return errmsg_fail(l->err, ENOMEM, "out of memory");
    return 0;
}

static int read_answered(history_t *h, struct line *l)
{
    uint64_t t, client, num;

    if (number(l, "time", HIST_NEVER - 1, &t) < 0 || number(l, "client", UINT32_MAX, &client) < 0 ||
        number(l, "number", UINT32_MAX, &num) < 0)
        return -1;
    uintptr_t at = (uintptr_t)hmap_get_u64(h->open, client << 32 | num);
    if (!at || h->ops[at - 1].outcome != HIST_OPEN)
        return errmsg_fail(l->err, EPROTO, "an answer to what was not asked");
    int outcome = find(outcome_names, 4, word(l));
    char *version = word(l), *root = word(l), *error = word(l);
    struct hist_op *o = &h->ops[at - 1];
    if (outcome <= 0 || !error || (strcmp(version, "-") != 0 && str2u64(version, &o->version) < 0))
        return errmsg_fail(l->err, EPROTO, "an answer has an outcome, a version, a root, an error");
    o->outcome = (enum hist_outcome)outcome;
    o->answered = t;
    o->root = intern(h, HIST_ROOTS, root);
    o->error = intern(h, HIST_OTHERS, error);
    return read_items(h, l, true, false, &o->results, &o->nresults);
}

int history_read(history_t *h, FILE *f, const char *name, errmsg_t *err)
{
    char *text = NULL;
    size_t cap = 0, count = 0;
    ssize_t len;
    int rc = 0;

    while (rc == 0 && (len = getline(&text, &cap, f)) >= 0) {
        errmsg_t why = {"it begins with neither i nor a"};
        struct line l = {text, &why};
        count++;
        if (len > 0 && text[len - 1] == '\n')
            text[--len] = '\0';
        if (len == 0 || text[0] == '#')
            continue;
        char *w = word(&l);
        rc = strcmp(w, "i") == 0   ? read_invoked(h, &l)
             : strcmp(w, "a") == 0 ? read_answered(h, &l)
                                   : -1;
        if (rc < 0 && !h->failed)
            errmsg_fail(err, EPROTO, "%s, line %zu: %s", name, count, why.text);
    }
    free(text);
    if (h->failed)
        return errmsg_fail(err, ENOMEM, "out of memory for the history in %s", name);
    return rc;
}
