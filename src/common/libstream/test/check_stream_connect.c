/* check_stream_connect.c - a reader connects to all writers at the same time.  The test is the
 * module, and all writers. */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "libflux/test/fake.h"
#include "libstream/far_addr.h"
#include "libstream/far_key.h"
#include "libstream/far_msg.h"
#include "libstream/outlet.h"
#include "libstream/stream.h"
#include "libutil/clock.h"
#include "libutil/hex.h"
#include "libutil/test/suite.h"

#define WRITERS 16

static const unsigned char key[KNOCK_KEY_LEN] = "the capability of this stream...";

struct bed {
    struct fake *f;
    bool here;     /* writers of this host, else by TCP */
    unsigned n;    /* writers */
    unsigned next; /* writers of the next run, behind them; 0: there is none */
    bool half;     /* only the first writer has come when the next run begins */
    unsigned run;  /* of these */
    unsigned requests;
    uint64_t reader; /* of the last request of a reader, */
    unsigned asked;  /* and its place among all messages */
    int listen[WRITERS];
    char address[WRITERS][FAR_ADDR_MAX];
    outlet_t *out[WRITERS];
    errmsg_t err; /* of the reader */
    errmsg_t why; /* of the writers' thread */
};

/* Answer the last request with writers, the first of which is number `at`. */
static void answer(struct bed *b, unsigned at, unsigned n, unsigned size)
{
    struct far_grant g = {
        .stream = "s", .reader = b->reader, .expires = (uint64_t)clock_wall() + 60};
    unsigned char secret[FAR_KEY_LEN];
    char text[2 * FAR_KEY_LEN + 1];
    json_t *writers = json_array();
    json_t *o;
    char *json;

    far_key_grant(secret, key, &g);
    *hex_encode(text, secret, sizeof(secret)) = '\0';
    for (unsigned i = 0; i < n; i++)
        json_array_append_new(
            writers, json_pack("{s:I s:I s:i s:i s:s s:s s:s s:b s:I s:I}", "writer",
                               (json_int_t)(at + i) + 1, "rank", (json_int_t)i, "epoch", 1, "run",
                               at > 0 ? (int)b->run : 0, "host", "h", "address", b->address[at + i],
                               "key", text, "far", !b->here || at > 0, "reader",
                               (json_int_t)g.reader, "expires", (json_int_t)g.expires));
    o = json_pack("{s:i s:b s:i s:[] s:o}", "size", (int)size, "off", 0, "born", 1, "gone",
                  "writers", writers);
    json = json_dumps(o, 0);
    json_decref(o);
    fake_inbox(b->f, fake_answer(b->f, b->asked, 0, FLUX_MSGF_STREAMING, json));
    free(json);
}

static void module_hook(struct fake *f, flux_msg_t *msg)
{
    struct bed *b = f->user;
    json_t *o;

    fake_keep(f, msg);
    if (strcmp(flux_msg_topic(msg), "stream.read") != 0) {
        if (!flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE))
            fake_inbox(f, fake_answer(f, f->nsent - 1, 0, 0, NULL));
        return;
    }
    o = json_loads(flux_msg_json(msg), 0, NULL);
    b->reader = (uint64_t)json_integer_value(json_object_get(o, "reader"));
    b->asked = (unsigned)f->nsent - 1;
    json_decref(o);
    if (b->requests++ == 0 || b->next == 0)
        answer(b, 0, b->half ? 1 : b->n, b->n);
    if (b->next > 0 && (b->half || b->requests > 1))
        answer(b, b->n, b->next, b->next);
}

static void bed_init(struct bed *b, unsigned writers)
{
    *b = (struct bed){.n = writers, .f = fake_create()};
    b->f->hook = module_hook;
    b->f->user = b;
    for (unsigned i = 0; i < writers; i++) {
        b->listen[i] = far_addr_listen("127.0.0.1", NULL, b->address[i], &b->err);
        ck_assert_msg(b->listen[i] >= 0, "%s", b->err.text);
    }
}

