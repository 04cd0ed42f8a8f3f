/* pmi_spawn.c - blocks of `mcmd=spawn`.
 *
 *   request = 1*block                    as many as totspawns says
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
 *  1. A block is accepted only when everything it announces has come, and nothing else.
 *  2. Time and memory do not depend on the numbers in it.
 */
#include "config.h"
#include <errno.h>
#include <string.h>

#include "libpmi/pmi_spawn.h"

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

void pmi_spawn_begin(struct pmi_spawn *sp)
{
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

/* A line of a list of pairs: 1 when it is one, 0 when not. */
static int pair(struct pmi_slice name, struct pmi_slice value, const char *key, const char *val,
                bool *have_key, int *pairs)
{
    if (!*have_key && numbered(name, key, *pairs)) {
        if (*pairs == PMI_SPAWN_LIST_MAX)
            return fail(E2BIG);
        if (!pmi_wire_word_ok(value.p, value.len, PMI_WIRE_LINE_MAX))
            return fail(EPROTO);
        *have_key = true;
        return 1;
    }
    if (*have_key && numbered(name, val, *pairs)) {
        *have_key = false;
        (*pairs)++;
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
        return 0;
    }
    if (pmi_slice_eq(f->name, "execname"))
        return f->value.len == 0 ? fail(EPROTO) : once(sp, EXECNAME);
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
        return 0;
    }
    if ((rc = pair(f->name, f->value, "info_key_", "info_val_", &sp->info_key, &sp->infos)))
        return rc < 0 ? -1 : 0;
    if ((rc = pair(f->name, f->value, "preput_key_", "preput_val_", &sp->preput_key, &sp->preputs)))
        return rc < 0 ? -1 : 0;
    return fail(EPROTO);
}

/* What was announced, or by silence was not. */
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
    return sp->done == sp->total ? 2 : 1;
}

int pmi_spawn_line(struct pmi_spawn *sp, const char *line, size_t len)
{
    struct pmi_field f;
    int rc = pmi_wire_parse_block(line, len, &f);

    if (rc < 0)
        return -1;
    return rc == 1 ? block_end(sp) : field(sp, &f);
}
