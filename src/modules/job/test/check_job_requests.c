/* check_job_requests.c - who may do what to whose jobs, and what is refused: the service on a
 * handle of the test's own, with a job of user 1000. */
#include "config.h"
#include <time.h>
#include <unistd.h>

#include "modules/job/jm_private.h"

#include "libflux/module.h"
#include "libflux/test/fake.h"
#include "libutil/test/rnd.h"
#include "libutil/test/steps.h"
#include "libutil/test/suite.h"

extern const struct flux_module flux_module_job;

#define JOBSPEC                                                                                 \
    "{\"version\":1,\"resources\":[{\"type\":\"slot\",\"count\":1,\"label\":\"task\",\"with\":" \
    "[{\"type\":\"core\",\"count\":1}]}],\"tasks\":[{\"command\":[\"true\"],\"slot\":\"task\"," \
    "\"count\":{\"per_slot\":1}}],\"attributes\":{\"system\":{\"duration\":0}}}"

struct bed {
    struct fake f;
    struct jm *jm;
    struct jm_job *job;
    flux_watcher_t *stop;
    flux_msg_t *last; /* response */
    char page[4096];  /* what streams have answered */
    unsigned logged;
    unsigned removed; /* namespaces, by request */
    struct crowd *crowd;
    struct told *told; /* what job.watch tells, of each id; NULL: nobody wants to know */
    bool counting;     /* pages of job.list, and the jobs in them */
    unsigned pages, listed;
    uint64_t ids[8192]; /* of the jobs listed */
    uint64_t last_id;
};

#define MANY 100000
struct told {
    unsigned n;
    char states[64];
};

/* What each of a crowd of watchers has heard last of each job. */
#define CROWD 60
#define JOBS 600
struct crowd {
    enum job_state seen[CROWD][JOBS + 1];
};

/* A page of job.watch. */
static void take_page(struct bed *b, const char *text, size_t len)
{
    json_t *o = json_loadb(text, len, 0, NULL), *one;
    size_t i;

    ck_assert_ptr_nonnull(o);
    b->pages++;
    json_array_foreach(json_object_get(o, "transitions"), i, one)
    {
        uint64_t id = (uint64_t)json_integer_value(json_array_get(one, 0));
        const char *state = json_string_value(json_array_get(one, 1));
        struct told *t = &b->told[id];
        size_t have = strlen(t->states);

        ck_assert(id > 0 && id <= MANY);
        t->n++;
        snprintf(t->states + have, sizeof(t->states) - have, "%s ", state);
        b->last_id = id;
    }
    json_decref(o);
}

static void hear(struct crowd *c, const flux_msg_t *msg)
{
    uint32_t who = flux_msg_matchtag(msg) - 1;
    size_t len, i;
    const char *text = flux_msg_payload(msg, &len);
    json_t *o = json_loadb(text, len, 0, NULL), *one;

    ck_assert_ptr_nonnull(o);
    ck_assert_uint_lt(who, CROWD);
    json_array_foreach(json_object_get(o, "transitions"), i, one)
    {
        enum job_state *seen = &c->seen[who][json_integer_value(json_array_get(one, 0))];
        int state = job_state_parse(json_string_value(json_array_get(one, 1)));

        ck_assert_msg(state > (int)*seen, "%s is told after %s", job_state_name(state),
                      job_state_name(*seen));
        *seen = (enum job_state)state;
    }
    json_decref(o);
}

