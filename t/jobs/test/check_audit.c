/* check_audit.c - each kind of violation, planted, is named; a sound record has none. */
#include "config.h"
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/test/suite.h"
#include "jobs/audit.h"
#include "jobs/audit_links.h"

static const char inventory[] =
    "{\"nodes\":[{\"ranks\":\"0-1\",\"hosts\":\"node[0-1]\",\"cores\":\"0-3\",\"gpus\":\"0\","
    "\"memory\":1000}],\"pools\":[{\"name\":\"power\",\"count\":100}],\"emulated\":false}";

#define R(rank, cores, more)                                                        \
    "{\"version\":1,\"execution\":{\"R_lite\":[{\"rank\":\"" rank                   \
    "\",\"children\":{\"core\":\"" cores "\"" more "}}],\"nodelist\":[\"node[" rank \
    "]\"],\"starttime\":0,\"expiration\":0}}"

#define SPEC(resources, system)                                                            \
    "{\"version\":1,\"resources\":[" resources                                             \
    "],\"tasks\":[{\"command\":[\"true\"],\"slot\":\"task\",\"count\":{\"per_slot\":1}}]," \
    "\"attributes\":{\"system\":{\"duration\":0" system "}}}"
#define SLOT(n, core, more)            \
    "{\"type\":\"slot\",\"count\":" #n \
    ",\"label\":\"task\",\"with\":[{\"type\":\"core\",\"count\":" #core "}" more "]}"
#define NODES(n, slot) "{\"type\":\"node\",\"count\":" #n ",\"with\":[" slot "]}"

#define ONE SPEC(SLOT(1, 1, ""), "")
#define AFTER(scheme, id) \
    SPEC(SLOT(1, 1, ""), ",\"dependencies\":[{\"scheme\":\"" scheme "\",\"value\":\"" id "\"}]")

/* A log in short: a letter for each event (see `letters`), with its time behind it. */
struct rec {
    const char *log;
    const char *R;
    const char *spec;
};

#define GOOD "s1d1p1a2r2f3l3v3c3"
/* Two attempts: the first from 2 to 4 on core 0 of node 0. */
#define AGAIN "s1d1p1a2r2L3q4a5r5f6l6v6c6"
#define REQUEUE SPEC(SLOT(1, 1, ""), ",\"shell\":{\"options\":{\"requeue\":true}}")

