/* cat.c - flux stream cat: the variables of each step, in lines, as JSON or as they are.
 *
 * It is a reader like any other, or reads a file that was recorded.
 *
 * Failure: an error message and exit code 1.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libstream/knock.h"
#include "libstream/stream.h"
#include "libstream/stream_wire.h"
#include "cat.h"
#include "opts.h"
#include "record_json.h"
#include "slice.h"

static const struct cmd_opt cat_opts[] = {
    STREAM_OPT_COUNT,
    {'v', "var", "NAME", "only the variable NAME"},
    {'s', "slice", "SLICE",
     "with --var: print the elements of a part of a global array: for each\n"
     "dimension I, FROM:TO, FROM:TO:STRIDE or :, separated by commas"},
    STREAM_OPT_POLICY,
    {'g', "group", "NAME", "share the steps with the other members of a group"},
    {'k', "key", "VAR",
     "with --group: steps with equal values of VAR one after the other; with\n"
     "--by=record VAR is a field, and it is records with equal values"},
    {'b', "by", "WHAT",
     "with --group: what the members share: step (default), or record: print\n"
     "only the records of --var that are this member's"},
    STREAM_OPT_TIMEOUT,
    {'T', "transforms", "FILES",
     "transform the steps by files in Lua (*.lua) and shared objects\n"
     "(FILE[:ARG]), separated by '|'"},
    {'J', "join", "NAME",
     "read the steps that this stream has too: it is the second input of the\n"
     "transforms"},
    {'S', "switch", "SWITCH", "read only while 'flux stream switch' has turned this on"},
    STREAM_OPT_STAY,
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
    bool found;        /* a step had the variable */
    const char *var;   /* NULL: all */
    const char *slice; /* NULL: none */
    bool raw;
    bool json;
    bool divided; /* only some records are this member's */
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

/* The records of a writer that are for this reader as a list of JSON objects: NULL after an error
 * message. */
static json_t *cat_records(struct cat *cat, uint32_t rank, const char *var, const char **name)
{
    const struct flux_stream_range *own;
    size_t nranges;
    const stream_format_t *f;
    stream_format_t *mine = NULL;
    json_t *list = NULL;
    const char *recs;
    errmsg_t err;
    size_t n;

    if (!(f = flux_stream_format(cat->s, var, &err)) || !(mine = stream_format_native(f, &err)) ||
        flux_stream_get_records(cat->s, rank, var, mine, (const void **)&recs, &n, &err) < 0 ||
        flux_stream_mine(cat->s, rank, var, &own, &nranges, &err) < 0)
        cmd_error(cat->c, "%s", err.text);
    else if (!(list = json_array()))
        cmd_error(cat->c, "out of memory");
    else {
        *name = stream_format_name(f);
        for (size_t k = 0; k < nranges; k++) {
            for (size_t i = own[k].start; i < own[k].start + own[k].count && i < n; i++)
                json_array_append_new(list, record_json(mine, recs + i * stream_format_size(mine)));
        }
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
    if (cat->divided && (!array || in.format == 0))
        return cmd_error(cat->c, "variable '%s' in step %" PRIu64 " does not have records", var,
                         step);
    if (array && in.format > 0 && cat->var && !(records = cat_records(cat, rank, var, &name)))
        return CMD_FAIL;
    if (cat->json) {
        json_t *o = json_pack("{s:I s:i s:s s:I}", "step", (json_int_t)step, "rank", (int)rank,
                              "name", var, "bytes", (json_int_t)len);

        if (array)
            json_object_update_new(o,
                                   json_pack("{s:s s:b s:o s:o s:o}", "type", in.type, "global",
                                             in.global, "shape", json_numbers(in.shape, in.ndims),
                                             "offset", json_numbers(in.offset, in.ndims), "count",
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
        cat->found = true;
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
    if (rc == CMD_OK && cat->var && !cat->found && !cat->slice)
        return cmd_error(cat->c, "no step of stream '%s' had a variable '%s'", cat->name, cat->var);
    return rc;
}

int stream_cat(struct cmd *c, int argc, char **argv)
{
    struct cat cat = {.c = c};
    struct flux_stream_opts opts = {.timeout = -1.};
    struct knock_want want;
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
        case 'b':
            opts.by = val;
            break;
        case 'T':
            opts.transforms = val;
            break;
        case 'J':
            opts.join = val;
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
    if ((opts.by || opts.key) && !opts.group)
        return cmd_usage_error(c, "--key and --by need --group");
    if (opts.by && knock_by_set(&want, opts.by, &err) < 0)
        return cmd_usage_error(c, "%s", err.text);
    cat.divided = opts.by && want.by_record;
    if (cat.divided && opts.stay)
        return cmd_usage_error(c, "--by=record excludes --stay: a restarted writer does not know "
                                  "which records are done; use --by=step");
    if (cat.divided && (!cat.var || cat.slice || cat.raw))
        return cmd_usage_error(c, "--by=record needs --var, and excludes --slice and --raw");
    if (cat.raw && cat.json)
        return cmd_usage_error(c, "--raw and --json exclude each other");
    if (opts.policy && knock_policy_parse(&want, opts.policy, &err) < 0)
        return cmd_usage_error(c, "%s", err.text);
    if (file && (opts.policy || opts.group || opts.onoff || opts.stay))
        return cmd_usage_error(c, "a file has no readers with a policy, a group or a switch, or "
                                  "that stay");
    if (file && (opts.transforms || opts.join))
        return cmd_usage_error(c, "--file excludes --transforms and --join");
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