static flux_stream_t *reader_open_as(struct bed *b, bool stay)
{
    const struct flux_stream_opts opts = {
        .transport = "tcp", .secure = "no", .share = "no", .timeout = 30., .stay = stay};

    return flux_stream_open(b->f->h, "s", FLUX_STREAM_READ, &opts, &b->err);
}

static flux_stream_t *reader_open(struct bed *b)
{
    return reader_open_as(b, false);
}

static int writer_step(struct bed *b, unsigned i, uint64_t step)
{
    void *buf;

    if (outlet_begin(b->out[i], step, 8, -1., &buf, &b->why) < 0)
        return -1;
    memset(buf, 0, 8);
    return outlet_commit(b->out[i], 8);
}

/* Open a writer that has this step. */
static int writer_open_at(struct bed *b, unsigned i, uint64_t step)
{
    const struct outlet_opts opts = {
        .key = key,
        .space = 64 << 20,
        .keep = 1,
        .far = {.listen = b->listen[i], .stream = "s", .linger = 0.01}};

    b->out[i] = outlet_create(&opts, &b->why);
    return b->out[i] ? writer_step(b, i, step) : -1;
}

static int writer_open(struct bed *b, unsigned i)
{
    return writer_open_at(b, i, 5);
}

/* The writers answer nobody until somebody is at the door of each of them. */
static void *open_late(void *arg)
{
    struct bed *b = arg;

    for (unsigned i = 0; i < b->n; i++) {
        struct pollfd p = {.fd = b->listen[i], .events = POLLIN};

        if (poll(&p, 1, 10000) != 1)
            errmsg_set(&b->why, "nobody connects to writer %u before others have answered", i);
    }
    for (unsigned i = 0; i < b->n; i++) {
        if (writer_open(b, i) < 0)
            break;
    }
    return NULL;
}

START_TEST(together)
{
    struct bed b;
    flux_stream_t *s;
    pthread_t t;
    uint64_t step;
    int rc;

    bed_init(&b, WRITERS);
    ck_assert_int_eq(pthread_create(&t, NULL, open_late, &b), 0);
    s = reader_open(&b);
    pthread_join(t, NULL);
    ck_assert_msg(!*b.why.text, "%s", b.why.text);
    ck_assert_msg(s != NULL, "%s", b.err.text);
    rc = flux_stream_begin_step(s, FLUX_STREAM_NEXT, 30., &step, &b.err);
    ck_assert_msg(rc == 1, "%s", b.err.text);
    ck_assert_uint_eq(step, 5);
    flux_stream_close(s);
    for (unsigned i = 0; i < b.n; i++)
        outlet_destroy(b.out[i]);
    fake_free(b.f);
}
END_TEST

/* A writer that is gone is noticed although another one does not answer. */
START_TEST(gone)
{
    char text[2 * FAR_ADDR_MAX];
    struct bed b;

    bed_init(&b, 3);
    close(b.listen[1]);
    snprintf(text, sizeof(text),
             "stream 's': cannot connect to the writer of a stream at %s: Connection refused",
             b.address[1]);
    ck_assert_ptr_null(reader_open(&b));
    ck_assert_int_eq(errno, ECONNREFUSED);
    ck_assert_str_eq(b.err.text, text);
    close(b.listen[0]);
    close(b.listen[2]);
    fake_free(b.f);
}
END_TEST

/* Writers of this host, which answer nobody until all have a knock, and then end. */
static void *end_late(void *arg)
{
    struct bed *b = arg;
    int fd[WRITERS];

    for (unsigned i = 0; i < b->n; i++) {
        struct pollfd p = {.fd = b->listen[i], .events = POLLIN};
        unsigned char knock[KNOCK_MAX];

        fd[i] = poll(&p, 1, 10000) == 1 ? accept(p.fd, NULL, NULL) : -1;
        if (fd[i] < 0 || recv(fd[i], knock, sizeof(knock), 0) <= 0)
            errmsg_set(&b->why, "nobody knocks at writer %u before others have answered", i);
    }
    for (unsigned i = 0; i < b->n; i++) {
        close(b->listen[i]);
        close(fd[i]);
    }
    return NULL;
}

