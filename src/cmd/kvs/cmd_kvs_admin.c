/* cmd_kvs_admin.c - flux kvs stats, dropcache, gc, fences, namespace, fsck.
 *
 * fsck is a separate program, flux-kvs-fsck, because it needs libraries that `flux` is not linked
 * with; this process executes it.
 *
 * Failure: if several namespaces are given, the command ends at the first that fails.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd_kvs.h"
#include "libflux/paths.h"
#include "libkvs/kvs_json_wire.h"
#include "libkvs/kvs_key.h"
#include "../waitlist.h"

/* Print the payload of an answer, if it has any. */
static int print_answer(struct cmd *c, flux_future_t *f, const char *topic)
{
    const char *json = NULL;
    errmsg_t err;
    json_t *val;

    if (flux_rpc_get_json(f, &json, &err) < 0)
        return cmd_error(c, "%s", err.text);
    if (!(val = json_loads(json ? json : "{}", 0, NULL)))
        return cmd_error(c, "the response to %s is not JSON", topic);
    return cmd_print_json(c, val);
}

static int simple(struct cmd *c, flux_future_t *f, const char *topic, bool print)
{
    int rc = CMD_FAIL;

    if (cmd_wait(c, f, -1., topic) == 0)
        rc = print ? print_answer(c, f, topic) : CMD_OK;
    flux_future_destroy(f);
    return rc;
}

/* Ask for something about a namespace. */
static int ask(struct cmd *c, const struct cmd_usage *u, int argc, char **argv, const char *topic,
               bool always)
{
    struct kvs_ns_only q;
    struct kvs_args a;
    flux_t *h;
    int rc = kvs_parse(c, u, argc, argv, 0, 0, "no argument is expected", &a);

    if (rc)
        return rc - 1;
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    q.namespace = a.ns ? a.ns : KVS_NS_PRIMARY;
    return simple(c, flux_rpc_struct(h, topic, &kvs_ns_only_schema, &q, FLUX_NODEID_ANY, 0), topic,
                  always || a.json);
}

int kvs_stats(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        KVS_OPT_NS, {'j', "json", NULL, "print JSON (always the case)"}, CMD_OPT_END};
    static const struct cmd_usage usage = {
        "[OPTION...]", "Print the counters of the store at this broker, as JSON.", opts, NULL, 0};

    return ask(c, &usage, argc, argv, "kvs.stats", true);
}

int kvs_dropcache(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        KVS_OPT_NS,
        {'j', "json", NULL, "print the number of dropped objects as JSON"},
        CMD_OPT_END};
    static const struct cmd_usage usage = {
        "[OPTION...]", "Drop the cached objects that this broker can load again from its parent.",
        opts, NULL, 0};

    return ask(c, &usage, argc, argv, "kvs.dropcache", false);
}

int kvs_gc(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        KVS_OPT_NS, {'j', "json", NULL, "print the response of the master"}, CMD_OPT_END};
    static const struct cmd_usage usage = {"[OPTION...]",
                                           "Reclaim all data at once that no root and no snapshot "
                                           "in use refers to. The store does this\n"
                                           "automatically, a little at a time.",
                                           opts, NULL, 0};

    return ask(c, &usage, argc, argv, "kvs.gc", false);
}

/* --- fences --- */

static const json_t *fence_list(flux_future_t *f, errmsg_t *err)
{
    struct kvs_fence_list list;

    return flux_rpc_get_struct(f, &kvs_fence_list_schema, &list, err) < 0 ? NULL : list.fences;
}

static int fence_item(const json_t *o, struct waitlist_item *out, errmsg_t *err)
{
    struct kvs_fence_item item;

    if (flux_schema_decode_json(&kvs_fence_item_schema, o, &item, err) < 0)
        return -1;
    *out = (struct waitlist_item){item.namespace, item.name,  item.nprocs,
                                  item.entered,   item.ranks, item.age};
    return 0;
}

int kvs_fences(struct cmd *c, int argc, char **argv)
{
    static const struct waitlist_source source = {"kvs.fences", true, fence_list, fence_item};
    static const struct cmd_opt opts[] = {
        {'N', "namespace", "NAME",
         "list only this namespace (default: $FLUX_KVS_NAMESPACE, or all)"},
        KVS_OPT_JSON,
        CMD_OPT_END};
    static const struct cmd_usage usage = {
        "[OPTION...]",
        "List open fences: the number of processes that they need, the number that have entered,\n"
        "their ranks, and the ranks that are missing, if the callers announced the ranks of all\n"
        "participants.",
        opts, NULL, 0};
    struct kvs_args a;
    int rc = kvs_parse(c, &usage, argc, argv, 0, 0, "no argument is expected", &a);

    return rc ? rc - 1 : waitlist_print(c, &source, a.ns, a.json);
}

