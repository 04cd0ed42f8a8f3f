/* cmd_resource.c - flux resource: print, drain and undrain nodes, cores and pools.
 *
 * `list` and `info` compute from the inventory, the state of the nodes, and the resources that the
 * scheduler has allocated (cmd_res.h); cmd_resource_places.c prints them by places.  `status`
 * prints the answer of resrc.status; `drain` and `undrain` are requests to resrc, which are done
 * when the command returns.
 *
 *    state of `list`   resources
 *    allocated         allocated to jobs, whatever the state of their nodes
 *    free              the others of nodes that are up and not drained
 *    drained           the others of nodes that are drained, up or down
 *    unconfirmed       the others of nodes that were lost, are back, and may still run what ran
 *                      then; only printed if there are any
 *    down              the others of nodes that are down and not drained
 *
 * Invariant: each core is in one line of `list`.
 *
 * Failure: exit code 1 and an error message.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../cmd_all.h"
#include "cmd_resource.h"
#include "libresource/resrc_wire.h"
#include "libutil/size.h"
#include "libutil/strbuf.h"
#include "libutil/strvec.h"

#define TIMEOUT 60.
#define KEY_BY 256

/* --- states --- */

/* Is `state` in the list, which NULL and "all" do not bound? */
static bool wanted(const strvec_t *states, const char *state)
{
    for (size_t i = 0; states && i < strvec_count(states); i++) {
        if (strcmp(strvec_at(states, i), state) == 0 || strcmp(strvec_at(states, i), "all") == 0)
            return true;
    }
    return !states;
}

/* Check a list of states: 0, or -1 after an error message. */
static int parse_states(struct cmd *c, const char *text, const char *const known[],
                        strvec_t **states)
{
    strvec_destroy(*states);
    if (!(*states = strvec_split(text, ',')))
        return cmd_error(c, "out of memory"), -1;
    for (size_t i = 0; i < strvec_count(*states); i++) {
        const char *s = strvec_at(*states, i);
        const char *const *k = known;

        while (*k && strcmp(*k, s) != 0)
            k++;
        if (!*k && strcmp(s, "all") != 0)
            return cmd_usage_error(c, "--states: '%s' is not a state", s), -1;
    }
    return 0;
}

/* --- list --- */

static const struct cmd_opt list_opts[] = {
    {'s', "states", "STATE,...", "only these states: free, allocated, unconfirmed, down, drained"},
    {'b', "by-switch", NULL,
     "one line per leaf switch: nodes that are free, allocated, and down\n"
     "or drained, and its jobs"},
    {KEY_BY, "by", "LEVEL", "same for another level above the nodes: pod, core, rack, row, ..."},
    {'p', "pools", NULL, "print the total, allocated and free quantity of each pool"},
    {'j', "json", NULL, "print a JSON array of objects"},
    CMD_OPT_END,
};

/* One line: what these resources are. */
static int add_row(table_t *t, const struct res *res, const char *state, const rset_t *rs)
{
    idset_t *ranks = rset_ranks(rs);
    char *hosts = ranks ? resgraph_hosts_of_ranks(res->g, ranks) : NULL;

    table_row(t);
    table_str(t, state);
    table_u64(t, rset_nnodes(rs));
    table_u64(t, rset_ncores(rs));
    table_u64(t, rset_ngpus(rs));
    res_cell_idset(t, ranks);
    table_str(t, hosts && *hosts ? hosts : NULL);
    free(hosts);
    idset_destroy(ranks);
    return hosts ? 0 : -1;
}

/* The resources of these nodes that are not allocated, without nodes that have only memory left.
 */
