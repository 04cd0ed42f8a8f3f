/* pmi_spawn.c - blocks of `mcmd=spawn`, and their encoding as a single request.
 *
 *   request = 1*block                    totspawns blocks
 *   block   = "mcmd=spawn" LF fields "endcmd" LF
 *
 *   field              value                        times
 *   nprocs             1..                          once
 *   execname           any text but none            once
 *   totspawns          number of blocks             once, the same in all
 *   spawnssofar        1 in the first block, ...    once
 *   argN               any text                     N = 1, 2, ... in order
 *   argcnt             number of argN               at most once
 *   info_key_N         a word                       N = 0, 1, ... in order
 *   info_val_N         any text                     after its key
 *   info_num           number of pairs              at most once
 *   preput_key_N, preput_val_N, preput_num          likewise
 *
 * Invariants:
 *  1. A block is accepted only if it contains all fields that it announces, and no others.
 *  2. Time and memory depend on the number of its bytes, which has a bound, not on the values of
 *     its numbers.
 *  3. A block that cannot be stored because memory is exhausted is read to its end: the dialog
 *     stays synchronized, and the request is refused.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libpmi/pmi_spawn.h"
#include "libutil/le.h"

enum {
    NPROCS = 1,
    EXECNAME = 2,
    TOTSPAWNS = 4,
    SPAWNSSOFAR = 8,
    ARGCNT = 16,
    INFO_NUM = 32,
    PREPUT_NUM = 64
};
#define REQUIRED (NPROCS | EXECNAME | TOTSPAWNS | SPAWNSSOFAR)

static int fail(int errnum)
{
    errno = errnum;
    return -1;
}

/* --- keeping --- */

static void add(struct pmi_spawn *sp, buf_t **b, const void *data, size_t len)
{
    if (!sp->nomem && (*b || (*b = buf_create(0))) && buf_append(*b, data, len) == 0)
        return;
    sp->nomem = true;
}

static void add_string(struct pmi_spawn *sp, buf_t **b, struct pmi_slice s)
{
    add(sp, b, s.p, s.len);
    add(sp, b, "", 1);
}

static void move(struct pmi_spawn *sp, buf_t **to, buf_t *from)
{
    if (!from)
        return;
    add(sp, to, buf_data(from), buf_len(from));
    buf_consume(from, buf_len(from));
}

static void empty(buf_t *b)
{
    if (b)
        buf_consume(b, buf_len(b));
}

/* The block is complete. */
static void keep_block(struct pmi_spawn *sp)
{
    uint8_t row[12];

    le_put32(row, (uint32_t)sp->procs);
    le_put32(row + 4, (uint32_t)sp->args + 1);
    le_put32(row + 8, (uint32_t)sp->infos);
    add(sp, &sp->table, row, sizeof(row));
    move(sp, &sp->strings, sp->name);
    move(sp, &sp->strings, sp->argv);
    move(sp, &sp->strings, sp->info);
    sp->npairs += (uint32_t)sp->preputs;
}

static size_t put(uint8_t *p, const buf_t *b)
{
    size_t n = b ? buf_len(b) : 0;

    if (n)
        memcpy(p, buf_data(b), n);
    return n;
}

void *pmi_spawn_take(const struct pmi_spawn *sp, size_t *len)
{
    size_t n = 8;
    uint8_t *mem;

    n += sp->table ? buf_len(sp->table) : 0;
    n += sp->strings ? buf_len(sp->strings) : 0;
    n += sp->pairs ? buf_len(sp->pairs) : 0;
    if (sp->nomem || !(mem = malloc(n))) {
        errno = ENOMEM;
        return NULL;
    }
    le_put32(mem, (uint32_t)sp->done);
    le_put32(mem + 4, sp->npairs);
    n = 8;
    n += put(mem + n, sp->table);
    n += put(mem + n, sp->strings);
    n += put(mem + n, sp->pairs);
    *len = n;
    return mem;
}

void pmi_spawn_clear(struct pmi_spawn *sp)
{
    buf_destroy(sp->name);
    buf_destroy(sp->argv);
    buf_destroy(sp->info);
    buf_destroy(sp->table);
    buf_destroy(sp->strings);
    buf_destroy(sp->pairs);
    memset(sp, 0, sizeof(*sp));
}

/* --- reading --- */