/* --- namespaces --- */

/* Names are operands here. */
static int check_names(struct cmd *c, const struct kvs_args *a)
{
    errmsg_t err;

    for (int i = 0; i < a->argc; i++) {
        if (kvs_ns_check(a->argv[i], strlen(a->argv[i]), &err) < 0)
            return cmd_usage_error(c, "%s", err.text);
    }
    return CMD_OK;
}

static int namespace_create(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {
        {KVS_KEY_OWNER, "owner", "USER", "owner of the namespaces (default: yourself)"},
        {'r', "rank", "RANK", "rank of the master (default: 0)"},
        CMD_OPT_END,
    };
    static const struct cmd_usage usage = {"[OPTION...] NAME...",
                                           "Create namespaces, which are separate, empty stores.",
                                           opts, NULL, 0};
    struct kvs_args a;
    flux_t *h;
    int rc = kvs_parse(c, &usage, argc, argv, 1, -1, "a NAME is required", &a);

    if (rc)
        return rc - 1;
    if ((rc = check_names(c, &a)) != CMD_OK)
        return rc;
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    if (a.rank >= flux_size(h))
        return cmd_usage_error(c, "rank %u is not in the session, whose ranks are 0 to %u", a.rank,
                               flux_size(h) - 1);
    for (int i = 0; i < a.argc && rc == CMD_OK; i++)
        rc = simple(c, flux_kvs_namespace_create(h, a.argv[i], a.owner, a.rank), a.argv[i], false);
    return rc;
}

static int namespace_remove(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {"NAME...", "Remove namespaces with all their contents.",
                                           NULL, NULL, 0};
    struct kvs_args a;
    flux_t *h;
    int rc = kvs_parse(c, &usage, argc, argv, 1, -1, "a NAME is required", &a);

    if (rc)
        return rc - 1;
    if ((rc = check_names(c, &a)) != CMD_OK)
        return rc;
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    for (int i = 0; i < a.argc && rc == CMD_OK; i++)
        rc = simple(c, flux_kvs_namespace_remove(h, a.argv[i]), a.argv[i], false);
    return rc;
}

static int namespace_list(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_opt opts[] = {KVS_OPT_JSON, CMD_OPT_END};
    static const struct cmd_usage usage = {
        "[OPTION...]",
        "Print the namespaces of the session, with their owners and the ranks of their masters.",
        opts, NULL, 0};
    struct flux_kvs_namespace n;
    struct kvs_args a;
    flux_future_t *f;
    size_t pos = 0;
    errmsg_t err;
    table_t *t;
    flux_t *h;
    int rc = kvs_parse(c, &usage, argc, argv, 0, 0, "no argument is expected", &a);

    if (rc)
        return rc - 1;
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    f = flux_kvs_namespace_list(h);
    if (cmd_wait(c, f, -1., "the list of namespaces") < 0) {
        flux_future_destroy(f);
        return CMD_FAIL;
    }
    t = table_create();
    table_column(t, "namespace", "NAMESPACE", TABLE_LEFT);
    table_column(t, "owner", "OWNER", TABLE_RIGHT);
    table_column(t, "rank", "RANK", TABLE_RIGHT);
    table_column(t, "state", "STATE", TABLE_LEFT);
    while ((rc = flux_kvs_namespace_next(f, &pos, &n, &err)) == 1) {
        table_row(t);
        table_str(t, n.name);
        table_u64(t, n.owner);
        table_u64(t, n.rank);
        table_str(t, n.lost ? "lost" : "up");
    }
    flux_future_destroy(f);
    if (rc < 0) {
        table_destroy(t);
        return cmd_error(c, "%s", err.text);
    }
    return cmd_print_table(c, t, a.json);
}

int kvs_namespace(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_sub subs[] = {
        {"create", namespace_create, "[OPTION...] NAME...", "make namespaces"},
        {"remove", namespace_remove, "NAME...", "remove namespaces"},
        {"list", namespace_list, "[OPTION...]", "print all namespaces"},
        CMD_SUB_END,
    };

    return cmd_subcommand(c, "Namespaces: separate stores beside the primary one of the session.",
                          subs, argc, argv);
}

/* --- fsck --- */

int kvs_fsck(struct cmd *c, int argc, char **argv)
{
    static const char program[] = "flux-kvs-fsck";
    errmsg_t err;
    char *path = flux_path_exec(program, &err);

    if (!path)
        return cmd_error(c, "%s", err.text);
    argv[0] = (char *)program;
    execv(path, argv);
    cmd_error(c, "cannot run %s: %s", path, strerror(errno));
    free(path);
    return CMD_FAIL;
}