static const struct {
    struct rec jobs[3]; /* ids 1, 2, 3 */
    int flags;
    const char *told[3]; /* begin of each sentence */
} cases[] = {
    /* sound */
    {{{GOOD, R("0", "0", ""), ONE}}, 0, {NULL}},
    {{{GOOD, R("0", "0", ""), ONE}, {"s1d1p1a3r3F4v4c4", R("0", "0", ""), ONE}}, 0, {NULL}},
    {{{GOOD, R("0", "0", ""), ONE}, {GOOD, R("0", "1", ""), ONE}, {GOOD, R("1", "0", ""), ONE}},
     0,
     {NULL}},
    {{{"s1C2c2", NULL, ONE}}, 0, {NULL}},
    {{{"s1d1p1a2", R("0", "0", ""), ONE}}, AUDIT_ACTIVE_OK, {NULL}},
    {{{GOOD, R("0", "0", ""), ONE},
      {"s1+1-3d3p3a3r3f4v4c4", R("0", "0", ""), AFTER("afterok", "1")}},
     0,
     {NULL}},
    /* logs */
    {{{NULL, NULL, ONE}}, 0, {"job 1: has no event log"}},
    {{{"", NULL, ONE}}, 0, {"job 1: its log has no event 'submit'"}},
    {{{"s1s1", NULL, ONE}}, 0, {"job 1: line 2: a second event 'submit'"}},
    {{{"s1d1p1a2r2r2f3v3c3", R("0", "0", ""), ONE}}, 0, {"job 1: line 6: a second event 'start'"}},
    {{{"s1d1p1a2r2f3v3c3c3", R("0", "0", ""), ONE}}, 0, {"job 1: line 9: a second event 'clean'"}},
    {{{"s1d1p1a2r2f3c3", R("0", "0", ""), ONE}},
     0,
     {"job 1: line 7: event 'clean' without a preceding 'free'"}},
    {{{"s1r2", NULL, ONE}}, 0, {"job 1: line 2: event 'start' in state DEPEND"}},
    {{{"s1d1p1a3r2f3v3c3", R("0", "0", ""), ONE}},
     0,
     {"job 1: line 5: event 'start' is older than the one before it"}},
    {{{"s1d1p1a2r2f3v3", R("0", "0", ""), ONE}},
     0,
     {"job 1: has not ended: it is in state CLEANUP"}},
    {{{"s1?1", NULL, ONE}}, 0, {"job 1: line 2: "}},
    {{{"s1d1p1a2r2t3l3v3c3", R("0", "0", ""), ONE}}, 0, {NULL}},
    {{{"s1d1p1a2.6r2.6t3l3v3c3", R("0", "0", ""), ONE}},
     0,
     {"job 1: its tasks were started before it was given resources"}},
    {{{"s1d1p1a2r2t2.6l3v3c3", R("0", "0", ""), ONE}},
     0,
     {"job 1: finished before its tasks had exited"}},
    /* resources */
    {{{GOOD, NULL, ONE}}, 0, {"job 1: was given resources and has no R"}},
    {{{GOOD, "{}", ONE}}, 0, {"job 1: its R is bad: "}},
    {{{GOOD, R("0", "4", ""), ONE}}, 0, {"job 1: was given resources that are not in the inv"}},
    {{{GOOD, R("2", "0", ""), ONE}}, 0, {"job 1: was given resources that are not in the inv"}},
    {{{GOOD, R("0", "0", ""), SPEC(SLOT(2, 2, ""), "")}}, 0, {"job 1: asks for 4 cores and got 1"}},
    {{{GOOD, R("0", "0-3", ""), SPEC(NODES(2, SLOT(1, 1, "")), "")}},
     0,
     {"job 1: asks for 2 nodes and got 1"}},
    {{{GOOD, R("0", "0", ""), SPEC(SLOT(1, 1, ",{\"type\":\"gpu\",\"count\":1}"), "")}},
     0,
     {"job 1: asks for 1 gpus and got 0"}},
    {{{GOOD, R("0", "0", ""), SPEC(SLOT(1, 1, "") ",{\"type\":\"power\",\"count\":7}", "")}},
     0,
     {"job 1: asks for 7 of pool power and got 0"}},
    {{{GOOD, R("0", "0", ""), NULL}}, 0, {"job 1: has no jobspec"}},
    {{{GOOD, R("0", "0", ""), "{}"}}, 0, {"job 1: its jobspec is bad: version: is missing"}},
    /* two jobs, one thing */
    {{{GOOD, R("0", "0-2", ""), ONE}, {"s1d1p1a2.5r3f3v4c4", R("0", "2-3", ""), ONE}},
     0,
     {"job 2: was given core 2 of node 0, which job 1 had"}},
    {{{GOOD, R("0", "0", ",\"gpu\":\"0\""), ONE}, {GOOD, R("0", "1", ",\"gpu\":\"0\""), ONE}},
     0,
     {"job 2: was given gpu 0 of node 0, which job 1 had"}},
    {{{"s1d1p1a2", R("0", "0", ""), ONE}, {"s1d1p1a9r9f9v9.5c10", R("0", "0", ""), ONE}},
     AUDIT_ACTIVE_OK,
     {"job 2: was given core 0 of node 0, which job 1 had"}},
    {{{GOOD, R("0", "0", ",\"memory\":600"), ONE}, {GOOD, R("0", "1", ",\"memory\":600"), ONE}},
     0,
     {"job 2: was given 600 of memory of node 0, of which 1200 of 1000 are given then"}},
    {{{GOOD,
       "{\"version\":1,\"execution\":{\"R_lite\":[{\"rank\":\"0\",\"children\":{\"core\":\"0\"}}],"
       "\"nodelist\":[\"node0\"],\"starttime\":0,\"expiration\":0},\"pools\":{\"power\":60}}",
       SPEC(SLOT(1, 1, "") ",{\"type\":\"power\",\"count\":60}", "")},
      {GOOD,
       "{\"version\":1,\"execution\":{\"R_lite\":[{\"rank\":\"1\",\"children\":{\"core\":\"0\"}}],"
       "\"nodelist\":[\"node1\"],\"starttime\":0,\"expiration\":0},\"pools\":{\"power\":60}}",
       SPEC(SLOT(1, 1, "") ",{\"type\":\"power\",\"count\":60}", "")}},
     0,
     {"job 2: was given 60 of pool power, of which 120 of 100 are given then"}},
    /* order */
    {{{GOOD, R("0", "0", ""), ONE}, {GOOD, R("0", "1", ""), AFTER("afterany", "1")}},
     0,
     {"job 2: was given resources, though job 1 of afterany:1 had not ended"}},
    {{{"s1d1p1a2r2F3v3c3", R("0", "0", ""), ONE},
      {"s1d3p3a4r4f4v5c5", R("0", "1", ""), AFTER("afterok", "1")}},
     0,
     {"job 2: was given resources, though job 1 of afterok:1 did not succeed"}},
    {{{GOOD, R("0", "0", ""), ONE},
      {"s1d3p3a4r4f4v5c5", R("0", "1", ""), AFTER("afternotok", "1")}},
     0,
     {"job 2: was given resources, though job 1 of afternotok:1 succeeded"}},
    {{{"s1d1p1a4r4f5v5c5", R("0", "0", ""), ONE}, {GOOD, R("0", "1", ""), AFTER("after", "1")}},
     0,
     {"job 2: was given resources, though job 1 of after:1 had not started"}},
    {{{GOOD, R("0", "0", ""), SPEC(SLOT(1, 1, ""), ",\"begin-time\":100")}},
     0,
     {"job 1: was given resources before its begin time"}},
    /* attempts: sound ones; who waits for the start of a job waits for that of the first */
    {{{AGAIN, R("1", "0", ""), REQUEUE}}, 0, {NULL}},
    {{{AGAIN, R("1", "0", ""), REQUEUE},
      {"s1d1p1a4r4f5v5c5", R("0", "0", ""), ONE},
      {"s1d1p1a3r3f5v5c5", R("1", "0", ""), AFTER("after", "1")}},
     0,
     {NULL}},
    {{{"s1d1p1a2L3q4C5c5", R("0", "0", ""), REQUEUE}}, 0, {NULL}},
    {{{"s1d1p1a2r2L3q4a5r5L6Q7a8r8f9v9c9", R("0", "0", ""), REQUEUE}}, 0, {NULL}},
    {{{"s1d1p1a2r2L3C3f3v3c3", R("0", "0", ""), REQUEUE}}, 0, {NULL}},
    /* one attempt recorded twice, or not */
    {{{"s1d1p1a2r2L3q4q4a5r5f6v6c6", R("1", "0", ""), REQUEUE}},
     0,
     {"job 1: line 8: event 'requeue' in state SCHED"}},
    {{{"s1d1p1a2r2L3Q4a5r5f6v6c6", R("1", "0", ""), REQUEUE}},
     0,
     {"job 1: line 7: event 'requeue' number 2 after 0"}},
    {{{"s1d1p1a2r2L3q4a5r5L6q7a8r8f9v9c9", R("1", "0", ""), REQUEUE}},
     0,
     {"job 1: line 11: event 'requeue' number 1 after 1"}},
    {{{"s1d1p1a2r2L3q4a5r5f6f6v6c6", R("1", "0", ""), REQUEUE}},
     0,
     {"job 1: line 11: a second event 'finish'"}},
    {{{"s1d1p1a2r2L3a5r5f6v6c6", R("1", "0", ""), REQUEUE}},
     0,
     {"job 1: line 7: a second event 'alloc'"}},
    {{{"s1d1p1a2r2L3q4r5f6v6c6", R("1", "0", ""), REQUEUE}},
     0,
     {"job 1: line 8: event 'start' in state SCHED"}},
    {{{"s1d1p1a2r2L3q4a5r5r5f6v6c6", R("1", "0", ""), REQUEUE}},
     0,
     {"job 1: line 10: a second event 'start'"}},
    {{{"s1d1p1a2r2L3q4v4a5r5f6v6c6", R("1", "0", ""), REQUEUE}},
     0,
     {"job 1: line 8: event 'free' in state SCHED"}},
    /* attempts without a reason, or without a record of what they had */
    {{{"s1d1p1a2r2q4a5r5f6v6c6", R("1", "0", ""), REQUEUE}},
     0,
     {"job 1: attempt 1 was ended, and no loss of a node is on record"}},
    {{{AGAIN, R("1", "0", ""), ONE}}, 0, {"job 1: was queued again, for which it does not ask"}},
    {{{"s1d1p1a2r2L3f4v4c4", R("1", "0", ""), REQUEUE}},
     0,
     {"job 1: lost a node, and was not queued again"}},
    {{{"s1d1p1a2r2L3n4a5r5f6v6c6", R("1", "0", ""), REQUEUE}},
     0,
     {"job 1: R of attempt 1 is bad: it is not on record"}},
    {{{"s1d1p1a2r2L3b4a5r5f6v6c6", R("1", "0", ""), REQUEUE}},
     0,
     {"job 1: R of attempt 1 is bad: "}},
    {{{"s1d1p1a2r2L3o4a5r5f6v6c6", R("1", "0", ""), REQUEUE}},
     0,
     {"job 1: was given resources that are not in the inventory"}},
    {{{AGAIN, R("1", "0-1", ""),
       SPEC(SLOT(1, 2, ""), ",\"shell\":{\"options\":{\"requeue\":true}}")}},
     0,
     {"job 1: asks for 2 cores and got 1"}},
    /* an attempt that is over, and another job, have one thing */
    {{{AGAIN, R("1", "0", ""), REQUEUE}, {"s1d1p1a3r3f5v5c5", R("0", "0", ""), ONE}},
     0,
     {"job 2: was given core 0 of node 0, which job 1 had"}},
    {{{AGAIN, R("1", "0", ""), REQUEUE}, {"s1d1p1a1r1f3v3c3", R("0", "0", ""), ONE}},
     0,
     {"job 1: was given core 0 of node 0, which job 2 had"}},
    {{{AGAIN, R("1", "0", ""), REQUEUE}, {"s1d1p1a1r1L3q4a4r4f5v5c5", R("1", "1", ""), REQUEUE}},
     0,
     {"job 1: was given core 0 of node 0, which job 2 had"}},
};

