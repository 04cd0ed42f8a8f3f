/* The pure parts of wrexec: frames, records, requests, layout, results. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "libutil/test/suite.h"
#include "libexec/exec_layout.h"
#include "libexec/wrexec_wire.h"
#include "libexec/exec_result.h"
#include "libexec/exec_spec.h"
#include "libexec/exec_wire.h"

/* Every task is on exactly one node, found from both sides; counts are what was asked for. */
static void layout_holds(enum exec_layout_kind kind, const struct layout_run *runs, size_t n)
{
    layout_t *l = exec_layout_create(kind, runs, n, NULL);
    uint32_t local, next = 0, node = 0, most = 0;
    char *seen;

    ck_assert_ptr_nonnull(l);
    seen = calloc(exec_layout_ntasks(l), 1);
    for (size_t r = 0; r < n; r++) {
        for (uint32_t k = 0; k < runs[r].nodes; k++, node++) {
            ck_assert_uint_eq(exec_layout_count(l, node), runs[r].each);
            for (uint32_t i = 0; i < runs[r].each; i++) {
                uint32_t task = exec_layout_task(l, node, i);

                ck_assert_uint_lt(task, exec_layout_ntasks(l));
                ck_assert_int_eq(seen[task]++, 0);
                ck_assert_uint_eq(exec_layout_node(l, task, &local), node);
                ck_assert_uint_eq(local, i);
                if (kind == LAYOUT_BLOCK)
                    ck_assert_uint_eq(task, next++);
            }
            if (runs[r].each > most)
                most = runs[r].each;
        }
    }
    ck_assert_uint_eq(node, exec_layout_nnodes(l));
    /* Dealt out: task by task the node grows, or a new round begins. */
    for (uint32_t t = 1, last = exec_layout_node(l, 0, NULL);
         kind == LAYOUT_CYCLIC && t < exec_layout_ntasks(l); t++) {
        uint32_t now = exec_layout_node(l, t, &local);

        if (now <= last)
            ck_assert_uint_gt(local, 0);
        last = now;
    }
    free(seen);
    exec_layout_destroy(l);
}

START_TEST(layouts)
{
    static const struct layout_run even[] = {{4, 3}}, one[] = {{1, 1}},
                                   mixed[] = {{2, 3}, {3, 1}, {1, 5}},
                                   equal[] = {{2, 2}, {3, 2}, {1, 1}}, falling[] = {{1, 9}, {7, 2}};
    static const struct layout_run bad[] = {{0, 1}, {1, 0}, {1u << 20, 1u << 20}};
    errmsg_t err;

    for (int k = 0; k < 2; k++) {
        enum exec_layout_kind kind = k ? LAYOUT_CYCLIC : LAYOUT_BLOCK;

        layout_holds(kind, even, 1);
        layout_holds(kind, one, 1);
        layout_holds(kind, mixed, 3);
        layout_holds(kind, equal, 3);
        layout_holds(kind, falling, 2);
        for (uint32_t i = 1; i < 40; i++) {
            struct layout_run runs[3] = {{i % 5 + 1, i % 7 + 1}, {i % 3 + 1, i % 4 + 1}, {1, i}};

            layout_holds(kind, runs, 3);
        }
        ck_assert_ptr_null(exec_layout_create(kind, even, 0, &err));
        for (int i = 0; i < 3; i++)
            ck_assert_ptr_null(exec_layout_create(kind, &bad[i], 1, &err));
    }
    exec_layout_destroy(NULL);
}
END_TEST

START_TEST(frames)
{
    uint8_t buf[64];
    struct wire_frame f;
    errmsg_t err;
    int32_t signum = 15;

    exec_wire_header(buf, WIRE_SIGNAL, 0x123456789abcull, 4);
    memcpy(buf + WIRE_HEADER, &signum, 4);
    for (size_t n = 0; n < WIRE_HEADER + 4; n++)
        ck_assert_int_eq(exec_wire_parse(buf, n, &f, &err), 0);
    ck_assert_int_eq(exec_wire_parse(buf, sizeof(buf), &f, &err), WIRE_HEADER + 4);
    ck_assert_int_eq(f.type, WIRE_SIGNAL);
    ck_assert_uint_eq(f.job, 0x123456789abcull);
    ck_assert_int_eq(exec_wire_i32(f.payload), 15);
    exec_wire_header(buf, WIRE_KILL, 1, 0);
    ck_assert_int_eq(exec_wire_parse(buf, WIRE_HEADER, &f, &err), WIRE_HEADER);
}
END_TEST

