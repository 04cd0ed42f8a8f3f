/* cmd_ping.c - flux ping: measure the round-trip time to a rank or a service.
 *
 *    target         receiver of the request
 *    RANK           the broker of that rank ("broker.ping")
 *    SERVICE        the nearest instance of the service, local or up the tree
 *    RANK!SERVICE   the instance at that rank
 *
 * Every service answers SERVICE.ping with the payload and the route of the request.  One request
 * is outstanding at a time, unless the response takes longer than the interval.
 */
#include "config.h"
#include <errno.h>
#include <float.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_all.h"
#include "libschema/schema.h"
#include "libutil/clock.h"
#include "libutil/list.h"
#include "libutil/size.h"
#include "libutil/strbuf.h"
#include "libutil/strutil.h"

#define PAD_MAX (64u << 20)
#define DEFAULT_INTERVAL 1.
#define DEFAULT_TIMEOUT 30.

static const struct cmd_opt opts[] = {
    {'c', "count", "N", "send N requests (default: until interrupted)"},
    {'i', "interval", "DURATION",
     "interval between two requests (default: 1s); 0: send the\n"
     "next request when the previous one has been answered"},
    {'p', "pad", "BYTES", "add this many bytes to requests and answers"},
    {'R', "ring", NULL, "use the ring instead of the tree"},
    {'t', "timeout", "DURATION", "timeout of a request (default: 30s)"},
    {'q', "quiet", NULL, "print the statistics only"},
    CMD_OPT_END,
};
static const struct cmd_usage usage = {
    "[OPTION...] [RANK | SERVICE | RANK!SERVICE]",
    "Send requests to a rank or a service (default: the local broker), and print the number of\n"
    "hops and the round-trip time of each, and statistics at the end.",
    opts,
    "Exit code 1 also when a request was not answered. If the service does not exist, only one\n"
    "request is sent.",
    0,
};

