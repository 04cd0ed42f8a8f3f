/* check_jobspec.c - what is a jobspec, what is not, and that the error message names the path.
 *
 * The table `fields` has every field that a jobspec has at most, with the shapes that it may take;
 * a field is given every other shape there is, and the error message has to begin with the field's
 * path.
 */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "libjob/jobspec.h"
#include "libresource/rreq.h"
#include "libutil/test/suite.h"

/* Has every field there is. */
static const char whole[] =
    "{\"version\":1,"
    "\"resources\":[{\"type\":\"node\",\"count\":2,\"exclusive\":true,\"with\":["
    "{\"type\":\"slot\",\"count\":3,\"label\":\"task\",\"with\":["
    "{\"type\":\"core\",\"count\":4},{\"type\":\"gpu\",\"count\":1},"
    "{\"type\":\"memory\",\"count\":512}]}]},{\"type\":\"power\",\"count\":100}],"
    "\"tasks\":[{\"command\":[\"/bin/"
    "app\",\"-x\",\"\"],\"slot\":\"task\",\"count\":{\"per_slot\":2}}],"
    "\"attributes\":{\"system\":{\"duration\":60.5,\"cwd\":\"/tmp\",\"job\":{\"name\":\"mine\"},"
    "\"begin-time\":1763719200,"
    "\"dependencies\":[{\"scheme\":\"afterok\",\"value\":\"7\"},"
    "{\"scheme\":\"after\",\"value\":\"8\"}],"
    "\"constraints\":{\"ranks\":\"0-3\",\"hosts\":\"node[0-3]\",\"properties\":[\"big\",\"^old\"]},"
    "\"environment\":{\"A\":\"1\",\"B\":null},\"files\":{\"script\":\"#!/bin/sh\\n\"},"
    "\"shell\":{\"options\":{\"output\":\"o-{{id}}\",\"error\":\"e\",\"input\":\"/dev/null\","
    "\"label\":true,\"stdin\":\"all\",\"layout\":\"cyclic\",\"cpu-affinity\":\"per-task\","
    "\"gpu-affinity\":\"off\",\"kill-on-bad-exit\":true,"
    "\"survive-node-loss\":true,\"requeue\":true,"
    "\"rlimits\":{\"nofile\":1024,\"core\":\"unlimited\"},\"soft-limits\":{\"stack\":8192},"
    "\"umask\":\"0027\",\"mpi\":\"pmix\",\"grace\":2.5,"
    "\"output-limit\":1000,\"nested\":true}}},"
    "\"user\":{\"project\":\"p\"}}}";

#define BYTES "{\"bytes\":\"\\u00ff\"}"
#define NO_BYTES "{\"bytes\":\"\\u0100\"}" /* beyond a byte */

static const char *const shapes[] = {
    "null",          "true",     "-1",      "0",  "1",   "1.5",        "1e17", "9007199254740993",
    "\"\"",          "\"word\"", "\"\\n\"", "[]", "[1]", "[\"word\"]", "{}",   "{\"x\":1}",
    "{\"x\":\"y\"}", BYTES,      NO_BYTES,
};

#define F_REQUIRED 1
#define F_BESIDE 2 /* a word is refused, but for what stands beside it */