START_TEST(bad_frames)
{
    static const struct {
        unsigned type;
        uint32_t len;
    } bad[] = {{0, 0},           {7, 0},           {15, 0},        {31, 0},       {65535, 0},
               {WIRE_SIGNAL, 5}, {WIRE_SIGNAL, 0}, {WIRE_KILL, 1}, {WIRE_RUN, 8}, {WIRE_OUTPUT, 5}};
    uint8_t buf[64] = {0};
    struct wire_frame f;
    errmsg_t err;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        exec_wire_header(buf, (enum wire_type)bad[i].type, 7, bad[i].len);
        ck_assert_int_eq(exec_wire_parse(buf, sizeof(buf), &f, &err),
                         WIRE_HEADER + (ptrdiff_t)bad[i].len);
        ck_assert_int_eq(f.type, WIRE_BAD);
        ck_assert_uint_eq(f.said, bad[i].type);
        ck_assert_uint_eq(f.job, 7);
        ck_assert_uint_gt(strlen(err.text), 0);
    }
    /* The whole of it can be skipped once it is there. */
    exec_wire_header(buf, WIRE_STDIN, 1, WIRE_STDIN_WINDOW + 5);
    ck_assert_int_eq(exec_wire_parse(buf, sizeof(buf), &f, &err), 0);
    exec_wire_header(buf, WIRE_OUTPUT, 1, WIRE_PAYLOAD_MAX + 1);
    errno = 0;
    ck_assert_int_eq(exec_wire_parse(buf, sizeof(buf), &f, &err), -1);
    ck_assert_int_eq(errno, EPROTO);
    exec_wire_header(buf, WIRE_KILL, 1, 0);
    buf[6] ^= 1;
    ck_assert_int_eq(exec_wire_parse(buf, sizeof(buf), &f, &err), -1);
}
END_TEST

START_TEST(records)
{
    uint8_t buf[64];
    const void *p = buf;
    size_t left = 2 * WIRE_RECORD + 5;
    struct wire_record r;

    exec_wire_record_header(buf, 7, 1, 5);
    memcpy(buf + WIRE_RECORD, "hello", 5);
    exec_wire_record_header(buf + WIRE_RECORD + 5, 8, 2, 0);
    ck_assert_int_eq(exec_wire_record_next(&p, &left, &r), 1);
    ck_assert_uint_eq(r.task, 7);
    ck_assert_uint_eq(r.stream, 1);
    ck_assert_mem_eq(r.data, "hello", 5);
    ck_assert_int_eq(exec_wire_record_next(&p, &left, &r), 1);
    ck_assert_uint_eq(r.task, 8);
    ck_assert_uint_eq(r.len, 0);
    ck_assert_int_eq(exec_wire_record_next(&p, &left, &r), 0);

    for (size_t cut = 1; cut < WIRE_RECORD + 5; cut++) {
        p = buf;
        left = cut;
        ck_assert_int_eq(exec_wire_record_next(&p, &left, &r), -1);
    }
    exec_wire_record_header(buf, 7, 3, 0);
    p = buf;
    left = WIRE_RECORD;
    ck_assert_int_eq(exec_wire_record_next(&p, &left, &r), -1);
}
END_TEST

/* name, node, cores, gpus, hosts; cwd, in, out, err; a file; argv; environment */
static const char strings[] = "job\0n3\0"
                              "0-3\0\0\0"
                              "/tmp\0\0\0\0"
                              "f\0text\0"
                              "prog\0arg\0"
                              "A=1";