static const struct {
    char letter;
    const char *event;
} letters[] = {
    {'s', "submit\",\"context\":{\"userid\":1,\"urgency\":16,\"flags\":0}"},
    {'+', "dependency-add\",\"context\":{\"description\":\"x\"}"},
    {'-', "dependency-remove\",\"context\":{\"description\":\"x\"}"},
    {'d', "depend\""},
    {'p', "priority\",\"context\":{\"priority\":16}"},
    {'a', "alloc\""},
    {'A', "alloc\",\"context\":{\"switches\":\"x\",\"hops\":0.0}"},
    {'r', "start\""},
    {'f', "finish\",\"context\":{\"status\":0}"},
    {'F', "finish\",\"context\":{\"status\":768}"},
    {'t', "finish\",\"context\":{\"status\":0,\"started\":2.5,\"exited\":2.75}"},
    {'l', "release\""},
    {'v', "free\""},
    {'c', "clean\""},
    {'C', "exception\",\"context\":{\"type\":\"cancel\",\"severity\":0}"},
    {'L', "exception\",\"context\":{\"type\":\"node-lost\",\"severity\":1}"},
    {'q', "requeue\",\"context\":{\"count\":1,\"R\":" R("0", "0", "") "}"},
    {'Q', "requeue\",\"context\":{\"count\":2,\"R\":" R("1", "0", "") "}"},
    {'n', "requeue\",\"context\":{\"count\":1}"},
    {'b', "requeue\",\"context\":{\"count\":1,\"R\":{}}"},
    {'o', "requeue\",\"context\":{\"count\":1,\"R\":" R("0", "4", "") "}"},
    {'?', "start\",\"bogus\":{}"},
};

