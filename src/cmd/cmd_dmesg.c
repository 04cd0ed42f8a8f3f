/* cmd_dmesg.c - flux dmesg: print the log of the session, or follow it. */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd_all.h"
#include "libflux/log.h"
#include "libflux/schema.h"

#define TIMEOUT 60.

struct query {
    int level;
    const char *rank;
    const char *source;
    uint32_t count;
};
static const struct flux_field query_fields[] = {
    FLUX_FIELD_INT(struct query, level, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct query, rank, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct query, source, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_END,
};
static const struct flux_schema query_schema = FLUX_SCHEMA(struct query, query_fields);
/* The same with a count: one that is absent means all. */
static const struct flux_field query_count_fields[] = {
    FLUX_FIELD_INT(struct query, level, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct query, rank, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_STR(struct query, source, FLUX_FIELD_OPTIONAL),
    FLUX_FIELD_U32(struct query, count, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema query_count_schema = FLUX_SCHEMA(struct query, query_count_fields);

struct entries {
    json_t *entries;
    uint64_t dropped;
};
static const struct flux_field entries_fields[] = {
    FLUX_FIELD_ARRAY(struct entries, entries, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U64(struct entries, dropped, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema entries_schema = FLUX_SCHEMA(struct entries, entries_fields);

struct entry {
    uint64_t seq;
    double time;
    int level;
    uint32_t rank;
    const char *source;
    const char *text;
};
static const struct flux_field entry_fields[] = {
    FLUX_FIELD_U64(struct entry, seq, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_DOUBLE(struct entry, time, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_INT(struct entry, level, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct entry, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct entry, source, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct entry, text, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema entry_schema = FLUX_SCHEMA(struct entry, entry_fields);

static const struct cmd_opt opts[] = {
    {'f', "follow", NULL, "go on printing what is added"},
    {'l', "level", "LEVEL", "this level and more important ones only"},
    {'s', "source", "NAME", "of this source only"},
    {'r', "ranks", "IDSET", "from these ranks only"},
    {'n', "count", "N", "only the last N lines"},
    {'b', "broker", "RANK",
     "the log of that broker (default: 0, which has the\n"
     "important lines of all)"},
    {'C', "clear", NULL, "empty the log instead"},
    {'j', "json", NULL, "JSON array; with --follow one object a line"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...]", "Print the lines that the log of the session holds.", opts, NULL, 0,
};

static void print_entry(const struct entry *e)
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

static int print_entries(struct cmd *c, const json_t *entries, bool json_lines)
{
    size_t i;
    json_t *val;

    json_array_foreach(entries, i, val)
    {
        struct entry e;
        errmsg_t err;

        if (flux_schema_decode_json(&entry_schema, val, &e, &err) < 0)
            return cmd_error(c, "the log holds an entry that is bad: %s", err.text);
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
    struct entries r;
    errmsg_t err;

    for (;;) {
        if (flux_future_wait(f, 0.) < 0)
            return cmd_error(c, "the connection to the broker was lost");
        if (flux_rpc_get_struct(f, &entries_schema, &r, &err) < 0)
            return errno == ENODATA ? CMD_OK : cmd_error(c, "%s", err.text);
        if (print_entries(c, r.entries, json) != CMD_OK)
            return CMD_FAIL;
        flux_future_next(f);
    }
}

static int dump(struct cmd *c, flux_future_t *f, bool json)
{
    struct entries r;

    if (cmd_wait_struct(c, f, TIMEOUT, "log.dump", &entries_schema, &r) < 0)
        return CMD_FAIL;
    return json ? cmd_print_json(c, json_incref(r.entries)) : print_entries(c, r.entries, false);
}

int cmd_dmesg(struct cmd *c, int argc, char **argv)
{
    struct query q = {.level = LOG_DEBUG};
    uint32_t broker = 0;
    bool following = false;
    bool clear = false;
    bool counted = false;
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
                return cmd_usage_error(c, "'%s' is no level", val);
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
            counted = true;
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
        return cmd_usage_error(c, "it takes no argument");
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    if (clear) {
        f = flux_rpc(h, "log.clear", "{}", broker, 0);
        rc = cmd_wait(c, f, TIMEOUT, "log.clear") < 0 ? CMD_FAIL : CMD_OK;
    } else {
        f = flux_rpc_struct(h, following ? "log.follow" : "log.dump",
                            counted ? &query_count_schema : &query_schema, &q, broker,
                            following ? FLUX_MSGF_STREAMING : 0);
        if (!f)
            return cmd_error(c, "cannot ask for the log: %s", strerror(errno));
        rc = following ? follow(c, f, json) : dump(c, f, json);
    }
    flux_future_destroy(f);
    return rc;
}
