/* record.c - use the key-value store of a session from many clients, and write down the history.
 *
 *    record [OPTION...] LOG URI...
 *
 *    --clients=N     per URI; each has a connection of its own (default 6)
 *    --seconds=S     how long (default 5)
 *    --seed=N        of what the clients do (default: from the clock; printed)
 *    --ns=NAME       in this namespace
 *    --dir=KEY       in this directory (default "h"): give another to another run
 *    --first=N       number of the first client (default 1): logs that are checked together need
 *                    different ones
 *    --pause=S       between two operations of a client, in the mean (default 0.005)
 *    --large=P       chance of a value of up to 100 kB (default 0.01)
 *    --lie=P         chance of a read to be told wrongly: the checker must notice
 *    --no-fences     no fences        --no-snapshots     hold no roots
 *    --no-watches    watch nothing
 *
 * SIGTERM ends it as the end of its time does.  Each line of the log is written at once, so that a
 * script sees there how far the clients have come.
 *
 * A client whose broker ends goes on as another client at another broker, and first waits there for
 * the newest version that was told to anybody here.  At the end the clients wait for that too, and
 * read all.  When no broker is left it ends, too.  Exit code 0 when all came to their end, and all
 * who watch a key were told what it is then; the log is for `history-check`.
 */
#include "config.h"
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "histload.h"
#include "libutil/list.h"
#include "libutil/strutil.h"

#define END_SECONDS 30.  /* for the clients to come to their end */
#define CALM_SECONDS 0.5 /* until nothing is under way any more */

struct conn {
    struct list_node node;
    flux_t *h;
    unsigned uri;
};

struct recorder {
    flux_reactor_t *r;
    history_t *history;
    histload_t *load;
    char **uri;
    bool *dead;
    unsigned nuri, moved;
    struct list_node conns, closing;
    flux_watcher_t *closer; /* outside of the callbacks of what is closed */
    flux_watcher_t *end;
    flux_watcher_t *look;
    flux_watcher_t *told; /* to end, by a signal */
    bool late;
    enum { RUNNING, ENDING, ENDED, VERIFYING, VERIFIED } phase;
};

static uint64_t now_ns(void *arg)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void lost_cb(flux_t *h, void *arg)
{
    /* What was asked ends with EPIPE; the client sees that. */
}

static int open_client(struct recorder *rec, unsigned uri, uint64_t after)
{
    struct conn *c = calloc(1, sizeof(*c));
    errmsg_t err = {"out of memory"};

    if (!c || !(c->h = flux_open(rec->uri[uri], rec->r, &err)) ||
        histload_add(rec->load, c->h, after) < 0) {
        fprintf(stderr, "record: %s: %s\n", rec->uri[uri], err.text);
        if (c)
            flux_close(c->h);
        free(c);
        return -1;
    }
    flux_set_lost_handler(c->h, lost_cb, NULL);
    c->uri = uri;
    list_init(&c->node);
    list_append(&rec->conns, &c->node);
    return 0;
}

static void ended_cb(flux_t *h, bool lost, void *arg)
{
    struct recorder *rec = arg;

    LIST_FOREACH_SAFE(n, tmp, &rec->conns)
    {
        struct conn *c = list_entry(n, struct conn, node);
        if (c->h != h)
            continue;
        list_remove(n);
        list_append(&rec->closing, n);
        rec->dead[c->uri] |= lost;
        flux_watcher_start(rec->closer);
        return;
    }
}

static void close_conn(struct conn *c)
{
    list_remove(&c->node);
    flux_close(c->h);
    free(c);
}

/* Close what ended, and go on elsewhere. */
static void closer_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct recorder *rec = arg;
    struct list_node *n;

    while ((n = list_first(&rec->closing))) {
        struct conn *c = list_entry(n, struct conn, node);
        unsigned first = c->uri;
        close_conn(c);
        rec->moved++;
        for (unsigned i = 0; i < rec->nuri; i++) {
            unsigned uri = (first + rec->moved + i) % rec->nuri;
            if (rec->dead[uri])
                continue;
            if (open_client(rec, uri, histload_version(rec->load)) == 0)
                break;
            rec->dead[uri] = true;
        }
    }
    if (histload_clients(rec->load) == 0) {
        rec->phase = VERIFIED; /* the whole session is gone */
        flux_reactor_stop(r, 0);
    }
}

