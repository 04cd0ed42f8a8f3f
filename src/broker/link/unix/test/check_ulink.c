/* check_ulink.c - the local link: what each link does, and who is refused. */
#define TRANSPORT transport_unix
#define LOCAL "unix://"

#include "broker/link/test/common.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "broker/control_wire.h"
#include "broker/link/unix/ulink_private.h"

/* A connection to the socket of rank `i`. */
static int stranger(uint32_t i)
{
    struct sockaddr_un sun;
    socklen_t len;
    errmsg_t err;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    ck_assert_int_eq(ulink_address(transport->ops->tree_uri(node[i].link), &sun, &len, &err), 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&sun, len), 0);
    return fd;
}

static void write_word(int fd, enum ulink_word word, const void *in)
{
    flux_msg_t *msg = ulink_word_create(word, in);
    outq_t *q = outq_create();

    ck_assert_int_eq(outq_send(q, fd, msg), 0);
    outq_destroy(q);
    flux_msg_destroy(msg);
}

/* Run until the other end has closed, and return the reason that it has sent. */
static void hear_reason(int fd, char *why, size_t size)
{
    static char scratch[FRAMER_SCRATCH];
    framer_t *in = framer_create();
    struct ulink_reason r;
    flux_msg_t *msg;
    errmsg_t err;
    json_t *owner;

    snprintf(why, size, "%s", "");
    for (int i = 0; i < PATIENCE * 100; i++) {
        ssize_t n = framer_read(in, fd, scratch, sizeof(scratch), false);

        if (n == 0 || (n < 0 && errno == ECONNRESET)) /* before it has read all */
            break;
        while (n > 0 && (msg = framer_next(in, &err))) {
            owner = ulink_word_decode(ULINK_REFUSED, msg, &r, &err);
            ck_assert_ptr_nonnull(owner);
            snprintf(why, size, "%s", r.reason);
            json_decref(owner);
            flux_msg_destroy(msg);
        }
        run_for(0.01);
    }
    framer_destroy(in);
    close(fd);
}

/* Rank 2 stays away. */
static void two_of_three(bool curve)
{
    errmsg_t err = {""};

    for (uint32_t i = 0; i < 3; i++)
        create(i, 3, "flat", curve);
    for (uint32_t i = 0; i < 3; i++)
        bind_node(i, false);
    for (uint32_t i = 0; i < 2; i++) {
        allow_all(i);
        connect_node(i);
        ck_assert_int_eq(transport->ops->start(node[i].link, &err), 0);
    }
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
}

/* A broker below this one that is not its child, and has no ticket: its key decides. */
START_TEST(late)
{
    struct ulink_hello hello = {ULINK_VERSION, 3, "tree", node[1].key.pub};
    char why[200];
    int fd;

    two_of_three(true);
    write_word(fd = stranger(0), ULINK_HELLO, &hello);
    hear_reason(fd, why, sizeof(why));
    ck_assert_ptr_nonnull(strstr(why, "rank 3 is not a neighbor"));
    node[0].core.keys[3] = node[2].key.pub;
    node[0].core.adopts = 3;
    write_word(fd = stranger(0), ULINK_HELLO, &hello);
    hear_reason(fd, why, sizeof(why));
    ck_assert_ptr_nonnull(strstr(why, "rank 3 is not a neighbor"));
    hello.key = node[2].key.pub;
    node[0].core.adopts = 2;
    write_word(fd = stranger(0), ULINK_HELLO, &hello);
    hear_reason(fd, why, sizeof(why));
    ck_assert_ptr_nonnull(strstr(why, "rank 3 is not taken over here"));
    ck_assert_uint_eq(node[0].core.event_up[3], 0);
    node[0].core.adopts = 3;
    write_word(fd = stranger(0), ULINK_HELLO, &hello);
    ck_assert(run_until(&node[0].core.event_up[3], 1, PATIENCE));
    close(fd);
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][3], 1, PATIENCE));
    /* The next one of its rank. */
    write_word(fd = stranger(0), ULINK_HELLO, &hello);
    ck_assert(run_until(&node[0].core.event_up[3], 2, PATIENCE));
    ck_assert_uint_eq(node[0].core.back[CORE_TREE][3], 1);
    close(fd);
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][3], 2, PATIENCE));
}
END_TEST