static rset_t *rest_of(const struct res *res, const idset_t *nodes)
{
    rset_t *whole = resgraph_rset(res->g, nodes);
    rset_t *rs = whole ? rset_diff(whole, res->allocated) : NULL;
    idset_t *ranks = idset_create();
    rset_t *out = NULL;
    struct rset_node n;

    for (size_t i = 0; rs && ranks && rset_node(rs, i, &n); i++) {
        if ((!idset_empty(n.cores) || !idset_empty(n.gpus)) && idset_set(ranks, n.rank) < 0) {
            idset_destroy(ranks);
            ranks = NULL;
        }
    }
    if (rs && ranks)
        out = rset_of_ranks(rs, ranks);
    idset_destroy(ranks);
    rset_destroy(whole);
    rset_destroy(rs);
    return out;
}

/* Each core is in one line: an allocated core in "allocated", whatever the state of its node. */
static int add_rows(table_t *t, const struct res *res, const strvec_t *states)
{
    idset_t *usable = idset_difference(res->up, res->drained);
    idset_t *down = idset_difference(res->all, res->up);
    rset_t *free_set = usable ? rest_of(res, usable) : NULL;
    rset_t *drained_set = rest_of(res, res->drained), *down_set = NULL, *unsure_set = NULL;
    idset_t *unsure = idset_difference(res->unconfirmed, res->drained);
    int rc = -1;

    if (free_set && down && drained_set && unsure && idset_subtract(down, res->drained) == 0 &&
        idset_subtract(down, unsure) == 0 && (down_set = rest_of(res, down)) &&
        (unsure_set = rest_of(res, unsure))) {
        rc = 0;
        if (wanted(states, "free"))
            rc |= add_row(t, res, "free", free_set);
        if (wanted(states, "allocated"))
            rc |= add_row(t, res, "allocated", res->allocated);
        if (wanted(states, "unconfirmed") && (states || rset_nnodes(unsure_set) > 0))
            rc |= add_row(t, res, "unconfirmed", unsure_set);
        if (wanted(states, "down"))
            rc |= add_row(t, res, "down", down_set);
        if (wanted(states, "drained"))
            rc |= add_row(t, res, "drained", drained_set);
    }
    idset_destroy(usable);
    idset_destroy(down);
    idset_destroy(unsure);
    rset_destroy(unsure_set);
    rset_destroy(free_set);
    rset_destroy(drained_set);
    rset_destroy(down_set);
    return rc;
}

static int print_list(struct cmd *c, const struct res *res, const strvec_t *states, bool json)
{
    table_t *t = table_create();

    table_column(t, "state", "STATE", TABLE_LEFT);
    table_column(t, "nnodes", "NNODES", TABLE_RIGHT);
    table_column(t, "ncores", "NCORES", TABLE_RIGHT);
    table_column(t, "ngpus", "NGPUS", TABLE_RIGHT);
    table_column(t, "ranks", "RANKS", TABLE_LEFT);
    table_column(t, "hosts", "HOSTS", TABLE_LEFT);
    if (add_rows(t, res, states) < 0) {
        table_destroy(t);
        return cmd_error(c, "out of memory");
    }
    return cmd_print_table(c, t, json);
}

static int print_pools(struct cmd *c, const struct res *res, bool json)
{
    table_t *t = table_create();
    struct resgraph_pool p;

    table_column(t, "pool", "POOL", TABLE_LEFT);
    table_column(t, "count", "COUNT", TABLE_RIGHT);
    table_column(t, "allocated", "ALLOCATED", TABLE_RIGHT);
    table_column(t, "free", "FREE", TABLE_RIGHT);
    table_column(t, "unit", "UNIT", TABLE_LEFT);
    for (size_t i = 0; resgraph_pool(res->g, i, &p); i++) {
        uint64_t used = rset_pool_count(res->allocated, p.name);

        table_row(t);
        table_str(t, p.name);
        table_u64(t, p.count);
        table_u64(t, used);
        table_u64(t, used < p.count ? p.count - used : 0);
        table_str(t, *p.unit ? p.unit : NULL);
    }
    return cmd_print_table(c, t, json);
}

