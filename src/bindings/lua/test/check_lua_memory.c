/* check_lua_memory.c - the Lua module when memory runs out, at any moment.
 *
 * A script that does a bit of everything runs in a state whose allocator fails: once at the n-th
 * allocation, which makes Lua collect garbage there and then; or for a while from there on, which
 * ends the script with an error.  A thread plays the broker and answers what it is asked, well or
 * badly.  Nothing must crash, and nothing be lost (that is the sanitizer's to say).
 */
#include "config.h"
#include <check.h>
#include <errno.h>
#include <lauxlib.h>
#include <limits.h>
#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libflux/flux.h"
#include "libflux/framer.h"
#include "libflux/local_proto.h"
#include "libutil/test/suite.h"

int luaopen_flux(lua_State *L);

static const char script[] =
    "local flux = require 'flux'\n"
    "local h = assert(flux.open(...))\n"
    "local r = h:reactor()\n"
    "local kv = h:kvs('ns')\n"
    "for _ = 1, 2 do\n"
    "  flux.json.decode(flux.json.encode{a = {1, 2, {x = flux.null}}, s = 'text', [1] = nil})\n"
    "  h:rpc('echo', {list = {1, 2, 3}, name = 'x'})\n"
    "  h:rpc('echo', 'raw bytes')\n"
    "  h:getattr('size') h:setattr('a', 'b')\n"
    "  h:log('err', '%s %d', 'line', 5)\n"
    "  h:subscribe('ev')\n"
    "  h:on_event('ev.x', function(e) end)\n"
    "  h:publish('ev.y', {n = 1})\n"
    "  h:recv_event(0)\n"
    "  for rank, v in h:mrpc('echo', {}, {0, 0, 0}):results() do end\n"
    "  local f = h:rpc_async('stream', {}, {streaming = true})\n"
    "  for v in f:results() do end\n"
    "  local left = 3\n"
    "  local function done() left = left - 1 if left == 0 then r:stop() end end\n"
    "  h:rpc_async('echo', {}):then_(done)\n"
    "  h:rpc_async('echo', {}):then_(function(g) done() error(g:get()) end)\n"
    "  r:timer(0, done)\n"
    "  local t = r:timer(5, done) t:stop()\n"
    "  pcall(r.run, r)\n"
    "  r:stop() pcall(r.run, r)\n"
    "  local txn = kv:txn():put{a = 1, b = {x = 2}, c = 'three'}:mkdir('d'):guard('x')\n"
    "  txn:commit() kv:get('a') kv:info('b') kv:put_async('c', ('x'):rep(5000))\n"
    "  local w = kv:watch('a', function() end)\n"
    "  kv:dir('a') kv:snapshot() h:namespaces() kv:version() kv:wait_version(1, 0.001)\n"
    "  local wr = kv:writer('w') wr:write('data') wr:commit() kv:chunks('w')\n"
    "  local other = flux.reactor()\n"
    "  other:idle(function(x) x:destroy() end) other:run()\n"
    "end\n"
    "h:close()\n";

/* Lua skips a finalizer that it has no memory to call; the object's block is lost then, but what
 * the object stands for ends with its parent.  t/lua-gc.t looks for blocks that are lost
 * otherwise. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:lflux_new\n";
}

/* --- memory --- */

struct memory {
    long count;
    long fail_from;
    long fail_to;
};

static void *allocate(void *arg, void *ptr, size_t old, size_t size)
{
    struct memory *m = arg;

    if (size == 0) {
        free(ptr);
        return NULL;
    }
    /* Making a block smaller must not fail. */
    if (!ptr || size > old) {
        m->count++;
        if (m->count >= m->fail_from && m->count < m->fail_to)
            return NULL;
    }
    return realloc(ptr, size);
}

/* --- the broker --- */

static void say(outq_t *out, int fd, const flux_msg_t *msg)
{
    if (msg)
        outq_send(out, fd, msg);
    while (outq_bytes(out) > 0 && outq_flush(out, fd) > 0)
        ;
}

