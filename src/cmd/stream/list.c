/* list.c - flux stream ls, stat and readers: what the module `stream` knows of streams and their
 * readers.
 *
 * The counts are those of the last reports, which processes send once a second.
 *
 * Failure: an error message and exit code 1.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../cmd_private.h"
#include "libstream/stream_wire.h"
#include "list.h"

#define TIMEOUT 60.

/* --- ls --- */

static const struct cmd_opt json_opts[] = {
    {'j', "json", NULL, "print JSON"},
    CMD_OPT_END,
};
static const struct cmd_usage ls_usage = {
    "[OPTION...] [NAME]",
    "List the streams of the session, or one: its writers (of as many as there will be) and\n"
    "readers, the next step, steps a second, and what waits for readers.",
    json_opts,
    NULL,
    0,
};

static table_t *list_table(void)
{
    table_t *t = table_create();

    table_column(t, "name", "NAME", TABLE_LEFT);
    table_column(t, "writers", "WRITERS", TABLE_RIGHT);
    table_column(t, "size", "OF", TABLE_RIGHT);
    table_column(t, "readers", "READERS", TABLE_RIGHT);
    table_column(t, "step", "STEP", TABLE_RIGHT);
    table_column(t, "epoch", "EPOCH", TABLE_RIGHT);
    table_column(t, "rate", "RATE", TABLE_RIGHT);
    table_column(t, "bytes", "BYTES", TABLE_RIGHT);
    table_column(t, "copied", "COPIED", TABLE_RIGHT);
    table_column(t, "asked", "ASKED", TABLE_RIGHT);
    table_column(t, "connections", "TCP", TABLE_RIGHT);
    table_column(t, "sent", "SENT", TABLE_RIGHT);
    table_column(t, "queue", "QUEUE", TABLE_RIGHT);
    table_column(t, "pinned", "PINNED", TABLE_RIGHT);
    table_column(t, "lag", "LAG", TABLE_RIGHT);
    table_column(t, "dropped", "DROPPED", TABLE_RIGHT);
    table_column(t, "blocked", "BLOCKED", TABLE_RIGHT);
    table_column(t, "held", "HELD", TABLE_RIGHT);
    table_column(t, "limit", "LIMIT", TABLE_RIGHT);
    table_column(t, "paused", "PAUSED", TABLE_LEFT);
    table_column(t, "faults", "FAULTS", TABLE_RIGHT);
    table_column(t, "transforms", "TRANSFORMS", TABLE_LEFT);
    table_column(t, "cause", "CAUSE", TABLE_LEFT);
    return t;
}

static void list_row(table_t *t, const struct stream_item *it)
{
    table_row(t);
    table_str(t, it->name);
    table_u64(t, it->writers);
    table_u64(t, it->size);
    table_u64(t, it->readers);
    table_u64(t, it->step);
    table_u64(t, it->epoch);
    table_real(t, it->rate, 1);
    table_size(t, it->bytes);
    table_size(t, it->copied);
    table_size(t, it->asked);
    table_u64(t, it->connections);
    table_size(t, it->sent);
    table_size(t, it->queue);
    table_size(t, it->pinned);
    table_u64(t, it->lag);
    table_u64(t, it->dropped);
    table_duration(t, it->blocked);
    table_duration(t, it->held);
    if (it->limit > 0.)
        table_real(t, it->limit, 1);
    else
        table_null(t);
    table_cell(t, json_boolean(it->paused), it->paused ? "yes" : "no");
    table_u64(t, it->faults);
    table_str(t, it->transforms);
    table_str(t, it->cause);
}

/* Print all streams, or the one of this name. */
static int list_print(struct cmd *c, const char *name, bool json)
{
    flux_t *h = cmd_handle(c);
    struct stream_list list;
    struct stream_item it;
    flux_future_t *f;
    errmsg_t err;
    json_t *item;
    table_t *t;
    size_t i;
    bool found = !name;
    int rc;

    if (!h)
        return CMD_FAIL;
    f = flux_rpc(h, "stream.list", NULL, FLUX_NODEID_ANY, FLUX_MSGF_IDEMPOTENT);
    if (cmd_wait_struct(c, f, TIMEOUT, "stream.list", &stream_list_schema, &list) < 0) {
        flux_future_destroy(f);
        return CMD_FAIL;
    }
    t = list_table();
    json_array_foreach(list.streams, i, item)
    {
        it.cause = it.transforms = NULL;
        if (flux_schema_decode_json(&stream_item_schema, item, &it, &err) < 0) {
            table_destroy(t);
            flux_future_destroy(f);
            return cmd_error(c, "stream.list: %s", err.text);
        }
        if (!name || strcmp(it.name, name) == 0) {
            list_row(t, &it);
            found = true;
        }
    }
    if (!found) {
        table_destroy(t);
        rc = cmd_error(c, "there is no stream '%s'", name);
    } else
        rc = cmd_print_table(c, t, json);
    flux_future_destroy(f);
    return rc;
}

