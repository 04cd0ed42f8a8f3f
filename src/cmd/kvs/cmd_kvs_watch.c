/* cmd_kvs_watch.c - flux kvs watch: print a key now and whenever it changes.
 *
 *    result                       text                            JSON, a line each
 *    value                        the bytes, a newline            {"value":..}
 *    the same with --append       the new bytes                    {"value":..,"whole":..}
 *    directory                    KEY.NAME = VALUE ..., "--"      {"dir":{NAME:..}}
 *    the same with -R             + KEY = VALUE, * , - , "--"     {"changes":[..]}
 *    not there                    KEY is not there                {"absent":true}
 *
 * Failure: an error of the service ends the command, and so does a timeout.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_kvs.h"

struct watch {
    struct kvs_args a;
    const char *key;
    const char *prefix; /* of keys below it */
    struct cmd *c;
    uint64_t results;
    bool anew; /* the broker was started again: the next result is what is there now */
};

/* --- JSON --- */

static json_t *any_json(enum flux_kvs_type type, const char *data, uint64_t size)
{
    return type == FLUX_KVS_DIR    ? json_object()
           : type == FLUX_KVS_LINK ? kvs_link_json(data, size)
                                   : kvs_value_json(data, size);
}

static json_t *dir_json(flux_future_t *f, errmsg_t *err)
{
    json_t *dir = json_object();
    struct flux_kvs_dirent e;
    size_t pos = 0;
    int rc;

    while ((rc = flux_kvs_readdir_next(f, &pos, &e, err)) == 1) {
        if (json_object_set_new(dir, e.name, any_json(e.type, e.data, e.size)) < 0) {
            rc = errmsg_fail(err, ENOMEM, "out of memory");
            break;
        }
    }
    if (rc < 0) {
        json_decref(dir);
        return NULL;
    }
    return dir;
}

static const char *change_name(enum flux_kvs_change_type change)
{
    return change == FLUX_KVS_ADDED ? "added" : change == FLUX_KVS_CHANGED ? "changed" : "removed";
}

static json_t *changes_json(flux_future_t *f, errmsg_t *err)
{
    json_t *list = json_array();
    struct flux_kvs_change ch;
    size_t pos = 0;
    int rc;

    while ((rc = flux_kvs_change_next(f, &pos, &ch, err)) == 1) {
        json_t *o = json_object();
        if (!o || json_object_set_new(o, "key", json_string(ch.key)) < 0 ||
            json_object_set_new(o, "change", json_string(change_name(ch.change))) < 0 ||
            json_object_set_new(o, "type", json_string(kvs_type_name(ch.type))) < 0 ||
            (ch.change != FLUX_KVS_REMOVED &&
             json_object_set_new(o, "value", any_json(ch.type, ch.data, ch.size)) < 0) ||
            json_array_append(list, o) < 0)
            rc = errmsg_fail(err, ENOMEM, "out of memory");
        json_decref(o);
        if (rc < 0)
            break;
    }
    if (rc < 0) {
        json_decref(list);
        return NULL;
    }
    return list;
}

static int print_json(struct cmd *c, struct watch *w, flux_future_t *f)
{
    json_t *o = json_object();
    errmsg_t err = {"out of memory"};
    const char *data;
    size_t len;
    int rc;

    rc = json_object_set_new(o, "key", json_string(w->key));
    if (rc == 0 && flux_kvs_watch_absent(f))
        rc = json_object_set_new(o, "absent", json_true());
    else if (rc == 0 && w->a.recursive)
        rc = json_object_set_new(o, "changes", changes_json(f, &err));
    else if (rc == 0 && flux_kvs_lookup_get(f, &data, &len, &err) == 0) {
        rc = json_object_set_new(o, "value", kvs_value_json(data, len));
        if (rc == 0 && w->a.append)
            rc = json_object_set_new(o, "whole", json_boolean(flux_kvs_watch_whole(f)));
    } else if (rc == 0)
        rc = errno == EISDIR ? json_object_set_new(o, "dir", dir_json(f, &err)) : -1;
    if (rc < 0)
        rc = cmd_error(c, "%s: %s", w->key, err.text);
    else {
        rc = json_dumpf(o, stdout, JSON_COMPACT) < 0 ? cmd_error(c, "cannot print JSON") : CMD_OK;
        putchar('\n');
    }
    json_decref(o);
    return rc;
}

/* --- text --- */

static void print_entry(const char *lead, const struct watch *w, const char *name,
                        enum flux_kvs_type type, const char *data, uint64_t size)
{
    printf("%s%s%s", lead, w->prefix, name);
    if (type == FLUX_KVS_DIR)
        putchar('.');
    else {
        fputs(type == FLUX_KVS_LINK ? " -> " : " = ", stdout);
        kvs_print_line(stdout, data, size);
    }
    putchar('\n');
}

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct flux_kvs_dirent *)a)->name,
                  ((const struct flux_kvs_dirent *)b)->name);
}

static int print_dir(struct cmd *c, struct watch *w, flux_future_t *f)
{
    struct flux_kvs_dirent *all;
    errmsg_t err;
    ssize_t n = flux_kvs_readdir_count(f, &err);
    size_t pos = 0, count = 0;
    int rc = 1;

    if (n < 0)
        return cmd_error(c, "%s: %s", w->key, err.text);
    if (!(all = calloc((size_t)n + 1, sizeof(*all))))
        return cmd_error(c, "%s: out of memory for %zd entries", w->key, n);
    while (count < (size_t)n && (rc = flux_kvs_readdir_next(f, &pos, &all[count], &err)) == 1)
        count++;
    if (rc < 0)
        cmd_error(c, "%s: %s", w->key, err.text);
    else {
        qsort(all, count, sizeof(*all), compare_entries);
        for (size_t i = 0; i < count; i++)
            print_entry("", w, all[i].name, all[i].type, all[i].data, all[i].size);
        puts("--");
    }
    free(all);
    return rc < 0 ? CMD_FAIL : CMD_OK;
}

