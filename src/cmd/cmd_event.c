/* cmd_event.c - flux event: publish events, or subscribe to them and print them.
 *
 * `pub` waits for the sequence number of its event (with --async it does not), so that two commands
 * that run one after the other publish in that order.
 *
 * Format of `sub`: a line for each event, "SEQ<tab>TOPIC[<tab>PAYLOAD]", or an object with --json.
 * The event event.lost, which names the numbers of events that this broker has missed, is printed
 * like any other, but --count and --timeout disregard it.
 *
 * Invariants:
 *  1. What the broker delivers is printed, as it comes: that each event comes once, in order, and
 *     once even if several prefixes match, is the promise of the broker.  Tests check it here.
 *  2. Output is flushed whenever no further event has arrived.
 *
 * Failure: exit code 1, when the broker is lost, standard output cannot be written, or no event
 * arrives within --timeout.
 */
#include "config.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd_all.h"
#include "libflux/dispatch.h"
#include "libutil/fdutil.h"

#define TIMEOUT 60.
#define INPUT_MAX ((size_t)FLUX_MSG_PAYLOAD_MAX)

/* --- pub --- */

static const struct cmd_opt pub_opts[] = {
    {'r', "raw", NULL, "the payload is bytes, read from standard input"},
    {'s', "seq", NULL, "print the sequence number of the event"},
    {'a', "async", NULL, "do not wait for the sequence number"},
    CMD_OPT_END,
};
static const struct cmd_usage pub_usage = {
    "[OPTION...] TOPIC [JSON]",
    "Publish an event. When the command returns, the position of the event in the order is fixed.",
    pub_opts,
    NULL,
    0,
};

struct payload {
    const char *json;
    char *data;
    size_t len;
};

static int send_async(struct cmd *c, flux_t *h, const char *topic, const struct payload *p)
{
    int rc = p->data ? flux_event_send_raw(h, topic, p->data, p->len)
                     : flux_event_send(h, topic, p->json);

    return rc < 0 ? cmd_error(c, "cannot publish %s: %s", topic, strerror(errno)) : CMD_OK;
}

static int publish(struct cmd *c, flux_t *h, const char *topic, const struct payload *p,
                   bool print_seq)
{
    flux_future_t *f = p->data ? flux_event_publish_raw(h, topic, p->data, p->len)
                               : flux_event_publish(h, topic, p->json);
    uint64_t seq = 0;
    errmsg_t err;
    int rc = CMD_FAIL;

    if (!f)
        return cmd_error(c, "cannot publish '%s': %s", topic,
                         errno == EINVAL
                             ? "a topic consists of 1 to 255 printable characters without blanks"
                             : strerror(errno));
    if (cmd_wait(c, f, TIMEOUT, "event.publish") == 0) {
        if (flux_event_get_seq(f, &seq, &err) < 0)
            cmd_error(c, "%s", err.text);
        else {
            if (print_seq)
                printf("%llu\n", (unsigned long long)seq);
            rc = CMD_OK;
        }
    }
    flux_future_destroy(f);
    return rc;
}

static int check_json(struct cmd *c, const char *text)
{
    json_error_t err;
    json_t *val = json_loads(text, JSON_REJECT_DUPLICATES, &err);

    if (!val)
        return cmd_usage_error(c, "the payload is not a JSON object or array: %s", err.text);
    json_decref(val);
    return CMD_OK;
}