int stream_list_step(struct cmd *c, const char *name, uint64_t *step)
{
    flux_t *h = cmd_handle(c);
    struct stream_list list;
    struct stream_item it;
    flux_future_t *f;
    json_t *item;
    size_t i;
    int rc = CMD_FAIL;

    if (!h)
        return CMD_FAIL;
    f = flux_rpc(h, "stream.list", NULL, FLUX_NODEID_ANY, FLUX_MSGF_IDEMPOTENT);
    if (cmd_wait_struct(c, f, TIMEOUT, "stream.list", &stream_list_schema, &list) == 0) {
        json_array_foreach(list.streams, i, item)
        {
            it.cause = it.transforms = NULL;
            if (rc == CMD_FAIL &&
                flux_schema_decode_json(&stream_item_schema, item, &it, NULL) == 0 &&
                strcmp(it.name, name) == 0) {
                *step = it.step;
                rc = CMD_OK;
            }
        }
        if (rc == CMD_FAIL)
            cmd_error(c, "there is no stream '%s'", name);
    }
    flux_future_destroy(f);
    return rc;
}

int stream_list_ls(struct cmd *c, int argc, char **argv)
{
    bool json = false;
    const char *val;
    int key;

    while ((key = cmd_option(c, &ls_usage, argc, argv, &val)) > 0)
        json = true;
    if (key < 0)
        return cmd_option_exit(key);
    if (argc - c->optind > 1)
        return cmd_usage_error(c, "at most one NAME is possible");
    return list_print(c, argv[c->optind], json);
}

/* --- stat --- */

static const struct cmd_opt stat_opts[] = {
    {'i', "interval", "DURATION", "time between lines (default: 1s)"},
    {'c', "count", "N", "stop after N lines"},
    {'j', "json", NULL, "print JSON"},
    CMD_OPT_END,
};
static const struct cmd_usage stat_usage = {
    "[OPTION...] NAME",
    "Print the line of 'flux stream ls' for a stream repeatedly, until interrupted.",
    stat_opts,
    NULL,
    0,
};

static void pause_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

/* The loss of the connection ends the pause. */
static int pause_for(struct cmd *c, double seconds)
{
    flux_t *h = cmd_handle(c);
    flux_watcher_t *timer = flux_timer_create(flux_get_reactor(h), pause_cb, NULL);
    int rc = CMD_OK;

    if (!timer)
        return cmd_error(c, "out of memory");
    flux_timer_start(timer, seconds, 0.);
    if (flux_run(h) < 0)
        rc = cmd_error(c, "the connection to the broker was lost");
    flux_watcher_destroy(timer);
    return rc;
}