START_TEST(refused)
{
    struct ulink_hello hello = {ULINK_VERSION, 2, "tree", node[2].key.pub};
    char why[200];
    int fd;

    two_of_three(true);
    hello.key = node[1].key.pub;
    write_word(fd = stranger(0), ULINK_HELLO, &hello);
    hear_reason(fd, why, sizeof(why));
    ck_assert_ptr_nonnull(strstr(why, "the key is not that of rank 2: start it with the key"));
    ck_assert_ptr_nonnull(strstr(node[0].log, why));
    hello.key = "";
    write_word(fd = stranger(0), ULINK_HELLO, &hello);
    hear_reason(fd, why, sizeof(why));
    ck_assert_ptr_nonnull(
        strstr(why, "it uses no keys (curve), and this broker does: use the same"));
    hello.key = node[1].key.pub;
    hello.rank = 1;
    write_word(fd = stranger(0), ULINK_HELLO, &hello);
    hear_reason(fd, why, sizeof(why));
    ck_assert_ptr_nonnull(strstr(why, "rank 1 is connected already: stop one of"));
    hello.rank = 7;
    write_word(fd = stranger(0), ULINK_HELLO, &hello);
    hear_reason(fd, why, sizeof(why));
    ck_assert_ptr_nonnull(strstr(why, "rank 7 is not a neighbor"));
    hello.rank = 2;
    hello.plane = "table";
    write_word(fd = stranger(0), ULINK_HELLO, &hello);
    hear_reason(fd, why, sizeof(why));
    ck_assert_ptr_nonnull(strstr(why, "rank 2 is not a neighbor"));
    hello.version = 99;
    write_word(fd = stranger(0), ULINK_HELLO, &hello);
    hear_reason(fd, why, sizeof(why));
    ck_assert_ptr_nonnull(strstr(why, "is 99, here it is 2: start the same version"));
    write_word(fd = stranger(0), ULINK_BEAT, NULL);
    hear_reason(fd, why, sizeof(why));
    ck_assert_ptr_nonnull(strstr(why, "link.hello"));
    /* A message of another version. */
    fd = stranger(0);
    ck_assert_int_eq(write(fd, "\xf1\x01\x01                                             ", 48),
                     48);
    hear_reason(fd, why, sizeof(why));
    ck_assert_ptr_nonnull(strstr(why, "the message format is 1, and not 2"));
    /* What is not a message. */
    fd = stranger(0);
    ck_assert_int_eq(write(fd, "GET / HTTP/1.0\r\n\r\n                              ", 48), 48);
    hear_reason(fd, why, sizeof(why));
    ck_assert_str_ne(why, "");
    ck_assert_uint_eq(node[0].core.got[CORE_TREE], 0);
    /* The right one is welcome after all that. */
    hello = (struct ulink_hello){ULINK_VERSION, 2, "tree", node[2].key.pub};
    write_word(fd = stranger(0), ULINK_HELLO, &hello);
    ck_assert(run_until(&node[0].core.event_up[2], 1, PATIENCE));
    close(fd);
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][2], 1, PATIENCE));
    /* Another one of its rank takes its place, if it has the key. */
    hello.key = node[1].key.pub;
    write_word(fd = stranger(0), ULINK_HELLO, &hello);
    hear_reason(fd, why, sizeof(why));
    ck_assert_ptr_nonnull(strstr(why, "the key is not that of rank 2: start it with the key"));
    ck_assert_uint_eq(node[0].core.back[CORE_TREE][2], 0);
    hello.key = node[2].key.pub;
    write_word(fd = stranger(0), ULINK_HELLO, &hello);
    ck_assert(run_until(&node[0].core.back[CORE_TREE][2], 1, PATIENCE));
    ck_assert(run_until(&node[0].core.event_up[2], 2, PATIENCE));
    close(fd);
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][2], 2, PATIENCE));
}
END_TEST

/* The predecessor on the ring is replaced while it is connected only if the session counts it as
 * lost. */
