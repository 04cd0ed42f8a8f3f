/* A bed for tests of the job service: it is on a handle of the test's own, with a job of user 1000,
 * and the bed keeps what is answered, listed, and told to watchers. */
#ifndef JOB_TEST_BED_H
#define JOB_TEST_BED_H

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
    unsigned removed; /* namespaces, by request */
    flux_msg_t *jobs; /* the request wrexec.jobs */
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
static inline void take_page(struct bed *b, const char *text, size_t len)
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

static inline void hear(struct crowd *c, const flux_msg_t *msg)
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

static inline void sent(struct fake *f, flux_msg_t *msg)
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
    } else if (strcmp(flux_msg_topic(msg), "wrexec.jobs") == 0) {
        flux_msg_destroy(b->jobs);
        b->jobs = msg;
    } else {
        b->logged += strcmp(flux_msg_topic(msg), "log.append") == 0;
        b->removed += strcmp(flux_msg_topic(msg), "kvs.namespace-remove") == 0;
        flux_msg_destroy(msg);
    }
}

static inline void stop_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

static inline struct bed *bed_create(void)
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

static inline void bed_free(struct bed *b)
{
    flux_module_job.fini(b->f.h, b->jm);
    flux_msg_destroy(b->last);
    flux_msg_destroy(b->jobs);
    flux_watcher_destroy(b->stop);
    flux_close(b->f.h);
    flux_reactor_destroy(b->f.r);
    free(b);
}

/* The errno of the answer; -1: none has come, as it waits for the store. */
static inline int ask_flags(struct bed *b, const char *topic, uint32_t userid, unsigned flags,
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

static inline int ask(struct bed *b, const char *topic, uint32_t userid, const char *text)
{
    return ask_flags(b, topic, userid, 0, text);
}

/* The same of what is done to jobs: the errno that the answer has for the job, 0 when it was
 * done. */
static inline int act(struct bed *b, const char *topic, uint32_t userid, const char *text)
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

static inline struct jm_job *new_job(struct bed *b, uint64_t id)
{
    errmsg_t err;
    struct jm_job *j = jm_job_create(b->jm, id, jm_spec_get(b->jm, JOBSPEC, strlen(JOBSPEC), &err),
                                     jm_env_get(b->jm, "", 0));

    ck_assert_ptr_nonnull(j);
    return j;
}

static inline uint32_t watchers(const struct bed *b)
{
    struct job_stats st = {0};

    jm_watch_stats(b->jm, &st);
    return st.watchers;
}

#endif
