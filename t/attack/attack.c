/* attack.c - a client that means harm, for t/attack/attack.t.  It knows the bytes of the local connection
 * from doc/protocol.rst, and uses nothing of libflux.
 *
 *    attack SECONDS SEED WORKERS TOPICS
 *        Run WORKERS processes for so long, each of which draws one attack after the other from its seed.
 *        TOPICS: a file with the requests that services know, one a line.  Prints what each worker did;
 *        exit code 1 when a broken promise was seen: a request that no service can fulfil and that has
 *        had no answer, or two; 3 when the broker closed the door.
 *    attack guest UID
 *        Be user UID, connect, and ask: exit code 0 when the broker refuses, and answers nothing.
 *
 *    attack   what
 *    shapes   each of some requests with payloads of every wrong shape; each has to be answered once
 *    flood    thousands of requests that want no answer, then one that does
 *    lie      messages that a client may not send, another's identity, forged routes, broken headers
 *    stall    half a message, and the connection kept for a while
 *    cut      a connection that ends at a random byte
 *    deaf     requests whose answers are never read
 *    large    JSON beyond all bounds, announced and sent
 *    crowd    many connections that say nothing, or ask and leave
 *    watch    streams and waits that are asked for and left
 *
 * Failure: what the system refuses this process (no descriptors, connection reset) ends the attack under
 * way, never the program.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HEADER 40
#define REQUEST 1
#define RESPONSE 2
#define RAW 16
#define NORESPONSE 1
#define STREAMING 2
#define ANY 0xffffffffu
#define PATIENCE_MS 60000 /* a loaded host */
#define KEPT 32
#define TOPICS_MAX 512
#define BATCH 40

struct kept {
    int fd[KEPT];
    unsigned next;
};