static void answer(outq_t *out, int fd, const flux_msg_t *req)
{
    const char *topic = flux_msg_topic(req);
    bool stream = flux_msg_has_flag(req, FLUX_MSGF_STREAMING);
    size_t len;
    const void *data = flux_msg_payload(req, &len);
    flux_msg_t *rsp;

    if (flux_msg_has_flag(req, FLUX_MSGF_NORESPONSE))
        return;
    for (int i = 0; i < (stream ? 3 : 1); i++) {
        rsp = flux_msg_response_create(req, stream && i == 2 ? ENODATA : 0);
        ck_assert(rsp != NULL);
        if (stream && i < 2)
            flux_msg_set_flags(rsp, FLUX_MSGF_STREAMING);
        if (strcmp(topic, "event.publish") == 0)
            flux_msg_set_json(rsp, "{\"seq\":7}");
        else if (strcmp(topic, "attr.get") == 0)
            flux_msg_set_json(rsp, "{\"name\":\"size\",\"value\":\"1\"}");
        else if (flux_msg_has_flag(req, FLUX_MSGF_RAW))
            flux_msg_set_raw(rsp, data, len);
        else if (data)
            flux_msg_set_json(rsp, data);
        say(out, fd, rsp);
        flux_msg_destroy(rsp);
    }
    if (strcmp(topic, "event.publish") == 0 && (rsp = flux_msg_create(FLUX_MSG_EVENT, "ev.z"))) {
        flux_msg_set_json(rsp, "{\"n\":[1,2,3]}");
        say(out, fd, rsp);
        flux_msg_destroy(rsp);
    }
}

static void *broker(void *arg)
{
    int fd = *(int *)arg;
    static const struct local_hello hello = {LOCAL_PROTOCOL, 0, 1, 1};
    framer_t *in = framer_create();
    outq_t *out = outq_create();
    char *json = flux_schema_encode(&local_hello_schema, &hello);
    flux_msg_t *msg = flux_msg_create(FLUX_MSG_CONTROL, LOCAL_HELLO);
    char *scratch = malloc(65536);

    ck_assert(in && out && json && msg && scratch);
    flux_msg_set_json(msg, json);
    say(out, fd, msg);
    do {
        flux_msg_destroy(msg);
        while (!(msg = framer_next(in, NULL)) && framer_read(in, fd, scratch, 65536, true) > 0)
            ;
        if (msg)
            answer(out, fd, msg);
    } while (msg);
    framer_destroy(in);
    outq_destroy(out);
    free(json);
    free(scratch);
    close(fd);
    return NULL;
}

/* --- --- */

/* Run the script; returns how many allocations there were, and whether it went to its end. */
static long run(long fail_from, long fail_to, bool *ended)
{
    /* The state and the standard library are not what is tested: they get their memory before. */
    struct memory m = {LONG_MIN / 2, fail_from, fail_to};
    lua_State *L = lua_newstate(allocate, &m);
    pthread_t thread;
    char uri[32];
    int sv[2];

    ck_assert(L != NULL);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, broker, &sv[1]), 0);
    snprintf(uri, sizeof(uri), "fd://%d", sv[0]);
    luaL_openlibs(L);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, "_PRELOAD");
    lua_pushcfunction(L, luaopen_flux);
    lua_setfield(L, -2, "flux");
    ck_assert_int_eq(luaL_loadstring(L, script), LUA_OK);
    lua_pushstring(L, uri);
    m.count = 0;
    *ended = lua_pcall(L, 1, 0, 0) == LUA_OK;
    if (!*ended && fail_from < 0)
        fprintf(stderr, "%s\n", lua_tostring(L, -1));
    m.fail_from = -1; /* finalizers may be called again */
    m.fail_to = -1;
    lua_close(L);
    shutdown(sv[0], SHUT_RDWR); /* in case the script never came to open it */
    close(sv[0]);
    pthread_join(thread, NULL);
    return m.count;
}

START_TEST(out_of_memory)
{
    bool ended;
    long total = run(-1, -1, &ended);
    long step = total / 200 + 1;
    int finished = 0, tried = 0;

    ck_assert(ended);
    ck_assert_int_gt(total, 500);
    for (long n = 1; n < total; n += step) {
        run(n, n + 1, &ended);
        finished += ended;
        tried++;
        run(n, n + 2 + n % 30, &ended);
        run(n, total * 2, &ended);
        ck_assert(!ended || n > total / 2);
    }
    /* A collection makes room: a single failure is not seen. */
    ck_assert_int_eq(finished, tried);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("all");

    tcase_add_test(tc, out_of_memory);
    tcase_set_timeout(tc, 200);
    return run_case("lua_memory", tc);
}
