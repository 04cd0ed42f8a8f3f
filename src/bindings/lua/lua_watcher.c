/* lua_watcher.c - timers, file descriptors, signals, children, deferrals and idle callbacks.
 *
 *    method of a reactor            calls back                           stops by itself
 *    timer(after, fn [, repeat])    fn(w)                                once, unless repeated
 *    fd(fd|file, events, fn)        fn(w, events), e.g. "rw"             when the descriptor is bad
 *    signal(name|number, fn)        fn(w, number)                        no
 *    child(pid, fn)                 fn(w, "exit"|"signal", number)       yes
 *    defer(fn)                      fn(w), before the loop sleeps        yes
 *    idle(fn)                       fn(w), each time before it would     no
 *                                   sleep, which it then does not
 *
 * A new watcher is started.  A started watcher is anchored at its reactor; a stopped one lives as
 * long as the script refers to it.  Its uservalue is {reactor, function}.
 *
 * Invariants:
 *  1. libev aborts on a negative descriptor or an unknown signal: both are checked before.
 *  2. A callback may stop, start or destroy its own watcher or any other.
 *
 * Failure: ENOTSUP for signals and children on a reactor without signals, EBADF, with an error
 * message.
 */
#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lua_private.h"

enum kind { KIND_TIMER, KIND_FD, KIND_SIGNAL, KIND_CHILD, KIND_DEFER, KIND_IDLE };

struct watcher {
    flux_watcher_t *w; /* NULL: ended */
    struct lflux_reactor *lr;
    struct list_node node; /* in lflux_reactor.watchers */
    enum kind kind;
    double after;
    double repeat;
    int fd;
    int revents; /* of the call under way */
};

static const struct {
    const char *name;
    int number;
} signal_names[] = {
    {"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"USR1", SIGUSR1},
    {"USR2", SIGUSR2}, {"PIPE", SIGPIPE}, {"ALRM", SIGALRM}, {"TERM", SIGTERM},
    {"CHLD", SIGCHLD}, {"CONT", SIGCONT}, {"TSTP", SIGTSTP}, {"WINCH", SIGWINCH},
};

static struct watcher *check_watcher(lua_State *L, int arg)
{
    struct watcher *lw = lflux_object(L, arg, LFLUX_WATCHER);

    if (!lw->w)
        luaL_argerror(L, arg, "the watcher was destroyed, or its reactor closed");
    return lw;
}

static void watcher_end(struct watcher *lw)
{
    if (lw->w) {
        flux_watcher_destroy(lw->w);
        lw->w = NULL;
        list_remove(&lw->node);
    }
}

void lflux_watchers_end(struct lflux_reactor *lr)
{
    struct list_node *n;

    while ((n = list_first(&lr->watchers)))
        watcher_end(list_entry(n, struct watcher, node));
}

/* --- calling back --- */

static int push_args(lua_State *L, const struct watcher *lw)
{
    switch (lw->kind) {
    case KIND_FD:
        lua_pushfstring(L, "%s%s%s", lw->revents & FLUX_POLLIN ? "r" : "",
                        lw->revents & FLUX_POLLOUT ? "w" : "",
                        lw->revents & FLUX_POLLERR ? "e" : "");
        return 1;
    case KIND_SIGNAL:
        lua_pushinteger(L, lw->revents);
        return 1;
    case KIND_CHILD:
        lua_pushstring(L, WIFSIGNALED(lw->revents) ? "signal" : "exit");
        lua_pushinteger(L, WIFSIGNALED(lw->revents) ? WTERMSIG(lw->revents)
                                                    : WEXITSTATUS(lw->revents));
        return 2;
    default:
        return 0;
    }
}

/* Anchored while it is started. */
static void anchor(lua_State *L, struct watcher *lw, int obj)
{
    obj = lua_absindex(L, obj);
    if (lw->w && flux_watcher_active(lw->w)) {
        lua_pushboolean(L, 1);
        lflux_anchor(L, lw->lr, obj, -1);
        lua_pop(L, 1);
    } else
        lflux_unanchor(L, lw->lr, obj);
}

static int call_body(lua_State *L)
{
    struct watcher *lw = lua_touserdata(L, 1);

    if (!lflux_push_known(L, lw))
        return 0;
    /* A watcher that stopped by itself is released before the call, which may start it again. */
    if (lw->kind == KIND_IDLE)
        flux_watcher_start(lw->w);
    if (lw->kind == KIND_FD && lw->revents & FLUX_POLLERR)
        flux_watcher_stop(lw->w);
    anchor(L, lw, 2);
    lua_getuservalue(L, 2);
    lua_rawgeti(L, -1, 2);
    lua_pushvalue(L, 2);
    lua_call(L, 1 + push_args(L, lw), 0);
    return 0;
}

static void watcher_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct watcher *lw = arg;

    lw->revents = revents;
    lflux_protect(lw->lr, call_body, lw);
}

/* --- making them --- */