void pmi_spawn_begin(struct pmi_spawn *sp)
{
    empty(sp->name);
    empty(sp->argv);
    empty(sp->info);
    sp->in_block = true;
    sp->seen = 0;
    sp->args = sp->infos = sp->preputs = 0;
    sp->argcnt = sp->infonum = sp->preputnum = -1;
    sp->info_key = sp->preput_key = false;
}

static int once(struct pmi_spawn *sp, unsigned bit)
{
    if (sp->seen & bit)
        return fail(EPROTO);
    sp->seen |= bit;
    return 0;
}

static int number(struct pmi_spawn *sp, unsigned bit, struct pmi_slice value, int lo, int hi,
                  int *out)
{
    return once(sp, bit) < 0 || pmi_slice_int(value, lo, hi, out) < 0 ? -1 : 0;
}

/* "PREFIXn" with n as expected, in its shortest form? */
static bool numbered(struct pmi_slice name, const char *prefix, int n)
{
    size_t len = strlen(prefix);
    struct pmi_slice rest = {name.p + len, name.len - len};
    int got;

    return name.len > len && !memcmp(name.p, prefix, len) && rest.p[0] != '-' &&
           (rest.p[0] != '0' || rest.len == 1) && pmi_slice_int(rest, n, n, &got) == 0;
}

/* A line of a list of pairs: 1 if it is one, else 0. */
static int pair(struct pmi_spawn *sp, buf_t **b, const struct pmi_field *f, const char *key,
                const char *val, bool *have_key, int *pairs)
{
    struct pmi_slice name = f->name, value = f->value;

    if (!*have_key && numbered(name, key, *pairs)) {
        if (*pairs == PMI_SPAWN_LIST_MAX)
            return fail(E2BIG);
        if (!pmi_wire_word_ok(value.p, value.len, PMI_WIRE_LINE_MAX))
            return fail(EPROTO);
        *have_key = true;
        add_string(sp, b, value);
        return 1;
    }
    if (*have_key && numbered(name, val, *pairs)) {
        *have_key = false;
        (*pairs)++;
        add_string(sp, b, value);
        return 1;
    }
    return 0;
}

static int field(struct pmi_spawn *sp, const struct pmi_field *f)
{
    int n, rc;

    if (pmi_slice_eq(f->name, "nprocs")) {
        if (number(sp, NPROCS, f->value, 1, PMI_SPAWN_PROCS_MAX, &n) < 0)
            return -1;
        if (n > PMI_SPAWN_PROCS_MAX - sp->nprocs)
            return fail(E2BIG);
        sp->nprocs += n;
        sp->procs = n;
        return 0;
    }
    if (pmi_slice_eq(f->name, "execname")) {
        add_string(sp, &sp->name, f->value);
        return f->value.len == 0 ? fail(EPROTO) : once(sp, EXECNAME);
    }
    if (pmi_slice_eq(f->name, "totspawns")) {
        if (number(sp, TOTSPAWNS, f->value, 1, PMI_SPAWN_COMMANDS_MAX, &n) < 0 ||
            (sp->total && sp->total != n))
            return fail(EPROTO);
        sp->total = n;
        return 0;
    }
    if (pmi_slice_eq(f->name, "spawnssofar"))
        return number(sp, SPAWNSSOFAR, f->value, sp->done + 1, sp->done + 1, &n);
    if (pmi_slice_eq(f->name, "argcnt"))
        return number(sp, ARGCNT, f->value, 0, PMI_SPAWN_LIST_MAX, &sp->argcnt);
    if (pmi_slice_eq(f->name, "info_num"))
        return number(sp, INFO_NUM, f->value, 0, PMI_SPAWN_LIST_MAX, &sp->infonum);
    if (pmi_slice_eq(f->name, "preput_num"))
        return number(sp, PREPUT_NUM, f->value, 0, PMI_SPAWN_LIST_MAX, &sp->preputnum);
    if (numbered(f->name, "arg", sp->args + 1)) {
        if (sp->args == PMI_SPAWN_LIST_MAX)
            return fail(E2BIG);
        sp->args++;
        add_string(sp, &sp->argv, f->value);
        return 0;
    }
    if ((rc = pair(sp, &sp->info, f, "info_key_", "info_val_", &sp->info_key, &sp->infos)))
        return rc < 0 ? -1 : 0;
    if ((rc = pair(sp, &sp->pairs, f, "preput_key_", "preput_val_", &sp->preput_key, &sp->preputs)))
        return rc < 0 ? -1 : 0;
    return fail(EPROTO);
}

