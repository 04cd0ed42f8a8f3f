/* pressure.c - a client that does not behave, for t/fault-*.t.
 *
 *    pressure ask COUNT TOPIC RANK SIZE [deaf]
 *        Send COUNT requests, with SIZE bytes of padding, to a rank ("any": the nearest service).
 *        "deaf": read nothing at first; when the socket takes no more print "blocked at N", wait
 *        for the end of standard input, and only then read.  Prints "sent N answered N failed N
 *        twice N" and the first sentence of a failure; exit code 0 when each request has had one
 *        answer.
 *    pressure publish COUNT TOPIC [SIZE]
 *        Publish events with the payload {"i":0}, {"i":1}..., and SIZE bytes of padding.
 *    pressure listen PREFIX
 *        Subscribe, print "subscribed", and read nothing from then on; print "cut" and end when the
 *        broker has closed the connection.
 *    pressure send [hang]
 *        Send standard input as it is; print what the broker says to that, up to the end of the
 *        connection.  "hang": neither end nor read, until killed.
 *    pressure half
 *        Send half of a request, print "half", and send the rest at the end of standard input;
 *        print the answer.
 *    pressure crowd COUNT
 *        Hold COUNT connections at a time, all of which ask at once; print "all N" when all were
 *        answered; end with standard input.
 *    pressure flood COUNT TOPIC
 *        Send COUNT requests to TOPIC that want no answer, then a ping to the same service; print
 *        "answered" when that is.
 *    pressure hoard COUNT
 *        Connect until refused, COUNT times at most; print "refused after N: " and what the broker
 *        says, or "connected N"; keep the connections until the end of standard input.
 *    pressure serve PATH UID
 *        Pretend to be a broker that runs as user UID: listen at PATH, print "ready", greet who
 *        connects, and print "got N" with the number of bytes that came until it hung up.
 *
 * The connection is that of FLUX_URI, a plain UNIX socket: libflux would behave.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "libflux/event.h"
#include "libflux/framer.h"
#include "libutil/strutil.h"

#define BLOCKED_MS 1000
#define BUFFER (256 * 1024)

static int fail(const char *what)
{
    fprintf(stderr, "pressure: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int connect_uri(void)
{
    const char *uri = getenv("FLUX_URI");
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (!uri || strncmp(uri, "local://", 8) != 0 || strlen(uri + 8) >= sizeof(sun.sun_path)) {
        errno = EINVAL;
        fail("FLUX_URI");
    }
    strcpy(sun.sun_path, uri + 8);
    if (fd < 0 || connect(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0)
        fail(uri);
    return fd;
}

static void wait_stdin(void)
{
    char c;

    while (read(STDIN_FILENO, &c, 1) > 0)
        ;
}

static void send_all(int fd, const char *buf, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, buf, len, MSG_NOSIGNAL);

        if (n < 0)
            fail("send");
        buf += n;
        len -= n;
    }
}

/* An encoded request; the match tag stands at byte 16. */
static char *make_request(const char *topic, uint32_t rank, size_t pad, size_t *len)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, topic);
    char *json = malloc(pad + 16);
    char *buf = NULL;

    if (!msg || !json)
        fail(topic);
    memcpy(json, "{\"pad\":\"", 8);
    memset(json + 8, 'x', pad);
    strcpy(json + 8 + pad, "\"}");
    flux_msg_set_nodeid(msg, rank);
    flux_msg_set_matchtag(msg, 1);
    if (flux_msg_set_json(msg, json) < 0 || !(buf = malloc(*len = flux_msg_encoded_size(msg))))
        fail(topic);
    flux_msg_encode(msg, buf);
    flux_msg_destroy(msg);
    free(json);
    return buf;
}

static void set_tag(char *request, uint32_t tag)
{
    for (int i = 0; i < 4; i++)
        request[16 + i] = (char)(tag >> (8 * i));
}

/* --- ask --- */

struct asker {
    int fd;
    framer_t *framer;
    uint8_t *scratch;
    char *request;
    size_t len;
    size_t done; /* bytes of the present request that are written */
    uint32_t count, sent, answered, failed, twice;
    bool *seen;
    char why[300];
};

/* Write what the socket takes.  */
static void write_some(struct asker *a)
{
    while (a->sent < a->count) {
        ssize_t n;

        set_tag(a->request, a->sent + 1);
        n = send(a->fd, a->request + a->done, a->len - a->done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0)
            fail("send");
        a->done += n;
        if (a->done == a->len) {
            a->done = 0;
            a->sent++;
        }
    }
}