static void sent(struct fake *f, flux_msg_t *msg)
{
    struct bed *b = f->user;

    if (flux_msg_type(msg) == FLUX_MSG_RESPONSE) {
        size_t len, have = strlen(b->page);
        const char *text = flux_msg_payload(msg, &len);

        if (b->counting && text && flux_msg_errnum(msg) == 0) {
            json_t *o = json_loadb(text, len, 0, NULL), *one;
            size_t i;

            b->pages++;
            json_array_foreach(json_object_get(o, "jobs"), i, one)
            {
                if (b->listed < sizeof(b->ids) / sizeof(b->ids[0]))
                    b->ids[b->listed] = (uint64_t)json_integer_value(json_object_get(one, "id"));
                b->listed++;
            }
            json_decref(o);
        } else if (b->crowd && flux_msg_has_flag(msg, FLUX_MSGF_STREAMING))
            hear(b->crowd, msg);
        else if (b->told && flux_msg_has_flag(msg, FLUX_MSGF_STREAMING))
            take_page(b, text, len);
        else if (flux_msg_has_flag(msg, FLUX_MSGF_STREAMING))
            snprintf(b->page + have, sizeof(b->page) - have, "%.*s\n", (int)len, text);
        flux_msg_destroy(b->last);
        b->last = msg;
    } else {
        b->logged += strcmp(flux_msg_topic(msg), "log.append") == 0;
        b->removed += strcmp(flux_msg_topic(msg), "kvs.namespace-remove") == 0;
        flux_msg_destroy(msg);
    }
}

static void stop_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

static struct bed *bed_create(void)
{
    struct bed *b = calloc(1, sizeof(*b));
    struct jm_spec *spec;
    struct jm_env *env;
    void *ctx;
    errmsg_t err = {""};

    ck_assert_ptr_nonnull(b);
    b->f.user = b;
    b->f.hook = sent;
    (void)fake_ops;
    ck_assert_ptr_nonnull(b->f.r = flux_reactor_create(false));
    ck_assert_ptr_nonnull(b->f.h = flux_handle_create(&fake_nowait_ops, &b->f, b->f.r, 0, 1, 42));
    ck_assert_ptr_nonnull(b->stop = flux_timer_create(b->f.r, stop_cb, b));
    ck_assert_int_eq(flux_module_job.init(b->f.h, 0, NULL, &ctx, &err), 0);
    b->jm = ctx;
    b->jm->ready = true;
    spec = jm_spec_get(b->jm, JOBSPEC, strlen(JOBSPEC), &err);
    ck_assert_msg(spec != NULL, "%s", err.text);
    ck_assert_ptr_nonnull(env = jm_env_get(b->jm, "", 0));
    ck_assert_ptr_nonnull(b->job = jm_job_create(b->jm, 1, spec, env));
    b->job->st.userid = 1000;
    return b;
}

static void bed_free(struct bed *b)
{
    flux_module_job.fini(b->f.h, b->jm);
    flux_msg_destroy(b->last);
    flux_watcher_destroy(b->stop);
    flux_close(b->f.h);
    flux_reactor_destroy(b->f.r);
    free(b);
}

/* The errno of the answer; -1: none has come, as it waits for the store. */
static int ask_flags(struct bed *b, const char *topic, uint32_t userid, unsigned flags,
                     const char *text)
{
    flux_msg_t *msg = fake_request(topic, text, userid ? FLUX_ROLE_USER : FLUX_ROLE_OWNER);

    flux_msg_set_flags(msg, flags);
    b->page[0] = '\0';
    flux_msg_set_cred(msg, userid, userid ? FLUX_ROLE_USER : FLUX_ROLE_OWNER);
    flux_msg_destroy(b->last);
    b->last = NULL;
    flux_handle_deliver(b->f.h, msg);
    flux_timer_start(b->stop, 0.01, 0.);
    flux_reactor_run(b->f.r);
    return b->last ? (int)flux_msg_errnum(b->last) : -1;
}

static int ask(struct bed *b, const char *topic, uint32_t userid, const char *text)
{
    return ask_flags(b, topic, userid, 0, text);
}

/* The same of what is done to jobs: the errno that the answer has for the job, 0 when it was
 * done. */
static int act(struct bed *b, const char *topic, uint32_t userid, const char *text)
{
    size_t len;
    json_t *o;
    int errnum;

    if (ask(b, topic, userid, text) != 0)
        return b->last ? -2 : -1;
    ck_assert_ptr_nonnull(o = json_loads(flux_msg_payload(b->last, &len), 0, NULL));
    errnum =
        (int)json_integer_value(json_array_get(json_array_get(json_object_get(o, "errors"), 0), 1));
    ck_assert_int_eq(json_integer_value(json_object_get(o, "count")), errnum == 0);
    json_decref(o);
    return errnum;
}

