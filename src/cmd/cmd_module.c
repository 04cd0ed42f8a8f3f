/* cmd_module.c - flux module: load, unload, reload, list and inspect the services of brokers.
 *
 * A request goes to each of the chosen ranks at once; the answers are collected, and ranks that
 * give the same error are named in one sentence.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_all.h"
#include "cmd_session.h"
#include "libschema/schema.h"
#include "libutil/hmap.h"
#include "libutil/strutil.h"

#define TIMEOUT 120.

#define RANK_OPTS                                                                                \
    {'r', "ranks", "IDSET", "at these ranks, or 'all' (default: the local one)"},                \
        {'d', "depth", "D", "at the ranks down to this depth of the tree: 0 is the root alone"}, \
    {                                                                                            \
        'a', "all", NULL, "at all ranks"                                                         \
    }

static const struct cmd_opt opts[] = {RANK_OPTS, CMD_OPT_END};
static const struct cmd_opt json_opts[] = {
    RANK_OPTS,
    {'j', "json", NULL, "JSON output"},
    CMD_OPT_END,
};

static const struct cmd_opt stop_opts[] = {
    RANK_OPTS,
    {'f', "force", NULL, "even when the module refuses, since something would be lost"},
    CMD_OPT_END,
};

struct choice {
    flux_t *h;
    uint32_t *ranks;
    size_t nranks;
    bool json;
    bool force;
};

/* --- which ranks --- */

static idset_t *ranks_to_depth(struct cmd *c, flux_t *h, uint32_t depth)
{
    topology_t *t = session_topology(c, h, NULL);
    idset_t *ids = t ? idset_create() : NULL;

    for (uint32_t rank = 0; ids && rank < topology_size(t); rank++) {
        if (topology_depth(t, rank) <= depth && idset_set(ids, rank) < 0) {
            idset_destroy(ids);
            ids = NULL;
        }
    }
    if (t && !ids)
        cmd_error(c, "out of memory");
    topology_destroy(t);
    return ids;
}

static int choose(struct cmd *c, struct choice *ch, const char *set, const char *depth)
{
    idset_t *ids = NULL;
    uint32_t d;
    size_t i = 0;

    if (!(ch->h = cmd_handle(c)))
        return CMD_FAIL;
    if (set && depth)
        return cmd_usage_error(c, "--ranks and --depth exclude each other");
    if (depth) {
        if (cmd_parse_u32(c, "--depth", depth, &d) < 0)
            return CMD_USAGE;
        ids = ranks_to_depth(c, ch->h, d);
    } else if (set) {
        if (!(ids = cmd_parse_ranks(c, ch->h, set)))
            return CMD_USAGE;
    } else
        ids = idset_create_range(flux_rank(ch->h), flux_rank(ch->h));
    if (!ids || !(ch->ranks = malloc(idset_count(ids) * sizeof(*ch->ranks)))) {
        idset_destroy(ids);
        return depth ? CMD_FAIL : cmd_error(c, "out of memory");
    }
    for (uint32_t id = idset_first(ids); id != IDSET_NONE; id = idset_next(ids, id))
        ch->ranks[i++] = id;
    ch->nranks = i;
    idset_destroy(ids);
    return CMD_OK;
}

/* Options, then the connection and the ranks.  0, or an exit code plus 1. */
static int parse(struct cmd *c, const struct cmd_usage *u, int argc, char **argv, int min, int max,
                 struct choice *ch)
{
    const char *set = NULL;
    const char *depth = NULL;
    const char *val;
    int key;
    int rc;

    memset(ch, 0, sizeof(*ch));
    while ((key = cmd_option(c, u, argc, argv, &val)) > 0) {
        if (key == 'r')
            set = val;
        else if (key == 'd')
            depth = val;
        else if (key == 'a')
            set = "all";
        else if (key == 'f')
            ch->force = true;
        else
            ch->json = true;
    }
    if (key < 0)
        return 1 + cmd_option_exit(key);
    if (argc - c->optind < min || (max >= 0 && argc - c->optind > max))
        return 1 + (min == 0 ? cmd_usage_error(c, "it takes no argument")
                    : argc == c->optind
                        ? cmd_usage_error(c, "one NAME is needed")
                        : cmd_usage_error(c, "it takes one NAME and no argument, not '%s'",
                                          argv[c->optind + 1]));
    if ((rc = choose(c, ch, set, depth)) != CMD_OK) {
        free(ch->ranks);
        return 1 + rc;
    }
    return 0;
}

/* --- asking --- */