START_TEST(run_payload)
{
    static const struct layout_run runs[2] = {{2, 3}, {2, 1}};
    struct wire_run run = {.flags = WIRE_F_STDIN_ALL,
                           .node = 3,
                           .window = 1000,
                           .argc = 2,
                           .envc = 1,
                           .nfiles = 1,
                           .nruns = 2,
                           .nlimits = 1,
                           .memory = 77,
                           .expiration = 88,
                           .grace = 99,
                           .nonce = UINT64_MAX,
                           .mask = 0027 + 1};
    struct wire_limit limit = {7, 0, 1024};
    uint8_t buf[WIRE_RUN_FIXED + sizeof(runs) + sizeof(limit) + sizeof(strings)];
    struct wire_run got;
    layout_t *l;
    errmsg_t err;

    exec_wire_run_put(buf, &run);
    memcpy(buf + WIRE_RUN_FIXED, runs, sizeof(runs));
    memcpy(buf + WIRE_RUN_FIXED + sizeof(runs), &limit, sizeof(limit));
    memcpy(buf + WIRE_RUN_FIXED + sizeof(runs) + sizeof(limit), strings, sizeof(strings));
    ck_assert_int_eq(exec_wire_run_get(buf, sizeof(buf), &got, &err), 0);
    ck_assert_uint_eq(got.ntasks, 8);
    ck_assert_uint_eq(got.nnodes, 4);
    ck_assert_uint_eq(got.node, 3);
    ck_assert_uint_eq(got.memory, 77);
    ck_assert_uint_eq(got.expiration, 88);
    ck_assert_uint_eq(got.grace, 99);
    ck_assert_uint_eq(got.nonce, UINT64_MAX);
    ck_assert_uint_eq(got.mask, 0027 + 1);
    ck_assert_str_eq(got.strings, "job");
    l = exec_wire_run_layout(&got, &err);
    ck_assert_uint_eq(exec_layout_count(l, 1), 3);
    ck_assert_uint_eq(exec_layout_count(l, 3), 1);
    exec_layout_destroy(l);
    for (size_t n = 0; n < sizeof(buf); n++)
        ck_assert_int_eq(exec_wire_run_get(buf, n, &got, &err), -1);
    run.node = 4;
    exec_wire_run_put(buf, &run);
    ck_assert_int_eq(exec_wire_run_get(buf, sizeof(buf), &got, &err), -1);
    run.node = 0;
    run.argc = 3;
    exec_wire_run_put(buf, &run);
    ck_assert_int_eq(exec_wire_run_get(buf, sizeof(buf), &got, &err), -1);
    run.argc = 2;
    run.nfiles = UINT32_MAX;
    exec_wire_run_put(buf, &run);
    ck_assert_int_eq(exec_wire_run_get(buf, sizeof(buf), &got, &err), -1);
    run.nfiles = 1;
    run.flags = WIRE_FLAGS_ALL + 1;
    exec_wire_run_put(buf, &run);
    ck_assert_int_eq(exec_wire_run_get(buf, sizeof(buf), &got, &err), -1);
}
END_TEST

/* Spawned tasks: their commands have all tasks and all words. */
START_TEST(wire_commands)
{
    static const char strings[] = "job\0\0\0\0\0" /* about the node */
                                  "/\0\0\0\0"     /* fixed */
                                  "key\0value\0"
                                  "\0\0a\0b\0" /* two commands */
                                  "/tmp\0/bin\0c";
    struct layout_run runs[] = {{1, 3}};
    struct wire_command commands[] = {{1, 4, 0}, {2, 3, 0}};
    struct wire_run got, run = {.window = 1000,
                                .argc = 7,
                                .nfiles = 1,
                                .nruns = 1,
                                .ncommands = 2,
                                .first = 5,
                                .universe = 9,
                                .parent = 17};
    uint8_t buf[WIRE_RUN_FIXED + sizeof(runs) + sizeof(commands) + sizeof(strings)];
    uint8_t *at = buf + WIRE_RUN_FIXED + sizeof(runs);
    errmsg_t err;

    exec_wire_run_put(buf, &run);
    memcpy(buf + WIRE_RUN_FIXED, runs, sizeof(runs));
    memcpy(at, commands, sizeof(commands));
    memcpy(at + sizeof(commands), strings, sizeof(strings));
    ck_assert_int_eq(exec_wire_run_get(buf, sizeof(buf), &got, &err), 0);
    ck_assert_uint_eq(got.first, 5);
    ck_assert_uint_eq(got.universe, 9);
    ck_assert_uint_eq(got.parent, 17);
    ck_assert_mem_eq(got.commands, commands, sizeof(commands));
    ck_assert_str_eq(got.strings, "job");
    commands[1].ntasks = 1;
    memcpy(at, commands, sizeof(commands));
    ck_assert_int_eq(exec_wire_run_get(buf, sizeof(buf), &got, &err), -1);
    commands[1].ntasks = 2;
    commands[1].argc = 2;
    memcpy(at, commands, sizeof(commands));
    ck_assert_int_eq(exec_wire_run_get(buf, sizeof(buf), &got, &err), -1);
    commands[1].argc = 4;
    memcpy(at, commands, sizeof(commands));
    ck_assert_int_eq(exec_wire_run_get(buf, sizeof(buf), &got, &err), -1);
    commands[1].argc = 3;
    memcpy(at, commands, sizeof(commands));
    run.parent = 0; /* only they begin later */
    exec_wire_run_put(buf, &run);
    ck_assert_int_eq(exec_wire_run_get(buf, sizeof(buf), &got, &err), -1);
}
END_TEST

