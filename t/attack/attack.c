/* attack.c - a client that means harm, for t/attack/attack.t.  It knows the bytes of the local
 * connection from doc/protocol.rst, and uses nothing of libflux.
 *
 *    attack SECONDS SEED WORKERS TOPICS [ATTACK]
 *        Run WORKERS processes for so long, each of which draws one attack after the other from its
 *        seed.  ATTACK: this one only.  TOPICS: a file with the requests that services know, one a
 *        line.  Prints what each worker did; exit code 1 when a broken promise was seen: a request
 *        that no service can fulfil and that has had no answer, or two; 3 when the broker accepts
 *        no connection any more.
 *    attack shapes TOPICS
 *        Send each request in every wrong shape, as one that wants one answer and as a stream; as
 *        the owner, and as the owner's client that claims to be a guest.
 *    attack steps
 *        Hold each conversation that clients have, and hang up at every step of it: after each byte
 *        of the request, and at some of the answer.  Prints how many jobs were submitted.  Job 1
 *        has to exist.
 *    attack probe TOPICS
 *        Print those of the requests that a service of rank 0 knows.
 *    attack guest UID TOPICS
 *        Be user UID, and send each request in every wrong shape, claiming to be a guest, the
 *        owner, or a broker: exit code 0 when the broker refuses each connection, and answers
 *        nothing.
 *
 *    attack   what
 *    shapes   some requests with payloads of every wrong shape; each has to be answered once
 *    flood    thousands of requests that want no answer, then one that does
 *    lie      messages that a client may not send: another's identity, forged routes, bad headers
 *    stall    half a message, and the connection kept for a while
 *    cut      a connection that ends at a random byte
 *    leave    a conversation that is ended at one of its steps
 *    deaf     requests whose answers are never read
 *    large    JSON beyond all bounds, announced and sent
 *    hidden   such JSON in raw requests, which nobody counts on their way
 *    crowd    many connections that say nothing, or ask and leave
 *    watch    streams and waits that are asked for and left, hundreds at a time
 *
 * Failure: what the system refuses this process (no descriptors, connection reset) ends the attack
 * under way, never the program.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "wire.h"

#define PATIENCE_MS 60000 /* a loaded host */
#define KEPT 32
#define TOPICS_MAX 65536
#define BATCH 40
/* What a message may claim of its sender: no user of this host, and roles. */
#define NOBODY 65534
#define OWNER 1
#define GUEST 2
#define BROKER 4

struct kept {
    int fd[KEPT];
    unsigned next;
};

struct attacker {
    uint64_t seed;
    char *const *topics;
    size_t ntopics;
    struct kept kept;
    unsigned long asked, answered, jobs;
    bool broken;
    uint32_t userid, roles; /* claimed in each request */
};

static const char *path;

static uint64_t draw(struct attacker *a)
{
    a->seed ^= a->seed << 13;
    a->seed ^= a->seed >> 7;
    a->seed ^= a->seed << 17;
    return a->seed;
}

static unsigned below(struct attacker *a, unsigned n)
{
    return (unsigned)(draw(a) % n);
}

static const char *any_topic(struct attacker *a)
{
    return a->topics[below(a, (unsigned)a->ntopics)];
}

/* --- attacks --- */

struct shape {
    const char *name, *payload;
    size_t len; /* 0: that of the text */
    uint8_t flags;
};
/* None of them is what any service wants: not JSON, no object, or an object with an unknown
 * field. */