START_TEST(somebody_else)
{
    struct bed *b = bed_create();
    const char *raise = "{\"ids\":\"1\",\"type\":\"t\",\"severity\":3,\"note\":\"n\"}";

    ck_assert_int_eq(act(b, "job.raise", 1001, raise), EPERM);
    ck_assert_int_eq(act(b, "job.cancel", 1001, "{\"ids\":\"1\"}"), EPERM);
    ck_assert_int_eq(act(b, "job.kill", 1001, "{\"ids\":\"1\",\"signum\":15}"), EPERM);
    ck_assert_int_eq(act(b, "job.urgency", 1001, "{\"ids\":\"1\",\"urgency\":20}"), EPERM);
    /* Its owner, and that of the session. */
    ck_assert_int_eq(act(b, "job.kill", 1000, "{\"ids\":\"1\",\"signum\":15}"), EINVAL);
    ck_assert_int_eq(act(b, "job.kill", 0, "{\"ids\":\"1\",\"signum\":15}"), EINVAL);
    ck_assert_int_eq(act(b, "job.cancel", 1000, "{\"ids\":\"2\"}"), ENOENT);
    ck_assert_int_eq(act(b, "job.raise", 1000, raise), 0);
    ck_assert_int_eq(ask(b, "job.memo", 1001, "{\"id\":1,\"uri\":\"u\"}"), EPERM);
    ck_assert_ptr_null(jm_control_uri(b->job));
    ck_assert_int_eq(ask(b, "job.memo", 1000, "{\"id\":1,\"uri\":\"u\"}"), -1); /* not stored */
    ck_assert_str_eq(jm_control_uri(b->job), "u");
    /* The queue is the session owner's. */
    ck_assert_int_eq(ask(b, "job.queue", 1000, "{\"op\":\"disable\"}"), EPERM);
    ck_assert_int_eq(ask(b, "job.queue", 1000, "{\"op\":\"end\"}"), EPERM);
    ck_assert(!jm_queue_refuses(b->jm));
    ck_assert_int_eq(ask(b, "job.queue", 1000, "{\"op\":\"status\"}"), 0);
    ck_assert_int_eq(ask(b, "job.queue", 0, "{\"op\":\"nonsense\"}"), EINVAL);
    bed_free(b);
}
END_TEST

START_TEST(out_of_bounds)
{
    struct bed *b = bed_create();

    ck_assert_int_eq(ask(b, "job.cancel", 0, "{\"ids\":\"x\"}"), EINVAL);
    ck_assert_int_eq(ask(b, "job.kill", 0, "{\"ids\":\"1\",\"signum\":0}"), EINVAL);
    ck_assert_int_eq(ask(b, "job.kill", 0, "{\"ids\":\"1\",\"signum\":1000}"), EINVAL);
    ck_assert_int_eq(ask(b, "job.urgency", 0, "{\"ids\":\"1\",\"urgency\":1000}"), EINVAL);
    ck_assert_int_eq(ask(b, "job.raise", 0, "{\"ids\":\"1\",\"type\":\"\",\"severity\":3}"),
                     EINVAL);
    ck_assert_int_eq(ask(b, "job.raise", 0, "{\"ids\":\"1\",\"type\":\"a b\",\"severity\":3}"),
                     EINVAL);
    ck_assert_int_eq(ask(b, "job.raise", 0, "{\"ids\":\"1\",\"type\":\"t\",\"severity\":8}"),
                     EINVAL);
    ck_assert_int_eq(ask(b, "job.raise", 0, "{\"ids\":\"1\",\"type\":\"t\",\"severity\":-1}"),
                     EINVAL);
    ck_assert_int_eq(ask(b, "job.memo", 1000, "{\"id\":2,\"uri\":\"u\"}"), ENOENT);
    ck_assert_int_eq(ask(b, "job.wait", 0, "{}"), EPROTO);
    ck_assert_int_eq(ask(b, "job.purge", 0, "{}"), EINVAL);
    bed_free(b);
}
END_TEST

