/* filter.c - flux stream transform: a process that reads streams and writes one.
 *
 * It reads the next step of each input.  With several inputs it takes the steps that all of them
 * have: those of equal numbers, found as a reader finds the steps that all writers have
 * (stream_reader.c); others are passed over.  A chain of transforms (chain.h) makes a step of the
 * output from them, which is a stream like any other, with steps numbered anew.
 *
 * Failure: a sentence that names the step, and exit code 1: the streams that it read go on without
 * it, and readers of the output are told that its writer has failed.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libstream/chain.h"
#include "libstream/stream.h"
#include "libutil/strutil.h"
#include "attach.h"
#include "filter.h"
#include "opts.h"

#define INPUTS_MAX 64

static const struct cmd_opt transform_opts[] = {
    {'o', "out", "NAME", "the stream that is written"},
    {'l', "lua", "FILE", "transform steps by a file in Lua"},
    {'x', "so", "FILE[:ARG]", "transform steps by a shared object"},
    STREAM_OPT_POLICY,
    {'g', "group", "NAME", "share the steps of one IN with the other members of a group"},
    {'k', "key", "VAR", "with --group: steps with equal values of VAR one after the other"},
    {'K', "keep", "N", "keep the last N steps of the output for readers that come later"},
    STREAM_OPT_START('A'),
    {'c', "count", "N", "stop after N steps of the input"},
    STREAM_OPT_TIMEOUT,
    {'a', "at", "WHERE",
     "attach the transforms to programs that run, in place of those that they have:\n"
     "to the writers of IN (writer), to all readers (readers), or to readers by\n"
     "number (N,...), job:ID,..., rank:RANKS, host:HOSTS or pid:PID,..."},
    {'d', "detach", NULL, "with --at: let them go on without transforms"},
    CMD_OPT_END,
};
static const struct cmd_usage transform_usage = {
    "[OPTION...] IN [IN...] --out=NAME|--at=WHERE",
    "Read streams, and write a stream of what transforms make of their steps, until one of them\n"
    "ends; or let programs that write or read a stream do this.  --lua and --so may be given\n"
    "several times: each gets what the one before has made.",
    transform_opts,
    NULL,
    0,
};

#define ADDED_MAX 16 /* a chain has no more */

/* A transform of the command line. */
struct added {
    bool lua;
    const char *spec;
};

struct filter {
    struct cmd *c;
    struct added added[ADDED_MAX];
    unsigned nadded;
    char *text; /* the chain, for another process; NULL: there are no transforms */
    stream_chain_t *t;
    flux_stream_t *in[INPUTS_MAX];
    const char *name[INPUTS_MAX];
    bool begun[INPUTS_MAX];
    unsigned ninputs;
    flux_stream_t *out;
    double timeout;
    void **owned; /* memory of kept arrays that several writers have */
    size_t nowned;
};

static void forget_owned(struct filter *f)
{
    while (f->nowned > 0)
        free(f->owned[--f->nowned]);
}

static void filter_close(struct filter *f, int rc)
{
    if (rc != CMD_OK)
        flux_stream_fail(f->out);
    flux_stream_close(f->out);
    for (unsigned i = 0; i < f->ninputs; i++)
        flux_stream_close(f->in[i]);
    stream_chain_destroy(f->t);
    forget_owned(f);
    free(f->owned);
    free(f->text);
}

/* Begin a step of an input, of at least number `least`.  1, 0 at the end, -1 with an error
 * message. */
static int input_begin(struct filter *f, unsigned i, uint64_t least, errmsg_t *err)
{
    while (!f->begun[i] || flux_stream_step(f->in[i]) < least) {
        int rc;

        if (f->begun[i])
            flux_stream_end_step(f->in[i], 0., NULL);
        f->begun[i] = false;
        if ((rc = flux_stream_begin_step(f->in[i], FLUX_STREAM_NEXT, f->timeout, NULL, err)) <= 0)
            return rc;
        f->begun[i] = true;
    }
    return 1;
}

/* Begin a step that all inputs have.  1 with its number, 0 at the end, -1 with an error message. */
static int filter_begin(struct filter *f, uint64_t *number, errmsg_t *err)
{
    unsigned same = 0; /* inputs, one after the other, that have begun this step */

    *number = 0;
    for (unsigned i = 0; same < f->ninputs; i = (i + 1) % f->ninputs) {
        int rc = input_begin(f, i, *number, err);

        if (rc <= 0)
            return rc;
        if (flux_stream_step(f->in[i]) > *number)
            same = 0;
        *number = flux_stream_step(f->in[i]);
        same++;
    }
    return 1;
}