START_TEST(stale)
{
    struct ulink_hello hello = {ULINK_VERSION, 2, "ring", node[2].key.pub};
    char why[200];
    int first, fd;

    two_of_three(true);
    hello.key = node[2].key.pub;
    write_word(first = stranger(0), ULINK_HELLO, &hello);
    run_for(0.05);
    write_word(fd = stranger(0), ULINK_HELLO, &hello);
    hear_reason(fd, why, sizeof(why));
    ck_assert_ptr_nonnull(strstr(why, "rank 2 is connected already: stop one of"));
    node[0].core.stale = true;
    write_word(fd = stranger(0), ULINK_HELLO, &hello);
    ck_assert(run_until(&node[0].core.back[CORE_RING][2], 1, PATIENCE));
    ck_assert_uint_eq(node[0].core.lost[CORE_RING][2], 1);
    while (read(first, why, sizeof(why)) > 0)
        ;
    ck_assert_int_eq(read(first, why, sizeof(why)), 0); /* its connection was closed */
    close(first);
    close(fd);
    ck_assert(run_until(&node[0].core.lost[CORE_RING][2], 2, PATIENCE));
}
END_TEST

/* A broker whose parent has ended connects to the one above it, with a ticket, if the core there
 * takes it. */
static void moved_to(bool curve)
{
    struct control_card card = {.rank = 0};
    struct control_card gone = {.rank = 1, .event = ""};
    struct control_card other;
    struct ulink_hello hello = {ULINK_VERSION, 2, "tree", NULL};
    char path[200], why[200];
    int fd;
    errmsg_t err = {""};

    start_all(3, "chain", false, curve);
    ck_assert(run_until(&node[1].core.event_up[2], 1, PATIENCE));
    ck_assert_int_eq(transport->ops->card(node[0].link, &card), 0);
    ck_assert_uint_eq(strlen(card.ticket), ULINK_KEY_SIZE - 1);
    snprintf(path, sizeof(path), "%s", transport->ops->tree_uri(node[1].link));
    gone.tree = path;
    gone.key = gone.ticket = card.ticket;
    end_node(1);
    ck_assert(run_until(&node[2].core.lost[CORE_TREE][1], 1, PATIENCE));
    /* Nobody listens there. */
    ck_assert_int_eq(transport->ops->move(node[2].link, &gone, &err), 0);
    ck_assert(run_until(&node[2].core.lost[CORE_TREE][1], 2, PATIENCE));
    /* The core does not take it. */
    ck_assert_int_eq(transport->ops->move(node[2].link, &card, &err), 0);
    ck_assert(run_until(&node[2].core.lost[CORE_TREE][0], 1, PATIENCE));
    ck_assert_ptr_nonnull(strstr(node[0].log, "rank 2 is not taken over here"));
    /* The ticket is that of another broker. */
    node[0].core.adopts = 2;
    other = card;
    other.ticket = "0123456789012345678901234567890123456789";
    ck_assert_int_eq(transport->ops->move(node[2].link, &other, &err), 0);
    ck_assert(run_until(&node[2].core.lost[CORE_TREE][0], 2, PATIENCE));
    ck_assert_uint_eq(node[0].core.event_up[2], 0);
    /* The key is not that of the broker there. */
    other = card;
    other.key = "0123456789012345678901234567890123456789";
    if (curve) {
        ck_assert_int_eq(transport->ops->move(node[2].link, &other, &err), 0);
        ck_assert(run_until(&node[2].core.lost[CORE_TREE][0], 3, PATIENCE));
        ck_assert(run_until(&node[0].core.lost[CORE_TREE][2], 1, PATIENCE));
        ck_assert_ptr_nonnull(strstr(node[2].log, "is not the socket of rank 0"));
    }
    /* All is right, and it has tried before, when rank 0 was busy: the later connection counts. */
    ck_assert_int_eq(transport->ops->move(node[2].link, &card, &err), 0);
    ck_assert_int_eq(transport->ops->move(node[2].link, &card, &err), 0);
    ck_assert_int_eq(send_from(2, CORE_TREE, 0, 1, 10, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 1, PATIENCE));
    ck_assert_uint_eq(node[0].core.last_from, 2);
    publish(0, "some.thing");
    ck_assert_int_eq(send_from(0, CORE_TREE, 2, 1, 10, false), 0);
    ck_assert(run_until(&node[2].core.got[CORE_TREE], 1, PATIENCE));
    ck_assert_uint_eq(node[2].core.got[CORE_EVENT], 1);
    end_node(2);
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][2], curve ? 2 : 1, PATIENCE));
    /* A rank that was taken over has no key by which it could connect again. */
    hello.key = "";
    if (curve) {
        write_word(fd = stranger(0), ULINK_HELLO, &hello);
        hear_reason(fd, why, sizeof(why));
        ck_assert_ptr_nonnull(strstr(why, "rank 2 is not a neighbor"));
    }
    /* An address that is none. */
    other.tree = "tcp://127.0.0.1:1";
    ck_assert_int_eq(transport->ops->move(node[0].link, &other, &err), -1);
}

