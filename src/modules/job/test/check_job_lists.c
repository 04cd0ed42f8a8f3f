/* check_job_lists.c - jobs are listed and watched in slices: in order, each once, and none is left
 * out, while jobs come, change and go. */
#include "config.h"

#include "libutil/test/rnd.h"
#include "libutil/test/steps.h"
#include "modules/job/test/bed.h"

static bool list_over(const struct bed *b)
{
    return b->last && flux_msg_errnum(b->last) == ENODATA;
}

static const char *list(struct bed *b)
{
    (void)ask_flags(b, "job.list", 0, FLUX_MSGF_STREAMING, "{}");
    while (!list_over(b))
        jm_list_pass(b->jm);
    return b->page;
}

/* What is told of a job is what it has: no times and no result of one that has not ended. */
START_TEST(listed)
{
    struct bed *b = bed_create();

    b->job->st.state = JOB_STATE_SCHED;
    b->job->st.urgency = JOB_URGENCY_HOLD;
    b->job->st.t_submit = 1000.;
    ck_assert_ptr_nonnull(strstr(list(b), "\"t_submit\":1000."));
    ck_assert_ptr_null(strstr(b->page, "\"t_run\""));
    ck_assert_ptr_null(strstr(b->page, "\"result\""));
    ck_assert_ptr_null(strstr(b->page, "\"code\""));
    ck_assert_ptr_nonnull(strstr(b->page, "\"why\":\"held\""));
    b->job->st.urgency = JOB_URGENCY_DEFAULT;
    ck_assert_ptr_null(strstr(list(b), "held"));
    b->job->st.state = JOB_STATE_RUN;
    b->job->st.urgency = JOB_URGENCY_HOLD;
    ck_assert_ptr_null(strstr(list(b), "\"why\""));
    bed_free(b);
}
END_TEST

static struct jm_job *more_jobs(struct bed *b, uint64_t n)
{
    struct jm_job *j = b->job;

    for (uint64_t id = 2; id <= n; id++) {
        errmsg_t err;
        struct jm_spec *spec = jm_spec_get(b->jm, JOBSPEC, strlen(JOBSPEC), &err);

        j = jm_job_create(b->jm, id, spec, jm_env_get(b->jm, "", 0));
        ck_assert_ptr_nonnull(j);
        j->st.state = JOB_STATE_SCHED;
    }
    b->job->st.state = JOB_STATE_SCHED;
    return j;
}

/* Jobs that were read in any order are listed in that of their ids, in both directions. */
START_TEST(sorted)
{
    static const uint64_t ids[] = {9, 3, 20, 2, 11};
    struct bed *b = bed_create();
    uint64_t last = 0;
    unsigned n = 0;

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        (void)new_job(b, ids[i]);
    jm_job_sort(b->jm);
    for (const struct jm_job *j = jm_job_first(b->jm); j; j = jm_job_next(j), n++) {
        ck_assert_uint_gt(j->id, last);
        if (last)
            ck_assert_uint_eq(jm_job_prev(j)->id, last);
        last = j->id;
    }
    ck_assert_uint_eq(n, 6);
    ck_assert_uint_eq(b->logged, 0);
    bed_free(b);
}
END_TEST

/* A page has as many jobs as there is time for, and all come. */
START_TEST(listed_slowly)
{
    enum { LISTED = 500, LONG = 65536 };
    static char why[LONG];
    struct bed *b = bed_create();
    unsigned n = 0;

    memset(why, 'w', LONG - 1);
    for (uint64_t id = 1; id <= LISTED; id++) {
        errmsg_t err;
        struct jm_job *j = b->job;

        if (id > 1)
            j = jm_job_create(b->jm, id, jm_spec_get(b->jm, JOBSPEC, strlen(JOBSPEC), &err),
                              jm_env_get(b->jm, "", 0));

        ck_assert_ptr_nonnull(j);
        j->st.state = JOB_STATE_SCHED;
        j->st.urgency = JOB_URGENCY_DEFAULT;
        jm_sched_set_why(j, why, 0.);
    }
    b->counting = true;
    (void)ask_flags(b, "job.list", 0, FLUX_MSGF_STREAMING, "{}");
    while (!list_over(b) && n++ < 10 * LISTED)
        jm_list_pass(b->jm);
    ck_assert(list_over(b));
    ck_assert_uint_eq(b->listed, LISTED);
    ck_assert_uint_gt(b->pages, 1);
    bed_free(b);
}
END_TEST

