/* The module wrexec on a handle of the test: requests to it, the requests that it sends to other
 * services, and its messages to its only child (rank 1), which answers when the test lets it. */
#ifndef WREXEC_TEST_BED_H
#define WREXEC_TEST_BED_H

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/uio.h>
#include "libflux/module.h"
#include "libflux/slice.h"
#include "libflux/test/fake.h"
#include "libflux/test/still.h"
#include "libutil/le.h"
#include "libutil/test/suite.h"
#include "libexec/wrexec_wire.h"

extern const struct flux_module flux_module_wrexec;

#define ASKED_MAX 64

struct bed {
    struct fake f;
    void *ctx;
    flux_watcher_t *stop;
    flux_msg_t *asked[ASKED_MAX]; /* requests of the module that are not answered yet */
    size_t nasked;
    flux_msg_t *tree; /* the request whose stream of responses comes from the child */
    flux_msg_t *down; /* request to the child that is not answered yet */
    bool opened;      /* the stream was answered */
    int full;         /* number of requests that find the child's mailbox full */
    int ntree, ndown;
    bool stands; /* its clock is `still` */
    struct still still;
    char frames[8192]; /* types of frames for the child, "LAUNCH KILL " */
    char told[4096];   /* ends reported to the job module */
    size_t raised;     /* messages about jobs to the job module */
    size_t output;     /* bytes of output to the client that listens ... */
    char first[64];    /* ... and the first one of each record */
    size_t notices;
    size_t refused;   /* EAGAIN responses to requests about names */
    size_t responses; /* responses to wrexec.launch and wrexec.kill */
    size_t named;     /* responses to wrexec.name */
    size_t ends;      /* responses to wrexec.end */
    int errnum;     /* error of the last response to wrexec.signal, .run, .remains, .end or .down */
    char last[512]; /* JSON of the last response to these, and to wrexec.listen */
    bool mute;      /* the instance has handed over */
    uint32_t size;
    uint32_t rank;
    char env[64];            /* environment of the last LAUNCH */
    char hosts[64];          /* wrexec_launch.hosts of the last LAUNCH that has it */
    const char *const *mark; /* answers to wrexec.host, by rank; NULL: an error */
    uint32_t round[16];      /* of the last LAUNCH or AGAIN, by job */
    unsigned over;           /* number of frames OVER */
    uint64_t acked;          /* number in the last ACK */
    char ranks[64];          /* of the last LAUNCH */
};

static inline const char *frame_name(enum wire_type type)
{
    switch (type) {
    case WIRE_LAUNCH:
        return "LAUNCH ";
    case WIRE_KILL:
        return "KILL ";
    case WIRE_NTH_SIGNAL:
        return "SIGNAL ";
    case WIRE_INPUT:
        return "INPUT ";
    case WIRE_CREDIT:
        return "CREDIT ";
    default:
        return "other ";
    }
}

static inline void take_launch(struct bed *b, const struct wire_frame *f)
{
    struct wire_launch l;
    struct launchrec rec;
    const char *hosts;
    errmsg_t err;
    json_t *json;

    ck_assert_int_eq(exec_wire_launch_get(f, &l, &err), 0);
    ck_assert_int_eq(exec_launchrec_get(l.job, l.job_len, &rec, &err), 0);
    b->round[f->job % 16] = l.round;
    snprintf(b->ranks, sizeof(b->ranks), "%s", l.ranks);
    ck_assert_uint_lt(rec.env_len, sizeof(b->env));
    memset(b->env, 0, sizeof(b->env));
    memcpy(b->env, rec.env, rec.env_len);
    ck_assert_ptr_nonnull(json = json_loadb(rec.json, rec.json_len, 0, NULL));
    hosts = json_string_value(json_object_get(json, "hosts"));
    if (hosts)
        snprintf(b->hosts, sizeof(b->hosts), "%s", hosts);
    json_decref(json);
}