/* Jobs are counted by state: in the status of the queue, and for those who wait until it is idle.
 */
START_TEST(counted)
{
    struct bed *b = bed_create();
    const char *status;

    b->job->st.state = JOB_STATE_DEPEND;
    jm_job_moved(b->job, JOB_STATE_NEW, false);
    ck_assert_int_eq(ask(b, "job.queue", 1000, "{\"op\":\"status\"}"), 0);
    status = flux_msg_payload(b->last, NULL);
    ck_assert_msg(strstr(status, "\"depend\":1,") != NULL, "%s", status);
    ck_assert_msg(strstr(status, "\"sched\":0,") != NULL, "%s", status);
    ck_assert_msg(strstr(status, "\"run\":0,") != NULL, "%s", status);
    ck_assert_int_eq(ask(b, "job.queue", 1000, "{\"op\":\"idle\"}"), 0);
    b->job->st.state = JOB_STATE_SCHED;
    jm_job_moved(b->job, JOB_STATE_DEPEND, false);
    ck_assert_int_eq(ask(b, "job.queue", 1000, "{\"op\":\"status\"}"), 0);
    status = flux_msg_payload(b->last, NULL);
    ck_assert_msg(strstr(status, "\"sched\":1,\"held\":1,") != NULL, "%s", status);
    ck_assert_int_eq(ask(b, "job.queue", 1000, "{\"op\":\"idle\"}"), 0); /* none could run */
    b->job->st.urgency = JOB_URGENCY_DEFAULT;
    jm_job_moved(b->job, JOB_STATE_SCHED, true);
    ck_assert_uint_eq(jm_job_count_held(b->jm), 0);
    ck_assert_int_eq(ask(b, "job.queue", 1000, "{\"op\":\"idle\"}"), -1); /* it waits */
    bed_free(b);
}
END_TEST

/* What was done to jobs is answered when it is recorded; that nothing was done is answered at
 * once. */
START_TEST(answered)
{
    struct bed *b = bed_create();

    ck_assert_int_eq(ask(b, "job.memo", 1000, "{\"id\":1,\"uri\":\"u\"}"), -1);
    ck_assert_int_eq(act(b, "job.cancel", 1000, "{\"ids\":\"2\"}"), ENOENT);
    ck_assert_int_eq(act(b, "job.raise", 1000, "{\"ids\":\"1\",\"type\":\"t\",\"severity\":3}"),
                     -1);
    bed_free(b);
}
END_TEST

static uint32_t watchers(const struct bed *b)
{
    struct job_stats st = {0};

    jm_watch_stats(b->jm, &st);
    return st.watchers;
}

/* job.cancel is two requests: of a user, who wants an answer, about jobs; and of a future that is
 * destroyed, about its stream. */
START_TEST(canceled_stream)
{
    struct bed *b = bed_create();
    char text[64];

    ck_assert_int_eq(ask_flags(b, "job.watch", 0, FLUX_MSGF_STREAMING, "{}"), 0);
    ck_assert_uint_eq(watchers(b), 1);
    snprintf(text, sizeof(text), "{\"matchtag\":%u}", flux_msg_matchtag(b->last));
    ck_assert_int_eq(ask(b, "job.cancel", 0, text), EPROTO);
    ck_assert_uint_eq(watchers(b), 1);
    (void)ask_flags(b, "job.cancel", 0, FLUX_MSGF_NORESPONSE, text);
    ck_assert_uint_eq(watchers(b), 0);
    bed_free(b);
}
END_TEST

