/* check_wrexec_module.c - requests that arrive at rank 0 early, or from the wrong client: the
 * module on a handle of the test, with a job whose only node is that of the child. */
#include "config.h"
#include "libflux/handle.h"
#include "libutil/test/fail_at.h"

/* Allocations of the module count, and may fail (fail_at); those of the test do not. */
static void deliver(flux_t *h, flux_msg_t *msg)
{
    sparing--;
    flux_handle_deliver(h, msg);
    sparing++;
}

static int run_loop(flux_reactor_t *r)
{
    int rc;

    sparing--;
    rc = flux_reactor_run(r);
    sparing++;
    return rc;
}
#define flux_handle_deliver deliver
#define flux_reactor_run run_loop
#include "bed.h"

START_TEST(early_kill)
{
    struct bed *b = bed_create();

    say(b, "wrexec.jobs", 1, FLUX_MSGF_STREAMING, "{}");
    launch(b, 7);
    launch(b, 8);
    kill_jobs(b, "7", SIGKILL);
    launch(b, 9);
    kill_jobs(b, "9,10", SIGTERM);
    turn(b);
    ck_assert_str_eq(b->frames, "");
    answer(b);
    ck_assert_str_eq(b->frames, "LAUNCH LAUNCH KILL LAUNCH SIGNAL ");
    bed_free(b);
}
END_TEST

/* A client of an instance that was just loaded is notified of jobs, not of kills. */
START_TEST(early_jobs)
{
    struct bed *b = bed_create();

    launch(b, 7);
    kill_jobs(b, "7", SIGKILL);
    say(b, "wrexec.jobs", 1, FLUX_MSGF_STREAMING, "{}");
    ck_assert_ptr_nonnull(strstr(b->told, "[7]"));
    answer(b);
    kill_jobs(b, "7", 0); /* no signal: nothing is sent */
    turn(b);
    ck_assert_str_eq(b->frames, "LAUNCH KILL ");
    bed_free(b);
}
END_TEST

/* In all. */
static void credit(struct bed *b, uint32_t client, uint64_t id, uint64_t bytes)
{
    uint8_t buf[WREXEC_CREDIT_SIZE];

    le_put64(buf, id);
    le_put64(buf + 8, 0);
    le_put64(buf + 16, bytes);
    say_raw(b, "wrexec.credit", client, buf, sizeof(buf));
    turn(b);
}

/* A client gives credit only for the output of its own job. */
START_TEST(foreign_credit)
{
    struct bed *b = bed_create();
    uint8_t rec[WIRE_RECORD + 100] = {0};

    answer(b);
    launch(b, 7);
    say(b, "wrexec.listen", 5, FLUX_MSGF_STREAMING, "{\"id\":7,\"window\":1,\"input\":false}");
    turn(b);
    ck_assert_uint_eq(b->notices, 1);
    exec_wire_record_header(rec, 0, 1, 100);
    up(b, WIRE_OUTPUT, 7, rec, sizeof(rec));
    up(b, WIRE_OUTPUT, 7, rec, sizeof(rec));
    turn(b);
    ck_assert_uint_eq(b->output, sizeof(rec));
    credit(b, 6, 7, 1u << 20);
    credit(b, 5, 8, 1u << 20);
    ck_assert_uint_eq(b->output, sizeof(rec));
    credit(b, 5, 7, 1u << 20);
    ck_assert_uint_eq(b->output, 2 * sizeof(rec));
    bed_free(b);
}
END_TEST

/* A child whose mailbox is full gets all frames later, in order, and none twice. */
START_TEST(full_child)
{
    struct bed *b = bed_create();

    answer(b);
    b->full = 3;
    launch(b, 7);
    while (!b->opened)
        turn(b);
    ck_assert_int_eq(b->ntree, 4);
    ck_assert_str_eq(b->frames, "LAUNCH ");
    b->full = 2;
    launch(b, 8);
    kill_jobs(b, "8", SIGKILL);
    turn(b);
    launch(b, 9);
    kill_jobs(b, "7", SIGTERM);
    while (b->full > 0 || strlen(b->frames) < strlen("LAUNCH LAUNCH KILL LAUNCH SIGNAL "))
        turn(b);
    ck_assert_str_eq(b->frames, "LAUNCH LAUNCH KILL LAUNCH SIGNAL ");
    bed_free(b);
}
END_TEST

/* While the job module does not have a stream open, the number of messages kept is bounded. */
START_TEST(many_notes)
{
    struct bed *b = bed_create();

    launch(b, 7);
    answer(b);
    for (int i = 0; i < 3000; i++)
        up(b, WIRE_NOTE, 7, "note", 4);
    ck_assert_uint_eq(b->raised, 0);
    say(b, "wrexec.jobs", 1, FLUX_MSGF_STREAMING, "{}");
    turn(b);
    ck_assert_uint_eq(b->raised, 1024);
    for (int i = 0; i < 2000; i++)
        up(b, WIRE_NOTE, 7, "note", 4);
    turn(b);
    ck_assert_uint_eq(b->raised, 3024);
    bed_free(b);
}
END_TEST