static inline void take_down(struct bed *b, const flux_msg_t *msg)
{
    size_t len, at = strlen(b->frames);
    const uint8_t *p = flux_msg_payload(msg, &len);
    struct wire_frame f;
    ptrdiff_t used;
    errmsg_t err;

    while (len > 0) {
        used = exec_wire_parse(p, len, &f, &err);
        ck_assert_int_gt(used, 0);
        if (f.type == WIRE_OVER)
            b->over++;
        else if (f.type == WIRE_ACK)
            b->acked = le_get64(f.payload + 8);
        else
            at +=
                (size_t)snprintf(b->frames + at, sizeof(b->frames) - at, "%s", frame_name(f.type));
        if (f.type == WIRE_LAUNCH)
            take_launch(b, &f);
        else if (f.type == WIRE_AGAIN)
            b->round[f.job % 16] = le_get32(f.payload);
        p += used;
        len -= (size_t)used;
    }
}

static inline void take_output(struct bed *b, const void *data, size_t len)
{
    size_t n = strlen(b->first);
    struct wire_record rec;

    b->output += len;
    while (n + 1 < sizeof(b->first) && exec_wire_record_next(&data, &len, &rec) > 0)
        b->first[n++] = rec.len > 0 ? (char)rec.data[0] : '\0';
}

static inline void take_response(struct bed *b, const flux_msg_t *msg)
{
    size_t len;
    const void *data = flux_msg_payload(msg, &len);

    if (strcmp(flux_msg_topic(msg), "wrexec.jobs") == 0) {
        json_t *o = json_loadb(data, len, JSON_DISABLE_EOF_CHECK, NULL);

        b->raised += json_array_size(json_object_get(o, "raise"));
        json_decref(o);
    }
    if (strcmp(flux_msg_topic(msg), "wrexec.jobs") == 0)
        snprintf(b->told + strlen(b->told), sizeof(b->told) - strlen(b->told), "%.*s\n", (int)len,
                 (const char *)data);
    else if (flux_msg_has_flag(msg, FLUX_MSGF_RAW))
        take_output(b, data, len);
    else if (strcmp(flux_msg_topic(msg), "wrexec.launch") == 0 ||
             strcmp(flux_msg_topic(msg), "wrexec.kill") == 0)
        b->responses++;
    else if (strcmp(flux_msg_topic(msg), "wrexec.name") == 0)
        b->refused += (flux_msg_errnum(msg) == EAGAIN);
    else if (strcmp(flux_msg_topic(msg), "wrexec.listen") == 0)
        b->notices++;
    if (strcmp(flux_msg_topic(msg), "wrexec.signal") == 0 ||
        strcmp(flux_msg_topic(msg), "wrexec.run") == 0 ||
        strcmp(flux_msg_topic(msg), "wrexec.remains") == 0 ||
        strcmp(flux_msg_topic(msg), "wrexec.end") == 0 ||
        strcmp(flux_msg_topic(msg), "wrexec.down") == 0)
        b->errnum = flux_msg_errnum(msg);
    b->named += strcmp(flux_msg_topic(msg), "wrexec.name") == 0;
    b->ends += strcmp(flux_msg_topic(msg), "wrexec.end") == 0;
    if (flux_msg_json(msg))
        snprintf(b->last, sizeof(b->last), "%s", flux_msg_json(msg));
}

/* Take a message of the module: requests are kept, other messages are examined. */
static inline void sent(struct fake *f, flux_msg_t *msg)
{
    struct bed *b = f->user;

    if (b->mute) {
        flux_msg_destroy(msg);
        return;
    }
    if (flux_msg_type(msg) == FLUX_MSG_RESPONSE) {
        take_response(b, msg);
    } else if (flux_msg_type(msg) == FLUX_MSG_REQUEST &&
               strcmp(flux_msg_topic(msg), "wrexec.down") == 0) {
        ck_assert(b->opened);
        ck_assert_ptr_null(b->down); /* one request at a time */
        b->ndown++;
        b->down = msg;
        return;
    } else if (flux_msg_type(msg) == FLUX_MSG_REQUEST &&
               strcmp(flux_msg_topic(msg), "wrexec.tree") == 0) {
        ck_assert_ptr_null(b->tree);
        b->ntree++;
        b->tree = msg;
        return;
    } else if (flux_msg_type(msg) == FLUX_MSG_REQUEST &&
               !flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE) && b->nasked < ASKED_MAX) {
        b->asked[b->nasked++] = msg;
        return;
    }
    flux_msg_destroy(msg);
}