static size_t write_log(const char *shorthand, char *buf, size_t size)
{
    size_t n = 0;

    for (const char *p = shorthand; *p;) {
        char *end;
        char letter = *p;
        double t = strtod(p + 1, &end);

        p = end;
        for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++)
            if (letters[i].letter == letter)
                n += (size_t)snprintf(buf + n, size - n, "{\"timestamp\":%g,\"name\":\"%s}\n", t,
                                      letters[i].event);
    }
    return n;
}

struct heard {
    char text[8][512];
    int n;
};

static void hear(const char *sentence, void *arg)
{
    struct heard *h = arg;

    ck_assert_msg(h->n < 8, "%s", sentence);
    snprintf(h->text[h->n++], sizeof(h->text[0]), "%s", sentence);
}

static audit_t *make(const struct rec *jobs, size_t n, bool clock_set)
{
    audit_t *a = audit_create();
    errmsg_t err = {""};
    char log[8192];

    if (clock_set)
        audit_clock_set(a);
    ck_assert_msg(audit_inventory(a, inventory, sizeof(inventory) - 1, &err) == 0, "%s", err.text);
    for (size_t i = 0; i < n && (jobs[i].log || jobs[i].spec); i++) {
        struct audit_job job = {.id = i + 1, .log = jobs[i].log ? log : NULL};

        job.log_len = jobs[i].log ? write_log(jobs[i].log, log, sizeof(log)) : 0;
        job.R = jobs[i].R;
        job.R_len = job.R ? strlen(job.R) : 0;
        job.jobspec = jobs[i].spec;
        job.jobspec_len = job.jobspec ? strlen(job.jobspec) : 0;
        ck_assert_int_eq(audit_job(a, &job), 0);
    }
    return a;
}