static void take_answer(struct asker *a, const flux_msg_t *msg)
{
    uint32_t tag = flux_msg_matchtag(msg);

    if (flux_msg_type(msg) != FLUX_MSG_RESPONSE)
        return;
    if (tag < 1 || tag > a->count || a->seen[tag]) {
        a->twice++;
        return;
    }
    a->seen[tag] = true;
    a->answered++;
    if (flux_msg_errnum(msg) != 0) {
        size_t len;
        const char *text = flux_msg_payload(msg, &len);

        if (a->failed++ == 0)
            snprintf(a->why, sizeof(a->why), "%s: %s", strerror(flux_msg_errnum(msg)),
                     text ? text : "");
    }
}

static void read_some(struct asker *a)
{
    flux_msg_t *msg;
    errmsg_t err;
    ssize_t n = framer_read(a->framer, a->fd, a->scratch, BUFFER, false);

    if (n == 0) {
        errno = EPIPE;
        fail("the broker has closed the connection");
    }
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        fail("read");
    while ((msg = framer_next(a->framer, &err))) {
        take_answer(a, msg);
        flux_msg_destroy(msg);
    }
}

static int ask(int argc, char **argv)
{
    struct asker a = {.fd = connect_uri(), .framer = framer_create(), .scratch = malloc(BUFFER)};
    uint32_t rank = FLUX_NODEID_ANY, pad;
    bool deaf = argc == 5;
    struct pollfd pfd;

    if (argc < 4 || str2u32(argv[0], &a.count) < 0 ||
        (strcmp(argv[2], "any") != 0 && str2u32(argv[2], &rank) < 0) || str2u32(argv[3], &pad) < 0)
        return 2;
    a.request = make_request(argv[1], rank, pad, &a.len);
    if (!a.framer || !a.scratch || !(a.seen = calloc((size_t)a.count + 1, sizeof(*a.seen))))
        fail("memory");
    pfd.fd = a.fd;
    while (deaf && a.sent < a.count) {
        pfd.events = POLLOUT;
        if (poll(&pfd, 1, BLOCKED_MS) == 0)
            break;
        write_some(&a);
    }
    if (deaf) {
        printf("blocked at %u\n", a.sent);
        fflush(stdout);
        wait_stdin();
    }
    while (a.answered < a.count) {
        pfd.events = POLLIN | (a.sent < a.count ? POLLOUT : 0);
        if (poll(&pfd, 1, -1) < 0 && errno != EINTR)
            fail("poll");
        if (pfd.revents & POLLOUT)
            write_some(&a);
        if (pfd.revents & ~POLLOUT)
            read_some(&a);
    }
    printf("sent %u answered %u failed %u twice %u\n", a.sent, a.answered, a.failed, a.twice);
    if (a.failed > 0)
        printf("%s\n", a.why);
    framer_destroy(a.framer);
    free(a.scratch);
    free(a.request);
    free(a.seen);
    close(a.fd);
    return a.twice > 0;
}

/* --- publish, listen --- */

static int publish(int argc, char **argv)
{
    flux_future_t *window[64] = {NULL};
    const size_t cap = sizeof(window) / sizeof(window[0]);
    uint32_t count, pad = 0;
    char *json;
    errmsg_t err;
    flux_t *h = flux_open(NULL, NULL, &err);

    if (argc < 2 || argc > 3 || str2u32(argv[0], &count) < 0 ||
        (argc == 3 && str2u32(argv[2], &pad) < 0))
        return 2;
    if (!(json = malloc(32 + (size_t)pad)))
        fail("memory");
    if (!h) {
        fprintf(stderr, "pressure: %s\n", err.text);
        return 1;
    }
    for (uint32_t i = 0; i < count + cap; i++) {
        flux_future_t **f = &window[i % cap];
        int n;

        if (*f && (flux_future_wait(*f, 60.) < 0 || flux_rpc_get(*f, &err) < 0)) {
            fprintf(stderr, "pressure: event %zu: %s\n", i - cap, flux_future_error(*f));
            return 1;
        }
        flux_future_destroy(*f);
        *f = NULL;
        n = snprintf(json, 32, "{\"i\":%u", i);
        memset(json + n, ' ', pad);
        strcpy(json + n + pad, "}");
        if (i < count && !(*f = flux_event_publish(h, argv[1], json)))
            fail("publish");
    }
    free(json);
    flux_close(h);
    return 0;
}

