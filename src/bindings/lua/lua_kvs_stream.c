/* lua_kvs_stream.c - writing a value of any size, in pieces and in little memory.
 *
 *    w = kv:writer(key)
 *    w:write(data)    wait while too many pieces are outstanding
 *    w:commit()       commit the value: version, root reference; the writer is empty again
 *    w:size()         bytes so far
 *    w:close()        discard the value
 *
 * Reading is kv:chunks() in lua_kvs_read.c.
 *
 * Invariants:
 *  1. The writer of libkvs waits inside its functions, so they are called within a frame
 *     (lua_reactor.c), and callbacks run as in any other wait.
 *  2. It has requests on the handle, and so is destroyed before the handle: at once, or, if a
 *     callback closes the handle during a call, when the call returns.
 *
 * Failure: nil, error message, errno; close() the writer then.
 */
#include "config.h"
#include <errno.h>
#include <string.h>

#include "libkvs/kvs_stream.h"
#include "lua_kvs.h"

struct lflux_writer {
    flux_kvs_writer_t *w; /* NULL: ended */
    struct lflux_handle *lh;
    struct list_node node; /* in lflux_handle.writers */
    bool busy;             /* a call is under way */
    bool ended;            /* during that call */
    char ns[65];
    char key[];
};

static void writer_end(struct lflux_writer *lw)
{
    if (lw->busy) {
        lw->ended = true;
        return;
    }
    flux_kvs_writer_destroy(lw->w);
    lw->w = NULL;
    list_remove(&lw->node);
}

void lflux_writers_end(struct lflux_handle *lh)
{
    LIST_FOREACH_SAFE(it, tmp, &lh->writers)
    writer_end(list_entry(it, struct lflux_writer, node));
}

static struct lflux_writer *check_writer(lua_State *L)
{
    struct lflux_writer *lw = lflux_object(L, 1, LFLUX_WRITER);

    if (!lw->w || lw->ended)
        luaL_argerror(L, 1, "the writer was closed, or its handle");
    if (lw->busy)
        luaL_argerror(L, 1, "a callback uses a writer that waits");
    return lw;
}

int lflux_kvs_writer(lua_State *L)
{
    struct lflux_kvs *kv = lflux_check_current(L, 1);
    const char *key = lflux_check_text(L, 2, "the key");
    size_t len = strlen(key);
    struct lflux_writer *lw;

    if (lflux_bad_key(L, key, false) != 0)
        return 3;
    lw = lflux_new(L, LFLUX_WRITER, sizeof(*lw) + len + 1);
    lw->lh = kv->lh;
    lflux_hold(kv->lh);
    list_init(&lw->node);
    memcpy(lw->key, key, len + 1);
    memcpy(lw->ns, kv->ns, sizeof(lw->ns));
    lua_pushvalue(L, 1);
    lua_setuservalue(L, -2);
    if (!(lw->w = flux_kvs_writer_create(kv->lh->conn->h, lflux_kvs_ns(kv))))
        return lflux_fail(L, errno, "cannot create a writer: %s", strerror(errno));
    list_append(&kv->lh->writers, &lw->node);
    return 1;
}

static void begin(lua_State *L, struct lflux_writer *lw, struct lflux_frame *fr)
{
    lflux_enter(L, lw->lh->lr, fr, true);
    lw->busy = true;
}

/* Raises the error of a callback, as every wait. */
static void end(lua_State *L, struct lflux_writer *lw, struct lflux_frame *fr)
{
    lw->busy = false;
    if (lw->ended)
        writer_end(lw);
    lflux_leave(L, lw->lh->lr, fr);
}

static int writer_write(lua_State *L)
{
    struct lflux_writer *lw = check_writer(L);
    struct lflux_frame fr;
    errmsg_t err;
    size_t len;
    const char *data = luaL_checklstring(L, 2, &len);
    int rc, errnum;

    begin(L, lw, &fr);
    rc = flux_kvs_writer_write(lw->w, data, len, &err);
    errnum = errno;
    end(L, lw, &fr);
    return rc < 0 ? lflux_fail_err(L, errnum, &err) : lflux_true(L);
}

/* In a frame: no function of Lua is called here. */
static flux_future_t *commit(struct lflux_writer *lw, flux_t *h, errmsg_t *err)
{
    flux_kvs_txn_t *txn = flux_kvs_txn_create();
    flux_future_t *f = NULL;

    if (!txn)
        errmsg_fail(err, ENOMEM, "out of memory for a transaction");
    else if (flux_kvs_writer_put(lw->w, txn, lw->key, err) == 0) {
        errmsg_set(err, "the handle was closed while the value was written");
        errno = ECANCELED;
        if (!lw->ended && !(f = flux_kvs_commit(h, lw->ns[0] ? lw->ns : NULL, txn)))
            errmsg_set(err, "cannot commit: %s", strerror(errno));
    }
    flux_kvs_txn_destroy(txn);
    return f;
}

static int writer_commit(lua_State *L)
{
    static const char *const names[] = {"timeout", NULL};
    struct lflux_writer *lw = check_writer(L);
    struct lflux_future *lf;
    struct lflux_frame fr;
    errmsg_t err;
    flux_future_t *f;
    double timeout;
    int errnum;

    lua_settop(L, 2);
    lflux_check_options(L, 2, names);
    timeout = lflux_option_timeout(L, 2);
    lua_getuservalue(L, 1);
    lf = lflux_kvs_future(L, 3, lflux_push_version);
    begin(L, lw, &fr);
    f = commit(lw, lw->lh->conn->h, &err);
    errnum = errno;
    if (f)
        lflux_future_set(L, lf, f, lw->key);
    end(L, lw, &fr);
    return f ? lflux_future_finish(L, lf, timeout) : lflux_fail_err(L, errnum, &err);
}

static int writer_size(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)flux_kvs_writer_size(check_writer(L)->w));
    return 1;
}

static int writer_close(lua_State *L)
{
    writer_end(lflux_object(L, 1, LFLUX_WRITER));
    return 0;
}

static int writer_gc(lua_State *L)
{
    struct lflux_writer *lw = lflux_collect(L, LFLUX_WRITER);

    if (lw) {
        struct lflux_handle *lh = lw->lh;
        writer_end(lw);
        lflux_drop(lw);
        lflux_drop(lh);
    }
    return 0;
}

static int writer_tostring(lua_State *L)
{
    struct lflux_writer *lw = lflux_object(L, 1, LFLUX_WRITER);

    return lflux_describe(L, LFLUX_WRITER, lw->ended ? NULL : lw->w);
}

static const luaL_Reg methods[] = {
    {"write", writer_write},
    {"commit", writer_commit},
    {"size", writer_size},
    {"close", writer_close},
    {NULL, NULL},
};

void lflux_kvs_stream_register(lua_State *L)
{
    lflux_class(L, LFLUX_WRITER, methods, writer_gc, writer_tostring);
}