START_TEST(moved)
{
    moved_to(true);
}
END_TEST

START_TEST(moved_without_keys)
{
    moved_to(false);
}
END_TEST

/* Whoever listens at the address of the parent must have its key. */
START_TEST(false_parent)
{
    errmsg_t err = {""};

    create(0, 2, "flat", true);
    create(1, 2, "flat", true);
    bind_node(0, false);
    bind_node(1, false);
    allow_all(0);
    allow_all(1);
    node[0].key.pub[3] ^= 1; /* what rank 1 is told */
    connect_node(1);
    ck_assert_int_eq(transport->ops->start(node[0].link, &err), 0);
    ck_assert_int_eq(transport->ops->start(node[1].link, &err), 0);
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 1, 10, false), 0);
    ck_assert(run_until(&node[1].core.lost[CORE_TREE][0], 1, PATIENCE));
    ck_assert_uint_eq(node[0].core.got[CORE_TREE], 0);
    ck_assert_ptr_nonnull(strstr(node[1].log, "is not the socket of rank 0"));
}
END_TEST

/* A neighbor that begins later is found; its socket may be removed, and made again. */
START_TEST(later)
{
    errmsg_t err = {""};
    char path[200];

    for (uint32_t i = 0; i < 2; i++) {
        create(i, 2, "flat", true);
        bind_node(i, false);
    }
    allow_all(0);
    allow_all(1);
    connect_node(1);
    snprintf(path, sizeof(path), "%s", transport->ops->tree_uri(node[0].link) + strlen(LOCAL));
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(transport->ops->start(node[1].link, &err), 0);
    run_for(0.05);
    ck_assert_int_eq(transport->ops->rebind(node[0].link, &err), 1);
    ck_assert_int_eq(transport->ops->rebind(node[0].link, &err), 0);
    ck_assert_int_eq(transport->ops->start(node[0].link, &err), 0);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(transport->ops->rebind(node[0].link, &err), 1);
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 1, 10, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 1, PATIENCE));
}
END_TEST

/* A neighbor that is silent, with an open connection, is lost; also one in the ring that has never
 * said anything. */
START_TEST(silent)
{
    struct ulink_hello hello = {ULINK_VERSION, 2, "tree", ""};
    int fd;

    silent_for(1.);
    two_of_three(false);
    write_word(fd = stranger(0), ULINK_HELLO, &hello);
    ck_assert(run_until(&node[0].core.event_up[2], 1, PATIENCE));
    for (int i = 0; i < 30; i++) /* however much waits for it */
        ck_assert_int_eq(send_from(0, CORE_TREE, 2, 0, 1000000, true), 0);
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][2], 1, PATIENCE));
    ck_assert(run_until(&node[1].core.lost[CORE_RING][2], 1, PATIENCE));
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][1], 0);
    close(fd);
}
END_TEST

/* Count the words of each kind that have come on a connection. */
static void words_on(int fd, framer_t *in, unsigned *count)
{
    static char scratch[FRAMER_SCRATCH];
    flux_msg_t *msg;
    errmsg_t err;

    memset(count, 0, ULINK_NWORDS * sizeof(*count));
    while (framer_read(in, fd, scratch, sizeof(scratch), false) > 0) {
        while ((msg = framer_next(in, &err))) {
            for (int i = 0; i < ULINK_NWORDS; i++)
                count[i] += strcmp(flux_msg_topic(msg), ulink_words[i].topic) == 0;
            flux_msg_destroy(msg);
        }
    }
}

/* A neighbor that sends nothing, but shows its pulse, lives; it is lost when its pulse stops.
 * Signs of life are sent to it until it says that it views the pulse that was shown to it. */
