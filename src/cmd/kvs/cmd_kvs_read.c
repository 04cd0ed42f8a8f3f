/* cmd_kvs_read.c - flux kvs get, readlink, version, wait.
 *
 * `get` streams a value of any length; in JSON, the value is read as a whole.
 *
 * Failure: a key that cannot be read does not prevent the others from being printed, except in
 * JSON and in a table, which are printed completely or not at all.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_kvs.h"
#include "libkvs/kvs_stream.h"

/* --- get, readlink --- */

struct reading {
    struct kvs_args a;
    flux_t *h;
    bool link;
    json_t *all;    /* JSON, by key */
    table_t *table; /* --info */
};

static int print_value(struct cmd *c, struct reading *rd, const char *key)
{
    errmsg_t err;
    flux_kvs_reader_t *r = flux_kvs_reader_create(rd->h, rd->a.ns, key, rd->a.at, &err);
    const char *data;
    ssize_t n = -1;

    if (!r)
        return kvs_key_error(c, key, &err);
    while ((n = flux_kvs_reader_next(r, &data, &err)) > 0) {
        if (fwrite(data, 1, (size_t)n, stdout) != (size_t)n)
            break;
    }
    flux_kvs_reader_destroy(r);
    if (n < 0)
        return kvs_key_error(c, key, &err);
    if (n > 0 || (!rd->a.raw && putchar('\n') == EOF))
        return cmd_error(c, "cannot write the value of %s: %s", key, strerror(errno));
    return CMD_OK;
}

/* `readlink` is of links only: what a value says leads nowhere. */
static int check_link(struct cmd *c, flux_future_t *f, const char *key)
{
    struct flux_kvs_info info;
    errmsg_t err;

    if (flux_kvs_lookup_get_info(f, &info, &err) < 0)
        return kvs_key_error(c, key, &err);
    if (info.type != FLUX_KVS_LINK)
        return cmd_error(c, "'%s' is a %s, not a link: read it with %s", key,
                         info.type == FLUX_KVS_DIR ? "directory" : "value",
                         info.type == FLUX_KVS_DIR ? "'flux kvs dir'" : "'flux kvs get'");
    return CMD_OK;
}

static int print_link(struct cmd *c, flux_future_t *f, const char *key)
{
    const char *data;
    size_t len;
    errmsg_t err;

    if (flux_kvs_lookup_get(f, &data, &len, &err) < 0)
        return kvs_key_error(c, key, &err);
    printf("%.*s\n", (int)len, data);
    return CMD_OK;
}

static int add_info(struct cmd *c, struct reading *rd, flux_future_t *f, const char *key)
{
    struct flux_kvs_info info;
    errmsg_t err;

    if (flux_kvs_lookup_get_info(f, &info, &err) < 0)
        return kvs_key_error(c, key, &err);
    if (rd->a.tag && !rd->all && !rd->a.info) {
        puts(info.tag);
        return CMD_OK;
    }
    if (rd->all)
        return json_object_set_new(rd->all, key, json_string(info.tag)) < 0
                   ? cmd_error(c, "out of memory")
                   : CMD_OK;
    table_row(rd->table);
    table_str(rd->table, key);
    table_str(rd->table, kvs_type_name(info.type));
    table_u64(rd->table, info.size);
    if (info.version)
        table_u64(rd->table, info.version);
    else
        table_null(rd->table);
    table_str(rd->table, info.tag);
    return CMD_OK;
}

static int add_json(struct cmd *c, struct reading *rd, flux_future_t *f, const char *key)
{
    const char *data;
    size_t len;
    errmsg_t err;

    if (flux_kvs_lookup_get(f, &data, &len, &err) < 0)
        return kvs_key_error(c, key, &err);
    if (json_object_set_new(rd->all, key, kvs_value_json(data, len)) < 0)
        return cmd_error(c, "out of memory");
    return CMD_OK;
}

static int read_key(struct cmd *c, struct reading *rd, const char *key)
{
    bool info = rd->a.tag || rd->a.info;
    int flags = (rd->link ? FLUX_KVS_READLINK : 0) | (info ? FLUX_KVS_INFO | FLUX_KVS_TAG : 0);
    flux_future_t *f;
    int rc = CMD_FAIL;

    if (!rd->all && !info && !rd->link)
        return print_value(c, rd, key);
    f = flux_kvs_lookup(rd->h, rd->a.ns, key, flags, rd->a.at);
    if (cmd_wait(c, f, -1., key) == 0 && (info || !rd->link || check_link(c, f, key) == CMD_OK))
        rc = info       ? add_info(c, rd, f, key)
             : !rd->all ? print_link(c, f, key)
                        : add_json(c, rd, f, key);
    flux_future_destroy(f);
    return rc;
}

