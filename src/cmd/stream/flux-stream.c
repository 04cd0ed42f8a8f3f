/* flux-stream.c - flux stream: the streams of the session, and what is in them.
 *
 * This is a separate program because streams need libsodium, which `flux` is not linked with.
 *
 * ls, stat, format and rm ask the module `stream`; cat is a reader like any other.  transfer.c has
 * record, replay and tee, export.c export, filter.c transform, and relay.c relay.
 *
 * Failure: an error message and exit code 1.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cmd_private.h"
#include "libstream/stream.h"
#include "libstream/stream_wire.h"
#include "libutil/strutil.h"
#include "export.h"
#include "filter.h"
#include "record_json.h"
#include "relay.h"
#include "slice.h"
#include "transfer.h"

#define TIMEOUT 60.

/* Ask for something that has no result.  CMD_OK, or CMD_FAIL after an error message. */
static int act(struct cmd *c, const char *topic, const struct flux_schema *desc, const void *in)
{
    flux_t *h = cmd_handle(c);
    flux_future_t *f;
    int rc;

    if (!h)
        return CMD_FAIL;
    f = flux_rpc_struct(h, topic, desc, in, FLUX_NODEID_ANY, 0);
    rc = cmd_wait(c, f, TIMEOUT, topic) < 0 ? CMD_FAIL : CMD_OK;
    flux_future_destroy(f);
    return rc;
}

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

static int cmd_ls(struct cmd *c, int argc, char **argv)
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

static int cmd_stat(struct cmd *c, int argc, char **argv)
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

/* --- cat --- */

static const struct cmd_opt cat_opts[] = {
    {'c', "count", "N", "stop after N steps"},
    {'v', "var", "NAME", "only the variable NAME"},
    {'s', "slice", "SLICE",
     "with --var: print the elements of a part of a global array: for each\n"
     "dimension I, FROM:TO, FROM:TO:STRIDE or :, separated by commas"},
    {'p', "policy", "POLICY",
     "block, drop-oldest, drop-newest, latest or sample:K\n"
     "(default: block)"},
    {'g', "group", "NAME", "share the steps with the other members of a group"},
    {'k', "key", "VAR", "with --group: steps with equal values of VAR one after the other"},
    {'t', "timeout", "DURATION", "give up when no step comes for this time"},
    {'T', "transforms", "FILES",
     "transform the steps by files in Lua (*.lua) and shared objects\n"
     "(FILE[:ARG]), separated by '|'"},
    {'S', "switch", "SWITCH", "read only while 'flux stream switch' has turned this on"},
    {'K', "stay", NULL, "go on with writers that take the place of those that have gone"},
    {'r', "raw", NULL, "print the bytes of the variables, and nothing else"},
    {'j', "json", NULL, "print one JSON object for each variable"},
    {'f', "file", NULL, "NAME is a file that 'flux stream record' wrote; no session is needed"},
    CMD_OPT_END,
};
static const struct cmd_usage cat_usage = {
    "[OPTION...] NAME",
    "Read a stream until its writers close it, and print a line for each variable of each step:\n"
    "step, rank of the writer, name, number of bytes, and type, shape and offset of an array.",
    cat_opts,
    NULL,
    0,
};

struct cat {
    struct cmd *c;
    flux_stream_t *s;
    const char *name;  /* of the stream, or a file */
    const char *var;   /* NULL: all */
    const char *slice; /* NULL: none */
    bool raw;
    bool json;
};

/* Print one JSON object (taken over) in a line. */
static int cat_json(struct cat *cat, json_t *o)
{
    int rc = o ? json_dumpf(o, stdout, JSON_COMPACT) : -1;

    json_decref(o);
    putchar('\n');
    return rc < 0 ? cmd_error(cat->c, "out of memory") : CMD_OK;
}

static json_t *json_numbers(const uint64_t *v, unsigned n)
{
    json_t *a = json_array();

    for (unsigned i = 0; i < n; i++)
        json_array_append_new(a, json_integer((json_int_t)v[i]));
    return a;
}