/* A client that launches or kills gets an answer when that was done: nothing else may be sent
 * again. */
START_TEST(answered)
{
    struct bed *b = bed_create();

    b->responses = 0;
    launch(b, 7);
    say(b, "wrexec.kill", 1, 0, "{\"ids\":[7],\"signum\":9}");
    turn(b);
    ck_assert_uint_eq(b->responses, 0); /* they wait for the tree */
    answer(b);
    ck_assert_uint_eq(b->responses, 2);
    bed_free(b);
}
END_TEST

/* wrexec.signal is for programs beside brokers: a job gets its signals by the job service, which
 * records the signal that ended it. */
START_TEST(signal_to_job)
{
    struct bed *b = bed_create();

    answer(b);
    launch(b, 7);
    turn(b);
    answer(b);
    ck_assert_str_eq(b->frames, "LAUNCH ");
    say(b, "wrexec.signal", 1, 0, "{\"id\":7,\"signum\":9}");
    turn(b);
    answer(b);
    ck_assert_int_eq(b->errnum, ESRCH);
    ck_assert_str_eq(b->frames, "LAUNCH ");
    bed_free(b);
}
END_TEST

/* A program is refused, and does not wait forever, when the broker cannot report the ranks that are
 * up.  After each refusal the broker is asked again. */
START_TEST(ranks_not_told)
{
    struct bed *b = bed_create();

    answer(b);
    for (uint32_t client = 1; client < 3; client++) {
        b->errnum = 0;
        say_raw(b, "wrexec.run", client, "", 1);
        ck_assert_uint_eq(b->nasked, 1);
        ck_assert_str_eq(flux_msg_topic(b->asked[0]), "overlay.status");
        answer(b);
        ck_assert_int_eq(b->errnum, EAGAIN);
    }
    bed_free(b);
}
END_TEST

/* Requests about names that are not answered: the number of those of one job is bounded. */
START_TEST(many_names)
{
    struct bed *b = bed_create();
    int sent = 0;

    answer(b);
    launch(b, 7);
    turn(b);
    while (b->refused == 0 && sent < 1000000) {
        say(b, "wrexec.name", 1, 0, "{\"op\":\"lookup\",\"id\":7,\"service\":\"x\",\"wait\":true}");
        sent++;
    }
    ck_assert_int_eq(sent, 16384 + 1);
    ck_assert_uint_eq(b->refused, 1);
    bed_free(b);
}
END_TEST

/* A request of the parent that waits is answered when its stream ends, or another one begins. */
START_TEST(parent_leaves)
{
    struct bed *b = bed_create();

    say(b, "wrexec.tree", 9, FLUX_MSGF_STREAMING, "{}");
    for (int i = 0; i < 2; i++) {
        say_raw(b, "wrexec.down", 9, "", 1); /* waits until the tree is known */
        ck_assert_int_eq(b->errnum, 0);
        if (i == 0)
            say(b, "wrexec.tree", 9, FLUX_MSGF_STREAMING, "{}");
        else
            say(b, "wrexec.cancel", 9, FLUX_MSGF_NORESPONSE, "{\"matchtag\":109}");
        ck_assert_int_eq(b->errnum, ECANCELED);
        b->errnum = 0;
    }
    answer(b);
    ck_assert_int_eq(b->errnum, 0);
    bed_free(b);
}
END_TEST

/* --- reloads --- */

/* A reload before the tree is known, and one before the settings are known: requests that wait
 * continue to wait. */
START_TEST(reloaded_early)
{
    struct bed *b = bed_create();

    say(b, "wrexec.listen", 5, FLUX_MSGF_STREAMING, "{\"id\":7,\"input\":false}");
    say(b, "wrexec.jobs", 1, FLUX_MSGF_STREAMING, "{}");
    launch(b, 7);
    kill_jobs(b, "7", SIGTERM);
    reload(b);
    reload(b);
    turn(b);
    ck_assert_str_eq(b->frames, "");
    ck_assert_uint_eq(b->responses, 0);
    answer(b);
    ck_assert_str_eq(b->frames, "LAUNCH SIGNAL ");
    ck_assert_uint_eq(b->responses, 2);
    ck_assert_uint_eq(b->notices, 1);
    end_job(b, 7);
    ck_assert_uint_eq(b->notices, 2);
    ck_assert_ptr_nonnull(strstr(b->told, "\"id\":7,\"code\":3"));
    bed_free(b);
}
END_TEST

/* While requests ask for the processes of an earlier broker, the module stays, unless its end is
 * forced; it has then answered them. */