/* name, node, cores, gpus, hosts; cwd, in, out, err; two commands; environment */
static const char words[] = "job\0n0\0\0\0\0"
                            "/tmp\0\0\0\0"
                            "\0\0prog\0arg\0"
                            "/dir\0\0other\0B=2\0C\0"
                            "A=1";

START_TEST(run_commands)
{
    static const struct layout_run layout = {2, 2};
    struct wire_command commands[2] = {{1, 4, 0}, {3, 3, 2}};
    struct wire_run run = {.argc = 9, .envc = 1, .nruns = 1, .ncommands = 2}, got;
    uint8_t buf[WIRE_RUN_FIXED + sizeof(layout) + sizeof(commands) + sizeof(words)];
    errmsg_t err;

    exec_wire_run_put(buf, &run);
    memcpy(buf + WIRE_RUN_FIXED, &layout, sizeof(layout));
    memcpy(buf + WIRE_RUN_FIXED + sizeof(layout) + sizeof(commands), words, sizeof(words));
    for (int wrong = 0; wrong < 6; wrong++) {
        struct wire_command *at =
            memcpy(buf + WIRE_RUN_FIXED + sizeof(layout), commands, sizeof(commands));
        struct wire_command c[2] = {commands[0], commands[1]};

        c[0].ntasks -= (wrong == 1);
        c[1].ntasks += (wrong == 2);
        c[0].argc++, c[1].argc -= 1 + (wrong == 3);
        c[1].envc += (wrong == 4);
        if (wrong == 5) /* no word for a program */
            c[0].argc = 5, c[1].argc = 2;
        memcpy(at, c, sizeof(c));
        if (wrong == 0)
            memcpy(at, commands, sizeof(commands));
        ck_assert_int_eq(exec_wire_run_get(buf, sizeof(buf), &got, &err), wrong ? -1 : 0);
    }
    memcpy(buf + WIRE_RUN_FIXED + sizeof(layout), commands, sizeof(commands));
    ck_assert_int_eq(exec_wire_run_get(buf, sizeof(buf), &got, &err), 0);
    ck_assert_uint_eq(got.ncommands, 2);
    ck_assert_mem_eq(got.commands, commands, sizeof(commands));
    ck_assert_str_eq(got.strings, "job");
    for (size_t n = 0; n < sizeof(buf); n++)
        ck_assert_int_eq(exec_wire_run_get(buf, n, &got, &err), -1);
    run.ncommands = WIRE_COMMANDS_MAX + 1;
    exec_wire_run_put(buf, &run);
    ck_assert_int_eq(exec_wire_run_get(buf, sizeof(buf), &got, &err), -1);
}
END_TEST