int stream_list_stat(struct cmd *c, int argc, char **argv)
{
    bool json = false;
    double interval = 1.;
    uint32_t count = 0;
    const char *val;
    int rc = CMD_OK;
    int key;

    while ((key = cmd_option(c, &stat_usage, argc, argv, &val)) > 0) {
        if (key == 'i') {
            if (cmd_parse_duration(c, "--interval", val, &interval) < 0)
                return CMD_USAGE;
            if (!(interval >= 0.01 && interval <= 86400.))
                return cmd_usage_error(c, "--interval must be between 10ms and 1d");
        } else if (key == 'c') {
            if (cmd_parse_u32(c, "--count", val, &count) < 0)
                return CMD_USAGE;
        } else
            json = true;
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (argc - c->optind != 1)
        return cmd_usage_error(c, "one NAME is required");
    for (uint32_t n = 1; rc == CMD_OK; n++) {
        rc = list_print(c, argv[c->optind], json);
        if (fflush(stdout) != 0)
            rc = cmd_error(c, "standard output: %s", strerror(errno));
        if (n == count)
            break;
        if (rc == CMD_OK)
            rc = pause_for(c, interval);
    }
    return rc;
}

/* --- readers --- */

static const struct cmd_usage readers_usage = {
    "[OPTION...] NAME",
    "List the readers of a stream: number, place, policy, switch and progress of each.",
    json_opts,
    NULL,
    0,
};

static void reader_row(table_t *t, const struct stream_reader *r)
{
    table_row(t);
    table_u64(t, r->reader);
    table_u64(t, r->rank);
    table_str(t, r->host);
    table_u64(t, r->pid);
    if (r->job > 0)
        table_u64(t, r->job);
    else
        table_str(t, NULL);
    table_str(t, r->policy);
    table_str(t, *r->onoff ? r->onoff : NULL);
    table_cell(t, json_boolean(!r->off), r->off ? "no" : "yes");
    table_u64(t, r->step);
    table_u64(t, r->lag);
    table_u64(t, r->steps);
    table_size(t, r->asked);
    table_size(t, r->copied);
    table_u64(t, r->connections);
    table_size(t, r->received);
    table_size(t, r->queue);
    table_u64(t, r->dropped);
    table_duration(t, r->blocked);
    table_duration(t, r->waited);
    table_str(t, r->transforms);
}

static table_t *reader_table(void)
{
    table_t *t = table_create();

    table_column(t, "reader", "READER", TABLE_RIGHT);
    table_column(t, "rank", "RANK", TABLE_RIGHT);
    table_column(t, "host", "HOST", TABLE_LEFT);
    table_column(t, "pid", "PID", TABLE_RIGHT);
    table_column(t, "job", "JOB", TABLE_RIGHT);
    table_column(t, "policy", "POLICY", TABLE_LEFT);
    table_column(t, "switch", "SWITCH", TABLE_LEFT);
    table_column(t, "on", "ON", TABLE_LEFT);
    table_column(t, "step", "STEP", TABLE_RIGHT);
    table_column(t, "lag", "LAG", TABLE_RIGHT);
    table_column(t, "steps", "STEPS", TABLE_RIGHT);
    table_column(t, "asked", "ASKED", TABLE_RIGHT);
    table_column(t, "copied", "COPIED", TABLE_RIGHT);
    table_column(t, "connections", "TCP", TABLE_RIGHT);
    table_column(t, "received", "RECEIVED", TABLE_RIGHT);
    table_column(t, "queue", "QUEUE", TABLE_RIGHT);
    table_column(t, "dropped", "DROPPED", TABLE_RIGHT);
    table_column(t, "blocked", "BLOCKED", TABLE_RIGHT);
    table_column(t, "waited", "WAITED", TABLE_RIGHT);
    table_column(t, "transforms", "TRANSFORMS", TABLE_LEFT);
    return t;
}

int stream_list_readers(struct cmd *c, int argc, char **argv)
{
    struct stream_name in;
    struct stream_readers list;
    struct stream_reader r;
    bool json = false;
    const char *val;
    flux_future_t *f;
    errmsg_t err;
    table_t *t;
    json_t *item;
    flux_t *h;
    size_t i;
    int rc = CMD_OK;
    int key;

    while ((key = cmd_option(c, &readers_usage, argc, argv, &val)) > 0)
        json = true;
    if (key < 0)
        return cmd_option_exit(key);
    if (argc - c->optind != 1)
        return cmd_usage_error(c, "one NAME is required");
    in.name = argv[c->optind];
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    f = flux_rpc_struct(h, "stream.readers", &stream_name_schema, &in, FLUX_NODEID_ANY,
                        FLUX_MSGF_IDEMPOTENT);
    if (cmd_wait_struct(c, f, TIMEOUT, "stream.readers", &stream_readers_schema, &list) < 0) {
        flux_future_destroy(f);
        return CMD_FAIL;
    }
    t = reader_table();
    json_array_foreach(list.readers, i, item)
    {
        r = (struct stream_reader){.job = 0};
        if (flux_schema_decode_json(&stream_reader_schema, item, &r, &err) < 0) {
            rc = cmd_error(c, "stream.readers: %s", err.text);
            break;
        }
        reader_row(t, &r);
    }
    if (rc == CMD_OK)
        rc = cmd_print_table(c, t, json);
    else
        table_destroy(t);
    flux_future_destroy(f);
    return rc;
}