START_TEST(asked_what_remains)
{
    struct bed *b = bed_create();
    flux_handover_t *o = flux_handover_create();
    errmsg_t err = {""};

    b->errnum = -1;
    say(b, "wrexec.remains", 5, 0, "{}");
    turn(b);
    ck_assert_int_eq(flux_module_wrexec.may_stop(b->f.h, b->ctx, &err), -1);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_ptr_nonnull(strstr(err.text, "is being ended"));
    ck_assert_int_eq(flux_module_wrexec.hand_over(b->f.h, b->ctx, o, &err), -1);
    ck_assert_int_eq(errno, EAGAIN);
    flux_handover_destroy(o);
    ck_assert_int_eq(b->errnum, -1);
    if (_i == 0) {
        answer(b);
        ck_assert_int_eq(b->errnum, 0);
        ck_assert_int_eq(flux_module_wrexec.may_stop(b->f.h, b->ctx, &err), 0);
        reload(b);
    } else {
        flux_module_wrexec.fini(b->f.h, b->ctx);
        ck_assert_int_eq(b->errnum, ECANCELED);
        ck_assert_int_eq(flux_module_wrexec.init(b->f.h, 0, NULL, &b->ctx, &err), 0);
    }
    bed_free(b);
}
END_TEST

/* Reloads while a stream is opened, and while a frame is under way. */
START_TEST(reloaded_edges)
{
    struct bed *b = bed_create();

    say(b, "wrexec.jobs", 1, FLUX_MSGF_STREAMING, "{}");
    answer(b);
    launch(b, 7);
    flux_timer_start(b->stop, 0.002, 0.); /* the child does not answer yet */
    flux_reactor_run(b->f.r);
    ck_assert_ptr_nonnull(b->tree);
    ck_assert(!b->opened);
    reload(b);
    kill_jobs(b, "7", SIGTERM);
    reload(b);
    turn(b);
    ck_assert_str_eq(b->frames, "LAUNCH SIGNAL ");
    ck_assert_int_eq(b->ntree, 1);
    kill_jobs(b, "7", SIGUSR1);
    flux_timer_start(b->stop, 0.002, 0.);
    flux_reactor_run(b->f.r);
    ck_assert_ptr_nonnull(b->down);
    kill_jobs(b, "7", SIGKILL);
    reload(b);
    turn(b);
    ck_assert_str_eq(b->frames, "LAUNCH SIGNAL SIGNAL KILL ");
    ck_assert_int_eq(b->ndown, 3);
    end_job(b, 7);
    ck_assert_ptr_nonnull(strstr(b->told, "\"id\":7,\"code\":3"));
    ck_assert_int_eq(b->ntree, 1);
    bed_free(b);
}
END_TEST

/* Output that waits for its client, its credit, and a result that no client has asked for yet. */
START_TEST(reloaded_clients)
{
    struct bed *b = bed_create();
    uint8_t rec[WIRE_RECORD + 100] = {0};

    answer(b);
    launch(b, 7);
    launch(b, 8);
    say(b, "wrexec.listen", 5, FLUX_MSGF_STREAMING, "{\"id\":7,\"window\":1,\"input\":false}");
    turn(b);
    exec_wire_record_header(rec, 0, 1, 100);
    for (int i = 0; i < 3; i++)
        up(b, WIRE_OUTPUT, 7, rec, sizeof(rec));
    turn(b);
    ck_assert_uint_eq(b->output, sizeof(rec));
    end_job(b, 8);
    reload(b);
    turn(b);
    ck_assert_uint_eq(b->output, sizeof(rec));
    credit(b, 6, 7, 1u << 20);
    ck_assert_uint_eq(b->output, sizeof(rec));
    credit(b, 5, 7, sizeof(rec));
    ck_assert_uint_eq(b->output, 2 * sizeof(rec));
    reload(b);
    credit(b, 5, 7, 1u << 20);
    ck_assert_uint_eq(b->output, 3 * sizeof(rec));
    end_job(b, 7);
    ck_assert_ptr_nonnull(strstr(b->last, "\"code\":3"));
    b->last[0] = '\0';
    reload(b); /* without jobs */
    say(b, "wrexec.listen", 5, FLUX_MSGF_STREAMING, "{\"id\":8,\"input\":false}");
    ck_assert_ptr_nonnull(strstr(b->last, "\"code\":3"));
    bed_free(b);
}
END_TEST

/* A broker between a client and rank 0 has died. */
static void lose_way(struct bed *b, uint32_t client)
{
    say(b, "wrexec.disconnect", client, FLUX_MSGF_NORESPONSE | FLUX_MSGF_IDEMPOTENT, NULL);
}

/* The question whether a client is still there is outstanding: answer it. */
static void client_is_there(struct bed *b, bool present)
{
    for (size_t i = 0; i < b->nasked; i++) {
        flux_msg_t *req = b->asked[i], *resp;

        if (strcmp(flux_msg_topic(req), "overlay.sender") != 0)
            continue;
        ck_assert_uint_eq(flux_msg_nodeid(req), 2);
        resp = flux_msg_response_create(req, 0);
        flux_msg_set_json(resp, present ? "{\"present\":true}" : "{\"present\":false}");
        b->asked[i] = b->asked[--b->nasked];
        flux_msg_destroy(req);
        flux_handle_deliver(b->f.h, resp);
        return;
    }
    ck_abort_msg("nobody asks for the client");
}

/* A client resumes its stream: it gets what it has not received, each response once, and input
 * that comes again is taken once.  _i: the module is reloaded meanwhile. */
