/* check_cmdjobs.c - options to jobspecs, lines to words, lists of jobs to text, output by lines. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "libutil/test/suite.h"
#include "src/cmd/cmd_private.h"
#include "../jobopts.h"
#include "../jobs_table.h"
#include "../outrec.h"
#include "../taskout.h"

static const struct cmd_opt opts[] = {
    CMD_OPT_HEADING("Own"),
    {'Q', "quiet", NULL, "q"},
    JOBOPTS_RESOURCES,
    JOBOPTS_TASKS,
    JOBOPTS_FILES,
    JOBOPTS_JOB,
    CMD_OPT_END,
};
static const struct cmd_usage usage = {"", "", opts, NULL, CMD_STOP};

static struct cmd_private priv;
static struct cmd c;

static void setup(void)
{
    memset(&priv, 0, sizeof(priv));
    c = (struct cmd){.name = "test", .priv = &priv};
    ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr));
}

static int refuse_own(void *arg, int key, const char *val)
{
    return arg && key == 'Q' ? 1 : 0;
}

/* Options in a line, then the command `true`; NULL when one of them is refused. */
static json_t *spec_of(const char *line)
{
    char *argv[] = {"true", "{{cc}}", NULL};
    jobopts_t *jo = jobopts_create(&c);
    json_t *o = NULL;
    char *text;

    ck_assert_ptr_nonnull(jo);
    if (jobopts_words(jo, &usage, line, "line", refuse_own, NULL) == 0) {
        ck_assert_int_eq(jobopts_command(jo, argv), 0);
        if ((text = jobopts_jobspec(jo, false))) {
            o = json_loads(text, 0, NULL);
            ck_assert_ptr_nonnull(o);
            free(text);
        }
    }
    ck_assert_ptr_null(c.where);
    jobopts_destroy(jo);
    return o;
}

/* The part of the jobspec at a path ("resources.0.count") is that JSON. */
static void part_is(const char *line, const char *path, const char *want)
{
    json_t *spec = spec_of(line), *o = spec,
           *w = want ? json_loads(want, JSON_DECODE_ANY, NULL) : NULL;
    char copy[256], *save, *got;
    json_t *options;

    ck_assert_msg(spec != NULL, "%s: refused", line);
    /* What this process has, and every job is to have, is asked for by its own path only. */
    options = json_object_get(spec, "attributes");
    for (int i = 0; i < 3; i++)
        options = json_object_get(options, (const char *[]){"system", "shell", "options"}[i]);
    ck_assert_ptr_nonnull(json_object_get(options, "umask"));
    if (!strstr(path, "soft-limits"))
        json_object_del(options, "soft-limits");
    if (!strstr(path, "umask"))
        json_object_del(options, "umask");
    snprintf(copy, sizeof(copy), "%s", path);
    for (char *p = strtok_r(copy, ".", &save); p; p = strtok_r(NULL, ".", &save))
        o = json_is_array(o) ? json_array_get(o, (size_t)atoi(p)) : json_object_get(o, p);
    got = o ? json_dumps(o, JSON_ENCODE_ANY) : NULL;
    ck_assert_msg(o ? json_equal(o, w) : !w, "%s: %s is %s, not %s", line, path, got, want);
    free(got);
    json_decref(w);
    json_decref(spec);
}

static void refused(const char *line)
{
    json_t *spec = spec_of(line);

    ck_assert_msg(spec == NULL, "%s: accepted", line);
}

#define NODE "resources.0"
#define SYSTEM "attributes.system"

