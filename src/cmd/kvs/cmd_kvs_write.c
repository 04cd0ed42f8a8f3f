/* cmd_kvs_write.c - flux kvs put, unlink, mkdir, link, copy, move: one transaction each.
 *
 * All commands have the same steps: arguments, connection, guards, operations, commit, output.
 * Each has a row in the table below, whose function adds its operations.
 *
 *    guard           --if-tag    before all operations
 *                    --if-absent just before the operation on its key
 *    standard input  put         streamed to the master in chunks, then put with the others
 *                    --append    up to 16 MiB in the same commit; more only alone, in several
 *
 * Failure: nothing was changed, except by an append in several commits: the preceding ones remain.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd_kvs.h"
#include "libkvs/kvs_stream.h"

#define READ_SIZE ((size_t)256 * 1024)
#define APPEND_MAX ((size_t)16 * 1024 * 1024)

struct write {
    struct kvs_args a;
    flux_t *h;
    flux_kvs_txn_t *txn;
    uint64_t version; /* of the last commit */
    char *ref;
    errmsg_t err;
};

struct write_spec {
    int min, max;     /* operands; max < 0: any number */
    const char *what; /* ... are needed */
    /* The only key that is written, for --if-tag=TAG; NULL when there are several. */
    const char *(*only_key)(const struct write *w);
    /* Look at the operands before anything is done; may be NULL. */
    int (*check)(struct cmd *c, struct write *w);
    int (*add)(struct cmd *c, struct write *w);
};

/* --- commit --- */

int kvs_commit_wait(struct cmd *c, flux_future_t *f, bool guarded, uint64_t *version, char **ref)
{
    const char *text;
    errmsg_t err;
    int rc = CMD_OK;

    if (cmd_wait(c, f, -1., "the commit") < 0)
        rc = guarded && f && flux_future_errnum(f) == EAGAIN ? KVS_GUARD_FAILED : CMD_FAIL;
    else if (flux_kvs_commit_get(f, version, &text, &err) < 0)
        rc = cmd_error(c, "%s", err.text);
    else if (ref && !(*ref = strdup(text)))
        rc = cmd_error(c, "out of memory");
    flux_future_destroy(f);
    return rc;
}

/* Commit the transaction and empty it. */
static int commit(struct cmd *c, struct write *w)
{
    bool guarded = w->a.if_absent || w->a.n_if_tag > 0;
    int rc;

    free(w->ref);
    w->ref = NULL;
    rc = kvs_commit_wait(c, flux_kvs_commit(w->h, w->a.ns, w->txn), guarded, &w->version, &w->ref);
    flux_kvs_txn_clear(w->txn);
    return rc;
}

/* What adding an operation said. */
static int added(struct cmd *c, struct write *w, int rc)
{
    return rc < 0 ? cmd_error(c, "%s", w->err.text) : CMD_OK;
}

/* --- guards --- */

static int guard_absent(struct cmd *c, struct write *w, const char *key)
{
    return w->a.if_absent ? added(c, w, flux_kvs_txn_guard(w->txn, key, NULL, &w->err)) : CMD_OK;
}

static int guard_tag(struct cmd *c, struct write *w, const char *arg, const char *only)
{
    const char *eq = strrchr(arg, '=');
    char *key;
    int rc;

    if (!eq)
        return added(c, w, flux_kvs_txn_guard(w->txn, only, arg, &w->err));
    if (!(key = strndup(arg, (size_t)(eq - arg))))
        return cmd_error(c, "out of memory");
    rc = added(c, w, flux_kvs_txn_guard(w->txn, key, eq + 1, &w->err));
    free(key);
    return rc;
}

static int check_guards(struct cmd *c, const struct write *w, const char *only)
{
    for (size_t i = 0; i < w->a.n_if_tag; i++) {
        if (!strchr(w->a.if_tag[i], '=') && !only)
            return cmd_usage_error(c, "--if-tag=%s: the key is ambiguous; use --if-tag=KEY=TAG",
                                   w->a.if_tag[i]);
    }
    return CMD_OK;
}

