/* cmd_session.c - what the session looks like: overlay.status and overlay.map of rank 0,
 * overlay.topology of the local broker. */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_session.h"

#define TIMEOUT 60.

/* The shape alone: NULL after printing an error message. */
static topology_t *session_topology(struct cmd *c, flux_t *h, char **spec)
{
    flux_future_t *f = flux_rpc(h, "overlay.topology", NULL, flux_rank(h), FLUX_MSGF_IDEMPOTENT);
    topology_t *t = NULL;
    struct overlay_shape s;
    errmsg_t err;

    if (cmd_wait_struct(c, f, TIMEOUT, "overlay.topology", &overlay_shape_schema, &s) == 0 &&
        !(t = topology_create_text(s.file, strlen(s.file), s.topology, s.size, &err)))
        cmd_error(c, "the broker sent an invalid description of its tree: %s", err.text);
    if (t && spec && !(*spec = strdup(s.topology))) {
        cmd_error(c, "out of memory");
        topology_destroy(t);
        t = NULL;
    }
    flux_future_destroy(f);
    return t;
}

/* Note how often each rank has joined, if that is more than once.  -1 with an error message. */
static int read_incarnations(struct session *s, json_t *list, errmsg_t *err)
{
    struct overlay_incarnation in;
    size_t i;
    json_t *o;

    if (!(s->incarnation = calloc(s->size ? s->size : 1, sizeof(*s->incarnation))))
        return errmsg_fail(err, ENOMEM, "out of memory");
    json_array_foreach(list, i, o)
    {
        idset_t *ranks = NULL;

        if (flux_schema_decode_json(&overlay_incarnation_schema, o, &in, err) < 0 ||
            !(ranks = idset_parse(in.ranks, err)))
            return -1;
        for (uint32_t r = idset_first(ranks); r != IDSET_NONE && r < s->size;
             r = idset_next(ranks, r))
            s->incarnation[r] = in.incarnation;
        idset_destroy(ranks);
    }
    return 0;
}

/* Each rank in one state: what rank 0 says of ranks that are up, or not, and what is left.  -1 with
 * an error message. */
static int read_states(struct session *s, const struct overlay_status *st, errmsg_t *err)
{
    const struct {
        enum session_state state;
        const char *ranks;
    } noted[] = {{SESSION_SLOW, st->slow},       {SESSION_DRAINING, st->draining},
                 {SESSION_JOINING, st->joining}, {SESSION_LEFT, st->left},
                 {SESSION_ABSENT, st->absent},   {SESSION_UP, st->up},
                 {SESSION_LOST, st->lost}};
    idset_t *rest = idset_create_range(0, s->size - 1);
    int rc = rest ? 0 : -1;

    for (size_t i = 0; rc == 0 && i < sizeof(noted) / sizeof(noted[0]); i++) {
        idset_t *ids = idset_parse(noted[i].ranks ? noted[i].ranks : "", err);

        s->in[noted[i].state] = ids;
        rc = ids && idset_keep(ids, rest) == 0 && idset_subtract(rest, ids) == 0 ? 0 : -1;
    }
    if (rc == 0)
        rc = idset_add(s->in[SESSION_ABSENT], rest); /* not there, and nobody has said so yet */
    idset_destroy(rest);
    return rc;
}

int session_query(struct cmd *c, struct session *s, bool topology)
{
    flux_t *h = cmd_handle(c);
    flux_future_t *f;
    struct overlay_status st = {0};
    errmsg_t err = {"out of memory"};
    int rc = -1;

    memset(s, 0, sizeof(*s));
    if (!h || (topology && !(s->topo = session_topology(c, h, &s->spec))))
        return -1;
    f = flux_rpc(h, "overlay.status", NULL, FLUX_NODEID_ROOT, FLUX_MSGF_IDEMPOTENT);
    if (cmd_wait_struct(c, f, TIMEOUT, "overlay.status", &overlay_status_schema, &st) == 0) {
        s->size = st.size;
        s->map = st.map;
        if (!(s->state = strdup(st.state)) || !(s->up = idset_parse(st.up, &err)) ||
            read_states(s, &st, &err) < 0 || read_incarnations(s, st.incarnations, &err) < 0)
            cmd_error(c, "the status of rank 0 cannot be read: %s", err.text);
        else
            rc = 0;
    }
    flux_future_destroy(f);
    if (rc < 0)
        session_clear(s);
    return rc;
}

/* Add the next part of the session map, which begins with this rank.  Returns the rank with which
 * the next one begins; 0: this was the last one; -1 after printing an error message. */
