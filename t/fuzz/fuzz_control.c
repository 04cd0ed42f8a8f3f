/* fuzz_control.c - control messages of neighbors into a core: who joins, moves, is lost, and with
 * which public keys and addresses; and the events by which rank 0 tells the changes of the session
 * map.
 *
 * The first byte chooses the root of 15 brokers, or one inside the tree.  A line of the rest is
 * "cRM JSON" (message M, a letter, of the table of those that children send, from rank R, a
 * hexadecimal digit), "pM JSON" (from the parent), "eM JSON" (event M of `events`, from the
 * parent), "lR" (that neighbor is lost) or "bR" (that rank connects as a child).
 */
#include "config.h"
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libflux/reactor.h"
#include "libutil/hex.h"
#include "src/broker/control_wire.h"
#include "src/broker/core.h"

#define SIZE 15 /* two children each */
#define INNER 3 /* below rank 1; its children are ranks 7 and 8 */
#define KEY_SIZE 40
#define WIRED "1"
#define CARD(rank) \
    "{\"rank\":" rank ",\"tree\":\"\",\"event\":\"\",\"key\":\"" KEY "\",\"ticket\":\"\"}"
#define KEY "0123456789abcdefghijklmnopqrstuvwxyzABCD"
#define AT "tcp://there:1\\ttcp://there:2\\n"

struct world {
    flux_reactor_t *r;
    core_t *core;
    flux_watcher_t *timer;
    bool here[SIZE]; /* a neighbor that is connected */
    uint32_t parent;
};

static int link_send(void *arg, enum core_plane plane, uint32_t rank, flux_msg_t *msg, bool force)
{
    flux_msg_destroy(msg);
    return 0;
}

static int link_publish(void *arg, const flux_msg_t *event)
{
    return 0;
}

static void link_drop(void *arg, enum core_plane plane, uint32_t rank)
{
    struct world *w = arg;

    if (plane == CORE_TREE && rank < SIZE)
        w->here[rank] = false;
}

static int link_card(void *arg, struct control_card *card)
{
    card->tree = "tcp://here:1";
    card->event = card->ticket = "";
    card->key = KEY;
    return 0;
}

static int link_move(void *arg, const struct control_card *card, errmsg_t *err)
{
    struct world *w = arg;

    if (card->rank >= SIZE)
        return errmsg_fail(err, EINVAL, "there is no rank %u", card->rank);
    w->here[w->parent] = false;
    w->here[card->rank] = true;
    w->parent = card->rank;
    return 0;
}

static const struct core_link_ops link_ops = {.send = link_send,
                                              .publish = link_publish,
                                              .drop = link_drop,
                                              .by_key = true,
                                              .card = link_card,
                                              .move = link_move};

static void stop_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    flux_reactor_stop(r, 0);
}

static void turn(struct world *w)
{
    flux_timer_start(w->timer, 0., 0.);
    flux_reactor_run(w->r);
}

static void control(struct world *w, uint32_t from, const struct flux_method *m, const char *json)
{
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_CONTROL, m->topic);

    MUST(msg != NULL);
    flux_msg_set_term(msg, FLUX_TERM_FIRST);
    if (json[0])
        MUST(flux_msg_set_json(msg, json) == 0);
    core_link_input(w->core, CORE_TREE, from, msg);
}

static void join(struct world *w, uint32_t rank, const char *ranks, const char *keys,
                 const char *cards)
{
    char json[600];

    snprintf(json, sizeof(json),
             "{\"rank\":%u,\"size\":15,\"topology\":\"kary:2\",\"version\":1,\"keys\":\"" KEY "\"}",
             rank);
    w->here[rank] = true;
    control(w, rank, &control_up[CONTROL_HELLO], json);
    core_child_event_up(w->core, rank);
    snprintf(json, sizeof(json), "{\"ranks\":\"%s\",\"keys\":\"%s\",\"cards\":\"%s\"}", ranks, keys,
             cards);
    control(w, rank, &control_up[CONTROL_READY], json);
}