struct failures {
    hmap_t *by_text; /* sentence -> idset of ranks */
    size_t count;
};

static void free_idset(void *ids)
{
    idset_destroy(ids);
}

static void note_failure(struct failures *fl, uint32_t rank, const char *text)
{
    idset_t *ids = fl->by_text ? hmap_get(fl->by_text, text) : NULL;

    fl->count++;
    if (!fl->by_text && !(fl->by_text = hmap_create_str(free_idset)))
        return;
    if (!ids && (ids = idset_create()) && hmap_put(fl->by_text, text, ids) < 0) {
        idset_destroy(ids);
        return;
    }
    if (ids)
        (void)idset_set(ids, rank);
}

static void print_failures(struct cmd *c, struct failures *fl, size_t nranks)
{
    size_t pos = 0;
    const void *text;
    void *ids;

    while (fl->by_text && hmap_next(fl->by_text, &pos, &text, NULL, &ids)) {
        char *ranks = idset_format(ids, 0);
        if (nranks == 1 || str_starts(text, "rank ")) /* says itself who is meant */
            cmd_error(c, "%s", (const char *)text);
        else
            cmd_error(c, "rank%s %s: %s", idset_count(ids) > 1 ? "s" : "", ranks ? ranks : "?",
                      (const char *)text);
        free(ranks);
    }
    hmap_destroy(fl->by_text);
}

typedef int (*answer_f)(struct cmd *c, uint32_t rank, const json_t *answer, void *arg);

/* Send `topic` to all chosen ranks; `fn` (may be NULL) gets each answer's JSON. */
static int ask(struct cmd *c, const struct choice *ch, const char *topic, const char *json,
               answer_f fn, void *arg)
{
    flux_future_t *f = flux_mrpc(ch->h, topic, json, ch->ranks, ch->nranks, 0);
    struct failures fl = {NULL, 0};
    int rc = CMD_OK;

    if (!f)
        return cmd_error(c, "cannot make the request: %s", strerror(errno));
    for (size_t done = 0; rc == CMD_OK && done < ch->nranks; done++) {
        uint32_t rank;
        const char *text = NULL;
        json_t *val;

        cmd_progress(c, "%s: %zu of %zu ranks", topic, done, ch->nranks);
        if (flux_future_wait(f, TIMEOUT) < 0) {
            rc = cmd_error(c, "%zu of %zu ranks did not answer within %g s", ch->nranks - done,
                           ch->nranks, TIMEOUT);
            break;
        }
        rank = flux_mrpc_rank(f);
        if (flux_rpc_get(f, NULL) < 0)
            note_failure(&fl, rank, flux_future_error(f));
        else if (fn) {
            val = flux_rpc_get_json(f, &text, NULL) < 0 ? NULL : json_loads(text, 0, NULL);
            if (!val)
                note_failure(&fl, rank, "the answer is not JSON");
            else
                rc = fn(c, rank, val, arg);
            json_decref(val);
        }
        flux_future_next(f);
    }
    cmd_progress_end(c);
    flux_future_destroy(f);
    if (fl.count)
        rc = CMD_FAIL;
    print_failures(c, &fl, ch->nranks);
    return rc;
}

/* --- load, unload, reload --- */

static char *request_json(const char *key, const char *value, char **args, bool force)
{
    json_t *obj = json_object();
    json_t *list = args ? json_array() : NULL;
    char *text = NULL;
    bool ok = obj && (!args || list);

    for (char **a = args; ok && a && *a; a++)
        ok = json_array_append_new(list, json_string(*a)) == 0;
    if (ok && json_object_set_new(obj, key, json_string(value)) == 0 &&
        (!list || json_object_set(obj, "args", list) == 0) &&
        (!force || json_object_set_new(obj, "force", json_true()) == 0))
        text = json_dumps(obj, JSON_COMPACT);
    json_decref(list);
    json_decref(obj);
    return text;
}

static int send_command(struct cmd *c, const struct choice *ch, const char *topic, const char *key,
                        const char *value, char **args)
{
    char *json = request_json(key, value, args, ch->force);
    int rc = json ? ask(c, ch, topic, json, NULL, NULL)
                  : cmd_error(c, "a name or an argument is not UTF-8, or memory is out");

    free(json);
    return rc;
}