START_TEST(resumed)
{
    struct bed *b = bed_create();
    uint8_t rec[WIRE_RECORD + 100] = {0}, in[WREXEC_STDIN_HEAD + 5] = {0};

    answer(b);
    launch(b, READS);
    say(b, "wrexec.listen", FAR, FLUX_MSGF_STREAMING, "{\"id\":9,\"window\":250,\"input\":true}");
    turn(b);
    exec_wire_record_header(rec, 0, 1, 100);
    for (int i = 0; i < 4; i++)
        up(b, WIRE_OUTPUT, READS, rec, sizeof(rec));
    turn(b);
    ck_assert_uint_eq(b->output, 3 * sizeof(rec)); /* for the fourth there is no credit */
    ck_assert_uint_eq(b->notices, 1);
    b->frames[0] = '\0';
    le_put64(in, READS);
    for (int i = 0; i < 2; i++)
        say_raw(b, "wrexec.stdin", FAR, in, sizeof(in));
    turn(b);
    ck_assert_str_eq(b->frames, "INPUT ");
    le_put64(in + 8, 6); /* the byte between is missing */
    say_raw(b, "wrexec.stdin", FAR, in, sizeof(in));
    ck_assert_ptr_nonnull(strstr(b->last, "only 5"));
    lose_way(b, FAR);
    if (_i)
        reload(b);
    credit(b, FAR, READS, sizeof(rec)); /* it has come before */
    ck_assert_uint_eq(b->output, 3 * sizeof(rec));
    say(b, "wrexec.listen", FAR + 1, FLUX_MSGF_STREAMING, "{\"id\":9,\"input\":true}");
    ck_assert_ptr_nonnull(strstr(b->last, "another client"));
    client_is_there(b, true);
    b->notices = 0;
    say(b, "wrexec.listen", FAR, FLUX_MSGF_STREAMING,
        "{\"id\":9,\"input\":true,\"received\":4,\"paid\":0}");
    ck_assert_ptr_nonnull(strstr(b->last, "only 3"));
    b->output = b->notices = 0;
    say(b, "wrexec.listen", FAR, FLUX_MSGF_STREAMING,
        "{\"id\":9,\"input\":true,\"received\":2,\"paid\":216}");
    turn(b);
    ck_assert_uint_eq(b->notices, 1);
    ck_assert_uint_eq(b->output, 2 * sizeof(rec)); /* the third once more, and the fourth */
    say(b, "wrexec.listen", FAR, FLUX_MSGF_STREAMING, "{\"id\":9,\"input\":true}");
    ck_assert_ptr_nonnull(strstr(b->last, "another request"));
    end_job(b, READS);
    ck_assert_ptr_nonnull(strstr(b->last, "\"code\":3"));
    bed_free(b);
}
END_TEST

/* The job ends while the way to its client is lost, or its result is lost with the way. */
START_TEST(resumed_over)
{
    struct bed *b = bed_create();
    uint8_t rec[WIRE_RECORD + 100] = {0};

    answer(b);
    launch(b, 7);
    say(b, "wrexec.listen", FAR, FLUX_MSGF_STREAMING, "{\"id\":7,\"input\":false}");
    turn(b);
    exec_wire_record_header(rec, 0, 1, 100);
    up(b, WIRE_OUTPUT, 7, rec, sizeof(rec));
    turn(b);
    ck_assert_uint_eq(b->output, sizeof(rec));
    if (_i == 0) {
        lose_way(b, FAR);
        up(b, WIRE_OUTPUT, 7, rec, sizeof(rec)); /* waits */
    }
    if (_i == 2)
        up(b, WIRE_OUTPUT, 7, rec, sizeof(rec));
    end_job(b, 7);
    b->last[0] = '\0';
    if (_i > 0)
        lose_way(b, FAR);
    if (_i > 0)
        reload(b);
    turn(b);
    b->output = 0;
    say(b, "wrexec.listen", FAR, FLUX_MSGF_STREAMING,
        "{\"id\":7,\"input\":false,\"received\":1,\"paid\":108}");
    turn(b);
    ck_assert_uint_eq(b->output, _i == 1 ? 0 : sizeof(rec));
    ck_assert_ptr_nonnull(strstr(b->last, "\"code\":3"));
    /* It is kept until the client has gone. */
    b->last[0] = '\0';
    lose_way(b, FAR);
    say(b, "wrexec.listen", FAR, FLUX_MSGF_STREAMING,
        "{\"id\":7,\"input\":false,\"received\":2,\"paid\":108}");
    ck_assert(_i == 1 ? strstr(b->last, "only 1") != NULL : strstr(b->last, "\"code\":3") != NULL);
    say(b, "wrexec.disconnect", FAR, FLUX_MSGF_NORESPONSE, NULL);
    say(b, "wrexec.listen", FAR, FLUX_MSGF_STREAMING,
        "{\"id\":7,\"input\":false,\"received\":1,\"paid\":108}");
    ck_assert_ptr_nonnull(strstr(b->last, "not kept any more"));
    bed_free(b);
}
END_TEST