static void print_numbers(const char *before, const uint64_t *v, unsigned n, const char *after)
{
    fputs(before, stdout);
    for (unsigned i = 0; i < n; i++)
        printf(i > 0 ? ",%" PRIu64 : "%" PRIu64, v[i]);
    fputs(after, stdout);
}

/* The records of a writer as a list of JSON objects: NULL after an error message. */
static json_t *cat_records(struct cat *cat, uint32_t rank, const char *var, const char **name)
{
    const stream_format_t *f;
    stream_format_t *mine = NULL;
    json_t *list = NULL;
    const char *recs;
    errmsg_t err;
    size_t n;

    if (!(f = flux_stream_format(cat->s, var, &err)) || !(mine = stream_format_native(f, &err)) ||
        flux_stream_get_records(cat->s, rank, var, mine, (const void **)&recs, &n, &err) < 0)
        cmd_error(cat->c, "%s", err.text);
    else if (!(list = json_array()))
        cmd_error(cat->c, "out of memory");
    else {
        *name = stream_format_name(f);
        for (size_t i = 0; i < n; i++)
            json_array_append_new(list, record_json(mine, recs + i * stream_format_size(mine)));
    }
    stream_format_destroy(mine);
    return list;
}

static void cat_format(json_t *o, uint64_t id, const char *name)
{
    char digits[STREAM_ID_LEN + 1];

    snprintf(digits, sizeof(digits), "%016" PRIx64, id);
    json_object_set_new(o, "id", json_string(digits));
    if (name)
        json_object_set_new(o, "format", json_string(name));
}

static int cat_var(struct cat *cat, uint64_t step, uint32_t rank, const char *var)
{
    struct flux_stream_info in;
    const void *data;
    const char *name = NULL;
    json_t *records = NULL;
    errmsg_t err;
    size_t len;
    bool array;

    if (flux_stream_get(cat->s, rank, var, &data, &len, &err) < 0)
        return cmd_error(cat->c, "%s", err.text);
    if (cat->raw)
        return fwrite(data, 1, len, stdout) == len
                   ? CMD_OK
                   : cmd_error(cat->c, "standard output: %s", strerror(errno));
    array = flux_stream_inquire(cat->s, rank, var, &in, &err) == 0;
    if (!array && errno != ENOENT)
        return cmd_error(cat->c, "%s", err.text);
    if (array && in.format > 0 && cat->var && !(records = cat_records(cat, rank, var, &name)))
        return CMD_FAIL;
    if (cat->json) {
        json_t *o = json_pack("{s:I s:i s:s s:I}", "step", (json_int_t)step, "rank", (int)rank,
                              "name", var, "bytes", (json_int_t)len);

        if (array)
            json_object_update_new(o, json_pack("{s:s s:o s:o s:o}", "type", in.type, "shape",
                                                json_numbers(in.shape, in.ndims), "offset",
                                                json_numbers(in.offset, in.ndims), "count",
                                                json_numbers(in.count, in.ndims)));
        if (array && in.format > 0)
            cat_format(o, in.format, name);
        if (records)
            json_object_set_new(o, "values", records);
        return cat_json(cat, o);
    }
    printf("%" PRIu64 "\t%u\t%s\t%zu", step, rank, var, len);
    if (array) {
        printf("\t%s", in.type);
        print_numbers("[", in.count, in.ndims, "]");
        if (in.global) {
            print_numbers(" at ", in.offset, in.ndims, "");
            print_numbers(" of ", in.shape, in.ndims, "");
        }
    }
    if (records) {
        putchar('\t');
        json_dumpf(records, stdout, JSON_COMPACT);
        json_decref(records);
    }
    putchar('\n');
    return CMD_OK;
}

