/* describe.c - flux stream format: what the variables of a stream are.
 *
 * The session knows what the writers have defined, and the formats of records.  If it knows neither
 * of a stream, this command reads the newest step, as a reader that delays nobody, and takes
 * together what the writers say there about each variable.  A writer that waits for its first
 * readers would count this one, and its first steps would be lost to those it waits for: so a
 * stream is not joined before its first step was reported.  The policy keeps the steps of a writer
 * that is ahead until the others have them too; "latest" would drop each of them in turn.
 *
 * Failure: an error message and exit code 1.
 */
#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libstream/stream.h"
#include "libstream/stream_wire.h"
#include "describe.h"
#include "libutil/strbuf.h"
#include "list.h"
#include "opts.h"
#include "slice.h"

#define TIMEOUT 60.

static const struct cmd_opt format_opts[] = {
    STREAM_OPT_TIMEOUT,
    {'j', "json", NULL, "print JSON"},
    CMD_OPT_END,
};
static const struct cmd_usage format_usage = {
    "[OPTION...] NAME",
    "Print what the writers of a stream say about its variables, and the canonical text of each\n"
    "format of its records, after its id.  If they have defined nothing, list the variables of "
    "the\n"
    "newest step: type, shape, number of writers, and attributes.",
    format_opts,
    NULL,
    0,
};

/* --- what the session knows --- */

/* Add the format of records with this id to a list of formats.  0, or -1 after an error message. */
static int format_add(struct cmd *c, const char *stream, const char *id, json_t *formats)
{
    struct stream_ask_format in = {stream, id};
    flux_future_t *f = flux_rpc_struct(cmd_handle(c), "stream.format", &stream_ask_format_schema,
                                       &in, FLUX_NODEID_ANY, FLUX_MSGF_IDEMPOTENT);
    struct stream_text text;
    int rc = cmd_wait_struct(c, f, TIMEOUT, "stream.format", &stream_text_schema, &text);

    if (rc == 0 &&
        json_array_append_new(formats, json_pack("{s:s s:s}", "id", id, "text", text.format)) < 0) {
        cmd_error(c, "out of memory");
        rc = -1;
    }
    flux_future_destroy(f);
    return rc;
}

static int known_print(struct cmd *c, const char *name, const struct stream_text *text, bool json)
{
    json_t *formats = json_array();
    const char *id, *format;
    json_t *one;
    size_t i;
    int rc = formats ? 0 : -1;

    if (!formats)
        cmd_error(c, "out of memory");
    json_array_foreach(text->ids, i, one)
    {
        if (rc == 0 && json_is_string(one))
            rc = format_add(c, name, json_string_value(one), formats);
    }
    if (rc == 0 && json)
        rc = cmd_print_json(c, json_pack("{s:s s:s s:O}", "name", name, "definition", text->format,
                                         "formats", formats));
    else if (rc == 0) {
        if (*text->format)
            puts(text->format);
        json_array_foreach(formats, i, one)
        {
            if (json_unpack(one, "{s:s s:s}", "id", &id, "text", &format) == 0)
                printf("%s:\n%s", id, format);
        }
    }
    json_decref(formats);
    return rc < 0 ? CMD_FAIL : rc;
}

/* --- what a step says --- */

/* Sizes that differ among the writers are null. */
static int shape_join(json_t *shape, const uint64_t *n)
{
    json_t *size;
    size_t i;

    json_array_foreach(shape, i, size)
    {
        if (json_is_integer(size) && (uint64_t)json_integer_value(size) != n[i] &&
            json_array_set_new(shape, i, json_null()) < 0)
            return -1;
    }
    return 0;
}

static json_t *shape_new(const uint64_t *n, unsigned ndims)
{
    json_t *shape = json_array();

    for (unsigned i = 0; i < ndims; i++)
        json_array_append_new(shape, json_integer((json_int_t)n[i]));
    return shape;
}

/* Add what a writer says about a variable.  What writers describe in different ways is listed once
 * for each.  0, or -1 with an error message. */
static int var_add(json_t *vars, flux_stream_t *s, uint32_t rank, const char *name, errmsg_t *err)
{
    struct flux_stream_info in = {.type = "bytes"};
    bool array = flux_stream_inquire(s, rank, name, &in, err) == 0;
    const uint64_t *n = in.global ? in.shape : in.count;
    char key[256]; /* of a name, which has no blanks, and a type */
    json_t *v;

    if (!array && errno != ENOENT)
        return -1;
    snprintf(key, sizeof(key), "%s %s %u %d %d", name, in.type, in.ndims, in.global, array);
    if (!(v = json_object_get(vars, key))) {
        v = json_pack("{s:s s:s s:o s:b s:i}", "name", name, "type", in.type, "shape",
                      array ? shape_new(n, in.ndims) : json_null(), "global", in.global, "writers",
                      0);
        if (json_object_set_new(vars, key, v) < 0)
            return errmsg_fail(err, ENOMEM, "out of memory");
    }
    if (shape_join(json_object_get(v, "shape"), n) < 0 ||
        json_object_set_new(
            v, "writers", json_integer(json_integer_value(json_object_get(v, "writers")) + 1)) < 0)
        return errmsg_fail(err, ENOMEM, "out of memory");
    return 0;
}