START_TEST(job_requests)
{
    const char *fixed[WIRE_STRINGS] = {"/home", NULL, "out", NULL};
    char *argv[] = {(char *)"a", (char *)"\xff\x01", (char *)"", NULL};
    char *envp[] = {(char *)"X=1", NULL};
    struct jobreq req = {.json = "{}", .json_len = 2}, got;
    char *mem = wrexec_jobreq_strings(fixed, argv, envp, &req);
    errmsg_t err;
    size_t len;
    void *data = wrexec_jobreq_encode(&req, &len);

    ck_assert_ptr_nonnull(mem);
    ck_assert_ptr_nonnull(data);
    ck_assert_int_eq(wrexec_jobreq_decode(data, len, &got, &err), 0);
    ck_assert_uint_eq(got.argc, 3);
    ck_assert_uint_eq(got.envc, 1);
    ck_assert_mem_eq(got.json, "{}", 2);
    ck_assert_str_eq(wrexec_jobreq_string(&got, WIRE_S_CWD), "/home");
    ck_assert_str_eq(wrexec_jobreq_string(&got, WIRE_S_IN), "");
    ck_assert_str_eq(wrexec_jobreq_string(&got, WIRE_S_OUT), "out");
    ck_assert_str_eq(wrexec_jobreq_string(&got, WIRE_STRINGS + 1), "\xff\x01");
    ck_assert_str_eq(wrexec_jobreq_string(&got, WIRE_STRINGS + 3), "X=1");
    for (size_t n = 0; n < len; n++)
        ck_assert_int_eq(wrexec_jobreq_decode(data, n, &got, &err), -1);
    ck_assert_int_eq(wrexec_jobreq_decode(NULL, 0, &got, &err), -1);
    free(data);
    /* A raw request is not counted before it gets here. */
    req.json_len = (1 << 20) + 1;
    req.json = calloc(1, req.json_len);
    ck_assert_ptr_nonnull(req.json);
    data = wrexec_jobreq_encode(&req, &len);
    ck_assert_ptr_nonnull(data);
    ck_assert_int_eq(wrexec_jobreq_decode(data, len, &got, &err), -1);
    ck_assert_int_eq(errno, EMSGSIZE);
    free(data);
    req.json_len--;
    data = wrexec_jobreq_encode(&req, &len);
    ck_assert_ptr_nonnull(data);
    ck_assert_int_eq(wrexec_jobreq_decode(data, len, &got, &err), 0);
    free(data);
    free((char *)req.json);
    free(mem);
}
END_TEST

START_TEST(launches)
{
    char *argv[] = {(char *)"a", (char *)"b c", NULL};
    static const char *const files[] = {"script", "#!/bin/sh\n"};
    static const char env[] = "X=1\0Y=2", other[] = "Z=3";
    json_t *nodes = json_loads("[[\"0-1\",2,\"0-1\",\"\",0]]", 0, NULL);
    struct wrexec_launch wl = {.id = 5, .nodes = nodes, .grace = 1.5};
    struct launchreq req = {.launch = &wl, .argv = argv, .env = env, .envlen = sizeof(env)};
    launchbuf_t *b = exec_launchbuf_create();
    struct launchrec rec, alone;
    size_t len, pos = 0;
    errmsg_t err;
    char *data;

    ck_assert_ptr_null(exec_launchbuf_take(b, &len));
    ck_assert_int_eq(exec_launchbuf_add(b, &req), 0);
    wl.id = 6;
    req.files = files;
    req.nfiles = 1;
    req.fixed[WIRE_S_CWD] = "/home";
    ck_assert_int_eq(exec_launchbuf_add(b, &req), 0);
    req.env = other;
    req.envlen = sizeof(other);
    ck_assert_int_eq(exec_launchbuf_add(b, &req), 0);
    req.envlen = 2;
    ck_assert_int_eq(exec_launchbuf_add(b, &req), -1);
    ck_assert_uint_eq(exec_launchbuf_count(b), 3);
    data = exec_launchbuf_take(b, &len);
    ck_assert_ptr_nonnull(data);
    ck_assert_uint_eq(exec_launchbuf_count(b), 0);

    ck_assert_int_eq(exec_launchrec_next(data, len, &pos, &rec, &err), 1);
    ck_assert_uint_eq(rec.argc, 2);
    ck_assert_uint_eq(rec.envc, 2);
    ck_assert_uint_eq(rec.nfiles, 0);
    ck_assert_int_eq(exec_launchrec_next(data, len, &pos, &rec, &err), 1);
    ck_assert_uint_eq(rec.env_len, sizeof(env));
    ck_assert_uint_eq(rec.nfiles, 1);
    ck_assert_str_eq(rec.strings, "/home");
    {
        /* Alone it carries its environment. */
        size_t n = LAUNCHREC_HEAD + rec.json_len + rec.strings_len + rec.env_len;
        char *one = malloc(n);

        exec_launchrec_head(one, &rec);
        memcpy(one + LAUNCHREC_HEAD, rec.json, rec.json_len);
        memcpy(one + LAUNCHREC_HEAD + rec.json_len, rec.strings, rec.strings_len);
        memcpy(one + n - rec.env_len, rec.env, rec.env_len);
        ck_assert_int_eq(exec_launchrec_get(one, n, &alone, &err), 0);
        ck_assert_str_eq(alone.env, "X=1");
        for (size_t cut = 0; cut < n; cut++)
            ck_assert_int_eq(exec_launchrec_get(one, cut, &alone, &err), -1);
        free(one);
    }
    ck_assert_int_eq(exec_launchrec_next(data, len, &pos, &rec, &err), 1);
    ck_assert_str_eq(rec.env, "Z=3");
    ck_assert_int_eq(exec_launchrec_next(data, len, &pos, &rec, &err), 0);
    for (size_t cut = 0; cut < len; cut++) {
        int rc;

        pos = 0;
        while ((rc = exec_launchrec_next(data, cut, &pos, &rec, &err)) == 1)
            ;
        if (rc == 0)
            ck_assert_uint_lt(pos, len);
    }
    free(data);
    exec_launchbuf_destroy(b);
    exec_launchbuf_destroy(NULL);
    json_decref(nodes);
}
END_TEST