/* Does the announced number agree with that of the fields?  Without an announcement, there must be
 * none. */
static bool agrees(int announced, int seen)
{
    return announced < 0 ? seen == 0 : announced == seen;
}

static int block_end(struct pmi_spawn *sp)
{
    if ((sp->seen & REQUIRED) != REQUIRED || !agrees(sp->argcnt, sp->args) ||
        !agrees(sp->infonum, sp->infos) || !agrees(sp->preputnum, sp->preputs) || sp->info_key ||
        sp->preput_key || sp->done >= sp->total)
        return fail(EPROTO);
    sp->in_block = false;
    sp->done++;
    keep_block(sp);
    return sp->done == sp->total ? 2 : 1;
}

int pmi_spawn_line(struct pmi_spawn *sp, const char *line, size_t len)
{
    struct pmi_field f;
    int rc = pmi_wire_parse_block(line, len, &f);

    if (rc < 0)
        return -1;
    if ((sp->size += len) > PMI_SPAWN_SIZE_MAX)
        return fail(E2BIG);
    return rc == 1 ? block_end(sp) : field(sp, &f);
}

/* --- the encoded request --- */

/* Skip that number of strings from *p on; false if there are fewer. */
static bool skip(const char **p, const char *end, uint64_t n)
{
    for (; n > 0; n--) {
        const char *nul = *p < end ? memchr(*p, '\0', (size_t)(end - *p)) : NULL;

        if (!nul)
            return false;
        *p = nul + 1;
    }
    return true;
}

static int get_commands(const uint8_t *table, const char *p, const char *end,
                        struct pmi_spawn_request *req)
{
    for (uint32_t i = 0; i < req->ncommands; i++, table += 12) {
        struct pmi_spawn_command *c = &req->commands[i];

        c->nprocs = le_get32(table);
        c->argc = le_get32(table + 4);
        c->ninfo = le_get32(table + 8);
        c->argv = p;
        if (c->nprocs == 0 || c->nprocs > PMI_SPAWN_PROCS_MAX - req->nprocs || c->argc == 0 ||
            !skip(&p, end, c->argc) || !c->argv[0])
            return -1;
        c->info = p;
        if (!skip(&p, end, 2ull * c->ninfo))
            return -1;
        req->nprocs += c->nprocs;
    }
    req->pairs = p;
    if (!skip(&p, end, 2ull * req->npairs) || p != end)
        return -1;
    req->pairs_len = (size_t)(p - req->pairs);
    return 0;
}

int pmi_spawn_request_get(const void *data, size_t len, struct pmi_spawn_request *req,
                          errmsg_t *err)
{
    const uint8_t *p = data;
    size_t head;

    memset(req, 0, sizeof(*req));
    if (len >= 8) {
        req->ncommands = le_get32(p);
        req->npairs = le_get32(p + 4);
    }
    head = 8 + 12 * (size_t)req->ncommands;
    if (req->ncommands == 0 || req->ncommands > PMI_SPAWN_COMMANDS_MAX || len < head)
        return errmsg_fail(err, EPROTO, "a request to spawn is cut off");
    if (!(req->commands = calloc(req->ncommands, sizeof(*req->commands))))
        return errmsg_fail(err, ENOMEM, "out of memory for a spawn");
    if (get_commands(p + 8, (const char *)p + head, (const char *)p + len, req) == 0)
        return 0;
    pmi_spawn_request_clear(req);
    return errmsg_fail(err, EPROTO, "the strings of a request to spawn are damaged");
}

void pmi_spawn_request_clear(struct pmi_spawn_request *req)
{
    int saved = errno;

    free(req->commands);
    memset(req, 0, sizeof(*req));
    errno = saved;
}

const char *pmi_spawn_info(const struct pmi_spawn_command *c, const char *key)
{
    const char *p = c->info;

    for (uint32_t i = 0; i < c->ninfo; i++) {
        const char *value = p + strlen(p) + 1;

        if (strcmp(p, key) == 0)
            return value;
        p = value + strlen(value) + 1;
    }
    return NULL;
}