/* Print the elements of a box. */
static int slice_print(struct cat *cat, uint64_t step, const struct flux_stream_info *in,
                       const struct slice *sl, const char *box)
{
    json_t *values;

    if (cat->raw)
        return fwrite(box, in->elem, sl->elems, stdout) == sl->elems
                   ? CMD_OK
                   : cmd_error(cat->c, "standard output: %s", strerror(errno));
    if (!cat->json) {
        printf("%" PRIu64, step);
        for (uint64_t i = 0; i < sl->elems; i++) {
            json_t *o = slice_element(in->type, box + i * in->elem);

            putchar(i > 0 ? ' ' : '\t');
            json_dumpf(o, stdout, JSON_ENCODE_ANY | JSON_COMPACT);
            json_decref(o);
        }
        putchar('\n');
        return CMD_OK;
    }
    values = json_array();
    for (uint64_t i = 0; i < sl->elems; i++)
        json_array_append_new(values, slice_element(in->type, box + i * in->elem));
    return cat_json(cat, json_pack("{s:I s:s s:s s:o s:o}", "step", (json_int_t)step, "name",
                                   cat->var, "type", in->type, "count",
                                   json_numbers(sl->count, in->ndims), "values", values));
}

/* Print the records of a box. */
static int slice_records(struct cat *cat, uint64_t step, const struct slice *sl)
{
    const stream_format_t *f;
    stream_format_t *mine = NULL;
    json_t *values = json_array();
    char *box = NULL;
    errmsg_t err = {"out of memory"};
    size_t size = 0;
    int rc;

    if ((f = flux_stream_format(cat->s, cat->var, &err)) &&
        (mine = stream_format_native(f, &err)) &&
        (box = calloc(sl->elems + 1, size = stream_format_size(mine))) &&
        flux_stream_get_record_box(cat->s, cat->var, sl->start, sl->count, sl->stride, mine, box,
                                   sl->elems * size, &err) == 0) {
        for (uint64_t i = 0; i < sl->elems; i++)
            json_array_append_new(values, record_json(mine, box + i * size));
        rc = cat_json(cat, json_pack("{s:I s:s s:s s:O}", "step", (json_int_t)step, "name",
                                     cat->var, "format", stream_format_name(f), "values", values));
    } else
        rc = cmd_error(cat->c, "%s", err.text);
    json_decref(values);
    free(box);
    stream_format_destroy(mine);
    return rc;
}

static int cat_slice(struct cat *cat, uint64_t step)
{
    struct flux_stream_info in;
    struct slice sl;
    errmsg_t err;
    char *box;
    int rc;

    if (flux_stream_inquire(cat->s, FLUX_STREAM_ALL, cat->var, &in, &err) < 0)
        return cmd_error(cat->c, "%s", err.text);
    if (slice_parse(&sl, cat->slice, &in, &err) < 0)
        return cmd_error(cat->c, "%s: variable '%s' in step %" PRIu64 ": %s", cat->name, cat->var,
                         step, err.text);
    if (in.format > 0 && !cat->raw)
        return slice_records(cat, step, &sl);
    if (!(box = calloc(sl.elems, in.elem)))
        return cmd_error(cat->c, "out of memory for %" PRIu64 " elements", sl.elems);
    if (flux_stream_get_box(cat->s, cat->var, sl.start, sl.count, sl.stride, box,
                            sl.elems * in.elem, &err) < 0)
        rc = cmd_error(cat->c, "%s", err.text);
    else
        rc = slice_print(cat, step, &in, &sl, box);
    free(box);
    return rc;
}

typedef const char *(*names_f)(flux_stream_t *s, uint32_t writer, size_t i);

/* Print those of these variables that were asked for, and how many. */
static int cat_vars(struct cat *cat, uint64_t step, uint32_t rank, names_f names, size_t *n)
{
    const char *var;
    int rc = CMD_OK;

    for (size_t i = 0; rc == CMD_OK && (var = names(cat->s, rank, i)); i++) {
        if (cat->var && strcmp(var, cat->var) != 0)
            continue;
        rc = cat_var(cat, step, rank, var);
        ++*n;
    }
    return rc;
}