struct ping_msg {
    uint64_t seq;
    const char *pad;
    uint32_t rank;
    json_t *route;
};
static const struct flux_field request_fields[] = {
    FLUX_FIELD_U64(struct ping_msg, seq, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct ping_msg, pad, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema request_schema = FLUX_SCHEMA(struct ping_msg, request_fields);
static const struct flux_field response_fields[] = {
    FLUX_FIELD_U64(struct ping_msg, seq, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_STR(struct ping_msg, pad, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_ARRAY(struct ping_msg, route, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct ping_msg, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema response_schema = FLUX_SCHEMA(struct ping_msg, response_fields);

struct ping {
    struct cmd *c;
    flux_t *h;
    flux_watcher_t *timer;
    char service[FLUX_MSG_TOPIC_MAX];
    char topic[FLUX_MSG_TOPIC_MAX + 8];
    uint32_t nodeid;
    unsigned flags;
    uint32_t count; /* 0: until interrupted */
    double interval;
    double timeout;
    char *pad;
    bool quiet;
    uint64_t sent;
    uint64_t answered;
    uint64_t failed;
    bool nobody; /* there is no such service: more requests would be answered the same */
    double min;
    double max;
    double sum;
    struct list_node probes; /* under way */
};

struct probe {
    struct list_node node;
    struct ping *p;
    flux_future_t *f;
    uint64_t seq;
    double start;
};

static void probe_free(struct probe *pr)
{
    if (!pr)
        return;
    list_remove(&pr->node);
    flux_future_destroy(pr->f);
    free(pr);
}

static void send_probe(struct ping *p);

static void stop_when_done(struct ping *p)
{
    if (p->nobody || (p->count && p->answered + p->failed >= p->count))
        flux_reactor_stop(flux_get_reactor(p->h), 0);
    else if (p->interval <= 0.)
        send_probe(p);
}

/* "client-5 > 0 > 1 > 3": the route, and who answered. */
static char *format_route(const json_t *route, uint32_t rank)
{
    strbuf_t *sb = strbuf_create(0);
    size_t i;
    json_t *val;

    json_array_foreach(route, i, val)
    {
        const char *s = json_string_value(val);
        strbuf_addf(sb, "%s > ", s ? s : "?");
    }
    strbuf_addf(sb, "%u", rank);
    return strbuf_take(sb);
}

static void print_answer(const struct ping *p, const struct ping_msg *m, double seconds)
{
    char *route = format_route(m->route, m->rank);
    size_t hops = json_array_size(m->route);

    printf("%u!%s seq=%llu hops=%zu time=%.3f ms  %s\n", m->rank, p->service,
           (unsigned long long)m->seq, hops > 0 ? hops - 1 : 0, seconds * 1e3, route ? route : "");
    fflush(stdout);
    free(route);
}

static void answer_cb(flux_future_t *f, void *arg)
{
    struct probe *pr = arg;
    struct ping *p = pr->p;
    double seconds = clock_now() - pr->start;
    struct ping_msg m;
    errmsg_t err;

    if (flux_rpc_get_struct(f, &response_schema, &m, &err) < 0) {
        p->failed++;
        p->nobody = errno == ENOSYS;
        cmd_error(p->c, "request %llu to %s: %s", (unsigned long long)pr->seq, p->topic, err.text);
    } else if (m.seq != pr->seq || strcmp(m.pad, p->pad) != 0) {
        p->failed++;
        cmd_error(p->c, "request %llu to %s: the response differs from the request",
                  (unsigned long long)pr->seq, p->topic);
    } else {
        p->answered++;
        p->sum += seconds;
        if (seconds < p->min)
            p->min = seconds;
        if (seconds > p->max)
            p->max = seconds;
        if (!p->quiet)
            print_answer(p, &m, seconds);
    }
    probe_free(pr);
    stop_when_done(p);
}

static void send_probe(struct ping *p)
{
    struct probe *pr;
    struct ping_msg m = {.seq = p->sent, .pad = p->pad};

    if (p->count && p->sent >= p->count)
        return;
    p->sent++;
    if ((pr = calloc(1, sizeof(*pr)))) {
        list_append(&p->probes, &pr->node);
        pr->p = p;
        pr->seq = m.seq;
        pr->start = clock_now();
        pr->f = flux_rpc_struct(p->h, p->topic, &request_schema, &m, p->nodeid, p->flags);
    }
    if (!pr || !pr->f || flux_future_then(pr->f, p->timeout, answer_cb, pr) < 0) {
        cmd_error(p->c, "out of memory");
        probe_free(pr);
        p->failed++;
        flux_reactor_stop(flux_get_reactor(p->h), 0);
    }
}

static void timer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct ping *p = arg;

    send_probe(p);
    if (p->count && p->sent >= p->count)
        flux_watcher_stop(w);
}

static void signal_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

/* What is still under way at the end is neither answered nor failed. */
static void print_statistics(const struct ping *p)
{
    uint64_t open = p->sent - p->answered - p->failed;

    printf("--- %s: %llu sent, %llu answered, %llu failed", p->topic, (unsigned long long)p->sent,
           (unsigned long long)p->answered, (unsigned long long)p->failed);
    if (open)
        printf(", %llu under way", (unsigned long long)open);
    if (p->answered)
        printf("; min/mean/max %.3f/%.3f/%.3f ms", p->min * 1e3, p->sum / (double)p->answered * 1e3,
               p->max * 1e3);
    putchar('\n');
}

/* RANK, SERVICE or RANK!SERVICE. */
static int parse_target(struct ping *p, const char *s)
{
    const char *bang = strchr(s, '!');
    char rank[16];
    size_t n = bang ? (size_t)(bang - s) : strlen(s);
    const char *service = bang ? bang + 1 : NULL;

    if (bang || strspn(s, "0123456789") == n) {
        if (n == 0 || n >= sizeof(rank))
            return cmd_usage_error(p->c, "'%s' does not begin with a rank", s);
        memcpy(rank, s, n);
        rank[n] = '\0';
        if (cmd_parse_u32(p->c, "target", rank, &p->nodeid) < 0)
            return CMD_USAGE;
        if (p->nodeid >= flux_size(p->h))
            return cmd_error(p->c, "rank %u is not in the session, whose ranks are 0 to %u",
                             p->nodeid, flux_size(p->h) - 1);
    } else {
        p->nodeid = FLUX_NODEID_ANY;
        service = s;
    }
    if (!service)
        service = "broker";
    if (!*service || strlen(service) > 64 || strpbrk(service, ". \t"))
        return cmd_usage_error(p->c, "'%s' is not the name of a service", service);
    strcpy(p->service, service);
    snprintf(p->topic, sizeof(p->topic), "%s.ping", service);
    return CMD_OK;
}

static int run(struct ping *p)
{
    flux_reactor_t *r = flux_get_reactor(p->h);
    flux_watcher_t *sigint = flux_signal_watcher_create(r, SIGINT, signal_cb, NULL);
    struct list_node *n;
    int rc = CMD_OK;

    list_init(&p->probes);
    p->timer = flux_timer_create(r, timer_cb, p);
    if (!sigint || !p->timer)
        rc = cmd_error(p->c, "cannot set up the timer and the signal handler: %s", strerror(errno));
    else {
        flux_watcher_start(sigint);
        send_probe(p);
        if (p->interval > 0. && p->count != 1)
            flux_timer_start(p->timer, p->interval, p->interval);
        if (flux_run(p->h) < 0)
            rc = cmd_error(p->c, "the connection to the broker was lost");
        print_statistics(p);
        if (p->failed || !p->answered)
            rc = CMD_FAIL;
    }
    while ((n = list_first(&p->probes)))
        probe_free(list_entry(n, struct probe, node));
    flux_watcher_destroy(sigint);
    flux_watcher_destroy(p->timer);
    return rc;
}

static int parse_options(struct ping *p, int argc, char **argv, uint64_t *pad)
{
    struct cmd *c = p->c;
    const char *val;
    errmsg_t err;
    int key;

    while ((key = cmd_option(c, &usage, argc, argv, &val)) > 0) {
        switch (key) {
        case 'c':
            if (cmd_parse_u32(c, "--count", val, &p->count) < 0)
                return 1 + CMD_USAGE;
            if (p->count == 0)
                return 1 + cmd_usage_error(c, "--count must be at least 1");
            break;
        case 'i':
            if (cmd_parse_duration(c, "--interval", val, &p->interval) < 0)
                return 1 + CMD_USAGE;
            break;
        case 'p':
            if (size_parse(val, pad, &err) < 0)
                return 1 + cmd_usage_error(c, "--pad: %s", err.text);
            if (*pad > PAD_MAX)
                return 1 + cmd_usage_error(c, "--pad: at most 64M");
            break;
        case 'R':
            p->flags |= FLUX_MSGF_RING;
            break;
        case 't':
            if (cmd_parse_duration(c, "--timeout", val, &p->timeout) < 0)
                return 1 + CMD_USAGE;
            break;
        default:
            p->quiet = true;
            break;
        }
    }
    if (key < 0)
        return 1 + cmd_option_exit(key);
    return argc - c->optind > 1 ? 1 + cmd_usage_error(c, "at most one target is expected") : 0;
}

int cmd_ping(struct cmd *c, int argc, char **argv)
{
    struct ping p = {
        .c = c, .interval = DEFAULT_INTERVAL, .timeout = DEFAULT_TIMEOUT, .min = DBL_MAX};
    uint64_t pad = 0;
    char local[16];
    int rc = parse_options(&p, argc, argv, &pad);

    if (rc)
        return rc - 1;
    if (!(p.h = cmd_handle_signals(c)))
        return CMD_FAIL;
    snprintf(local, sizeof(local), "%u", flux_rank(p.h));
    if ((rc = parse_target(&p, c->optind < argc ? argv[c->optind] : local)) != CMD_OK)
        return rc;
    if ((p.flags & FLUX_MSGF_RING) && p.nodeid == FLUX_NODEID_ANY)
        return cmd_usage_error(c, "--ring requires a target with a rank");
    if (!(p.pad = malloc(pad + 1)))
        return cmd_error(c, "out of memory");
    memset(p.pad, 'x', pad);
    p.pad[pad] = '\0';
    rc = run(&p);
    free(p.pad);
    return rc;
}