static void end_job(struct jm_job *j)
{
    static double t = 1000.;

    j->st.state = JOB_STATE_INACTIVE;
    j->st.t_inactive = ++t;
    jm_job_retire(j);
}

static void ask_list(struct bed *b, const char *text)
{
    flux_msg_t *msg = fake_request("job.list", text, FLUX_ROLE_OWNER);

    b->pages = b->listed = 0;
    flux_msg_set_flags(msg, FLUX_MSGF_STREAMING);
    flux_msg_destroy(b->last);
    b->last = NULL;
    flux_handle_deliver(b->f.h, msg);
}

/* Jobs are looked for bit by bit.  Meanwhile some end, come, and are purged: whichever job is there
 * all the time is listed, and none twice. */
START_TEST(gathered)
{
    enum { ALL = 3000, OLD = 1000 };
    static unsigned times[2 * ALL];
    struct bed *b = bed_create();
    uint64_t next = ALL + 1, purged[ALL] = {0};
    unsigned seed = (unsigned)_i + 1, passes = 0;

    (void)more_jobs(b, ALL);
    memset(times, 0, sizeof(times));
    for (uint64_t id = 1; id <= ALL; id++) {
        struct jm_job *j = jm_job_find(b->jm, id);

        j->st.urgency = rand_r(&seed) % 4 + 10;
        if (id <= OLD)
            end_job(j);
    }
    b->counting = true;
    ask_list(b, "{\"states\":1023}");
    step_ns = 100000;
    while (!list_over(b)) {
        uint64_t id = 1 + (uint64_t)rand_r(&seed) % (next - 1);
        struct jm_job *j = jm_job_find(b->jm, id);
        struct jm_ended *e = jm_ended_find(b->jm, id);
        errmsg_t err;

        jm_list_pass(b->jm);
        ck_assert(++passes > 3 || b->pages == 0);
        ck_assert_uint_lt(passes, 10 * ALL);
        if (j)
            end_job(j);
        else if (e && id <= ALL) {
            jm_ended_drop(b->jm, e);
            purged[id - 1] = 1;
        }
        if (next < 2 * ALL &&
            (j = jm_job_create(b->jm, next, jm_spec_get(b->jm, JOBSPEC, strlen(JOBSPEC), &err),
                               jm_env_get(b->jm, "", 0)))) {
            j->st.state = JOB_STATE_SCHED;
            next++;
        }
    }
    step_ns = 0;
    ck_assert_uint_le(b->listed, 2 * ALL);
    for (unsigned i = 0; i < b->listed; i++)
        ck_assert_uint_eq(++times[b->ids[i]], 1);
    for (uint64_t id = 1; id <= ALL; id++)
        ck_assert_msg(times[id] == 1 || purged[id - 1], "job %u", (unsigned)id);
    bed_free(b);
}
END_TEST

/* In order, also when only some are kept. */
START_TEST(in_order)
{
    enum { ALL = 1000, MAX = 70 };
    struct bed *b = bed_create();
    unsigned seed = 5;
    uint64_t first[MAX];

    (void)more_jobs(b, ALL);
    for (uint64_t id = 1; id <= ALL; id++)
        jm_job_find(b->jm, id)->st.urgency = rand_r(&seed) % 4 + 10;
    b->counting = true;
    ask_list(b, "{}");
    while (!list_over(b))
        jm_list_pass(b->jm);
    ck_assert_uint_eq(b->listed, ALL);
    for (unsigned i = 1; i < ALL; i++) {
        int x = jm_job_find(b->jm, b->ids[i - 1])->st.urgency;
        int y = jm_job_find(b->jm, b->ids[i])->st.urgency;

        ck_assert(x > y || (x == y && b->ids[i - 1] < b->ids[i]));
    }
    memcpy(first, b->ids, sizeof(first));
    ask_list(b, "{\"max\":70}");
    while (!list_over(b))
        jm_list_pass(b->jm);
    ck_assert_uint_eq(b->listed, MAX);
    ck_assert_mem_eq(b->ids, first, sizeof(first));
    bed_free(b);
}
END_TEST