/* Running, coming to the end, calm, verifying, calm, over. */
static void end_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct recorder *rec = arg;

    if (rec->phase == RUNNING) {
        histload_stop(rec->load);
        rec->phase = ENDING;
        flux_timer_start(rec->look, 0.05, 0.05);
        flux_timer_start(rec->end, END_SECONDS, 0.);
    } else {
        rec->late = true;
        flux_reactor_stop(r, 0);
    }
}

static void told_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    const struct recorder *rec = arg;

    if (rec->phase == RUNNING)
        flux_timer_start(rec->end, 0., 0.);
}

static void look_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct recorder *rec = arg;

    if (histload_busy(rec->load) > 0)
        return;
    if (rec->phase == ENDING || rec->phase == VERIFYING) {
        rec->phase++;
        flux_timer_start(rec->look, CALM_SECONDS, 0.05);
    } else if (rec->phase == ENDED) {
        rec->phase++;
        histload_verify(rec->load);
    } else {
        flux_reactor_stop(r, 0);
    }
}

static int run(struct recorder *rec, unsigned clients, double seconds)
{
    uint64_t ok, failed, lies;
    unsigned watching, behind;
    char text[400];

    for (unsigned i = 0; i < rec->nuri; i++) {
        for (unsigned k = 0; k < clients; k++) {
            if (open_client(rec, i, 0) < 0)
                return 1;
        }
    }
    printf("process %ld: recording %u clients at %u brokers\n", (long)getpid(),
           histload_clients(rec->load), rec->nuri);
    fflush(stdout);
    flux_timer_start(rec->end, seconds, 0.);
    flux_reactor_run(rec->r);
    histload_stats(rec->load, &ok, &failed, &lies);
    printf("%" PRIu64 " operations, %" PRIu64 " without success, %u clients moved, "
           "version %" PRIu64 ", %" PRIu64 " lies\n",
           ok, failed, rec->moved, histload_version(rec->load), lies);
    if (rec->late) {
        fprintf(stderr, "record: %u clients wait for answers that do not come\n",
                histload_busy(rec->load));
        return 1;
    }
    if (histload_unkept(rec->load) > 0) {
        fprintf(stderr, "record: %u roots were gone though they were held\n",
                histload_unkept(rec->load));
        return 1;
    }
    behind = histload_behind(rec->load, &watching, text, sizeof(text));
    printf("%u watch a key at the end\n", watching);
    if (behind > 0) {
        fprintf(stderr, "record: %u were not told what they watch: %s\n", behind, text);
        return 1;
    }
    return 0;
}

static int usage(void)
{
    fputs("usage: record [--clients=N] [--seconds=S] [--seed=N] [--ns=NAME] [--dir=KEY] "
          "[--first=N]\n"
          "              [--pause=S] [--large=P] [--lie=P] [--no-fences] [--no-snapshots] "
          "[--no-watches] LOG "
          "URI...\n",
          stderr);
    return 2;
}

static const struct option options[] = {
    {"clients", required_argument, NULL, 'c'},
    {"seconds", required_argument, NULL, 's'},
    {"seed", required_argument, NULL, 'r'},
    {"ns", required_argument, NULL, 'n'},
    {"dir", required_argument, NULL, 'd'},
    {"first", required_argument, NULL, '1'},
    {"pause", required_argument, NULL, 'p'},
    {"large", required_argument, NULL, 'L'},
    {"lie", required_argument, NULL, 'l'},
    {"no-fences", no_argument, NULL, 'F'},
    {"no-snapshots", no_argument, NULL, 'S'},
    {"no-watches", no_argument, NULL, 'W'},
    {NULL, 0, NULL, 0},
};