START_TEST(pulse)
{
    struct ulink_hello hello = {ULINK_VERSION, 2, "tree", ""};
    flux_msg_t *msg = ulink_word_create(ULINK_PULSE, NULL);
    framer_t *in = framer_create();
    outq_t *q = outq_create();
    pulse_t *mine = pulse_create();
    pulse_view_t *view;
    unsigned count[ULINK_NWORDS];
    int fd;

    silent_for(1.);
    two_of_three(false);
    write_word(fd = stranger(0), ULINK_HELLO, &hello);
    ck_assert(run_until(&node[0].core.event_up[2], 1, PATIENCE));
    write_word(fd, ULINK_VIEWED, NULL); /* too early: nothing was shown */
    ck_assert_int_eq(outq_send_fd(q, fd, msg, pulse_fd(mine)), 0);
    framer_want_fd(in);
    for (int i = 0; i < 30; i++) {
        run_for(0.1);
        pulse_beat(mine);
        ck_assert_uint_eq(node[0].core.lost[CORE_TREE][2], 0);
    }
    words_on(fd, in, count);
    ck_assert_uint_eq(count[ULINK_VIEWED], 1);
    ck_assert_uint_eq(count[ULINK_PULSE], 1);
    ck_assert_uint_gt(count[ULINK_BEAT], 0);
    ck_assert_ptr_nonnull(view = pulse_view_create(framer_take_fd(in)));
    write_word(fd, ULINK_VIEWED, NULL);
    run_for(0.1);
    words_on(fd, in, count);
    for (int i = 0; i < 10; i++) {
        run_for(0.1);
        pulse_beat(mine);
    }
    words_on(fd, in, count);
    ck_assert_uint_eq(count[ULINK_BEAT], 0);
    ck_assert(pulse_view_ago(view) >= 0.);
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][2], 0);
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][2], 1, PATIENCE));
    close(fd);
    flux_msg_destroy(msg);
    framer_destroy(in);
    outq_destroy(q);
    pulse_view_destroy(view);
    pulse_destroy(mine);
}
END_TEST

/* A descriptor of something else, or none: the neighbor goes on to send its signs of life. */
START_TEST(no_pulse)
{
    struct ulink_hello hello = {ULINK_VERSION, 2, "tree", ""};
    flux_msg_t *msg = ulink_word_create(ULINK_PULSE, NULL);
    framer_t *in = framer_create();
    outq_t *q = outq_create();
    unsigned count[ULINK_NWORDS];
    int fd;

    silent_for(1.);
    two_of_three(false);
    write_word(fd = stranger(0), ULINK_HELLO, &hello);
    ck_assert(run_until(&node[0].core.event_up[2], 1, PATIENCE));
    ck_assert_int_eq(outq_send_fd(q, fd, msg, _i == 0 ? fd : -1), 0);
    for (int i = 0; i < 30; i++) {
        run_for(0.1);
        write_word(fd, ULINK_BEAT, NULL);
    }
    words_on(fd, in, count);
    ck_assert_uint_eq(count[ULINK_VIEWED], 0);
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][2], 0);
    close(fd);
    flux_msg_destroy(msg);
    framer_destroy(in);
    outq_destroy(q);
}
END_TEST

/* The next broker of the ring ended before anything could connect to it: it is lost, too. */
START_TEST(absent)
{
    errmsg_t err = {""};

    silent_for(1.);
    for (uint32_t i = 0; i < 2; i++) {
        create(i, 2, "flat", true);
        bind_node(i, false);
    }
    for (uint32_t i = 0; i < 2; i++) {
        allow_all(i);
        connect_node(i);
    }
    transport->ops->destroy(node[1].link);
    node[1].link = NULL;
    ck_assert_int_eq(transport->ops->start(node[0].link, &err), 0);
    ck_assert_int_eq(send_from(0, CORE_RING, 1, 1, 10, false), 0);
    ck_assert(run_until(&node[0].core.lost[CORE_RING][1], 1, PATIENCE));
    ck_assert_int_eq(send_from(0, CORE_RING, 1, 2, 10, false), -1);
    ck_assert_int_eq(errno, EHOSTUNREACH);
}
END_TEST