static int add_all(struct cmd *c, struct write *w, const struct write_spec *spec, const char *only)
{
    int rc = CMD_OK;

    for (size_t i = 0; i < w->a.n_if_tag && rc == CMD_OK; i++)
        rc = guard_tag(c, w, w->a.if_tag[i], only);
    return rc == CMD_OK ? spec->add(c, w) : rc;
}

static int run(struct cmd *c, const struct cmd_usage *u, const struct write_spec *spec, int argc,
               char **argv)
{
    struct write w = {0};
    const char *only;
    int rc = kvs_parse(c, u, argc, argv, spec->min, spec->max, spec->what, &w.a);

    if (rc)
        return rc - 1;
    only = spec->only_key(&w);
    if ((spec->check && (rc = spec->check(c, &w)) != CMD_OK) ||
        (rc = check_guards(c, &w, only)) != CMD_OK)
        return rc;
    if (!(w.h = cmd_handle(c)))
        return CMD_FAIL;
    if (!(w.txn = flux_kvs_txn_create()))
        return cmd_error(c, "out of memory");
    rc = add_all(c, &w, spec, only);
    if (rc == CMD_OK && (flux_kvs_txn_count(w.txn) > 0 || !w.ref))
        rc = commit(c, &w);
    if (rc == CMD_OK && w.a.json)
        rc = kvs_print_root(c, w.version, w.ref);
    flux_kvs_txn_destroy(w.txn);
    free(w.ref);
    return rc;
}

static const char *one_operand(const struct write *w)
{
    return w->a.argc == 1 ? w->a.argv[0] : NULL;
}

static const char *second_operand(const struct write *w)
{
    return w->a.argv[1];
}

static const char *no_operand(const struct write *w)
{
    return NULL;
}

#define OPT_IF_ABSENT                                                                  \
    {                                                                                  \
        KVS_KEY_IF_ABSENT, "if-absent", NULL, "fail when the key to be created exists" \
    }
#define OPT_IF_TAG                                                                        \
    {                                                                                     \
        KVS_KEY_IF_TAG, "if-tag", "[KEY=]TAG",                                            \
            "fail when the key does not have this tag (see flux kvs get --tag);\nmay be " \
            "repeated, with KEY="                                                         \
    }
#define GUARD_MORE \
    "Exit code 3: the condition of --if-absent or --if-tag was not met, and nothing was changed."

/* --- put --- */

/* KEY=VALUE becomes two strings in place. */
static char *split(char *operand)
{
    char *eq = strchr(operand, '=');

    *eq = '\0';
    return eq + 1;
}

static bool is_stdin(const char *value)
{
    return strcmp(value, "-") == 0;
}

static int put_check(struct cmd *c, struct write *w)
{
    int inputs = 0;

    for (int i = 0; i < w->a.argc; i++) {
        char *eq = strchr(w->a.argv[i], '=');
        if (!eq || eq == w->a.argv[i])
            return cmd_usage_error(c, "'%s' is not of the form KEY=VALUE", w->a.argv[i]);
        if (is_stdin(eq + 1) && ++inputs > 1)
            return cmd_usage_error(c, "standard input can be used for one value only");
    }
    for (int i = 0; i < w->a.argc; i++)
        split(w->a.argv[i]); /* the value is behind the key's NUL */
    return CMD_OK;
}

/* Some of standard input: its length, 0 at the end, -1 after an error message. */
static ssize_t read_input(struct cmd *c, const char *key, char *buf, size_t size)
{
    ssize_t n;

    do
        n = read(STDIN_FILENO, buf, size);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        cmd_error(c, "cannot read the value of %s from standard input: %s", key, strerror(errno));
    return n;
}