static int cat_step(struct cat *cat, uint64_t step)
{
    int rc = cat->slice ? cat_slice(cat, step) : CMD_OK;

    for (uint32_t rank = 0; !cat->slice && rc == CMD_OK && rank < flux_stream_writers(cat->s);
         rank++) {
        size_t n = 0;

        rc = cat_vars(cat, step, rank, flux_stream_var, &n);
        if (rc == CMD_OK && cat->var && n == 0) /* it may be pinned, and from an earlier step */
            rc = cat_vars(cat, step, rank, flux_stream_pinned, &n);
    }
    if (rc == CMD_OK && fflush(stdout) != 0)
        rc = cmd_error(cat->c, "standard output: %s", strerror(errno));
    return rc;
}

static int cat_run(struct cat *cat, uint32_t count, double timeout)
{
    errmsg_t err;
    uint64_t step;
    int rc = CMD_OK;

    for (uint32_t n = 1; rc == CMD_OK; n++) {
        int got = flux_stream_begin_step(cat->s, FLUX_STREAM_NEXT, timeout, &step, &err);

        if (got < 0)
            return cmd_error(cat->c, "%s", err.text);
        if (got == 0)
            break;
        rc = cat_step(cat, step);
        flux_stream_end_step(cat->s, 0., NULL);
        if (n == count)
            break;
    }
    return rc;
}