static int listen_here(char address[FAR_ADDR_MAX], unsigned i)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    size_t len =
        (size_t)snprintf(address, FAR_ADDR_MAX, "check_stream_connect-%d-%u", (int)getpid(), i);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    memcpy(sun.sun_path + 1, address, len);
    len += offsetof(struct sockaddr_un, sun_path) + 1;
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&sun, (socklen_t)len), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    return fd;
}

START_TEST(together_here)
{
    struct bed b = {.n = WRITERS, .here = true, .f = fake_create()};
    pthread_t t;

    b.f->hook = module_hook;
    b.f->user = &b;
    for (unsigned i = 0; i < b.n; i++)
        b.listen[i] = listen_here(b.address[i], i);
    ck_assert_int_eq(pthread_create(&t, NULL, end_late, &b), 0);
    ck_assert_ptr_null(reader_open(&b));
    ck_assert_int_eq(errno, ECONNREFUSED); /* they are named once more */
    pthread_join(t, NULL);
    ck_assert_msg(!*b.why.text, "%s", b.why.text);
    fake_free(b.f);
}
END_TEST

/* A writer that dies when it has read what the reader says, before it answers. */
static void *die_greeted(void *arg)
{
    struct bed *b = arg;
    int fd = accept(b->listen[0], NULL, NULL);
    unsigned char greeting[FAR_GREETING_LEN];
    unsigned char hello[FAR_HELLO_LEN];

    close(b->listen[0]);
    far_greeting_make(greeting);
    if (send(fd, greeting, sizeof(greeting), MSG_NOSIGNAL) != sizeof(greeting) ||
        recv(fd, hello, sizeof(hello), MSG_WAITALL) != sizeof(hello))
        errmsg_set(&b->why, "the reader has not said its hello");
    close(fd);
    return NULL;
}

/* A writer that leaves while a reader is at its door, or just before, is one that has left: the
 * reader gets the next one. */
START_TEST(leaves)
{
    struct bed b;
    flux_stream_t *s;
    pthread_t t;
    uint64_t step;
    int rc;

    bed_init(&b, 2);
    b.n = b.next = 1;
    b.here = _i == 0;
    ck_assert_msg(writer_open(&b, 1) == 0, "%s", b.why.text);
    if (_i < 2)
        close(b.listen[0]);
    else
        ck_assert_int_eq(fcntl(b.listen[0], F_SETFL, 0), 0);
    if (b.here)
        b.listen[0] = listen_here(b.address[0], 0);
    if (_i != 1)
        ck_assert_int_eq(pthread_create(&t, NULL, b.here ? end_late : die_greeted, &b), 0);
    s = reader_open(&b);
    ck_assert_msg(s != NULL, "%s", b.err.text);
    if (_i != 1)
        pthread_join(t, NULL);
    ck_assert_msg(!*b.why.text, "%s", b.why.text);
    rc = flux_stream_begin_step(s, FLUX_STREAM_NEXT, 30., &step, &b.err);
    ck_assert_msg(rc == 1, "%s", b.err.text);
    ck_assert_uint_eq(step, 5);
    flux_stream_close(s);
    outlet_destroy(b.out[1]);
    fake_free(b.f);
}
END_TEST

/* All writers leave while a reader is at their doors, or waits for the last of them, and the next
 * run has more of them, or fewer. */