/* A client that has ended unheard: the output for it is discarded. */
START_TEST(ended_unheard)
{
    struct bed *b = bed_create();
    uint8_t rec[WIRE_RECORD + 100] = {0};

    answer(b);
    launch(b, 7);
    say(b, "wrexec.listen", FAR, FLUX_MSGF_STREAMING, "{\"id\":7,\"input\":false}");
    turn(b);
    lose_way(b, FAR);
    exec_wire_record_header(rec, 0, 1, 100);
    up(b, WIRE_OUTPUT, 7, rec, sizeof(rec));
    client_is_there(b, false);
    end_job(b, 7);
    ck_assert_uint_eq(b->output, 0);
    say(b, "wrexec.jobs", 1, FLUX_MSGF_STREAMING, "{}");
    ck_assert_ptr_nonnull(strstr(b->told, "\"code\":3"));
    bed_free(b);
}
END_TEST

/* A look-up that is under way at the store, and a look-up that waits for the name. */
START_TEST(reloaded_names)
{
    struct bed *b = bed_create();

    answer(b);
    launch(b, 7);
    turn(b);
    say(b, "wrexec.name", 1, 0, "{\"op\":\"lookup\",\"id\":7,\"service\":\"x\"}");
    reload(b);
    ck_assert_uint_eq(b->named, 0);
    answer(b); /* answer of the store, to the instance before: there is no such name */
    ck_assert_uint_eq(b->named, 1);
    ck_assert_ptr_nonnull(strstr(b->last, "nobody has published the name 'x'"));
    say(b, "wrexec.name", 2, 0, "{\"op\":\"lookup\",\"id\":7,\"service\":\"y\",\"wait\":true}");
    answer(b);
    reload(b);
    answer(b);
    ck_assert_uint_eq(b->named, 1);
    end_job(b, 7);
    turn(b);
    ck_assert_uint_eq(b->named, 2);
    ck_assert_ptr_nonnull(strstr(b->last, "is over"));
    bed_free(b);
}
END_TEST

/* Nodes of one name are asked once whether they share a host; launches wait for the answer. */
START_TEST(hosts_of_one_name)
{
    static const char *const marks[] = {"x", "y", "x", "x"};
    struct bed *b = bed_create_sized(4);

    answer(b);
    launch_on(b, 6, "1-3", "a,b,c"); /* this launch does not ask */
    turn(b);
    ck_assert_uint_eq(b->nasked, 0);
    launch_on(b, 7, "1-3", "a,a,b");
    launch(b, 8);
    kill_jobs(b, "7", SIGTERM);
    turn(b);
    ck_assert_uint_eq(b->nasked, 2);
    ck_assert_str_eq(flux_msg_topic(b->asked[0]), "wrexec.host");
    ck_assert_str_eq(b->frames, "LAUNCH ");
    ck_assert_uint_eq(b->responses, 1);
    b->mark = marks;
    answer(b);
    ck_assert_str_eq(b->frames, "LAUNCH LAUNCH LAUNCH SIGNAL ");
    ck_assert_uint_eq(b->responses, 4);
    ck_assert_str_eq(b->hosts, "h1,h2,h3");
    launch_on(b, 9, "1-2", "a,a");
    turn(b);
    ck_assert_uint_eq(b->nasked, 0);
    ck_assert_str_eq(b->hosts, "h1,h2");
    reload(b);
    b->hosts[0] = '\0';
    launch_on(b, 10, "1-2", "a,a");
    turn(b);
    for (size_t i = 0; i < b->nasked; i++)
        ck_assert_str_ne(flux_msg_topic(b->asked[i]), "wrexec.host");
    answer(b);
    ck_assert_str_eq(b->hosts, "h1,h2");
    launch_on(b, 11, "1-3", "a,a,a");
    turn(b);
    ck_assert_uint_eq(b->nasked, 1);
    answer(b);
    ck_assert_str_eq(b->hosts, "h1,h2,h2");
    bed_free(b);
}
END_TEST

/* Equal marks: the launch stays as it is.  No mark: the name decides, and later launches do not
 * wait. */
START_TEST(hosts_not_told)
{
    static const char *const same[] = {"x", "x", "x"}, *const none[] = {NULL, "x", NULL};
    struct bed *b = bed_create_sized(3);

    answer(b);
    b->mark = none;
    launch_on(b, 7, "1-2", "a,a");
    turn(b);
    ck_assert_uint_eq(b->nasked, 2);
    ck_assert_str_eq(b->frames, "");
    answer(b);
    ck_assert_str_eq(b->frames, "LAUNCH ");
    launch_on(b, 8, "1-2", "a,a");
    turn(b);
    ck_assert_str_eq(b->frames, "LAUNCH LAUNCH ");
    ck_assert_uint_eq(b->nasked, 1);
    b->mark = same;
    answer(b);
    launch_on(b, 9, "1-2", "a,a");
    turn(b);
    ck_assert_uint_eq(b->nasked, 0);
    ck_assert_str_eq(b->frames, "LAUNCH LAUNCH LAUNCH ");
    ck_assert_str_eq(b->hosts, "");
    bed_free(b);
}
END_TEST