static int cmd_list(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "[OPTION...]",
        "Print the resources that are free, allocated to jobs, down and drained. A partly "
        "allocated\n"
        "node appears in two lines.",
        list_opts,
        NULL,
        0,
    };
    static const char *const known[] = {"free", "allocated", "unconfirmed",
                                        "down", "drained",   NULL};
    strvec_t *states = NULL;
    bool json = false, pools = false;
    struct res res;
    const char *val, *by = NULL;
    int key, rc = CMD_USAGE;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        json |= key == 'j';
        pools |= key == 'p';
        if (key == 'b' || key == KEY_BY)
            by = key == 'b' ? "leaf" : val;
        if (key == 's' && parse_states(c, val, known, &states) < 0)
            goto out;
    }
    if (key < 0)
        rc = cmd_option_exit(key);
    else if (argc > c->optind)
        rc = cmd_usage_error(c, "no argument is expected");
    else if (res_query(c, &res, true) < 0)
        rc = CMD_FAIL;
    else {
        if (by)
            rc = resource_list_by(c, &res, by, json);
        else
            rc = pools ? print_pools(c, &res, json) : print_list(c, &res, states, json);
        res_clear(&res);
    }
out:
    strvec_destroy(states);
    return rc;
}

/* --- status --- */

static const struct cmd_opt status_opts[] = {
    {'s', "states", "STATE,...", "only these states: up, down, unconfirmed, drained, draining"},
    {'j', "json", NULL, "print a JSON array of objects"},
    CMD_OPT_END,
};

/* When, for people. */
static void cell_time(table_t *t, double when)
{
    time_t seconds = (time_t)when;
    char text[64] = "";
    struct tm tm;

    if (when <= 0.)
        table_null(t);
    else if (localtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm))
        table_cell(t, json_real(when), text);
    else
        table_real(t, when, 0);
}

static void status_row(table_t *t, const struct resrc_status_entry *e)
{
    idset_t *ranks = idset_parse(e->ranks, NULL);

    table_row(t);
    table_str(t, e->state);
    table_u64(t, idset_count(ranks));
    table_str(t, e->ranks);
    table_str(t, e->down);
    cell_time(t, e->time);
    table_str(t, e->reason && *e->reason ? e->reason : NULL);
    table_str(t, e->hosts);
    idset_destroy(ranks);
}

static int show_status(struct cmd *c, const strvec_t *states, bool json)
{
    struct resrc_status st;
    flux_t *h = cmd_handle(c);
    flux_future_t *f;
    table_t *t;
    const json_t *val;
    size_t i;

    if (!h)
        return CMD_FAIL;
    f = flux_rpc(h, "resrc.status", "{}", FLUX_NODEID_ROOT, FLUX_MSGF_IDEMPOTENT);
    if (cmd_wait_struct(c, f, TIMEOUT, "the state of nodes", &resrc_status_schema, &st) < 0) {
        flux_future_destroy(f);
        return CMD_FAIL;
    }
    t = table_create();
    table_column(t, "state", "STATE", TABLE_LEFT);
    table_column(t, "nnodes", "NNODES", TABLE_RIGHT);
    table_column(t, "ranks", "RANKS", TABLE_LEFT);
    table_column(t, "down", "DOWN", TABLE_LEFT);
    table_column(t, "time", "TIME", TABLE_LEFT);
    table_column(t, "reason", "REASON", TABLE_LEFT);
    table_column(t, "hosts", "HOSTS", TABLE_LEFT);
    json_array_foreach(st.nodes, i, val)
    {
        struct resrc_status_entry e = {0};
        errmsg_t err;

        if (flux_schema_decode_json(&resrc_status_entry_schema, val, &e, &err) < 0) {
            table_destroy(t);
            flux_future_destroy(f);
            return cmd_error(c, "the response of the service resrc is invalid: %s", err.text);
        }
        if (wanted(states, e.state))
            status_row(t, &e);
    }
    flux_future_destroy(f);
    return cmd_print_table(c, t, json);
}