static int cmd_cat(struct cmd *c, int argc, char **argv)
{
    struct cat cat = {.c = c};
    struct flux_stream_opts opts = {.timeout = -1.};
    double timeout = -1.;
    uint32_t count = 0;
    bool file = false;
    const char *val;
    errmsg_t err;
    flux_t *h = NULL;
    int key;
    int rc;

    while ((key = cmd_option(c, &cat_usage, argc, argv, &val)) > 0) {
        switch (key) {
        case 'c':
            if (cmd_parse_u32(c, "--count", val, &count) < 0)
                return CMD_USAGE;
            break;
        case 't':
            if (cmd_parse_duration(c, "--timeout", val, &timeout) < 0)
                return CMD_USAGE;
            opts.timeout = timeout > 0. ? timeout : 1e-3;
            break;
        case 'v':
            cat.var = val;
            break;
        case 's':
            cat.slice = val;
            break;
        case 'p':
            opts.policy = val;
            break;
        case 'g':
            opts.group = val;
            break;
        case 'k':
            opts.key = val;
            break;
        case 'T':
            opts.transforms = val;
            break;
        case 'S':
            opts.onoff = val;
            break;
        case 'K':
            opts.stay = true;
            break;
        case 'r':
            cat.raw = true;
            break;
        case 'f':
            file = true;
            break;
        default:
            cat.json = true;
        }
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (argc - c->optind != 1)
        return cmd_usage_error(c, "one NAME is required");
    if (cat.slice && !cat.var)
        return cmd_usage_error(c, "--slice needs --var");
    if (cat.raw && cat.json)
        return cmd_usage_error(c, "--raw and --json exclude each other");
    if (file && opts.transforms)
        return cmd_usage_error(c, "--file and --transforms exclude each other");
    if (!file && !(h = cmd_handle(c)))
        return CMD_FAIL;
    cat.name = argv[c->optind];
    cat.s = file ? flux_stream_open_file(argv[c->optind], &err)
                 : flux_stream_open(h, argv[c->optind], FLUX_STREAM_READ, &opts, &err);
    if (!cat.s)
        return cmd_error(c, "%s", err.text);
    rc = cat_run(&cat, count, timeout);
    flux_stream_close(cat.s);
    return rc;
}

/* --- format, rm --- */

static const struct cmd_usage format_usage = {
    "NAME",
    "Print what the writers of a stream say about its variables, and the canonical text of each\n"
    "format of its records, after its id.",
    NULL,
    NULL,
    0,
};

/* Print the format of records with this id. */
static int format_print(struct cmd *c, const char *stream, const char *id)
{
    struct stream_ask_format in = {stream, id};
    flux_future_t *f = flux_rpc_struct(cmd_handle(c), "stream.format", &stream_ask_format_schema,
                                       &in, FLUX_NODEID_ANY, 0);
    struct stream_text text;
    int rc = cmd_wait_struct(c, f, TIMEOUT, "stream.format", &stream_text_schema, &text);

    if (rc == 0)
        printf("%s:\n%s", id, text.format);
    flux_future_destroy(f);
    return rc < 0 ? CMD_FAIL : CMD_OK;
}

static int cmd_format(struct cmd *c, int argc, char **argv)
{
    struct stream_ask_format in = {.id = NULL};
    struct stream_text text = {.ids = NULL};
    const char *val;
    flux_future_t *f;
    json_t *id;
    flux_t *h;
    size_t i;
    int key;
    int rc;

    if ((key = cmd_option(c, &format_usage, argc, argv, &val)) != 0)
        return cmd_option_exit(key);
    if (argc - c->optind != 1)
        return cmd_usage_error(c, "one NAME is required");
    in.name = argv[c->optind];
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    f = flux_rpc_struct(h, "stream.format", &stream_ask_format_schema, &in, FLUX_NODEID_ANY,
                        FLUX_MSGF_IDEMPOTENT);
    rc = cmd_wait_struct(c, f, TIMEOUT, "stream.format", &stream_text_schema, &text);
    if (rc == 0 && *text.format)
        puts(text.format);
    json_array_foreach(text.ids, i, id)
    {
        if (rc == 0 && json_is_string(id))
            rc = format_print(c, in.name, json_string_value(id));
    }
    flux_future_destroy(f);
    return rc < 0 ? CMD_FAIL : rc;
}

static const struct cmd_usage rm_usage = {
    "NAME",
    "End a stream: its readers get the steps that have been written, and the end; its writers an\n"
    "error with one of their next steps.",
    NULL,
    NULL,
    0,
};

static int cmd_rm(struct cmd *c, int argc, char **argv)
{
    struct stream_name in;
    const char *val;
    int key;

    if ((key = cmd_option(c, &rm_usage, argc, argv, &val)) != 0)
        return cmd_option_exit(key);
    if (argc - c->optind != 1)
        return cmd_usage_error(c, "one NAME is required");
    in.name = argv[c->optind];
    return act(c, "stream.remove", &stream_name_schema, &in);
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

static int cmd_readers(struct cmd *c, int argc, char **argv)
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

/* --- policy, switch --- */

static const struct cmd_usage policy_usage = {
    "NAME READER POLICY",
    "Change the policy of a running reader: what happens to a step when its queue is full.\n"
    "'flux stream readers' prints the number READER; POLICY is as for 'flux stream cat'.",
    NULL,
    NULL,
    0,
};

static int cmd_policy(struct cmd *c, int argc, char **argv)
{
    struct stream_policy in;
    const char *val;
    int key;

    if ((key = cmd_option(c, &policy_usage, argc, argv, &val)) != 0)
        return cmd_option_exit(key);
    argv += c->optind;
    if (argc - c->optind != 3)
        return cmd_usage_error(c, "NAME, READER and POLICY are required");
    if (cmd_parse_u64(c, "READER", argv[1], &in.reader) < 0)
        return CMD_USAGE;
    in.name = argv[0];
    in.policy = argv[2];
    return act(c, "stream.policy", &stream_policy_schema, &in);
}

static const struct cmd_usage switch_usage = {
    "SWITCH on|off",
    "Turn on or off all readers, of all streams, that have named this switch.",
    NULL,
    NULL,
    0,
};

static int cmd_switch(struct cmd *c, int argc, char **argv)
{
    const char *val;
    errmsg_t err;
    bool on;
    flux_t *h;
    int key;

    if ((key = cmd_option(c, &switch_usage, argc, argv, &val)) != 0)
        return cmd_option_exit(key);
    argv += c->optind;
    if (argc - c->optind != 2 || str2bool(argv[1], &on) < 0)
        return cmd_usage_error(c, "the name of a switch, and on or off, are required");
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    if (flux_stream_switch(h, argv[0], on, &err) < 0)
        return cmd_error(c, "%s", err.text);
    return CMD_OK;
}

/* --- pause, resume, throttle --- */

static const struct cmd_usage pause_usage = {
    "NAME", "Pause a stream: its writers wait at the end of their next step until it is resumed.",
    NULL,   NULL,
    0,
};
static const struct cmd_usage resume_usage = {
    "NAME", "Resume a paused stream: its writers continue.", NULL, NULL, 0,
};

static int pause_or_resume(struct cmd *c, const struct cmd_usage *usage, bool paused, int argc,
                           char **argv)
{
    struct stream_pause in = {.paused = paused};
    const char *val;
    int key;

    if ((key = cmd_option(c, usage, argc, argv, &val)) != 0)
        return cmd_option_exit(key);
    if (argc - c->optind != 1)
        return cmd_usage_error(c, "one NAME is required");
    in.name = argv[c->optind];
    return act(c, "stream.pause", &stream_pause_schema, &in);
}

static int cmd_pause(struct cmd *c, int argc, char **argv)
{
    return pause_or_resume(c, &pause_usage, true, argc, argv);
}

static int cmd_resume(struct cmd *c, int argc, char **argv)
{
    return pause_or_resume(c, &resume_usage, false, argc, argv);
}

static const struct cmd_usage throttle_usage = {
    "NAME RATE", "Limit each writer of a stream to RATE steps per second; none removes the limit.",
    NULL,        NULL,
    0,
};

static int cmd_throttle(struct cmd *c, int argc, char **argv)
{
    struct stream_throttle in = {0};
    const char *val;
    int key;

    if ((key = cmd_option(c, &throttle_usage, argc, argv, &val)) != 0)
        return cmd_option_exit(key);
    argv += c->optind;
    if (argc - c->optind != 2)
        return cmd_usage_error(c, "NAME and RATE are required");
    in.name = argv[0];
    if (strcmp(argv[1], "none") != 0 && transfer_rate(argv[1], &in.limit) < 0)
        return cmd_usage_error(c, "RATE is a number of steps a second above 0, or none");
    return act(c, "stream.throttle", &stream_throttle_schema, &in);
}

static const struct cmd_sub subs[] = {
    {"ls", cmd_ls, "[OPTION...] [NAME]", "list streams"},
    {"cat", cmd_cat, "[OPTION...] NAME", "read a stream and print what is in it"},
    {"record", transfer_record, "[OPTION...] NAME FILE", "write the steps of a stream to a file"},
    {"replay", transfer_replay, "[OPTION...] FILE", "write a stream with the steps of a file"},
    {"tee", transfer_tee, "[OPTION...] NAME NEW", "write another stream with the same steps"},
    {"export", stream_export, "[OPTION...] NAME", "let a stream be read in another session"},
    {"stat", cmd_stat, "[OPTION...] NAME", "print the counters of a stream repeatedly"},
    {"format", cmd_format, "NAME", "print the types and formats of the variables of a stream"},
    {"transform", filter_transform, "[OPTION...] IN [IN...] --out=NAME",
     "transform the steps of streams, and write a stream of the results"},
    {"readers", cmd_readers, "[OPTION...] NAME", "list the readers of a stream"},
    {"policy", cmd_policy, "NAME READER POLICY", "change the policy of a reader"},
    {"switch", cmd_switch, "SWITCH on|off", "turn readers on or off"},
    {"pause", cmd_pause, "NAME", "make the writers of a stream wait"},
    {"resume", cmd_resume, "NAME", "let the writers of a paused stream continue"},
    {"throttle", cmd_throttle, "NAME RATE", "limit each writer to RATE steps per second"},
    {"rm", cmd_rm, "NAME", "end a stream"},
    {"relay", stream_relay, "[OPTION...]",
     "carry streams between this host and each other one by one connection"},
    CMD_SUB_END,
};

static int stream(struct cmd *c, int argc, char **argv)
{
    return cmd_subcommand(c,
                          "Streams carry steps of data from programs to other programs while both "
                          "run.",
                          subs, argc, argv);
}

int main(int argc, char **argv)
{
    return cmd_run("stream", stream, argc, argv);
}