START_TEST(shapes)
{
    part_is("", NODE ".type", "\"slot\"");
    part_is("", NODE ".count", "1");
    part_is("", "tasks.0.count", "{\"per_slot\":1}");
    part_is("-n5", NODE ".count", "5");
    part_is("-N3", NODE ".type", "\"node\"");
    part_is("-N3", NODE ".count", "3");
    part_is("-N3", NODE ".with.0.count", "1");
    part_is("-N2 -n8", NODE ".with.0.count", "4");
    part_is("-N2 -n8", "tasks.0.count", "{\"per_slot\":1}");
    part_is("-N2 -n7", NODE ".with.0.count", "4");
    part_is("-N2 -n7", "tasks.0.count", "{\"total\":7}");
    part_is("-N2 --tasks-per-node=3", NODE ".with.0.count", "3");
    part_is("-n6 --tasks-per-node=3", NODE ".count", "2");
    part_is("-n7 --tasks-per-node=3", NODE ".count", "3");
    part_is("-n7 --tasks-per-node=3", "tasks.0.count", "{\"total\":7}");
    part_is("-N2 -n6 --tasks-per-node=3", NODE ".with.0.count", "3");
    part_is("-N2 -n64 --overcommit", NODE ".with.0.count", "{\"min\":1,\"max\":32}");
    part_is("-N2 -n64 --overcommit", "tasks.0.count", "{\"total\":64}");
    part_is("-n64 --overcommit", NODE ".type", "\"slot\"");
    part_is("-n64 --overcommit", NODE ".count", "{\"min\":1,\"max\":64}");
    part_is("--overcommit", NODE ".count", "{\"min\":1,\"max\":1}");
    part_is("-n64 --overcommit", "tasks.0.count", "{\"total\":64}");
    part_is("-N2 -x", NODE ".exclusive", "true");
    part_is("-c4", NODE ".with.0", "{\"type\":\"core\",\"count\":4}");
    part_is("-g2 --mem=1.5G", NODE ".with.1", "{\"type\":\"gpu\",\"count\":2}");
    part_is("-g2 --mem=1.5G", NODE ".with.2", "{\"type\":\"memory\",\"count\":1536}");
    part_is("--mem=1", NODE ".with.1.count", "1");
    part_is("--pool power=5 --pool power=100", "resources.1", "{\"type\":\"power\",\"count\":100}");
    refused("-N2 -n1");
    refused("-x");
    refused("--tasks-per-node=2");
    refused("-N2 -n7 --tasks-per-node=3");
    refused("-N0");
    refused("-n0");
    refused("-c0");
    refused("-n x");
    refused("--pool power");
    refused("--pool power=0");
    refused("--pool =3");
    refused("--mem=0");
    refused("--mem=lots");
}
END_TEST

static char *programs_of(const char *line, const char *options)
{
    jobopts_t *jo = jobopts_create(&c);
    json_t *o = NULL;
    char *text, *tasks = NULL;

    ck_assert_ptr_nonnull(jo);
    ck_assert_int_eq(jobopts_words(jo, &usage, options, "line", NULL, NULL), 0);
    if (jobopts_command_line(jo, line) == 0 && (text = jobopts_jobspec(jo, false))) {
        o = json_loads(text, 0, NULL);
        tasks = json_dumps(json_object_get(o, "tasks"), JSON_COMPACT);
        json_decref(o);
        free(text);
    }
    jobopts_destroy(jo);
    return tasks;
}

