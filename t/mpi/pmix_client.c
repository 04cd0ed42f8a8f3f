/* A PMIx program that asks for one thing, and checks the answer: what t/mpi-pmix.t runs as tasks.
 *
 *    pmix_client hello SIZE       put, fence with data, get from everybody; who shares the node
 *    pmix_client direct SIZE      put, no fence, get from everybody
 *    pmix_client subset SIZE      even ranks fence by themselves, five times; then all
 *    pmix_client group SIZE       all make a group with a context id, twice; odd ranks one more
 *    pmix_client late             rank 1 never puts: rank 0 gives up after a second
 *    pmix_client publish KEY VAL  publish, say "published", stay until standard input ends
 *    pmix_client lookup KEY [wait]   print the value
 *    pmix_client unpublish KEY VAL   publish, remove, look for it in vain
 *    pmix_client spawn            one more task is started, and a million are refused
 *    pmix_client abort CODE | leave CODE | term
 *
 * Prints "rank R of N: right", exit code 0; else a sentence, exit code 1.
 */
#include <pmix.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me;
static uint32_t size;

static void wrong(const char *what, pmix_status_t rc)
{
    printf("rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(rc));
    exit(1);
}

static void check(const char *what, pmix_status_t rc)
{
    if (rc != PMIX_SUCCESS)
        wrong(what, rc);
}

static void put(const char *key, const char *text)
{
    pmix_value_t v = {.type = PMIX_STRING};

    v.data.string = (char *)text;
    check("put", PMIx_Put(PMIX_GLOBAL, key, &v));
    check("commit", PMIx_Commit());
}

static void fence(const pmix_proc_t *procs, size_t n, bool collect)
{
    pmix_info_t info;

    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    check("fence", PMIx_Fence(procs, n, &info, 1));
}

static void get_all(const char *key)
{
    char want[64];

    for (uint32_t r = 0; r < size; r++) {
        pmix_value_t *v;
        pmix_proc_t p;

        PMIX_LOAD_PROCID(&p, me.nspace, r);
        check("get", PMIx_Get(&p, key, NULL, 0, &v));
        snprintf(want, sizeof(want), "%s of %u", key, r);
        if (v->type != PMIX_STRING || strcmp(v->data.string, want) != 0)
            wrong("somebody else's value", PMIX_ERROR);
        PMIX_VALUE_RELEASE(v);
    }
}

static void put_mine(const char *key)
{
    char text[64];

    snprintf(text, sizeof(text), "%s of %u", key, me.rank);
    put(key, text);
}

static void hello(void)
{
    pmix_value_t *v;
    pmix_proc_t all;

    put_mine("card");
    fence(NULL, 0, true);
    get_all("card");
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    check("local size", PMIx_Get(&all, PMIX_LOCAL_SIZE, NULL, 0, &v));
    printf("local size %u\n", v->data.uint32);
    check("node", PMIx_Get(&me, PMIX_NODEID, NULL, 0, &v));
    printf("node of %u: %u\n", me.rank, v->data.uint32);
}

static void direct(void)
{
    pmix_proc_t all;

    put_mine("late");
    get_all("late");
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    fence(&all, 1, false);
}

static size_t some(pmix_proc_t *procs, uint32_t first, uint32_t step)
{
    size_t n = 0;

    for (uint32_t r = first; r < size; r += step, n++)
        PMIX_LOAD_PROCID(&procs[n], me.nspace, r);
    return n;
}

static void subset(void)
{
    pmix_proc_t *procs = calloc(size, sizeof(*procs));
    size_t n = some(procs, 0, 2);

    for (int i = 0; i < 5 && me.rank % 2 == 0; i++)
        fence(procs, n, i % 2 == 0);
    put_mine("after");
    fence(NULL, 0, true);
    get_all("after");
    free(procs);
}

/* Are these the members, in any order? */
static bool members_are(const pmix_value_t *v, const pmix_proc_t *procs, size_t n)
{
    const pmix_data_array_t *a = v->data.darray;
    size_t found = 0;

    if (v->type != PMIX_DATA_ARRAY || a->type != PMIX_PROC || a->size != n)
        return false;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            found += PMIX_CHECK_PROCID(&((const pmix_proc_t *)a->array)[k], &procs[i]) ? 1 : 0;
    return found == n;
}

/* The answer of libpmix 4 is the context id alone; later ones add the name and the members. */
static size_t group(const char *name, const pmix_proc_t *procs, size_t n)
{
    bool yes = true, named = false, complete = false;
    const char *version = strpbrk(PMIx_Get_version(), "0123456789");
    pmix_info_t info, *res = NULL;
    size_t nres = 0, id = 0;

    PMIX_INFO_LOAD(&info, PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
    check("group", PMIx_Group_construct(name, procs, n, &info, 1, &res, &nres));
    for (size_t i = 0; i < nres; i++) {
        const pmix_value_t *v = &res[i].value;

        if (PMIX_CHECK_KEY(&res[i], PMIX_GROUP_CONTEXT_ID))
            id = v->data.size;
        else if (PMIX_CHECK_KEY(&res[i], PMIX_GROUP_ID))
            named = v->type == PMIX_STRING && strcmp(v->data.string, name) == 0;
        else if (PMIX_CHECK_KEY(&res[i], PMIX_GROUP_MEMBERSHIP))
            complete = members_are(v, procs, n);
    }
    if (!id)
        wrong("no context id", PMIX_ERROR);
    if (version && atoi(version) >= 5 && !named)
        wrong("not the name of the group", PMIX_ERROR);
    if (version && atoi(version) >= 5 && !complete)
        wrong("not the members of the group", PMIX_ERROR);
    printf("libpmix %s\n", version ? version : "?");
    return id;
}

static void groups(void)
{
    pmix_proc_t *procs = calloc(size, sizeof(*procs));
    size_t n = some(procs, 0, 1), a = group("one", procs, n), b = group("two", procs, n), c = 0;

    if (me.rank % 2) {
        n = some(procs, 1, 2);
        c = group("odd", procs, n);
        printf("odd %zu\n", c);
    }
    if (a == b || a == c || b == c)
        wrong("two groups with one id", PMIX_ERROR);
    printf("ids %zu %zu\n", a, b);
    check("ungroup", PMIx_Group_destruct("one", NULL, 0));
    free(procs);
}

static void late(void)
{
    pmix_info_t info;
    pmix_value_t *v;
    pmix_proc_t p;
    int one = 1;

    if (me.rank == 0) {
        PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &one, PMIX_INT);
        PMIX_LOAD_PROCID(&p, me.nspace, 1);
        if (PMIx_Get(&p, "never", &info, 1, &v) == PMIX_SUCCESS)
            wrong("got what nobody put", PMIX_ERROR);
    }
    fence(NULL, 0, false);
}

static pmix_status_t publish(const char *key, const char *value)
{
    pmix_info_t info;

    PMIX_INFO_LOAD(&info, key, value, PMIX_STRING);
    return PMIx_Publish(&info, 1);
}

static pmix_status_t lookup(const char *key, bool wait, char *buf, size_t len)
{
    pmix_pdata_t data;
    pmix_info_t info;
    pmix_status_t rc;
    int one = 1;

    PMIX_PDATA_CONSTRUCT(&data);
    PMIX_LOAD_KEY(data.key, key);
    PMIX_INFO_LOAD(&info, PMIX_WAIT, &one, PMIX_INT);
    rc = PMIx_Lookup(&data, 1, wait ? &info : NULL, wait ? 1 : 0);
    if (rc == PMIX_SUCCESS)
        snprintf(buf, len, "%s", data.value.data.string);
    return rc;
}

static void names(char **argv, int argc)
{
    char buf[256], *keys[] = {argv[2], NULL};
    pmix_status_t rc;

    if (strcmp(argv[1], "lookup") == 0) {
        check("lookup", lookup(argv[2], argc > 3, buf, sizeof(buf)));
        printf("found %s\n", buf);
        return;
    }
    check("publish", publish(argv[2], argv[3]));
    if (publish(argv[2], "again") == PMIX_SUCCESS)
        wrong("published twice", PMIX_ERROR);
    if (strcmp(argv[1], "publish") == 0) {
        printf("published\n");
        fflush(stdout);
        while (read(0, buf, sizeof(buf)) > 0)
            ;
        return;
    }
    check("unpublish", PMIx_Unpublish(keys, NULL, 0));
    rc = lookup(argv[2], false, buf, sizeof(buf));
    if (rc != PMIX_ERR_NOT_FOUND)
        wrong("lookup of what is gone", rc);
}

static void spawn(void)
{
    char *argv[] = {(char *)"true", NULL};
    pmix_app_t app;
    pmix_nspace_t ns;
    pmix_status_t rc;

    PMIX_APP_CONSTRUCT(&app);
    app.cmd = argv[0];
    app.argv = argv;
    app.maxprocs = 1;
    check("spawn", PMIx_Spawn(NULL, 0, &app, 1, ns));
    if (strcmp(ns, me.nspace) == 0)
        wrong("namespace of what was spawned", 0);
    app.maxprocs = 1000000;
    rc = PMIx_Spawn(NULL, 0, &app, 1, ns);
    if (rc != PMIX_ERR_OUT_OF_RESOURCE)
        wrong("spawn of a million", rc);
}

static void end(const char *what, int code)
{
    pmix_info_t info;
    bool yes = true;
    pmix_proc_t all;

    fence(NULL, 0, false);
    if (me.rank != size - 1) {
        pause();
    } else if (strcmp(what, "abort") == 0) {
        PMIx_Abort(code, "enough of this", NULL, 0);
        printf("went on\n");
        fflush(stdout);
        pause();
    } else if (strcmp(what, "term") == 0) {
        PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
        PMIX_INFO_LOAD(&info, PMIX_JOB_CTRL_TERMINATE, &yes, PMIX_BOOL);
        check("job control", PMIx_Job_control(&all, 1, &info, 1, NULL, NULL));
        pause();
    }
    _exit(code);
}

/* What the library itself does not free is not for the leak sanitizer, when that looks on. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
    return "print_suppressions=0";
}
const char *__lsan_default_suppressions(void)
{
    return "leak:libpmix.so\n";
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "hello";
    pmix_value_t *v;
    pmix_proc_t all;

    check("init", PMIx_Init(&me, NULL, 0));
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    check("size", PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &v));
    size = v->data.uint32;
    if (strcmp(what, "hello") == 0)
        hello();
    else if (strcmp(what, "direct") == 0)
        direct();
    else if (strcmp(what, "subset") == 0)
        subset();
    else if (strcmp(what, "group") == 0)
        groups();
    else if (strcmp(what, "late") == 0)
        late();
    else if (strcmp(what, "spawn") == 0)
        spawn();
    else if (strcmp(what, "abort") == 0 || strcmp(what, "leave") == 0 || strcmp(what, "term") == 0)
        end(what, argc > 2 ? atoi(argv[2]) : 0);
    else
        names(argv, argc);
    if (argc > 2 && atoi(argv[2]) > 0 && (uint32_t)atoi(argv[2]) != size)
        wrong("another size was expected", PMIX_ERROR);
    printf("rank %u of %u: right\n", me.rank, size);
    fflush(stdout);
    PMIx_Finalize(NULL, 0);
    return 0;
}
