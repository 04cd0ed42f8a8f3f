/* check_wrexec_clients.c - the clients that follow a job, at rank 0: their credit, and streams that
 * are resumed when the way to a client was lost. */
#include "config.h"
#include "bed.h"

#define RECORD (WIRE_RECORD + 100)

/* Task 0 of the job prints 100 bytes as often as this. */
static void print(struct bed *b, uint64_t id, unsigned times)
{
    uint8_t rec[RECORD] = {0};

    exec_wire_record_header(rec, 0, 1, 100);
    while (times-- > 0)
        up(b, WIRE_OUTPUT, id, rec, sizeof(rec));
}

/* The job begins, and the client follows it with these words. */
static void launch_for(struct bed *b, uint64_t id, uint32_t client, const char *words)
{
    answer(b);
    launch(b, id);
    say(b, "wrexec.listen", client, FLUX_MSGF_STREAMING, words);
    turn(b);
}

/* In all. */
static void credit(struct bed *b, uint32_t client, uint64_t id, uint64_t bytes)
{
    uint8_t buf[WREXEC_CREDIT_SIZE];

    le_put64(buf, id);
    le_put64(buf + 8, 0);
    le_put64(buf + 16, 0);
    le_put64(buf + 24, bytes);
    say_raw(b, "wrexec.credit", client, buf, sizeof(buf));
    turn(b);
}

/* A client gives credit only for the output of its own job. */
START_TEST(foreign_credit)
{
    struct bed *b = bed_create();

    launch_for(b, 7, 5, "{\"id\":7,\"window\":1,\"input\":false}");
    ck_assert_uint_eq(b->notices, 1);
    print(b, 7, 2);
    turn(b);
    ck_assert_uint_eq(b->output, RECORD);
    credit(b, 6, 7, 1u << 20);
    credit(b, 5, 8, 1u << 20);
    ck_assert_uint_eq(b->output, RECORD);
    credit(b, 5, 7, 1u << 20);
    ck_assert_uint_eq(b->output, 2 * RECORD);
    bed_free(b);
}
END_TEST

/* Output that waits for its client, its credit, and a result that no client has asked for yet. */
START_TEST(reloaded_clients)
{
    struct bed *b = bed_create();

    answer(b);
    launch(b, 7);
    launch(b, 8);
    say(b, "wrexec.listen", 5, FLUX_MSGF_STREAMING, "{\"id\":7,\"window\":1,\"input\":false}");
    turn(b);
    print(b, 7, 3);
    turn(b);
    ck_assert_uint_eq(b->output, RECORD);
    end_job(b, 8);
    reload(b);
    turn(b);
    ck_assert_uint_eq(b->output, RECORD);
    credit(b, 6, 7, 1u << 20);
    ck_assert_uint_eq(b->output, RECORD);
    credit(b, 5, 7, RECORD);
    ck_assert_uint_eq(b->output, 2 * RECORD);
    reload(b);
    credit(b, 5, 7, 1u << 20);
    ck_assert_uint_eq(b->output, 3 * RECORD);
    end_job(b, 7);
    ck_assert_ptr_nonnull(strstr(b->last, "\"code\":3"));
    b->last[0] = '\0';
    reload(b); /* without jobs */
    say(b, "wrexec.listen", 5, FLUX_MSGF_STREAMING, "{\"id\":8,\"input\":false}");
    ck_assert_ptr_nonnull(strstr(b->last, "\"code\":3"));
    bed_free(b);
}
END_TEST

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
    uint8_t in[WREXEC_STDIN_HEAD + 5] = {0};

    launch_for(b, READS, FAR, "{\"id\":9,\"window\":250,\"input\":true}");
    print(b, READS, 4);
    turn(b);
    ck_assert_uint_eq(b->output, 3 * RECORD); /* for the fourth there is no credit */
    ck_assert_uint_eq(b->notices, 1);
    b->frames[0] = '\0';
    le_put64(in, READS);
    for (int i = 0; i < 2; i++)
        say_raw(b, "wrexec.stdin", FAR, in, sizeof(in));
    turn(b);
    ck_assert_str_eq(b->frames, "INPUT ");
    le_put64(in + 16, 6); /* the byte between is missing */
    say_raw(b, "wrexec.stdin", FAR, in, sizeof(in));
    ck_assert_ptr_nonnull(strstr(b->last, "only 5"));
    lose_way(b, FAR);
    if (_i)
        reload(b);
    credit(b, FAR, READS, RECORD); /* it has come before */
    ck_assert_uint_eq(b->output, 3 * RECORD);
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
    ck_assert_uint_eq(b->output, 2 * RECORD); /* the third once more, and the fourth */
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

    launch_for(b, 7, FAR, "{\"id\":7,\"input\":false}");
    print(b, 7, 1);
    turn(b);
    ck_assert_uint_eq(b->output, RECORD);
    if (_i == 0) {
        lose_way(b, FAR);
        print(b, 7, 1); /* waits */
    }
    if (_i == 2)
        print(b, 7, 1);
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
    ck_assert_uint_eq(b->output, _i == 1 ? 0 : RECORD);
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

    launch_for(b, 7, FAR, "{\"id\":7,\"input\":false}");
    lose_way(b, FAR);
    print(b, 7, 1);
    client_is_there(b, false);
    end_job(b, 7);
    ck_assert_uint_eq(b->output, 0);
    say(b, "wrexec.jobs", 1, FLUX_MSGF_STREAMING, "{}");
    ck_assert_ptr_nonnull(strstr(b->told, "\"code\":3"));
    bed_free(b);
}
END_TEST