/* The first message of a new connection is small: no memory is allocated for a larger one. */
START_TEST(large_hello)
{
    static char zeros[100000];
    const size_t sizes[] = {sizeof(zeros), 60 * 1000 * 1000};
    const bool raw[] = {false, true};
    char why[200];

    two_of_three(true);
    for (int i = 0; i < 4; i++) {
        flux_msg_t *msg = flux_msg_create(FLUX_MSG_REQUEST, "link.hello");
        size_t size = sizes[i / 2], done = 0;
        char *payload = malloc(size + 1);
        uint8_t *frame;
        int fd = stranger(0);

        memset(payload, ' ', size);
        payload[size] = '\0';
        ck_assert_int_eq(raw[i % 2] ? flux_msg_take_raw(msg, payload, size)
                                    : flux_msg_set_json(msg, payload),
                         0);
        if (!raw[i % 2])
            free(payload);
        size = flux_msg_encoded_size(msg);
        frame = malloc(size);
        flux_msg_encode(msg, frame);
        /* Less than all of it: the rest is under way for ever. */
        while (done < size - 1) {
            ssize_t n = send(fd, frame + done, size - 1 - done, MSG_NOSIGNAL);

            if (n < 0)
                break; /* it has been refused, or the socket is full */
            done += (size_t)n;
        }
        hear_reason(fd, why, sizeof(why));
        ck_assert_msg(strstr(why, "too large"), "%d: %s", i, why);
        free(frame);
        flux_msg_destroy(msg);
    }
}
END_TEST

/* A child that reads nothing does not hold up its sibling, and the core hears that it has missed
 * events. */
START_TEST(slow_child)
{
    struct ulink_hello hello = {ULINK_VERSION, 2, "tree", ""};
    int fd;

    silent_for(60.);
    two_of_three(false);
    write_word(fd = stranger(0), ULINK_HELLO, &hello);
    ck_assert(run_until(&node[0].core.event_up[2], 1, PATIENCE));
    for (unsigned i = 0; i < 20; i++) {
        flux_msg_t *msg = flux_msg_create(FLUX_MSG_EVENT, "much");

        ck_assert_int_eq(flux_msg_take_raw(msg, calloc(1, 1000001), 1000000), 0);
        node[0].core.ops->publish(node[0].core.arg, msg);
        flux_msg_destroy(msg);
        ck_assert(run_until(&node[1].core.got[CORE_EVENT], i + 1, PATIENCE));
    }
    ck_assert_uint_gt(node[0].core.skipped, 0);
    close(fd);
}
END_TEST

START_TEST(errors)
{
    char uri[200];
    errmsg_t err = {""};

    create(0, 2, "flat", true);
    create(1, 2, "flat", true);
    ck_assert_int_eq(transport->ops->bind(node[0].link, "not-an-address", "", &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "not-an-address"));
    ck_assert_int_eq(transport->ops->allow(node[0].link, 7, node[1].key.pub, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "rank 7"));
    ck_assert_int_eq(transport->ops->allow(node[0].link, 1, "short", &err), -1);
    ck_assert_int_eq(
        transport->ops->connect(node[0].link, CORE_TREE, 1, "unix:///x", NULL, "short", &err), -1);
    bind_node(1, false);
    snprintf(uri, sizeof(uri), "%s", transport->ops->tree_uri(node[1].link));
    ck_assert_int_eq(transport->ops->bind(node[0].link, uri, "", &err), -1);
    ck_assert_msg(errno == EADDRINUSE, "%d %s", errno, err.text);
    transport->ops->destroy(NULL);
}
END_TEST

#define MANY 20000
static unsigned seen, most; /* messages to rank 0: before this pass of the reactor, of one pass */

static void pass_cb(void *arg)
{
    unsigned got = node[0].core.got[CORE_TREE];

    if (got - seen > most)
        most = got - seen;
    seen = got;
}

