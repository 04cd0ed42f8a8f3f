/* Shared by the files of the Lua binding.  Not installed.
 *
 * A reactor has handles and watchers; a handle has futures and event handlers.  Each has a
 * userdata, which keeps its parent alive by its uservalue; the parent has an intrusive list of its
 * children, which it ends when it ends first.  An object that was ended stays valid; its methods
 * raise an error.
 *
 * Thread rules: those of Lua, one thread at a time for each lua_State; there is no other state.
 */
#ifndef FLUX_LUA_PRIVATE_H
#define FLUX_LUA_PRIVATE_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdbool.h>

#include "libflux/flux.h"
#include "libutil/list.h"

#define LFLUX_REACTOR "flux.reactor"
#define LFLUX_WATCHER "flux.watcher"
#define LFLUX_HANDLE "flux.handle"
#define LFLUX_FUTURE "flux.future"
#define LFLUX_HANDLER "flux.handler"
#define LFLUX_KVS "flux.kvs"
#define LFLUX_TXN "flux.txn"
#define LFLUX_WRITER "flux.writer"
#define LFLUX_ARRAY "flux.array"
#define LFLUX_STREAM_WRITER "flux.stream_writer"
#define LFLUX_STREAM_READER "flux.stream_reader"

/* --- lua_util.c: errors, arguments, metatables --- */