/* The value of an attribute; NULL without memory, or if it cannot be had. */
static json_t *attr_value(flux_stream_t *s, uint32_t rank, const char *key)
{
    struct flux_stream_info in = {.type = "bytes"};
    json_t *list = NULL;
    const char *data;
    const void *at;
    size_t len;

    if (flux_stream_get(s, rank, key, &at, &len, NULL) < 0)
        return NULL;
    data = at;
    if (flux_stream_inquire(s, rank, key, &in, NULL) < 0 || strcmp(in.type, "char") == 0 ||
        strcmp(in.type, "bytes") == 0 || in.format > 0)
        return in.format > 0 ? json_null() : json_stringn(data, len);
    if (in.ndims == 0)
        return slice_element(in.type, data);
    list = json_array();
    for (size_t off = 0; off + in.elem <= len; off += in.elem)
        json_array_append_new(list, slice_element(in.type, data + off));
    return list;
}

/* Add an attribute, "@VARIABLE/NAME" or "@NAME", of the first writer that has it.  0, or -1 with an
 * error message. */
static int attr_add(json_t *attrs, flux_stream_t *s, uint32_t rank, const char *key, errmsg_t *err)
{
    const char *slash = strrchr(key, '/');
    const char *name = slash ? slash + 1 : key + 1;
    char var[256] = "";
    json_t *of;

    if (slash)
        snprintf(var, sizeof(var), "%.*s", (int)(slash - key - 1), key + 1);
    if (!(of = json_object_get(attrs, var)) &&
        (!(of = json_object()) || json_object_set_new(attrs, var, of) < 0))
        return errmsg_fail(err, ENOMEM, "out of memory");
    if (!json_object_get(of, name)) {
        json_t *value = attr_value(s, rank, key);

        json_object_set_new(of, name, value ? value : json_null());
    }
    return 0;
}

typedef const char *(*names_f)(flux_stream_t *s, uint32_t writer, size_t i);

static int names_add(json_t *vars, json_t *attrs, flux_stream_t *s, uint32_t rank, names_f names,
                     errmsg_t *err)
{
    const char *name;

    for (size_t i = 0; (name = names(s, rank, i)); i++) {
        if ((name[0] == '@' ? attr_add(attrs, s, rank, name, err)
                            : var_add(vars, s, rank, name, err)) < 0)
            return -1;
    }
    return 0;
}

/* The variables of the step, and in *attrs the attributes of the stream.  0, or -1 with an error
 * message. */
static int step_vars(json_t *vars, json_t *attrs, flux_stream_t *s, errmsg_t *err)
{
    const char *key;
    json_t *v;

    for (uint32_t rank = 0; rank < flux_stream_writers(s); rank++) {
        if (names_add(vars, attrs, s, rank, flux_stream_var, err) < 0 ||
            names_add(vars, attrs, s, rank, flux_stream_pinned, err) < 0)
            return -1;
    }
    json_object_foreach(vars, key, v)
    {
        const char *name = json_string_value(json_object_get(v, "name"));
        json_t *own = json_object_get(attrs, name);

        if (json_object_set_new(v, "attributes", own ? json_incref(own) : json_object()) < 0)
            return errmsg_fail(err, ENOMEM, "out of memory");
    }
    return 0;
}

/* Attributes for people, such as units="K"; an empty text without any.  To be freed. */
static char *attrs_text(json_t *attrs)
{
    strbuf_t *sb = strbuf_create(SIZE_MAX);
    const char *name;
    json_t *value;

    json_object_foreach(attrs, name, value)
    {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

        strbuf_addf(sb, "%s%s=%s", sb && strbuf_len(sb) > 0 ? " " : "", name, text ? text : "");
        free(text);
    }
    return strbuf_take(sb);
}

static void shape_cell(table_t *t, json_t *shape)
{
    char text[FLUX_STREAM_DIMS_MAX * 22 + 3] = "";
    json_t *size;
    size_t i, n = 1;

    if (!json_is_array(shape)) {
        table_null(t);
        return;
    }
    text[0] = '[';
    json_array_foreach(shape, i, size)
    {
        const char *comma = i > 0 ? "," : "";

        if (json_is_integer(size))
            n += (size_t)sprintf(text + n, "%s%" JSON_INTEGER_FORMAT, comma,
                                 json_integer_value(size));
        else
            n += (size_t)sprintf(text + n, "%s?", comma);
    }
    strcpy(text + n, "]");
    table_cell(t, json_incref(shape), text);
}