/* Where, what may stand there (of `shapes`, with blanks between), is it required? */
static const struct {
    const char *path;
    const char *may;
    int flags;
} fields[] = {
    {"version", "1", F_REQUIRED},
    {"resources", "", F_REQUIRED},
    {"resources[0]", "", 0},
    {"resources[0].type", "", F_REQUIRED | F_BESIDE},
    {"resources[0].count", "1", F_REQUIRED},
    {"resources[0].exclusive", "true", 0},
    {"resources[0].with", "", F_REQUIRED},
    {"resources[0].with[0]", "", 0},
    {"resources[0].with[0].type", "", F_REQUIRED},
    {"resources[0].with[0].count", "1", F_REQUIRED},
    {"resources[0].with[0].label", "", F_REQUIRED | F_BESIDE},
    {"resources[0].with[0].with", "", F_REQUIRED},
    {"resources[0].with[0].with[0]", "", 0},
    {"resources[0].with[0].with[0].type", "", F_REQUIRED},
    {"resources[0].with[0].with[0].count", "1", F_REQUIRED},
    {"resources[0].with[0].with[1]", "", 0},
    {"resources[0].with[0].with[1].type", "", F_REQUIRED},
    {"resources[0].with[0].with[1].count", "1", F_REQUIRED},
    {"resources[0].with[0].with[2]", "", 0},
    {"resources[0].with[0].with[2].type", "", F_REQUIRED},
    {"resources[0].with[0].with[2].count", "1", F_REQUIRED},
    {"resources[1]", "", 0},
    {"resources[1].type", "\"word\"", F_REQUIRED},
    {"resources[1].count", "1", F_REQUIRED},
    {"tasks", "", F_REQUIRED},
    {"tasks[0]", "", 0},
    {"tasks[0].command", "[\"word\"]", F_REQUIRED},
    {"tasks[0].command[0]", "\"word\" \"\\n\" " BYTES, 0},
    {"tasks[0].command[1]", "\"\" \"word\" \"\\n\" " BYTES, 0},
    {"tasks[0].slot", "", F_REQUIRED},
    {"tasks[0].count", "", F_REQUIRED},
    {"tasks[0].count.per_slot", "1", 0},
    {"attributes", "", F_REQUIRED},
    {"attributes.system", "", F_REQUIRED},
    {"attributes.system.duration", "0 1 1.5 1e17 9007199254740993", F_REQUIRED},
    {"attributes.system.cwd", "", 0},
    {"attributes.system.job", "{}", 0},
    {"attributes.system.job.name", "\"word\"", 0},
    {"attributes.system.begin-time", "0 1 1.5 1e17 9007199254740993", 0},
    {"attributes.system.dependencies", "[]", 0},
    {"attributes.system.dependencies[0]", "", 0},
    {"attributes.system.dependencies[0].scheme", "", F_REQUIRED},
    {"attributes.system.dependencies[0].value", "", F_REQUIRED},
    {"attributes.system.dependencies[1]", "", 0},
    {"attributes.system.constraints", "{}", 0},
    {"attributes.system.constraints.ranks", "", 0},
    {"attributes.system.constraints.hosts", "\"word\" [\"word\"]", 0},
    {"attributes.system.constraints.properties", "[\"word\"]", 0},
    {"attributes.system.constraints.properties[0]", "\"word\"", 0},
    {"attributes.system.environment", "{} {\"x\":\"y\"} " BYTES " " NO_BYTES, 0},
    {"attributes.system.environment.A", "null \"\" \"word\" \"\\n\" " BYTES, 0},
    {"attributes.system.files", "{} {\"x\":\"y\"} " BYTES " " NO_BYTES, 0},
    {"attributes.system.files.script", "\"\" \"word\" \"\\n\"", 0},
    {"attributes.system.shell", "{}", 0},
    {"attributes.system.shell.options", "{}", 0},
    {"attributes.system.shell.options.output", "\"word\" \"\\n\" " BYTES, 0},
    {"attributes.system.shell.options.error", "\"word\" \"\\n\" " BYTES, 0},
    {"attributes.system.shell.options.input", "\"word\" \"\\n\" " BYTES, 0},
    {"attributes.system.shell.options.label", "true", 0},
    {"attributes.system.shell.options.stdin", "", 0},
    {"attributes.system.shell.options.layout", "", 0},
    {"attributes.system.shell.options.cpu-affinity", "", 0},
    {"attributes.system.shell.options.gpu-affinity", "", 0},
    {"attributes.system.shell.options.kill-on-bad-exit", "true", 0},
    {"attributes.system.shell.options.survive-node-loss", "true", 0},
    {"attributes.system.shell.options.requeue", "true", 0},
    {"attributes.system.shell.options.rlimits", "{}", 0},
    {"attributes.system.shell.options.rlimits.nofile", "0 1 9007199254740993", 0},
    {"attributes.system.shell.options.mpi", "", 0},
    {"attributes.system.shell.options.grace", "0 1 1.5 1e17 9007199254740993", 0},
    {"attributes.system.shell.options.output-limit", "0 1 9007199254740993", 0},
    {"attributes.system.shell.options.nested", "true", 0},
    {"attributes.user", "{} {\"x\":1} {\"x\":\"y\"} " BYTES " " NO_BYTES, 0},
    {"attributes.user.project",
     "null true -1 0 1 1.5 1e17 9007199254740993 \"\" \"word\" \"\\n\" [] [1] [\"word\"] {} "
     "{\"x\":1} {\"x\":\"y\"} " BYTES " " NO_BYTES,
     0},
};
#define NFIELDS (sizeof(fields) / sizeof(fields[0]))
#define NSHAPES (sizeof(shapes) / sizeof(shapes[0]))

static json_t *load(const char *text)
{
    json_t *v = json_loads(text, JSON_DECODE_ANY, NULL);
    ck_assert_ptr_nonnull(v);
    return v;
}

static jobspec_t *parse(const json_t *spec, errmsg_t *err)
{
    size_t len;
    char *text = jobspec_encode(spec, &len);
    jobspec_t *js;

    ck_assert_ptr_nonnull(text);
    err->text[0] = '\0';
    errno = 0;
    js = jobspec_parse(text, len, err);
    free(text);
    return js;
}

/* The holder of what a path names; the last step is left in `step`. */
static json_t *holder(json_t *v, const char *path, char *step, size_t size)
{
    char copy[256], *save = NULL, *tok, *next;

    snprintf(copy, sizeof(copy), "%s", path);
    for (char *p = copy; *p; p++)
        if (*p == '[')
            *p = '.';
        else if (*p == ']')
            *p = ' ';
    tok = strtok_r(copy, ". ", &save);
    while ((next = strtok_r(NULL, ". ", &save))) {
        v = json_is_array(v) ? json_array_get(v, (size_t)atoi(tok)) : json_object_get(v, tok);
        ck_assert_ptr_nonnull(v);
        tok = next;
    }
    snprintf(step, size, "%s", tok);
    return v;
}

static void set_at(json_t *spec, const char *path, json_t *val)
{
    char step[64];
    json_t *v = holder(spec, path, step, sizeof(step));

    if (json_is_array(v))
        ck_assert_int_eq(json_array_set_new(v, (size_t)atoi(step), val), 0);
    else
        ck_assert_int_eq(json_object_set_new(v, step, val), 0);
}