START_TEST(programs)
{
#define PROGRAM(command, total) \
    "{\"command\":[" command "],\"slot\":\"task\",\"count\":{\"total\":" total "}"
    static const struct {
        const char *options, *line, *tasks; /* NULL: refused */
    } tests[] = {
        {"", "a : b", "[" PROGRAM("\"a\"", "1") "}," PROGRAM("\"b\"", "1") "}]"},
        {"-n2", "a x : -n 3 b -n4 : c",
         "[" PROGRAM("\"a\",\"x\"", "2") "}," PROGRAM("\"b\",\"-n4\"", "3") "}," PROGRAM("\"c\"",
                                                                                         "1") "}]"},
        {"", "a : --env=A=1 --env=-B --ntasks=2 b :: x",
         "[" PROGRAM("\"a\"", "1") "}," PROGRAM("\"b\",\"::\",\"x\"",
                                                "2") ",\"environment\":{\"A\":\"1\",\"B\":null}}]"},
        {"", "a : -n2 -- b", "[" PROGRAM("\"a\"", "1") "}," PROGRAM("\"b\"", "2") "}]"},
        {"-N2", "a : b", "[" PROGRAM("\"a\"", "1") "}," PROGRAM("\"b\"", "1") "}]"},
        {"", "a :", NULL},
        {"", ": a", NULL},
        {"", "a : : b", NULL},
        {"", "a : -n0 b", NULL},
        {"", "a : -nx b", NULL},
        {"", "a : -N2 b", NULL},
        {"", "a : --env== b", NULL},
        {"", "a : -n2", NULL},
        {"-N3", "a : b", NULL},
    };
#undef PROGRAM

    for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
        char *got = programs_of(tests[i].line, tests[i].options);

        ck_assert_msg(tests[i].tasks ? got && strcmp(got, tests[i].tasks) == 0 : !got, "%s %s: %s",
                      tests[i].options, tests[i].line, got ? got : "refused");
        free(got);
    }
}
END_TEST

START_TEST(attributes)
{
    part_is("-t 90s", SYSTEM ".duration", "90.0");
    part_is("-t 30", SYSTEM ".duration", "1800.0");
    part_is("--time=1.5", SYSTEM ".duration", "90.0");
    part_is("-t 2:30", SYSTEM ".duration", "150.0");
    part_is("-t 1:00:00", SYSTEM ".duration", "3600.0");
    part_is("-t 1-12", SYSTEM ".duration", "129600.0");
    part_is("-t 1-00:00:30", SYSTEM ".duration", "86430.0");
    part_is("--grace=30", SYSTEM ".shell.options.grace", "30.0");
    part_is("-t inf", SYSTEM ".duration", "0.0");
    part_is("--chdir=/usr", SYSTEM ".cwd", "\"/usr\"");
    part_is("--dependency=afterok:7,after:8 --dependency=afternotok:9", SYSTEM ".dependencies",
            "[{\"scheme\":\"afterok\",\"value\":\"7\"},{\"scheme\":\"after\",\"value\":\"8\"},"
            "{\"scheme\":\"afternotok\",\"value\":\"9\"}]");
    part_is("--requires=a,^b", SYSTEM ".constraints.properties", "[\"a\",\"^b\"]");
    part_is("--ranks=0-3", SYSTEM ".constraints.ranks", "\"0-3\"");
    part_is("--hosts=n[1-2]", SYSTEM ".constraints.hosts", "\"n[1-2]\"");
    part_is("--name 'a \"b\"'", SYSTEM ".job.name", "\"a \\\"b\\\"\"");
    part_is("-O /x -l --kill-on-bad-exit --layout=cyclic --mpi=pmix", SYSTEM ".shell.options",
            "{\"output\":\"/x\",\"label\":true,\"kill-on-bad-exit\":true,\"layout\":\"cyclic\","
            "\"mpi\":\"pmix\"}");
    part_is("--survive-node-loss", SYSTEM ".shell.options.survive-node-loss", "true");
    part_is("--requeue", SYSTEM ".shell.options.requeue", "true");
    part_is("--mpi=pmi", SYSTEM ".shell.options.mpi", "\"pmi\"");
    part_is("--mpi=both", SYSTEM ".shell.options.mpi", NULL);
    part_is("--rlimit=nofile=1K --rlimit=core=unlimited --rlimit=nofile=5",
            SYSTEM ".shell.options.rlimits", "{\"nofile\":5,\"core\":\"unlimited\"}");
    part_is("--rlimit=none --rlimit=core=1", SYSTEM ".shell.options.soft-limits", NULL);
    part_is("--rlimit=as=1M --rlimit=core=0 --rlimit=cpu=9 --rlimit=data=1M --rlimit=fsize=1M "
            "--rlimit=nofile=99 --rlimit=stack=1M",
            SYSTEM ".shell.options.soft-limits", NULL);
    umask(0027);
    part_is("", SYSTEM ".shell.options.umask", "\"0027\"");
    part_is("--setattr=a.b=3 --setattr user.c=x --setattr=d", "attributes.user",
            "{\"a\":{\"b\":3},\"c\":\"x\",\"d\":true}");
    part_is("--setattr=system.zone=eu", SYSTEM ".zone", "\"eu\"");
    part_is("-o foo={\\\"a\\\":1}", SYSTEM ".shell.options.foo", "{\"a\":1}");
    part_is("--stdin=all", SYSTEM ".shell.options.stdin", "\"all\"");
    refused("-t 0");
    refused("-t -1");
    refused("--dependency=7");
    refused("--dependency=afterok:");
    refused("--dependency=afterok:0");
    refused("--dependency=before:7");
    refused("--ranks=3-1");
    refused("--ranks=''");
    refused("--hosts='n[1'");
    refused("--requires=a,,b");
    refused("--layout=diagonal");
    refused("--mpi=smoke");
    refused("--stdin=me");
    refused("--rlimit=color=3");
    refused("--rlimit=core=blue");
    refused("--urgency=32");
    refused("--begin-time=soon");
    refused("--begin-time=+inf");
    refused("--setattr==3");
    refused("--setattr=a..b=3");
    refused("--env=");
    refused("--env==x");
}
END_TEST