static int publish(struct filter *f, const char *name, const struct flux_transform_array *from,
                   errmsg_t *err)
{
    static const uint64_t none[FLUX_STREAM_DIMS_MAX];
    struct flux_stream_array a = {.type = from->type,
                                  .ndims = from->ndims,
                                  .shape = from->ndims > 0 ? from->count : NULL,
                                  .offset = from->ndims > 0 ? none : NULL,
                                  .count = from->count,
                                  .columns = from->columns};

    if (from->format && !(a.format = stream_chain_format(f->t, from, err)))
        return -1;
    if (a.format && !stream_format_flat(a.format))
        a.shape = a.offset = NULL;
    if (strcmp(from->type, "bytes") == 0 && from->ndims == 1)
        return flux_stream_put(f->out, name, from->data, from->size, err);
    return flux_stream_put_array(f->out, name, &a, from->data, err);
}

/* Publish a variable of the first input as it is; an array that several writers have as a whole.
 * 0, or -1 with an error message. */
static int publish_kept(struct filter *f, const char *name, errmsg_t *err)
{
    struct stream_chain_input in = stream_chain_reader(f->in[0]);
    struct flux_transform_array a;
    void **more;

    if (flux_stream_writers(f->in[0]) == 1)
        return flux_stream_put_from(f->out, f->in[0], 0, name, err);
    if (!(more = realloc(f->owned, (f->nowned + 1) * sizeof(*more))))
        return errmsg_fail(err, ENOMEM, "out of memory for variable '%s'", name);
    f->owned = more;
    f->owned[f->nowned++] = NULL;
    if (in.ops->get(in.arg, name, FLUX_TRANSFORM_ALL, NULL, &a, &f->owned[f->nowned - 1], err) < 0)
        return -1;
    return publish(f, name, &a, err);
}

/* Put the result into a step of the output.  0, or -1 with an error message. */
static int publish_all(struct filter *f, errmsg_t *err)
{
    const struct flux_transform_array *a;
    const char *name;

    for (size_t i = 0; (a = stream_chain_made(f->t, i, &name)); i++) {
        if (publish(f, name, a, err) < 0)
            return -1;
    }
    for (uint32_t w = 0; w < flux_stream_writers(f->in[0]); w++) {
        for (size_t i = 0; (name = flux_stream_var(f->in[0], w, i)); i++) {
            /* Other writers may have pieces of what is published already. */
            if (stream_chain_keeps(f->t, name) && publish_kept(f, name, err) < 0 &&
                (w == 0 || errno != EEXIST))
                return -1;
        }
    }
    return 0;
}

static int filter_run(struct filter *f, uint32_t count)
{
    struct stream_chain_input in[INPUTS_MAX];
    uint64_t number;
    errmsg_t err;
    int rc;

    for (unsigned i = 0; i < f->ninputs; i++)
        in[i] = stream_chain_reader(f->in[i]);
    for (uint32_t n = 1; (rc = filter_begin(f, &number, &err)) == 1; n++) {
        if ((rc = stream_chain_run(f->t, in, f->ninputs, number, &err)) < 0 ||
            (rc == 1 && publish_all(f, &err) < 0))
            return cmd_error(f->c, "step %" PRIu64 " of stream '%s': %s", number, f->name[0],
                             err.text);
        if (rc == 1 && flux_stream_end_step(f->out, -1., &err) < 0)
            return cmd_error(f->c, "%s", err.text);
        forget_owned(f);
        for (unsigned i = 0; i < f->ninputs; i++) {
            flux_stream_end_step(f->in[i], 0., NULL);
            f->begun[i] = false;
        }
        if (n == count)
            return CMD_OK;
    }
    return rc < 0 ? cmd_error(f->c, "%s", err.text) : CMD_OK;
}

/* Load the transforms into this process. */
static int filter_load(struct filter *f)
{
    errmsg_t err;

    if (!(f->t = stream_chain_create(&err)))
        return cmd_error(f->c, "%s", err.text);
    for (unsigned i = 0; i < f->nadded; i++) {
        const struct added *a = &f->added[i];

        if ((a->lua ? stream_chain_add_lua : stream_chain_add)(f->t, a->spec, &err) < 0)
            return cmd_error(f->c, "%s", err.text);
    }
    return CMD_OK;
}

static int filter_open(struct filter *f, const char *out, char **names,
                       const struct flux_stream_opts *ropts, const struct flux_stream_opts *wopts)
{
    flux_t *h = cmd_handle(f->c);
    errmsg_t err;

    if (!h)
        return CMD_FAIL;
    /* First, so that its readers can come before the first step. */
    if (!(f->out = flux_stream_open(h, out, FLUX_STREAM_WRITE, wopts, &err)))
        return cmd_error(f->c, "%s", err.text);
    for (; names[f->ninputs]; f->ninputs++) {
        f->name[f->ninputs] = names[f->ninputs];
        if (!(f->in[f->ninputs] =
                  flux_stream_open(h, names[f->ninputs], FLUX_STREAM_READ, ropts, &err)))
            return cmd_error(f->c, "%s", err.text);
    }
    return CMD_OK;
}

