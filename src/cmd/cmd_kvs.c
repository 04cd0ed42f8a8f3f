/* cmd_kvs.c - flux kvs: the key-value store from the shell.
 *
 * Values are bytes.  `get` prints them with a newline, unless --raw; `dir` and `ls` print what is
 * no text with C escapes, so that one entry is one line.
 *
 * Exit codes: 0; 1 for a key that is not there and for every other failure, with a sentence; 2 for
 * wrong use.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd_all.h"
#include "libkvs/kvs.h"
#include "libutil/fdutil.h"
#include "libutil/strutil.h"

#define VALUE_MAX (16u * 1024 * 1024)
#define DEPTH_MAX 128

struct options {
    bool raw;
    bool json;
    bool recursive;
    bool must_exist;
    bool dir_only;
    uint64_t count;
    double timeout;
    const char *at;
};

enum { KEY_RAW = CMD_KEY(0), KEY_JSON = CMD_KEY(1), KEY_AT = CMD_KEY(2) };

#define OPT_AT                                                                          \
    {                                                                                   \
        KEY_AT, "at", "ROOTREF", "read at that root of the past (see flux kvs version)" \
    }
#define OPT_JSON                        \
    {                                   \
        'j', "json", NULL, "print JSON" \
    }

static int parse(struct cmd *c, const struct cmd_usage *u, int argc, char **argv, int min, int max,
                 const char *what, struct options *o)
{
    const char *val;
    int key;

    *o = (struct options){.timeout = -1.};
    while ((key = cmd_option(c, u, argc, argv, &val)) > 0) {
        switch (key) {
        case KEY_RAW:
            o->raw = true;
            break;
        case 'j':
            o->json = true;
            break;
        case KEY_AT:
            o->at = val;
            break;
        case 'R':
            o->recursive = true;
            break;
        case 'e':
            o->must_exist = true;
            break;
        case 'c':
            if (cmd_parse_u64(c, "--count", val, &o->count) < 0)
                return 1 + CMD_USAGE;
            break;
        case 't':
            if (cmd_parse_duration(c, "--timeout", val, &o->timeout) < 0)
                return 1 + CMD_USAGE;
            break;
        }
    }
    if (key < 0)
        return 1 + cmd_option_exit(key);
    if (argc - c->optind < min || (max >= 0 && argc - c->optind > max))
        return 1 + cmd_usage_error(c, "%s", what);
    return 0;
}

/* --- values as text and as JSON --- */

/* Text in one line; of other bytes how many they are. */
static void print_line(const char *data, size_t len)
{
    if (!data)
        len = 0;
    if (len > 0 && (str_utf8_span(data, len) != len || memchr(data, 0, len))) {
        printf("<%zu bytes>", len);
        return;
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char ch = (unsigned char)data[i];
        if (ch == '\n')
            fputs("\\n", stdout);
        else if (ch == '\\')
            fputs("\\\\", stdout);
        else if (ch < 0x20 || ch == 0x7f)
            printf("\\x%02x", ch);
        else
            putchar(ch);
    }
}

/* Text as a string; other bytes as an array of numbers, so that nothing is lost. */
static json_t *value_json(const char *data, size_t len)
{
    json_t *a;

    if (str_utf8_span(data, len) == len && !memchr(data, 0, len))
        return json_stringn(data, len);
    if (!(a = json_array()))
        return NULL;
    for (size_t i = 0; i < len; i++) {
        if (json_array_append_new(a, json_integer((unsigned char)data[i])) < 0) {
            json_decref(a);
            return NULL;
        }
    }
    return a;
}

/* --- put, unlink, mkdir, link --- */

