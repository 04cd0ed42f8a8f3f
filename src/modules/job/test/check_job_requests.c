/* check_job_requests.c - who may do what to whose jobs, and what is refused: the service on a handle of
 * the test's own, with a job of user 1000. */
#include "config.h"
#include "modules/job/jm_private.h"

#include "libflux/module.h"
#include "libflux/test/fake.h"
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
    struct told *told; /* what job.watch tells, of each id; NULL: nobody wants to know */
    unsigned pages;
    uint64_t last_id;
};

#define MANY 100000
struct told {
    unsigned n;
    char states[64];
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

static void sent(struct fake *f, flux_msg_t *msg)
{
    struct bed *b = f->user;

    if (flux_msg_type(msg) == FLUX_MSG_RESPONSE) {
        size_t len, have = strlen(b->page);
        const char *text = flux_msg_payload(msg, &len);

        if (b->told && flux_msg_has_flag(msg, FLUX_MSGF_STREAMING))
            take_page(b, text, len);
        else if (flux_msg_has_flag(msg, FLUX_MSGF_STREAMING))
            snprintf(b->page + have, sizeof(b->page) - have, "%.*s\n", (int)len, text);
        flux_msg_destroy(b->last);
        b->last = msg;
    } else {
        b->logged += strcmp(flux_msg_topic(msg), "log.append") == 0;
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

/* Watchers that are not told the same as all others. */
static uint32_t choosy(const struct bed *b)
{
    struct jm_stats st = {0};

    jm_watch_stats(b->jm, &st);
    return st.choosy;
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

/* The same of what is done to jobs: the errno that the answer has for the job, 0 when it was done. */
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
    ck_assert_ptr_null(b->job->uri);
    ck_assert_int_eq(ask(b, "job.memo", 1000, "{\"id\":1,\"uri\":\"u\"}"), -1); /* not stored */
    ck_assert_str_eq(b->job->uri, "u");
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
    bed_free(b);
}
END_TEST

static const char *list(struct bed *b)
{
    ck_assert_int_eq(ask_flags(b, "job.list", 0, FLUX_MSGF_STREAMING, "{}"), ENODATA);
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

static struct jm_job *more_jobs(struct bed *b)
{
    struct jm_job *j = b->job;

    for (uint64_t id = 2; id <= MANY; id++) {
        errmsg_t err;
        struct jm_spec *spec = jm_spec_get(b->jm, JOBSPEC, strlen(JOBSPEC), &err);

        j = jm_job_create(b->jm, id, spec, jm_env_get(b->jm, "", 0));
        ck_assert_ptr_nonnull(j);
        j->st.state = JOB_STATE_SCHED;
    }
    b->job->st.state = JOB_STATE_SCHED;
    return j;
}

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

/* Who begins to watch is told the present in slices.  What changes meanwhile is told of those jobs that have been
 * told, and to be seen in the others. */
static void watched_by(const char *ids, bool all)
{
    struct bed *b = bed_create();
    struct jm_job *last = more_jobs(b), *later;
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
    ck_assert_str_eq(b->told[1].states, "SCHED RUN ");
    ck_assert_uint_eq(b->told[MANY].n, 0);
    /* Those at both sides of where it stands, and the last. */
    jm_job_destroy(jm_job_find(b->jm, first_slice));
    jm_job_destroy(jm_job_find(b->jm, first_slice + 1));
    later = jm_job_find(b->jm, MANY - 1);
    for (unsigned before = 0; b->pages != before;) {
        before = b->pages;
        jm_watch_pass(b->jm);
    }
    ck_assert_uint_ge(b->pages, MANY / 250);
    for (uint64_t id = 2; id < MANY; id++) {
        ck_assert_uint_eq(b->told[id].n, id != first_slice + 1);
    }
    ck_assert_str_eq(b->told[MANY].states, "RUN ");
    /* From now on it hears what others hear, and once. */
    transition(later, JOB_STATE_RUN);
    jm_watch_sent(b->jm);
    jm_watch_recorded(b->jm);
    ck_assert_str_eq(b->told[1].states, "SCHED RUN CLEANUP ");
    ck_assert_str_eq(b->told[MANY].states, "RUN ");
    ck_assert_str_eq(b->told[MANY - 1].states, "SCHED RUN ");
    ck_assert_uint_eq(choosy(b), all ? 0 : 1);
    free(b->told);
    b->told = NULL;
    bed_free(b);
}

START_TEST(watched)
{
    watched_by("{}", true);
    watched_by("{\"ids\":\"1-100000\"}", false); /* as many as there are */
}
END_TEST

/* Of a few that are named only these are looked at; of many, in pages. */
START_TEST(watched_some)
{
    struct bed *b = bed_create();
    struct jm_job *last = more_jobs(b);

    ck_assert_ptr_nonnull(b->told = calloc(MANY + 1, sizeof(*b->told)));
    begin_watch(b, "{\"ids\":\"1,7,100000,4000000\"}");
    jm_watch_pass(b->jm);
    ck_assert_uint_eq(b->pages, 1);
    ck_assert_uint_eq(b->told[1].n + b->told[7].n + b->told[MANY].n, 3);
    transition(last, JOB_STATE_RUN);
    jm_watch_sent(b->jm);
    jm_watch_recorded(b->jm);
    ck_assert_str_eq(b->told[MANY].states, "SCHED RUN ");
    begin_watch(b, "{\"ids\":\"2-99999\"}");
    for (unsigned before = 1; b->pages != before;) {
        before = b->pages;
        jm_watch_pass(b->jm);
    }
    ck_assert_uint_eq(b->pages, 400);
    for (uint64_t id = 1; id <= MANY; id++)
        ck_assert_uint_eq(b->told[id].n, id > 1 && id < MANY);
    free(b->told);
    b->told = NULL;
    bed_free(b);
}
END_TEST

int main(void)
{
    RUN_SUITE("job_requests", somebody_else, out_of_bounds, journal, listed, watched, watched_some);
}