static int64_t add_places(struct cmd *c, struct session *s, uint32_t first)
{
    const struct overlay_map_since in = {.first = first};
    struct overlay_map out = {0};
    flux_future_t *f = flux_rpc_struct(cmd_handle(c), "overlay.map", &overlay_map_since_schema, &in,
                                       FLUX_NODEID_ROOT, FLUX_MSGF_IDEMPOTENT);
    int64_t next = -1;

    if (cmd_wait_struct(c, f, TIMEOUT, "overlay.map", &overlay_map_schema, &out) == 0) {
        if (out.next > 0 && out.next <= first)
            cmd_error(c, "the session map of rank 0 cannot be read");
        else if (json_array_extend(s->places, out.places) < 0)
            cmd_error(c, "out of memory");
        else
            next = out.next;
    }
    flux_future_destroy(f);
    return next;
}

int session_query_places(struct cmd *c, struct session *s)
{
    int64_t next = 0;

    if (!(s->places = json_array())) {
        cmd_error(c, "out of memory");
        next = -1;
    }
    while (next >= 0 && (next = add_places(c, s, (uint32_t)next)) > 0)
        ;
    if (next < 0)
        session_clear(s);
    return next < 0 ? -1 : 0;
}

void session_clear(struct session *s)
{
    free(s->state);
    free(s->spec);
    topology_destroy(s->topo);
    idset_destroy(s->up);
    for (size_t i = 0; i < SESSION_NSTATES; i++)
        idset_destroy(s->in[i]);
    free(s->incarnation);
    json_decref(s->places);
    memset(s, 0, sizeof(*s));
}

const char *session_state_name(enum session_state state)
{
    static const char *const names[SESSION_NSTATES] = {
        [SESSION_UP] = "up",           [SESSION_SLOW] = "slow", [SESSION_DRAINING] = "draining",
        [SESSION_JOINING] = "joining", [SESSION_LOST] = "lost", [SESSION_LEFT] = "left",
        [SESSION_ABSENT] = "absent",
    };

    return names[state];
}

const char *session_rank_state(const struct session *s, uint32_t rank)
{
    int state = SESSION_UP;

    while (state < SESSION_ABSENT && !idset_test(s->in[state], rank))
        state++;
    return session_state_name((enum session_state)state);
}

uint32_t session_rank_incarnation(const struct session *s, uint32_t rank)
{
    if (s->incarnation && rank < s->size && s->incarnation[rank] > 0)
        return s->incarnation[rank];
    return !idset_test(s->in[SESSION_ABSENT], rank) && !idset_test(s->in[SESSION_JOINING], rank);
}

struct overlay_place session_rank_place(const struct session *s, uint32_t rank)
{
    struct overlay_place p = {0};

    /* Each rank is in the map, and they are in order. */
    if (flux_schema_decode_json(&overlay_place_schema, json_array_get(s->places, rank), &p, NULL) <
            0 ||
        p.rank != rank)
        return (struct overlay_place){.rank = rank};
    return p;
}

static idset_t *ranks_to_depth(struct cmd *c, flux_t *h, uint32_t depth)
{
    topology_t *t = session_topology(c, h, NULL);
    idset_t *ids = t ? idset_create() : NULL;

    for (uint32_t rank = 0; ids && rank < topology_size(t); rank++) {
        if (topology_depth(t, rank) <= depth && idset_set(ids, rank) < 0) {
            idset_destroy(ids);
            ids = NULL;
        }
    }
    if (t && !ids)
        cmd_error(c, "out of memory");
    topology_destroy(t);
    return ids;
}

bool session_rank_option(int key, const char *val, const char **set, const char **depth)
{
    if (key == 'r')
        *set = val;
    else if (key == 'a')
        *set = "all";
    else if (key == 'd')
        *depth = val;
    else
        return false;
    return true;
}

int session_choose_ranks(struct cmd *c, flux_t *h, const char *set, const char *depth,
                         uint32_t **ranks, size_t *count)
{
    idset_t *ids = NULL;
    uint32_t d;
    size_t i = 0;

    if (set && depth)
        return cmd_usage_error(c, "--ranks and --depth exclude each other");
    if (depth) {
        if (cmd_parse_u32(c, "--depth", depth, &d) < 0)
            return CMD_USAGE;
        ids = ranks_to_depth(c, h, d);
    } else if (set) {
        if (!(ids = cmd_parse_ranks(c, h, set)))
            return CMD_USAGE;
    } else
        ids = idset_create_range(flux_rank(h), flux_rank(h));
    if (!ids || !(*ranks = malloc(idset_count(ids) * sizeof(**ranks)))) {
        idset_destroy(ids);
        return depth ? CMD_FAIL : cmd_error(c, "out of memory");
    }
    for (uint32_t id = idset_first(ids); id != IDSET_NONE; id = idset_next(ids, id))
        (*ranks)[i++] = id;
    *count = i;
    idset_destroy(ids);
    return CMD_OK;
}