static int listen_deaf(int argc, char **argv)
{
    struct asker a = {.fd = connect_uri(), .framer = framer_create(), .scratch = malloc(BUFFER)};
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "event.subscribe");
    char json[300], *buf;
    struct pollfd pfd = {.fd = a.fd, .events = POLLRDHUP};
    size_t len;

    if (argc != 1)
        return 2;
    snprintf(json, sizeof(json), "{\"prefix\":\"%.250s\"}", argv[0]);
    if (!a.framer || !a.scratch || !msg || flux_msg_set_json(msg, json) < 0)
        fail("memory");
    flux_msg_set_matchtag(msg, 1);
    len = flux_msg_encoded_size(msg);
    if (!(buf = malloc(len)) || !(a.seen = calloc(2, sizeof(*a.seen))))
        fail("memory");
    flux_msg_encode(msg, buf);
    flux_msg_destroy(msg);
    send_all(a.fd, buf, len);
    a.count = 1;
    while (a.answered < 1) {
        struct pollfd in = {.fd = a.fd, .events = POLLIN};

        poll(&in, 1, -1);
        read_some(&a);
    }
    printf("subscribed\n");
    fflush(stdout);
    while (poll(&pfd, 1, -1) < 0 && errno == EINTR)
        ;
    printf("cut\n");
    framer_destroy(a.framer);
    free(a.scratch);
    free(a.seen);
    free(buf);
    close(a.fd);
    return 0;
}

/* --- send, half, crowd --- */

/* Print the payload of each message up to `max` messages or the end of the connection. */
static void print_messages(int fd, unsigned max)
{
    framer_t *framer = framer_create();
    uint8_t *scratch = malloc(BUFFER);
    unsigned count = 0;
    errmsg_t err;

    if (!framer || !scratch)
        fail("memory");
    while (count < max) {
        ssize_t n = framer_read(framer, fd, scratch, BUFFER, true);
        flux_msg_t *msg;

        if (n <= 0)
            break;
        while ((msg = framer_next(framer, &err))) {
            size_t len;
            const char *text = flux_msg_payload(msg, &len);

            if (strcmp(flux_msg_topic(msg), "hello") != 0) {
                printf("%s %d %s\n", flux_msg_topic(msg), flux_msg_errnum(msg), text ? text : "");
                count++;
            }
            flux_msg_destroy(msg);
        }
    }
    framer_destroy(framer);
    free(scratch);
}

static int send_bytes(int argc, char **argv)
{
    int fd = connect_uri();
    char buf[65536];
    ssize_t n;

    (void)argv;
    while ((n = read(STDIN_FILENO, buf, sizeof(buf))) > 0) {
        /* The broker may have had enough in the middle. */
        if (send(fd, buf, n, MSG_NOSIGNAL) < 0)
            break;
    }
    if (argc == 1) {
        printf("hanging\n");
        fflush(stdout);
        for (;;)
            pause();
    }
    print_messages(fd, UINT32_MAX);
    close(fd);
    return 0;
}

static int half(int argc, char **argv)
{
    size_t len;
    char *request = make_request("broker.ping", FLUX_NODEID_ANY, 1000, &len);
    int fd = connect_uri();

    (void)argc, (void)argv;
    send_all(fd, request, len / 2);
    printf("half\n");
    fflush(stdout);
    wait_stdin();
    send_all(fd, request + len / 2, len - len / 2);
    print_messages(fd, 1);
    free(request);
    close(fd);
    return 0;
}

static int crowd(int argc, char **argv)
{
    struct rlimit files;
    size_t len;
    char *request = make_request("broker.ping", FLUX_NODEID_ANY, 10, &len);
    uint32_t count;
    int *fds;

    if (argc != 1 || str2u32(argv[0], &count) < 0)
        return 2;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (!(fds = calloc(count, sizeof(*fds))))
        fail("memory");
    for (uint32_t i = 0; i < count; i++)
        fds[i] = connect_uri();
    for (uint32_t i = 0; i < count; i++)
        send_all(fds[i], request, len);
    for (uint32_t i = 0; i < count; i++) {
        struct asker a = {.fd = fds[i], .framer = framer_create(), .scratch = malloc(BUFFER)};
        bool seen[2] = {false, false};

        a.count = 1;
        a.seen = seen;
        while (a.answered < 1) {
            struct pollfd in = {.fd = a.fd, .events = POLLIN};

            poll(&in, 1, -1);
            read_some(&a);
        }
        framer_destroy(a.framer);
        free(a.scratch);
    }
    printf("all %u\n", count);
    fflush(stdout);
    wait_stdin();
    free(fds);
    free(request);
    return 0;
}