static int commit(struct cmd *c, flux_t *h, flux_kvs_txn_t *txn, bool json)
{
    flux_future_t *f = flux_kvs_commit(h, NULL, txn);
    const char *ref = NULL;
    uint64_t version;
    errmsg_t err;
    int rc = CMD_FAIL;

    if (cmd_wait(c, f, -1., "the commit") < 0)
        goto done;
    if (flux_kvs_commit_get(f, &version, &ref, &err) < 0)
        cmd_error(c, "%s", err.text);
    else {
        rc = CMD_OK;
        if (json) {
            json_t *o = json_object();
            json_object_set_new(o, "version", json_integer((json_int_t)version));
            json_object_set_new(o, "rootref", json_string(ref));
            rc = cmd_print_json(c, o);
        }
    }
done:
    flux_future_destroy(f);
    return rc;
}

static int put_one(struct cmd *c, flux_kvs_txn_t *txn, char *arg, bool *used_stdin)
{
    char *eq = strchr(arg, '=');
    errmsg_t err;

    if (!eq || eq == arg)
        return cmd_usage_error(c, "'%s' is not of the form KEY=VALUE", arg);
    *eq = '\0';
    if (strcmp(eq + 1, "-") == 0) {
        char *data;
        size_t len;
        int rc;
        if (*used_stdin)
            return cmd_usage_error(c, "standard input can be one value only");
        *used_stdin = true;
        if (fd_read_all(STDIN_FILENO, VALUE_MAX, &data, &len) < 0)
            return cmd_error(c, "cannot read the value of %s from standard input: %s", arg,
                             errno == EFBIG ? "it has more than 16 MiB" : strerror(errno));
        rc = flux_kvs_txn_put_raw(txn, arg, data, len, &err);
        free(data);
        return rc < 0 ? cmd_error(c, "%s", err.text) : CMD_OK;
    }
    if (flux_kvs_txn_put(txn, arg, eq + 1, &err) < 0)
        return cmd_error(c, "%s", err.text);
    return CMD_OK;
}

static int kvs_put(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {OPT_JSON, CMD_OPT_END};
    static const struct cmd_usage usage = {
        "[OPTION...] KEY=VALUE...",
        "Store values, all in one commit: a reader sees all of them or none.\n"
        "KEY=- takes the value, which may be any bytes, from standard input.",
        opts, NULL, 0};
    flux_kvs_txn_t *txn;
    struct options o;
    bool used = false;
    flux_t *h;
    int rc = parse(c, &usage, argc, argv, 1, -1, "KEY=VALUE is needed", &o);

    if (rc)
        return rc - 1;
    if (!(txn = flux_kvs_txn_create()))
        return cmd_error(c, "out of memory");
    for (int i = c->optind; i < argc && rc == CMD_OK; i++)
        rc = put_one(c, txn, argv[i], &used);
    if (rc == CMD_OK)
        rc = (h = cmd_handle(c)) ? commit(c, h, txn, o.json) : CMD_FAIL;
    flux_kvs_txn_destroy(txn);
    return rc;
}

static int kvs_unlink(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {'R', "recursive", NULL, "a directory with everything in it"},
        {'e', "must-exist", NULL, "a key that is not there is an error"},
        OPT_JSON,
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {"[OPTION...] KEY...", "Remove keys, all in one commit.",
                                           opts, NULL, 0};
    flux_kvs_txn_t *txn;
    struct options o;
    errmsg_t err;
    flux_t *h;
    int rc = parse(c, &usage, argc, argv, 1, -1, "KEY is needed", &o);
    int flags;

    if (rc)
        return rc - 1;
    flags = (o.recursive ? FLUX_KVS_RECURSIVE : 0) | (o.must_exist ? FLUX_KVS_MUST_EXIST : 0);
    if (!(txn = flux_kvs_txn_create()))
        return cmd_error(c, "out of memory");
    for (int i = c->optind; i < argc && rc == CMD_OK; i++) {
        if (flux_kvs_txn_unlink(txn, argv[i], flags, &err) < 0)
            rc = cmd_error(c, "%s", err.text);
    }
    if (rc == CMD_OK)
        rc = (h = cmd_handle(c)) ? commit(c, h, txn, o.json) : CMD_FAIL;
    flux_kvs_txn_destroy(txn);
    return rc;
}