/* The broker of a client is lost, and the client returns with another sender: it is known by its
 * token.  _i: the module is reloaded meanwhile. */
START_TEST(returned)
{
    struct bed *b = bed_create_sized(3);
    uint8_t in[WREXEC_STDIN_HEAD + 5] = {0};

    launch_for(b, READS, FAR, "{\"id\":9,\"window\":250,\"input\":true,\"token\":77}");
    print(b, READS, 1);
    turn(b);
    lose_way(b, FAR);
    lost(b, "2", 7);
    if (_i)
        reload(b);
    /* The next broker of the rank does not know its sender. */
    client_is_there(b, false);
    print(b, READS, 3);
    turn(b);
    ck_assert_uint_eq(b->output, RECORD);
    say(b, "wrexec.listen", FAR + 1, FLUX_MSGF_STREAMING,
        "{\"id\":9,\"input\":true,\"token\":78,\"received\":1}");
    ck_assert_ptr_nonnull(strstr(b->last, "not kept any more"));
    /* Input that waited in the client may come before its stream. */
    b->frames[0] = '\0';
    le_put64(in, READS);
    say_raw(b, "wrexec.stdin", FAR + 1, in, sizeof(in));
    turn(b);
    ck_assert_str_eq(b->frames, "");
    le_put64(in + 8, 77);
    say_raw(b, "wrexec.stdin", FAR + 1, in, sizeof(in));
    turn(b);
    ck_assert_str_eq(b->frames, "INPUT ");
    b->output = 0;
    say(b, "wrexec.listen", FAR + 1, FLUX_MSGF_STREAMING,
        "{\"id\":9,\"input\":true,\"token\":77,\"received\":1,\"paid\":108}");
    turn(b);
    ck_assert_uint_eq(b->output, 3 * RECORD);
    credit(b, FAR + 1, READS, 4 * RECORD);
    end_job(b, READS);
    ck_assert_ptr_nonnull(strstr(b->last, "\"code\":3"));
    /* The former sender has nothing left here, and the present one may end. */
    say(b, "wrexec.disconnect", FAR, FLUX_MSGF_NORESPONSE, NULL);
    say(b, "wrexec.listen", FAR + 1, FLUX_MSGF_STREAMING,
        "{\"id\":9,\"input\":true,\"token\":77,\"received\":4,\"paid\":432}");
    ck_assert_ptr_nonnull(strstr(b->last, "another request"));
    say(b, "wrexec.disconnect", FAR + 1, FLUX_MSGF_NORESPONSE, NULL);
    bed_free(b);
}
END_TEST

/* The job ends before its client listens, since the request was lost with a broker, and so is the
 * answer to the next request.  _i: the broker of the client is lost, and not only its way. */
START_TEST(answer_lost)
{
    static const char listen[] = "{\"id\":7,\"input\":false,\"token\":77}";
    struct bed *b = bed_create_sized(3);

    answer(b);
    launch(b, 7);
    turn(b);
    end_job(b, 7);
    for (unsigned i = 0; i < 3; i++) {
        b->last[0] = '\0';
        say(b, "wrexec.listen", FAR + (_i ? i : 0), FLUX_MSGF_STREAMING, listen);
        ck_assert_ptr_nonnull(strstr(b->last, "\"code\":3"));
        if (i == 1)
            reload(b);
        lose_way(b, FAR + (_i ? i : 0));
        if (_i)
            lost(b, "2", 7 + i);
    }
    say(b, "wrexec.disconnect", FAR + (_i ? 2 : 0), FLUX_MSGF_NORESPONSE, NULL);
    bed_free(b);
}
END_TEST

/* A job is not known here when its client listens, and has ended, as the client learns then.
 * _i: the job is known. */
START_TEST(ended_unknown)
{
    static const char listen[] = "{\"id\":7,\"input\":false,\"token\":77}";
    struct bed *b = bed_create();

    if (_i)
        launch_for(b, 7, FAR, listen);
    else
        say(b, "wrexec.listen", FAR, FLUX_MSGF_STREAMING, listen);
    /* That of another client changes nothing. */
    say(b, "wrexec.listen", FAR + 1, FLUX_MSGF_STREAMING, "{\"id\":7,\"token\":78,\"ended\":true}");
    lose_way(b, FAR);
    b->last[0] = '\0';
    say(b, "wrexec.listen", FAR, FLUX_MSGF_STREAMING, listen);
    ck_assert_ptr_null(strstr(b->last, "was not started"));
    say(b, "wrexec.listen", FAR, FLUX_MSGF_STREAMING, "{\"id\":7,\"token\":77,\"ended\":true}");
    ck_assert_ptr_nonnull(strstr(b->last, "not waited for"));
    if (_i) {
        end_job(b, 7);
        ck_assert_ptr_nonnull(strstr(b->last, "\"code\":3"));
    } else {
        lose_way(b, FAR);
        say(b, "wrexec.listen", FAR, FLUX_MSGF_STREAMING, listen);
        ck_assert_ptr_nonnull(strstr(b->last, "was not started"));
    }
    bed_free(b);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {foreign_credit, reloaded_clients, ended_unheard};
    TCase *tc = tcase_create("wrexec clients");

    tcase_set_timeout(tc, 60);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(tc, tests[i]);
    tcase_add_loop_test(tc, resumed, 0, 2);
    tcase_add_loop_test(tc, resumed_over, 0, 3);
    tcase_add_loop_test(tc, returned, 0, 2);
    tcase_add_loop_test(tc, answer_lost, 0, 2);
    tcase_add_loop_test(tc, ended_unknown, 0, 2);
    return run_case("wrexec clients", tc);
}