/* Who only looks is not in the log. */
START_TEST(journal)
{
    struct bed *b = bed_create();
    unsigned before = b->logged;

    ck_assert_int_eq(ask(b, "job.queue", 0, "{\"op\":\"status\"}"), 0);
    ck_assert_uint_eq(b->logged, before);
    (void)ask(b, "job.queue", 0, "{\"op\":\"stop\"}");
    ck_assert_uint_eq(b->logged, before + 1);
    ck_assert(jm_queue_stopped(b->jm, NULL));
    jm_journal_add(b->jm, JM_JOURNAL_STARTED, 1);
    ck_assert_uint_eq(b->logged, before + 1); /* it is gathered, */
    ck_assert_int_eq(ask(b, "job.journal", 0, "{}"), 0);
    ck_assert_uint_eq(b->logged, before + 2); /* until somebody wants to read it */
    ck_assert_int_eq(ask(b, "job.journal", 0, "{}"), 0);
    ck_assert_uint_eq(b->logged, before + 2);
    bed_free(b);
}
END_TEST

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

static struct jm_job *new_job(struct bed *b, uint64_t id)
{
    errmsg_t err;
    struct jm_job *j = jm_job_create(b->jm, id, jm_spec_get(b->jm, JOBSPEC, strlen(JOBSPEC), &err),
                                     jm_env_get(b->jm, "", 0));