static int kvs_mkdir(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {OPT_JSON, CMD_OPT_END};
    static const struct cmd_usage usage = {
        "[OPTION...] KEY...", "Make empty directories, all in one commit.", opts, NULL, 0};
    flux_kvs_txn_t *txn;
    struct options o;
    errmsg_t err;
    flux_t *h;
    int rc = parse(c, &usage, argc, argv, 1, -1, "KEY is needed", &o);

    if (rc)
        return rc - 1;
    if (!(txn = flux_kvs_txn_create()))
        return cmd_error(c, "out of memory");
    for (int i = c->optind; i < argc && rc == CMD_OK; i++) {
        if (flux_kvs_txn_mkdir(txn, argv[i], &err) < 0)
            rc = cmd_error(c, "%s", err.text);
    }
    if (rc == CMD_OK)
        rc = (h = cmd_handle(c)) ? commit(c, h, txn, o.json) : CMD_FAIL;
    flux_kvs_txn_destroy(txn);
    return rc;
}

static int kvs_link(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {OPT_JSON, CMD_OPT_END};
    static const struct cmd_usage usage = {
        "[OPTION...] TARGET KEY",
        "Make KEY a symbolic link to the key TARGET, which need not exist.", opts, NULL, 0};
    flux_kvs_txn_t *txn;
    struct options o;
    errmsg_t err;
    flux_t *h;
    int rc = parse(c, &usage, argc, argv, 2, 2, "TARGET and KEY are needed", &o);

    if (rc)
        return rc - 1;
    if (!(txn = flux_kvs_txn_create()))
        return cmd_error(c, "out of memory");
    if (flux_kvs_txn_symlink(txn, argv[c->optind + 1], argv[c->optind], &err) < 0)
        rc = cmd_error(c, "%s", err.text);
    else
        rc = (h = cmd_handle(c)) ? commit(c, h, txn, o.json) : CMD_FAIL;
    flux_kvs_txn_destroy(txn);
    return rc;
}

/* --- get, readlink --- */

static int lookup(struct cmd *c, flux_t *h, const char *key, int flags, const struct options *o,
                  json_t *all)
{
    flux_future_t *f = flux_kvs_lookup(h, NULL, key, flags, o->at);
    const char *data;
    size_t len;
    errmsg_t err;
    int rc = CMD_OK;

    if (!f)
        return cmd_error(c, "%s: %s", key, strerror(errno));
    if (cmd_wait(c, f, -1., key) < 0)
        rc = CMD_FAIL;
    else if (flux_kvs_lookup_get(f, &data, &len, &err) < 0)
        rc = cmd_error(c, "%s", err.text);
    else if (all)
        rc = json_object_set_new(all, key, value_json(data, len)) < 0
                 ? cmd_error(c, "out of memory")
                 : CMD_OK;
    else if (fwrite(data, 1, len, stdout) != len || (!o->raw && putchar('\n') == EOF))
        rc = cmd_error(c, "cannot write the value of %s: %s", key, strerror(errno));
    flux_future_destroy(f);
    return rc;
}

static int lookup_all(struct cmd *c, int argc, char **argv, int flags, const struct options *o)
{
    flux_t *h = cmd_handle(c);
    json_t *all = o->json ? json_object() : NULL;
    int rc = CMD_OK;

    if (!h) {
        json_decref(all);
        return CMD_FAIL;
    }
    for (int i = c->optind; i < argc; i++) {
        if (lookup(c, h, argv[i], flags, o, all) != CMD_OK)
            rc = CMD_FAIL;
    }
    if (!all)
        return rc;
    if (rc != CMD_OK) {
        json_decref(all);
        return rc;
    }
    return cmd_print_json(c, all);
}