static int stream_input(struct cmd *c, struct write *w, const char *key)
{
    flux_kvs_writer_t *wr = flux_kvs_writer_create(w->h, w->a.ns);
    char *buf = malloc(READ_SIZE);
    ssize_t n = -1;
    int rc = CMD_FAIL;

    if (!wr || !buf)
        cmd_error(c, "out of memory");
    else {
        while ((n = read_input(c, key, buf, READ_SIZE)) > 0) {
            if (flux_kvs_writer_write(wr, buf, (size_t)n, &w->err) < 0)
                break;
            cmd_progress(c, "%s: %.0f MiB", key, (double)flux_kvs_writer_size(wr) / (1 << 20));
        }
        cmd_progress_end(c);
        if (n > 0)
            cmd_error(c, "%s: %s", key, w->err.text);
        else if (n == 0)
            rc = added(c, w, flux_kvs_writer_put(wr, w->txn, key, &w->err));
    }
    free(buf);
    flux_kvs_writer_destroy(wr);
    return rc;
}

static int append_input(struct cmd *c, struct write *w, const char *key)
{
    char *buf = malloc(READ_SIZE);
    size_t len = 0;
    bool any = false;
    ssize_t n = -1;
    int rc = CMD_OK;

    if (!buf)
        return cmd_error(c, "out of memory");
    while (rc == CMD_OK && (n = read_input(c, key, buf, READ_SIZE)) > 0) {
        if (len + (size_t)n > APPEND_MAX) {
            if (w->a.argc > 1)
                rc = cmd_error(c, "%s: more than 16 MiB can be appended only if it is the only key",
                               key);
            else
                rc = commit(c, w);
            len = 0;
        }
        if (rc == CMD_OK)
            rc = added(c, w, flux_kvs_txn_append(w->txn, key, buf, (size_t)n, &w->err));
        len += (size_t)n;
        any = true;
    }
    if (n == 0 && !any) /* the value is there after this, be it empty */
        rc = added(c, w, flux_kvs_txn_append(w->txn, key, "", 0, &w->err));
    free(buf);
    return n < 0 ? CMD_FAIL : rc;
}

static int put_add(struct cmd *c, struct write *w)
{
    int rc = CMD_OK;

    for (int i = 0; i < w->a.argc && rc == CMD_OK; i++) {
        const char *key = w->a.argv[i];
        const char *value = key + strlen(key) + 1;
        if ((rc = guard_absent(c, w, key)) != CMD_OK)
            break;
        if (is_stdin(value))
            rc = w->a.append ? append_input(c, w, key) : stream_input(c, w, key);
        else if (w->a.append)
            rc = added(c, w, flux_kvs_txn_append(w->txn, key, value, strlen(value), &w->err));
        else
            rc = added(c, w, flux_kvs_txn_put(w->txn, key, value, &w->err));
    }
    return rc;
}

int kvs_put(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {KVS_KEY_RAW, "raw", NULL, "store bytes (always the case)"},
        {KVS_KEY_APPEND, "append", NULL, "append to the existing values"},
        OPT_IF_ABSENT,
        OPT_IF_TAG,
        KVS_OPT_NS,
        KVS_OPT_JSON,
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {
        "[OPTION...] KEY=VALUE...",
        "Store values in one commit: a reader sees all of them or none. KEY=- reads the value "
        "from\n"
        "standard input; it can contain any bytes and has no size limit.",
        opts, GUARD_MORE, 0};
    static const struct write_spec spec = {1,           -1,        "KEY=VALUE is required",
                                           one_operand, put_check, put_add};

    return run(c, &usage, &spec, argc, argv);
}

/* --- unlink, mkdir --- */

static int unlink_add(struct cmd *c, struct write *w)
{
    int flags =
        (w->a.recursive ? FLUX_KVS_RECURSIVE : 0) | (w->a.must_exist ? FLUX_KVS_MUST_EXIST : 0);
    int rc = CMD_OK;

    for (int i = 0; i < w->a.argc && rc == CMD_OK; i++)
        rc = added(c, w, flux_kvs_txn_unlink(w->txn, w->a.argv[i], flags, &w->err));
    return rc;
}

