/* cmd_kvs_restore.c - flux kvs restore: add the contents of an archive (cmd_kvs_archive.h) to a
 * store.
 *
 * Keys are added to the existing ones, and replace those of the same names.  They are sent in
 * transactions of bounded size, one of which is outstanding while the next is prepared; values
 * larger than LARGE are streamed.
 *
 *    a file that can be read again    is checked first: if it is malformed, nothing is changed
 *    anything else (a pipe)           the entries before the malformed line have been restored
 *
 * The records that the job module reads at startup (RECORDS, in the primary namespace) would run
 * as the owner of the session.  Therefore they are left out unless --jobs is given, and so are
 * links to them, through which another archive could write there.
 *
 * Failure: the error message gives the number of the line, and whether anything was changed.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd_kvs.h"
#include "cmd_kvs_archive.h"
#include "libkvs/kvs_key.h"
#include "libkvs/kvs_stream.h"
#include "libutil/strutil.h"

#define TXN_BYTES ((size_t)4 * 1024 * 1024)
#define TXN_OPS 50000
#define LARGE ((size_t)256 * 1024)

struct restore {
    struct cmd *c;
    const struct kvs_args *a;
    bool dry; /* only look */
    flux_t *h;
    flux_kvs_txn_t *txn;
    size_t bytes;
    flux_future_t *commit; /* under way */
    uint64_t commits;
    uint64_t entries;  /* in transactions so far */
    uint64_t left_out; /* records of jobs */
    uint64_t version;
    char *ref;
    bool said; /* the error message was printed */
    /* the current value */
    char *key;
    char *buf; /* LARGE bytes */
    size_t len;
    flux_kvs_writer_t *writer; /* reused */
    bool streaming;
    bool leaving_out;
};

/* --- transactions --- */

static int finish_commit(struct restore *r)
{
    flux_future_t *f = r->commit;

    r->commit = NULL;
    if (!f)
        return 0;
    free(r->ref);
    r->ref = NULL;
    if (kvs_commit_wait(r->c, f, false, &r->version, &r->ref) != CMD_OK) {
        r->said = true;
        return -1;
    }
    r->commits++;
    return 0;
}

static int flush(struct restore *r)
{
    if (finish_commit(r) < 0)
        return -1;
    if (!(r->commit = flux_kvs_commit(r->h, r->a->ns, r->txn))) {
        cmd_error(r->c, "cannot commit: %s", strerror(errno));
        r->said = true;
        return -1;
    }
    flux_kvs_txn_clear(r->txn);
    r->bytes = 0;
    cmd_progress(r->c, "%" PRIu64 " entries", r->entries);
    return 0;
}

/* Take note of an operation of that size that was added, or failed to be added. */
static int added(struct restore *r, int rc, size_t bytes)
{
    if (rc < 0)
        return -1;
    r->entries++;
    r->bytes += bytes;
    return r->bytes >= TXN_BYTES || flux_kvs_txn_count(r->txn) >= TXN_OPS ? flush(r) : 0;
}

/* --- what the archive says --- */

/* The key in the store, malloc'd. */
static char *full_key(struct restore *r, const char *key, errmsg_t *err)
{
    char *full = kvs_join(r->c, r->a->at_key ? r->a->at_key : ".", key);

    if (!full)
        errmsg_set(err, "out of memory");
    else if (kvs_key_check(full, strlen(full), err) < 0) {
        free(full);
        full = NULL;
    }
    return full;
}

/* Does it lead to what the job module reads? */
static bool is_record(const char *key)
{
    static const char *const records[] = {"job", "job-next", "job-queue"};

    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
        size_t len = strlen(records[i]);

        if (str_starts(key, records[i]) && (key[len] == '\0' || key[len] == '.'))
            return true;
    }
    return false;
}

/* Count it, and say that it is not to be restored. */
static bool leave_out(struct restore *r, bool record)
{
    if (!record || r->a->jobs || (r->a->ns && strcmp(r->a->ns, KVS_NS_PRIMARY) != 0))
        return false;
    if (!r->dry)
        r->left_out++;
    return true;
}

static int restore_dir(void *arg, const char *key, errmsg_t *err)
{
    struct restore *r = arg;
    char *full = full_key(r, key, err);
    int rc = full ? 0 : -1;

    if (full && !leave_out(r, is_record(full)) && !r->dry)
        rc = added(r, flux_kvs_txn_mkdir(r->txn, full, err), strlen(full));
    free(full);
    return rc;
}

static int restore_link(void *arg, const char *key, const char *target, errmsg_t *err)
{
    struct restore *r = arg;
    char *full = full_key(r, key, err);
    int rc = full ? 0 : -1;

    if (full && !leave_out(r, is_record(full) || is_record(target)) && !r->dry)
        rc = added(r, flux_kvs_txn_symlink(r->txn, full, target, err),
                   strlen(full) + strlen(target));
    free(full);
    return rc;
}

static int restore_value(void *arg, const char *key, errmsg_t *err)
{
    struct restore *r = arg;

    free(r->key);
    r->key = full_key(r, key, err);
    r->len = 0;
    r->streaming = false;
    r->leaving_out = r->key && leave_out(r, is_record(r->key));
    return r->key ? 0 : -1;
}

