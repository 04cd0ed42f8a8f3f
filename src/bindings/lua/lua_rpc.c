/* lua_rpc.c - requests to any service, to one rank or to many.
 *
 *    h:rpc(topic [, payload [, nodeid|options]])          the response
 *    h:rpc_async(topic [, payload [, nodeid|options]])    a future
 *    h:mrpc(topic, payload, ranks)                        a future with a result for each rank
 *
 *    option       type      meaning
 *    nodeid       integer   target rank; absent: the nearest broker that has the service
 *    timeout      seconds   h:rpc only: give up after this time
 *    streaming    boolean   rpc_async only: any number of responses
 *    noresponse   boolean   no response is wanted: h:rpc returns true once the request is sent
 *    upstream     boolean   skip the local broker
 *    ring         boolean   go along the ring
 *
 * A payload is a table (sent as JSON), a string (sent as raw bytes, "" as none) or nil.
 *
 * Invariants: those of lua_future.c.
 *
 * Failure: nil, error message, errno, from the service if it sent them.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libidset/idset.h"
#include "lua_private.h"

#define RANKS_MAX 1000000

struct target {
    uint32_t nodeid;
    unsigned flags;
    double timeout;
};

static const struct {
    const char *name;
    unsigned flag;
} flag_options[] = {
    {"streaming", FLUX_MSGF_STREAMING},
    {"noresponse", FLUX_MSGF_NORESPONSE},
    {"upstream", FLUX_MSGF_UPSTREAM},
    {"ring", FLUX_MSGF_RING},
};

/* The argument after the payload: nil, a rank, or options. */
static void check_target(lua_State *L, int arg, struct target *t)
{
    static const char *const names[] = {"nodeid",   "timeout", "streaming", "noresponse",
                                        "upstream", "ring",    NULL};

    *t = (struct target){.nodeid = FLUX_NODEID_ANY, .timeout = -1.};
    if (lua_isnoneornil(L, arg))
        return;
    if (lua_type(L, arg) == LUA_TNUMBER) {
        t->nodeid = (uint32_t)lflux_check_range(L, arg, "a rank", 0, FLUX_RANK_MAX);
        return;
    }
    lflux_check_options(L, arg, names);
    for (size_t i = 0; i < sizeof(flag_options) / sizeof(flag_options[0]); i++) {
        if (lflux_option_bool(L, arg, flag_options[i].name))
            t->flags |= flag_options[i].flag;
    }
    if (t->flags & FLUX_MSGF_STREAMING && t->flags & FLUX_MSGF_NORESPONSE)
        luaL_argerror(L, arg, "'streaming' and 'noresponse' exclude each other");
    t->timeout = lflux_option_timeout(L, arg);
    if (lflux_option(L, arg, "nodeid") != LUA_TNIL) {
        lua_Integer rank = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : -1;
        if (rank < 0 || rank > FLUX_RANK_MAX)
            luaL_argerror(L, arg, "option 'nodeid' is a rank");
        t->nodeid = (uint32_t)rank;
    }
    lua_pop(L, 1);
}

static bool topic_valid(const char *topic)
{
    size_t len = strlen(topic);

    for (const char *p = topic; *p; p++) {
        if (*p <= ' ' || *p > '~')
            return false;
    }
    return len > 0 && len <= FLUX_MSG_TOPIC_MAX;
}

int lflux_bad_topic(lua_State *L, const char *topic)
{
    if (topic_valid(topic))
        return 0;
    return lflux_fail(L, EINVAL,
                      "'%s' is not a topic: 1 to 255 printable ASCII characters without blanks",
                      topic);
}

/* Send to `t`; the future's userdata is on top of the stack, its C half is returned in `f`.
 * 0; or 3 with nil, error message, errno pushed. */
static int send_request(lua_State *L, const struct target *t, struct lflux_future **lf,
                        flux_future_t **f)
{
    struct lflux_handle *lh = lflux_check_handle(L, 1);
    const char *topic = lflux_check_text(L, 2, "the topic");
    const char *data;
    size_t len;
    bool raw;
    int n = lflux_bad_topic(L, topic);

    if (n > 0)
        return n;
    if (lflux_check_payload(L, 3, &data, &len, &raw) < 0)
        return 3;
    *lf = lflux_future_push(L, 1, lflux_push_response);
    (*lf)->stream = t->flags & FLUX_MSGF_STREAMING;
    *f = raw ? flux_rpc_raw(lh->conn->h, topic, data, len, t->nodeid, t->flags)
             : flux_rpc(lh->conn->h, topic, data, t->nodeid, t->flags);
    return 0;
}