/* A neighbor that sends much leaves the loop to others in between; the order stays. */
START_TEST(many)
{
    queue_max = MANY;
    start_all(2, "flat", false, true);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    for (uint32_t tag = 1; tag <= MANY; tag++)
        ck_assert_int_eq(send_from(1, CORE_TREE, 0, tag, 1, false), 0);
    ck_assert_int_eq(flux_reactor_before_sleep(reactor, pass_cb, NULL), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], MANY, PATIENCE));
    ck_assert(node[0].core.ordered);
    ck_assert_uint_le(most, 500);
    /* The end of the connection comes after all messages. */
    for (uint32_t tag = 1; tag <= 1000; tag++)
        ck_assert_int_eq(send_from(1, CORE_TREE, 0, MANY + tag, 1, false), 0);
    transport->ops->destroy(node[1].link);
    node[1].link = NULL;
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][1], 1, PATIENCE));
    ck_assert_uint_eq(node[0].core.got[CORE_TREE], MANY + 1000);
    ck_assert(node[0].core.ordered);
}
END_TEST

/* What a neighbor sent before it closed its end comes first, although nothing can be written to it
 * any more: a child that says goodbye is not one that was lost. */
START_TEST(last_words)
{
    start_all(2, "flat", false, true);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    for (uint32_t tag = 1; tag <= 10; tag++)
        ck_assert_int_eq(send_from(1, CORE_TREE, 0, tag, 10, false), 0);
    transport->ops->destroy(node[1].link);
    node[1].link = NULL;
    ck_assert_int_eq(send_from(0, CORE_TREE, 1, 1, 10, false), 0);
    publish(0, "news");
    ck_assert(run_until(&node[0].core.lost[CORE_TREE][1], 1, PATIENCE));
    ck_assert_uint_eq(node[0].core.got[CORE_TREE], 10);
    ck_assert(run_until(&node[0].core.lost[CORE_RING][1], 1, PATIENCE));
}
END_TEST

/* One that refuses to hear, and goes on to talk, is lost all the same. */
START_TEST(deaf)
{
    struct ulink_hello hello = {ULINK_VERSION, 2, "tree", ""};
    int fd;

    silent_for(0.5);
    two_of_three(false);
    write_word(fd = stranger(0), ULINK_HELLO, &hello);
    ck_assert(run_until(&node[0].core.event_up[2], 1, PATIENCE));
    ck_assert_int_eq(shutdown(fd, SHUT_RD), 0);
    for (int i = 0; i < PATIENCE * 100 && node[0].core.lost[CORE_TREE][2] == 0; i++) {
        flux_msg_t *msg = ulink_word_create(ULINK_BEAT, NULL);
        outq_t *q = outq_create();

        (void)outq_send(q, fd, msg);
        outq_destroy(q);
        flux_msg_destroy(msg);
        publish(0, "news");
        run_for(0.01);
    }
    ck_assert_uint_eq(node[0].core.lost[CORE_TREE][2], 1);
    close(fd);
}
END_TEST

/* What waited for a lost neighbor takes no memory. */
START_TEST(lost_queue)
{
    struct ulink *l;

    start_all(2, "flat", false, false);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    while (send_from(1, CORE_TREE, 0, 0, 1000000, true) == 0)
        ;
    ck_assert(run_until(&node[1].core.lost[CORE_TREE][0], 1, PATIENCE));
    l = node[1].link;
    ck_assert_uint_eq(l->parent->out ? outq_bytes(l->parent->out) : 0, 0);
}
END_TEST

static void count_cb(void *arg)
{
    ++*(unsigned *)arg;
}