static int cmd_load(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "[OPTION...] NAME [ARGUMENT...]",
        "Load a module: NAME.so of the module directories, or NAME is the path of a file.",
        opts,
        NULL,
        CMD_STOP,
    };
    struct choice ch;
    int rc = parse(c, &usage, argc, argv, 1, -1, &ch);
    char *real = NULL;

    if (rc)
        return rc - 1;
    argv += c->optind;
    /* Brokers have a current directory of their own. */
    if (strchr(argv[0], '/') && !(real = realpath(argv[0], NULL)))
        rc = cmd_error(c, "%s: %s", argv[0], strerror(errno));
    else
        rc = send_command(c, &ch, "module.load", "path", real ? real : argv[0], argv + 1);
    free(real);
    free(ch.ranks);
    return rc;
}

static int by_name(struct cmd *c, const struct cmd_usage *u, const char *topic, int argc,
                   char **argv)
{
    struct choice ch;
    int rc = parse(c, u, argc, argv, 1, 1, &ch);

    if (rc)
        return rc - 1;
    rc = send_command(c, &ch, topic, "name", argv[c->optind], NULL);
    free(ch.ranks);
    return rc;
}

static int cmd_unload(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "[OPTION...] NAME", "Unload a module.", stop_opts, NULL, 0,
    };

    return by_name(c, &usage, "module.unload", argc, argv);
}

static int cmd_reload(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "[OPTION...] NAME",
        "Load a module anew from its file, with its arguments. Requests that it had not answered\n"
        "are handed to the new instance.",
        stop_opts,
        NULL,
        0,
    };

    return by_name(c, &usage, "module.reload", argc, argv);
}

/* --- list --- */