static struct spec *read_spec(const char *json, errmsg_t *err)
{
    uint64_t id;

    return exec_spec_create(json, strlen(json), 16, &id, err);
}

START_TEST(specs)
{
    static const char *const bad[] = {
        "{}",
        "{\"id\":0,\"nodes\":[[\"0\",1,\"\",\"\",0]]}",
        "{\"id\":1,\"nodes\":[]}",
        "{\"id\":1,\"nodes\":[[\"0\",0,\"\",\"\",0]]}",
        "{\"id\":1,\"nodes\":[[\"0\",1,\"\",\"\"]]}",
        "{\"id\":1,\"nodes\":[[\"\",1,\"\",\"\",0]]}",
        "{\"id\":1,\"nodes\":[[\"x\",1,\"\",\"\",0]]}",
        "{\"id\":1,\"nodes\":[[\"16\",1,\"\",\"\",0]]}",
        "{\"id\":1,\"nodes\":[[\"0-1\",1,\"\",\"\",0],[\"1\",2,\"\",\"\",0]]}",
        "{\"id\":1,\"nodes\":[[\"0\",1,\"\",\"\",-1]]}",
        "{\"id\":1,\"nodes\":[[\"0\",1,\"\",\"\",0]],\"layout\":\"odd\"}",
        "{\"id\":1,\"nodes\":[[\"0\",1,\"\",\"\",0]],\"output\":\"odd\"}",
        "{\"id\":1,\"nodes\":[[\"0\",1,\"\",\"\",0]],\"mpi\":\"odd\"}",
        "{\"id\":1,\"nodes\":[[\"0\",1,\"\",\"\",0]],\"affinity\":\"odd\"}",
        "{\"id\":1,\"nodes\":[[\"0\",1,\"\",\"\",0]],\"rlimits\":{\"odd\":1}}",
        "{\"id\":1,\"nodes\":[[\"0\",1,\"\",\"\",0]],\"rlimits\":{\"cpu\":-2}}",
        "{\"id\":1,\"nodes\":[[\"0\",1,\"\",\"\",0]],\"grace\":-1}",
        "{\"id\":1,\"nodes\":[[\"0\",1,\"\",\"\",0]],\"odd\":1}",
        "{\"id\":1,\"nodes\":[[\"0\",2,\"\",\"\",0]],\"commands\":[[1,3,0]]}",
        "{\"id\":1,\"nodes\":[[\"0\",2,\"\",\"\",0]],\"commands\":[[2,2,0]]}",
        "{\"id\":1,\"nodes\":[[\"0\",2,\"\",\"\",0]],\"commands\":[[2,3]]}",
        "{\"id\":1,\"nodes\":[[\"0\",2,\"\",\"\",0]],\"commands\":[[2,3,0],[0,3,0]]}",
        "{\"id\":1,\"nodes\":[[\"0\",2,\"\",\"\",0]],\"commands\":[[2,4294967296,0]]}",
    };
    struct exec_spec_node n;
    struct spec *s;
    errmsg_t err;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        ck_assert_msg(!read_spec(bad[i], &err), "%s", bad[i]);
        ck_assert_uint_gt(strlen(err.text), 0);
    }
    /* Groups that interleave: nodes are numbered by rank. */
    s = read_spec("{\"id\":9,\"nodes\":[[\"1,4\",2,\"0-1\",\"0\",100],[\"2-3\",1,\"5\",\"\",0]],"
                  "\"names\":\"n[10-13]\",\"layout\":\"cyclic\",\"input\":\"all\","
                  "\"output\":\"client\",\"rlimits\":{\"core\":-1,\"nofile\":99}}",
                  &err);
    ck_assert_msg(s != NULL, "%s", err.text);
    ck_assert_uint_eq(exec_layout_ntasks(s->layout), 6);
    ck_assert_uint_eq(exec_layout_count(s->layout, 0), 2);
    ck_assert_uint_eq(exec_layout_count(s->layout, 1), 1);
    ck_assert_uint_eq(exec_layout_count(s->layout, 3), 2);
    ck_assert_uint_eq(s->nlimits, 2);
    ck_assert_uint_eq(s->flags, WIRE_F_CYCLIC | WIRE_F_STDIN_ALL | WIRE_F_MPI_BOTH);
    exec_spec_node(s, 3, &n);
    ck_assert_uint_eq(n.node, 2);
    ck_assert_str_eq(n.cores, "5");
    ck_assert_str_eq(n.name, "n12");
    exec_spec_node(s, 4, &n);
    ck_assert_uint_eq(n.node, 3);
    ck_assert_uint_eq(n.memory, 100);
    ck_assert_str_eq(n.gpus, "0");
    exec_spec_destroy(s);
    exec_spec_destroy(NULL);
}
END_TEST

