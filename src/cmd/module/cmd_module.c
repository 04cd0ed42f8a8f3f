/* cmd_module.c - flux module: load, unload, reload, list and inspect the modules of brokers.
 *
 * A request is sent to all selected ranks at once.  The responses are collected, and ranks with
 * the same error share one error message.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cmd_all.h"
#include "cmd_module_trace.h"
#include "../session/cmd_session.h"
#include "libschema/schema.h"
#include "libflux/module_wire.h"
#include "libutil/hmap.h"
#include "libutil/strutil.h"

#define TIMEOUT 120.

static const struct cmd_opt json_opts[] = {
    SESSION_RANK_OPTS,
    {'j', "json", NULL, "print JSON"},
    CMD_OPT_END,
};

static const struct cmd_opt stop_opts[] = {
    SESSION_RANK_OPTS,
    {'f', "force", NULL, "proceed even if the module refuses because something would be lost"},
    CMD_OPT_END,
};

static const struct cmd_opt load_opts[] = {
    SESSION_RANK_OPTS,
    {'p', "place", "WHERE", "loop: on the broker's loop; thread: in a thread of its own"},
    CMD_OPT_END,
};

struct choice {
    flux_t *h;
    uint32_t *ranks;
    size_t nranks;
    bool json;
    bool force;
    const char *place; /* NULL: not given */
};

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
        if (session_rank_option(key, val, &set, &depth))
            continue;
        if (key == 'p' && strcmp(val, "loop") != 0 && strcmp(val, "thread") != 0)
            return 1 + cmd_usage_error(c, "--place=%s: loop or thread is expected", val);
        if (key == 'p')
            ch->place = val;
        else if (key == 'f')
            ch->force = true;
        else
            ch->json = true;
    }
    if (key < 0)
        return 1 + cmd_option_exit(key);
    if (argc - c->optind < min || (max >= 0 && argc - c->optind > max))
        return 1 + (min == 0 ? cmd_usage_error(c, "no argument is expected")
                    : argc == c->optind
                        ? cmd_usage_error(c, "one NAME is required")
                        : cmd_usage_error(c, "one NAME and no other argument is expected, not '%s'",
                                          argv[c->optind + 1]));
    if (!(ch->h = cmd_handle(c)))
        return 1 + CMD_FAIL;
    rc = session_choose_ranks(c, ch->h, set, depth, &ch->ranks, &ch->nranks);
    return rc == CMD_OK ? 0 : 1 + rc;
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
               unsigned flags, answer_f fn, void *arg)
{
    flux_future_t *f = flux_mrpc(ch->h, topic, json, ch->ranks, ch->nranks, flags);
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
                note_failure(&fl, rank, "the response is not JSON");
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

static int send_command(struct cmd *c, const struct choice *ch, const char *topic,
                        const struct flux_schema *desc, const void *in)
{
    char *json = flux_schema_encode(desc, in);
    int rc = json ? ask(c, ch, topic, json, 0, NULL, NULL)
                  : cmd_error(c, "a name or an argument is not UTF-8, or out of memory");

    free(json);
    return rc;
}

static int send_load(struct cmd *c, const struct choice *ch, const char *path, char **args)
{
    struct module_load in = {path, json_array(), ch->place};
    int rc;

    while (in.args && *args) {
        if (json_array_append_new(in.args, json_string(*args++)) < 0) {
            json_decref(in.args);
            in.args = NULL;
        }
    }
    rc = send_command(c, ch, "module.load", &module_load_schema, &in);
    json_decref(in.args);
    return rc;
}

static int cmd_load(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "[OPTION...] NAME [ARGUMENT...]",
        "Load a module: NAME.so in the module directories, or the file NAME if it contains a "
        "slash.",
        load_opts,
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
        rc = send_load(c, &ch, real ? real : argv[0], argv + 1);
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
    rc = send_command(c, &ch, topic, ch.force ? &module_stop_schema : &module_name_schema,
                      &(struct module_name){argv[c->optind], ch.force});
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
        "Load a module again from its file, with its arguments. Requests that it had not answered\n"
        "are passed to the new instance.",
        stop_opts,
        NULL,
        0,
    };

    return by_name(c, &usage, "module.reload", argc, argv);
}

/* --- list --- */

