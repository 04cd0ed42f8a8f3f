/* check_cmdjobs.c - options to jobspecs, lines to words, lists of jobs to text, output by lines. */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "libutil/test/fail_at.h"
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

/* A sink into a pipe, on a reactor with a clock of its own. */
struct printer {
    double now, due; /* due: when the timer fires; 0: it is stopped */
    flux_watcher_t *timer;
    flux_reactor_t *r;
    outsink_t *sink;
    int fd[2];
    char got[4096];
};

static double print_now(void *impl)
{
    return ((struct printer *)impl)->now;
}

static int print_set(void *impl, flux_watcher_t *w, double at)
{
    struct printer *p = impl;

    p->timer = w;
    p->due = at;
    return 0;
}

static void print_clear(void *impl, flux_watcher_t *w)
{
    ((struct printer *)impl)->due = 0.;
}

static int print_defer(void *impl, flux_watcher_t *w)
{
    return 0;
}

static void printer_start(struct printer *p)
{
    static const struct flux_reactor_ops ops = {.now = print_now,
                                                .timer_set = print_set,
                                                .timer_clear = print_clear,
                                                .defer = print_defer,
                                                .defer_clear = print_clear};
    const struct outsink_cb cb = {must_not, ignore, NULL};

    *p = (struct printer){.now = 100.};
    ck_assert_int_eq(pipe2(p->fd, O_NONBLOCK), 0);
    ck_assert_ptr_nonnull(p->r = flux_reactor_create_ops(&ops, p));
    ck_assert_ptr_nonnull(p->sink = outsink_create(p->r, p->fd[1], &cb));
}

static void printer_stop(struct printer *p)
{
    outsink_destroy(p->sink);
    flux_reactor_destroy(p->r);
    close(p->fd[0]);
    close(p->fd[1]);
}

/* Let the clock go on to `now`. */
static void elapse(struct printer *p, double now)
{
    while (p->due > 0. && p->due <= now) {
        p->now = p->due;
        p->due = 0.;
        flux_watcher_fire(p->timer);
    }
    p->now = now;
}

/* What was printed since the last call. */
static const char *printed(struct printer *p)
{
    ssize_t n = read(p->fd[0], p->got, sizeof(p->got) - 1);

    p->got[n > 0 ? n : 0] = 0;
    return p->got;
}

#define SAYS(t, task, text) taskout_write(t, task, 1, text, strlen(text))

START_TEST(whole_lines)
{
    const struct taskout_params params = {.label = false};
    struct printer p;
    taskout_t *t, *u;

    printer_start(&p);
    t = taskout_create(&params, p.sink, p.sink);
    u = taskout_create(&params, p.sink, p.sink); /* another job */
    SAYS(t, 0, "1");
    ck_assert_str_eq(printed(&p), "1"); /* at once */
    SAYS(t, 1, "2");
    SAYS(t, 2, "3\n4");
    SAYS(u, 0, "5\n");
    ck_assert_str_eq(printed(&p), "");
    SAYS(t, 1, "2");
    SAYS(t, 0, "\n");
    ck_assert_str_eq(printed(&p), "\n3\n5\n22");
    SAYS(t, 2, "4\n");
    SAYS(t, 1, "2\nprompt> ");
    ck_assert_str_eq(printed(&p), "2\n44\nprompt> ");
    /* the line is given up when nothing has come for a second */
    SAYS(t, 0, "6\n");
    elapse(&p, 100.9);
    SAYS(t, 1, "go");
    elapse(&p, 101.8);
    ck_assert_str_eq(printed(&p), "go");
    elapse(&p, 102.);
    ck_assert_str_eq(printed(&p), "6\n");
    ck_assert(p.due == 0.);
    SAYS(t, 1, "x");
    elapse(&p, 104.);
    SAYS(t, 2, "7\n");
    ck_assert_str_eq(printed(&p), "x7\n");
    /* prompts of all tasks show, one after the other */
    SAYS(t, 0, "a> ");
    SAYS(t, 1, "b> ");
    SAYS(t, 2, "c> ");
    ck_assert_str_eq(printed(&p), "a> ");
    elapse(&p, 105.);
    ck_assert_str_eq(printed(&p), "b> c> ");
    /* another job does not wait for one that has ended */
    SAYS(t, 0, "end");
    SAYS(t, 1, "ing");
    SAYS(u, 0, "8\n");
    taskout_finish(t);
    ck_assert_str_eq(printed(&p), "end8\ning");
    taskout_destroy(t);
    SAYS(u, 0, "9");
    SAYS(u, 1, "10");
    taskout_destroy(u);
    ck_assert_str_eq(printed(&p), "9");
    printer_stop(&p);
}
END_TEST

enum { TASKS = 3, LINES = 4000, WIDTH = 48 };

struct writers {
    char text[TASKS][LINES * WIDTH + 1], all[TASKS * LINES * WIDTH];
    size_t at[TASKS], n;
    taskout_t *t;
    struct printer p;
};

/* The next bytes of task `i`, at most `len`. */
static void write_some(struct writers *w, unsigned i, size_t len)
{
    size_t left = (size_t)LINES * WIDTH - w->at[i];
    ssize_t k;

    len = left < len ? left : len;
    taskout_write(w->t, i, 1, w->text[i] + w->at[i], len);
    w->at[i] += len;
    while ((k = read(w->p.fd[0], w->all + w->n, sizeof(w->all) - w->n)) > 0 ||
           (outsink_waiting(w->p.sink) > 0 && w->n < sizeof(w->all))) {
        w->n += k > 0 ? (size_t)k : 0;
        outsink_flush(w->p.sink);
    }
}