static int kvs_get(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {KEY_RAW, "raw", NULL, "the bytes alone, without a newline"},
        OPT_AT,
        OPT_JSON,
        CMD_OPT_END};
    static const struct cmd_usage usage = {"[OPTION...] KEY...", "Print values.", opts,
                                           "Exit code 1 when a key is not there.\n", 0};
    struct options o;
    int rc = parse(c, &usage, argc, argv, 1, -1, "KEY is needed", &o);

    return rc ? rc - 1 : lookup_all(c, argc, argv, 0, &o);
}

static int kvs_readlink(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {OPT_AT, OPT_JSON, CMD_OPT_END};
    static const struct cmd_usage usage = {"[OPTION...] KEY...",
                                           "Print where symbolic links lead to.", opts, NULL, 0};
    struct options o;
    int rc = parse(c, &usage, argc, argv, 1, -1, "KEY is needed", &o);

    return rc ? rc - 1 : lookup_all(c, argc, argv, FLUX_KVS_READLINK, &o);
}

/* --- dir, ls --- */

static int compare_entries(const void *a, const void *b)
{
    const struct flux_kvs_dirent *x = a;
    const struct flux_kvs_dirent *y = b;

    return strcmp(x->name, y->name);
}

/* The entries of a directory by name, to be freed; they point into `f`. */
static struct flux_kvs_dirent *sorted(struct cmd *c, flux_future_t *f, size_t *count)
{
    struct flux_kvs_dirent *all = NULL;
    errmsg_t err;
    ssize_t n;
    size_t pos = 0;

    *count = 0;
    if ((n = flux_kvs_readdir_count(f, &err)) < 0) {
        cmd_error(c, "%s", err.text);
        return NULL;
    }
    if (!(all = calloc((size_t)n + 1, sizeof(*all)))) {
        cmd_error(c, "out of memory for %zd entries", n);
        return NULL;
    }
    while (*count < (size_t)n) {
        int rc = flux_kvs_readdir_next(f, &pos, &all[*count], &err);
        if (rc < 0) {
            cmd_error(c, "%s", err.text);
            free(all);
            return NULL;
        }
        if (rc == 0)
            break;
        ++*count;
    }
    qsort(all, *count, sizeof(*all), compare_entries);
    return all;
}

static int list_dir(struct cmd *c, flux_t *h, const char *key, const struct options *o, int depth,
                    json_t *out);

static int list_entry_text(struct cmd *c, flux_t *h, const char *key,
                           const struct flux_kvs_dirent *e, const struct options *o, int depth)
{
    char *full;
    int rc = CMD_OK;

    if (asprintf(&full, "%s%s%s", strcmp(key, ".") == 0 ? "" : key,
                 strcmp(key, ".") == 0 ? "" : ".", e->name) < 0)
        return cmd_error(c, "out of memory");
    if (e->type == FLUX_KVS_DIR) {
        if (o->recursive)
            rc = list_dir(c, h, full, o, depth + 1, NULL);
        else
            printf("%s.\n", full);
    } else {
        printf("%s %s ", full, e->type == FLUX_KVS_LINK ? "->" : "=");
        print_line(e->data, e->size);
        putchar('\n');
    }
    free(full);
    return rc;
}

static int list_entry_json(struct cmd *c, flux_t *h, const char *key,
                           const struct flux_kvs_dirent *e, const struct options *o, int depth,
                           json_t *out)
{
    json_t *val = NULL;
    char *full = NULL;
    int rc = CMD_OK;

    if (e->type == FLUX_KVS_DIR) {
        val = json_object();
        if (asprintf(&full, "%s%s%s", strcmp(key, ".") == 0 ? "" : key,
                     strcmp(key, ".") == 0 ? "" : ".", e->name) < 0)
            full = NULL;
        else if (o->recursive && val)
            rc = list_dir(c, h, full, o, depth + 1, val);
        free(full);
    } else if (e->type == FLUX_KVS_LINK) {
        val = json_object();
        json_object_set_new(val, "link", value_json(e->data ? e->data : "", e->data ? e->size : 0));
    } else
        val = value_json(e->data ? e->data : "", e->data ? e->size : 0);
    if (json_object_set_new(out, e->name, val) < 0)
        return cmd_error(c, "out of memory");
    return rc;
}