/* One line of the list: a module in a state, at some ranks. */
struct row {
    char *name;
    char *state;
    char *place;
    idset_t *ranks;
    uint64_t received;
    uint64_t sent;
    uint64_t queued;
    uint64_t turns;
    uint64_t longer;
    double busy, longest;
};

static void row_free(void *arg)
{
    struct row *row = arg;

    if (row) {
        free(row->name);
        free(row->state);
        free(row->place);
        idset_destroy(row->ranks);
        free(row);
    }
}

static int add_listed(hmap_t *rows, uint32_t rank, const struct module_item *m)
{
    char *key;
    struct row *row;
    int rc = -1;

    if (asprintf(&key, "%s %s %s", m->name, m->state, m->place) < 0)
        return -1;
    if (!(row = hmap_get(rows, key))) {
        if (!(row = calloc(1, sizeof(*row))) || !(row->name = strdup(m->name)) ||
            !(row->state = strdup(m->state)) || !(row->place = strdup(m->place)) ||
            !(row->ranks = idset_create()) || hmap_put(rows, key, row) < 0) {
            row_free(row);
            row = NULL;
        }
    }
    if (row && idset_set(row->ranks, rank) == 0) {
        row->received += m->received;
        row->sent += m->sent;
        row->queued += m->queued;
        row->turns += m->turns;
        row->longer += m->longer;
        row->busy += m->busy;
        row->longest = m->longest > row->longest ? m->longest : row->longest;
        rc = 0;
    }
    free(key);
    return rc;
}

static int list_answer(struct cmd *c, uint32_t rank, const json_t *answer, void *arg)
{
    struct module_list in;
    struct module_item m;
    errmsg_t err;
    json_t *val;
    size_t i;

    if (flux_schema_decode_json(&module_list_schema, answer, &in, &err) < 0)
        return cmd_error(c, "rank %u: %s", rank, err.text);
    json_array_foreach(in.modules, i, val)
    {
        if (flux_schema_decode_json(&module_item_schema, val, &m, &err) < 0)
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

    order = order ? order : strcmp(x->state, y->state);
    return order ? order : strcmp(x->place, y->place);
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
    table_column(t, "place", "PLACE", TABLE_LEFT);
    table_column(t, "turn", "TURN/us", TABLE_RIGHT);
    table_column(t, "longest", "LONGEST/us", TABLE_RIGHT);
    table_column(t, "longer", "LONGER", TABLE_RIGHT);
    table_column(t, "ranks", "RANKS", TABLE_LEFT);
    for (i = 0; i < n; i++) {
        char *ranks = idset_format(sorted[i]->ranks, 0);

        table_row(t);
        table_str(t, sorted[i]->name);
        table_str(t, sorted[i]->state);
        table_u64(t, sorted[i]->received);
        table_u64(t, sorted[i]->sent);
        table_u64(t, sorted[i]->queued);
        table_str(t, sorted[i]->place);
        table_real(t, sorted[i]->turns ? sorted[i]->busy / (double)sorted[i]->turns * 1e6 : 0., 1);
        table_real(t, sorted[i]->longest * 1e6, 1);
        table_u64(t, sorted[i]->longer);
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
        "List the loaded modules: where they run, the number of messages that each has received "
        "and\n"
        "sent, the number of queued messages, the mean and the longest time for a message, and "
        "the\n"
        "number of messages that took longer than module.turn-max.",
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
    rc = ask(c, &ch, "module.list", NULL, FLUX_MSGF_IDEMPOTENT, list_answer, rows);
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
        "Print the counters of a module, or of the service 'broker': rank, name, value.",
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
    rc = ask(c, &ch, topic, "{}", FLUX_MSGF_IDEMPOTENT, stats_answer, all);
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
    {"reload", cmd_reload, "[OPTION...] NAME", "load a module again; pending requests are kept"},
    {"list", cmd_list, "[OPTION...]", "list modules"},
    {"stats", cmd_stats, "[OPTION...] NAME", "print the counters of a module"},
    {"trace", cmd_module_trace, "[OPTION...] [NAME...]", "print messages as they pass"},
    CMD_SUB_END,
};

int cmd_module(struct cmd *c, int argc, char **argv)
{
    return cmd_subcommand(
        c, "A module is a shared object that a broker loads, and that provides a service.", subs,
        argc, argv);
}
