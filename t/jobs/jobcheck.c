/* jobcheck.c - prove from the event logs of a session that its jobs were treated as they should be.
 *
 *    jobcheck [--expect=FILE] [--count=N] [--active] [--clock-set] [--tree=P,L,K] [DIR]
 *
 * Reads job.* and resource.inventory of the session that FLUX_URI leads to, at one root of its
 * key-value store; or files of the same names below DIR (job/7/eventlog), which is what
 * `flux kvs dump` makes once unpacked.  audit.h says what is proved.
 *
 *    --expect=FILE  lines "ID [RESULT [CODE]]": the job is there and ended as RESULT (completed,
 *                   failed, canceled, timeout; "-": in any way) with exit code CODE
 *    --count=N      there are exactly this many jobs
 *    --active       jobs that have not ended are not a violation
 *    --clock-set    the wall clock was set meanwhile: times prove nothing
 *    --tree=P,L,K   nodes hang on switches: no two jobs may send over one link
 *
 * Each violation is a sentence on standard error (the first 50).  Exit code: 0 none, 1 some, 2 the
 * record cannot be read.
 */
#include "config.h"
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit.h"
#include "libflux/flux.h"
#include "libkvs/kvs.h"
#include "libutil/strutil.h"

#define WINDOW 64 /* jobs that are being read at a time */
#define PAGE 5000
#define TOLD_MAX 50

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "jobcheck: %s: %s\n", what, why);
    return -1;
}

static void tell(const char *sentence, void *arg)
{
    int *told = arg;

    if (++*told <= TOLD_MAX)
        fprintf(stderr, "%s\n", sentence);
}

/* --- from files --- */

/* All of a file, malloc'd; NULL with ENOENT and others. */
static char *read_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "re");
    char *data = NULL;
    size_t size = 0;

    if (!f)
        return NULL;
    *len = 0;
    while (!feof(f) && !ferror(f)) {
        if (size - *len < 4096) {
            char *p = realloc(data, size = size * 2 + 65536);
            if (!p)
                break;
            data = p;
        }
        *len += fread(data + *len, 1, size - *len, f);
    }
    fclose(f);
    return data;
}

static int job_from_files(audit_t *a, const char *dir, const char *name, uint64_t id)
{
    static const char *const files[] = {"eventlog", "R", "jobspec"};
    struct audit_job job = {.id = id};
    char *data[3];
    size_t len[3] = {0};
    char path[4096];
    int rc;

    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/job/%s/%s", dir, name, files[i]);
        data[i] = read_file(path, &len[i]);
    }
    job.log = data[0];
    job.log_len = len[0];
    job.R = data[1];
    job.R_len = len[1];
    job.jobspec = data[2];
    job.jobspec_len = len[2];
    if ((rc = audit_job(a, &job)) < 0)
        fail(name, strerror(errno));
    for (int i = 0; i < 3; i++)
        free(data[i]);
    return rc;
}

static int take_inventory(audit_t *a, const char *text, size_t len)
{
    errmsg_t err;

    if (!text) {
        fprintf(stderr, "jobcheck: there is no inventory: limits are not checked\n");
        return 0;
    }
    return audit_inventory(a, text, len, &err) < 0 ? fail("the inventory", err.text) : 0;
}

static int from_files(audit_t *a, const char *dir)
{
    char path[4096];
    size_t len = 0;
    char *text;
    struct dirent *e;
    DIR *d;
    int rc;

    snprintf(path, sizeof(path), "%s/resource/inventory", dir);
    text = read_file(path, &len);
    rc = take_inventory(a, text, len);
    free(text);
    snprintf(path, sizeof(path), "%s/job", dir);
    if (rc < 0 || !(d = opendir(path)))
        return rc < 0 ? -1 : fail(path, strerror(errno));
    while (rc == 0 && (e = readdir(d))) {
        uint64_t id;

        if (e->d_name[0] == '.')
            continue;
        rc = str2u64(e->d_name, &id) < 0 ? fail(e->d_name, "is not a job")
                                         : job_from_files(a, dir, e->d_name, id);
    }
    closedir(d);
    return rc;
}

