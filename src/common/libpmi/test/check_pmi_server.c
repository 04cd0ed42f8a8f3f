/* check_pmi_server.c - whole dialogs against the state machine, byte for byte, and all the ways in
 * which a client can misbehave. */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libpmi/pmi_pack.h"
#include "libpmi/pmi_server.h"
#include "libpmi/pmi_spawn.h"
#include "libpmi/pmi_wire.h"
#include "libutil/test/suite.h"

#define NTASKS 3

static struct {
    struct pmi_server *server;
    char out[NTASKS][1 << 16];
    size_t len[NTASKS];
    int sends;
    int barriers;
    size_t npairs;
    char blob[4096];
    size_t bloblen;
    int aborted; /* exit code */
    char text[256];
    int errors, finals;
    char name[1200];
    void *spawn; /* what was asked for */
    size_t spawnlen;
    int spawns;      /* number that will be accepted */
    bool answer_now; /* names and barriers are completed within the callback */
    bool broken;     /* sends fail */
} w;

static int on_send(void *arg, size_t i, const void *data, size_t len)
{
    w.sends++;
    if (w.broken)
        return -1;
    ck_assert_uint_lt(w.len[i] + len, sizeof(w.out[i]));
    memcpy(w.out[i] + w.len[i], data, len);
    w.len[i] += len;
    w.out[i][w.len[i]] = '\0';
    return 0;
}

static void on_barrier(void *arg, const void *blob, size_t len, size_t n)
{
    w.barriers++;
    w.npairs = n;
    ck_assert_uint_le(len, sizeof(w.blob));
    memcpy(w.blob, blob, len);
    w.bloblen = len;
    if (w.answer_now)
        ck_assert_int_eq(pmi_server_barrier_done(w.server, 0, NULL), 0);
}

static void on_abort(void *arg, size_t i, int code, const char *msg)
{
    w.aborted = code;
    snprintf(w.text, sizeof(w.text), "%s", msg);
}

static void on_final(void *arg, size_t i)
{
    w.finals++;
}

static void on_error(void *arg, size_t i, const char *text)
{
    w.errors++;
    snprintf(w.text, sizeof(w.text), "%s", text);
}

static int on_publish(void *arg, size_t i, const char *service, const char *port)
{
    snprintf(w.name, sizeof(w.name), "%s=%s", service, port);
    return 0;
}

static int on_spawn(void *arg, size_t i, const void *req, size_t len)
{
    if (w.spawns == 0)
        return -1;
    w.spawns--;
    free(w.spawn);
    w.spawn = malloc(len);
    ck_assert_ptr_nonnull(w.spawn);
    memcpy(w.spawn, req, w.spawnlen = len);
    if (w.answer_now)
        ck_assert_int_eq(pmi_server_spawn_done(w.server, i, 0, NULL, NULL), 0);
    return 0;
}

static int on_lookup(void *arg, size_t i, const char *service)
{
    if (w.answer_now)
        ck_assert_int_eq(pmi_server_name_done(w.server, i, 0, "tag#0 host", NULL), 0);
    return 0;
}

static const struct pmi_server_ops all_ops = {.send = on_send,
                                              .barrier = on_barrier,
                                              .abort = on_abort,
                                              .finalized = on_final,
                                              .client_error = on_error,
                                              .publish = on_publish,
                                              .lookup = on_lookup,
                                              .spawn = on_spawn};

static void start(void)
{
    static const uint32_t ranks[NTASKS] = {4, 5, 6};
    struct pmi_server_params p = {.kvsname = "kvs_7",
                                  .size = 8,
                                  .universe_size = 16,
                                  .appnum = 2,
                                  .nlocal = NTASKS,
                                  .ranks = ranks};

    free(w.spawn);
    memset(&w, 0, sizeof(w));
    w.server = pmi_server_create(&all_ops, &w, &p, NULL);
    ck_assert_ptr_nonnull(w.server);
}

static int say(size_t i, const char *text)
{
    return pmi_server_input(w.server, i, text, strlen(text));
}

/* Say and compare all that came back. */
static void talk(size_t i, const char *text, const char *want)
{
    w.len[i] = 0;
    w.out[i][0] = '\0';
    ck_assert_int_eq(say(i, text), 0);
    ck_assert_str_eq(w.out[i], want);
}