static int read_keys(struct cmd *c, struct reading *rd)
{
    int rc = CMD_OK;

    if (!(rd->h = cmd_handle(c)))
        return CMD_FAIL;
    if (rd->a.info) {
        rd->table = table_create();
        table_column(rd->table, "key", "KEY", TABLE_LEFT);
        table_column(rd->table, "type", "TYPE", TABLE_LEFT);
        table_column(rd->table, "size", "SIZE", TABLE_RIGHT);
        table_column(rd->table, "version", "VERSION", TABLE_RIGHT);
        table_column(rd->table, "tag", "TAG", TABLE_LEFT);
    } else if (rd->a.json && !(rd->all = json_object()))
        return cmd_error(c, "out of memory");
    for (int i = 0; i < rd->a.argc; i++) {
        if (read_key(c, rd, rd->a.argv[i]) != CMD_OK)
            rc = CMD_FAIL;
    }
    if (rc != CMD_OK || (!rd->all && !rd->table)) {
        json_decref(rd->all);
        table_destroy(rd->table);
        return rc;
    }
    return rd->table ? cmd_print_table(c, rd->table, rd->a.json) : cmd_print_json(c, rd->all);
}

#define OPT_TAG                                                                             \
    {                                                                                       \
        KVS_KEY_TAG, "tag", NULL, "print the tag of the key, which identifies its contents" \
    }
#define OPT_INFO                                                        \
    {                                                                   \
        KVS_KEY_INFO, "info", NULL, "print type, size, version and tag" \
    }

int kvs_get(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {KVS_KEY_RAW, "raw", NULL, "print the bytes of values, without a newline"},
        OPT_TAG,
        OPT_INFO,
        KVS_OPT_AT,
        KVS_OPT_NS,
        KVS_OPT_JSON,
        CMD_OPT_END};
    static const struct cmd_usage usage = {"[OPTION...] KEY...", "Print values.", opts,
                                           "Exit code 1 also when a key does not exist.", 0};
    struct reading rd = {0};
    int rc = kvs_parse(c, &usage, argc, argv, 1, -1, "a KEY is required", &rd.a);

    return rc ? rc - 1 : read_keys(c, &rd);
}

int kvs_readlink(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {OPT_TAG,    OPT_INFO,     KVS_OPT_AT,
                                          KVS_OPT_NS, KVS_OPT_JSON, CMD_OPT_END};
    static const struct cmd_usage usage = {"[OPTION...] KEY...",
                                           "Print the targets of symbolic links.", opts, NULL, 0};
    struct reading rd = {.link = true};
    int rc = kvs_parse(c, &usage, argc, argv, 1, -1, "a KEY is required", &rd.a);

    return rc ? rc - 1 : read_keys(c, &rd);
}

/* --- version, wait --- */

int kvs_print_root(struct cmd *c, uint64_t version, const char *ref)
{
    json_t *o = json_object();

    if (o && (json_object_set_new(o, "version", json_integer((json_int_t)version)) < 0 ||
              json_object_set_new(o, "rootref", json_string(ref)) < 0)) {
        json_decref(o);
        o = NULL;
    }
    return cmd_print_json(c, o);
}

static int print_version(struct cmd *c, flux_future_t *f, const struct kvs_args *a,
                         const char *what)
{
    const char *ref = NULL;
    uint64_t version;
    errmsg_t err;
    int rc = CMD_OK;

    if (cmd_wait(c, f, a->timeout, what) < 0)
        rc = CMD_FAIL;
    else if (flux_kvs_commit_get(f, &version, &ref, &err) < 0)
        rc = cmd_error(c, "%s", err.text);
    else if (a->json)
        rc = kvs_print_root(c, version, ref);
    else
        printf("%" PRIu64 " %s\n", version, ref);
    flux_future_destroy(f);
    return rc;
}

int kvs_version(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {KVS_OPT_NS, KVS_OPT_JSON, CMD_OPT_END};
    static const struct cmd_usage usage = {
        "[OPTION...]",
        "Print the version of the store at this broker, and the reference of its root.", opts, NULL,
        0};
    struct kvs_args a;
    flux_t *h;
    int rc = kvs_parse(c, &usage, argc, argv, 0, 0, "no argument is expected", &a);

    if (rc)
        return rc - 1;
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    return print_version(c, flux_kvs_version(h, a.ns), &a, "the version");
}

int kvs_wait(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {KVS_OPT_TIMEOUT("give up after this time"), KVS_OPT_NS,
                                          KVS_OPT_JSON, CMD_OPT_END};
    static const struct cmd_usage usage = {"[OPTION...] VERSION",
                                           "Wait until this broker has seen VERSION of the store.",
                                           opts, NULL, 0};
    struct kvs_args a;
    uint64_t version;
    char what[64];
    flux_t *h;
    int rc = kvs_parse(c, &usage, argc, argv, 1, 1, "a VERSION is required", &a);

    if (rc)
        return rc - 1;
    if (cmd_parse_u64(c, "VERSION", a.argv[0], &version) < 0)
        return CMD_USAGE;
    if (version > INT64_MAX)
        return cmd_usage_error(c, "VERSION: %s is larger than any version of a store", a.argv[0]);
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    snprintf(what, sizeof(what), "version %" PRIu64 " has not come yet", version);
    return print_version(c, flux_kvs_wait_version(h, a.ns, version), &a, what);
}