/* A watcher without its C half, which is made next; its reactor is at 1, its function at `fn`. */
static struct watcher *new_watcher(lua_State *L, struct lflux_reactor *lr, enum kind kind, int fn)
{
    struct watcher *lw = lflux_new(L, LFLUX_WATCHER, sizeof(*lw));

    lw->lr = lr;
    lflux_hold(lr);
    lw->kind = kind;
    lw->fd = -1;
    list_init(&lw->node);
    lua_createtable(L, 2, 0);
    lua_pushvalue(L, 1);
    lua_rawseti(L, -2, 1);
    lua_pushvalue(L, fn);
    lua_rawseti(L, -2, 2);
    lua_setuservalue(L, -2);
    lflux_known(L, -1, lw);
    return lw;
}

static void start(struct watcher *lw)
{
    /* A clock that was last read before a long computation would make the timer too short. */
    if (lw->kind == KIND_TIMER) {
        if (!lw->lr->top)
            flux_reactor_update(lw->lr->r);
        flux_timer_start(lw->w, lw->after, lw->repeat);
    } else
        flux_watcher_start(lw->w);
}

/* Take over `w`, start it, return the watcher on top of the stack. */
static int finish(lua_State *L, struct watcher *lw, flux_watcher_t *w)
{
    if (!w) {
        if (errno == ENOTSUP)
            return lflux_fail(L, ENOTSUP,
                              "this reactor has no signals: create it by "
                              "flux.reactor{signals=true}, and pass it to flux.open");
        return lflux_fail(L, errno, "cannot create a watcher: %s", strerror(errno));
    }
    lw->w = w;
    list_append(&lw->lr->watchers, &lw->node);
    start(lw);
    anchor(L, lw, -1);
    return 1;
}

static double check_seconds(lua_State *L, int arg, const char *what, bool optional)
{
    double s = optional ? luaL_optnumber(L, arg, 0.) : luaL_checknumber(L, arg);

    if (!(s >= 0. && s <= 1e10))
        luaL_argerror(L, arg, lua_pushfstring(L, "%s is a number of seconds, 0 or more", what));
    return s;
}

static int make_timer(lua_State *L)
{
    struct lflux_reactor *lr = lflux_check_reactor(L, 1);
    double after = check_seconds(L, 2, "the time", false);
    double repeat = check_seconds(L, 4, "the time between", true);
    struct watcher *lw;

    luaL_checktype(L, 3, LUA_TFUNCTION);
    lw = new_watcher(L, lr, KIND_TIMER, 3);
    lw->after = after;
    lw->repeat = repeat;
    return finish(L, lw, flux_timer_create(lr->r, watcher_cb, lw));
}

static int check_events(lua_State *L, int arg)
{
    const char *s = luaL_checkstring(L, arg);
    int events = 0;

    for (const char *p = s; *p; p++) {
        if (*p == 'r')
            events |= FLUX_POLLIN;
        else if (*p == 'w')
            events |= FLUX_POLLOUT;
        else
            luaL_argerror(L, arg, "events are \"r\", \"w\", \"rw\", or \"\" for a pause");
    }
    return events;
}

/* A number, or a file of Lua's io library. */
static int check_fd(lua_State *L, int arg)
{
    luaL_Stream *file = luaL_testudata(L, arg, LUA_FILEHANDLE);

    if (!file)
        return (int)lflux_check_range(L, arg, "a file descriptor", 0, 1 << 24);
    if (!file->closef)
        luaL_argerror(L, arg, "the file was closed");
    return fileno(file->f);
}

static int make_fd(lua_State *L)
{
    struct lflux_reactor *lr = lflux_check_reactor(L, 1);
    int fd = check_fd(L, 2);
    int events = check_events(L, 3);
    struct watcher *lw;

    luaL_checktype(L, 4, LUA_TFUNCTION);
    if (fcntl(fd, F_GETFD) < 0)
        return lflux_fail(L, EBADF, "there is no open file descriptor %d", fd);
    lw = new_watcher(L, lr, KIND_FD, 4);
    lw->fd = fd;
    return finish(L, lw, flux_fd_watcher_create(lr->r, fd, events, watcher_cb, lw));
}

static int check_signal(lua_State *L, int arg)
{
    const char *name;
    int number = 0;

    if (lua_type(L, arg) != LUA_TSTRING) {
        number = (int)lflux_check_range(L, arg, "a signal", 1, NSIG - 1);
        if (number == SIGKILL || number == SIGSTOP)
            luaL_argerror(L, arg, "this signal cannot be caught");
        return number;
    }
    name = lua_tostring(L, arg);
    if (strncmp(name, "SIG", 3) == 0)
        name += 3;
    for (size_t i = 0; i < sizeof(signal_names) / sizeof(signal_names[0]); i++) {
        if (strcmp(name, signal_names[i].name) == 0)
            number = signal_names[i].number;
    }
    if (number == 0)
        luaL_argerror(L, arg, lua_pushfstring(L, "unknown signal '%s'", name));
    return number;
}