/* Lines of tasks that write much, in pieces of any size, stay whole: three tasks, from a seed. */
START_TEST(bulk_lines)
{
    const struct taskout_params params = {.label = false};
    static struct writers w;
    unsigned seed = (unsigned)_i + 1, next[TASKS] = {0};

    w = (struct writers){.n = 0};
    printer_start(&w.p);
    ck_assert_ptr_nonnull(w.t = taskout_create(&params, w.p.sink, w.p.sink));
    for (unsigned i = 0; i < TASKS; i++)
        for (unsigned j = 0; j < LINES; j++)
            sprintf(w.text[i] + (size_t)j * WIDTH, "%u %*u\n", i, WIDTH - 3, j);
    while (w.at[0] + w.at[1] + w.at[2] < sizeof(w.all)) {
        unsigned i = (unsigned)rand_r(&seed) % TASKS;

        if (rand_r(&seed) % 2) {
            write_some(&w, i, 4096 + (size_t)rand_r(&seed) % (rand_r(&seed) % 4 ? 4096 : 65536));
        } else { /* a small piece, soon followed by the end of its line */
            write_some(&w, i, 1 + (size_t)rand_r(&seed) % 4096);
            write_some(&w, (i + 1) % TASKS, 1 + (size_t)rand_r(&seed) % 32768);
            write_some(&w, i, WIDTH - w.at[i] % WIDTH);
            write_some(&w, (i + 1) % TASKS, WIDTH - w.at[(i + 1) % TASKS] % WIDTH);
        }
    }
    ck_assert_uint_eq(w.n, sizeof(w.all));
    for (size_t pos = 0; pos < w.n; pos += WIDTH) {
        unsigned i = (unsigned)(w.all[pos] - '0');

        ck_assert_uint_lt(i, TASKS);
        ck_assert_mem_eq(w.all + pos, w.text[i] + (size_t)WIDTH * next[i], WIDTH);
        next[i]++;
    }
    taskout_destroy(w.t);
    printer_stop(&w.p);
}
END_TEST

/* A line is given up when too much waits for its end. */
START_TEST(too_much_held)
{
    const struct taskout_params params = {.label = false};
    static char much[65536];
    struct printer p;
    taskout_t *t;

    memset(much, '\n', sizeof(much));
    printer_start(&p);
    t = taskout_create(&params, p.sink, p.sink);
    SAYS(t, 0, "open");
    for (uint32_t i = 1; i <= 17; i++)
        taskout_write(t, i, 1, much, sizeof(much));
    ck_assert_str_eq(printed(&p), "open");
    ck_assert_uint_eq(outsink_waiting(p.sink), 0);
    SAYS(t, 1, "y"); /* the first one with more than 64 KiB */
    ck_assert_int_eq(strncmp(printed(&p), "\n\n", 2), 0);
    ck_assert_uint_ge(outsink_waiting(p.sink), 16 * sizeof(much));
    taskout_destroy(t);
    printer_stop(&p);
}
END_TEST

START_TEST(labels)
{
    const struct taskout_params params = {.label = true, .prefix = "5."};
    struct printer p;
    taskout_t *t;

    printer_start(&p);
    t = taskout_create(&params, p.sink, p.sink);
    SAYS(t, 0, "one\ntw");
    SAYS(t, 1, "\n");
    taskout_write(t, 0, 2, "err\n", 4);
    SAYS(t, 0, "o\nrest");
    taskout_finish(t);
    ck_assert_str_eq(printed(&p), "5.0: one\n5.1: \n5.0: err\n5.0: two\n5.0: rest\n");
    taskout_destroy(t);
    printer_stop(&p);
}
END_TEST

/* Any allocation may fail: no byte is lost or printed twice, and each line has a label. */
START_TEST(labels_without_memory)
{
    const struct taskout_params params = {.label = true};
    unsigned left = 0, failed = 0;

    for (unsigned n = 1; left == 0; n++, failed++) {
        struct printer p;
        char long_end[3000], whole[4000], parts[4000];
        const char *got;
        taskout_t *t;

        memset(long_end, 'o', sizeof(long_end) - 1);
        long_end[sizeof(long_end) - 1] = '\0';
        snprintf(whole, sizeof(whole), "0: one\n0: tw%s\n", long_end);
        snprintf(parts, sizeof(parts), "0: one\n0: tw\n0: %s\n", long_end);
        printer_start(&p);
        t = taskout_create(&params, p.sink, p.sink);
        fail_at = n;
        SAYS(t, 0, "one\ntw");
        SAYS(t, 0, long_end);
        left = stop_failing();
        taskout_finish(t);
        got = printed(&p);
        ck_assert_msg(strcmp(got, whole) == 0 || strcmp(got, parts) == 0, "%u: %s", n, got);
        taskout_destroy(t);
        printer_stop(&p);
    }
    ck_assert_uint_gt(failed, 3);
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
    tcase_add_test(tc, labels_without_memory);
    tcase_add_test(tc, whole_lines);
    tcase_add_loop_test(tc, bulk_lines, 0, 20);
    tcase_add_test(tc, too_much_held);
    tcase_add_test(tc, no_room);
    return run_case("cmdjobs", tc);
}