static int list_dir(struct cmd *c, flux_t *h, const char *key, const struct options *o, int depth,
                    json_t *out)
{
    flux_future_t *f;
    struct flux_kvs_dirent *all;
    size_t n;
    int rc = CMD_OK;

    if (depth > DEPTH_MAX)
        return cmd_error(c, "%s is more than %d levels deep", key, DEPTH_MAX);
    if (!(f = flux_kvs_readdir(h, NULL, key, FLUX_KVS_VALUES, o->at)))
        return cmd_error(c, "%s: %s", key, strerror(errno));
    if (cmd_wait(c, f, -1., key) < 0 || !(all = sorted(c, f, &n))) {
        flux_future_destroy(f);
        return CMD_FAIL;
    }
    for (size_t i = 0; i < n && rc == CMD_OK; i++)
        rc = out ? list_entry_json(c, h, key, &all[i], o, depth, out)
                 : list_entry_text(c, h, key, &all[i], o, depth);
    free(all);
    flux_future_destroy(f);
    return rc;
}

static int kvs_dir(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {'R', "recursive", NULL, "and all directories in it"}, OPT_AT, OPT_JSON, CMD_OPT_END};
    static const struct cmd_usage usage = {
        "[OPTION...] [KEY]",
        "Print the entries of a directory with their values, a line each.\n"
        "A directory in it ends with a dot; the default KEY is '.', the root.",
        opts, NULL, 0};
    struct options o;
    json_t *out = NULL;
    flux_t *h;
    int rc = parse(c, &usage, argc, argv, 0, 1, "one KEY at the most", &o);

    if (rc)
        return rc - 1;
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    if (o.json && !(out = json_object()))
        return cmd_error(c, "out of memory");
    rc = list_dir(c, h, c->optind < argc ? argv[c->optind] : ".", &o, 0, out);
    if (!out)
        return rc;
    if (rc == CMD_OK)
        return cmd_print_json(c, out);
    json_decref(out);
    return rc;
}

static int kvs_ls(struct cmd *c, int argc, char **argv)
{
    static const char *const types[] = {
        [FLUX_KVS_VALUE] = "value", [FLUX_KVS_DIR] = "dir", [FLUX_KVS_LINK] = "link"};
    static const struct cmd_opt opts[] = {OPT_AT, OPT_JSON, CMD_OPT_END};
    static const struct cmd_usage usage = {
        "[OPTION...] [KEY]", "Print names, types and sizes of what is in a directory.", opts, NULL,
        0};
    struct flux_kvs_dirent *all;
    flux_future_t *f;
    struct options o;
    const char *key;
    table_t *t;
    size_t n;
    flux_t *h;
    int rc = parse(c, &usage, argc, argv, 0, 1, "one KEY at the most", &o);

    if (rc)
        return rc - 1;
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    key = c->optind < argc ? argv[c->optind] : ".";
    if (!(f = flux_kvs_readdir(h, NULL, key, 0, o.at)))
        return cmd_error(c, "%s: %s", key, strerror(errno));
    if (cmd_wait(c, f, -1., key) < 0 || !(all = sorted(c, f, &n))) {
        flux_future_destroy(f);
        return CMD_FAIL;
    }
    t = table_create();
    table_column(t, "name", "NAME", TABLE_LEFT);
    table_column(t, "type", "TYPE", TABLE_LEFT);
    table_column(t, "size", "SIZE", TABLE_RIGHT);
    for (size_t i = 0; i < n; i++) {
        table_row(t);
        table_str(t, all[i].name);
        table_str(t, types[all[i].type]);
        if (all[i].type == FLUX_KVS_DIR)
            table_null(t);
        else
            table_size(t, all[i].size);
    }
    free(all);
    flux_future_destroy(f);
    return cmd_print_table(c, t, o.json);
}