static int cmd_pub(struct cmd *c, int argc, char **argv)
{
    struct payload p = {NULL, NULL, 0};
    bool raw = false;
    bool seq = false;
    bool async = false;
    const char *topic;
    flux_t *h;
    int key;
    int rc;

    while ((key = cmd_option(c, &pub_usage, argc, argv, NULL)) > 0) {
        raw |= key == 'r';
        seq |= key == 's';
        async |= key == 'a';
    }
    if (key < 0)
        return cmd_option_exit(key);
    argc -= c->optind;
    argv += c->optind;
    if (argc < 1 || argc > (raw ? 1 : 2))
        return cmd_usage_error(c, raw ? "exactly one TOPIC is required with --raw"
                                      : "a TOPIC and at most one JSON payload are expected");
    if (async && seq)
        return cmd_usage_error(c, "--async and --seq exclude each other");
    topic = argv[0];
    if (argc == 2) {
        if ((rc = check_json(c, argv[1])) != CMD_OK)
            return rc;
        p.json = argv[1];
    }
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    if (raw && fd_read_all(STDIN_FILENO, INPUT_MAX, &p.data, &p.len) < 0)
        return cmd_error(c, "cannot read the payload: %s", strerror(errno));
    rc = async ? send_async(c, h, topic, &p) : publish(c, h, topic, &p, seq);
    free(p.data);
    return rc;
}

/* --- sub --- */

static const struct cmd_opt sub_opts[] = {
    {'c', "count", "N", "exit after N events"},
    {'t', "timeout", "DURATION", "exit with code 1 when no event arrives for this time"},
    {'C', "confirm", NULL,
     "print 'subscribed' on standard error once every event\n"
     "published from then on will be seen"},
    {'j', "json", NULL, "print one JSON object per line"},
    CMD_OPT_END,
};
static const struct cmd_usage sub_usage = {
    "[OPTION...] [PREFIX...]",
    "Print the events whose topic begins with one of the prefixes (default: all events), until\n"
    "interrupted: sequence number, topic, payload.",
    sub_opts,
    NULL,
    0,
};

struct sub {
    struct cmd *c;
    uint32_t count; /* 0: no end */
    uint32_t seen;
    double timeout;
    bool json;
    flux_watcher_t *timer;
    flux_watcher_t *flush;
    int rc;
};

static int print_json_event(const flux_msg_t *msg)
{
    const char *text = flux_msg_json(msg);
    json_t *payload = text ? json_loads(text, JSON_DECODE_ANY, NULL) : json_null();
    json_t *obj = json_object();
    size_t len;
    int rc = -1;

    flux_msg_payload(msg, &len);
    if (obj && json_object_set_new(obj, "seq", json_integer((json_int_t)flux_msg_seq(msg))) == 0 &&
        json_object_set_new(obj, "term", json_integer(flux_msg_term(msg))) == 0 &&
        json_object_set_new(obj, "topic", json_string(flux_msg_topic(msg))) == 0 &&
        json_object_set_new(obj, "rank", json_integer(flux_msg_nodeid(msg))) == 0 &&
        (!flux_msg_has_flag(msg, FLUX_MSGF_RAW) ||
         json_object_set_new(obj, "raw_bytes", json_integer((json_int_t)len)) == 0) &&
        json_object_set(obj, "payload", payload ? payload : json_null()) == 0)
        rc = json_dumpf(obj, stdout, JSON_COMPACT);
    json_decref(payload);
    json_decref(obj);
    putchar('\n');
    return rc;
}

static void print_event(const flux_msg_t *msg)
{
    const char *text = flux_msg_json(msg);
    size_t len;

    flux_msg_payload(msg, &len);
    printf("%llu\t%s", (unsigned long long)flux_msg_seq(msg), flux_msg_topic(msg));
    if (text)
        printf("\t%s", text);
    else if (len > 0)
        printf("\t<%zu bytes>", len);
    putchar('\n');
}

static void event_cb(flux_t *h, const flux_msg_t *msg, void *arg)
{
    struct sub *s = arg;
    bool lost = strcmp(flux_msg_topic(msg), "event.lost") == 0;

    if (s->count && s->seen >= s->count)
        return;
    s->seen += !lost;
    if (s->json)
        print_json_event(msg);
    else
        print_event(msg);
    if (s->flush)
        flux_watcher_start(s->flush);
    if (s->timer && !lost)
        flux_timer_start(s->timer, s->timeout, 0.);
    if (s->count && s->seen == s->count)
        flux_reactor_stop(flux_get_reactor(h), 0);
}