static const struct shape shapes[] = {
    {"a number", "7", 0, 0},
    {"an array", "[1,2,3]", 0, 0},
    {"a string", "\"x\"", 0, 0},
    {"null", "null", 0, 0},
    {"half an object", "{\"id\":", 0, 0},
    {"an unknown field", "{\"no such field\":1}", 0, 0},
    {"wrong types",
     "{\"id\":\"x\",\"name\":7,\"key\":[],\"ranks\":{},\"namespace\":1,\"no such field\":{}}", 0,
     0},
    {"numbers out of range", "{\"id\":-1e400}", 0, 0},
    {"deep nesting", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", 0, 0},
    {"bytes that are not UTF-8", "{\"\xff\xfe\":1}", 0, 0},
    {"a field twice", "{\"no such field\":1,\"no such field\":1}", 0, 0},
    {"raw bytes", "\0\1\2\3\4\5\6\7\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 20, RAW},
    {"raw lengths", "\xff\xff\xff\x7f\xff\xff\xff\x7f\xff\xff\xff\x7f", 12, RAW},
    {"one raw byte", "\1", 1, RAW},
};
#define NSHAPES (sizeof(shapes) / sizeof(shapes[0]))

/* A stream that takes no payload, which is so fulfilled in any shape. */
static bool takes_nothing(const char *topic)
{
    return strcmp(topic, "resrc.watch") == 0;
}

static void await(struct attacker *a, int fd, char what[][96], unsigned *seen, unsigned n)
{
    unsigned left = n;

    while (left > 0) {
        uint8_t head[HEADER];
        uint32_t tag;

        if (!read_header(fd, head, PATIENCE_MS)) {
            a->broken = true;
            for (unsigned i = 0; i < n; i++)
                if (!seen[i])
                    printf("no answer (%s): %s\n", strerror(errno), what[i]);
            return;
        }
        tag = (uint32_t)get(head + 16, 4);
        if (head[2] != RESPONSE || (head[3] & STREAMING) || tag == 0 || tag > n)
            continue;
        if (seen[tag - 1]++ > 0) {
            printf("a second answer: %s\n", what[tag - 1]);
            a->broken = true;
            continue;
        }
        a->answered++;
        left--;
    }
}

/* Request number `n` of a connection. */
static bool ask(struct attacker *a, int fd, unsigned n, char what[96], const char *topic,
                const struct shape *s, uint8_t flags, uint32_t nodeid)
{
    struct frame f = {.type = REQUEST,
                      .flags = (uint8_t)(s->flags | flags),
                      .userid = a->userid,
                      .roles = a->roles,
                      .nodeid = nodeid,
                      .tag = n + 1,
                      .topic = topic,
                      .payload = s->payload,
                      .len = s->len ? s->len : strlen(s->payload)};

    if (takes_nothing(topic))
        f.flags &= (uint8_t)~STREAMING;
    snprintf(what, 96, "%.60s with %s%s", topic, s->name, flags & STREAMING ? ", a stream" : "");
    if (!send_frame(fd, &f, PATIENCE_MS))
        return false;
    a->asked++;
    return true;
}

static void shapes_attack(struct attacker *a)
{
    unsigned seen[BATCH] = {0};
    char what[BATCH][96];
    int fd = dial(path);
    unsigned n = 0;

    while (fd >= 0 && n < BATCH &&
           ask(a, fd, n, what[n], any_topic(a), &shapes[below(a, NSHAPES)],
               below(a, 3) ? 0 : STREAMING, below(a, 3) ? ANY : 0))
        n++;
    if (fd < 0)
        return;
    await(a, fd, what, seen, n);
    close(fd);
}

/* Each request in each shape, as both kinds. */
static int every_shape_of(struct attacker *a, uint32_t userid, uint32_t roles)
{
    size_t total = a->ntopics * NSHAPES * 2;

    a->userid = userid;
    a->roles = roles;
    for (size_t at = 0; at < total && !a->broken;) {
        unsigned seen[BATCH] = {0};
        char what[BATCH][96];
        int fd = dial(path);
        unsigned n = 0;

        if (fd < 0)
            return 3;
        for (; n < BATCH && at < total; n++, at++)
            if (!ask(a, fd, n, what[n], a->topics[at / (NSHAPES * 2)], &shapes[at / 2 % NSHAPES],
                     at % 2 ? STREAMING : 0, ANY))
                return 3;
        await(a, fd, what, seen, n);
        close(fd);
    }
    return a->broken;
}

static int every_shape(struct attacker *a)
{
    int rc = every_shape_of(a, 0, 0);

    if (rc == 0)
        rc = every_shape_of(a, NOBODY, GUEST);
    printf("%lu requests, %lu answers\n", a->asked, a->answered);
    return rc;
}

/* Ask the service of `topic` and wait for the answer. */
static void ping(struct attacker *a, int fd, const char *topic)
{
    char what[1][96];
    char name[300];
    unsigned seen[1] = {0};
    struct frame f = {.type = REQUEST, .nodeid = ANY, .tag = 1, .topic = name};

    snprintf(name, sizeof(name), "%.*s.ping", (int)strcspn(topic, "."), topic);
    snprintf(what[0], sizeof(what[0]), "%.80s", name);
    if (send_frame(fd, &f, PATIENCE_MS)) {
        a->asked++;
        await(a, fd, what, seen, 1);
    } else {
        printf("not read any more: %s\n", name);
        a->broken = true;
    }
}

static void flood(struct attacker *a)
{
    const struct shape *s = &shapes[below(a, NSHAPES)];
    const char *topic = any_topic(a);
    struct frame f = {.type = REQUEST,
                      .flags = (uint8_t)(NORESPONSE | s->flags),
                      .nodeid = ANY,
                      .topic = topic,
                      .payload = s->payload,
                      .len = s->len ? s->len : strlen(s->payload)};
    size_t len;
    uint8_t *buf = encode(&f, &len);
    unsigned n = 1000 + below(a, 20000);
    int fd = dial(path);

    for (unsigned i = 0; fd >= 0 && i < n && send_bytes(fd, buf, len, PATIENCE_MS); i++)
        ;
    free(buf);
    if (fd < 0)
        return;
    ping(a, fd, topic);
    close(fd);
}

/* None that ends the session, or a module, for an owner who asks for it in a shape that may be
 * right. */
static const char *harmless_topic(struct attacker *a)
{
    const char *topic;

    do
        topic = any_topic(a);
    while (strncmp(topic, "broker.", 7) == 0 || strncmp(topic, "module.", 7) == 0);
    return topic;
}

static void lie(struct attacker *a)
{
    struct frame f = {.type = (uint8_t)below(a, 6),
                      .flags = (uint8_t)below(a, 64),
                      .userid = below(a, 70000),
                      .roles = 4,
                      .nodeid = below(a, 2) ? ANY : below(a, 8),
                      .tag = below(a, 100),
                      .routes = (uint16_t)(below(a, 3) ? 0 : below(a, 1200)),
                      .topic = harmless_topic(a),
                      .payload = "{}",
                      .len = 2};
    size_t len;
    uint8_t *buf;
    int fd = dial(path);

    if (fd < 0)
        return;
    if (below(a, 4) == 0)
        f.errnum = below(a, 100000);
    if (below(a, 4) == 0)
        f.seq = draw(a);
    /* What ends the session, if the lie is believed, or if it is the owner's right. */
    if (f.type == REQUEST)
        f.topic = "no.such";
    buf = encode(&f, &len);
    for (unsigned i = below(a, 4); i > 0; i--)
        buf[below(a, f.type == REQUEST ? 12 : HEADER)] = (uint8_t)draw(a);
    (void)send_bytes(fd, buf, len, 1000);
    free(buf);
    a->asked++;
    close(fd);
}

/* Held for the next KEPT attacks of this kind. */
static void keep(struct attacker *a, int fd)
{
    int *place = &a->kept.fd[a->kept.next++ % KEPT];

    if (*place > 0)
        close(*place);
    *place = fd;
}

static void stall_or_cut(struct attacker *a, bool stall)
{
    struct frame f = {.type = REQUEST,
                      .nodeid = ANY,
                      .tag = 1,
                      .topic = any_topic(a),
                      .payload = "[1,2,3,4,5,6,7]",
                      .len = 15};
    size_t len;
    uint8_t *buf = encode(&f, &len);
    int fd = dial(path);

    if (fd >= 0) {
        (void)send_bytes(fd, buf, below(a, (unsigned)len), 1000);
        if (stall)
            keep(a, fd);
        else
            close(fd);
    }
    free(buf);
}

static void stall(struct attacker *a)
{
    stall_or_cut(a, true);
}

static void cut(struct attacker *a)
{
    for (int i = 0; i < 50; i++)
        stall_or_cut(a, false);
}

/* What clients ask for in the right shape, each the begin of a conversation.  There is none with
 * what only brokers may ask for (kvs.load, kvs.follow), and with sched.feed, which has a number
 * from the answer to sched.attach.  Raw payloads are those of doc/protocol.rst, submit.h (jobs) and
 * wrexec_wire.h (programs), with numbers of bytes in octal. */
#define SPEC                                                                                   \
    "{\"version\":1,\"resources\":[{\"type\":\"slot\",\"count\":1,\"label\":\"task\","         \
    "\"with\":[{\"type\":\"core\",\"count\":1}]}],\"tasks\":[{\"command\":[\"true\"],"         \
    "\"slot\":\"task\",\"count\":{\"per_slot\":1}}],\"attributes\":{\"system\":{\"duration\":" \
    "60}}}"
/* A job whose environment has no variables. */
#define JOB                                                                        \
    "FJS2\1\0\0\0\1\0\0\0\4\0\0\0\0\0\0\0\0\0\0\0\20\0\0\0\0\0\0\0\323\0\0\0" SPEC \
    "\0\0\0\0\0\0\0\0"
_Static_assert(sizeof(SPEC) - 1 == 0323, "the length of the job");
/* A transaction that puts one value; a look-up of it. */
#define PUT "T\1\0\0\1\0\0\0\1\0\6\0\1\0\0\0attack7"
#define LOOK_UP "\0\0\7\0\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0primaryattack"
/* One of 1000 calls, of no rank, with no flags. */
#define FENCE                                                    \
    "\350\3\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\6\7\0\0\0\0\0" \
    "\0\0\0\0\0\0\0\0\0\0\0\0primaryattack" PUT
/* A program with one argument and no variables, its directory, and no files. */
#define PROGRAM "WXR1\15\0\0\0\1\0\0\0\0\0\0\0{\"ranks\":\"0\"}/\0\0\0\0/bin/true\0"
#define HEX "0123456789abcdef"
#define RAW_PAYLOAD(bytes) bytes, sizeof(bytes) - 1
static const struct conversation {
    const char *topic, *payload;
    size_t len; /* 0: that of the text */
    uint8_t flags;
    bool waits; /* what it waits for does not come */
} conversations[] = {
    {"attr.get", "{\"name\":\"rank\"}", 0, 0, false},
    {"event.subscribe", "{\"prefix\":\"\"}", 0, 0, false},
    {"barrier.enter", "{\"name\":\"attack\",\"nprocs\":1000}", 0, 0, true},
    {"kvs.wait-version", "{\"namespace\":\"primary\",\"version\":9007199254740991}", 0, STREAMING,
     true},
    {"kvs.snapshot", "{\"namespace\":\"primary\",\"rootref\":\"\"}", 0, STREAMING, false},
    {"kvs.watch", RAW_PAYLOAD(LOOK_UP), RAW | STREAMING, false},
    {"kvs.commit", RAW_PAYLOAD("\7\0\0\0primary" PUT), RAW, false},
    {"kvs.lookup", RAW_PAYLOAD(LOOK_UP), RAW, false},
    {"kvs.fence", RAW_PAYLOAD(FENCE), RAW, true},
    {"kvs.store", RAW_PAYLOAD("\7\0\0\0primary" SPEC), RAW, false},
    {"log.follow", "{}", 0, STREAMING, false},
    {"resrc.watch", "{}", 0, STREAMING, false},
    {"job.watch", "{}", 0, STREAMING, false},
    {"job.wait", "{\"ids\":\"1\"}", 0, STREAMING, false},
    {"job.journal", "{}", 0, 0, false},
    {"sched.status", "{}", 0, 0, false},
    {"module.list", "{}", 0, 0, false},
    {"stream.write",
     "{\"name\":\"attack\",\"rank\":0,\"size\":1,\"host\":\"x\",\"place\":\"x\",\"address\":\"x\","
     "\"far\":\"\",\"key\":\"" HEX HEX HEX HEX "\"}",
     0, STREAMING, false},
    {"stream.read",
     "{\"name\":\"attack\",\"reader\":1,\"place\":\"x\",\"far\":false,\"host\":\"x\","
     "\"pid\":1,\"policy\":\"block\",\"onoff\":\"\"}",
     0, STREAMING, true},
    {"trace.watch", "{\"prefix\":\"attack\",\"modules\":\"\"}", 0, STREAMING, true},
    {"wrexec.listen", "{\"id\":4503599627370495}", 0, STREAMING, true},
    {"kvs.cancel", "{\"matchtag\":1}", 0, 0, false},
    {"log.cancel", "{\"matchtag\":1}", 0, 0, false},
    {"resrc.cancel", "{\"matchtag\":1}", 0, 0, false},
    {"sched.cancel", "{\"matchtag\":1}", 0, 0, false},
    {"stream.cancel", "{\"matchtag\":1}", 0, 0, false},
    {"wrexec.cancel", "{\"matchtag\":1}", 0, 0, false},
    /* These take the others' processors, or the place of the module job at the scheduler. */
    {"sched.attach", "{}", 0, STREAMING, false},
    {"wrexec.run", RAW_PAYLOAD(PROGRAM), RAW | STREAMING, false},
    {"job.submit", RAW_PAYLOAD(JOB), RAW, false},
};
#define NCONVERSATIONS (sizeof(conversations) / sizeof(conversations[0]))
#define NDEAR 3 /* the last ones */

static uint8_t *begin_conversation(const struct conversation *c, size_t *len)
{
    struct frame f = {.type = REQUEST,
                      .flags = c->flags,
                      .nodeid = ANY,
                      .tag = 1,
                      .topic = c->topic,
                      .payload = c->payload,
                      .len = c->len ? c->len : strlen(c->payload)};

    return encode(&f, len);
}

static unsigned is_job(const struct conversation *c)
{
    return strcmp(c->topic, "job.submit") == 0;
}

/* Send this many bytes of it, read this many of what comes, and leave.  1: all was sent. */
static unsigned hang_up(const struct conversation *c, size_t sent, size_t taken)
{
    size_t len;
    uint8_t *buf = begin_conversation(c, &len);
    int fd = dial(path);
    unsigned whole = sent >= len;

    if (fd >= 0 && send_bytes(fd, buf, whole ? len : sent, 1000)) {
        uint8_t byte;

        /* The hello comes in any case; of an answer that waits nothing does. */
        while (taken-- > 0 && read_bytes(fd, &byte, 1, taken > HEADER ? 300 : 20))
            ;
    } else {
        whole = 0;
    }
    if (fd >= 0)
        close(fd);
    free(buf);
    return whole;
}

static void leave(struct attacker *a)
{
    const struct conversation *c = &conversations[below(a, NCONVERSATIONS)];
    size_t sent = below(a, 2) ? SIZE_MAX : below(a, 300);

    a->jobs += hang_up(c, sent, below(a, 2) ? 0 : below(a, 200)) && is_job(c);
}

/* The error of its first answer, as far as there is one; 0: the conversation is one. */
static unsigned first_error(const struct conversation *c)
{
    uint8_t head[HEADER] = {0};
    size_t len;
    uint8_t *buf = begin_conversation(c, &len);
    int fd = dial(path);
    int errnum;

    if (fd >= 0 && send_bytes(fd, buf, len, PATIENCE_MS))
        while (head[2] != RESPONSE && read_header(fd, head, c->waits ? 300 : PATIENCE_MS))
            ;
    errnum = errno;
    if (fd >= 0)
        close(fd);
    free(buf);
    if (head[2] == RESPONSE)
        return (unsigned)get(head + 20, 4);
    return c->waits && errnum == ETIMEDOUT ? 0 : (unsigned)errnum;
}

static int every_step(void)
{
    static const size_t taken[] = {0, 1, HEADER - 1, HEADER, HEADER + 1, 120, 200};
    unsigned jobs = 0;
    int rc = 0;

    for (size_t i = 0; i < NCONVERSATIONS; i++) {
        const struct conversation *c = &conversations[i];
        unsigned errnum;
        size_t len;

        /* First, before what others have left can be in the way. */
        if ((errnum = first_error(c)) != 0) {
            printf("this is not a conversation any more: %s: %s\n", c->topic,
                   strerror((int)errnum));
            rc = 1;
        }
        free(begin_conversation(c, &len));
        for (size_t at = 0; at < len; at++)
            (void)hang_up(c, at, at % 16 == 0);
        for (size_t k = 0; k < sizeof(taken) / sizeof(taken[0]); k++)
            if (!c->waits || taken[k] <= HEADER + 1)
                jobs += hang_up(c, len, taken[k]) && is_job(c);
    }
    printf("%u jobs\n", jobs + 1);
    return rc;
}

static void deaf(struct attacker *a)
{
    char name[300];
    const char *topic = any_topic(a);
    char pad[1000];
    struct frame f = {.type = REQUEST,
                      .flags = RAW,
                      .nodeid = ANY,
                      .tag = 1,
                      .topic = name,
                      .payload = pad,
                      .len = below(a, sizeof(pad)) + 1};
    int fd = dial(path);

    memset(pad, 'x', sizeof(pad));
    snprintf(name, sizeof(name), "%.*s.ping", (int)strcspn(topic, "."), topic);
    for (int i = 0; fd >= 0 && i < 20000 && send_frame(fd, &f, 10); i++)
        ;
    if (fd >= 0)
        keep(a, fd);
}

/* JSON of too many values, or too long.  To be freed; NULL without memory. */
static char *large_json(struct attacker *a, size_t *len)
{
    bool values = below(a, 2);
    char *text = malloc(*len = values ? (4u << 20) : (9u << 20));

    if (!text)
        return NULL;
    for (size_t i = 0; i < *len; i++)
        text[i] = values ? "[],"[i % 3] : 'x';
    text[0] = values ? '[' : '"';
    text[*len - 1] = values ? ']' : '"';
    return text;
}

static void send_large(struct attacker *a, struct frame *f)
{
    unsigned seen[1] = {0};
    char what[1][96];
    int fd = dial(path);

    f->type = REQUEST;
    f->tag = 1;
    f->nodeid = ANY;
    if (fd < 0)
        return;
    snprintf(what[0], sizeof(what[0]), "%.60s with %zu bytes of JSON", f->topic, f->len);
    if (send_frame(fd, f, PATIENCE_MS)) {
        a->asked++;
        await(a, fd, what, seen, 1);
    }
    close(fd);
}

static void large(struct attacker *a)
{
    struct frame f = {.topic = any_topic(a)};
    char *text = large_json(a, &f.len);

    f.payload = text;
    if (text)
        send_large(a, &f);
    free(text);
}

/* An event for the module `stream`, with and without the flag of raw bytes, or what wrexec.run
 * takes. */
static void hidden(struct attacker *a)
{
    bool run = below(a, 2);
    struct frame event = {.type = EVENT, .flags = below(a, 2) ? RAW : 0, .topic = "stream.switch"};
    struct frame f = {.topic = run ? "wrexec.run" : "event.publish",
                      .flags = run ? RAW | STREAMING : RAW};
    char *text = large_json(a, &event.len);
    uint8_t *buf;

    if (!text)
        return;
    event.payload = text;
    if (!run) {
        buf = encode(&event, &f.len);
    } else if ((buf = calloc(1, f.len = 16 + event.len))) {
        memcpy(buf, "WXR1", 4);
        put(buf + 4, event.len, 4);
        memcpy(buf + 16, text, event.len);
    }
    f.payload = (const char *)buf;
    if (buf)
        send_large(a, &f);
    free(buf);
    free(text);
}

static void crowd(struct attacker *a)
{
    int fd[100];
    struct frame f = {
        .type = REQUEST, .nodeid = ANY, .tag = 1, .topic = any_topic(a), .payload = "7", .len = 1};

    for (int i = 0; i < 100; i++) {
        fd[i] = dial(path);
        if (fd[i] >= 0 && i % 2)
            (void)send_frame(fd[i], &f, 1000);
    }
    for (int i = 0; i < 100; i++)
        if (fd[i] >= 0)
            close(fd[i]);
}

/* Many conversations on one connection, which is left, or kept and never read; not those that are
 * dear. */
static void watch(struct attacker *a)
{
    int fd = dial(path);

    for (unsigned i = 0; fd >= 0 && i < 200; i++) {
        const struct conversation *c = &conversations[below(a, NCONVERSATIONS - NDEAR)];
        size_t len;
        uint8_t *buf = begin_conversation(c, &len);
        bool sent;

        put(buf + 16, i + 1, 4);
        sent = send_bytes(fd, buf, len, 100);
        free(buf);
        if (!sent)
            break;
        a->asked++;
    }
    if (fd >= 0 && below(a, 2))
        keep(a, fd);
    else if (fd >= 0)
        close(fd);
}

static const struct {
    const char *name;
    void (*run)(struct attacker *a);
} attacks[] = {
    {"shapes", shapes_attack}, {"shapes", shapes_attack},
    {"flood", flood},          {"lie", lie},
    {"stall", stall},          {"cut", cut},
    {"leave", leave},          {"deaf", deaf},
    {"large", large},          {"hidden", hidden},
    {"crowd", crowd},          {"watch", watch},
};
#define NATTACKS (sizeof(attacks) / sizeof(attacks[0]))

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* `only`: the name of the one attack that is wanted, NULL: one after the other. */
static int work(struct attacker *a, double seconds, unsigned number, const char *only)
{
    double end = now() + seconds;
    unsigned long done = 0;
    int fd;

    while (now() < end && !a->broken) {
        size_t i = below(a, NATTACKS);

        if (only && strcmp(attacks[i].name, only) != 0)
            continue;
        attacks[i].run(a);
        done++;
    }
    printf("worker %u: %lu attacks, %lu requests, %lu answers, %lu jobs\n", number, done, a->asked,
           a->answered, a->jobs);
    if ((fd = dial(path)) < 0)
        return 3;
    close(fd);
    return a->broken ? 1 : 0;
}

static bool is_attack(const char *name)
{
    for (size_t i = 0; i < NATTACKS; i++)
        if (strcmp(attacks[i].name, name) == 0)
            return true;
    return false;
}

static size_t read_topics(const char *file, char **topics)
{
    FILE *in = fopen(file, "re");
    char line[300];
    size_t n = 0;

    while (in && n < TOPICS_MAX && fgets(line, sizeof(line), in)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] && !(topics[n++] = strdup(line)))
            exit(3);
    }
    if (in)
        fclose(in);
    return n;
}