/* Without descriptors nobody is accepted, without a busy loop and with one line in the log. */
START_TEST(no_descriptors)
{
    struct ulink_hello hello = {ULINK_VERSION, 2, "tree", ""};
    struct rlimit old, low;
    unsigned passes = 0;
    int fd, spare;

    two_of_three(false);
    fd = stranger(0);
    ck_assert_int_ge(spare = dup(fd), 0);
    close(spare);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = (struct rlimit){(rlim_t)spare, old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
    ck_assert_int_eq(flux_reactor_before_sleep(reactor, count_cb, &passes), 0);
    ck_assert(run_until(&node[0].lines, 1, PATIENCE));
    run_for(0.5);
    ck_assert_uint_lt(passes, 5000);
    ck_assert_uint_eq(node[0].lines, 1);
    ck_assert_ptr_nonnull(strstr(node[0].log, strerror(EMFILE)));
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    write_word(fd, ULINK_HELLO, &hello);
    ck_assert(run_until(&node[0].core.event_up[2], 1, PATIENCE));
    close(fd);
}
END_TEST

static unsigned umasks;

/* The umask belongs to all threads of the process: modules may make files at any moment. */
mode_t umask(mode_t mask)
{
    umasks++;
    return (mode_t)syscall(SYS_umask, mask);
}

/* Only the user may connect, whatever the umask; and what is not a socket stays. */
START_TEST(socket_file)
{
    char uri[200], *path = uri + strlen(LOCAL);
    errmsg_t err = {""};
    struct stat st;
    int fd;

    create(0, 2, "flat", true);
    snprintf(uri, sizeof(uri), LOCAL "%s/t0", dir);
    ck_assert_int_ge(fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600), 0);
    close(fd);
    ck_assert_int_eq(transport->ops->bind(node[0].link, uri, "", &err), -1);
    ck_assert_msg(errno == EADDRINUSE, "%d %s", errno, err.text);
    ck_assert_int_eq(unlink(path), 0);
    (void)syscall(SYS_umask, 0);
    ck_assert_msg(transport->ops->bind(node[0].link, uri, "", &err) == 0, "%s", err.text);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert(S_ISSOCK(st.st_mode));
    ck_assert_int_eq(st.st_mode & 0777, 0600);
    ck_assert_uint_eq(umasks, 0);
}
END_TEST

/* The socket of a broker that was killed is replaced. */
START_TEST(stale_socket)
{
    char uri[200];
    struct sockaddr_un sun;
    socklen_t len;
    errmsg_t err = {""};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    create(0, 2, "flat", true);
    snprintf(uri, sizeof(uri), LOCAL "%s/t0", dir);
    ck_assert_int_eq(ulink_address(uri, &sun, &len, &err), 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&sun, len), 0);
    close(fd);
    ck_assert_msg(transport->ops->bind(node[0].link, uri, "", &err) == 0, "%s", err.text);
    close(stranger(0));
}
END_TEST

/* Sockets that have a name and no file; the second broker is connected while it runs. */
START_TEST(named)
{
    char uri[64];
    errmsg_t err = {""};

    for (uint32_t i = 0; i < 2; i++) {
        create(i, 2, "flat", true);
        snprintf(uri, sizeof(uri), LOCAL "@check-ulink-%d-%u", (int)getpid(), i);
        ck_assert_msg(transport->ops->bind(node[i].link, uri, "", &err) == 0, "%s", err.text);
    }
    create(2, 3, "flat", true);
    ck_assert_int_eq(transport->ops->bind(node[2].link, uri, "", &err), -1);
    ck_assert_int_eq(errno, EADDRINUSE);
    allow_all(0);
    allow_all(1);
    ck_assert_int_eq(transport->ops->start(node[0].link, &err), 0);
    ck_assert_int_eq(transport->ops->start(node[1].link, &err), 0);
    connect_node(1);
    ck_assert(run_until(&node[0].core.event_up[1], 1, PATIENCE));
    ck_assert_int_eq(send_from(1, CORE_TREE, 0, 1, 10, false), 0);
    ck_assert(run_until(&node[0].core.got[CORE_TREE], 1, PATIENCE));
    ck_assert_int_eq(transport->ops->rebind(node[0].link, &err), 0);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("ulink");

    add_common(tc, 1);
    tcase_add_test(tc, refused);
    tcase_add_test(tc, late);
    tcase_add_test(tc, stale);
    tcase_add_test(tc, named);
    tcase_add_test(tc, moved);
    tcase_add_test(tc, moved_without_keys);
    tcase_add_test(tc, false_parent);
    tcase_add_test(tc, later);
    tcase_add_test(tc, silent);
    tcase_add_test(tc, pulse);
    tcase_add_loop_test(tc, no_pulse, 0, 2);
    tcase_add_test(tc, absent);
    tcase_add_test(tc, large_hello);
    tcase_add_test(tc, slow_child);
    tcase_add_test(tc, errors);
    tcase_add_test(tc, many);
    tcase_add_test(tc, no_descriptors);
    tcase_add_test(tc, last_words);
    tcase_add_test(tc, deaf);
    tcase_add_test(tc, lost_queue);
    tcase_add_test(tc, socket_file);
    tcase_add_test(tc, stale_socket);
    return run_case("ulink", tc);
}