static void flush_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct sub *s = arg;

    if (fflush(stdout) != 0) {
        s->rc = CMD_FAIL;
        flux_reactor_stop(r, 0);
    }
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct sub *s = arg;

    fflush(stdout);
    s->rc = cmd_error(s->c, "no event arrived within %g s", s->timeout);
    flux_reactor_stop(r, 0);
}

static int subscribe(struct cmd *c, flux_t *h, const char *prefix)
{
    flux_future_t *f = flux_event_subscribe(h, prefix);
    int rc = cmd_wait(c, f, TIMEOUT, "event.subscribe") < 0 ? CMD_FAIL : CMD_OK;

    flux_future_destroy(f);
    return rc;
}

static int run(struct sub *s, flux_t *h, char **prefixes, size_t n, bool confirm)
{
    static char all[] = "";
    char *all_prefixes[] = {all};
    flux_reactor_t *r = flux_get_reactor(h);

    if (n == 0) {
        prefixes = all_prefixes;
        n = 1;
    }
    for (size_t i = 0; i < n; i++) {
        if (subscribe(s->c, h, prefixes[i]) != CMD_OK)
            return CMD_FAIL;
    }
    if (confirm)
        fputs("subscribed\n", stderr);
    if (!(s->flush = flux_defer_create(r, flush_cb, s)))
        return cmd_error(s->c, "out of memory");
    if (s->timeout > 0.) {
        if (!(s->timer = flux_timer_create(r, timer_cb, s)))
            return cmd_error(s->c, "out of memory");
        flux_timer_start(s->timer, s->timeout, 0.);
    }
    if (s->seen > 0) /* while waiting for the confirmation */
        flux_watcher_start(s->flush);
    if ((!s->count || s->seen < s->count) && flux_run(h) < 0)
        return cmd_error(s->c, "the connection to the broker was lost");
    return s->rc;
}

static int cmd_sub(struct cmd *c, int argc, char **argv)
{
    /* The broker delivers what was subscribed to; all of it is for this handler. */
    static const struct flux_handler tab[] = {
        {FLUX_MSG_EVENT, "", event_cb, 0},
        FLUX_HANDLER_END,
    };
    struct sub s = {.c = c};
    flux_handlers_t *hs;
    bool confirm = false;
    const char *val;
    flux_t *h;
    int key;
    int rc;

    while ((key = cmd_option(c, &sub_usage, argc, argv, &val)) > 0) {
        switch (key) {
        case 'c':
            if (cmd_parse_u32(c, "--count", val, &s.count) < 0)
                return CMD_USAGE;
            break;
        case 't':
            if (cmd_parse_duration(c, "--timeout", val, &s.timeout) < 0)
                return CMD_USAGE;
            break;
        case 'C':
            confirm = true;
            break;
        default:
            s.json = true;
            break;
        }
    }
    if (key < 0)
        return cmd_option_exit(key);
    if (!(h = cmd_handle(c)))
        return CMD_FAIL;
    if (!(hs = flux_handlers_add(h, tab, &s)))
        return cmd_error(c, "out of memory");
    rc = run(&s, h, argv + c->optind, (size_t)(argc - c->optind), confirm);
    flux_handlers_remove(hs);
    flux_watcher_destroy(s.timer);
    flux_watcher_destroy(s.flush);
    return rc;
}

static const struct cmd_sub subs[] = {
    {"pub", cmd_pub, "[OPTION...] TOPIC [JSON]", "publish an event"},
    {"sub", cmd_sub, "[OPTION...] [PREFIX...]", "subscribe to events and print them"},
    CMD_SUB_END,
};

int cmd_event(struct cmd *c, int argc, char **argv)
{
    return cmd_subcommand(
        c, "All subscribers of a session see events in the order of their sequence numbers.", subs,
        argc, argv);
}