/* Launches that wait for marks outlive a reload: each is launched once. */
START_TEST(hosts_reloaded)
{
    static const char *const marks[] = {"x", "x", "y"};
    struct bed *b = bed_create_sized(3);

    answer(b);
    launch_on(b, 7, "1-2", "a,a");
    launch(b, 8);
    turn(b);
    ck_assert_uint_eq(b->nasked, 2);
    while (b->nasked > 0)
        flux_msg_destroy(b->asked[--b->nasked]);
    reload(b);
    b->mark = marks;
    answer(b);
    ck_assert_str_eq(b->frames, "LAUNCH LAUNCH ");
    ck_assert_uint_eq(b->responses, 2);
    bed_free(b);
}
END_TEST

static uint64_t running(struct bed *b)
{
    uint64_t n;

    say(b, "wrexec.stats", 1, 0, "{}");
    ck_assert_int_eq(sscanf(strstr(b->last, "\"running\":"), "\"running\":%" SCNu64, &n), 1);
    return n;
}

/* A launch of more jobs than a slice holds: the rest follows, after a reload too, and the last jobs
 * have the environment that only the first job brought along. */
START_TEST(launch_in_slices)
{
    for (int reloaded = 0; reloaded < 2; reloaded++) {
        struct bed *b = bed_create_on(2, true);
        json_t *nodes = json_pack("[[sissi]]", "1", 1, "", "", 0);
        launchbuf_t *buf = exec_launchbuf_create();
        char *argv[] = {(char *)"true", NULL};
        size_t len;
        void *data;

        answer(b);
        for (uint64_t id = 1; id <= FLUX_SLICE_THINGS + 2; id++) {
            struct wrexec_launch w = {.id = id, .nodes = nodes, .output = "client"};
            struct launchreq req = {.launch = &w, .argv = argv, .env = "A=1", .envlen = 4};

            ck_assert_int_eq(exec_launchbuf_add(buf, &req), 0);
        }
        ck_assert_ptr_nonnull(data = exec_launchbuf_take(buf, &len));
        say_raw(b, "wrexec.launch", 1, data, len);
        ck_assert_uint_eq(running(b), FLUX_SLICE_THINGS);
        ck_assert_uint_eq(b->responses, 0);
        if (reloaded)
            reload(b);
        turn(b);
        ck_assert_uint_eq(running(b), FLUX_SLICE_THINGS + 2);
        ck_assert_uint_eq(b->responses, 1);
        ck_assert_uint_eq(strlen(b->frames), (FLUX_SLICE_THINGS + 2) * strlen("LAUNCH "));
        ck_assert_str_eq(b->env, "A=1");
        free(data);
        exec_launchbuf_destroy(buf);
        json_decref(nodes);
        bed_free(b);
    }
}
END_TEST

/* End the child's part of `n` jobs. */
static void up_results(struct bed *b, uint64_t first, uint64_t n)
{
    flux_msg_t *msg = flux_msg_response_create(b->tree, 0);
    uint8_t *buf = malloc(n * WIRE_HEADER);

    ck_assert_ptr_nonnull(msg);
    ck_assert_ptr_nonnull(buf);
    for (uint64_t i = 0; i < n; i++)
        exec_wire_header(buf + i * WIRE_HEADER, WIRE_RESULT, first + i, 0);
    flux_msg_set_flags(msg, FLUX_MSGF_STREAMING);
    ck_assert_int_eq(flux_msg_set_raw(msg, buf, n * WIRE_HEADER), 0);
    free(buf);
    flux_handle_deliver(b->f.h, msg);
}

/* More frames of a child than a slice holds: other work is done in between, and no frame is lost in
 * a reload. */
START_TEST(child_in_slices)
{
    for (int reloaded = 0; reloaded < 2; reloaded++) {
        struct bed *b = bed_create_on(2, true);
        bool between = false;

        answer(b);
        for (uint64_t id = 1; id <= FLUX_SLICE_THINGS + 3; id++)
            launch(b, id);
        turn(b);
        up_results(b, 1, FLUX_SLICE_THINGS + 2);
        up_results(b, FLUX_SLICE_THINGS + 3, 1); /* the next response arrives in between */
        if (reloaded)
            reload(b);
        while (b->still.n > 0 && !between) {
            flux_watcher_t *w = b->still.w[0];

            still_clear(&b->still, w);
            flux_watcher_fire(w);
            between = running(b) == 3;
        }
        ck_assert(between != reloaded); /* frames that have arrived are handled before a reload */
        turn(b);
        ck_assert_uint_eq(running(b), 0);
        bed_free(b);
    }
}
END_TEST