static bool may_be(const char *may, const char *shape)
{
    size_t n = strlen(shape);

    for (const char *p = may; (p = strstr(p, shape)); p++)
        if ((p == may || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
            return true;
    return false;
}

/* Does the error message begin with this path, and is it a whole one? */
static void told(const errmsg_t *err, const char *path, const char *what)
{
    size_t n = strlen(path);

    ck_assert_msg(!strncmp(err->text, path, n) && strchr(":.[", err->text[n]) && err->text[n],
                  "%s as %s: %s", path, what, err->text);
    ck_assert_msg(strlen(strchr(err->text, ' ')) > 5, "%s", err->text);
}

START_TEST(every_shape)
{
    for (size_t i = 0; i < NSHAPES; i++) {
        json_t *spec = load(whole);
        errmsg_t err;
        jobspec_t *js;

        set_at(spec, fields[_i].path, load(shapes[i]));
        js = parse(spec, &err);
        if (may_be(fields[_i].may, shapes[i])) {
            ck_assert_msg(js != NULL, "%s as %s: %s", fields[_i].path, shapes[i], err.text);
        } else {
            ck_assert_msg(!js, "%s was accepted as %s", fields[_i].path, shapes[i]);
            ck_assert_int_eq(errno, EINVAL);
            if (!(fields[_i].flags & F_BESIDE) || shapes[i][0] != '"')
                told(&err, fields[_i].path, shapes[i]);
        }
        jobspec_destroy(js);
        json_decref(spec);
    }
}
END_TEST

START_TEST(missing)
{
    json_t *spec = load(whole), *v;
    char step[64];
    errmsg_t err;
    jobspec_t *js;

    v = holder(spec, fields[_i].path, step, sizeof(step));
    if (json_is_object(v)) {
        json_object_del(v, step);
        js = parse(spec, &err);
        if (fields[_i].flags & F_REQUIRED) {
            ck_assert_msg(!js, "%s may be missing", fields[_i].path);
            told(&err, fields[_i].path, "missing");
            ck_assert_ptr_nonnull(strstr(err.text, "is missing"));
        } else if (strcmp(step, "per_slot") != 0) {
            ck_assert_msg(js != NULL, "without %s: %s", fields[_i].path, err.text);
        }
        jobspec_destroy(js);
    }
    json_decref(spec);
}
END_TEST

START_TEST(unknown_beside)
{
    static const char *const open[] = {"environment", "files", "user"};
    json_t *spec = load(whole), *v;
    char step[64], path[300];
    errmsg_t err;
    const char *dot = strrchr(fields[_i].path, '.');

    v = holder(spec, fields[_i].path, step, sizeof(step));
    for (size_t i = 0; i < 3; i++)
        if (dot && strstr(fields[_i].path, open[i]) && !strstr(dot, open[i]))
            v = NULL;
    if (json_is_object(v)) {
        ck_assert_int_eq(json_object_set_new(v, "bogus", json_true()), 0);
        ck_assert_ptr_null(parse(spec, &err));
        snprintf(path, sizeof(path), "%.*s%sbogus", dot ? (int)(dot - fields[_i].path) : 0,
                 fields[_i].path, dot ? "." : "");
        told(&err, path, "unknown");
    }
    json_decref(spec);
}
END_TEST

/* Texts that no JSON value can be, and values that are wrong only beside others. */
static const struct {
    const char *find;
    const char *put; /* instead */
    const char *begin;
} edits[] = {
    {"\"duration\":60.5", "\"duration\":60.5,\"duration\":1", "attributes.system.duration: "},
    {"\"mpi\":\"pmix\"", "\"mpi\":\"pmix\",\"mpi\":1", "attributes.system.shell.options.mpi: "},
    {"\"count\":4", "\"count\":4,\"count\":5", "resources[0].with[0].with[0].count: "},
    {"\"-x\"", "\"-x", "tasks[0]"},
    {"\"-x\"", "\"\\u0000\"", "tasks[0].command[1]: is not JSON"},
    {"\"-x\"", "\"\xff\"", "tasks[0].command[1]: is not JSON"},
    {"60.5", "60.", "attributes.system.duration: is not JSON"},
    {"60.5", "1e999", "attributes.system.duration: is not JSON"},
    {"60.5", "NaN", "attributes.system.duration: is not JSON"},
    {"{\"version\"", "[\"version\"", "[0]"},
    {"\"label\":\"task\"", "\"label\":\"slot\"", "tasks[0].slot: must be the label"},
    {"\"count\":3", "\"count\":1048576", "resources: must have at most"},
    {"\"count\":3", "\"count\":{\"min\":1}", "resources[0].with[0].count.max: is missing"},
    {"\"count\":3", "\"count\":{\"max\":3}", "resources[0].with[0].count.min: is missing"},
    {"\"count\":3", "\"count\":{\"min\":0,\"max\":3}", "resources[0].with[0].count.min: must be"},
    {"\"count\":3", "\"count\":{\"min\":4,\"max\":3}",
     "resources[0].with[0].count.max: must be an integer of 4 to"},
    {"\"count\":3", "\"count\":{\"min\":1,\"max\":3,\"by\":1}",
     "resources[0].with[0].count: must have min and max only"},
    {"\"count\":3", "\"count\":{\"min\":1048576,\"max\":1048576}", "resources: must have at most"},
    {"\"count\":3", "\"count\":{\"min\":1,\"max\":3}",
     "tasks[0].count: must have a total of tasks"},
    {"\"per_slot\":2", "\"per_slot\":1000000", "tasks[0].count: results in"},
    {"\"per_slot\":2", "\"per_slot\":2,\"total\":2", "tasks[0].count: must have either"},
    {"\"per_slot\":2", "\"total\":0", "tasks[0].count.total: must be"},
    {"\"gpu\",\"count\":1", "\"core\",\"count\":1", "resources[0].with[0].with[1].type: "},
    {"{\"type\":\"core\",\"count\":4},", "", "resources[0].with[0].with: must have a core"},
    {"\"power\"", "\"core\"", "resources[1].type: 'core' must be inside a slot"},
    {"\"power\"", "\"node\"", "resources[1].type: a job must have exactly one"},
    {"\"power\"", "\"slot\"", "resources[1].type: a job must have exactly one"},
    {"\"power\"", "\"a b\"", "resources[1].type: must be"},
    {"\"count\":100}", "\"count\":100},{\"type\":\"power\",\"count\":1}", "resources[2].type: "},
    {"\"count\":100}", "\"count\":100,\"with\":[]}",
     "resources[1].with: is not allowed for a 'power'"},
    {"\"count\":100}", "\"count\":100,\"label\":\"x\"}", "resources[1].label: is not allowed for"},
    {"\"count\":100}", "\"count\":100,\"exclusive\":true}",
     "resources[1].exclusive: is not allowed for"},
    {"\"/tmp\"", "\"tmp\"", "attributes.system.cwd: must be a path"},
    {"\"A\":", "\"A=\":", "attributes.system.environment: must have non-empty names"},
    {"\"A\":", "\"\":", "attributes.system.environment: must have non-empty names"},
    {"\"script\":", "\"a/b\":", "attributes.system.files: must have file names"},
    {"\"script\":", "\"..\":", "attributes.system.files: must have file names"},
    {"\"7\"", "\"0\"", "attributes.system.dependencies[0].value: "},
    {"\"8\"", "\"-8\"", "attributes.system.dependencies[1].value: "},
    {"\"8\"", "\"99999999999\"", "attributes.system.dependencies[1].value: "},
    {"\"after\"", "\"before\"", "attributes.system.dependencies[1].scheme: must be after"},
    {"\"0-3\"", "\"3-0\"", "attributes.system.constraints.ranks: "},
    {"\"0-3\"", "\"[]\"", "attributes.system.constraints.ranks: must not be empty"},
    {"\"node[0-3]\"", "\"node[0-\"", "attributes.system.constraints.hosts: "},
    {"\"hosts\"", "\"hosts\":\"a\",\"hostlist\"", "attributes.system.constraints.hostlist: "},
    {"\"nofile\"", "\"nofiles\"", "attributes.system.shell.options.rlimits.nofiles: "},
    {"1024", "\"many\"", "attributes.system.shell.options.rlimits.nofile: must be"},
    {"\"version\":1", "\"version\":2", "version: must be 1"},
};

START_TEST(wrong_text)
{
    const char *at = strstr(whole, edits[_i].find);
    char text[4096];
    errmsg_t err = {""};
    int n;

    ck_assert_ptr_nonnull(at);
    n = snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - whole), whole, edits[_i].put,
                 at + strlen(edits[_i].find));
    errno = 0;
    ck_assert_msg(!jobspec_parse(text, (size_t)n, &err), "%s", edits[_i].begin);
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_msg(!strncmp(err.text, edits[_i].begin, strlen(edits[_i].begin)), "wanted %s: %s",
                  edits[_i].begin, err.text);
}
END_TEST