/* --- from a session --- */

struct reading {
    uint64_t id;
    flux_future_t *f[3];
};

static int value_of(flux_future_t *f, const char *what, const char **data, size_t *len)
{
    errmsg_t err;

    if (!f || flux_future_wait(f, -1) < 0)
        return fail(what, strerror(errno));
    if (flux_kvs_lookup_get(f, data, len, &err) == 0)
        return 0;
    *data = NULL;
    return errno == ENOENT ? 0 : fail(what, err.text);
}

static int reading_begin(flux_t *h, const char *root, struct reading *r, uint64_t id)
{
    static const char *const keys[] = {"eventlog", "R", "jobspec"};
    char key[64];

    r->id = id;
    for (int i = 0; i < 3; i++) {
        snprintf(key, sizeof(key), "job.%" PRIu64 ".%s", id, keys[i]);
        if (!(r->f[i] = flux_kvs_lookup(h, NULL, key, 0, root)))
            return fail(key, strerror(errno));
    }
    return 0;
}

static int reading_end(audit_t *a, struct reading *r)
{
    struct audit_job job = {.id = r->id};
    int rc = -1;

    if (value_of(r->f[0], "an event log", &job.log, &job.log_len) == 0 &&
        value_of(r->f[1], "an R", &job.R, &job.R_len) == 0 &&
        value_of(r->f[2], "a jobspec", &job.jobspec, &job.jobspec_len) == 0 &&
        (rc = audit_job(a, &job)) < 0)
        fail("a job", strerror(errno));
    for (int i = 0; i < 3; i++) {
        flux_future_destroy(r->f[i]);
        r->f[i] = NULL;
    }
    return rc;
}

/* The jobs of one page, WINDOW of them at a time.  `last` becomes the name of the last one. */
static int read_page(flux_t *h, audit_t *a, const char *root, flux_future_t *f, char last[256])
{
    struct reading window[WINDOW] = {0};
    struct flux_kvs_dirent e;
    size_t pos = 0, n = 0;
    errmsg_t err;
    int rc = 0, got = 0;

    while (rc == 0 && (got = flux_kvs_readdir_next(f, &pos, &e, &err)) == 1) {
        struct reading *r = &window[n++ % WINDOW];
        uint64_t id;

        snprintf(last, 256, "%s", e.name);
        if (r->f[0])
            rc = reading_end(a, r);
        if (rc == 0)
            rc = str2u64(e.name, &id) < 0 ? fail(e.name, "is not a job")
                                          : reading_begin(h, root, r, id);
    }
    for (size_t i = 0; i < WINDOW; i++) {
        struct reading *r = &window[(n + i) % WINDOW];
        if (r->f[0] && reading_end(a, r) < 0)
            rc = -1;
    }
    return got < 0 ? fail("the list of jobs", err.text) : rc;
}

static int read_jobs(flux_t *h, audit_t *a, const char *root)
{
    char last[256] = "";
    bool more = true;
    int rc = 0;

    while (rc == 0 && more) {
        flux_future_t *f =
            flux_kvs_readdir_page(h, NULL, "job", 0, root, *last ? last : NULL, PAGE);
        errmsg_t err;

        if (!f || flux_future_wait(f, -1) < 0)
            rc = fail("the list of jobs", strerror(errno));
        else if (flux_kvs_readdir_count(f, &err) < 0 && errno == ENOENT)
            more = false; /* none was ever submitted */
        else if ((rc = read_page(h, a, root, f, last)) == 0)
            more = flux_kvs_readdir_more(f);
        flux_future_destroy(f);
    }
    return rc;
}

