/* cmd_dmesg.c - flux dmesg: print the log of the session, or follow it.
 *
 * The job service collects its log entries for a short time.  It is asked to log them before the
 * log is read, so that the output contains the end of every job that was reported to the user.  If
 * the job service does not respond, the log is printed as it is.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd_all.h"
#include "libflux/log.h"
#include "libflux/log_wire.h"

#define TIMEOUT 60.
#define JOURNAL_TIMEOUT 2.

static const struct cmd_opt opts[] = {
    {'f', "follow", NULL, "continue with new entries until interrupted"},
    {'l', "level", "LEVEL", "only entries of this level or a more severe one"},
    {'s', "source", "NAME", "only entries from this source"},
    {'r', "ranks", "IDSET", "only entries from these ranks"},
    {'n', "count", "N", "only the last N matching entries"},
    {'b', "broker", "RANK",
     "read the log of this broker (default: 0, which has the\n"
     "severe entries of all ranks)"},
    {'C', "clear", NULL, "clear the log instead of printing it"},
    {'j', "json", NULL, "print a JSON array; with --follow, one object per line"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...]", "Print the log of the session.", opts, NULL, 0,
};

static void print_entry(const struct log_entry *e)
{
    time_t sec = (time_t)e->time;
    int usec = (int)((e->time - (double)sec) * 1e6);
    char when[32] = "?";
    struct tm tm;

    if (gmtime_r(&sec, &tm))
        strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
    printf("%s.%06dZ %s.%s[%u]: %s\n", when, usec, e->source, flux_log_level_name(e->level),
           e->rank, e->text);
}

/* `last`: of the entries that were printed before, if this is a stream.  One that begins anew
 * because the broker was started again may repeat them. */
static int print_entries(struct cmd *c, const json_t *entries, bool json_lines,
                         struct log_entry *last)
{
    size_t i;
    json_t *val;

    json_array_foreach(entries, i, val)
    {
        struct log_entry e;
        errmsg_t err;

        if (flux_schema_decode_json(&log_entry_schema, val, &e, &err) < 0)
            return cmd_error(c, "the log contains an invalid entry: %s", err.text);
        if (last && e.seq <= last->seq && e.time <= last->time)
            continue;
        if (last)
            *last = (struct log_entry){.seq = e.seq, .time = e.time};
        if (!json_lines)
            print_entry(&e);
        else if (json_dumpf(val, stdout, JSON_COMPACT) == 0)
            putchar('\n');
    }
    if (fflush(stdout) != 0)
        return cmd_error(c, "cannot write to standard output: %s", strerror(errno));
    return CMD_OK;
}

static int follow(struct cmd *c, flux_future_t *f, bool json)
{
    struct log_entry last = {0};
    struct log_entries r;
    errmsg_t err;

    for (;;) {
        if (flux_future_wait(f, 0.) < 0)
            return cmd_error(c, "the connection to the broker was lost");
        if (flux_rpc_get_struct(f, &log_entries_schema, &r, &err) < 0)
            return errno == ENODATA ? CMD_OK : cmd_error(c, "%s", err.text);
        if (print_entries(c, r.entries, json, &last) != CMD_OK)
            return CMD_FAIL;
        flux_future_next(f);
    }
}

static void flush_journal(flux_t *h)
{
    flux_future_t *f = flux_rpc(h, "job.journal", "{}", FLUX_NODEID_ANY, FLUX_MSGF_IDEMPOTENT);

    if (f)
        (void)flux_future_wait(f, JOURNAL_TIMEOUT);
    flux_future_destroy(f);
}

/* In the order of time: pages of the last entries begin with the newest. */
static int print_all(struct cmd *c, json_t *all, bool newest_first, bool json)
{
    json_t *out = newest_first ? json_array() : json_incref(all);
    int rc;

    for (size_t i = json_array_size(all); newest_first && i-- > 0;)
        json_array_append(out, json_array_get(all, i));
    if (!out)
        return cmd_error(c, "out of memory");
    if (json)
        return cmd_print_json(c, out);
    rc = print_entries(c, out, false, NULL);
    json_decref(out);
    return rc;
}

/* Request page by page.  Only those that must be turned round, or be in one array, are kept. */
static int dump(struct cmd *c, flux_t *h, struct log_query *q, uint32_t broker, bool json)
{
    bool last_ones = q->count > 0;
    json_t *all = json_array();
    struct log_page page;
    int rc = CMD_OK;

    q->to = INT64_MAX;
    for (page.from = 0, page.to = q->to; rc == CMD_OK && page.from <= page.to;) {
        flux_future_t *f =
            flux_rpc_struct(h, "log.dump", &log_dump_schema, q, broker, FLUX_MSGF_IDEMPOTENT);

        if (cmd_wait_struct(c, f, TIMEOUT, "log.dump", &log_page_schema, &page) < 0)
            rc = CMD_FAIL;
        else if (!json && !last_ones)
            rc = print_entries(c, page.entries, false, NULL);
        else if (json_array_extend(all, page.entries) < 0)
            rc = cmd_error(c, "out of memory");
        if (rc == CMD_OK) {
            q->from = page.from;
            q->to = page.to;
            q->count -= last_ones ? (uint32_t)json_array_size(page.entries) : 0;
        }
        flux_future_destroy(f);
    }
    if (rc == CMD_OK && (json || last_ones))
        rc = print_all(c, all, last_ones, json);
    json_decref(all);
    return rc;
}

int cmd_dmesg(struct cmd *c, int argc, char **argv)
{
    struct log_query q = {.level = LOG_DEBUG};
    uint32_t broker = 0;
    bool following = false;
    bool clear = false;
    bool json = false;
    const char *val;
    flux_future_t *f;
    flux_t *h;
    int key;
    int rc;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        switch (key) {
        case 'f':
            following = true;
            break;
        case 'l':
            if ((q.level = flux_log_level_parse(val)) < 0)
                return cmd_usage_error(c, "'%s' is not a log level", val);
            break;
        case 's':
            q.source = val;
            break;
        case 'r':
            q.rank = val;
            break;
        case 'n':
            if (cmd_parse_u32(c, "--count", val, &q.count) < 0)
                return CMD_USAGE;
            break;
        case 'b':
            if (cmd_parse_u32(c, "--broker", val, &broker) < 0)
                return CMD_USAGE;
            break;
        case 'C':
            clear = true;
            break;
        default:
            json = true;
            break;
        }
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (argc > c->optind)
        return cmd_usage_error(c, "no argument is expected");
    if (following)
        cmd_returns(c);
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    if (!clear && !following) {
        if (broker == 0)
            flush_journal(h);
        return dump(c, h, &q, broker, json);
    }
    if (clear) {
        f = flux_rpc(h, "log.clear", "{}", broker, 0);
        rc = cmd_wait(c, f, TIMEOUT, "log.clear") < 0 ? CMD_FAIL : CMD_OK;
    } else {
        f = flux_rpc_struct(h, "log.follow", &log_query_schema, &q, broker,
                            FLUX_MSGF_IDEMPOTENT | FLUX_MSGF_STREAMING);
        if (!f)
            return cmd_error(c, "cannot request the log: %s", strerror(errno));
        rc = follow(c, f, json);
    }
    flux_future_destroy(f);
    return rc;
}