struct attacker {
    uint64_t seed;
    char *const *topics;
    size_t ntopics;
    struct kept kept;
    unsigned long asked, answered, refused;
    bool broken;
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

/* --- bytes --- */

struct frame {
    uint8_t type, flags;
    uint32_t userid, roles, nodeid, tag, errnum;
    uint64_t seq;
    uint16_t routes;
    const char *topic;
    const char *payload;
    size_t len;
};

static void put(uint8_t *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t get(const uint8_t *p, int bytes)
{
    uint64_t v = 0;

    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static uint8_t *encode(const struct frame *f, size_t *len)
{
    size_t topic = strlen(f->topic);
    uint8_t *buf = calloc(1, *len = HEADER + 4 * (size_t)f->routes + topic + f->len);

    if (!buf)
        exit(3);
    buf[0] = 0xf1;
    buf[1] = 1;
    buf[2] = f->type;
    buf[3] = f->flags;
    put(buf + 4, f->userid, 4);
    put(buf + 8, f->roles, 4);
    put(buf + 12, f->nodeid, 4);
    put(buf + 16, f->tag, 4);
    put(buf + 20, f->errnum, 4);
    put(buf + 24, f->seq, 8);
    put(buf + 32, topic, 2);
    put(buf + 34, f->routes, 2);
    put(buf + 36, f->len, 4);
    memcpy(buf + HEADER + 4 * (size_t)f->routes, f->topic, topic);
    if (f->len)
        memcpy(buf + HEADER + 4 * (size_t)f->routes + topic, f->payload, f->len);
    return buf;
}

static int dial(void)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    strcpy(sun.sun_path, path);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* All of it, unless the other end closes, or takes nothing for `ms`. */
static bool send_bytes(int fd, const uint8_t *buf, size_t len, int ms)
{
    while (len > 0) {
        struct pollfd pfd = {.fd = fd, .events = POLLOUT};
        ssize_t n = send(fd, buf, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno != EAGAIN || poll(&pfd, 1, ms) <= 0))
            return false;
        if (n > 0) {
            buf += n;
            len -= (size_t)n;
        }
    }
    return true;
}

static bool send_frame(int fd, const struct frame *f, int ms)
{
    size_t len;
    uint8_t *buf = encode(f, &len);
    bool ok = send_bytes(fd, buf, len, ms);

    free(buf);
    return ok;
}

static bool read_bytes(int fd, void *buf, size_t len, int ms)
{
    uint8_t *p = buf;

    while (len > 0) {
        struct pollfd pfd = {.fd = fd, .events = POLLIN};
        ssize_t n;

        if (poll(&pfd, 1, ms) <= 0) {
            errno = ETIMEDOUT;
            return false;
        }
        if ((n = read(fd, p, len)) < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = ECONNRESET;
            return false;
        }
        p += n;
        len -= (size_t)n;
    }
    return true;
}

/* The next message: its header, with the rest thrown away. */
static bool read_header(int fd, uint8_t head[HEADER], int ms)
{
    uint8_t junk[4096];
    uint64_t rest;

    if (!read_bytes(fd, head, HEADER, ms))
        return false;
    rest = 4 * get(head + 34, 2) + get(head + 32, 2) + get(head + 36, 4);
    while (rest > 0) {
        size_t part = rest < sizeof(junk) ? (size_t)rest : sizeof(junk);

        if (!read_bytes(fd, junk, part, ms))
            return false;
        rest -= part;
    }
    return true;
}

/* --- attacks --- */

struct shape {
    const char *name, *payload;
    size_t len; /* 0: that of the text */
    uint8_t flags;
};
/* None of them is what any service wants: not JSON, no object, or an object with an unknown field. */
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

static void shapes_attack(struct attacker *a)
{
    unsigned seen[BATCH] = {0};
    char what[BATCH][96];
    int fd = dial();
    unsigned n = 0;

    while (fd >= 0 && n < BATCH) {
        const struct shape *s = &shapes[below(a, NSHAPES)];
        const char *topic = any_topic(a);
        struct frame f = {.type = REQUEST,
                          .flags = s->flags,
                          .nodeid = below(a, 3) ? ANY : 0,
                          .tag = n + 1,
                          .topic = topic,
                          .payload = s->payload,
                          .len = s->len ? s->len : strlen(s->payload)};

        snprintf(what[n], sizeof(what[n]), "%.60s with %s", topic, s->name);
        if (!send_frame(fd, &f, PATIENCE_MS))
            break;
        a->asked++;
        n++;
    }
    if (fd < 0)
        return;
    await(a, fd, what, seen, n);
    close(fd);
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
    int fd = dial();

    for (unsigned i = 0; fd >= 0 && i < n && send_bytes(fd, buf, len, PATIENCE_MS); i++)
        ;
    free(buf);
    if (fd < 0)
        return;
    ping(a, fd, topic);
    close(fd);
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
                      .topic = any_topic(a),
                      .payload = "{}",
                      .len = 2};
    size_t len;
    uint8_t *buf;
    int fd = dial();

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
    int fd = dial();

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
    int fd = dial();

    memset(pad, 'x', sizeof(pad));
    snprintf(name, sizeof(name), "%.*s.ping", (int)strcspn(topic, "."), topic);
    for (int i = 0; fd >= 0 && i < 20000 && send_frame(fd, &f, 10); i++)
        ;
    if (fd >= 0)
        keep(a, fd);
}

static void large(struct attacker *a)
{
    bool values = below(a, 2);
    size_t len = values ? (4u << 20) : (9u << 20);
    char *text = malloc(len);
    unsigned seen[1] = {0};
    char what[1][96];
    struct frame f = {.type = REQUEST,
                      .nodeid = ANY,
                      .tag = 1,
                      .topic = any_topic(a),
                      .payload = text,
                      .len = len};
    int fd = dial();

    if (fd < 0 || !text) {
        free(text);
        return;
    }
    for (size_t i = 0; i < len; i++)
        text[i] = values ? (i % 3 == 0 ? '[' : i % 3 == 1 ? ']' : ',') : 'x';
    text[0] = values ? '[' : '"';
    text[len - 1] = values ? ']' : '"';
    snprintf(what[0], sizeof(what[0]), "%.60s with %zu bytes of JSON", f.topic, len);
    if (send_frame(fd, &f, PATIENCE_MS)) {
        a->asked++;
        await(a, fd, what, seen, 1);
    }
    free(text);
    close(fd);
}

static void crowd(struct attacker *a)
{
    int fd[100];
    struct frame f = {
        .type = REQUEST, .nodeid = ANY, .tag = 1, .topic = any_topic(a), .payload = "7", .len = 1};

    for (int i = 0; i < 100; i++) {
        fd[i] = dial();
        if (fd[i] >= 0 && i % 2)
            (void)send_frame(fd[i], &f, 1000);
    }
    for (int i = 0; i < 100; i++)
        if (fd[i] >= 0)
            close(fd[i]);
}

static void watch(struct attacker *a)
{
    static const char *const asked[][2] = {
        {"event.subscribe", "{\"topic\":\"\"}"},
        {"job.watch", "{}"},
        {"log.follow", "{}"},
        {"resrc.watch", "{}"},
        {"kvs.wait-version", "{\"version\":9007199254740991}"},
        {"barrier.enter", "{\"name\":\"attack\",\"nprocs\":1000}"},
        {"job.wait", "{\"id\":9007199254740991}"},
    };
    int fd = dial();

    for (int i = 0; fd >= 0 && i < 200; i++) {
        unsigned k = below(a, sizeof(asked) / sizeof(asked[0]));
        struct frame f = {.type = REQUEST,
                          .flags = STREAMING,
                          .nodeid = ANY,
                          .tag = (uint32_t)i + 1,
                          .topic = asked[k][0],
                          .payload = asked[k][1],
                          .len = strlen(asked[k][1])};

        if (!send_frame(fd, &f, 100))
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
    {"shapes", shapes_attack},
    {"shapes", shapes_attack},
    {"flood", flood},
    {"lie", lie},
    {"stall", stall},
    {"cut", cut},
    {"deaf", deaf},
    {"large", large},
    {"crowd", crowd},
    {"watch", watch},
};

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static int work(struct attacker *a, double seconds, unsigned number)
{
    double end = now() + seconds;
    unsigned long done = 0;
    int fd;

    while (now() < end && !a->broken) {
        attacks[below(a, sizeof(attacks) / sizeof(attacks[0]))].run(a);
        done++;
    }
    printf("worker %u: %lu attacks, %lu requests, %lu answers\n", number, done, a->asked,
           a->answered);
    if ((fd = dial()) < 0)
        return 3;
    close(fd);
    return a->broken ? 1 : 0;
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

static int run(double seconds, uint64_t seed, unsigned workers, const char *file)
{
    static char *topics[TOPICS_MAX];
    size_t n = read_topics(file, topics);
    int rc = 0, status;

    if (n == 0 || workers == 0)
        return 2;
    for (unsigned i = 0; i < workers; i++) {
        struct attacker a = {
            .seed = (seed + i + 1) * 0x9e3779b97f4a7c15u, .topics = topics, .ntopics = n};
        pid_t pid = fork();

        if (pid == 0) {
            rc = work(&a, seconds, i);
            fflush(stdout);
            _exit(rc);
        }
    }
    while (wait(&status) > 0)
        if (status != 0)
            rc = WIFEXITED(status) ? WEXITSTATUS(status) : 3;
    return rc;
}

static int guest(uid_t uid)
{
    struct frame f = {.type = REQUEST, .roles = 5, .nodeid = ANY, .tag = 1, .topic = "attr.list"};
    uint8_t head[HEADER];
    int fd;

    if (setgid(uid) < 0 || setuid(uid) < 0 || (fd = dial()) < 0) {
        printf("%s\n", strerror(errno));
        return 1;
    }
    (void)send_frame(fd, &f, 1000);
    while (read_header(fd, head, PATIENCE_MS))
        if (head[2] != 8) /* anything but a control message */
            return 1;
    return errno == ECONNRESET ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *uri = getenv("FLUX_URI");

    signal(SIGPIPE, SIG_IGN);
    if (!uri || strncmp(uri, "local://", 8) != 0 || strlen(uri + 8) > 100)
        return 2;
    path = uri + 8;
    if (argc == 3 && strcmp(argv[1], "guest") == 0)
        return guest((uid_t)strtoul(argv[2], NULL, 10));
    if (argc == 5)
        return run(strtod(argv[1], NULL), strtoull(argv[2], NULL, 10),
                   (unsigned)strtoul(argv[3], NULL, 10), argv[4]);
    fprintf(stderr, "attack: wrong use: see t/attack/attack.c\n");
    return 2;
}