int kvs_unlink(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {'R', "recursive", NULL, "remove directories with all their contents"},
        {'e', "must-exist", NULL, "fail if a key does not exist"},
        OPT_IF_TAG,
        KVS_OPT_NS,
        KVS_OPT_JSON,
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {"[OPTION...] KEY...", "Remove keys in one commit.", opts,
                                           GUARD_MORE, 0};
    static const struct write_spec spec = {1,           -1,   "a KEY is required",
                                           one_operand, NULL, unlink_add};

    return run(c, &usage, &spec, argc, argv);
}

static int mkdir_add(struct cmd *c, struct write *w)
{
    int rc = CMD_OK;

    for (int i = 0; i < w->a.argc && rc == CMD_OK; i++) {
        if ((rc = guard_absent(c, w, w->a.argv[i])) == CMD_OK)
            rc = added(c, w, flux_kvs_txn_mkdir(w->txn, w->a.argv[i], &w->err));
    }
    return rc;
}

int kvs_mkdir(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {OPT_IF_ABSENT, OPT_IF_TAG, KVS_OPT_NS, KVS_OPT_JSON,
                                          CMD_OPT_END};
    static const struct cmd_usage usage = {
        "[OPTION...] KEY...", "Create empty directories in one commit.", opts, GUARD_MORE, 0};
    static const struct write_spec spec = {1,           -1,   "a KEY is required",
                                           one_operand, NULL, mkdir_add};

    return run(c, &usage, &spec, argc, argv);
}

/* --- link, copy, move --- */

typedef int pair_f(flux_kvs_txn_t *txn, const char *from, const char *to, errmsg_t *err);

static int symlink_pair(flux_kvs_txn_t *txn, const char *target, const char *key, errmsg_t *err)
{
    return flux_kvs_txn_symlink(txn, key, target, err);
}

static int add_pair(struct cmd *c, struct write *w, pair_f *fn)
{
    int rc = guard_absent(c, w, w->a.argv[1]);

    return rc == CMD_OK ? added(c, w, fn(w->txn, w->a.argv[0], w->a.argv[1], &w->err)) : rc;
}

static int link_add(struct cmd *c, struct write *w)
{
    return add_pair(c, w, symlink_pair);
}

static int copy_add(struct cmd *c, struct write *w)
{
    return add_pair(c, w, flux_kvs_txn_copy);
}

static int move_add(struct cmd *c, struct write *w)
{
    return add_pair(c, w, flux_kvs_txn_move);
}

static const struct cmd_opt pair_opts[] = {OPT_IF_ABSENT, OPT_IF_TAG, KVS_OPT_NS, KVS_OPT_JSON,
                                           CMD_OPT_END};

int kvs_link(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "[OPTION...] TARGET KEY",
        "Create KEY as a symbolic link to the key TARGET, which need not exist.", pair_opts,
        GUARD_MORE, 0};
    static const struct write_spec spec = {
        2, 2, "TARGET and KEY are required", second_operand, NULL, link_add};

    return run(c, &usage, &spec, argc, argv);
}

int kvs_copy(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {"[OPTION...] FROM TO",
                                           "Copy a value, a link, or a directory with all its "
                                           "contents. The time does not depend on the size.",
                                           pair_opts, GUARD_MORE, 0};
    static const struct write_spec spec = {2,          2,    "FROM and TO are required",
                                           no_operand, NULL, copy_add};

    return run(c, &usage, &spec, argc, argv);
}

int kvs_move(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {"[OPTION...] FROM TO",
                                           "Move a value, a link, or a directory with all its "
                                           "contents. The time does not depend on the size.",
                                           pair_opts, GUARD_MORE, 0};
    static const struct write_spec spec = {2,          2,    "FROM and TO are required",
                                           no_operand, NULL, move_add};

    return run(c, &usage, &spec, argc, argv);
}