static void begin(struct world *w, uint32_t rank)
{
    struct core_config cfg;
    errmsg_t err;

    core_config_init(&cfg);
    cfg.rank = rank;
    cfg.size = SIZE;
    cfg.topology = "kary:2";
    cfg.heal_timeout = cfg.orphan_timeout = 5.;
    MUST((w->r = flux_reactor_create(false)) != NULL);
    MUST((w->timer = flux_timer_create(w->r, stop_cb, NULL)) != NULL);
    MUST((w->core = core_create(&cfg, w->r, NULL, NULL, &err)) != NULL);
    core_set_link(w->core, &link_ops, w);
    MUST(core_start(w->core) == 0);
    if (rank > 0) {
        w->parent = topology_parent(core_topology(w->core), rank);
        w->here[w->parent] = true;
        control(w, w->parent, &control_down[CONTROL_WELCOME],
                "{\"seq\":0,\"state\":" WIRED ",\"above\":[" CARD("1") "," CARD("0") "]}");
        join(w, 7, "7", KEY, AT);
        join(w, 8, "8", KEY, AT);
    } else {
        join(w, 1, "1,3-4,7-10", KEY KEY KEY KEY KEY KEY KEY, AT AT AT AT AT AT AT);
        join(w, 2, "2,5-6,11-14", KEY KEY KEY KEY KEY KEY KEY, AT AT AT AT AT AT AT);
    }
    core_local_ready(w->core);
    turn(w);
}

static uint32_t neighbor(const struct world *w, char c)
{
    int rank = hex_value(c);

    return rank >= 0 && rank < SIZE && (uint32_t)rank != core_rank(w->core) ? (uint32_t)rank : SIZE;
}

static const char *const events[] = {"overlay.up",    "overlay.down", "overlay.moved",
                                     "overlay.state", "overlay.run",  "overlay."};

static void event(struct world *w, size_t number, const char *json)
{
    flux_msg_t *msg;

    if (number >= sizeof(events) / sizeof(events[0]) || core_rank(w->core) == 0 ||
        !w->here[w->parent])
        return;
    MUST((msg = flux_msg_create(FLUX_MSG_EVENT, events[number])) != NULL);
    flux_msg_set_term(msg, FLUX_TERM_FIRST);
    flux_msg_set_seq(msg, core_event_seq(w->core) + 1);
    flux_msg_set_cred(msg, 0, FLUX_ROLE_BROKER);
    if (json[0])
        MUST(flux_msg_set_json(msg, json) == 0);
    core_link_input(w->core, CORE_TREE, w->parent, msg);
}

static const char *body(const char *text)
{
    return text[0] == ' ' ? text + 1 : "";
}

static void line(struct world *w, const char *s)
{
    uint32_t rank = s[0] == 'p' ? w->parent : s[0] ? neighbor(w, s[1]) : SIZE;
    bool child =
        rank < SIZE && topology_is_ancestor(core_topology(w->core), core_rank(w->core), rank);
    int m = s[0] == 'p' ? s[1] - 'a' : s[0] == 'c' && s[1] ? s[2] - 'a' : 0;

    if (s[0] == 'e' && s[1] >= 'a') {
        event(w, (size_t)(s[1] - 'a'), body(s + 2));
        return;
    }
    if (rank == SIZE || m < 0)
        return;
    if (s[0] == 'c' && child && w->here[rank] && m < CONTROL_NUP) {
        control(w, rank, &control_up[m], body(s + 3));
    } else if (s[0] == 'p' && core_rank(w->core) > 0 && w->here[rank] && m < CONTROL_NDOWN) {
        control(w, rank, &control_down[m], body(s + 2));
    } else if (s[0] == 'l' && w->here[rank]) {
        w->here[rank] = false;
        core_peer_lost(w->core, CORE_TREE, rank, "its connection was closed");
    } else if (s[0] == 'b' && child && !w->here[rank] && core_peer_adopt(w->core, rank)) {
        w->here[rank] = true;
        core_peer_back(w->core, CORE_TREE, rank);
    }
}

/* What the session map has of this rank. */
static void check_place(const struct world *w, uint32_t rank)
{
    const sessmap_t *m = core_map(w->core);
    const char *address = m ? sessmap_address(m, rank) : NULL;

    MUST(!address || (address[0] && !strpbrk(address, "\t\n")));
    MUST(!m || sessmap_parent(m, rank) < SIZE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world w = {0};
    char *text, *save = NULL;

    if (size < 2)
        return 0;
    MUST((text = strndup((const char *)data + 1, size - 1)) != NULL);
    begin(&w, data[0] & 1 ? INNER : 0);
    for (char *s = strtok_r(text, "\n", &save); s; s = strtok_r(NULL, "\n", &save)) {
        line(&w, s);
        turn(&w);
    }
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        const char *key = core_key_of(w.core, rank);

        MUST(!key || (strlen(key) == KEY_SIZE && core_has_key(w.core, key)));
        check_place(&w, rank);
    }
    flux_watcher_destroy(w.timer);
    core_destroy(w.core);
    flux_reactor_destroy(w.r);
    free(text);
    return 0;
}