int main(int argc, char **argv)
{
    struct recorder rec = {.nuri = 0};
    struct histload_config cfg = {.seed = now_ns(NULL) % 1000000,
                                  .dir = "h",
                                  .first_client = 1,
                                  .keys = 16,
                                  .append_keys = 3,
                                  .guard_keys = 3,
                                  .fence_max = 6,
                                  .watches = true,
                                  .append_watches = true,
                                  .snapshots = true,
                                  .value_max = 100000,
                                  .large = 0.01,
                                  .pause = 0.005,
                                  .fence_timeout = 4.,
                                  .wait_timeout = 4.,
                                  .now = now_ns,
                                  .ended = ended_cb,
                                  .arg = &rec};
    uint32_t clients = 6;
    double seconds = 5.;
    int c, rc = 1;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        bool ok = true;
        switch (c) {
        case 'c':
            ok = str2u32(optarg, &clients) == 0;
            break;
        case 's':
            seconds = strtod(optarg, NULL);
            break;
        case 'r':
            ok = str2u64(optarg, &cfg.seed) == 0;
            break;
        case 'n':
            cfg.ns = optarg;
            break;
        case 'd':
            cfg.dir = optarg;
            break;
        case '1':
            ok = str2u32(optarg, &cfg.first_client) == 0;
            break;
        case 'p':
            cfg.pause = strtod(optarg, NULL);
            break;
        case 'L':
            cfg.large = strtod(optarg, NULL);
            break;
        case 'l':
            cfg.lie = strtod(optarg, NULL);
            break;
        case 'F':
            cfg.fence_max = 0;
            break;
        case 'W':
            cfg.watches = false;
            break;
        case 'S':
            cfg.snapshots = false;
            break;
        default:
            return usage();
        }
        if (!ok)
            return usage();
    }
    if (argc - optind < 2)
        return usage();
    FILE *log = fopen(argv[optind], "w");
    if (!log) {
        fprintf(stderr, "record: %s: %s\n", argv[optind], strerror(errno));
        return 1;
    }
    setlinebuf(log);
    printf("seed %" PRIu64 "\n", cfg.seed);
    fprintf(log, "# history of %u clients each at %d brokers, seed %" PRIu64 "\n", clients,
            argc - optind - 1, cfg.seed);
    rec.uri = argv + optind + 1;
    rec.nuri = (unsigned)(argc - optind - 1);
    list_init(&rec.conns);
    list_init(&rec.closing);
    if ((rec.dead = calloc(rec.nuri, sizeof(*rec.dead))) && (rec.r = flux_reactor_create(true)) &&
        (rec.history = history_create()) && (rec.load = histload_create(&cfg, rec.history)) &&
        (rec.closer = flux_defer_create(rec.r, closer_cb, &rec)) &&
        (rec.end = flux_timer_create(rec.r, end_cb, &rec)) &&
        (rec.look = flux_timer_create(rec.r, look_cb, &rec)) &&
        (rec.told = flux_signal_watcher_create(rec.r, SIGTERM, told_cb, &rec))) {
        flux_watcher_start(rec.told);
        history_log(rec.history, log);
        rc = run(&rec, clients, seconds);
    } else {
        fputs("record: out of memory\n", stderr);
    }
    histload_destroy(rec.load);
    LIST_FOREACH_SAFE(n, tmp, &rec.closing)
    close_conn(list_entry(n, struct conn, node));
    LIST_FOREACH_SAFE(n, tmp, &rec.conns)
    close_conn(list_entry(n, struct conn, node));
    flux_watcher_destroy(rec.closer);
    flux_watcher_destroy(rec.end);
    flux_watcher_destroy(rec.look);
    flux_watcher_destroy(rec.told);
    flux_reactor_destroy(rec.r);
    history_destroy(rec.history);
    free(rec.dead);
    if (fclose(log) != 0) {
        fprintf(stderr, "record: %s: %s\n", argv[optind], strerror(errno));
        rc = 1;
    }
    return rc;
}