START_TEST(results_merge)
{
    struct result *a = exec_result_create(), *b = exec_result_create();
    errmsg_t err;
    json_t *json;
    size_t len;
    char *text;
    uint8_t *packed;

    ck_assert_int_eq(exec_result_worst(a), 0);
    exec_result_add(a, 0, 0, 7);
    exec_result_add(a, 3 << 8, 8, 8);
    exec_result_add(b, 0, 10, 15);
    exec_result_add(b, SIGSEGV, 9, 9);
    exec_result_add_times(a, &(struct wire_times){100, 900});
    exec_result_add_times(b, &(struct wire_times){200, 800});
    packed = exec_result_pack(b, &len);
    ck_assert_int_eq(exec_result_unpack(a, packed, len, &err), 0);
    json = exec_result_to_json(a);
    text = json_dumps(json, JSON_COMPACT);
    ck_assert_str_eq(text, "[[0,\"0-7,10-15\"],[11,\"9\"],[768,\"8\"]]");
    ck_assert_int_eq(exec_result_worst(a), 128 + SIGSEGV);
    free(text);
    json_decref(json);
    ck_assert_uint_eq(exec_result_times(a).started, 200);
    ck_assert_uint_eq(exec_result_times(a).exited, 900);
    for (size_t cut = 0; cut < len; cut++)
        if (cut != WIRE_TIMES && cut != WIRE_TIMES + 8 + 5)
            ck_assert_int_eq(exec_result_unpack(a, packed, cut, &err), -1);
    packed[WIRE_TIMES + 8] = 'x';
    ck_assert_int_eq(exec_result_unpack(a, packed, len, &err), -1);
    packed[WIRE_TIMES + 8] = '\0';
    ck_assert_int_eq(exec_result_unpack(a, packed, len, &err), -1);
    /* Times: an end before the start, only one of both; none is all right. */
    exec_wire_times_put(packed, &(struct wire_times){5, 4});
    ck_assert_int_eq(exec_result_unpack(a, packed, WIRE_TIMES, &err), -1);
    exec_wire_times_put(packed, &(struct wire_times){0, 4});
    ck_assert_int_eq(exec_result_unpack(a, packed, WIRE_TIMES, &err), -1);
    exec_wire_times_put(packed, &(struct wire_times){5, 0});
    ck_assert_int_eq(exec_result_unpack(a, packed, WIRE_TIMES, &err), -1);
    exec_wire_times_put(packed, &(struct wire_times){0, 0});
    ck_assert_int_eq(exec_result_unpack(a, packed, WIRE_TIMES, &err), 0);
    ck_assert_uint_eq(exec_result_times(a).exited, 900);
    free(packed);
    exec_result_destroy(a);
    exec_result_destroy(b);
    exec_result_destroy(NULL);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("wrexec");

    tcase_add_test(tc, layouts);
    tcase_add_test(tc, frames);
    tcase_add_test(tc, bad_frames);
    tcase_add_test(tc, records);
    tcase_add_test(tc, run_payload);
    tcase_add_test(tc, wire_commands);
    tcase_add_test(tc, run_commands);
    tcase_add_test(tc, job_requests);
    tcase_add_test(tc, launches);
    tcase_add_test(tc, specs);
    tcase_add_test(tc, results_merge);
    return run_case("wrexec", tc);
}