static inline void stop_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

/* Let the child, or its mailbox, answer.  Returns whether there was a request to answer. */
static inline bool child_answers(struct bed *b)
{
    flux_msg_t **req = b->down ? &b->down : b->tree && !b->opened ? &b->tree : NULL;
    flux_msg_t *resp, *keep;

    if (!req)
        return false;
    keep = *req;
    if (b->full > 0) {
        b->full--;
        *req = NULL;
        resp = flux_msg_response_create(keep, EAGAIN);
        ck_assert_int_eq(flux_msg_set_json(resp, "try again later"), 0);
    } else {
        resp = flux_msg_response_create(keep, 0);
        if (req == &b->tree) {
            b->opened = true;
            flux_msg_set_flags(resp, FLUX_MSGF_STREAMING);
            ck_assert_int_eq(flux_msg_set_raw(resp, "", 0), 0);
        } else {
            take_down(b, keep);
            *req = NULL;
        }
    }
    if (!*req)
        flux_msg_destroy(keep);
    flux_handle_deliver(b->f.h, resp);
    return true;
}

static inline void turn(struct bed *b)
{
    do {
        if (b->stands) {
            still_run(&b->still);
            continue;
        }
        flux_timer_start(b->stop, 0.002, 0.);
        flux_reactor_run(b->f.r);
    } while (child_answers(b));
}

/* Answer as the broker: attributes are not set. */
static inline void answer(struct bed *b)
{
    while (b->nasked > 0) {
        flux_msg_t *now[ASKED_MAX];
        size_t n = b->nasked;

        memcpy(now, b->asked, n * sizeof(*now));
        b->nasked = 0;
        for (size_t i = 0; i < n; i++) {
            bool shape = strcmp(flux_msg_topic(now[i]), "overlay.topology") == 0;
            bool host = strcmp(flux_msg_topic(now[i]), "wrexec.host") == 0;
            const char *mark = host && b->mark ? b->mark[flux_msg_nodeid(now[i])] : NULL;
            flux_msg_t *resp = flux_msg_response_create(now[i], shape || mark ? 0 : ENOENT);
            char json[80] = "no such thing";

            if (shape) /* one child, whatever the size is */
                snprintf(json, sizeof(json), "{\"topology\":\"kary:1\",\"size\":%u,\"file\":\"\"}",
                         b->size);
            else if (mark)
                snprintf(json, sizeof(json), "{\"mark\":\"%s\"}", mark);
            flux_msg_set_json(resp, json);
            flux_msg_destroy(now[i]);
            flux_handle_deliver(b->f.h, resp);
        }
        turn(b);
    }
}

/* Create a module that was just loaded and does not know the tree. */
static inline struct bed *bed_create_at(uint32_t size, uint32_t rank, bool stands)
{
    struct bed *b = calloc(1, sizeof(*b));
    errmsg_t err;

    ck_assert_ptr_nonnull(b);
    b->size = size;
    b->rank = rank;
    b->f.user = b;
    b->f.hook = sent;
    b->stands = stands;
    b->f.r = stands ? flux_reactor_create_ops(&still_ops, &b->still) : flux_reactor_create(false);
    ck_assert_ptr_nonnull(b->f.r);
    ck_assert_ptr_nonnull(b->f.h =
                              flux_handle_create(&fake_nowait_ops, &b->f, b->f.r, rank, size, 42));
    (void)fake_ops;
    ck_assert_ptr_nonnull(b->stop = flux_timer_create(b->f.r, stop_cb, b));
    ck_assert_int_eq(flux_module_wrexec.init(b->f.h, 0, NULL, &b->ctx, &err), 0);
    return b;
}

static inline struct bed *bed_create_on(uint32_t size, bool stands)
{
    return bed_create_at(size, 0, stands);
}