static double begin_of(const char *line)
{
    json_t *spec = spec_of(line);
    double t;

    ck_assert_msg(spec != NULL, "%s: refused", line);
    t = json_number_value(json_object_get(
        json_object_get(json_object_get(spec, "attributes"), "system"), "begin-time"));
    json_decref(spec);
    return t;
}

START_TEST(begin_times)
{
    double now = (double)time(NULL);

    ck_assert(begin_of("--begin-time=+1h") >= now + 3600);
    ck_assert(begin_of("--begin-time=now+1h") < now + 3700);
    setenv("TZ", "UTC", 1);
    tzset();
    ck_assert(begin_of("--begin-time=2030-12-31T17:30") == 1924968600.);
    ck_assert(begin_of("--begin-time='2030-12-31 17:30:15'") == 1924968615.);
    ck_assert(begin_of("--begin-time=2031-01-01") == 1924992000.);
    for (int h = 0; h < 24; h += 5) {
        char line[64];

        snprintf(line, sizeof(line), "--begin-time=%02d:07", h);
        ck_assert(begin_of(line) > now);
        ck_assert(begin_of(line) <= now + 86400);
    }
}
END_TEST

START_TEST(words)
{
    jobopts_t *jo = jobopts_create(&c);
    char *text;

    ck_assert_int_eq(jobopts_words(jo, &usage, "  -N2\t--name='x y'z # comment", "w", NULL, NULL),
                     0);
    ck_assert_str_eq(jobopts_name(jo), "x yz");
    ck_assert_int_eq(jobopts_words(jo, &usage, "", "w", NULL, NULL), 0);
    ck_assert_int_eq(jobopts_words(jo, &usage, "--name=\"a\\\"b#\"", "w", NULL, NULL), 0);
    ck_assert_str_eq(jobopts_name(jo), "a\"b#");
    ck_assert_int_eq(jobopts_words(jo, &usage, "--name='a", "w", NULL, NULL), -1);
    ck_assert_int_eq(jobopts_words(jo, &usage, "-N2 operand", "w", NULL, NULL), -1);
    ck_assert_int_eq(jobopts_words(jo, &usage, "--no-such", "w", NULL, NULL), -1);
    ck_assert_int_eq(jobopts_words(jo, &usage, "-Q", "w", NULL, NULL), -1);
    ck_assert_int_eq(jobopts_words(jo, &usage, "-Q", "w", refuse_own, NULL), -1);
    ck_assert_int_eq(jobopts_words(jo, &usage, "-Q", "w", refuse_own, &c), 0);
    ck_assert_int_eq(jobopts_command_line(jo, "sh -c 'echo $1 # no comment' \"\" #x"), 0);
    text = jobopts_jobspec(jo, true);
    ck_assert_ptr_nonnull(text);
    ck_assert_ptr_nonnull(strstr(text, "[\"sh\",\"-c\",\"echo $1 # no comment\",\"\",\"#x\"]"));
    ck_assert_ptr_nonnull(strstr(text, "\"FLUX_JOB_CC\":\"{{cc}}\""));
    free(text);
    jobopts_destroy(jo);
}
END_TEST

