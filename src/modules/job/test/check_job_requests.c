/* check_job_requests.c - who may do what to whose jobs, what is refused, and what is done once
 * although it arrives again; and what wrexec reports. */
#include "config.h"

#include "modules/job/test/bed.h"

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

/* --- reports of wrexec --- */

static void report(struct bed *b, const char *text)
{
    flux_msg_t *resp = flux_msg_response_create(b->jobs, 0);

    ck_assert_ptr_nonnull(resp);
    flux_msg_set_flags(resp, FLUX_MSGF_STREAMING);
    ck_assert_int_eq(flux_msg_set_json(resp, text), 0);
    flux_handle_deliver(b->f.h, resp);
    flux_timer_start(b->stop, 0.01, 0.);
    flux_reactor_run(b->f.r);
}

/* A job that runs, for a job module that was loaded again. */
static void restored_running(struct bed *b, bool requeue)
{
    const enum job_event_type past[] = {JOB_EV_DEPEND, JOB_EV_PRIORITY, JOB_EV_ALLOC, JOB_EV_START};
    struct job_event submit = {.event = JOB_EV_SUBMIT, .userid = 1000, .urgency = 16};

    jm_state_event(b->job, &submit);
    for (size_t i = 0; i < sizeof(past) / sizeof(past[0]); i++)
        jm_state_event_plain(b->job, past[i]);
    ck_assert_int_eq(b->job->st.state, JOB_STATE_RUN);
    b->job->spec->requeue = requeue;
    jm_exec_restore(b->job);
    jm_exec_start(b->jm);
    ck_assert_ptr_nonnull(b->jobs);
}

/* The instance that was told of the loss of a node is gone and has not recorded it: the report of
 * the end says it again.  _i: 0, the job is to run again; 1, it is not; 2, no node was lost. */
START_TEST(loss_not_recorded)
{
    const char *type = _i == 2 ? "exec" : "node-lost";
    struct bed *b = bed_create();
    char text[256], want[64];
    size_t len;

    restored_running(b, _i != 1);
    snprintf(text, sizeof(text),
             "{\"running\":[],\"ended\":[{\"id\":1,\"attempt\":1,\"code\":137,\"t\":1.0,"
             "\"status\":[[9,\"0\"]],\"text\":\"why it ended\"%s}]}",
             _i == 2 ? "" : ",\"type\":\"node-lost\"");
    report(b, text);
    snprintf(want, sizeof(want), "\"type\":\"%s\",\"severity\":%d,\"note\":\"why it ended\"", type,
             _i == 0);
    ck_assert_ptr_nonnull(strstr(strbuf_str(b->job->log), want));
    ck_assert_int_eq(b->job->st.requeues, _i == 0);
    ck_assert_int_eq(b->job->st.state, _i == 0 ? JOB_STATE_SCHED : JOB_STATE_INACTIVE);
    if (_i > 0)
        ck_assert_str_eq(b->job->end.type, type);
    len = strbuf_len(b->job->log);
    report(b, text); /* it is repeated, and has no effect */
    ck_assert_uint_eq(strbuf_len(b->job->log), len);
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
    tcase_add_loop_test(tc, loss_not_recorded, 0, 3);
    tcase_add_test(tc, answered);
    tcase_add_test(tc, canceled_stream);
    tcase_add_test(tc, counted);
    tcase_add_test(tc, journal);
    tcase_add_test(tc, namespace_left);
    tcase_add_test(tc, parsed);
    return run_case("job_requests", tc);
}