static void transition(struct jm_job *j, enum job_state state)
{
    j->st.state = state;
    jm_watch_transition(j);
}

static void begin_watch(struct bed *b, const char *text)
{
    flux_msg_t *msg = fake_request("job.watch", text, FLUX_ROLE_OWNER);

    flux_msg_set_flags(msg, FLUX_MSGF_STREAMING);
    memset(b->told, 0, (MANY + 1) * sizeof(*b->told));
    b->pages = 0;
    b->last_id = 0;
    flux_handle_deliver(b->f.h, msg);
}

/* Who begins to watch is told the present in slices.  What changes meanwhile is told of those
 * jobs that have been told, and to be seen in the others. */
static void watched_by(const char *ids)
{
    struct bed *b = bed_create();
    struct jm_job *last = more_jobs(b, MANY), *later;
    uint64_t first_slice;

    ck_assert_ptr_nonnull(b->told = calloc(MANY + 1, sizeof(*b->told)));
    transition(b->job, JOB_STATE_SCHED); /* nobody watches yet */
    begin_watch(b, ids);
    ck_assert_uint_eq(b->pages, 0);
    jm_watch_pass(b->jm);
    ck_assert_uint_gt(b->pages, 0);
    first_slice = b->last_id;
    ck_assert_uint_ge(first_slice, 250);
    ck_assert_uint_lt(first_slice, MANY);
    transition(b->job, JOB_STATE_RUN);
    transition(last, JOB_STATE_RUN);
    jm_watch_sent(b->jm);
    transition(b->job, JOB_STATE_CLEANUP);
    jm_watch_recorded(b->jm);
    /* Those at both sides of where it stands, and the last. */
    jm_job_destroy(jm_job_find(b->jm, first_slice));
    jm_job_destroy(jm_job_find(b->jm, first_slice + 1));
    while (b->told[1].n < 2)
        jm_watch_pass(b->jm);
    ck_assert_str_eq(b->told[1].states, "SCHED RUN ");
    ck_assert_uint_eq(b->told[MANY].n, 0);
    later = jm_job_find(b->jm, MANY - 1);
    while (b->told[MANY].n == 0)
        jm_watch_pass(b->jm);
    ck_assert_uint_ge(b->pages, MANY / 250);
    for (uint64_t id = 2; id < MANY; id++) {
        ck_assert_uint_eq(b->told[id].n, id != first_slice + 1);
    }
    ck_assert_str_eq(b->told[MANY].states, "RUN ");
    /* From now on it hears what others hear, and once. */
    transition(later, JOB_STATE_RUN);
    jm_watch_sent(b->jm);
    jm_watch_recorded(b->jm);
    while (b->told[MANY - 1].n < 2)
        jm_watch_pass(b->jm);
    ck_assert_str_eq(b->told[1].states, "SCHED RUN CLEANUP ");
    ck_assert_str_eq(b->told[MANY].states, "RUN ");
    ck_assert_str_eq(b->told[MANY - 1].states, "SCHED RUN ");
    free(b->told);
    b->told = NULL;
    bed_free(b);
}

START_TEST(watched)
{
    watched_by("{}");
    watched_by("{\"ids\":\"1-100000\"}"); /* as many as there are */
}
END_TEST

/* Of a few that are named only these are considered; of many, in pages. */
START_TEST(watched_some)
{
    struct bed *b = bed_create();
    struct jm_job *last = more_jobs(b, MANY);

    ck_assert_ptr_nonnull(b->told = calloc(MANY + 1, sizeof(*b->told)));
    begin_watch(b, "{\"ids\":\"1,7,100000,4000000\"}");
    jm_watch_pass(b->jm);
    ck_assert_uint_eq(b->pages, 1);
    ck_assert_uint_eq(b->told[1].n + b->told[7].n + b->told[MANY].n, 3);
    transition(last, JOB_STATE_RUN);
    jm_watch_sent(b->jm);
    jm_watch_recorded(b->jm);
    while (b->told[MANY].n < 2)
        jm_watch_pass(b->jm);
    ck_assert_str_eq(b->told[MANY].states, "SCHED RUN ");
    begin_watch(b, "{\"ids\":\"2-99999\"}");
    while (b->told[MANY - 1].n == 0)
        jm_watch_pass(b->jm);
    ck_assert_uint_eq(b->pages, 400);
    for (uint64_t id = 1; id <= MANY; id++)
        ck_assert_uint_eq(b->told[id].n, id > 1 && id < MANY);
    free(b->told);
    b->told = NULL;
    bed_free(b);
}
END_TEST