START_TEST(copies)
{
    char *text = jobopts_replace_cc("{{cc}}a{{cc}}{{c}}{{cc}", 17);

    ck_assert_str_eq(text, "17a17{{c}}{{cc}");
    free(text);
}
END_TEST

START_TEST(environment)
{
    jobopts_t *jo;
    char *const *env;
    int seen = 0;

    setenv("CHECK_A", "1", 1);
    setenv("CHECK_B", "2", 1);
    jo = jobopts_create(&c);
    ck_assert_int_eq(jobopts_option(jo, JOBOPTS_KEY_ENV, "-CHECK_A"), 1);
    ck_assert_int_eq(jobopts_option(jo, JOBOPTS_KEY_ENV, "CHECK_C=x=y"), 1);
    ck_assert_int_eq(jobopts_option(jo, JOBOPTS_KEY_ENV, "CHECK_B"), 1);
    ck_assert_int_eq(jobopts_option(jo, JOBOPTS_KEY_HOLD, NULL), 1);
    ck_assert_int_eq(jobopts_urgency(jo), 0);
    ck_assert_int_eq(jobopts_option(jo, JOBOPTS_KEY_URGENCY, "expedite"), 1);
    ck_assert_int_eq(jobopts_urgency(jo), 31);
    ck_assert_int_eq(jobopts_option(jo, 'Z', NULL), 0);
    for (env = jobopts_env(jo); *env; env++) {
        ck_assert(strncmp(*env, "CHECK_A", 7) != 0);
        seen += strcmp(*env, "CHECK_B=2") == 0;
        seen += strcmp(*env, "CHECK_C=x=y") == 0;
    }
    ck_assert_int_eq(seen, 2);
    jobopts_destroy(jo);
}
END_TEST

/* --- lists --- */

static const struct job_info jobs[] = {
    {.id = 7,
     .canceled_by = -1,
     .uid = 4000000001u,
     .state = "SCHED",
     .name = "wait",
     .ntasks = 4,
     .urgency = 16,
     .t_submit = 100.,
     .why = "no node is free",
     .t_estimate = 200.},
    {.id = 12,
     .canceled_by = -1,
     .uid = 4000000001u,
     .state = "RUN",
     .name = "a\033[1mb\xff\xc3\xa4",
     .ntasks = 16,
     .nnodes = 2,
     .t_submit = 90.,
     .t_run = 95.,
     .nodelist = "n[0-1]",
     .switches = "leaf[0,3]",
     .hops = 4. / 3},
    {.id = 3,
     .canceled_by = -1,
     .uid = 4000000001u,
     .state = "INACTIVE",
     .result = "failed",
     .code = 3,
     .ntasks = 1,
     .t_run = 10.,
     .t_cleanup = 75.},
    {.id = 1,
     .uid = 4000000001u,
     .state = "INACTIVE",
     .result = "canceled",
     .exception = "cancel",
     .canceled_by = -1,
     .note = "no need"},
};

static void table_is(const char *spec, const struct jobs_print *p, const char *want)
{
    char *text = NULL;
    size_t size;
    errmsg_t err;
    FILE *f = open_memstream(&text, &size);
    jobs_table_t *t = jobs_table_create(spec, "id,state", &err);

    ck_assert_msg(t != NULL, "%s: %s", spec, err.text);
    for (size_t i = 0; i < sizeof(jobs) / sizeof(*jobs); i++)
        ck_assert_int_eq(jobs_table_add(t, &jobs[i], 100.), 0);
    jobs_table_print(t, f, p);
    fclose(f);
    ck_assert_str_eq(text, want);
    free(text);
    jobs_table_destroy(t);
}

