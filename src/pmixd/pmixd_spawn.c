/* pmixd_spawn.c - PMIx_Spawn: a task asks for further tasks.
 *
 * The request goes to the launcher in the form of a PMI-1 spawn (pmi_spawn.h), and on to rank 0
 * (wrexec's coord_spawn.c), which answers when all tasks run, or when none does.  Command,
 * arguments, environment, working directory and number of an application are used; its other infos
 * are not.
 *
 *    state of a spawn    left when                                                   by
 *    asked               SPAWNED arrives; an error is answered at once               pmixd_spawned
 *    started             the group is known (pmixd_family.c): the task gets its      started_run
 *                        answer, and its library knows the new namespace
 */
#include "config.h"
#include "pmixd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/le.h"
#include "libutil/strutil.h"
#include "libexec/exec_wire.h"

struct spawn_call {
    struct call call;
    void *request;
    size_t len;
    uint32_t rank; /* of the task that asks */
    uint32_t tag;
    pmix_nspace_t nspace; /* of the new tasks */
    pmix_spawn_cbfunc_t cb;
    void *cbdata;
};

static void spawn_over(struct spawn_call *c, pmix_status_t status)
{
    c->cb(status, status == PMIX_SUCCESS ? c->nspace : NULL, c->cbdata);
    free(c->request);
    free(c);
}

/* --- the request --- */

static void add(buf_t *b, const void *data, size_t len, bool *bad)
{
    *bad |= buf_append(b, data, len) < 0;
}

static void add_string(buf_t *b, const char *s, bool *bad)
{
    add(b, s, strlen(s) + 1, bad);
}

static void add_info(buf_t *b, const char *key, const char *value, uint32_t *n, bool *bad)
{
    add_string(b, key, bad);
    add_string(b, value, bad);
    (*n)++;
}

static const char *working_directory(const pmix_app_t *app)
{
    for (size_t i = 0; i < app->ninfo; i++)
        if (PMIX_CHECK_KEY(&app->info[i], PMIX_WDIR) && app->info[i].value.type == PMIX_STRING)
            return app->info[i].value.data.string;
    return app->cwd;
}

/* Append the row of an application to the table, and its strings to the strings. */
static void add_app(buf_t *table, buf_t *strings, const pmix_app_t *app, bool *bad)
{
    const char *dir = working_directory(app);
    uint32_t argc = 1, ninfo = 0;
    uint8_t row[12];

    add_string(strings, app->cmd, bad);
    /* The first word is the command's name. */
    for (char **v = app->argv; v && v[0] && v[argc]; argc++)
        add_string(strings, v[argc], bad);
    if (dir && dir[0])
        add_info(strings, "wdir", dir, &ninfo, bad);
    for (char **v = app->env; v && *v; v++)
        add_info(strings, "env", *v, &ninfo, bad);
    le_put32(row, (uint32_t)app->maxprocs);
    le_put32(row + 4, argc);
    le_put32(row + 8, ninfo);
    add(table, row, sizeof(row), bad);
}

/* Encode the payload of the frame SPAWN, without its first number. */
static void *encode(const pmix_app_t apps[], size_t napps, size_t *len)
{
    buf_t *table = buf_create(WIRE_PAYLOAD_MAX / 2), *strings = buf_create(WIRE_PAYLOAD_MAX / 2);
    bool bad = !table || !strings;
    uint8_t *mem = NULL;
    size_t a, b;

    for (size_t i = 0; !bad && i < napps; i++)
        add_app(table, strings, &apps[i], &bad);
    if (!bad) {
        a = buf_len(table);
        b = buf_len(strings);
        *len = 8 + 8 + a + b + WIRE_STRINGS;
        if ((mem = calloc(1, *len))) {
            le_put32(mem, (uint32_t)(8 + a + b));
            le_put32(mem + 8, (uint32_t)napps);
            memcpy(mem + 16, buf_data(table), a);
            memcpy(mem + 16 + a, buf_data(strings), b);
        }
    }
    buf_destroy(table);
    buf_destroy(strings);
    return mem;
}

static void spawn_run(struct pmixd *pd, struct call *call)
{
    struct spawn_call *c = (struct spawn_call *)(void *)call;

    c->tag = WIRE_SPAWN_PMIX | (pd->spawn_seq++ & ~WIRE_SPAWN_PMIX);
    if (hmap_put_u64(pd->spawns, c->tag, c) < 0) {
        spawn_over(c, PMIX_ERR_NOMEM);
        return;
    }
    pmixd_family_watch(pd);
    pmixd_family_tell(pd);
    pmixd_nodes_ask_spawn(pd, c->rank, c->tag, c->request, c->len);
    free(c->request);
    c->request = NULL;
}

pmix_status_t pmixd_spawn(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                          const pmix_app_t apps[], size_t napps, pmix_spawn_cbfunc_t cb,
                          void *cbdata)
{
    struct spawn_call *c;

    for (size_t i = 0; i < napps; i++)
        if (!apps[i].cmd || !apps[i].cmd[0] || apps[i].maxprocs < 1)
            return PMIX_ERR_BAD_PARAM;
    if (napps == 0 || !cb)
        return PMIX_ERR_BAD_PARAM;
    if (!(c = calloc(1, sizeof(*c))) || !(c->request = encode(apps, napps, &c->len))) {
        free(c);
        return PMIX_ERR_NOMEM;
    }
    c->call.run = spawn_run;
    c->rank = proc->rank;
    c->cb = cb;
    c->cbdata = cbdata;
    pmixd_post(pmixd_self(), &c->call);
    return PMIX_SUCCESS;
}

/* --- the answer --- */

/* Answer the task if the new group is known; otherwise wait for its description. */
static void started_run(struct pmixd *pd, struct call *call)
{
    struct spawn_call *c = (struct spawn_call *)(void *)call;

    if (pmixd_family_group_of_nspace(pd, c->nspace))
        spawn_over(c, PMIX_SUCCESS);
    else if (pd->late)
        spawn_over(c, PMIX_ERR_TIMEOUT);
    else
        pmixd_family_await(pd, call);
}

static pmix_status_t status_of(int errnum)
{
    switch (errnum) {
    case ENOSPC:
        return PMIX_ERR_OUT_OF_RESOURCE;
    case ENOMEM:
        return PMIX_ERR_NOMEM;
    default:
        return PMIX_ERR_JOB_FAILED_TO_LAUNCH;
    }
}

void pmixd_spawned(struct pmixd *pd, uint32_t tag, int errnum, const char *name)
{
    struct spawn_call *c = hmap_take_u64(pd->spawns, tag);

    if (!c)
        return;
    if (errnum) {
        spawn_over(c, status_of(errnum));
        return;
    }
    snprintf(c->nspace, sizeof(c->nspace), "%s%s", PMIXD_NSPACE_PREFIX, name);
    c->call.run = started_run;
    started_run(pd, &c->call);
}