static int cmd_status(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "[OPTION...]",
        "Print the nodes that are up, down and drained; for drained nodes, with the time and the "
        "reason.",
        status_opts,
        NULL,
        0,
    };
    static const char *const known[] = {"up", "down", "unconfirmed", "drained", "draining", NULL};
    strvec_t *states = NULL;
    bool json = false;
    const char *val;
    int key, rc = CMD_USAGE;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        json |= key == 'j';
        if (key == 's' && parse_states(c, val, known, &states) < 0)
            goto out;
    }
    if (key < 0)
        rc = cmd_option_exit(key);
    else if (argc > c->optind)
        rc = cmd_usage_error(c, "no argument is expected");
    else
        rc = show_status(c, states, json);
out:
    strvec_destroy(states);
    return rc;
}

/* --- drain, undrain --- */

static const struct cmd_opt drain_opts[] = {
    {'f', "force", NULL, "also accept nodes that are drained already, and replace the reason"},
    {'j', "json", NULL, "print the ranks as JSON"},
    CMD_OPT_END,
};
static const struct cmd_opt undrain_opts[] = {
    {'j', "json", NULL, "print the ranks as JSON"},
    CMD_OPT_END,
};

/* Send, and print the ranks that were changed only where JSON is wanted. */
static int change(struct cmd *c, flux_future_t *f, bool json)
{
    struct resrc_ranks out;
    int rc = CMD_FAIL;

    if (cmd_wait_struct(c, f, TIMEOUT, "the record", &resrc_ranks_schema, &out) == 0)
        rc = json ? cmd_print_json(c, flux_schema_encode_json(&resrc_ranks_schema, &out)) : CMD_OK;
    flux_future_destroy(f);
    return rc;
}

static int send_drain(struct cmd *c, int argc, char **argv, bool force, bool json)
{
    strbuf_t *sb = strbuf_create(0);
    struct resrc_drain in = {.ranks = argv[0], .force = force};
    flux_t *h = cmd_handle(c);
    char *reason;
    int rc;

    for (int i = 1; i < argc; i++)
        strbuf_addf(sb, "%s%s", i > 1 ? " " : "", argv[i]);
    if (!(reason = strbuf_take(sb)))
        return cmd_error(c, "out of memory");
    in.reason = reason;
    rc =
        h ? change(c,
                   flux_rpc_struct(h, "resrc.drain", &resrc_drain_schema, &in, FLUX_NODEID_ROOT, 0),
                   json)
          : CMD_FAIL;
    free(reason);
    return rc;
}

static int cmd_drain(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "[OPTION...] [NODES [REASON...]]",
        "Exclude nodes from scheduling; running jobs continue. NODES is a set of ranks, or a list "
        "of\n"
        "hosts. Without NODES, print the drained nodes.",
        drain_opts,
        NULL,
        0,
    };
    bool force = false, json = false;
    const char *val;
    strvec_t *states;
    int key, rc;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        force |= key == 'f';
        json |= key == 'j';
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (argc > c->optind)
        return send_drain(c, argc - c->optind, argv + c->optind, force, json);
    if (force)
        return cmd_usage_error(c, "--force requires NODES");
    if (!(states = strvec_split("drained,draining", ',')))
        return cmd_error(c, "out of memory");
    rc = show_status(c, states, json);
    strvec_destroy(states);
    return rc;
}

/* A request whose only argument is NODES. */
static int for_nodes(struct cmd *c, int argc, char **argv, const struct cmd_usage *usage,
                     const char *topic)
{
    struct resrc_ranks in = {0};
    bool json = false;
    const char *val;
    flux_t *h;
    int key;

    while ((key = cmd_option(c, usage, argc, argv, &val)) > 0)
        json |= key == 'j';
    if (key < 0)
        return cmd_option_exit(key);
    if (argc != c->optind + 1)
        return cmd_usage_error(c, "one argument NODES is required");
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    in.ranks = argv[c->optind];
    return change(c, flux_rpc_struct(h, topic, &resrc_ranks_schema, &in, FLUX_NODEID_ROOT, 0),
                  json);
}