START_TEST(tables)
{
    const struct jobs_print plain = {.header = true}, bare = {.header = false},
                            narrow = {.header = true, .width = 12, .rows = 2, .tail = "$"},
                            colors = {.colors = true};

    table_is("id,state,ntasks", &plain,
             "ID  STATE     TASKS\n"
             " 7  pending       4\n"
             "12  running      16\n"
             " 3  failed        1\n"
             " 1  canceled      0\n");
    table_is("+name,time", &bare,
             " 7  pending   wait          -\n"
             "12  running   a?[1mb?ä  5.00s\n"
             " 3  failed    -          1:05\n"
             " 1  canceled  -             -\n");
    table_is("id,switches,hops", &plain,
             "ID  SWITCHES   HOPS\n"
             " 7  -             -\n"
             "12  leaf[0,3]  1.33\n"
             " 3  -             -\n"
             " 1  -             -\n");
    table_is("{id:>4}|{state:.3}|{info:10.4}|", &bare,
             "   7|pen|no n      |\n"
             "  12|run|n[0-      |\n"
             "   3|fai|exit      |\n"
             "   1|can|canc      |\n");
    table_is("id,state,info", &narrow, "ID  STATE$\n 7  pending$\n12  running$\n");
    table_is("state", &colors,
             "pending\n\033[32mrunning\033[0m\n\033[31mfailed\033[0m\n\033[33mcanceled\033[0m\n");
}
END_TEST

START_TEST(bad_tables)
{
    static const char *const bad[] = {"",    ",",       "color",    "id,,name",
                                      "{id", "{id:x}",  "{id:3.y}", "{id:99999}",
                                      "{}",  "plain {", "+nothing"};
    errmsg_t err;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        ck_assert_msg(jobs_table_create(bad[i], "id", &err) == NULL, "%s: accepted", bad[i]);
}
END_TEST

START_TEST(times)
{
    char buf[32];

    ck_assert_str_eq(jobs_time_text(-3., buf, sizeof(buf)), "0.00s");
    ck_assert_str_eq(jobs_time_text(9.5, buf, sizeof(buf)), "9.50s");
    ck_assert_str_eq(jobs_time_text(59.9, buf, sizeof(buf)), "59s");
    ck_assert_str_eq(jobs_time_text(60., buf, sizeof(buf)), "1:00");
    ck_assert_str_eq(jobs_time_text(3661., buf, sizeof(buf)), "1:01:01");
    ck_assert_str_eq(jobs_time_text(90061., buf, sizeof(buf)), "1d01:01");
}
END_TEST

/* --- output --- */

static void collect(void *arg, uint32_t task, uint32_t stream, const void *data, size_t len)
{
    char *got = arg;
    size_t n = strlen(got);

    snprintf(got + n, 256 - n, "[%u %u %.*s]", task, stream, (int)len, (const char *)data);
}