/* --- watch --- */

static int watch_print(struct cmd *c, flux_future_t *f, const char *key, const struct options *o)
{
    struct flux_kvs_dirent *all;
    const char *data;
    size_t len;
    size_t n;
    errmsg_t err;

    if (flux_kvs_watch_absent(f)) {
        printf("%s is not there\n", key);
    } else if (flux_kvs_lookup_get(f, &data, &len, &err) == 0) {
        fwrite(data, 1, len, stdout);
        if (!o->raw)
            putchar('\n');
    } else if (errno != EISDIR) {
        return cmd_error(c, "%s", err.text);
    } else {
        if (!(all = sorted(c, f, &n)))
            return CMD_FAIL;
        for (size_t i = 0; i < n; i++) {
            printf("%s.%s", key, all[i].name);
            if (all[i].type == FLUX_KVS_DIR)
                putchar('.');
            else {
                fputs(all[i].type == FLUX_KVS_LINK ? " -> " : " = ", stdout);
                print_line(all[i].data, all[i].size);
            }
            putchar('\n');
        }
        puts("--");
        free(all);
    }
    fflush(stdout);
    return CMD_OK;
}

static int kvs_watch(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {'c', "count", "N", "stop after N results (default: never)"},
        {'t', "timeout", "DURATION", "stop with an error when nothing changed for so long"},
        {KEY_RAW, "raw", NULL, "values as they are, without a newline"},
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {
        "[OPTION...] KEY",
        "Print a value, or the entries of a directory, now and whenever they have changed.", opts,
        NULL, 0};
    flux_future_t *f;
    struct options o;
    uint64_t n = 0;
    flux_t *h;
    int rc = parse(c, &usage, argc, argv, 1, 1, "one KEY is needed", &o);

    if (rc)
        return rc - 1;
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    if (!(f = flux_kvs_watch(h, NULL, argv[c->optind], FLUX_KVS_VALUES)))
        return cmd_error(c, "%s: %s", argv[c->optind], strerror(errno));
    do {
        if (flux_future_wait(f, o.timeout) < 0) {
            rc = cmd_error(c, "%s: %s", argv[c->optind],
                           errno == ETIMEDOUT ? "nothing has changed in time" : strerror(errno));
            break;
        }
        rc = watch_print(c, f, argv[c->optind], &o);
    } while (rc == CMD_OK && ++n != o.count && flux_future_next(f) == 0);
    flux_future_destroy(f);
    return rc;
}

/* --- version, wait, stats, dropcache --- */

static int print_version(struct cmd *c, flux_future_t *f, const struct options *o)
{
    const char *ref = NULL;
    uint64_t version;
    errmsg_t err;
    int rc = CMD_OK;

    if (cmd_wait(c, f, o->timeout, "the version") < 0)
        rc = CMD_FAIL;
    else if (flux_kvs_commit_get(f, &version, &ref, &err) < 0)
        rc = cmd_error(c, "%s", err.text);
    else if (o->json) {
        json_t *obj = json_object();
        json_object_set_new(obj, "version", json_integer((json_int_t)version));
        json_object_set_new(obj, "rootref", json_string(ref));
        rc = cmd_print_json(c, obj);
    } else
        printf("%" PRIu64 " %s\n", version, ref);
    flux_future_destroy(f);
    return rc;
}