/* A state that no instance leaves is refused, with an error message, and without a leak. */
START_TEST(bad_inheritance)
{
    for (int bad = 0; bad < 8; bad++) {
        struct bed *b = bed_create();
        flux_handover_t *o = flux_handover_create();
        errmsg_t err = {""};

        flux_module_wrexec.fini(b->f.h, b->ctx);
        flux_close(b->f.h);
        if (bad > 0)
            flux_handover_put_mark(o, bad == 1 ? "another" : "wrexec");
        flux_handover_put(o, bad == 2 ? 1 : 0); /* rank, size */
        flux_handover_put(o, bad == 3 ? 3 : 2);
        flux_handover_put_str(o, bad == 4 ? "kary:0" : "kary:2");
        flux_handover_put(o, bad == 5 ? 2 : 0);
        flux_handover_put(o, 7);
        flux_handover_put(o, bad == 6); /* jobs, but no launcher */
        flux_handover_put_mark(o, "edges");
        ck_assert_int_eq(init_with(b, o, &err), -1);
        ck_assert_int_eq(errno, bad == 4 ? EINVAL : EPROTO);
        ck_assert_str_ne(err.text, "");
        flux_aux_set(b->f.h, "module::inherited", NULL, NULL);
        flux_handover_destroy(o);
        ck_assert_int_eq(flux_module_wrexec.init(b->f.h, 0, NULL, &b->ctx, &err), 0);
        bed_free(b);
    }
}
END_TEST

/* --- a child returns to its place --- */

static void moved(struct bed *b, uint32_t rank, uint32_t parent, unsigned number)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, "overlay.moved");
    char json[80];

    snprintf(json, sizeof(json), "{\"rank\":%u,\"parent\":%u,\"move\":%u,\"map\":%u}", rank, parent,
             65536 + number, number);
    ck_assert_int_eq(flux_msg_set_json(msg, json), 0);
    flux_handle_deliver(b->f.h, msg);
    turn(b);
}

/* Take the stream of a child from the bed, which goes on with that of another child. */
static flux_msg_t *other_child(struct bed *b, uint32_t *round)
{
    flux_msg_t *tree = b->tree;

    *round = b->round[7];
    b->tree = NULL;
    b->opened = false;
    return tree;
}

/* Rank 2 has lost rank 1, and returns to it with a job, which keeps its edge; the next launch takes
 * the new way. */
START_TEST(moved_with_job)
{
    struct bed *b = bed_create_sized(3);
    flux_msg_t *old, *new;
    uint32_t round;

    say(b, "wrexec.jobs", 1, FLUX_MSGF_STREAMING, "{}");
    answer(b);
    moved(b, 2, 0, 1);
    launch_on(b, 7, "2", NULL);
    turn(b);
    ck_assert_uint_eq(flux_msg_nodeid(b->tree), 2);
    moved(b, 2, 1, 2);
    old = other_child(b, &round);
    launch_on(b, 8, "2", NULL);
    turn(b);
    ck_assert_ptr_nonnull(b->tree);
    ck_assert_uint_eq(flux_msg_nodeid(b->tree), 1);
    reload(b);
    end_job(b, 8);
    ck_assert_ptr_nonnull(strstr(b->told, "\"id\":8,\"code\":3"));
    new = b->tree;
    b->tree = old;
    end_job(b, 7);
    ck_assert_ptr_nonnull(strstr(b->told, "\"id\":7,\"code\":3"));
    ck_assert_int_eq(b->ntree, 2);
    flux_msg_destroy(new);
    bed_free(b);
}
END_TEST

/* The stream of the child ends with this error. */
static void tree_fails(struct bed *b, int errnum)
{
    flux_msg_t *resp = flux_msg_response_create(b->tree, errnum);

    ck_assert_int_eq(flux_msg_set_json(resp, "it was lost"), 0);
    flux_msg_destroy(b->tree);
    b->tree = NULL;
    b->opened = false;
    flux_handle_deliver(b->f.h, resp);
}

static void lost(struct bed *b, const char *ranks, uint64_t map)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, "overlay.down");
    char json[100];

    snprintf(json, sizeof(json), "{\"ranks\":\"%s\",\"map\":%" PRIu64 "}", ranks, map);
    ck_assert_int_eq(flux_msg_set_json(msg, json), 0);
    flux_handle_deliver(b->f.h, msg);
}

/* Rank 1 dies, between this one and rank 2, which has the job: with the event before the error, or
 * after it, and with a reload in between.  The launch goes to rank 2; of what it repeats, only what
 * is new counts, and nothing that belongs to the former round. */