START_TEST(cut_off_anywhere)
{
    errmsg_t err;

    for (size_t n = 0; n < sizeof(whole) - 1; n++) {
        err.text[0] = '\0';
        ck_assert_ptr_null(jobspec_parse(whole, n, &err));
        ck_assert_int_eq(errno, EINVAL);
        ck_assert(err.text[0]);
    }
}
END_TEST

START_TEST(not_an_object)
{
    static const char *const texts[] = {"", "null", "[]", "1", "\"x\"", "{}", "}", "\x00\x01"};
    errmsg_t err;

    for (size_t i = 0; i < 8; i++) {
        err.text[0] = '\0';
        ck_assert_ptr_null(jobspec_parse(texts[i], strlen(texts[i]), &err));
        ck_assert_int_eq(errno, EINVAL);
        ck_assert(err.text[0]);
    }
    ck_assert_ptr_null(jobspec_parse("{}", (size_t)JOBSPEC_MAX + 1, &err));
    ck_assert_int_eq(errno, EMSGSIZE);
    ck_assert_ptr_null(jobspec_parse("x", 1, NULL));
}
END_TEST

/* A text of a megabyte with half a million values is refused before it is parsed. */
START_TEST(many_values)
{
    enum { VALUES = 500000 };
    char *text = malloc(2 * VALUES + 2);
    errmsg_t err;

    text[0] = '[';
    for (size_t i = 0; i < VALUES; i++)
        memcpy(text + 1 + 2 * i, "1,", 2);
    text[2 * VALUES] = ']';
    ck_assert_ptr_null(jobspec_parse(text, 2 * VALUES + 1, &err));
    ck_assert_int_eq(errno, EMSGSIZE);
    ck_assert_ptr_nonnull(strstr(err.text, "at most 262144 values"));
    free(text);
}
END_TEST