static inline struct bed *bed_create_sized(uint32_t size)
{
    return bed_create_on(size, false);
}

static inline struct bed *bed_create(void)
{
    return bed_create_sized(2);
}

static inline void bed_free(struct bed *b)
{
    flux_module_wrexec.fini(b->f.h, b->ctx);
    flux_watcher_destroy(b->stop);
    for (size_t i = 0; i < b->nasked; i++)
        flux_msg_destroy(b->asked[i]);
    flux_msg_destroy(b->tree);
    flux_msg_destroy(b->down);
    flux_close(b->f.h);
    flux_reactor_destroy(b->f.r);
    free(b->f.sent);
    free(b);
}

#define FAR 50 /* clients from this number on are at rank 2 */

/* Create a request of one of several clients. */
static inline flux_msg_t *request(const char *topic, uint32_t roles, uint32_t client,
                                  unsigned flags)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, topic);

    ck_assert_ptr_nonnull(msg);
    flux_msg_set_flags(msg, flags);
    flux_msg_set_cred(msg, 1000, roles);
    flux_msg_set_matchtag(msg, 100 + client);
    ck_assert_int_eq(flux_msg_route_push(msg, 1u << 28 | client), 0);
    if (client >= FAR)
        ck_assert_int_eq(flux_msg_route_push(msg, 2), 0);
    return msg;
}

static inline void say(struct bed *b, const char *topic, uint32_t client, unsigned flags,
                       const char *json)
{
    flux_msg_t *msg = request(topic, FLUX_ROLE_OWNER | FLUX_ROLE_BROKER, client, flags);

    ck_assert_int_eq(flux_msg_set_json(msg, json), 0);
    flux_handle_deliver(b->f.h, msg);
}

static inline void say_raw(struct bed *b, const char *topic, uint32_t client, const void *data,
                           size_t len)
{
    flux_msg_t *msg = request(topic, FLUX_ROLE_OWNER | FLUX_ROLE_BROKER, client, 0);

    ck_assert_int_eq(flux_msg_set_raw(msg, data, len), 0);
    flux_handle_deliver(b->f.h, msg);
}

#define READS 9 /* the job with this id reads standard input */

/* Launch a job as the job module does, with `each` tasks on each rank. */
static inline void launch_tasks(struct bed *b, uint64_t id, const char *ranks, int each,
                                const char *names)
{
    char *argv[] = {(char *)"true", NULL};
    json_t *nodes = json_pack("[[sissi]]", ranks, each, "", "", 0);
    struct wrexec_launch w = {.id = id,
                              .nodes = nodes,
                              .names = names,
                              .output = "client",
                              .input = id == READS ? "first" : NULL};
    struct launchreq req = {.launch = &w, .argv = argv, .env = "", .envlen = 0};
    launchbuf_t *buf = exec_launchbuf_create();
    size_t len;
    void *data;

    ck_assert_int_eq(exec_launchbuf_add(buf, &req), 0);
    ck_assert_ptr_nonnull(data = exec_launchbuf_take(buf, &len));
    say_raw(b, "wrexec.launch", 1, data, len);
    free(data);
    exec_launchbuf_destroy(buf);
    json_decref(nodes);
}

static inline void launch_on(struct bed *b, uint64_t id, const char *ranks, const char *names)
{
    launch_tasks(b, id, ranks, 1, names);
}

static inline void launch(struct bed *b, uint64_t id)
{
    launch_on(b, id, "1", NULL);
}

static inline void kill_jobs(struct bed *b, const char *ids, int signum)
{
    char json[128];

    snprintf(json, sizeof(json), "{\"ids\":[%s],\"signum\":%d}", ids, signum);
    say(b, "wrexec.kill", 1, 0, json);
}