static void init_all(void)
{
    for (size_t i = 0; i < NTASKS; i++)
        talk(i, "cmd=init pmi_version=1 pmi_subversion=1\n",
             "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
}

static void expect_lost(size_t i, const char *text)
{
    int before = w.errors;

    ck_assert_int_eq(say(i, text), -1);
    ck_assert_int_eq(errno, EPROTO);
    ck_assert_int_eq(w.errors, before + 1);
    ck_assert_int_eq(say(i, "cmd=get_appnum\n"), -1);
    ck_assert_int_eq(w.errors, before + 1);
}

START_TEST(programs)
{
    static const uint32_t ranks[NTASKS] = {4, 5, 6};
    static const int appnums[NTASKS] = {0, 7, 7};
    struct pmi_server_params p = {
        .kvsname = "kvs", .size = 8, .nlocal = NTASKS, .ranks = ranks, .appnums = appnums};

    memset(&w, 0, sizeof(w));
    ck_assert_ptr_nonnull(w.server = pmi_server_create(&all_ops, &w, &p, NULL));
    init_all();
    talk(0, "cmd=get_appnum\n", "cmd=appnum appnum=0\n");
    talk(1, "cmd=get_appnum\n", "cmd=appnum appnum=7\n");
    talk(2, "cmd=get_appnum\n", "cmd=appnum appnum=7\n");
    pmi_server_destroy(w.server);
}
END_TEST

START_TEST(dialog)
{
    start();
    ck_assert_int_eq(pmi_server_preset(w.server, "PMI_process_mapping", "(vector,(0,4,2))"), 0);
    ck_assert(!pmi_server_initialized(w.server, 0));
    init_all();
    ck_assert(pmi_server_initialized(w.server, 0));
    talk(0, "cmd=get_maxes\n",
         "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 wide_vallen_max=8192\n");
    talk(0, "cmd=get_appnum\n", "cmd=appnum appnum=2\n");
    talk(0, "cmd=get_universe_size\n", "cmd=universe_size size=16\n");
    talk(0, "cmd=get_my_kvsname\n", "cmd=my_kvsname kvsname=kvs_7\n");
    talk(0, "cmd=get kvsname=kvs_7 key=PMI_process_mapping\n",
         "cmd=get_result rc=0 msg=success value=(vector,(0,4,2))\n");
    talk(0, "cmd=get kvsname=kvs_7 key=none\n",
         "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
    talk(1, "cmd=put kvsname=kvs_7 key=-a/[1] value=b c\n", "cmd=put_result rc=0 msg=success\n");
    talk(2, "cmd=put kvsname=kvs_7 key=k2 value=\n", "cmd=put_result rc=0 msg=success\n");
    talk(0, "cmd=barrier_in\n", "");
    talk(1, "cmd=barrier_in\n", "");
    ck_assert_int_eq(pmi_server_barrier_done(w.server, 0, NULL), -1);
    ck_assert_int_eq(w.barriers, 0);
    talk(2, "cmd=barrier_in\n", "");
    ck_assert_int_eq(w.barriers, 1);
    ck_assert_uint_eq(w.npairs, 2);
    ck_assert_int_eq(pmi_server_merge(w.server, w.blob, w.bloblen), 0);
    ck_assert_int_eq(pmi_server_merge(w.server, w.blob, w.bloblen - 1), -1);
    ck_assert_int_eq(pmi_server_barrier_done(w.server, 0, NULL), 0);
    for (int i = 0; i < NTASKS; i++) {
        ck_assert_str_eq(w.out[i], "cmd=barrier_out\n");
        talk(i, "cmd=get kvsname=kvs_7 key=-a/[1]\n",
             "cmd=get_result rc=0 msg=success value=b c\n");
    }
    w.answer_now = true;
    for (int i = 0; i < NTASKS; i++)
        talk(i, "cmd=barrier_in\n", i == NTASKS - 1 ? "cmd=barrier_out\n" : "");
    ck_assert_uint_eq(w.npairs, 0);
    for (int i = 0; i < NTASKS; i++) {
        talk(i, "cmd=finalize\n", "cmd=finalize_ack\n");
        pmi_server_eof(w.server, i);
        ck_assert(pmi_server_finalized(w.server, i));
    }
    ck_assert_int_eq(w.finals, NTASKS);
    ck_assert_int_eq(w.errors, 0);
    pmi_server_destroy(w.server);
    pmi_server_destroy(NULL);
}
END_TEST

START_TEST(chunks)
{
    static const char all[] = "cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_appnum\n"
                              "cmd=put kvsname=kvs_7 key=a value=b c\n"
                              "cmd=get kvsname=kvs_7 key=a\ncmd=finalize\n";
    static const char want[] = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
                               "cmd=appnum appnum=2\ncmd=put_result rc=0 msg=success\n"
                               "cmd=get_result rc=0 msg=success value=b c\ncmd=finalize_ack\n";

    for (size_t step = 1; step <= sizeof(all); step++) {
        start();
        for (size_t at = 0; at < sizeof(all) - 1; at += step) {
            size_t n = sizeof(all) - 1 - at < step ? sizeof(all) - 1 - at : step;

            ck_assert_int_eq(pmi_server_input(w.server, 0, all + at, n), 0);
        }
        ck_assert_str_eq(w.out[0], want);
        if (step >= sizeof(all) - 1)
            ck_assert_int_eq(w.sends, 1);
        pmi_server_destroy(w.server);
    }
}
END_TEST

START_TEST(port_dialog)
{
    start();
    talk(1, "cmd=initack pmiid=6\n", "cmd=initack rc=-1 msg=pmiid_is_not_the_rank_of_this_task\n");
    talk(1, "cmd=initack pmiid=5\n",
         "cmd=initack rc=0\ncmd=set size=8\ncmd=set rank=5\ncmd=set debug=0\n");
    init_all();
    pmi_server_destroy(w.server);
}
END_TEST

START_TEST(refused)
{
    char line[10000];

    start();
    talk(0, "cmd=barrier_in\n", "cmd=barrier_out rc=-1 msg=init_must_be_the_first_request\n");
    talk(0, "cmd=init pmi_version=2 pmi_subversion=0\n",
         "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1 "
         "msg=only_pmi_version=1_is_supported\n");
    init_all();
    talk(0, "cmd=init pmi_version=1 pmi_subversion=1\n",
         "cmd=response_to_init rc=-1 msg=init_was_already_called\n");
    talk(0, "cmd=put kvsname=other key=a value=b\n",
         "cmd=put_result rc=-1 msg=kvsname_is_not_that_of_this_job\n");
    talk(0, "cmd=put kvsname=kvs_7 value=b\n", "cmd=put_result rc=-1 msg=no_key\n");
    talk(0, "cmd=put kvsname=kvs_7 key=b\n", "cmd=put_result rc=-1 msg=no_value\n");
    talk(0, "cmd=get key=b\n",
         "cmd=get_result rc=-1 msg=kvsname_is_not_that_of_this_job value=unknown\n");
    snprintf(line, sizeof(line), "cmd=get kvsname=kvs_7 key=%065d\n", 0);
    talk(0, line, "cmd=get_result rc=-1 msg=key_is_longer_than_keylen_max value=unknown\n");
    snprintf(line, sizeof(line), "cmd=put kvsname=kvs_7 key=big value=%08193d\n", 0);
    talk(0, line, "cmd=put_result rc=-1 msg=value_is_longer_than_vallen_max\n");
    talk(0, "cmd=put kvsname=kvs_7 key=a value=b\n", "cmd=put_result rc=0 msg=success\n");
    talk(1, "cmd=put kvsname=kvs_7 key=a value=b\n", "cmd=put_result rc=0 msg=success\n");
    talk(1, "cmd=put kvsname=kvs_7 key=a value=c\n",
         "cmd=put_result rc=-1 msg=duplicate_key:_it_already_has_a_different_value\n");
    talk(0, "cmd=getbyidx kvsname=kvs_7 idx=0\n",
         "cmd=getbyidx_results rc=-1 msg=iteration_is_not_supported;_get_by_key "
         "reason=iteration_is_not_supported;_get_by_key\n");
    talk(0, "cmd=create_kvs\n", "cmd=newkvs rc=-1 msg=a_job_has_one_kvs;_see_get_my_kvsname\n");
    talk(0, "mcmd=spawn\nnprocs=2\nexecname=a\ntotspawns=2\nspawnssofar=1\nendcmd\n", "");
    talk(0, "mcmd=spawn\nnprocs=2\nexecname=a b\ntotspawns=2\nspawnssofar=2\nendcmd\n",
         "cmd=spawn_result rc=-1 msg=spawn_is_not_supported;_submit_another_job\n");
    talk(0, "cmd=unpublish_name service=s\n",
         "cmd=unpublish_result info=failed rc=-1 msg=no_name_service_for_this_job\n");
    talk(0, "cmd=finalize\n", "cmd=finalize_ack\n");
    talk(0, "cmd=put kvsname=kvs_7 key=z value=b\n",
         "cmd=put_result rc=-1 msg=this_task_has_already_finalized\n");
    talk(1, "cmd=barrier_in\n",
         "cmd=barrier_out rc=-1 msg=a_task_of_this_node_has_exited;_the_barrier_cannot_complete\n");
    ck_assert_int_eq(w.errors, 0);
    pmi_server_destroy(w.server);
}
END_TEST

#define BLOCK "mcmd=spawn\nnprocs=1\nexecname=a\ntotspawns=1\nspawnssofar=1\n"
#define NO_SPAWN "cmd=spawn_result rc=-1 msg=spawn_is_not_supported;_submit_another_job\n"

START_TEST(spawns)
{
    static const char *const bad[] = {
        "mcmd=spawn\nendcmd\n",
        "mcmd=spawn nprocs=1\n",
        "mcmd=spawn\nnprocs=0\n",
        "mcmd=spawn\nnprocs=1\nnprocs=1\n",
        "mcmd=spawn\nexecname=\n",
        "mcmd=spawn\nspawnssofar=2\n",
        "mcmd=spawn\ntotspawns=0\n",
        "mcmd=spawn\nnprocs=4194305\n",
        BLOCK "endcmd \n",
        BLOCK "cmd=spawn\n",
        BLOCK "arg1=a\nendcmd\n",
        BLOCK "arg1=a\nargcnt=2\nendcmd\n",
        BLOCK "arg2=a\n",
        BLOCK "arg01=a\n",
        BLOCK "info_key_0=k\ninfo_num=1\nendcmd\n",
        BLOCK "info_val_0=k\n",
        BLOCK "info_key_1=k\n",
        BLOCK "preput_num=1\nendcmd\n",
        BLOCK "preput_key_0=a b\n",
        BLOCK "color=red\n",
        "mcmd=spawn\nnprocs=1\nexecname=a\ntotspawns=2\nspawnssofar=1\nendcmd\ncmd=get_appnum\n",
        "mcmd=spawn\nnprocs=1\nexecname=a\ntotspawns=2\nspawnssofar=1\nendcmd\n" BLOCK,
        "mcmd=spawn\nnprocs=4194304\nexecname=a\ntotspawns=2\nspawnssofar=1\nendcmd\n" BLOCK,
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        start();
        init_all();
        ck_assert_msg(say(0, bad[i]) == -1, "%zu was taken: %s", i, bad[i]);
        ck_assert_int_eq(errno, EPROTO);
        ck_assert_int_eq(w.errors, 1);
        pmi_server_destroy(w.server);
    }
    start();
    talk(0, BLOCK "endcmd\n",
         "cmd=spawn_result rc=-1 msg=spawn_is_not_possible_before_init_or_after_finalize\n");
    init_all();
    talk(0,
         BLOCK "arg1=x y\narg2=\nargcnt=2\npreput_num=1\npreput_key_0=k\npreput_val_0=v w\n"
               "info_num=2\ninfo_key_0=a\ninfo_val_0=\ninfo_key_1=b\ninfo_val_1=c\nendcmd\n",
         NO_SPAWN);
    talk(0, BLOCK "endcmd\n", NO_SPAWN);
    talk(0, "cmd=spawn\n", NO_SPAWN);
    talk(0, "cmd=get_appnum\n", "cmd=appnum appnum=2\n");
    talk(1, "mcmd=spawn\nnprocs=1\nexecname=a\ntotspawns=2\nspawnssofar=1\nendcmd\n", "");
    talk(1, "cmd=abort exitcode=3\n", "");
    ck_assert_int_eq(w.errors, 0);
    pmi_server_destroy(w.server);
}
END_TEST

START_TEST(spawned)
{
    struct pmi_spawn_request req;
    const struct pmi_spawn_command *c;
    errmsg_t e;

    start();
    init_all();
    w.spawns = 3;
    talk(0,
         "mcmd=spawn\nnprocs=2\nexecname=a\ntotspawns=2\nspawnssofar=1\narg1=x y\narg2=\nargcnt=2\n"
         "preput_num=1\npreput_key_0=k\npreput_val_0=v w\nendcmd\n",
         "");
    talk(0,
         "mcmd=spawn\nnprocs=3\nexecname=b\ntotspawns=2\nspawnssofar=2\n"
         "info_num=2\ninfo_key_0=i\ninfo_val_0=\ninfo_key_1=wdir\ninfo_val_1=/tmp\nendcmd\n",
         "");
    ck_assert_int_eq(pmi_spawn_request_get(w.spawn, w.spawnlen, &req, &e), 0);
    ck_assert_uint_eq(req.ncommands, 2);
    ck_assert_uint_eq(req.nprocs, 5);
    c = req.commands;
    ck_assert_uint_eq(c[0].nprocs, 2);
    ck_assert_uint_eq(c[0].argc, 3);
    ck_assert_mem_eq(c[0].argv, "a\0x y\0", 7);
    ck_assert_ptr_null(pmi_spawn_info(&c[0], "wdir"));
    ck_assert_uint_eq(c[1].nprocs, 3);
    ck_assert_str_eq(c[1].argv, "b");
    ck_assert_str_eq(pmi_spawn_info(&c[1], "i"), "");
    ck_assert_str_eq(pmi_spawn_info(&c[1], "wdir"), "/tmp");
    ck_assert_uint_eq(req.npairs, 1);
    ck_assert_mem_eq(req.pairs, "k\0v w", 6);
    pmi_spawn_request_clear(&req);
    for (size_t n = 0; n < w.spawnlen; n++)
        ck_assert_int_eq(pmi_spawn_request_get(w.spawn, n, &req, &e), -1);
    ck_assert_int_eq(pmi_server_name_done(w.server, 0, 0, NULL, NULL), -1);
    ck_assert_int_eq(pmi_server_spawn_done(w.server, 1, 0, NULL, NULL), -1);
    ck_assert_int_eq(pmi_server_spawn_done(w.server, 0, 0, "kvs_8", NULL), 0);
    ck_assert_str_eq(w.out[0], "cmd=spawn_result rc=0 msg=success jobid=kvs_8\n");
    talk(0, "cmd=get_appnum\n", "cmd=appnum appnum=2\n");
    /* another one, which fails; and one that is answered at once */
    talk(0, BLOCK "endcmd\n", "");
    ck_assert_int_eq(pmi_spawn_request_get(w.spawn, w.spawnlen, &req, &e), 0);
    ck_assert_uint_eq(req.ncommands, 1);
    ck_assert_uint_eq(req.nprocs, 1);
    ck_assert_uint_eq(req.npairs, 0);
    pmi_spawn_request_clear(&req);
    ck_assert_int_eq(pmi_server_spawn_done(w.server, 0, -1, NULL, "no room"), 0);
    ck_assert_str_eq(w.out[0], "cmd=spawn_result rc=-1 msg=no_room\n");
    w.answer_now = true;
    talk(0, BLOCK "endcmd\n", "cmd=spawn_result rc=0 msg=success\n");
    w.answer_now = false;
    /* who has a spawn under way says nothing else */
    w.spawns = 1;
    talk(1, BLOCK "endcmd\n", "");
    expect_lost(1, "cmd=get_appnum\n");
    ck_assert_int_eq(pmi_server_spawn_done(w.server, 1, 0, NULL, NULL), -1);
    free(w.spawn);
    w.spawn = NULL;
    pmi_server_destroy(w.server);
}
END_TEST

START_TEST(lost)
{
    static char big[PMI_WIRE_LINE_MAX + 100];

    start();
    expect_lost(0, "cmd=nonesuch\n");
    ck_assert_ptr_nonnull(strstr(w.text, "rank 4"));
    expect_lost(1, "GET / HTTP/1.0\r\n");
    memset(big, 'x', sizeof(big) - 1);
    expect_lost(2, big);
    pmi_server_destroy(w.server);
    start();
    init_all();
    expect_lost(0, "cmd=get_result rc=0\n");
    expect_lost(1, "mcmd=spawn\nno field\n");
    ck_assert_int_eq(say(3, "x"), -1);
    ck_assert_int_eq(errno, EINVAL);
    pmi_server_destroy(w.server);
    start();
    init_all();
    talk(1, "cmd=barrier_in\n", "");
    expect_lost(1, "cmd=get_appnum\n");
    pmi_server_eof(w.server, 0);
    ck_assert_int_eq(w.errors, 2);
    ck_assert_ptr_nonnull(strstr(w.text, "without a finalize"));
    pmi_server_destroy(w.server);
    start();
    talk(0, "cmd=init pmi_version=1 pmi_subversion=1\n",
         "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    talk(0, "cmd=barrier_in\n", "");
    pmi_server_eof(w.server, 1);
    ck_assert_ptr_nonnull(strstr(w.text, "other tasks wait"));
    pmi_server_destroy(w.server);
}
END_TEST

/* A task that left without a word: nothing, until somebody would wait for it. */
START_TEST(absent)
{
    start();
    pmi_server_eof(w.server, 2);
    talk(0, "cmd=init pmi_version=1 pmi_subversion=1\n",
         "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    ck_assert_int_eq(w.errors, 0);
    talk(0, "cmd=barrier_in\n",
         "cmd=barrier_out rc=-1 msg=a_task_of_this_node_has_exited;_the_barrier_cannot_complete\n");
    ck_assert_int_eq(w.errors, 1);
    ck_assert_ptr_nonnull(strstr(w.text, "exited before init"));
    pmi_server_destroy(w.server);
}
END_TEST

START_TEST(aborts)
{
    start();
    init_all();
    ck_assert_int_eq(say(0, "cmd=abort exitcode=42 error_msg=out of cheese\ncmd=get_appnum\n"), 0);
    ck_assert_int_eq(w.aborted, 42);
    ck_assert_str_eq(w.text, "out of cheese");
    talk(1, "cmd=barrier_in\n",
         "cmd=barrier_out rc=-1 msg=a_task_of_this_node_has_exited;_the_barrier_cannot_complete\n");
    pmi_server_eof(w.server, 0);
    ck_assert_int_eq(w.errors, 0);
    w.broken = true;
    ck_assert_int_eq(say(2, "cmd=get_appnum\n"), 0);
    w.sends = 0;
    ck_assert_int_eq(say(2, "cmd=get_appnum\n"), 0);
    ck_assert_int_eq(w.sends, 0);
    pmi_server_destroy(w.server);
}
END_TEST

START_TEST(barrier_fails)
{
    start();
    init_all();
    for (int i = 0; i < NTASKS; i++)
        talk(i, "cmd=barrier_in\n", "");
    ck_assert_int_eq(pmi_server_barrier_done(w.server, -1, "node 3 is down"), 0);
    ck_assert_str_eq(w.out[1], "cmd=barrier_out rc=-1 msg=node_3_is_down\n");
    pmi_server_destroy(w.server);
}
END_TEST

START_TEST(names)
{
    start();
    init_all();
    talk(0, "cmd=publish_name service=sv port=tag#0$host x\n", "");
    ck_assert_str_eq(w.name, "sv=tag#0$host x");
    ck_assert_int_eq(pmi_server_name_done(w.server, 1, 0, NULL, NULL), -1);
    ck_assert_int_eq(pmi_server_name_done(w.server, 0, 0, NULL, NULL), 0);
    ck_assert_str_eq(w.out[0], "cmd=publish_result info=ok rc=0 msg=success\n");
    talk(1, "cmd=lookup_name service=sv\n", "");
    ck_assert_int_eq(pmi_server_name_done(w.server, 1, -1, NULL, "no such service"), 0);
    ck_assert_str_eq(w.out[1], "cmd=lookup_result info=failed rc=-1 msg=no_such_service\n");
    w.answer_now = true;
    talk(1, "cmd=lookup_name service=sv\ncmd=get_appnum\n",
         "cmd=lookup_result info=ok rc=0 msg=success port=tag#0 host\ncmd=appnum appnum=2\n");
    talk(1, "cmd=publish_name service=sv\n",
         "cmd=publish_result info=failed rc=-1 msg=service_or_port_is_missing_or_too_long\n");
    w.answer_now = false;
    talk(2, "cmd=lookup_name service=sv\n", "");
    expect_lost(2, "cmd=get_appnum\n");
    pmi_server_destroy(w.server);
}
END_TEST

START_TEST(long_ports)
{
    char line[1200], port[1026];

    start();
    init_all();
    memset(port, 'p', 1025);
    port[1025] = '\0';
    snprintf(line, sizeof(line), "cmd=publish_name service=sv port=%s\n", port);
    talk(0, line,
         "cmd=publish_result info=failed rc=-1 msg=service_or_port_is_missing_or_too_long\n");
    port[1024] = '\0';
    snprintf(line, sizeof(line), "cmd=publish_name service=sv port=%s\n", port);
    talk(0, line, "");
    ck_assert_uint_eq(strlen(w.name), 3 + 1024);
    ck_assert_int_eq(pmi_server_name_done(w.server, 0, 0, NULL, NULL), 0);
    talk(1, "cmd=lookup_name service=sv\n", "");
    ck_assert_int_eq(pmi_server_name_done(w.server, 1, 0, port, NULL), 0);
    ck_assert_ptr_nonnull(strstr(w.out[1], port));
    pmi_server_destroy(w.server);
}
END_TEST

START_TEST(batch_full)
{
    static const uint32_t ranks[1] = {0};
    struct pmi_server_params p = {
        .kvsname = "k", .size = 1, .nlocal = 1, .ranks = ranks, .batch_max = 64};

    free(w.spawn);
    memset(&w, 0, sizeof(w));
    w.server = pmi_server_create(&all_ops, &w, &p, NULL);
    talk(0, "cmd=init pmi_version=1 pmi_subversion=1\n",
         "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    talk(0, "cmd=put kvsname=k key=a value=0123456789\n", "cmd=put_result rc=0 msg=success\n");
    talk(0, "cmd=put kvsname=k key=b value=0123456789012345678901234567890123456789\n",
         "cmd=put_result rc=-1 "
         "msg=the_tasks_of_this_node_put_too_much_data_between_two_barriers;_put_less,"
         "_or_enter_a_barrier\n");
    talk(0, "cmd=barrier_in\n", "");
    ck_assert_uint_le(w.bloblen, 64);
    ck_assert_int_eq(pmi_server_barrier_done(w.server, 0, NULL), 0);
    /* A new batch. */
    talk(0, "cmd=put kvsname=k key=b value=0123456789\n", "cmd=put_result rc=0 msg=success\n");
    pmi_server_destroy(w.server);
}
END_TEST

START_TEST(params)
{
    static const uint32_t ranks[1] = {0};
    struct pmi_server_params p = {.kvsname = "k", .size = 1, .nlocal = 1, .ranks = ranks};
    struct pmi_server_params q = p;
    errmsg_t e;

    q.kvsname = "a b";
    ck_assert_ptr_null(pmi_server_create(&all_ops, NULL, &q, &e));
    ck_assert_int_eq(errno, EINVAL);
    q = p;
    q.nlocal = 2;
    ck_assert_ptr_null(pmi_server_create(&all_ops, NULL, &q, &e));
    q = p;
    q.ranks = (uint32_t[]){1};
    ck_assert_ptr_null(pmi_server_create(&all_ops, NULL, &q, &e));
    q = p;
    q.wide_value_max = PMI_WIRE_LINE_MAX;
    ck_assert_ptr_null(pmi_server_create(&all_ops, NULL, &q, NULL));
}
END_TEST

int main(void)
{
    RUN_SUITE("pmi_server", programs, dialog, chunks, port_dialog, refused, spawns, spawned, lost,
              absent, aborts, barrier_fails, names, long_ports, batch_full, params);
}