START_TEST(deep)
{
    char *text = malloc(100001);

    memset(text, '[', 100000);
    ck_assert_ptr_null(jobspec_parse(text, 100000, NULL));
    for (int i = 0; i < 100000; i += 5)
        memcpy(text + i, "{\"a\":", 5);
    ck_assert_ptr_null(jobspec_parse(text, 100000, NULL));
    free(text);
}
END_TEST

START_TEST(all_of_it)
{
    errmsg_t err = {""};
    jobspec_t *js = jobspec_parse(whole, sizeof(whole) - 1, &err);
    const struct rreq *r;
    const struct joboptions *o;
    const struct jobspec_dep *deps;
    size_t n;

    ck_assert_msg(js != NULL, "%s", err.text);
    r = jobspec_rreq(js);
    ck_assert_uint_eq(r->nnodes, 2);
    ck_assert_uint_eq(r->nslots, 3);
    ck_assert_uint_eq(r->cores, 4);
    ck_assert_uint_eq(r->gpus, 1);
    ck_assert_uint_eq(r->memory, 512);
    ck_assert(r->exclusive);
    ck_assert_uint_eq(r->npools, 1);
    ck_assert_str_eq(r->pools[0].name, "power");
    ck_assert_uint_eq(r->pools[0].count, 100);
    ck_assert_uint_eq(idset_count(r->ranks), 4);
    ck_assert_str_eq(r->properties[0], "^old");
    ck_assert_str_eq(r->properties[1], "big");
    ck_assert_ptr_null(r->properties[2]);
    ck_assert_double_eq(r->duration, 60.5);
    ck_assert_str_eq(jobspec_command(js, &n)[0], "/bin/app");
    ck_assert_uint_eq(n, 3);
    ck_assert_ptr_null(jobspec_command(js, NULL)[3]);
    ck_assert_uint_eq(jobspec_nslots(js), 6);
    ck_assert_uint_eq(jobspec_ntasks(js), 12);
    ck_assert_uint_eq(jobspec_per_slot(js), 2);
    ck_assert_double_eq(jobspec_rreq(js)->duration, 60.5);
    ck_assert_double_eq(jobspec_begin(js), 1763719200);
    ck_assert_str_eq(jobspec_cwd(js), "/tmp");
    ck_assert_str_eq(jobspec_name(js), "mine");
    ck_assert_str_eq(jobspec_hosts(js), "node[0-3]");
    ck_assert_str_eq(json_string_value(json_object_get(jobspec_env(js), "A")), "1");
    ck_assert(json_is_null(json_object_get(jobspec_env(js), "B")));
    ck_assert_uint_eq(json_object_size(jobspec_files(js)), 1);
    deps = jobspec_dependencies(js, &n);
    ck_assert_uint_eq(n, 2);
    ck_assert_int_eq(deps[0].scheme, JOB_DEP_AFTEROK);
    ck_assert_uint_eq(deps[0].id, 7);
    ck_assert_int_eq(deps[1].scheme, JOB_DEP_AFTER);
    o = jobspec_options(js);
    ck_assert_str_eq(o->output, "o-{{id}}");
    ck_assert_str_eq(o->error, "e");
    ck_assert_str_eq(o->input, "/dev/null");
    ck_assert(o->label && o->kill_on_bad_exit && o->survive_node_loss && o->requeue && o->nested);
    ck_assert_int_eq(o->stdin_mode, JOB_STDIN_ALL);
    ck_assert_int_eq(o->layout, JOB_LAYOUT_CYCLIC);
    ck_assert_int_eq(o->cpu_affinity, JOB_AFFINITY_PER_TASK);
    ck_assert_int_eq(o->gpu_affinity, JOB_AFFINITY_OFF);
    ck_assert_int_eq(o->mpi, JOB_MPI_PMIX);
    ck_assert_double_eq(o->grace, 2.5);
    ck_assert_uint_eq(o->output_limit, 1000);
    ck_assert_uint_eq(o->nrlimits, 2);
    ck_assert_uint_eq(o->nsoftlimits, 1);
    ck_assert_uint_eq(o->softlimits[0].value, 8192);
    ck_assert_int_eq(o->umask, 027);
    ck_assert_int_eq(o->rlimits[0].resource, RLIMIT_NOFILE);
    ck_assert_uint_eq(o->rlimits[0].value, 1024);
    ck_assert_uint_eq(o->rlimits[1].value, JOBSPEC_NO_LIMIT);
    jobspec_destroy(js);
}
END_TEST

START_TEST(range_of_slots)
{
    static const char *const argv[] = {"a", NULL};
    struct jobspec_parts p;
    char *text;
    json_t *spec;
    jobspec_t *js;
    errmsg_t err = {""};
    size_t len;

    jobspec_parts_init(&p);
    p.argv = argv;
    p.ntasks = JOBSPEC_TASKS_MAX;
    p.nnodes = 3;
    p.nslots = JOBSPEC_TASKS_MAX / 3 + 1; /* rounded up: the tasks are not too many */
    p.min_slots = 2;
    ck_assert_msg((spec = jobspec_build(&p, &err)) != NULL, "%s", err.text);
    text = jobspec_encode(spec, &len);
    ck_assert_msg((js = jobspec_parse(text, len, &err)) != NULL, "%s", err.text);
    ck_assert_uint_eq(jobspec_min_slots(js), 2);
    ck_assert_uint_eq(jobspec_rreq(js)->nslots, JOBSPEC_TASKS_MAX / 3 + 1);
    ck_assert_uint_eq(jobspec_nslots(js), JOBSPEC_TASKS_MAX);
    ck_assert_uint_eq(jobspec_ntasks(js), JOBSPEC_TASKS_MAX);
    ck_assert_uint_eq(jobspec_per_slot(js), 0);
    jobspec_destroy(js);
    json_decref(spec);
    free(text);
}
END_TEST