/* Push nil, error message, errno: the results of a function that failed.  Returns 3. */
int lflux_fail(lua_State *L, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int lflux_fail_err(lua_State *L, int errnum, const errmsg_t *err);
/* true (1 value). */
int lflux_true(lua_State *L);
/* Push `data` (malloc'd) as a string, and free it whatever happens. */
void lflux_push_taken(lua_State *L, char *data, size_t len);
/* A string argument that C can hold; raises an error that calls it `what` otherwise. */
const char *lflux_check_text(lua_State *L, int arg, const char *what);
const char *lflux_opt_text(lua_State *L, int arg, const char *what);
/* Seconds: absent or nil: -1 (for ever); otherwise >= 0, or an error is raised. */
double lflux_check_timeout(lua_State *L, int arg);
/* An integer in [lo, hi], or an error is raised. */
lua_Integer lflux_check_range(lua_State *L, int arg, const char *what, lua_Integer lo,
                              lua_Integer hi);
/* The table of options at `arg` (or none) has only names out of the list; raises an error else. */
void lflux_check_options(lua_State *L, int arg, const char *const names[]);
/* Push option `name` of the table at `arg`; returns its type, LUA_TNIL (pushed too) when absent. */
int lflux_option(lua_State *L, int arg, const char *name);
bool lflux_option_bool(lua_State *L, int arg, const char *name);
/* A text, which the table keeps (the text of a number would be nobody's); NULL without it. */
const char *lflux_option_text(lua_State *L, int arg, const char *name);
double lflux_option_timeout(lua_State *L, int arg);
/* Push a new object of a class: a box (userdata) with a zeroed block of `size` bytes.  Raises an
 * error when memory is out. */
void *lflux_new(lua_State *L, const char *class, size_t size);
void *lflux_unbox(lua_State *L, int index);                   /* NULL: collected */
void *lflux_object(lua_State *L, int arg, const char *class); /* or an error is raised */
void *lflux_collect(lua_State *L, const char *class); /* for finalizers: NULL the 2nd time */
/* Blocks are freed when the last who refers to them drops them; the box is the first. */
void lflux_hold(void *object);
void lflux_drop(void *object); /* NULL-safe */
/* Make the metatable `name` with these methods, __gc and __tostring. */
void lflux_class(lua_State *L, const char *name, const luaL_Reg methods[], lua_CFunction gc,
                 lua_CFunction to_string);
void lflux_extend(lua_State *L, const char *name, const luaL_Reg methods[]); /* more methods */
/* "flux.future (ended)" and the like. */
int lflux_describe(lua_State *L, const char *name, const void *live);

/* --- lua_reactor.c: the loop, and calling Lua from it --- */

/* A call into C during which callbacks may run: innermost first. */
struct lflux_frame {
    struct lflux_frame *up;
    lua_State *L; /* the thread that callbacks run on */
    bool wait;    /* a wait for one handle, not run() */
    bool failed;  /* a callback raised an error: leave */
};

struct lflux_reactor {
    flux_reactor_t *r; /* NULL when ended */
    struct lflux_frame *top;
    bool signals;
    bool stopped; /* by the script: leave run(), or do not enter it */
    bool reap;    /* a handle was closed by a callback: close it when the loop is left */
    lua_Integer rc;
    struct list_node handles;
    struct list_node watchers;
    struct list_node zombies; /* struct lflux_conn */
};

void lflux_reactor_register(lua_State *L);
int lflux_reactor_new(lua_State *L); /* flux.reactor([options]) */
struct lflux_reactor *lflux_check_reactor(lua_State *L, int arg);
/* Push a new reactor; NULL with nil, error message, errno pushed. */
struct lflux_reactor *lflux_reactor_create(lua_State *L, bool signals);

void lflux_enter(lua_State *L, struct lflux_reactor *lr, struct lflux_frame *fr, bool wait);
/* Leave; raises the error of a callback if there was one.  `fr` must be the innermost. */
void lflux_leave(lua_State *L, struct lflux_reactor *lr, struct lflux_frame *fr);

/* In C called by the loop: run `body`(light userdata `arg`) protected; an error is kept until the
 * innermost frame is left. */
void lflux_protect(struct lflux_reactor *lr, lua_CFunction body, void *arg);

/* Objects that have a callback: known by address as long as they are not collected, and anchored
 * (kept, with a function) by their reactor for as long as the callback may come. */
void lflux_known(lua_State *L, int obj, const void *p);
bool lflux_push_known(lua_State *L, const void *p); /* nil is pushed and false returned if gone */
void lflux_anchor(lua_State *L, struct lflux_reactor *lr, int obj, int fn);
void lflux_unanchor(lua_State *L, struct lflux_reactor *lr, int obj);
/* The function anchored with the object at `obj`, or nil. */
void lflux_push_anchored(lua_State *L, struct lflux_reactor *lr, int obj);

/* --- lua_watcher.c --- */

void lflux_watcher_register(lua_State *L);
extern const luaL_Reg lflux_watcher_makers[]; /* methods of reactors */
void lflux_watchers_end(struct lflux_reactor *lr);

/* --- lua_handle.c --- */

/* The connection of a handle; if a callback closed the handle, it stays until the loop is left. */
struct lflux_conn {
    struct list_node node; /* in lflux_reactor.zombies */
    flux_t *h;
    struct lflux_handle *owner; /* NULL: closed */
};

struct lflux_event_queue;

struct lflux_handle {
    struct lflux_conn *conn; /* NULL: closed */
    struct lflux_reactor *lr;
    struct list_node node; /* in lflux_reactor.handles */
    struct list_node futures;
    struct list_node handlers;
    struct list_node writers;
    struct list_node streams;
    struct lflux_event_queue *events;
    bool lost;
    bool lost_handled; /* there is an on_lost callback */
};

void lflux_handle_register(lua_State *L);
int lflux_open(lua_State *L);                                   /* flux.open([uri [, reactor]]) */
struct lflux_handle *lflux_check_handle(lua_State *L, int arg); /* open, or an error is raised */
/* Close; `L` to release anchored objects, NULL in a finalizer (then none is anchored). */
void lflux_handle_end(lua_State *L, struct lflux_handle *lh);
/* Destroy the connections on the list of zombies. */
void lflux_conns_reap(struct lflux_reactor *lr);

/* Wait until `ready`(arg) or the timeout (-1: none), handling messages.  Returns 0; or -1 with
 * ETIMEDOUT, EPIPE, ECANCELED (the handle was closed meanwhile).  Raises errors of callbacks. */
int lflux_wait(lua_State *L, struct lflux_handle *lh, double timeout, bool (*ready)(void *arg),
               void *arg);

/* --- lua_future.c --- */

struct lflux_future;
/* Push the current result (it is ready); returns the number of values. */
typedef int (*lflux_push_f)(lua_State *L, struct lflux_future *lf);

struct lflux_future {
    flux_future_t *f; /* NULL: ended */
    struct lflux_handle *lh;
    struct list_node node; /* in lflux_handle.futures */
    lflux_push_f push;
    bool stream;   /* more than one result may come */
    bool spread;   /* the callback gets the result, not the future */
    bool over;     /* a stream: no more will come */
    bool moved;    /* the callback went to the next result itself */
    bool callback; /* has one */
};

void lflux_future_register(lua_State *L);
/* Push an empty future of the handle at stack index `handle`: to be filled in with
 * lflux_future_set(), so that nothing can be lost between the request and its userdata. */
struct lflux_future *lflux_future_push(lua_State *L, int handle, lflux_push_f push);
/* The future is on top; takes `f` over: 1.  When it is NULL: nil, error message ("cannot ask
 * `what`..."), and errno are pushed: 3. */
int lflux_future_set(lua_State *L, struct lflux_future *lf, flux_future_t *f, const char *what);
/* For blocking calls: wait for it, push its result, end it. */
int lflux_future_finish(lua_State *L, struct lflux_future *lf, double timeout);
/* The same in one go. */
int lflux_future_await(lua_State *L, struct lflux_future *lf, flux_future_t *f, const char *what,
                       double timeout);
/* Wait until it is ready: 0; else nil, error message, errno are pushed: 3. */
int lflux_future_wait(lua_State *L, struct lflux_future *lf, double timeout);
void lflux_future_end(lua_State *L, struct lflux_future *lf); /* `L` as above */
/* Call the function at `fn` for each result of the future at `obj`.  0; or 3 with nil, error
 * message, errno pushed. */
int lflux_future_then(lua_State *L, struct lflux_future *lf, int obj, int fn, double timeout);
/* Push nil, error message, errno of the current result: 3; 0 when it is not an error. */
int lflux_push_failure(lua_State *L, struct lflux_future *lf);
/* lflux_push_f: the payload, JSON or raw bytes, or true if there is none; and true alone. */
int lflux_push_response(lua_State *L, struct lflux_future *lf);
int lflux_push_true(lua_State *L, struct lflux_future *lf);

/* --- lua_rpc.c, lua_event.c, lua_kvs*.c, lua_stream.c: methods of the handle, other classes --- */

extern const luaL_Reg lflux_rpc_methods[];
/* 0; or 3 with nil, error message, errno pushed when no message can have this topic. */
int lflux_bad_topic(lua_State *L, const char *topic);
extern const luaL_Reg lflux_event_methods[];
extern const luaL_Reg lflux_kvs_handle_methods[];
extern const luaL_Reg lflux_stream_handle_methods[];
void lflux_event_register(lua_State *L);
void lflux_kvs_register(lua_State *L);
void lflux_stream_register(lua_State *L);
void lflux_events_end(lua_State *L, struct lflux_handle *lh);
void lflux_writers_end(struct lflux_handle *lh);
void lflux_streams_end(struct lflux_handle *lh);

/* --- lua_json.c --- */

#define LFLUX_JSON_DEPTH 128

void lflux_json_register(lua_State *L); /* adds json, null, array to the table on top */
/* The value at `index` as JSON text, malloc'd; NULL with EINVAL or ENOMEM and an error message.
 * Raises nothing. */
char *lflux_json_encode(lua_State *L, int index, size_t *len, errmsg_t *err);
/* Push the decoded text: 0; -1 with EPROTO or ENOMEM and an error message, nothing pushed. */
int lflux_json_decode(lua_State *L, const char *text, size_t len, errmsg_t *err);
/* A message's payload: decoded JSON, a string (raw bytes), or nothing (returns 0, pushes nil). */
int lflux_push_payload(lua_State *L, const flux_msg_t *msg, errmsg_t *err);
/* A payload argument: nil, a table (JSON), or a string (raw).  For JSON the text is pushed as a
 * string, so that it is freed whatever happens; `*raw` tells.  -1 with nil, error message, errno
 * pushed. */
int lflux_check_payload(lua_State *L, int arg, const char **data, size_t *len, bool *raw);

#endif