START_TEST(planted)
{
    struct heard h = {.n = 0};
    audit_t *a = make(cases[_i].jobs, 3, false);
    int want = 0;

    while (want < 3 && cases[_i].told[want])
        want++;
    /* A log that is cut short is told once; that such a job did not end is not told again. */
    ck_assert_msg(audit_run(a, cases[_i].flags, hear, &h) == want, "case %d: %d of %d: %s", _i, h.n,
                  want, h.text[0]);
    for (int i = 0; i < want; i++)
        ck_assert_msg(!strncmp(h.text[i], cases[_i].told[i], strlen(cases[_i].told[i])),
                      "wanted %s: %s", cases[_i].told[i], h.text[i]);
    audit_destroy(a);
}
END_TEST

START_TEST(expected)
{
    static const struct rec jobs[] = {{GOOD, R("0", "0", ""), ONE},
                                      {"s1d1p1a4r4F5v5c5", R("0", "0", ""), ONE},
                                      {"s1C2c2", NULL, ONE}};
    static const struct {
        uint64_t id;
        enum job_result result;
        int code;
        const char *told;
    } wants[] = {
        {1, JOB_RESULT_COMPLETED, 0, NULL},
        {1, JOB_RESULT_NONE, -1, NULL},
        {2, JOB_RESULT_FAILED, 3, NULL},
        {3, JOB_RESULT_CANCELED, -1, NULL},
        {1, JOB_RESULT_FAILED, -1, "job 1: ended as 'completed', expected was 'failed'"},
        {2, JOB_RESULT_NONE, 4, "job 2: ended with exit code 3, expected was 4"},
        {4, JOB_RESULT_NONE, -1, "job 4: was accepted, and is not there"},
    };

    for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
        struct heard h = {.n = 0};
        audit_t *a = make(jobs, 3, false);

        ck_assert_int_eq(audit_expect(a, wants[i].id, wants[i].result, wants[i].code), 0);
        ck_assert_int_eq(audit_run(a, 0, hear, &h), wants[i].told ? 1 : 0);
        if (wants[i].told)
            ck_assert_str_eq(h.text[0], wants[i].told);
        ck_assert_uint_eq(audit_njobs(a), 3);
        ck_assert_uint_eq(audit_nallocs(a), 2);
        ck_assert_uint_eq(audit_peak(a), 1);
        audit_destroy(a);
    }
}
END_TEST

/* Times prove something as long as the clock was not set; the rest is checked then, too. */
START_TEST(clock_set)
{
    static const struct rec jobs[] = {{"s9d9p9a2r3f4l4v4c1", R("0", "0", ""), ONE},
                                      {GOOD, R("0", "0", ""), ONE},
                                      {"s1d1p1a2", R("0", "1", ""), ONE}};

    for (int set = 0; set < 2; set++) {
        struct heard h = {.n = 0};
        audit_t *a = make(jobs, 3, set);

        ck_assert_int_eq(audit_run(a, 0, hear, &h), set ? 1 : 4);
        ck_assert_str_eq(h.text[set ? 0 : 2], "job 3: has not ended: it is in state RUN");
        audit_destroy(a);
    }
}
END_TEST

/* On two pods of three leaves of three nodes, numbered from 0: groups of uplinks that two jobs
 * share. */