START_TEST(smallest)
{
    static const char text[] =
        "{\"version\":1,\"resources\":[{\"type\":\"slot\",\"count\":5,\"label\":\"x\",\"with\":"
        "[{\"type\":\"core\",\"count\":1}]}],\"tasks\":[{\"command\":[\"a/b/hostname\"],"
        "\"slot\":\"x\",\"count\":{\"total\":7}}],\"attributes\":{\"system\":{\"duration\":0}}}";
    errmsg_t err = {""};
    jobspec_t *js = jobspec_parse(text, sizeof(text) - 1, &err);
    size_t n;

    ck_assert_msg(js != NULL, "%s", err.text);
    ck_assert_uint_eq(jobspec_rreq(js)->nnodes, 0);
    ck_assert_uint_eq(jobspec_nslots(js), 5);
    ck_assert_uint_eq(jobspec_min_slots(js), 0);
    ck_assert_uint_eq(jobspec_ntasks(js), 7);
    ck_assert_uint_eq(jobspec_per_slot(js), 0);
    ck_assert_str_eq(jobspec_name(js), "hostname");
    ck_assert_ptr_null(jobspec_cwd(js));
    ck_assert_ptr_null(jobspec_env(js));
    ck_assert_ptr_null(jobspec_files(js));
    ck_assert_ptr_null(jobspec_hosts(js));
    ck_assert_ptr_null(jobspec_dependencies(js, &n));
    ck_assert_uint_eq(n, 0);
    ck_assert_double_lt(jobspec_options(js)->grace, 0);
    ck_assert_uint_eq(jobspec_options(js)->output_limit, JOBSPEC_NO_LIMIT);
    ck_assert_int_eq(jobspec_options(js)->umask, -1);
    jobspec_destroy(js);
    jobspec_destroy(NULL);
}
END_TEST

/* --- making one --- */

START_TEST(build_and_read)
{
    const char *const argv[] = {"/bin/app", "-x", "", NULL};
    const char *const properties[] = {"big", "^old", NULL};
    const struct jobspec_pool pools[] = {{"power", 100}};
    const struct jobspec_dep deps[] = {{JOB_DEP_AFTEROK, 7}, {JOB_DEP_AFTER, 8}};
    const struct job_rlimit limits[] = {{RLIMIT_NOFILE, "nofile", 1024},
                                        {RLIMIT_CORE, "core", JOBSPEC_NO_LIMIT}};
    const struct job_rlimit soft[] = {{RLIMIT_STACK, "stack", 8192}};
    json_t *env = load("{\"A\":\"1\",\"B\":null}"), *files = load("{\"script\":\"#!/bin/sh\\n\"}");
    json_t *spec, *want = load(whole);
    struct jobspec_parts p;
    errmsg_t err = {""};

    jobspec_parts_init(&p);
    p.argv = argv;
    p.nnodes = 2;
    p.nslots = 3;
    p.cores = 4;
    p.gpus = 1;
    p.memory = 512;
    p.exclusive = true;
    p.pools = pools;
    p.npools = 1;
    p.per_slot = 2;
    p.duration = 60.5;
    p.begin = 1763719200;
    p.cwd = "/tmp";
    p.name = "mine";
    p.ranks = "0-3";
    p.hosts = "node[0-3]";
    p.properties = properties;
    p.deps = deps;
    p.ndeps = 2;
    p.env = env;
    p.files = files;
    p.options = (struct joboptions){.output = "o-{{id}}",
                                    .error = "e",
                                    .input = "/dev/null",
                                    .label = true,
                                    .kill_on_bad_exit = true,
                                    .survive_node_loss = true,
                                    .requeue = true,
                                    .nested = true,
                                    .stdin_mode = JOB_STDIN_ALL,
                                    .layout = JOB_LAYOUT_CYCLIC,
                                    .cpu_affinity = JOB_AFFINITY_PER_TASK,
                                    .gpu_affinity = JOB_AFFINITY_OFF,
                                    .mpi = JOB_MPI_PMIX,
                                    .grace = 2.5,
                                    .output_limit = 1000,
                                    .rlimits = limits,
                                    .nrlimits = 2,
                                    .softlimits = soft,
                                    .nsoftlimits = 1,
                                    .umask = 027};
    spec = jobspec_build(&p, &err);
    ck_assert_msg(spec != NULL, "%s", err.text);
    ck_assert_int_eq(jobspec_set(spec, "user.project", json_string("p"), &err), 0);
    ck_assert_int_eq(
        json_object_set_new(json_object_get(json_object_get(want, "attributes"), "system"),
                            "begin-time", json_real(1763719200)),
        0);
    ck_assert(json_equal(spec, want));
    json_decref(spec);
    json_decref(want);
    json_decref(env);
    json_decref(files);
}
END_TEST