START_TEST(broker_between_dies)
{
    struct bed *b = bed_create_sized(3);
    uint8_t rec[WIRE_RECORD + 100] = {0};
    uint32_t round;

    exec_wire_record_header(rec, 0, 1, 100);
    say(b, "wrexec.jobs", 1, FLUX_MSGF_STREAMING, "{}");
    answer(b);
    launch_on(b, 7, "2", NULL);
    say(b, "wrexec.listen", 5, FLUX_MSGF_STREAMING, "{\"id\":7,\"input\":false}");
    turn(b);
    ck_assert_uint_eq(flux_msg_nodeid(b->tree), 1);
    round = b->round[7];
    for (uint64_t n = 1; n <= 2; n++)
        up_numbered(b, WIRE_OUTPUT, 7, round, n, rec, sizeof(rec));
    kill_jobs(b, "7", SIGUSR1);
    turn(b);
    ck_assert_uint_eq(b->output, 2 * sizeof(rec));
    b->frames[0] = '\0';
    if (_i == 0)
        flux_msg_destroy(other_child(b, &round)); /* the module ends this stream by itself */
    else
        tree_fails(b, EHOSTUNREACH);
    if (_i == 2)
        reload(b);
    lost(b, "1", 7);
    turn(b);
    ck_assert_ptr_nonnull(b->tree);
    ck_assert_uint_eq(flux_msg_nodeid(b->tree), 2);
    ck_assert_int_eq(strncmp(b->frames, "LAUNCH SIGNAL ", 14), 0);
    ck_assert_str_eq(b->ranks, "2");
    ck_assert_uint_ne(b->round[7], round);
    up_numbered(b, WIRE_OUTPUT, 7, round, 3, rec, sizeof(rec)); /* of the former round */
    turn(b);
    ck_assert_uint_eq(b->output, 2 * sizeof(rec));
    round = b->round[7];
    up_numbered(b, WIRE_OUTPUT, 7, round, 4, rec, sizeof(rec)); /* 3 is still missing */
    for (uint64_t n = 1; n <= 4; n++)
        up_numbered(b, WIRE_OUTPUT, 7, round, n, rec, sizeof(rec));
    turn(b);
    ck_assert_uint_eq(b->output, 4 * sizeof(rec));
    ck_assert_uint_eq(b->raised, 0);
    end_job(b, 7);
    ck_assert_ptr_nonnull(strstr(b->told, "\"id\":7,\"code\":3"));
    bed_free(b);
}
END_TEST

/* Output is acknowledged before the launcher of its node has used up its window. */
START_TEST(acknowledged)
{
    struct bed *b = bed_create();
    uint8_t rec[WIRE_RECORD + 10000] = {0};

    exec_wire_record_header(rec, 0, 1, 10000);
    answer(b);
    launch(b, 7);
    turn(b);
    for (uint64_t n = 1; n <= 8; n++)
        up_numbered(b, WIRE_OUTPUT, 7, b->round[7], n, rec, sizeof(rec));
    turn(b);
    ck_assert_uint_eq(b->acked, 7);
    bed_free(b);
}
END_TEST

static void sent_sparing(struct fake *f, flux_msg_t *msg)
{
    sparing++;
    sent(f, msg);
    sparing--;
}

/* A job whose client and whose tasks are below a broker that dies, while allocation k fails.
 * Returns whether there was one. */
static bool heal_without_memory(unsigned k)
{
    struct bed *b = bed_create_sized(3);
    uint8_t rec[WIRE_RECORD + 100] = {0}, in[WREXEC_STDIN_HEAD + 5] = {0};
    unsigned left;

    b->f.hook = sent_sparing;
    exec_wire_record_header(rec, 0, 1, 100);
    le_put64(in, READS);
    say(b, "wrexec.jobs", 1, FLUX_MSGF_STREAMING, "{}");
    answer(b);
    fail_at = k;
    launch_on(b, READS, "2", NULL);
    say(b, "wrexec.listen", FAR, FLUX_MSGF_STREAMING, "{\"id\":9,\"input\":true}");
    turn(b);
    say_raw(b, "wrexec.stdin", FAR, in, sizeof(in));
    for (uint64_t n = 1; b->opened && n <= 2; n++)
        up_numbered(b, WIRE_OUTPUT, READS, b->round[READS], n, rec, sizeof(rec));
    kill_jobs(b, "9", SIGUSR1);
    turn(b);
    lose_way(b, FAR);
    if (b->tree)
        tree_fails(b, EHOSTUNREACH);
    turn(b);
    say(b, "wrexec.listen", FAR, FLUX_MSGF_STREAMING,
        "{\"id\":9,\"input\":true,\"received\":1,\"paid\":108}");
    turn(b);
    left = stop_failing();
    /* With memory again, it serves. */
    b->errnum = -1;
    say(b, "wrexec.remains", 1, 0, "{}");
    answer(b);
    ck_assert_msg(b->errnum == 0, "allocation %u: error %d", k, b->errnum);
    kill_jobs(b, "9", SIGKILL);
    turn(b);
    bed_free(b);
    return left == 0;
}

START_TEST(no_memory_to_heal)
{
    unsigned k = 1;

    while (heal_without_memory(k))
        k++;
    ck_assert_uint_gt(k, 50); /* that many are made */
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        early_kill,     early_jobs,     foreign_credit,   full_child,      answered,
        many_notes,     signal_to_job,  ranks_not_told,   many_names,      parent_leaves,
        reloaded_early, reloaded_edges, reloaded_clients, reloaded_names,  hosts_of_one_name,
        hosts_not_told, hosts_reloaded, launch_in_slices, child_in_slices, bad_inheritance,
        moved_with_job, acknowledged,   no_memory_to_heal};
    TCase *tc = tcase_create("wrexec module");

    sparing = 1; /* the test itself */
    tcase_set_timeout(tc, 60);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(tc, tests[i]);
    tcase_add_loop_test(tc, resumed, 0, 2);
    tcase_add_loop_test(tc, resumed_over, 0, 3);
    tcase_add_test(tc, ended_unheard);
    tcase_add_loop_test(tc, asked_what_remains, 0, 2);
    tcase_add_loop_test(tc, broker_between_dies, 0, 3);
    return run_case("wrexec module", tc);
}