static int vars_print(struct cmd *c, json_t *vars, json_t *attrs)
{
    table_t *t = table_create();
    const char *key;
    char *text;
    json_t *v;

    table_column(t, "name", "VARIABLE", TABLE_LEFT);
    table_column(t, "type", "TYPE", TABLE_LEFT);
    table_column(t, "shape", "SHAPE", TABLE_LEFT);
    table_column(t, "global", "GLOBAL", TABLE_LEFT);
    table_column(t, "writers", "WRITERS", TABLE_RIGHT);
    table_column(t, "attributes", "ATTRIBUTES", TABLE_LEFT);
    json_object_foreach(vars, key, v)
    {
        bool global = json_is_true(json_object_get(v, "global"));

        table_row(t);
        table_str(t, json_string_value(json_object_get(v, "name")));
        table_str(t, json_string_value(json_object_get(v, "type")));
        shape_cell(t, json_object_get(v, "shape"));
        table_cell(t, json_boolean(global), global ? "yes" : "no");
        table_i64(t, json_integer_value(json_object_get(v, "writers")));
        text = attrs_text(json_object_get(v, "attributes"));
        table_cell(t, json_incref(json_object_get(v, "attributes")), text && *text ? text : "-");
        free(text);
    }
    if ((text = attrs_text(attrs)) && *text)
        printf("%s\n", text);
    free(text);
    return cmd_print_table(c, t, false);
}

static int vars_print_json(struct cmd *c, const char *name, uint64_t step, json_t *vars,
                           json_t *attrs)
{
    json_t *list = json_array();
    const char *key;
    json_t *v;

    json_object_foreach(vars, key, v) json_array_append(list, v);
    return cmd_print_json(c, json_pack("{s:s s:I s:o s:o}", "name", name, "step", (json_int_t)step,
                                       "attributes", attrs ? json_incref(attrs) : json_object(),
                                       "variables", list));
}

static int step_print(struct cmd *c, const char *name, double timeout, bool json)
{
    struct flux_stream_opts opts = {.policy = "drop-newest", .timeout = timeout};
    json_t *vars = json_object();
    json_t *attrs = json_object();
    flux_stream_t *s = NULL;
    errmsg_t err = {"out of memory"};
    uint64_t step;
    int got = -1;
    int rc;

    if (vars && attrs &&
        (s = flux_stream_open(cmd_handle(c), name, FLUX_STREAM_READ, &opts, &err)) &&
        (got = flux_stream_begin_step(s, FLUX_STREAM_NEWEST, timeout, &step, &err)) == 1)
        got = step_vars(vars, attrs, s, &err) < 0 ? -1 : 1;
    flux_stream_close(s);
    if (got < 0)
        rc = cmd_error(c, "%s", err.text);
    else if (got == 0)
        rc = cmd_error(c, "stream '%s' has ended without another step", name);
    else
        rc = json ? vars_print_json(c, name, step, vars, json_object_get(attrs, ""))
                  : vars_print(c, vars, json_object_get(attrs, ""));
    json_decref(attrs);
    json_decref(vars);
    return rc;
}

int stream_describe(struct cmd *c, int argc, char **argv)
{
    struct stream_ask_format in = {.id = NULL};
    struct stream_text text = {.ids = NULL};
    double timeout = -1.;
    bool json = false;
    uint64_t step;
    const char *val;
    flux_future_t *f;
    flux_t *h;
    int key;
    int rc;

    while ((key = cmd_option(c, &format_usage, argc, argv, &val)) > 0) {
        if (key == 'j')
            json = true;
        else if (cmd_parse_duration(c, "--timeout", val, &timeout) < 0)
            return CMD_USAGE;
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (argc - c->optind != 1)
        return cmd_usage_error(c, "one NAME is required");
    in.name = argv[c->optind];
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    f = flux_rpc_struct(h, "stream.format", &stream_ask_format_schema, &in, FLUX_NODEID_ANY,
                        FLUX_MSGF_IDEMPOTENT);
    if (f && flux_future_wait(f, TIMEOUT) == 0 && flux_future_errnum(f) == ENODATA) {
        rc = stream_list_step(c, in.name, &step);
        if (rc == CMD_OK && step == 0)
            rc = cmd_error(c,
                           "the writers of stream '%s' have defined nothing, and have not reported "
                           "a step yet: try again after their next step",
                           in.name);
        else if (rc == CMD_OK)
            rc = step_print(c, in.name, timeout == 0. ? 1e-3 : timeout, json);
    } else if (cmd_wait_struct(c, f, TIMEOUT, "stream.format", &stream_text_schema, &text) < 0)
        rc = CMD_FAIL;
    else
        rc = known_print(c, in.name, &text, json);
    flux_future_destroy(f);
    return rc;
}