START_TEST(build_plain)
{
    const char *const argv[] = {"true", NULL};
    struct jobspec_parts p;
    errmsg_t err = {""};
    json_t *spec;
    jobspec_t *js;

    jobspec_parts_init(&p);
    p.argv = argv;
    spec = jobspec_build(&p, &err);
    ck_assert_msg(spec != NULL, "%s", err.text);
    js = parse(spec, &err);
    ck_assert_msg(js != NULL, "%s", err.text);
    ck_assert_uint_eq(jobspec_ntasks(js), 1);
    ck_assert_ptr_null(
        json_object_get(json_object_get(json_object_get(spec, "attributes"), "system"), "shell"));
    jobspec_destroy(js);
    json_decref(spec);
}
END_TEST

START_TEST(bytes_arrive)
{
    char all[256];
    const char *argv[] = {"/bin/\xff-run", all, "{{cc}}\xc3\xa4", NULL};
    struct jobspec_parts p;
    json_t *spec, *command;
    jobspec_t *js;
    errmsg_t err = {""};
    size_t len;
    char *text;

    for (int i = 0; i < 255; i++)
        all[i] = (char)(i + 1);
    all[255] = '\0';
    jobspec_parts_init(&p);
    p.argv = argv;
    p.cwd = "/tmp/\xe4";
    p.options.output = "\xf6.{{id}}";
    p.options.error = "e\xff";
    p.options.input = "\xfe";
    p.env = json_pack("{s:o, s:n}", "A", jobspec_text(all), "B");
    ck_assert_ptr_nonnull(spec = jobspec_build(&p, &err));
    command = json_object_get(json_array_get(json_object_get(spec, "tasks"), 0), "command");
    ck_assert(json_is_object(json_array_get(command, 0)));
    ck_assert(json_is_string(json_array_get(command, 2)));
    text = jobspec_encode(spec, &len);
    ck_assert_msg((js = jobspec_parse(text, len, &err)) != NULL, "%s", err.text);
    for (size_t i = 0; i < 3; i++)
        ck_assert_str_eq(jobspec_command(js, NULL)[i], argv[i]);
    ck_assert_str_eq(jobspec_cwd(js), p.cwd);
    ck_assert_str_eq(jobspec_name(js), "?-run");
    ck_assert_str_eq(jobspec_options(js)->output, p.options.output);
    ck_assert_str_eq(jobspec_options(js)->error, p.options.error);
    ck_assert_str_eq(jobspec_options(js)->input, p.options.input);
    ck_assert_str_eq(json_string_value(json_object_get(jobspec_env(js), "A")), all);
    ck_assert(json_is_null(json_object_get(jobspec_env(js), "B")));
    jobspec_destroy(js);
    json_decref((json_t *)p.env);
    json_decref(spec);
    free(text);
}
END_TEST

START_TEST(several_programs)
{
    static const char before[] = "{\"version\":1,\"resources\":[{\"type\":\"slot\",\"count\":3,"
                                 "\"label\":\"task\",\"with\":[{\"type\":\"core\",\"count\":1}]}],"
                                 "\"tasks\":[",
                      after[] = "],\"attributes\":{\"system\":{\"duration\":0}}}";
#define A "{\"command\":[\"/bin/a\",\"x\"],\"slot\":\"task\",\"count\":{\"total\":1}}"
#define B "{\"command\":[\"b\"],\"slot\":\"task\",\"count\":{\"total\":2},"
#define MANY "{\"command\":[\"b\"],\"slot\":\"task\",\"count\":{\"total\":1048576}}"
    static const struct {
        const char *tasks, *why; /* NULL: as below */
    } tests[] = {
        {A "," B "\"environment\":{\"V\":{\"bytes\":\"\\u00ff\"},\"W\":null}}", NULL},
        {A ",{\"command\":[\"b\"],\"slot\":\"task\",\"count\":{\"per_slot\":2}}",
         "tasks[1]: must have a total of tasks, as required for several entries"},
        {A ",{\"command\":[\"b\"],\"slot\":\"odd\",\"count\":{\"total\":2}}",
         "tasks[1].slot: must be the label of the slot, 'task'"},
        {A "," B "\"environment\":[]}", "tasks[1].environment: must be an object"},
        {A "," B "\"environment\":{\"V\":1}}",
         "tasks[1].environment.V: must be a string, or null to unset it"},
        {A "," B "\"odd\":1}", "tasks[1].odd: is unknown"},
        {A "," MANY, "tasks[1].count: results in 1048577 tasks, which is more than 1048576"},
        {A ",1", "tasks[1]: must be an object"},
    };
#undef A
#undef B
#undef MANY
    const struct jobspec_program *p;
    errmsg_t err;
    size_t n;

    for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
        char text[1024];
        int len = snprintf(text, sizeof(text), "%s%s%s", before, tests[i].tasks, after);
        jobspec_t *js = jobspec_parse(text, (size_t)len, &err);

        if (tests[i].why) {
            ck_assert_ptr_null(js);
            ck_assert_str_eq(err.text, tests[i].why);
            continue;
        }
        ck_assert_msg(js != NULL, "%s", err.text);
        p = jobspec_programs(js, &n);
        ck_assert_uint_eq(n, 2);
        ck_assert_uint_eq(jobspec_ntasks(js), 3);
        ck_assert_uint_eq(jobspec_per_slot(js), 0);
        ck_assert_str_eq(jobspec_name(js), "a");
        ck_assert_str_eq(p[0].argv[1], "x");
        ck_assert_ptr_null(p[0].env);
        ck_assert_uint_eq(p[0].ntasks, 1);
        ck_assert_str_eq(p[1].argv[0], "b");
        ck_assert_uint_eq(p[1].ntasks, 2);
        ck_assert_str_eq(json_string_value(json_object_get(p[1].env, "V")), "\xff");
        jobspec_destroy(js);
    }
}
END_TEST