static int restore_piece(void *arg, const void *data, size_t len, errmsg_t *err)
{
    struct restore *r = arg;

    if (r->dry || r->leaving_out || len == 0)
        return 0;
    if (!r->streaming && r->len + len <= LARGE) {
        memcpy(r->buf + r->len, data, len);
        r->len += len;
        return 0;
    }
    if (!r->writer && !(r->writer = flux_kvs_writer_create(r->h, r->a->ns)))
        return errmsg_fail(err, errno, "out of memory for a large value");
    if (!r->streaming && flux_kvs_writer_write(r->writer, r->buf, r->len, err) < 0)
        return -1;
    r->streaming = true;
    return flux_kvs_writer_write(r->writer, data, len, err);
}

static int restore_value_end(void *arg, errmsg_t *err)
{
    struct restore *r = arg;
    size_t len = r->len;
    int rc;

    if (r->dry || r->leaving_out)
        return 0;
    if (r->streaming) {
        /* What the transaction gets is the bytes, or 32 of each chunk. */
        len = (size_t)(flux_kvs_writer_size(r->writer) <= FLUX_KVS_STORE_MAX
                           ? flux_kvs_writer_size(r->writer)
                           : flux_kvs_writer_size(r->writer) / (FLUX_KVS_CHUNK / 32));
        rc = flux_kvs_writer_put(r->writer, r->txn, r->key, err);
    } else
        rc = flux_kvs_txn_put_raw(r->txn, r->key, r->buf, r->len, err);
    return added(r, rc, len + strlen(r->key));
}

static const struct archive_ops ops = {
    .dir = restore_dir,
    .link = restore_link,
    .value = restore_value,
    .piece = restore_piece,
    .value_end = restore_value_end,
};

/* --- the command --- */

static int failed(struct restore *r, const char *path, const char *sentence)
{
    int rc = CMD_FAIL;

    if (!r->said)
        rc = cmd_error(r->c, "%s: %s", path, sentence);
    if (r->dry)
        return cmd_error(r->c, "nothing was changed");
    if (r->commits > 0)
        cmd_error(r->c, "the preceding entries, in %" PRIu64 " commits, have been restored",
                  r->commits);
    return rc;
}

static int restore_stream(struct restore *r, FILE *in, const char *path)
{
    struct stat st;
    errmsg_t err = {""};

    if (fstat(fileno(in), &st) == 0 && S_ISREG(st.st_mode)) {
        long start = ftell(in);
        r->dry = true;
        if (archive_read(in, &ops, r, &err) < 0)
            return failed(r, path, err.text);
        r->dry = false;
        if (start < 0 || fseek(in, start, SEEK_SET) < 0)
            return cmd_error(r->c, "%s: cannot read it again: %s", path, strerror(errno));
    }
    if (!(r->h = cmd_handle(r->c)))
        return CMD_FAIL;
    if (!(r->txn = flux_kvs_txn_create()) || !(r->buf = malloc(LARGE)))
        return cmd_error(r->c, "out of memory");
    if (r->a->at_key && !leave_out(r, is_record(r->a->at_key)) &&
        flux_kvs_txn_mkdir(r->txn, r->a->at_key, &err) < 0)
        return cmd_error(r->c, "%s", err.text);
    if (archive_read(in, &ops, r, &err) < 0) {
        finish_commit(r);
        return failed(r, path, err.text);
    }
    if (flush(r) < 0 || finish_commit(r) < 0)
        return failed(r, path, "it cannot be committed");
    cmd_progress_end(r->c);
    if (r->left_out > 0)
        cmd_error(r->c,
                  "%" PRIu64
                  " entries that belong to jobs were left out (--jobs restores them, too)",
                  r->left_out);
    if (r->a->jobs)
        cmd_error(r->c, "restored jobs are in the queue after: flux module reload job");
    return r->a->json ? kvs_print_root(r->c, r->version, r->ref) : CMD_OK;
}

static void clear(struct restore *r)
{
    flux_kvs_writer_destroy(r->writer);
    flux_future_destroy(r->commit);
    flux_kvs_txn_destroy(r->txn);
    free(r->ref);
    free(r->key);
    free(r->buf);
}

int kvs_restore(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {KVS_KEY_AT_KEY, "at-key", "DIR", "restore into this directory, which is created"},
        {KVS_KEY_JOBS, "jobs", NULL, "include the records of jobs; pending jobs will run as you"},
        KVS_OPT_NS,
        KVS_OPT_JSON,
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {"[OPTION...] FILE|-",
                                           "Add the contents of an archive to the store, replacing "
                                           "existing keys of the same names. A\n"
                                           "malformed file changes nothing; '-' is standard input.",
                                           opts, NULL, 0};
    struct kvs_args a;
    struct restore r = {.c = c, .a = &a};
    const char *path;
    errmsg_t err;
    FILE *in = stdin;
    int rc = kvs_parse(c, &usage, argc, argv, 1, 1, "a FILE or - is required", &a);

    if (rc)
        return rc - 1;
    path = a.argv[0];
    if (a.at_key && kvs_key_check(a.at_key, strlen(a.at_key), &err) < 0)
        return cmd_usage_error(c, "--at-key: %s", err.text);
    if (strcmp(path, "-") == 0)
        path = "standard input";
    else if (!(in = fopen(path, "re")))
        return cmd_error(c, "cannot open %s: %s", path, strerror(errno));
    rc = restore_stream(&r, in, path);
    clear(&r);
    if (in != stdin)
        fclose(in);
    return rc;
}