static int make_signal(lua_State *L)
{
    struct lflux_reactor *lr = lflux_check_reactor(L, 1);
    int number = check_signal(L, 2);
    struct watcher *lw;

    luaL_checktype(L, 3, LUA_TFUNCTION);
    lw = new_watcher(L, lr, KIND_SIGNAL, 3);
    return finish(L, lw, flux_signal_watcher_create(lr->r, number, watcher_cb, lw));
}

static int make_child(lua_State *L)
{
    struct lflux_reactor *lr = lflux_check_reactor(L, 1);
    lua_Integer pid = lflux_check_range(L, 2, "a process id", 1, 1 << 30);
    struct watcher *lw;

    luaL_checktype(L, 3, LUA_TFUNCTION);
    lw = new_watcher(L, lr, KIND_CHILD, 3);
    return finish(L, lw, flux_child_watcher_create(lr->r, (int)pid, watcher_cb, lw));
}

static int make_deferral(lua_State *L, enum kind kind)
{
    struct lflux_reactor *lr = lflux_check_reactor(L, 1);
    struct watcher *lw;

    luaL_checktype(L, 2, LUA_TFUNCTION);
    lw = new_watcher(L, lr, kind, 2);
    return finish(L, lw, flux_defer_create(lr->r, watcher_cb, lw));
}

static int make_defer(lua_State *L)
{
    return make_deferral(L, KIND_DEFER);
}

static int make_idle(lua_State *L)
{
    return make_deferral(L, KIND_IDLE);
}

const luaL_Reg lflux_watcher_makers[] = {
    {"timer", make_timer}, {"fd", make_fd},       {"signal", make_signal},
    {"child", make_child}, {"defer", make_defer}, {"idle", make_idle},
    {NULL, NULL},
};

/* --- the class --- */

/* Also with new times: start([after [, repeat]]), for timers. */
static int watcher_start(lua_State *L)
{
    struct watcher *lw = check_watcher(L, 1);

    if (!lua_isnoneornil(L, 2)) {
        luaL_argcheck(L, lw->kind == KIND_TIMER, 2, "only a timer accepts times");
        lw->after = check_seconds(L, 2, "the time", false);
        lw->repeat = check_seconds(L, 3, "the time between", true);
    }
    if (lw->kind == KIND_FD && fcntl(lw->fd, F_GETFD) < 0)
        return lflux_fail(L, EBADF, "there is no open file descriptor %d", lw->fd);
    start(lw);
    anchor(L, lw, 1);
    return lflux_true(L);
}

static int watcher_stop(lua_State *L)
{
    struct watcher *lw = check_watcher(L, 1);

    flux_watcher_stop(lw->w);
    anchor(L, lw, 1);
    return lflux_true(L);
}

static int watcher_set(lua_State *L)
{
    struct watcher *lw = check_watcher(L, 1);
    int events = check_events(L, 2);

    luaL_argcheck(L, lw->kind == KIND_FD, 1, "only a watcher of a file descriptor has events");
    if (fcntl(lw->fd, F_GETFD) < 0)
        return lflux_fail(L, EBADF, "there is no open file descriptor %d", lw->fd);
    flux_fd_watcher_set(lw->w, events);
    return lflux_true(L);
}

static int watcher_unref(lua_State *L)
{
    flux_watcher_unref(check_watcher(L, 1)->w);
    return lflux_true(L);
}

static int watcher_active(lua_State *L)
{
    struct watcher *lw = lflux_object(L, 1, LFLUX_WATCHER);

    lua_pushboolean(L, lw->w && flux_watcher_active(lw->w));
    return 1;
}

static int watcher_destroy(lua_State *L)
{
    struct watcher *lw = lflux_object(L, 1, LFLUX_WATCHER);

    if (lw->w) {
        watcher_end(lw);
        anchor(L, lw, 1);
    }
    return 0;
}

static int watcher_gc(lua_State *L)
{
    struct watcher *lw = lflux_collect(L, LFLUX_WATCHER);

    if (lw) {
        struct lflux_reactor *lr = lw->lr;
        watcher_end(lw);
        lflux_drop(lw);
        lflux_drop(lr);
    }
    return 0;
}

static int watcher_tostring(lua_State *L)
{
    struct watcher *lw = lflux_object(L, 1, LFLUX_WATCHER);

    return lflux_describe(L, LFLUX_WATCHER, lw->w ? lw : NULL);
}

static const luaL_Reg methods[] = {
    {"start", watcher_start},
    {"stop", watcher_stop},
    {"set", watcher_set},
    {"unref", watcher_unref},
    {"active", watcher_active},
    {"destroy", watcher_destroy},
    {NULL, NULL},
};

void lflux_watcher_register(lua_State *L)
{
    lflux_class(L, LFLUX_WATCHER, methods, watcher_gc, watcher_tostring);
}