static int print_changes(struct cmd *c, struct watch *w, flux_future_t *f)
{
    struct flux_kvs_change ch;
    size_t pos = 0;
    errmsg_t err;
    int rc;

    while ((rc = flux_kvs_change_next(f, &pos, &ch, &err)) == 1) {
        if (ch.change == FLUX_KVS_REMOVED)
            printf("- %s%s%s\n", w->prefix, ch.key, ch.type == FLUX_KVS_DIR ? "." : "");
        else
            print_entry(ch.change == FLUX_KVS_ADDED ? "+ " : "* ", w, ch.key, ch.type, ch.data,
                        ch.size);
    }
    if (rc < 0)
        return cmd_error(c, "%s: %s", w->key, err.text);
    puts("--");
    return CMD_OK;
}

static int print_text(struct cmd *c, struct watch *w, flux_future_t *f)
{
    const char *data;
    size_t len;
    errmsg_t err;

    if (flux_kvs_watch_absent(f)) {
        printf("%s is not there\n", w->key);
        return CMD_OK;
    }
    if (w->a.recursive)
        return print_changes(c, w, f);
    if (flux_kvs_lookup_get(f, &data, &len, &err) == 0) {
        if (w->a.append && w->results > 0 && !w->anew && flux_kvs_watch_whole(f)) {
            fflush(stdout);
            fprintf(stderr, "flux %s: %s was replaced\n", c->name, w->key);
        }
        fwrite(data, 1, len, stdout);
        if (!w->a.raw && !w->a.append)
            putchar('\n');
        return CMD_OK;
    }
    if (errno != EISDIR)
        return cmd_error(c, "%s: %s", w->key, err.text);
    return print_dir(c, w, f);
}

static void back_cb(flux_t *h, void *arg)
{
    struct watch *w = arg;

    w->anew = true;
    if (w->a.append)
        cmd_error(w->c, "the broker was started again: %s from its beginning", w->key);
    else
        cmd_error(w->c, "the broker was started again: going on");
}

/* May another result be printed?  One that repeats what is there after a return does not count. */
static bool more(struct watch *w)
{
    if (w->anew)
        w->anew = false;
    else
        w->results++;
    return w->results != w->a.count;
}

static int watch(struct cmd *c, struct watch *w)
{
    int flags = FLUX_KVS_VALUES | (w->a.append ? FLUX_KVS_WATCH_APPEND : 0) |
                (w->a.recursive ? FLUX_KVS_WATCH_DIFF : 0);
    flux_t *h = cmd_handle(c);
    flux_future_t *f = h ? flux_kvs_watch(h, w->a.ns, w->key, flags) : NULL;
    errmsg_t err;
    int rc = CMD_OK;

    if (!f)
        return h ? cmd_error(c, "%s: %s", w->key, strerror(errno)) : CMD_FAIL;
    flux_set_back_handler(h, back_cb, w);
    do {
        if (flux_future_wait(f, w->a.timeout) < 0)
            rc = cmd_error(c, "%s: %s", w->key,
                           errno == ETIMEDOUT ? "nothing has changed within the timeout"
                           : errno == EPIPE   ? "the connection to the broker was lost"
                                              : strerror(errno));
        else if (flux_rpc_get(f, &err) < 0)
            rc = cmd_error(c, "%s: %s", w->key, err.text);
        else
            rc = w->a.json ? print_json(c, w, f) : print_text(c, w, f);
        if (fflush(stdout) != 0) /* nobody hears it; that is said at the end of the program */
            break;
    } while (rc == CMD_OK && more(w) && flux_future_next(f) == 0);
    flux_future_destroy(f);
    return rc;
}

int kvs_watch(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {'R', "recursive", NULL, "print what was added, changed and removed below a directory"},
        {KVS_KEY_APPEND, "append", NULL, "print only the new bytes of a growing value"},
        {'c', "count", "N", "exit after N results (default: never)"},
        KVS_OPT_TIMEOUT("fail when nothing has changed for this time"),
        {KVS_KEY_RAW, "raw", NULL, "print the bytes of values, without a newline"},
        KVS_OPT_NS,
        {'j', "json", NULL, "print one JSON object per line for each result"},
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {
        "[OPTION...] KEY",
        "Print a value, or the entries of a directory, now and whenever they change.", opts, NULL,
        0};
    struct watch w = {.prefix = "", .c = c};
    char *prefix = NULL;
    int rc = kvs_parse(c, &usage, argc, argv, 1, 1, "one KEY is required", &w.a);

    if (rc)
        return rc - 1;
    if (w.a.append && w.a.recursive)
        return cmd_usage_error(
            c, "--append is for values, --recursive for directories: use one of them");
    cmd_returns(c);
    w.key = w.a.argv[0];
    if (strcmp(w.key, ".") != 0) {
        if (asprintf(&prefix, "%s.", w.key) < 0)
            return cmd_error(c, "out of memory");
        w.prefix = prefix;
    }
    rc = watch(c, &w);
    free(prefix);
    return rc;
}