static int cmd_undrain(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "[OPTION...] NODES",
        "Make drained nodes available again. NODES is a set of ranks, or a list of hosts.",
        undrain_opts,
        NULL,
        0,
    };

    return for_nodes(c, argc, argv, &usage, "resrc.undrain");
}

static int cmd_confirm_dead(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "[OPTION...] NODES",
        "Confirm that no process is left over on nodes that were lost, so that "
        "they\n"
        "are available again. NODES is a set of ranks, or a list of hosts.",
        undrain_opts,
        NULL,
        0,
    };

    return for_nodes(c, argc, argv, &usage, "resrc.confirm");
}

/* --- info --- */

static const struct cmd_opt info_opts[] = {
    {'r', "nodes", "NODES", "only these nodes: a set of ranks, or a list of hosts"},
    {'j', "json", NULL, "print the inventory as JSON, in the format of the key resource.inventory"},
    CMD_OPT_END,
};

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static uint64_t memory_of(const resgraph_t *g)
{
    struct resgraph_node n;
    uint64_t mib = 0;

    for (size_t i = 0; resgraph_node(g, i, &n); i++)
        mib += n.memory;
    return mib;
}

static void print_info(const resgraph_t *g)
{
    uint64_t nnodes = resgraph_nnodes(g), ncores = resgraph_ncores(g), ngpus = resgraph_ngpus(g);
    uint64_t mib = memory_of(g);
    struct resgraph_pool p;
    char text[32];

    printf("%" PRIu64 " node%s, %" PRIu64 " core%s, %" PRIu64 " gpu%s", nnodes, plural(nnodes),
           ncores, plural(ncores), ngpus, plural(ngpus));
    if (mib && mib < UINT64_MAX >> 20)
        printf(", %s of memory", size_format_short(mib << 20, text, sizeof(text)));
    for (size_t i = 0; resgraph_pool(g, i, &p); i++)
        printf(", %" PRIu64 "%s%s of %s", p.count, *p.unit ? " " : "", p.unit, p.name);
    printf("%s\n", resgraph_emulated(g) ? " (emulated)" : "");
}

static int cmd_info(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "[OPTION...]", "Print the total resources of the session in one line.", info_opts, NULL, 0,
    };
    bool json = false;
    const char *val, *nodes = NULL;
    struct res res;
    idset_t *ids;
    int key, rc = CMD_OK;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        json |= key == 'j';
        if (key == 'r')
            nodes = val;
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (argc > c->optind)
        return cmd_usage_error(c, "no argument is expected");
    if (res_query(c, &res, false) < 0)
        return CMD_FAIL;
    if (nodes) {
        if (!(ids = res_parse_nodes(c, &res, nodes)))
            rc = CMD_FAIL;
        else if (idset_subtract(res.all, ids) < 0 || resgraph_remove(res.g, res.all) < 0)
            rc = cmd_error(c, "out of memory");
        idset_destroy(ids);
    }
    if (rc == CMD_OK && json)
        rc = cmd_print_json(c, resgraph_to_json(res.g));
    else if (rc == CMD_OK)
        print_info(res.g);
    res_clear(&res);
    return rc;
}

static const struct cmd_sub subs[] = {
    {"list", cmd_list, "[OPTION...]", "print resources that are free, allocated, down and drained"},
    {"status", cmd_status, "[OPTION...]", "print which nodes are up, down and drained, and why"},
    {"drain", cmd_drain, "[OPTION...] [NODES [REASON...]]", "exclude nodes from scheduling"},
    {"undrain", cmd_undrain, "[OPTION...] NODES", "make drained nodes available again"},
    {"confirm-dead", cmd_confirm_dead, "[OPTION...] NODES",
     "confirm that no process is left on lost nodes"},
    {"info", cmd_info, "[OPTION...]", "print the total resources"},
    CMD_SUB_END,
};

int cmd_resource(struct cmd *c, int argc, char **argv)
{
    return cmd_subcommand(c,
                          "The resources of the session: nodes with their cores, gpus and memory, "
                          "and pools of anything\n"
                          "else.",
                          subs, argc, argv);
}