START_TEST(resized)
{
    static const struct {
        unsigned n, next;
        bool half;
    } runs[] = {{1, 3, false}, {2, 1, false}, {2, 1, true}, {2, 3, true}};
    unsigned n = runs[_i].n;
    unsigned next = runs[_i].next;
    struct bed b;
    flux_stream_t *s;
    uint64_t step;
    int rc;

    bed_init(&b, n + next);
    b.n = n;
    b.next = next;
    b.half = runs[_i].half;
    for (unsigned i = 0; i < n + next; i++) {
        if (i >= n || (b.half && i == 0))
            ck_assert_msg(writer_open(&b, i) == 0, "%s", b.why.text);
        else
            close(b.listen[i]);
    }
    s = reader_open(&b);
    ck_assert_msg(s != NULL, "%s", b.err.text);
    ck_assert_uint_eq(flux_stream_writers(s), next);
    rc = flux_stream_begin_step(s, FLUX_STREAM_NEXT, 30., &step, &b.err);
    ck_assert_msg(rc == 1, "%s", b.err.text);
    ck_assert_uint_eq(step, 5);
    flux_stream_close(s);
    for (unsigned i = 0; i < n + next; i++)
        outlet_destroy(b.out[i]);
    fake_free(b.f);
}
END_TEST

/* A reader that stays goes on with a run that has more writers, or fewer, and that continues the
 * steps or begins anew; what one of the earlier writers alone has published cannot be complete. */
START_TEST(resized_later)
{
    static const struct {
        unsigned n, next, run;
        uint64_t step;
    } runs[] = {{1, 3, 0, 6}, {1, 3, 1, 0}, {3, 1, 0, 6}, {3, 1, 1, 0}, {2, 3, 0, 7}, {2, 3, 7, 5}};
    unsigned n = runs[_i].n;
    unsigned next = runs[_i].next;
    struct bed b;
    flux_stream_t *s;
    uint64_t step;

    bed_init(&b, n + next);
    b.n = n;
    b.run = runs[_i].run;
    for (unsigned i = 0; i < n; i++)
        ck_assert_msg(writer_open(&b, i) == 0, "%s", b.why.text);
    s = reader_open_as(&b, true);
    ck_assert_msg(s != NULL, "%s", b.err.text);
    ck_assert_int_eq(flux_stream_begin_step(s, FLUX_STREAM_NEXT, 30., &step, &b.err), 1);
    ck_assert_uint_eq(step, 5);
    if (n > 1)
        ck_assert_msg(writer_step(&b, n - 1, 6) == 0, "%s", b.why.text);
    ck_assert_int_eq(flux_stream_end_step(s, 0., &b.err), 0);
    for (unsigned i = 0; i < n; i++)
        outlet_destroy(b.out[i]);
    for (unsigned i = n; i < n + next; i++) {
        ck_assert_msg(writer_open_at(&b, i, runs[_i].step) == 0, "%s", b.why.text);
    }
    answer(&b, n, next, next);
    ck_assert_msg(flux_stream_begin_step(s, FLUX_STREAM_NEXT, 30., &step, &b.err) == 1, "%s",
                  b.err.text);
    ck_assert_uint_eq(step, runs[_i].step);
    ck_assert_uint_eq(flux_stream_writers(s), next);
    for (uint32_t i = 0; i < next; i++)
        ck_assert_ptr_null(flux_stream_var(s, i, 0));
    flux_stream_close(s);
    for (unsigned i = n; i < n + next; i++)
        outlet_destroy(b.out[i]);
    fake_free(b.f);
}
END_TEST

int main(void)
{
    const TTest *const once[] = {together, together_here, gone};
    TCase *tc = tcase_create("stream_connect");

    tcase_set_timeout(tc, 60);
    for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++)
        tcase_add_test(tc, once[i]);
    tcase_add_loop_test(tc, leaves, 0, 3);
    tcase_add_loop_test(tc, resized, 0, 4);
    tcase_add_loop_test(tc, resized_later, 0, 6);
    return run_case("stream_connect", tc);
}