/* A watcher that leaves while news is due gets the end of its stream and no news. */
START_TEST(watcher_leaves)
{
    struct bed *b = bed_create();
    char text[64];

    ck_assert_ptr_nonnull(b->told = calloc(MANY + 1, sizeof(*b->told)));
    begin_watch(b, "{}");
    while (b->told[1].n == 0)
        jm_watch_pass(b->jm);
    transition(b->job, JOB_STATE_RUN);
    jm_watch_sent(b->jm);
    jm_watch_recorded(b->jm);
    snprintf(text, sizeof(text), "{\"matchtag\":%u}", flux_msg_matchtag(b->last));
    ck_assert_int_eq(ask_flags(b, "job.cancel", 0, FLUX_MSGF_NORESPONSE, text), ENODATA);
    ck_assert_uint_eq(watchers(b), 0);
    jm_watch_pass(b->jm);
    ck_assert_uint_eq(b->told[1].n, 1);
    free(b->told);
    b->told = NULL;
    bed_free(b);
}
END_TEST

static unsigned below(uint64_t *seed, unsigned n)
{
    return rnd(seed) % n;
}

static void crowd_watch(struct bed *b, unsigned who, bool some)
{
    flux_msg_t *msg =
        fake_request("job.watch", some ? "{\"ids\":\"1-300\"}" : "{}", FLUX_ROLE_OWNER);

    flux_msg_set_flags(msg, FLUX_MSGF_STREAMING);
    flux_msg_set_matchtag(msg, who + 1);
    flux_handle_deliver(b->f.h, msg);
}

/* Watchers come while jobs change; each hears of each job what it needs, in order and once. */
START_TEST(crowd)
{
    static struct crowd c;
    struct bed *b = bed_create();
    uint64_t seed = (uint64_t)_i + 1;
    unsigned who = 0, steps = 0;
    bool some[CROWD];

    memset(&c, 0, sizeof(c));
    b->crowd = &c;
    more_jobs(b, JOBS);
    for (uint64_t id = 1; id <= JOBS; id++)
        jm_job_find(b->jm, id)->st.state = JOB_STATE_DEPEND;
    while (steps++ < 6000) {
        struct jm_job *j = jm_job_find(b->jm, 1 + below(&seed, JOBS));

        switch (below(&seed, 8)) {
        case 0:
            if (who < CROWD && below(&seed, 20) == 0) {
                some[who] = below(&seed, 3) == 0;
                crowd_watch(b, who, some[who]);
                who++;
            }
            break;
        case 1:
            jm_watch_sent(b->jm);
            break;
        case 2:
            jm_watch_recorded(b->jm);
            break;
        case 3:
            jm_watch_pass(b->jm);
            break;
        default:
            if (j->st.state < JOB_STATE_INACTIVE)
                transition(j, j->st.state + 1);
        }
    }
    while (who < CROWD) {
        some[who] = false;
        crowd_watch(b, who++, false);
    }
    jm_watch_sent(b->jm);
    jm_watch_recorded(b->jm);
    for (unsigned i = 0; i < CROWD; i++) {
        for (uint64_t id = 1; id <= (some[i] ? 300 : JOBS); id++)
            while (c.seen[i][id] != jm_job_find(b->jm, id)->st.state)
                jm_watch_pass(b->jm);
        for (uint64_t id = 301; some[i] && id <= JOBS; id++)
            ck_assert_int_eq(c.seen[i][id], 0);
    }
    bed_free(b);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("job_lists");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, listed);
    tcase_add_test(tc, listed_slowly);
    tcase_add_test(tc, sorted);
    tcase_add_loop_test(tc, gathered, 0, 5);
    tcase_add_test(tc, in_order);
    tcase_add_test(tc, watcher_leaves);
    tcase_add_test(tc, watched);
    tcase_add_test(tc, watched_some);
    tcase_add_loop_test(tc, crowd, 0, 10);
    return run_case("job_lists", tc);
}