static int from_session(audit_t *a)
{
    errmsg_t err;
    flux_t *h = flux_open(NULL, NULL, &err);
    flux_future_t *snap, *f;
    const char *root, *text;
    size_t len;
    int rc = -1;

    if (!h)
        return fail("cannot connect", err.text);
    if (!(snap = flux_kvs_snapshot(h, NULL, NULL)) || flux_future_wait(snap, -1) < 0)
        fail("the key-value store", strerror(errno));
    else if (flux_kvs_commit_get(snap, NULL, &root, &err) < 0)
        fail("the key-value store", err.text);
    else {
        f = flux_kvs_lookup(h, NULL, "resource.inventory", 0, root);
        if (value_of(f, "the inventory", &text, &len) == 0 && take_inventory(a, text, len) == 0)
            rc = read_jobs(h, a, root);
        flux_future_destroy(f);
    }
    flux_future_destroy(snap);
    flux_close(h);
    return rc;
}

/* --- what is expected --- */

static int take_expected(audit_t *a, const char *line)
{
    char word[32] = "-", number[16] = "-", rest[2];
    uint64_t id;
    int n, result = JOB_RESULT_NONE, code = -1;

    n = sscanf(line, "%" SCNu64 " %31s %15s %1s", &id, word, number, rest);
    if (n < 1 || n > 3)
        return fail(line, "is not \"ID [RESULT [CODE]]\"");
    if (strcmp(word, "-") != 0 && (result = job_result_parse(word)) < 0)
        return fail(word, "is not a result");
    if (strcmp(number, "-") != 0 && str2i32(number, &code) < 0)
        return fail(number, "is not an exit code");
    return audit_expect(a, id, (enum job_result)result, code);
}

static int read_expected(audit_t *a, const char *path)
{
    FILE *f = fopen(path, "re");
    char line[256];
    int rc = 0;

    if (!f)
        return fail(path, strerror(errno));
    while (rc == 0 && fgets(line, sizeof(line), f))
        if (strspn(line, " \t\n") != strlen(line))
            rc = take_expected(a, line);
    fclose(f);
    return rc;
}

static int take_tree(audit_t *a, const char *text)
{
    uint32_t pods, leaves, nodes;
    char rest;

    if (sscanf(text, "%u,%u,%u%c", &pods, &leaves, &nodes, &rest) != 3 || !leaves || !nodes)
        return fail(text, "is not P,L,K");
    return audit_tree(a, leaves, nodes) < 0 ? fail(text, strerror(errno)) : 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"expect", required_argument, NULL, 'e'}, {"count", required_argument, NULL, 'c'},
        {"active", no_argument, NULL, 'a'},       {"clock-set", no_argument, NULL, 't'},
        {"tree", required_argument, NULL, 'T'},   {NULL, 0, NULL, 0}};
    audit_t *a = audit_create();
    uint64_t count = UINT64_MAX; /* not asked for */
    int c, flags = 0, n, told = 0, rc = a ? 0 : -1;

    while (rc == 0 && (c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 'e')
            rc = read_expected(a, optarg);
        else if (c == 'c')
            rc = str2u64(optarg, &count) < 0 ? fail(optarg, "is not a number") : 0;
        else if (c == 'a')
            flags |= AUDIT_ACTIVE_OK;
        else if (c == 't')
            audit_clock_set(a);
        else if (c == 'T')
            rc = take_tree(a, optarg);
        else
            rc = -1;
    }
    if (rc == 0)
        rc = optind < argc ? from_files(a, argv[optind]) : from_session(a);
    if (rc < 0 || (n = audit_run(a, flags, tell, &told)) < 0) {
        audit_destroy(a);
        return 2;
    }
    if (count != UINT64_MAX && count != audit_njobs(a)) {
        fprintf(stderr, "there are %zu jobs, not %" PRIu64 "\n", audit_njobs(a), count);
        n++;
    }
    printf("%zu jobs, %zu of them with resources, in %zu attempts, at most %zu at a time: "
           "%d violation%s\n",
           audit_njobs(a), audit_nallocs(a), audit_nattempts(a), audit_peak(a), n,
           n == 1 ? "" : "s");
    if (audit_nreach(a, 1) + audit_nreach(a, 2) + audit_nreach(a, 3) > 0)
        printf("within a leaf %zu, within a pod %zu, over pods %zu\n", audit_nreach(a, 1),
               audit_nreach(a, 2), audit_nreach(a, 3));
    audit_destroy(a);
    return n ? 1 : 0;
}
