/* cmd_live.c - flux live: the states of the ranks, and how they have changed.
 *
 * Both commands ask rank 0, which has the session map and the record of its changes.
 */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../cmd_all.h"
#include "cmd_session.h"
#include "libflux/overlay_wire.h"

#define TIMEOUT 60.

static const struct cmd_opt opts[] = {
    {'j', "json", NULL, "print a JSON array of objects"},
    CMD_OPT_END,
};

/* The option of both.  CMD_OK, or what the command is to return (*done). */
static int read_options(struct cmd *c, const struct cmd_usage *usage, int argc, char **argv,
                        bool *json, bool *done)
{
    int key;

    *done = true;
    while ((key = cmd_option(c, usage, argc, argv, NULL)) > 0)
        *json = true;
    if (key < 0)
        return cmd_option_exit(key);
    if (argc > c->optind)
        return cmd_usage_error(c, "no argument is expected");
    *done = false;
    return CMD_OK;
}

static int cmd_status(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "[OPTION...]", "Print the ranks in each state.", opts, NULL, 0,
    };
    bool json = false;
    bool done;
    struct session s;
    table_t *t;
    int rc = read_options(c, &usage, argc, argv, &json, &done);

    if (done)
        return rc;
    if (session_query(c, &s, false) < 0)
        return CMD_FAIL;
    t = table_create();
    table_column(t, "state", "STATE", TABLE_LEFT);
    table_column(t, "count", "COUNT", TABLE_RIGHT);
    table_column(t, "ranks", "RANKS", TABLE_LEFT);
    for (int i = 0; i < SESSION_NSTATES; i++) {
        char *ranks = idset_format(s.in[i], 0);

        if (ranks && (json || *ranks)) {
            table_row(t);
            table_str(t, session_state_name((enum session_state)i));
            table_u64(t, idset_count(s.in[i]));
            table_str(t, ranks);
        }
        free(ranks);
    }
    session_clear(&s);
    return cmd_print_table(c, t, json);
}

/* The number of seconds in JSON, the date in text. */
static void cell_time(table_t *t, double when)
{
    time_t sec = (time_t)when;
    char date[32] = "?";
    char text[40];
    struct tm tm;

    if (localtime_r(&sec, &tm))
        strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text, sizeof(text), "%s.%03d", date, (int)((when - (double)sec) * 1e3));
    table_cell(t, json_real(when), text);
}

static int add_verdict(struct cmd *c, table_t *t, const json_t *o)
{
    struct overlay_verdict v = {0};
    errmsg_t err;

    if (flux_schema_decode_json(&overlay_verdict_schema, o, &v, &err) < 0)
        return cmd_error(c, "the history of rank 0 cannot be read: %s", err.text);
    table_row(t);
    table_u64(t, v.number);
    cell_time(t, v.time);
    table_str(t, v.ranks);
    table_str(t, v.state);
    table_u64(t, v.by);
    table_str(t, v.why);
    return CMD_OK;
}

static int cmd_history(struct cmd *c, int argc, char **argv)
{
    static const struct cmd_usage usage = {
        "[OPTION...]",
        "Print the latest changes of the states of ranks: which rank has noticed it, and why.",
        opts,
        NULL,
        0,
    };
    bool json = false;
    bool done;
    struct overlay_history in;
    flux_future_t *f;
    table_t *t;
    size_t i;
    json_t *o;
    flux_t *h;
    int rc = read_options(c, &usage, argc, argv, &json, &done);

    if (done)
        return rc;
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    t = table_create();
    table_column(t, "number", "NUMBER", TABLE_RIGHT);
    table_column(t, "time", "TIME", TABLE_LEFT);
    table_column(t, "ranks", "RANKS", TABLE_LEFT);
    table_column(t, "state", "STATE", TABLE_LEFT);
    table_column(t, "by", "BY", TABLE_RIGHT);
    table_column(t, "why", "WHY", TABLE_LEFT);
    f = flux_rpc(h, "overlay.history", NULL, FLUX_NODEID_ROOT, FLUX_MSGF_IDEMPOTENT);
    if (cmd_wait_struct(c, f, TIMEOUT, "overlay.history", &overlay_history_schema, &in) < 0)
        rc = CMD_FAIL;
    else
        json_array_foreach(in.verdicts, i, o) if (rc == CMD_OK) rc = add_verdict(c, t, o);
    flux_future_destroy(f);
    if (rc == CMD_OK)
        return cmd_print_table(c, t, json);
    table_destroy(t);
    return rc;
}

static const struct cmd_sub subs[] = {
    {"status", cmd_status, "[OPTION...]", "print the ranks in each state"},
    {"history", cmd_history, "[OPTION...]", "print how the states of ranks have changed"},
    CMD_SUB_END,
};

int cmd_live(struct cmd *c, int argc, char **argv)
{
    return cmd_subcommand(c, "The states of the ranks of the session, and how they have changed.",
                          subs, argc, argv);
}