START_TEST(build_wrong)
{
    const char *argv[] = {NULL, NULL};
    struct jobspec_parts p;
    errmsg_t err = {""};

    jobspec_parts_init(&p);
    ck_assert_ptr_null(jobspec_build(&p, &err));
    p.argv = argv;
    ck_assert_ptr_null(jobspec_build(&p, &err));
    ck_assert_int_eq(errno, EINVAL);
    argv[0] = "";
    ck_assert_ptr_null(jobspec_build(&p, &err));
    argv[0] = "a";
    p.name = "n\xff";
    ck_assert_ptr_null(jobspec_build(&p, &err));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_str_eq(err.text, "name is not UTF-8, as a jobspec requires");
}
END_TEST

START_TEST(set_paths)
{
    json_t *spec = load(whole), *v;
    errmsg_t err = {""};

    ck_assert_int_eq(jobspec_set(spec, "system.shell.options.mpi", json_string("none"), &err), 0);
    ck_assert_int_eq(jobspec_set(spec, "user.a.b.c", json_integer(1), &err), 0);
    v = json_object_get(json_object_get(spec, "attributes"), "user");
    v = json_object_get(json_object_get(json_object_get(v, "a"), "b"), "c");
    ck_assert_int_eq(json_integer_value(v), 1);
    static const char *const bad[] = {"", "user.", ".user", "user..a", "system.cwd.x"};
    for (size_t i = 0; i < 5; i++) {
        err.text[0] = '\0';
        ck_assert_msg(jobspec_set(spec, bad[i], json_true(), &err) == -1, "%s", bad[i]);
        ck_assert_int_eq(errno, EINVAL);
        ck_assert(err.text[0]);
    }
    ck_assert_int_eq(jobspec_set(spec, "user.x", NULL, &err), -1);
    ck_assert_int_eq(errno, ENOMEM);
    json_decref(spec);
}
END_TEST

START_TEST(names)
{
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(job_dep_parse(job_dep_name((enum job_dep_scheme)i)), i);
        ck_assert_int_eq(job_mpi_parse(job_mpi_name((enum job_mpi)i)), i);
        if (i < 3) {
            ck_assert_int_eq(job_stdin_parse(job_stdin_name((enum job_stdin)i)), i);
            ck_assert_int_eq(job_affinity_parse(job_affinity_name((enum job_affinity)i)), i);
        }
    }
    ck_assert_ptr_null(job_dep_name((enum job_dep_scheme)4));
    ck_assert_ptr_null(job_layout_name((enum job_layout)2));
    ck_assert_int_eq(job_layout_parse(NULL), -1);
    ck_assert_int_eq(job_rlimit_parse("nproc"), RLIMIT_NPROC);
    ck_assert_int_eq(job_rlimit_parse("x"), -1);
}
END_TEST

START_TEST(times_of_jobs)
{
    double t = -1;
    errmsg_t err;

    ck_assert(job_limit_parse("30", &t, &err) == 0 && t == 1800);
    ck_assert(job_limit_parse("90s", &t, NULL) == 0 && t == 90);
    ck_assert(job_limit_parse("inf", &t, NULL) == 0 && t == 0);
    t = 7;
    ck_assert(job_limit_parse("0", &t, &err) < 0 && errno == EINVAL && t == 7);
    ck_assert_str_eq(err.text, "must be greater than 0; write inf for no limit");
    ck_assert(job_limit_parse("soon", &t, &err) < 0 && t == 7);
    ck_assert(job_grace_parse("inf", &t, &err) < 0 && errno == EINVAL && t == 7);
    ck_assert_str_eq(err.text, "must be finite");
    ck_assert(job_grace_parse("x", &t, &err) < 0 && t == 7);
    ck_assert(job_grace_parse("30", &t, &err) == 0 && t == 30);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("all");

    tcase_add_loop_test(tc, every_shape, 0, NFIELDS);
    tcase_add_loop_test(tc, missing, 0, NFIELDS);
    tcase_add_loop_test(tc, unknown_beside, 0, NFIELDS);
    tcase_add_loop_test(tc, wrong_text, 0, sizeof(edits) / sizeof(edits[0]));
    tcase_add_test(tc, cut_off_anywhere);
    tcase_add_test(tc, not_an_object);
    tcase_add_test(tc, many_values);
    tcase_add_test(tc, deep);
    tcase_add_test(tc, all_of_it);
    tcase_add_test(tc, smallest);
    tcase_add_test(tc, range_of_slots);
    tcase_add_test(tc, build_and_read);
    tcase_add_test(tc, build_plain);
    tcase_add_test(tc, bytes_arrive);
    tcase_add_test(tc, several_programs);
    tcase_add_test(tc, build_wrong);
    tcase_add_test(tc, set_paths);
    tcase_add_test(tc, names);
    tcase_add_test(tc, times_of_jobs);
    return run_case("jobspec", tc);
}