/* Add a transform to the text.  Other processes have other directories: a relative name is that of
 * a file here, and becomes a path.  A path may be one that only their hosts have. */
static int text_add(struct filter *f, bool lua, const char *spec)
{
    const char *base = strrchr(spec, '/');
    const char *arg = lua ? NULL : strchr(base ? base : spec, ':');
    char *file = arg ? strndup(spec, (size_t)(arg - spec)) : strdup(spec);
    char *path = !file ? NULL : file[0] == '/' ? strdup(file) : realpath(file, NULL);
    char *more = NULL;
    int rc = CMD_OK;

    if (!path)
        rc = cmd_error(f->c, "%s: %s%s", spec, strerror(errno),
                       errno == ENOENT ? "; a file that only another host has is named by its "
                                         "whole path"
                                       : "");
    else if (strchr(path, '|') || (arg && strchr(arg, '|')) || str_ends(path, ".lua") != lua)
        rc =
            cmd_error(f->c,
                      "%s cannot be attached: '|' is between transforms, and the names of files in "
                      "Lua, and only these, end with .lua",
                      spec);
    else if (asprintf(&more, "%s%s%s%s", f->text ? f->text : "", f->text ? "|" : "", path,
                      arg ? arg : "") < 0) {
        more = NULL;
        rc = cmd_error(f->c, "out of memory");
    } else {
        free(f->text);
        f->text = more;
    }
    free(path);
    free(file);
    return rc;
}

/* Attach the transforms to writers or readers of a stream. */
static int filter_attach(struct filter *f, const char *name, const char *at)
{
    int rc = CMD_OK;

    for (unsigned i = 0; rc == CMD_OK && i < f->nadded; i++)
        rc = text_add(f, f->added[i].lua, f->added[i].spec);
    return rc == CMD_OK ? attach_transforms(f->c, name, at, f->text ? f->text : "") : rc;
}

int filter_transform(struct cmd *c, int argc, char **argv)
{
    struct filter f = {.c = c, .timeout = -1.};
    struct flux_stream_opts ropts = {.timeout = -1.};
    struct flux_stream_opts wopts = {.timeout = -1.};
    const char *out = NULL;
    const char *at = NULL;
    bool detach = false;
    uint32_t count = 0;
    const char *val;
    int rc = CMD_OK;
    int key = 0;

    while (rc == CMD_OK && (key = cmd_option(c, &transform_usage, argc, argv, &val)) > 0) {
        switch (key) {
        case 'o':
            out = val;
            break;
        case 'l':
        case 'x':
            if (f.nadded == ADDED_MAX)
                rc = cmd_error(c, "a chain has at most %d transforms", ADDED_MAX);
            else
                f.added[f.nadded++] = (struct added){key == 'l', val};
            break;
        case 'a':
            at = val;
            break;
        case 'd':
            detach = true;
            break;
        case 'p':
            ropts.policy = val;
            break;
        case 'g':
            ropts.group = val;
            break;
        case 'k':
            ropts.key = val;
            break;
        case 'K':
            if (cmd_parse_u32(c, "--keep", val, &wopts.keep) < 0)
                rc = CMD_USAGE;
            break;
        case 'A':
            wopts.start = "append";
            break;
        case 'N':
            wopts.start = "anew";
            break;
        case 'c':
            if (cmd_parse_u32(c, "--count", val, &count) < 0)
                rc = CMD_USAGE;
            break;
        default:
            if (cmd_parse_duration(c, "--timeout", val, &f.timeout) < 0)
                rc = CMD_USAGE;
            ropts.timeout = f.timeout > 0. ? f.timeout : 1e-3;
        }
    }
    if (rc == CMD_OK && key < 0)
        rc = cmd_option_exit(key);
    else if (rc == CMD_OK && (argc - c->optind < 1 || argc - c->optind > INPUTS_MAX))
        rc = cmd_usage_error(c, "one to %d streams IN are required", INPUTS_MAX);
    else if (rc == CMD_OK && (at || detach)) {
        if (!at || out || (f.nadded > 0) == detach || argc - c->optind != 1)
            rc = cmd_usage_error(c, "--at is for one IN, with --lua and --so, or --detach");
        else
            rc = filter_attach(&f, argv[c->optind], at);
    } else if (rc == CMD_OK && (!out || f.nadded == 0))
        rc = cmd_usage_error(c, out ? "--lua or --so is required" : "--out is required");
    else if (rc == CMD_OK && ropts.group && argc - c->optind > 1)
        rc = cmd_usage_error(c, "--group is for one IN");
    else if (rc == CMD_OK && ropts.key && !ropts.group)
        rc = cmd_usage_error(c, "--key needs --group");
    else if (rc == CMD_OK && (rc = filter_load(&f)) == CMD_OK &&
             (rc = filter_open(&f, out, argv + c->optind, &ropts, &wopts)) == CMD_OK)
        rc = filter_run(&f, count);
    filter_close(&f, rc);
    return rc;
}