static const struct {
    const char *jobs[3];
    const char *told; /* all of it */
} overlaps[] = {
    {{"0,3", "1,2,4,9,10", "6,12,13"},
     "2 leaf 0 as 1, 2 leaf 1 as 1, 3 pod 0 as 2, 3 pod 1 as 2, "},
    {{"0-1", "2,9-17", "3,4,6,7"}, ""},
    {{"0,6", "2,9-17", "1,3,4,7"}, "2 leaf 0 as 1, 3 leaf 0 as 1, 3 leaf 2 as 1, "},
    {{"0-8", "9-17", NULL}, ""},
    {{"0-9", "11", "12-13"}, ""},
    {{"0,9", "1,10", NULL}, "2 leaf 0 as 1, 2 pod 0 as 1, 2 leaf 3 as 1, 2 pod 1 as 1, "},
};

struct overlap {
    uint64_t id;
    char text[512];
};

static void hear_overlap(const char *level, uint32_t number, uint64_t other, void *arg)
{
    struct overlap *o = arg;
    size_t n = strlen(o->text);

    snprintf(o->text + n, sizeof(o->text) - n, "%u %s %u as %u, ", (unsigned)o->id, level, number,
             (unsigned)other);
}

START_TEST(links)
{
    audit_links_t *l = audit_links_create(3, 3);
    struct overlap heard = {.text = ""};

    for (int round = 0; round < 2; round++) {
        heard.text[0] = '\0';
        for (uint64_t i = 0; i < 3 && overlaps[_i].jobs[i]; i++) {
            idset_t *ranks = idset_parse(overlaps[_i].jobs[i], NULL);

            heard.id = i + 1;
            ck_assert_int_gt(audit_links_take(l, i + 1, ranks, hear_overlap, &heard), 0);
            idset_destroy(ranks);
        }
        ck_assert_str_eq(heard.text, overlaps[_i].told);
        /* What was given back is free again. */
        for (uint64_t i = 0; i < 3 && overlaps[_i].jobs[i]; i++) {
            idset_t *ranks = idset_parse(overlaps[_i].jobs[i], NULL);

            audit_links_give(l, i + 1, ranks);
            idset_destroy(ranks);
        }
    }
    audit_links_destroy(l);
}
END_TEST

/* Jobs on record that could share a link, or have other hops on record, or none. */
START_TEST(links_of_jobs)
{
    static const struct rec jobs[] = {{"s1d1p1A2r2f4l4v4c4", R("0-1", "0", ""), ONE},
                                      {"s1d1p1A3r3f5v5c5", R("0-1", "1", ""), ONE},
                                      {"s1d1p1a4r4f6v6c6", R("1", "2", ""), ONE}};
    static const char *const told[] = {
        "job 1: has 0 hops on record instead of 2",
        "job 2: may send over the uplinks of leaf 0, as may job 1",
        "job 2: may send over the uplinks of leaf 1, as may job 1",
        "job 2: has 0 hops on record instead of 2",
        "job 3: its switches are not on record",
    };
    struct heard h = {.n = 0};
    audit_t *a = make(jobs, 3, false);

    ck_assert_int_eq(audit_tree(a, 2, 1), 0);
    ck_assert_int_eq(audit_run(a, 0, hear, &h), 5);
    for (int i = 0; i < 5; i++)
        ck_assert_str_eq(h.text[i], told[i]);
    ck_assert_uint_eq(audit_nreach(a, 1), 1);
    ck_assert_uint_eq(audit_nreach(a, 2), 2);
    ck_assert_uint_eq(audit_nreach(a, 3), 0);
    audit_destroy(a);
}
END_TEST

START_TEST(twice)
{
    audit_t *a = audit_create();
    struct audit_job job = {.id = 1};

    ck_assert_int_eq(audit_job(a, &job), 0);
    ck_assert_int_eq(audit_job(a, &job), -1);
    audit_destroy(a);
    audit_destroy(NULL);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("all");

    tcase_add_loop_test(tc, planted, 0, sizeof(cases) / sizeof(cases[0]));
    tcase_add_test(tc, expected);
    tcase_add_test(tc, clock_set);
    tcase_add_loop_test(tc, links, 0, (int)(sizeof(overlaps) / sizeof(overlaps[0])));
    tcase_add_test(tc, links_of_jobs);
    tcase_add_test(tc, twice);
    return run_case("audit", tc);
}
