/* fuzz_session.c - what a module learns about its session (libservice/session.c): the events of the
 * overlay, and the answers to overlay.status and overlay.topology.
 *
 * The first byte chooses which operations the module has.  A line of the rest is "eM JSON" (event M
 * of `events`), "a JSON" (an answer to the oldest request), "f" (an error instead), "t" (the module
 * asks for the tree), "l" (which ranks are lost) or "c" (whether it knows the present state).
 */
#include "config.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libflux/handle.h"
#include "libflux/reactor.h"
#include "libservice/session.h"

#define SIZE 15
#define RANK 3
#define ASKED_MAX 64

struct world {
    flux_reactor_t *r;
    flux_watcher_t *timer;
    flux_t *h;
    session_t *s;
    flux_msg_t *asked[ASKED_MAX];
    size_t first, count;
    bool begun;
};

static const char *const events[] = {"overlay.up",  "overlay.down",  "overlay.moved",
                                     "overlay.run", "overlay.state", "event.lost"};

static int take_request(void *impl, flux_msg_t *msg)
{
    struct world *w = impl;

    if (w->count < ASKED_MAX && !flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE))
        w->asked[w->count++] = msg;
    else
        flux_msg_destroy(msg);
    return 0;
}

static void destroy(void *impl)
{
}

static const struct flux_handle_ops handle_ops = {.send = take_request, .destroy = destroy};

/* --- the module --- */

static void lost(void *arg, const idset_t *ranks, bool now)
{
    const struct world *w = arg;

    MUST(!idset_empty(ranks) && !idset_test(ranks, RANK));
    MUST(!w->s || idset_subset(ranks, session_lost(w->s)));
}

static void back(void *arg, const idset_t *ranks)
{
    const struct world *w = arg;

    MUST(!idset_empty(ranks) && !idset_intersects(ranks, session_lost(w->s)));
}

static int tree(void *arg, int errnum, const char *why)
{
    const struct world *w = arg;
    const topology_t *t = session_tree(w->s);

    if (errnum != 0) {
        MUST(why != NULL);
        return 0;
    }
    MUST(topology_size(t) == SIZE);
    for (uint32_t rank = 1; rank < SIZE; rank++) {
        uint32_t steps = 0;

        for (uint32_t up = rank; up != 0; up = topology_parent(t, up))
            MUST(++steps < SIZE);
    }
    return 0;
}

static void status(void *arg, const struct overlay_status *st)
{
    MUST(!st || (st->state && st->lost));
}

static void runs(void *arg)
{
    struct world *w = arg;

    MUST(!w->begun);
    w->begun = true;
}

static const struct session_ops all[] = {
    {.lost = lost, .back = back, .tree = tree, .status = status, .runs = runs},
    {.lost = lost, .status = status, .on_demand = true},
    {.tree = tree},
    {.runs = runs},
};

/* --- lines --- */

static void stop_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

static void turn(struct world *w)
{
    flux_timer_start(w->timer, 0., 0.);
    flux_reactor_run(w->r);
}

static void event(struct world *w, size_t number, const char *json)
{
    flux_msg_t *msg;

    if (number >= sizeof(events) / sizeof(events[0]))
        return;
    MUST((msg = flux_msg_create(FLUX_MSG_EVENT, events[number])) != NULL);
    if (json[0])
        MUST(flux_msg_set_json(msg, json) == 0);
    flux_handle_deliver(w->h, msg);
}

static void answer(struct world *w, int errnum, const char *json)
{
    flux_msg_t *req, *msg;

    if (w->first == w->count)
        return;
    req = w->asked[w->first++];
    MUST((msg = flux_msg_response_create(req, errnum)) != NULL);
    if (json[0])
        MUST(flux_msg_set_json(msg, json) == 0);
    flux_msg_destroy(req);
    flux_handle_deliver(w->h, msg);
}

static void line(struct world *w, const struct session_ops *ops, const char *s)
{
    if (s[0] == 'e' && s[1] >= 'a')
        event(w, (size_t)(s[1] - 'a'), s[2] == ' ' ? s + 3 : "");
    else if (s[0] == 'a')
        answer(w, 0, s[1] == ' ' ? s + 2 : "");
    else if (s[0] == 'f')
        answer(w, EHOSTUNREACH, "");
    else if (s[0] == 't' && ops->tree)
        session_ask_tree(w->s);
    else if (s[0] == 'l' && ops->lost)
        session_ask_lost(w->s);
    else if (s[0] == 'c' && ops->status)
        session_current(w->s);
    turn(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world w = {0};
    const struct session_ops *ops;
    char *text, *save = NULL;

    if (size < 2)
        return 0;
    ops = &all[data[0] % (sizeof(all) / sizeof(all[0]))];
    MUST((text = strndup((const char *)data + 1, size - 1)) != NULL);
    MUST((w.r = flux_reactor_create(false)) != NULL);
    MUST((w.timer = flux_timer_create(w.r, stop_cb, NULL)) != NULL);
    MUST((w.h = flux_handle_create(&handle_ops, &w, w.r, RANK, SIZE, 42)) != NULL);
    MUST((w.s = session_create(w.h, ops, &w)) != NULL);
    for (char *s = strtok_r(text, "\n", &save); s; s = strtok_r(NULL, "\n", &save)) {
        line(&w, ops, s);
        MUST(!idset_test(session_lost(w.s), RANK));
    }
    session_destroy(w.s);
    flux_close(w.h);
    flux_watcher_destroy(w.timer);
    flux_reactor_destroy(w.r);
    while (w.first < w.count)
        flux_msg_destroy(w.asked[w.first++]);
    free(text);
    return 0;
}
