/* sched_peer.c - talks to the scheduler, for tests.
 *
 *    sched_peer ask TOPIC [JSON]   one request: prints the answer, or the error message on standard
 *                                  error
 *    sched_peer job [JSON]         in the place of the job module: attaches with that request ({}),
 *                                  and prints each answer of the stream as a line.  Each line of
 *                                  standard input is a feed without its generation ({"add":[..]..};
 *                                  an own "generation" is kept); its answer is printed as "fed", or
 *                                  as "refused: SENTENCE".  Ends with its input.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libflux/future.h"
#include "libsched/sched_wire.h"

struct peer {
    flux_t *h;
    flux_future_t *stream;
    flux_watcher_t *input;
    uint64_t generation;
    char line[1 << 16];
    size_t len;
};

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "sched_peer: %s\n", what);
    exit(1);
}

static int ask(flux_t *h, const char *topic, const char *json)
{
    flux_future_t *f = flux_rpc(h, topic, json, FLUX_NODEID_ANY, 0);
    const char *answer;
    errmsg_t err;
    int rc = 1;

    if (!f || flux_future_wait(f, 20.) < 0)
        die("no answer");
    if (flux_rpc_get_json(f, &answer, &err) < 0)
        fprintf(stderr, "sched_peer: %s\n", err.text);
    else {
        puts(answer ? answer : "");
        rc = 0;
    }
    flux_future_destroy(f);
    return rc;
}

static void answer_cb(flux_future_t *f, void *arg)
{
    struct peer *p = arg;
    struct sched_answer a = {0};
    const char *json;
    errmsg_t err;

    if (flux_rpc_get_struct(f, &sched_answer_schema, &a, &err) < 0) {
        printf("ended: %s\n", err.text);
        flux_watcher_stop(p->input);
        flux_future_destroy(f);
        p->stream = NULL;
        return;
    }
    if (a.attached) {
        p->generation = a.attached;
        puts("attached");
        flux_watcher_start(p->input);
    } else if (flux_rpc_get_json(f, &json, NULL) == 0)
        puts(json);
    flux_future_next(f);
}

static void fed_cb(flux_future_t *f, void *arg)
{
    errmsg_t err;

    if (flux_rpc_get(f, &err) < 0)
        printf("refused: %s\n", err.text);
    else
        puts("fed");
    flux_future_destroy(f);
}

static void feed(struct peer *p, const char *line)
{
    json_t *o = json_loads(line, 0, NULL);
    flux_future_t *f;
    char *text;

    if (!o)
        die("a line of input is not JSON");
    if (!json_object_get(o, "generation"))
        json_object_set_new(o, "generation", json_integer((json_int_t)p->generation));
    if (!(text = json_dumps(o, JSON_COMPACT)) ||
        !(f = flux_rpc(p->h, "sched.feed", text, FLUX_NODEID_ANY, 0)) ||
        flux_future_then(f, -1., fed_cb, p) < 0)
        die("out of memory");
    free(text);
    json_decref(o);
}

static void input_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct peer *p = arg;
    ssize_t n = read(0, p->line + p->len, sizeof(p->line) - 1 - p->len);
    char *start = p->line;
    char *end;

    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        flux_reactor_stop(r, 0);
        return;
    }
    p->len += (size_t)n;
    p->line[p->len] = '\0';
    for (; (end = strchr(start, '\n')); start = end + 1) {
        *end = '\0';
        feed(p, start);
    }
    p->len -= (size_t)(start - p->line);
    memmove(p->line, start, p->len);
}

static int job(struct peer *p, const char *json)
{
    flux_reactor_t *r = flux_get_reactor(p->h);

    fcntl(0, F_SETFL, O_NONBLOCK);
    p->input = flux_fd_watcher_create(r, 0, FLUX_POLLIN, input_cb, p);
    p->stream = flux_rpc(p->h, "sched.attach", json, FLUX_NODEID_ANY, FLUX_MSGF_STREAMING);
    if (!p->input || !p->stream || flux_future_then(p->stream, -1., answer_cb, p) < 0)
        die("out of memory");
    flux_run(p->h);
    flux_watcher_destroy(p->input);
    flux_future_destroy(p->stream);
    return 0;
}

int main(int argc, char **argv)
{
    struct peer *p = calloc(1, sizeof(*p));
    errmsg_t err;
    int rc;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2 || !p || !(p->h = flux_open(NULL, NULL, &err)))
        die(argc < 2 ? "ask TOPIC [JSON] | job [JSON]" : err.text);
    if (strcmp(argv[1], "ask") == 0 && argc > 2)
        rc = ask(p->h, argv[2], argc > 3 ? argv[3] : NULL);
    else
        rc = job(p, argc > 2 ? argv[2] : "{}");
    flux_close(p->h);
    free(p);
    return rc;
}