static int run(double seconds, uint64_t seed, unsigned workers, char *const *topics, size_t n,
               const char *only)
{
    int rc = 0, status;

    if (n == 0 || workers == 0)
        return 2;
    for (unsigned i = 0; i < workers; i++) {
        struct attacker a = {
            .seed = (seed + i + 1) * 0x9e3779b97f4a7c15u, .topics = topics, .ntopics = n};
        pid_t pid = fork();

        if (pid == 0) {
            rc = work(&a, seconds, i, only);
            fflush(stdout);
            _exit(rc);
        }
    }
    while (wait(&status) > 0)
        if (status != 0)
            rc = WIFEXITED(status) ? WEXITSTATUS(status) : 3;
    return rc;
}

/* Windows of requests, whose answers say whether somebody knows them. */
static int probe(char *const *topics, size_t n)
{
    int fd = dial(path);

    for (size_t done = 0; fd >= 0 && done < n;) {
        unsigned window = n - done < 200 ? (unsigned)(n - done) : 200;
        bool known[200] = {false};

        for (unsigned i = 0; i < window; i++) {
            struct frame f = {.type = REQUEST,
                              .tag = i + 1,
                              .topic = topics[done + i],
                              .payload = "[1,2,3]",
                              .len = 7};

            if (!send_frame(fd, &f, PATIENCE_MS))
                return 3;
        }
        for (unsigned left = window; left > 0;) {
            uint8_t head[HEADER];
            size_t tag;

            if (!read_header(fd, head, PATIENCE_MS)) {
                printf("no answer: %s\n", strerror(errno));
                return 1;
            }
            tag = (size_t)get(head + 16, 4);
            if (head[2] != RESPONSE || tag == 0 || tag > window)
                continue;
            known[tag - 1] = get(head + 20, 4) != ENOSYS;
            left -= !(head[3] & STREAMING);
        }
        for (unsigned i = 0; i < window; i++)
            if (known[i])
                printf("%s\n", topics[done + i]);
        done += window;
    }
    return fd < 0 ? 3 : 0;
}