static int handle_rpc(lua_State *L)
{
    struct lflux_future *lf;
    flux_future_t *f;
    struct target t;

    check_target(L, 4, &t);
    if (t.flags & FLUX_MSGF_STREAMING)
        luaL_argerror(L, 4, "rpc returns one response: use rpc_async for a stream");
    if (send_request(L, &t, &lf, &f) != 0)
        return 3;
    return lflux_future_await(L, lf, f, lua_tostring(L, 2), t.timeout);
}

static int handle_rpc_async(lua_State *L)
{
    struct lflux_future *lf;
    flux_future_t *f;
    struct target t;

    check_target(L, 4, &t);
    if (t.timeout >= 0.)
        luaL_argerror(L, 4, "'timeout' is for rpc: pass it to wait, get or then_ of the future");
    if (send_request(L, &t, &lf, &f) != 0)
        return 3;
    return lflux_future_set(L, lf, f, lua_tostring(L, 2));
}

/* --- many ranks --- */

/* rank, response; or rank, nil, error message, errno. */
static int push_rank_response(lua_State *L, struct lflux_future *lf)
{
    uint32_t rank = flux_mrpc_rank(lf->f);

    if (rank == FLUX_NODEID_ANY)
        lua_pushnil(L);
    else
        lua_pushinteger(L, rank);
    return 1 + lflux_push_response(L, lf);
}

/* The ranks at `arg` ("all", "0-3,7", or an array) as a block of the Lua stack's own; their number.
 * 0 with nil, error message, errno pushed. */
static size_t check_ranks(lua_State *L, int arg, uint32_t size, const uint32_t **ranks)
{
    uint32_t *out;
    size_t n;

    if (lua_type(L, arg) == LUA_TSTRING) {
        const char *s = lflux_check_text(L, arg, "the list of ranks");
        idset_t *ids;
        size_t i = 0;

        out =
            lua_newuserdata(L, size * sizeof(*out)); /* may raise: before there is a set to free */
        ids = strcmp(s, "all") == 0 ? idset_create_range(0, size - 1) : idset_parse(s, NULL);
        if (!ids) {
            lflux_fail(L, errno, "'%s' is not a list of ranks such as \"all\" or \"0-3,7\"", s);
            return 0;
        }
        n = idset_count(ids);
        for (uint32_t id = idset_first(ids); n <= size && i < n; id = idset_next(ids, id))
            out[i++] = id;
        idset_destroy(ids);
        if (n > size) {
            lflux_fail(L, EINVAL, "'%s' has more ranks than the session", s);
            return 0;
        }
    } else {
        luaL_checktype(L, arg, LUA_TTABLE);
        n = lua_rawlen(L, arg);
        if (n > RANKS_MAX)
            luaL_argerror(L, arg, "a list of ranks has at most a million elements");
        out = lua_newuserdata(L, (n ? n : 1) * sizeof(*out));
        for (size_t i = 0; i < n; i++) {
            lua_rawgeti(L, arg, (lua_Integer)i + 1);
            if (!lua_isinteger(L, -1) || lua_tointeger(L, -1) < 0 ||
                lua_tointeger(L, -1) > FLUX_RANK_MAX)
                luaL_argerror(L, arg, "a list of ranks contains integers only");
            out[i] = (uint32_t)lua_tointeger(L, -1);
            lua_pop(L, 1);
        }
    }
    *ranks = out;
    if (n == 0)
        lflux_fail(L, EINVAL, "the list of ranks is empty");
    return n;
}

static int handle_mrpc(lua_State *L)
{
    struct lflux_handle *lh = lflux_check_handle(L, 1);
    const char *topic = lflux_check_text(L, 2, "the topic");
    struct lflux_future *lf;
    const uint32_t *ranks;
    const char *data;
    size_t len, n;
    bool raw;
    int bad = lflux_bad_topic(L, topic);

    if (bad > 0)
        return bad;
    if (lua_type(L, 3) == LUA_TSTRING)
        luaL_argerror(L, 3, "a request to many ranks has a table or nil as payload");
    lua_settop(L, 4);
    if ((n = check_ranks(L, 4, flux_size(lh->conn->h), &ranks)) == 0)
        return 3;
    if (lflux_check_payload(L, 3, &data, &len, &raw) < 0)
        return 3;
    lf = lflux_future_push(L, 1, push_rank_response);
    lf->stream = true;
    return lflux_future_set(L, lf, flux_mrpc(lh->conn->h, topic, data, ranks, n, 0), topic);
}

const luaL_Reg lflux_rpc_methods[] = {
    {"rpc", handle_rpc},
    {"rpc_async", handle_rpc_async},
    {"mrpc", handle_mrpc},
    {NULL, NULL},
};
