/* cmd_kvs_dump.c - flux kvs dump: write the contents of one root to an archive
 * (cmd_kvs_archive.h).
 *
 * Keys are in the order of their names, so that two archives can be compared line by line.  Values
 * of more than one chunk are streamed.  A file gets its final name when it is complete and on
 * disk.
 *
 * Keys that exceed the length limit, which copy and move of earlier versions could create, cannot
 * be restored.  They are left out: each is named in a comment of the archive, and the first few on
 * standard error.
 *
 * Failure: there is no file, or the old file is unchanged.  If keys were left out, the file
 * exists, and the exit code is 1.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd_kvs.h"
#include "cmd_kvs_archive.h"
#include "libkvs/kvs_stream.h"
#include "libutil/fdutil.h"

struct dump {
    const char *base; /* "." or a directory */
    FILE *out;
    uint64_t entries;
    uint64_t left_out; /* directories among them count as one */
};

#define LEFT_OUT_SHOWN 10

static int stream_value(struct cmd *c, struct kvs_walk *w, const char *key)
{
    struct dump *d = w->arg;
    char *full = kvs_join(c, d->base, key);
    flux_kvs_reader_t *r;
    const char *data;
    errmsg_t err;
    ssize_t n = -1;

    if (!full)
        return CMD_FAIL;
    r = flux_kvs_reader_create(w->h, w->ns, full, w->rootref, &err);
    if (r) {
        archive_put_value(d->out, key, flux_kvs_reader_size(r));
        while ((n = flux_kvs_reader_next(r, &data, &err)) > 0)
            archive_put_piece(d->out, data, (size_t)n);
    }
    flux_kvs_reader_destroy(r);
    if (n < 0)
        kvs_key_error(c, full, &err);
    free(full);
    return n < 0 ? CMD_FAIL : CMD_OK;
}

static int dump_entry(struct cmd *c, struct kvs_walk *w, const char *key, const struct kvs_item *e)
{
    struct dump *d = w->arg;

    if (++d->entries % 4096 == 0)
        cmd_progress(c, "%" PRIu64 " entries", d->entries);
    if (ferror(d->out))
        return cmd_error(c, "cannot write: %s", strerror(errno));
    switch ((enum flux_kvs_type)e->type) {
    case FLUX_KVS_DIR:
        if (e->size == 0)
            archive_put_dir(d->out, key);
        return CMD_OK;
    case FLUX_KVS_LINK:
        archive_put_link(d->out, key, e->data ? e->data : "", e->data ? (size_t)e->size : 0);
        return CMD_OK;
    case FLUX_KVS_VALUE:
        break;
    }
    if (!e->data && e->size > 0)
        return stream_value(c, w, key);
    archive_put_value(d->out, key, e->size);
    if (e->size > 0)
        archive_put_piece(d->out, e->data, (size_t)e->size);
    return CMD_OK;
}

static int leave_out(struct cmd *c, struct kvs_walk *w, const char *key, const errmsg_t *why)
{
    struct dump *d = w->arg;

    if (++d->left_out <= LEFT_OUT_SHOWN)
        cmd_error(c, "left out: %s", why->text);
    archive_put_left_out(d->out, key);
    return CMD_OK;
}

/* Keys may have been left out: *left_out. */
static int dump_root(struct cmd *c, const struct kvs_args *a, FILE *out, uint64_t *left_out)
{
    struct dump d = {.base = a->at_key ? a->at_key : ".", .out = out};
    struct kvs_walk w = {.flags = FLUX_KVS_VALUES,
                         .recursive = true,
                         .entry = dump_entry,
                         .too_long = leave_out,
                         .ns = a->ns,
                         .h = cmd_handle(c),
                         .arg = &d};
    struct kvs_root_held root = {0};
    char comment[256];
    int rc;

    if (!w.h || kvs_root_hold(c, w.h, a, &root) != CMD_OK)
        return CMD_FAIL;
    w.rootref = root.ref;
    snprintf(comment, sizeof(comment), "namespace %s, version %" PRIu64 ", root %s",
             a->ns ? a->ns : "primary", root.version, root.ref);
    archive_put_head(out, comment);
    if (a->at_key)
        fprintf(out, "# contents of directory %s\n", a->at_key);
    rc = kvs_walk(c, &w, d.base);
    cmd_progress_end(c);
    kvs_root_release(&root);
    if (rc == CMD_OK)
        archive_put_end(out);
    *left_out = d.left_out;
    return rc;
}

static int dump_file(struct cmd *c, const struct kvs_args *a, const char *path, uint64_t *left_out)
{
    char *tmp = NULL;
    FILE *out = NULL;
    int fd = -1;
    int rc = CMD_FAIL;

    if (asprintf(&tmp, "%s.XXXXXX", path) < 0)
        return cmd_error(c, "out of memory");
    if ((fd = mkstemp(tmp)) < 0 || !(out = fdopen(fd, "w"))) {
        cmd_error(c, "cannot create a temporary file beside %s: %s", path, strerror(errno));
        if (fd >= 0) {
            close(fd);
            unlink(tmp);
        }
        free(tmp);
        return CMD_FAIL;
    }
    if ((rc = dump_root(c, a, out, left_out)) == CMD_OK &&
        (fflush(out) != 0 || ferror(out) || fsync(fd) < 0))
        rc = cmd_error(c, "cannot write %s: %s", path, strerror(errno));
    if (fclose(out) != 0 && rc == CMD_OK)
        rc = cmd_error(c, "cannot write %s: %s", path, strerror(errno));
    if (rc == CMD_OK && rename(tmp, path) < 0)
        rc = cmd_error(c, "cannot make %s: %s", path, strerror(errno));
    else if (rc == CMD_OK && file_sync_dir(path) < 0)
        rc = cmd_error(c, "%s may be lost after a power failure: %s", path, strerror(errno));
    if (rc != CMD_OK)
        unlink(tmp);
    free(tmp);
    return rc;
}

int kvs_dump(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {KVS_KEY_AT_KEY, "at-key", "DIR", "write only this directory, with keys relative to it"},
        KVS_OPT_AT,
        KVS_OPT_NS,
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {"[OPTION...] FILE|-",
                                           "Write all keys and values, at one point in time, into "
                                           "a readable archive. Only you can read\n"
                                           "the file; '-' is standard output.",
                                           opts, NULL, 0};
    struct kvs_args a;
    uint64_t left_out = 0;
    int rc = kvs_parse(c, &usage, argc, argv, 1, 1, "a FILE or - is required", &a);

    if (rc)
        return rc - 1;
    rc = strcmp(a.argv[0], "-") == 0 ? dump_root(c, &a, stdout, &left_out)
                                     : dump_file(c, &a, a.argv[0], &left_out);
    if (rc == CMD_OK && left_out > 0)
        return cmd_error(c,
                         "the archive lacks %" PRIu64 " keys that are too long: move the "
                         "directories above them to shorter keys",
                         left_out);
    return rc;
}