/* Send a frame from the child as it is. */
static inline void up_raw(struct bed *b, enum wire_type type, uint64_t id, const void *data,
                          size_t len)
{
    flux_msg_t *msg = flux_msg_response_create(b->tree, 0);
    uint8_t *buf = malloc(WIRE_HEADER + len);

    ck_assert_ptr_nonnull(msg);
    ck_assert_ptr_nonnull(buf);
    exec_wire_header(buf, type, id, (uint32_t)len);
    memcpy(buf + WIRE_HEADER, data, len);
    flux_msg_set_flags(msg, FLUX_MSGF_STREAMING);
    ck_assert_int_eq(flux_msg_set_raw(msg, buf, WIRE_HEADER + len), 0);
    free(buf);
    flux_handle_deliver(b->f.h, msg);
}

/* Send a frame with this number, and of this round of its job. */
static inline void up_numbered(struct bed *b, enum wire_type type, uint64_t id, uint32_t round,
                               uint64_t number, const void *data, size_t len)
{
    const struct wire_numbered n = {
        .round = round, .rank = 1, .number = number, .f = {.type = type}};
    uint8_t *buf = malloc(WIRE_NUMBERED_HEAD + len);

    ck_assert_ptr_nonnull(buf);
    exec_wire_numbered_put(buf, &n);
    memcpy(buf + WIRE_NUMBERED_HEAD, data, len);
    up_raw(b, WIRE_NUMBERED, id, buf, WIRE_NUMBERED_HEAD + len);
    free(buf);
}

/* Send a frame from the child in the present round of its job: a RESULT, or one that is numbered
 * (0: it is never repeated). */
static inline void up(struct bed *b, enum wire_type type, uint64_t id, const void *data, size_t len)
{
    uint32_t round = b->round[id % 16];
    uint8_t buf[256];

    if (type != WIRE_RESULT) {
        up_numbered(b, type, id, round, 0, data, len);
        return;
    }
    ck_assert_uint_lt(len, sizeof(buf) - WIRE_ROUND);
    le_put32(buf, round);
    if (len > 0)
        memcpy(buf + WIRE_ROUND, data, len);
    up_raw(b, type, id, buf, WIRE_ROUND + len);
}

static inline int init_with(struct bed *b, flux_handover_t *o, errmsg_t *err)
{
    b->f.h = flux_handle_create(&fake_nowait_ops, &b->f, b->f.r, b->rank, b->size, 43);
    ck_assert_ptr_nonnull(b->f.h);
    ck_assert_int_eq(flux_aux_set(b->f.h, "module::inherited", o, NULL), 0);
    return flux_module_wrexec.init(b->f.h, 0, NULL, &b->ctx, err);
}

/* Reload as the module host does. */
static inline void reload(struct bed *b)
{
    flux_handover_t *o = flux_handover_create();
    errmsg_t err = {""};

    ck_assert_int_eq(flux_module_wrexec.hand_over(b->f.h, b->ctx, o, &err), 1);
    b->mute = true;
    flux_module_wrexec.fini(b->f.h, b->ctx);
    flux_close(b->f.h);
    b->mute = false;
    ck_assert_msg(init_with(b, o, &err) == 0, "%s", err.text);
    flux_handover_destroy(o);
}

/* End a job: its only task, on rank 1, has exited with 3. */
static inline void end_job(struct bed *b, uint64_t id)
{
    uint8_t res[WIRE_TIMES + 9] = {0};

    le_put32(res + WIRE_TIMES, 3 << 8);
    le_put32(res + WIRE_TIMES + 4, 1);
    res[WIRE_TIMES + 8] = '0';
    up(b, WIRE_RESULT, id, res, sizeof(res));
    turn(b);
}

/* A broker between a client and rank 0 has died. */
static inline void lose_way(struct bed *b, uint32_t client)
{
    say(b, "wrexec.disconnect", client, FLUX_MSGF_NORESPONSE | FLUX_MSGF_IDEMPOTENT, NULL);
}

static inline void lost(struct bed *b, const char *ranks, uint64_t map)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, "overlay.down");
    char json[100];

    snprintf(json, sizeof(json), "{\"ranks\":\"%s\",\"map\":%" PRIu64 "}", ranks, map);
    ck_assert_int_eq(flux_msg_set_json(msg, json), 0);
    flux_handle_deliver(b->f.h, msg);
}

#endif