static int kvs_version(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {OPT_JSON, CMD_OPT_END};
    static const struct cmd_usage usage = {
        "[OPTION...]",
        "Print the version of the store at this broker, and the reference of its root.", opts, NULL,
        0};
    struct options o;
    flux_t *h;
    int rc = parse(c, &usage, argc, argv, 0, 0, "it takes no argument", &o);

    if (rc)
        return rc - 1;
    return (h = cmd_handle(c)) ? print_version(c, flux_kvs_version(h, NULL), &o) : CMD_FAIL;
}

static int kvs_wait(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {'t', "timeout", "DURATION", "give up after so long"}, OPT_JSON, CMD_OPT_END};
    static const struct cmd_usage usage = {"[OPTION...] VERSION",
                                           "Wait until this broker has seen VERSION of the store.",
                                           opts, NULL, 0};
    struct options o;
    uint64_t version;
    flux_t *h;
    int rc = parse(c, &usage, argc, argv, 1, 1, "VERSION is needed", &o);

    if (rc)
        return rc - 1;
    if (cmd_parse_u64(c, "VERSION", argv[c->optind], &version) < 0)
        return CMD_USAGE;
    return (h = cmd_handle(c)) ? print_version(c, flux_kvs_wait_version(h, NULL, version), &o)
                               : CMD_FAIL;
}

static int simple(struct cmd *c, const char *topic, bool print)
{
    flux_t *h = cmd_handle(c);
    flux_future_t *f;
    const char *json;
    errmsg_t err;
    int rc = CMD_FAIL;

    if (!h)
        return CMD_FAIL;
    f = flux_rpc(h, topic, "{}", FLUX_NODEID_ANY, 0);
    if (cmd_wait(c, f, -1., topic) == 0) {
        rc = CMD_OK;
        if (print) {
            json_t *val = NULL;
            if (flux_rpc_get_json(f, &json, &err) < 0)
                rc = cmd_error(c, "%s", err.text);
            else if (!(val = json_loads(json, 0, NULL)))
                rc = cmd_error(c, "the answer to %s is no JSON", topic);
            else
                rc = cmd_print_json(c, val);
        }
    }
    flux_future_destroy(f);
    return rc;
}

static int kvs_stats(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "", "Print counters of the store at this broker, as JSON.", NULL, NULL, 0};
    struct options o;
    int rc = parse(c, &usage, argc, argv, 0, 0, "it takes no argument", &o);

    return rc ? rc - 1 : simple(c, "kvs.stats", true);
}

static int kvs_dropcache(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "", "Drop what this broker has cached of the store and can load again.", NULL, NULL, 0};
    struct options o;
    int rc = parse(c, &usage, argc, argv, 0, 0, "it takes no argument", &o);

    return rc ? rc - 1 : simple(c, "kvs.dropcache", false);
}

int cmd_kvs(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_sub subs[] = {
        {"get", kvs_get, "[OPTION...] KEY...", "print values"},
        {"put", kvs_put, "[OPTION...] KEY=VALUE...", "store values in one commit"},
        {"dir", kvs_dir, "[OPTION...] [KEY]", "print a directory with its values"},
        {"ls", kvs_ls, "[OPTION...] [KEY]", "print names, types and sizes"},
        {"unlink", kvs_unlink, "[OPTION...] KEY...", "remove keys"},
        {"mkdir", kvs_mkdir, "[OPTION...] KEY...", "make directories"},
        {"link", kvs_link, "[OPTION...] TARGET KEY", "make a symbolic link"},
        {"readlink", kvs_readlink, "[OPTION...] KEY...", "print where links lead to"},
        {"watch", kvs_watch, "[OPTION...] KEY", "print a key whenever it changes"},
        {"version", kvs_version, "[OPTION...]", "print the store's version"},
        {"wait", kvs_wait, "[OPTION...] VERSION", "wait for a version"},
        {"stats", kvs_stats, "", "print counters"},
        {"dropcache", kvs_dropcache, "", "empty the cache of this broker"},
        CMD_SUB_END,
    };

    return cmd_subcommand(c, "The key-value store of the session.", subs, argc, argv);
}