/* Does the broker end this connection, whose client sends what it can, without an answer? */
static bool is_refused(struct attacker *a, size_t first, uint32_t roles)
{
    size_t total = a->ntopics * NSHAPES;
    uint8_t head[HEADER];
    char what[96];
    int fd = dial(path);
    bool refused;

    if (fd < 0)
        return false;
    a->roles = roles;
    for (size_t at = first; at < first + BATCH && at < total; at++)
        if (!ask(a, fd, (unsigned)(at - first), what, a->topics[at / NSHAPES],
                 &shapes[at % NSHAPES], 0, ANY))
            break;
    while (read_header(fd, head, PATIENCE_MS))
        if (head[2] != CONTROL) {
            printf("an answer to a guest: %s or one before it\n", what);
            close(fd);
            return false;
        }
    refused = errno == ECONNRESET;
    close(fd);
    return refused;
}

static int guest(struct attacker *a, uid_t uid)
{
    size_t total = a->ntopics * NSHAPES;

    if (setgid(uid) < 0 || setuid(uid) < 0) {
        printf("%s\n", strerror(errno));
        return 1;
    }
    for (size_t first = 0; first < total; first += BATCH)
        if (!is_refused(a, first, GUEST) || !is_refused(a, first, OWNER) ||
            !is_refused(a, first, BROKER))
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    static char *topics[TOPICS_MAX];
    struct attacker a = {.topics = topics};
    const char *uri = getenv("FLUX_URI");
    size_t n = 0;

    signal(SIGPIPE, SIG_IGN);
    if (!uri || strncmp(uri, "local://", 8) != 0 || strlen(uri + 8) > 100)
        return 2;
    path = uri + 8;
    if (argc == 2 && strcmp(argv[1], "steps") == 0)
        return every_step();
    if (argc == 4 && strcmp(argv[1], "guest") == 0) {
        a.ntopics = read_topics(argv[3], topics);
        return a.ntopics ? guest(&a, (uid_t)strtoul(argv[2], NULL, 10)) : 2;
    }
    if (argc == 3)
        a.ntopics = n = read_topics(argv[2], topics);
    if (argc == 3 && n > 0 && strcmp(argv[1], "probe") == 0)
        return probe(topics, n);
    if (argc == 3 && n > 0 && strcmp(argv[1], "shapes") == 0)
        return every_shape(&a);
    if (argc == 5 || (argc == 6 && is_attack(argv[5])))
        return run(strtod(argv[1], NULL), strtoull(argv[2], NULL, 10),
                   (unsigned)strtoul(argv[3], NULL, 10), topics, read_topics(argv[4], topics),
                   argv[5]);
    fprintf(stderr, "attack: usage error: see t/attack/attack.c\n");
    return 2;
}