struct listed {
    const char *name;
    const char *path;
    const char *state;
    uint64_t received;
    uint64_t sent;
    uint64_t queued;
};
static const struct flux_field listed_fields[] = {
    FLUX_FIELD_STR(struct listed, name, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct listed, path, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct listed, state, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct listed, received, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct listed, sent, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct listed, queued, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema listed_schema = FLUX_SCHEMA(struct listed, listed_fields);

struct modules {
    json_t *modules;
};
static const struct flux_field modules_fields[] = {
    FLUX_FIELD_ARRAY(struct modules, modules, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema modules_schema = FLUX_SCHEMA(struct modules, modules_fields);

/* One line of the list: a module in a state, at some ranks. */
struct row {
    char *name;
    char *state;
    idset_t *ranks;
    uint64_t received;
    uint64_t sent;
    uint64_t queued;
};

static void row_free(void *arg)
{
    struct row *row = arg;

    if (row) {
        free(row->name);
        free(row->state);
        idset_destroy(row->ranks);
        free(row);
    }
}

static int add_listed(hmap_t *rows, uint32_t rank, const struct listed *m)
{
    char *key;
    struct row *row;
    int rc = -1;

    if (asprintf(&key, "%s %s", m->name, m->state) < 0)
        return -1;
    if (!(row = hmap_get(rows, key))) {
        if (!(row = calloc(1, sizeof(*row))) || !(row->name = strdup(m->name)) ||
            !(row->state = strdup(m->state)) || !(row->ranks = idset_create()) ||
            hmap_put(rows, key, row) < 0) {
            row_free(row);
            row = NULL;
        }
    }
    if (row && idset_set(row->ranks, rank) == 0) {
        row->received += m->received;
        row->sent += m->sent;
        row->queued += m->queued;
        rc = 0;
    }
    free(key);
    return rc;
}

static int list_answer(struct cmd *c, uint32_t rank, const json_t *answer, void *arg)
{
    struct modules in;
    struct listed m;
    errmsg_t err;
    json_t *val;
    size_t i;

    if (flux_schema_decode_json(&modules_schema, answer, &in, &err) < 0)
        return cmd_error(c, "rank %u: %s", rank, err.text);
    json_array_foreach(in.modules, i, val)
    {
        if (flux_schema_decode_json(&listed_schema, val, &m, &err) < 0)
            return cmd_error(c, "rank %u: %s", rank, err.text);
        if (add_listed(arg, rank, &m) < 0)
            return cmd_error(c, "out of memory");
    }
    return CMD_OK;
}

static int compare_rows(const void *a, const void *b)
{
    const struct row *x = *(const struct row *const *)a;
    const struct row *y = *(const struct row *const *)b;
    int order = strcmp(x->name, y->name);

    return order ? order : strcmp(x->state, y->state);
}

static int print_rows(struct cmd *c, hmap_t *rows, bool json)
{
    size_t n = hmap_count(rows);
    struct row **sorted = malloc((n + 1) * sizeof(*sorted));
    table_t *t = table_create();
    size_t pos = 0;
    size_t i = 0;
    void *val;

    if (!sorted) {
        table_destroy(t);
        return cmd_error(c, "out of memory");
    }
    while (hmap_next(rows, &pos, NULL, NULL, &val))
        sorted[i++] = val;
    qsort(sorted, n, sizeof(*sorted), compare_rows);
    table_column(t, "name", "NAME", TABLE_LEFT);
    table_column(t, "state", "STATE", TABLE_LEFT);
    table_column(t, "received", "RECEIVED", TABLE_RIGHT);
    table_column(t, "sent", "SENT", TABLE_RIGHT);
    table_column(t, "queued", "QUEUED", TABLE_RIGHT);
    table_column(t, "ranks", "RANKS", TABLE_LEFT);
    for (i = 0; i < n; i++) {
        char *ranks = idset_format(sorted[i]->ranks, 0);

        table_row(t);
        table_str(t, sorted[i]->name);
        table_str(t, sorted[i]->state);
        table_u64(t, sorted[i]->received);
        table_u64(t, sorted[i]->sent);
        table_u64(t, sorted[i]->queued);
        table_str(t, ranks);
        free(ranks);
    }
    free(sorted);
    return cmd_print_table(c, t, json);
}

static int cmd_list(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "[OPTION...]",
        "List the modules that are loaded, with the messages each has received and sent, and\n"
        "those that wait for it.",
        json_opts,
        NULL,
        0,
    };
    struct choice ch;
    int rc = parse(c, &usage, argc, argv, 0, 0, &ch);
    hmap_t *rows;
    int rc2;

    if (rc)
        return rc - 1;
    if (!(rows = hmap_create_str(row_free))) {
        free(ch.ranks);
        return cmd_error(c, "out of memory");
    }
    rc = ask(c, &ch, "module.list", NULL, list_answer, rows);
    rc2 = print_rows(c, rows, ch.json);
    hmap_destroy(rows);
    free(ch.ranks);
    return rc ? rc : rc2;
}

/* --- stats --- */

static int stats_answer(struct cmd *c, uint32_t rank, const json_t *answer, void *arg)
{
    json_t *copy = json_deep_copy(answer);

    if (!copy || json_object_set_new(copy, "rank", json_integer(rank)) < 0 ||
        json_array_append(arg, copy) < 0) {
        json_decref(copy);
        return cmd_error(c, "out of memory");
    }
    json_decref(copy);
    return CMD_OK;
}

static int print_stats(struct cmd *c, const json_t *all)
{
    size_t i;
    json_t *obj;

    json_array_foreach(all, i, obj)
    {
        const char *key;
        json_t *val;

        json_object_foreach(obj, key, val)
        {
            char *text = json_is_string(val) ? NULL : json_dumps(val, JSON_ENCODE_ANY);

            if (strcmp(key, "rank") != 0)
                printf("%lld\t%s\t%s\n", json_integer_value(json_object_get(obj, "rank")), key,
                       text                     ? text
                       : json_string_value(val) ? json_string_value(val)
                                                : "?");
            free(text);
        }
    }
    return CMD_OK;
}

static int cmd_stats(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "[OPTION...] NAME",
        "Print the counters of a module, or of 'broker': rank, name, value.",
        json_opts,
        NULL,
        0,
    };
    struct choice ch;
    char topic[FLUX_MSG_TOPIC_MAX + 1];
    int rc = parse(c, &usage, argc, argv, 1, 1, &ch);
    json_t *all;

    if (rc)
        return rc - 1;
    if (!(all = json_array())) {
        free(ch.ranks);
        return cmd_error(c, "out of memory");
    }
    snprintf(topic, sizeof(topic), "%s.stats", argv[c->optind]);
    rc = ask(c, &ch, topic, "{}", stats_answer, all);
    if (ch.json)
        cmd_print_json(c, json_incref(all));
    else
        print_stats(c, all);
    json_decref(all);
    free(ch.ranks);
    return rc;
}

static const struct cmd_sub subs[] = {
    {"load", cmd_load, "[OPTION...] NAME [ARGUMENT...]", "load a module"},
    {"unload", cmd_unload, "[OPTION...] NAME", "unload a module"},
    {"reload", cmd_reload, "[OPTION...] NAME", "load a module anew; clients keep waiting"},
    {"list", cmd_list, "[OPTION...]", "list modules"},
    {"stats", cmd_stats, "[OPTION...] NAME", "print the counters of a module"},
    CMD_SUB_END,
};

int cmd_module(struct cmd *c, int argc, char **argv)
{
    return cmd_subcommand(c, "A module is a shared object that a broker loads: a service.", subs,
                          argc, argv);
}