    ck_assert_ptr_nonnull(j);
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

/* The namespace that the last session left for a job goes with the job; others have none. */
START_TEST(namespace_left)
{
    struct bed *b = bed_create();
    struct jm_job *with = new_job(b, 2), *without = new_job(b, 3);

    with->st.state = without->st.state = JOB_STATE_INACTIVE;
    with->namespace = true;
    jm_job_retire(without);
    ck_assert_uint_eq(b->removed, 0);
    jm_job_retire(with);
    ck_assert_uint_eq(b->removed, 1);
    ck_assert_ptr_null(jm_job_find(b->jm, 2));
    ck_assert_ptr_null(jm_job_find(b->jm, 3));
    bed_free(b);
}
END_TEST

/* Bytes of text of the given jobspecs that are kept in their parsed form. */
static size_t parsed_bytes(struct jm_spec *const *specs, unsigned n)
{
    size_t bytes = 0;

    for (unsigned i = 0; i < n; i++)
        bytes += specs[i]->js ? specs[i]->len : 0;
    return bytes;
}

/* Few but large jobspecs take as much memory in their parsed form as many small ones. */
START_TEST(parsed)
{
    enum { SPECS = 200, LONG = 65536, KEPT = 4 << 20 };
    static const char mark[] = "\"attributes\":{\"system\":{";
    struct bed *b = bed_create();
    struct jm_spec *specs[SPECS];
    const char *at = strstr(JOBSPEC, mark);
    char *text = malloc(sizeof(JOBSPEC) + LONG + 64);
    size_t before;
    errmsg_t err;

    ck_assert_ptr_nonnull(text);
    ck_assert_ptr_nonnull(at);
    at += strlen(mark);
    for (int i = 0; i < SPECS; i++) {
        sprintf(text, "%.*s\"environment\":{\"A\":\"%0*d\"},%s", (int)(at - JOBSPEC), JOBSPEC,
                i < SPECS / 2 ? 8 : LONG, i, at);
        specs[i] = jm_spec_get(b->jm, text, strlen(text), &err);
        ck_assert_msg(specs[i] != NULL, "%s", err.text);
        jm_spec_idle(b->jm, specs[i], false);
        if (i < SPECS / 2)
            ck_assert_ptr_nonnull(specs[i]->js);
    }
    before = parsed_bytes(specs, SPECS);
    ck_assert_uint_le(before, KEPT);
    ck_assert_uint_gt(before, KEPT / 2);
    /* A second job with each jobspec is checked and refused. */
    for (int i = 0; i < SPECS; i++) {
        specs[i]->refs++;
        ck_assert_int_eq(jm_spec_parse(b->jm, specs[i], &err), 0);
        jm_spec_put(b->jm, specs[i]);
    }
    ck_assert_uint_le(parsed_bytes(specs, SPECS), KEPT);
    for (int i = 0; i < SPECS; i++)
        jm_spec_put(b->jm, specs[i]);
    free(text);
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

/* --- submissions that arrive again --- */

static flux_msg_t *submission(uint32_t userid)
{
    flux_msg_t *msg = fake_request("job.submit", "{}", FLUX_ROLE_USER);

    flux_msg_set_cred(msg, userid, FLUX_ROLE_USER);
    return msg;
}

/* The text of the last response, if there is one since the last call; else "". */
static const char *said(struct bed *b)
{
    static char text[64];
    size_t len;

    text[0] = '\0';
    if (b->last)
        snprintf(text, sizeof(text), "%s", (const char *)flux_msg_payload(b->last, &len));
    flux_msg_destroy(b->last);
    b->last = NULL;
    return text;
}

static void submit_and_end(struct bed *b, uint64_t number, int errnum, const char *text)
{
    struct jm_repeated r = {0};
    flux_msg_t *req = submission(1000);

    ck_assert(!jm_repeat_seen(b->jm, req, number));
    ck_assert_int_eq(jm_repeat_begin(b->jm, &r, req, number), 0);
    jm_repeat_end(b->jm, &r, errnum, text);
    jm_repeat_drop(b->jm, &r);
    flux_msg_destroy(req);
}

START_TEST(submitted_again)
{
    struct bed *b = bed_create();
    struct jm_repeated r = {0};
    flux_msg_t *first = submission(1000);
    flux_msg_t *again = submission(1000), *other = submission(1001);

    ck_assert(!jm_repeat_seen(b->jm, again, 7));
    ck_assert_int_eq(jm_repeat_begin(b->jm, &r, first, 7), 0);
    ck_assert(!jm_repeat_seen(b->jm, other, 7)); /* this number is a guess */
    /* While the first one is read, the other waits for its answer. */
    ck_assert(jm_repeat_seen(b->jm, again, 7));
    ck_assert_str_eq(said(b), "");
    jm_repeat_end(b->jm, &r, 0, "{\"first\":9}");
    ck_assert_uint_eq(r.nagain, 1);
    ck_assert_str_eq(said(b), "{\"first\":9}");
    jm_repeat_drop(b->jm, &r);
    /* Then it gets the same answer. */
    ck_assert(jm_repeat_seen(b->jm, again, 7));
    ck_assert_str_eq(said(b), "{\"first\":9}");
    ck_assert(!jm_repeat_seen(b->jm, other, 7));
    submit_and_end(b, 8, ENOSPC, "full");
    ck_assert(jm_repeat_seen(b->jm, again, 8));
    ck_assert_int_eq(flux_msg_errnum(b->last), ENOSPC);
    ck_assert_str_eq(said(b), "full");
    /* Without a number, each is another one. */
    submit_and_end(b, 0, 0, "{}");
    ck_assert(!jm_repeat_seen(b->jm, again, 0));
    /* One that is dropped without an answer was not there. */
    r = (struct jm_repeated){0};
    ck_assert_int_eq(jm_repeat_begin(b->jm, &r, first, 9), 0);
    jm_repeat_drop(b->jm, &r);
    ck_assert(!jm_repeat_seen(b->jm, again, 9));
    /* Old answers make room. */
    for (uint64_t n = 100; n < 100 + 16384; n++)
        submit_and_end(b, n, 0, "{}");
    ck_assert(!jm_repeat_seen(b->jm, again, 7));
    ck_assert(jm_repeat_seen(b->jm, again, 100));
    flux_msg_destroy(first);
    flux_msg_destroy(again);
    flux_msg_destroy(other);
    bed_free(b);
}
END_TEST

/* A request to act on jobs that arrives again acts once, and is answered as the first one was. */
START_TEST(acted_again)
{
    struct bed *b = bed_create();
    const char *raise = "{\"ids\":\"1\",\"type\":\"t\",\"severity\":3,\"number\":5}";
    const char *kill = "{\"ids\":\"1\",\"signum\":15,\"number\":6}";
    struct job_event submit = {.event = JOB_EV_SUBMIT, .userid = 1000, .urgency = 16};
    size_t len, more;

    jm_state_event(b->job, &submit);
    len = strbuf_len(b->job->log);
    /* What was done is answered when it is recorded. */
    ck_assert_int_le(act(b, "job.raise", 1000, raise), 0);
    ck_assert_uint_gt(more = strbuf_len(b->job->log), len);
    ck_assert_int_le(act(b, "job.raise", 1000, raise), 0);
    ck_assert_uint_eq(strbuf_len(b->job->log), more);
    ck_assert_int_eq(act(b, "job.kill", 1000, kill), EINVAL);
    ck_assert(!jm_exec_launched(b->job));
    jm_exec_restore(b->job);
    ck_assert_int_eq(act(b, "job.kill", 1000, kill), EINVAL); /* as it was then */
    kill = "{\"ids\":\"1\",\"signum\":15,\"number\":7}";
    ck_assert_int_le(act(b, "job.kill", 1000, kill), 0);
    bed_free(b);
}
END_TEST

static flux_msg_t *from_rank(uint32_t rank)
{
    flux_msg_t *msg = submission(1000);

    ck_assert_int_eq(flux_msg_route_push(msg, rank), 0);
    return msg;
}

static void lose_rank_2(struct bed *b)
{
    idset_t *ranks = idset_parse("2", NULL);

    jm_client_lost(b->jm, ranks);
    idset_destroy(ranks);
}

/* A job whose client's broker is lost waits for the client, if that returns, for a while; then it
 * ends.  _i: 0, the client comes back; 1, it does not; 2, it does not return at all; 3, it ends. */
START_TEST(client_returns)
{
    struct bed *b = bed_create();
    struct job_event submit = {.event = JOB_EV_SUBMIT,
                               .userid = 1000,
                               .urgency = 16,
                               .flags = JOB_FLAG_CLIENT | (_i == 2 ? 0 : JOB_FLAG_RETURNS)};
    flux_msg_t *req = from_rank(2);

    b->jm->client_grace = _i == 1 ? 0.001 : 1000.;
    jm_state_event(b->job, &submit);
    jm_state_advance(b->job);
    ck_assert(jm_client_begin(b->job, req, false));
    ck_assert_int_eq(act(b, "job.kill", 1001, "{\"ids\":\"1\",\"signum\":15}"), EPERM);
    ck_assert_int_eq(ask(b, "job.claim", 1000, "{\"id\":2}"), ENOENT);
    ck_assert_int_eq(ask(b, "job.claim", 1001, "{\"id\":1}"), EPERM);
    if (_i == 3)
        claims_disconnect(b->jm->clients, req);
    else
        lose_rank_2(b);
    if (_i == 0) {
        ck_assert(jm_state_active(b->job));
        ck_assert_int_eq(ask(b, "job.claim", 1000, "{\"id\":1}"), 0);
        lose_rank_2(b); /* it is at rank 0 now */
        ck_assert(jm_state_active(b->job));
        claims_disconnect(b->jm->clients, req); /* the former sender */
    }
    for (int i = 0; i < 1000 && _i == 1 && jm_state_active(b->job); i++)
        (void)ask(b, "job.queue", 1000, "{\"op\":\"status\"}");
    ck_assert(jm_state_active(b->job) == (_i == 0));
    flux_msg_destroy(req);
    bed_free(b);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("job_requests");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, somebody_else);
    tcase_add_test(tc, out_of_bounds);
    tcase_add_test(tc, submitted_again);
    tcase_add_test(tc, acted_again);
    tcase_add_loop_test(tc, client_returns, 0, 4);
    tcase_add_test(tc, answered);
    tcase_add_test(tc, canceled_stream);
    tcase_add_test(tc, counted);
    tcase_add_test(tc, journal);
    tcase_add_test(tc, listed);
    tcase_add_test(tc, listed_slowly);
    tcase_add_test(tc, sorted);
    tcase_add_test(tc, namespace_left);
    tcase_add_test(tc, parsed);
    tcase_add_loop_test(tc, gathered, 0, 5);
    tcase_add_test(tc, in_order);
    tcase_add_test(tc, watcher_leaves);
    tcase_add_test(tc, watched);
    tcase_add_test(tc, watched_some);
    tcase_add_loop_test(tc, crowd, 0, 10);
    return run_case("job_requests", tc);
}