START_TEST(records)
{
    static const char text[] = "0 1 3\nabc12 2 0\n4294967295 2 2\nx\n7 1 1\n!";
    static const char *const bad[] = {"\n",
                                      "x\n",
                                      "1 1\n",
                                      "1 3 1\n",
                                      "1 0 1\n",
                                      " 1 1 1\n",
                                      "1  1 1\n",
                                      "1 1 1 \n",
                                      "-1 1 1\n",
                                      "1 1 -1\n",
                                      "4294967296 1 1\n",
                                      "1 1 9223372036854775808\n",
                                      "1 1 99999999999999999999999999999999999999999999999999"};
    errmsg_t err;

    for (size_t step = 1; step <= sizeof(text); step++) {
        struct outrec r = {.nhead = 0};
        char got[256] = "";

        for (size_t i = 0; i < sizeof(text) - 1; i += step) {
            size_t n = sizeof(text) - 1 - i < step ? sizeof(text) - 1 - i : step;

            ck_assert_int_eq(outrec_take(&r, text + i, n, collect, got, &err), 0);
        }
        if (step == 1)
            ck_assert_str_eq(got, "[0 1 a][0 1 b][0 1 c][4294967295 2 x][4294967295 2 \n][7 1 !]");
        if (step == sizeof(text))
            ck_assert_str_eq(got, "[0 1 abc][4294967295 2 x\n][7 1 !]");
        ck_assert_uint_eq(r.left, 0);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct outrec r = {.nhead = 0};
        char got[256] = "";

        ck_assert_msg(outrec_take(&r, bad[i], strlen(bad[i]), collect, got, &err) == -1, "%s",
                      bad[i]);
        ck_assert_int_eq(errno, EPROTO);
    }
}
END_TEST

static void must_not(void *arg, int errnum)
{
    ck_abort_msg("output failed: %s", strerror(errnum));
}

static void ignore(void *arg)
{
}

START_TEST(labels)
{
    const struct outsink_cb cb = {must_not, ignore, NULL};
    const struct taskout_params p = {.label = true, .prefix = "5."};
    flux_reactor_t *r = flux_reactor_create(false);
    char got[256] = "";
    int fd[2];
    outsink_t *s;
    taskout_t *t;

    ck_assert_int_eq(pipe(fd), 0);
    s = outsink_create(r, fd[1], &cb);
    t = taskout_create(&p, s, s);
    taskout_write(t, 0, 1, "one\ntw", 6);
    taskout_write(t, 1, 1, "\n", 1);
    taskout_write(t, 0, 2, "err\n", 4);
    taskout_write(t, 0, 1, "o\nrest", 6);
    taskout_finish(t);
    ck_assert_int_gt(read(fd[0], got, sizeof(got) - 1), 0);
    ck_assert_str_eq(got, "5.0: one\n5.1: \n5.0: err\n5.0: two\n5.0: rest\n");
    taskout_destroy(t);
    outsink_destroy(s);
    close(fd[0]);
    close(fd[1]);
    flux_reactor_destroy(r);
}
END_TEST

START_TEST(no_room)
{
    const struct outsink_cb cb = {must_not, ignore, NULL};
    flux_reactor_t *r = flux_reactor_create(false);
    static char data[300000], got[sizeof(data)];
    size_t n = 0;
    int fd[2];
    outsink_t *s;

    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (char)(i % 251);
    ck_assert_int_eq(pipe(fd), 0);
    s = outsink_create(r, fd[1], &cb);
    outsink_write(s, data, sizeof(data));
    ck_assert_uint_gt(outsink_waiting(s), 0);
    while (n < sizeof(got)) {
        ssize_t k = read(fd[0], got + n, sizeof(got) - n < 4096 ? sizeof(got) - n : 4096);

        ck_assert_int_gt(k, 0);
        n += (size_t)k;
        if (outsink_waiting(s) > 0)
            outsink_flush(s);
    }
    ck_assert_mem_eq(got, data, sizeof(data));
    outsink_destroy(s);
    close(fd[0]);
    close(fd[1]);
    flux_reactor_destroy(r);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("all");

    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, shapes);
    tcase_add_test(tc, programs);
    tcase_add_test(tc, attributes);
    tcase_add_test(tc, begin_times);
    tcase_add_test(tc, words);
    tcase_add_test(tc, copies);
    tcase_add_test(tc, environment);
    tcase_add_test(tc, tables);
    tcase_add_test(tc, bad_tables);
    tcase_add_test(tc, times);
    tcase_add_test(tc, records);
    tcase_add_test(tc, labels);
    tcase_add_test(tc, no_room);
    return run_case("cmdjobs", tc);
}