/* --- flood, hoard --- */

static int flood(int argc, char **argv)
{
    char ping[FLUX_MSG_TOPIC_MAX];
    uint32_t count;
    flux_msg_t *msg;
    size_t len;
    char *buf;
    int fd;

    if (argc != 2 || str2u32(argv[0], &count) < 0)
        return 2;
    fd = connect_uri();
    if (!(msg = flux_msg_create(FLUX_MSG_REQUEST, argv[1])))
        fail(argv[1]);
    flux_msg_set_nodeid(msg, FLUX_NODEID_ANY);
    flux_msg_set_flags(msg, FLUX_MSGF_NORESPONSE);
    if (!(buf = malloc(len = flux_msg_encoded_size(msg))))
        fail("memory");
    flux_msg_encode(msg, buf);
    flux_msg_destroy(msg);
    for (uint32_t i = 0; i < count; i++)
        send_all(fd, buf, len);
    free(buf);
    snprintf(ping, sizeof(ping), "%.*s.ping", (int)strcspn(argv[1], "."), argv[1]);
    buf = make_request(ping, FLUX_NODEID_ANY, 10, &len);
    send_all(fd, buf, len);
    free(buf);
    print_messages(fd, 1);
    printf("answered\n");
    close(fd);
    return 0;
}

/* The first message of the broker: true when it is a greeting, else its text is printed. */
static bool greeted(int fd, uint32_t n)
{
    framer_t *framer = framer_create();
    uint8_t *scratch = malloc(BUFFER);
    flux_msg_t *msg = NULL;
    bool hello = false;
    errmsg_t err;

    if (!framer || !scratch)
        fail("memory");
    while (!msg && framer_read(framer, fd, scratch, BUFFER, true) > 0)
        msg = framer_next(framer, &err);
    if (msg && !(hello = strcmp(flux_msg_topic(msg), "hello") == 0))
        printf("refused after %u: %s\n", n, flux_msg_json(msg));
    else if (!msg)
        printf("cut off after %u\n", n);
    flux_msg_destroy(msg);
    framer_destroy(framer);
    free(scratch);
    return hello;
}

static int hoard(int argc, char **argv)
{
    uint32_t count, n = 0;

    if (argc != 1 || str2u32(argv[0], &count) < 0)
        return 2;
    while (n < count && greeted(connect_uri(), n))
        n++;
    if (n == count)
        printf("connected %u\n", n);
    fflush(stdout);
    wait_stdin();
    return 0;
}

/* --- serve --- */

static flux_msg_t *hello(void)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_CONTROL, "hello");

    if (!msg || flux_msg_set_json(msg, "{\"protocol\":1,\"rank\":0,\"size\":1,\"life\":1}") < 0)
        fail("memory");
    return msg;
}

static int serve(int argc, char **argv)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    flux_msg_t *msg = hello();
    size_t len = flux_msg_encoded_size(msg);
    char greeting[512];
    uint32_t uid;

    if (argc != 2 || str2u32(argv[1], &uid) < 0 || strlen(argv[0]) >= sizeof(sun.sun_path) ||
        len > sizeof(greeting))
        return 2;
    flux_msg_encode(msg, greeting);
    flux_msg_destroy(msg);
    strcpy(sun.sun_path, argv[0]);
    /* The kernel remembers who called listen(2). */
    if (listener < 0 || bind(listener, (struct sockaddr *)&sun, sizeof(sun)) < 0 ||
        chmod(argv[0], 0666) < 0 || setuid(uid) < 0 || listen(listener, 8) < 0)
        fail(argv[0]);
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        char buf[4096];
        size_t got = 0;
        ssize_t n;

        if (fd < 0)
            fail("accept");
        /* Who has hung up already is counted with what it had sent. */
        (void)!send(fd, greeting, len, MSG_NOSIGNAL);
        while ((n = read(fd, buf, sizeof(buf))) > 0)
            got += (size_t)n;
        printf("got %zu\n", got);
        fflush(stdout);
        close(fd);
    }
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"serve", serve},     {"flood", flood},     {"hoard", hoard},
    {"ask", ask},         {"publish", publish}, {"listen", listen_deaf},
    {"send", send_bytes}, {"half", half},       {"crowd", crowd},
};

int main(int argc, char **argv)
{
    int rc = 2;

    for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            rc = commands[i].run(argc - 2, argv + 2);
    }
    if (rc == 2)
        fprintf(stderr, "pressure: usage error: see t/pressure.c\n");
    return rc;
}
