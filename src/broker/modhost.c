/* modhost.c - comms modules: shared objects, in threads of their own or on the broker's loop.
 *
 *    state      the module                           left when (by)
 *    LOADING    starts, or runs init                 READY is reported (modhost_ready), or EXITED
 *    RUNNING    runs its reactor                     asked to stop (modhost_stop_one), or EXITED by
 *                                                    itself
 *    STOPPING   was sent the STOP or ASK envelope    EXITED is reported (modhost_exited): joined
 *                                                    and freed.  ASK only: REFUSED is reported
 *                                                    (modhost_refused): RUNNING again
 *
 * Messages pass by pointer: from the broker through the module's mailbox; from threads through one
 * mailbox that all of them share, and from modules on the loop straight to the core.
 *
 *    modhost_serve.c     what a module does with its messages, wherever it runs
 *    modhost_thread.c    a module in a thread
 *    modhost_loop.c      a module on the loop
 *    modhost_service.c   these requests:
 *
 *    module.load    {"path","args":[...],"place"?} -> {"name"}   path: a name, or that of a NAME.so
 *    module.unload  {"name","force"?}       -> {}
 *    module.reload  {"name","force"?}       -> {"name"}   same path and arguments
 *    module.list    (no payload)            -> {"modules":[{"name","path","state","received",
 *                                               "sent","queued","place","turns",...}]}
 *    module.stats   {"name"}                -> one such object
 *
 * Stopping: a module may refuse to stop (may_stop in libflux/module.h), with an error message for
 * the request, unless it is forced or the session shuts down.
 *
 * Reloading: all requests that the old instance has not answered go to the new one, so clients keep
 * waiting.  A module with hand_over (libflux/module.h) may also leave its state to the new
 * instance, which then gets its messages, read or not, and the responses for which it waits.
 *
 * Invariants:
 *  1. A module that fails, ends, or is unloaded affects nothing else: its unanswered requests end
 *     with ENOSYS and its error message.
 *  2. A mailbox holds at most MAILBOX_MAX envelopes of requests; further senders get EAGAIN.  Half
 *     of that is reserved for requests of modules and brokers, which a flood of clients' requests
 *     thus cannot block.  The thread reports which requests of local clients it has taken, so that
 *     a client with many waiting requests is not read (core_route.c).
 *  3. Two modules of one name never run at the same time, except during the hand-over of a reload.
 *  4. The loop handles the messages of threads in slices, in the order in which they were sent,
 *     with other work in between.
 *  5. A module's state changes by the transitions of `moves` only.
 *
 * Failure: module.load is answered with the reason: no such file, no such symbol, wrong ABI, or the
 * error message of init.
 */
#include "config.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libflux/paths.h"
#include "libflux/slice.h"
#include "libsettings/settings.h"
#include "libutil/filetrust.h"
#include "libutil/invariant.h"
#include "libutil/nearest.h"
#include "libutil/strbuf.h"
#include "libutil/strvec.h"
#include "modhost_private.h"
#include "libschema/jsonout.h"

#define MAILBOX_MAX 65536
#define MAILBOX_CLIENTS_MAX (MAILBOX_MAX / 2)
#define PER_STEP 8 /* envelopes of threads between two readings of the clock */

static const struct transition moves[] = {
    {LOADING, RUNNING, "modhost_ready"},
    {LOADING, STOPPING, "modhost_stop_one"},
    {RUNNING, STOPPING, "modhost_stop_one"},
    {STOPPING, RUNNING, "modhost_refused"},
    TRANSITION_END,
};

static void set_state(struct module *m, enum state state)
{
    TRANSITION(5, moves, m->state, state);
    m->state = state;
}

static void module_free(struct module *m)
{
    int saved = errno;

    list_remove(&m->node);
    list_remove(&m->asleep);
    fairq_destroy(m->queue);
    mailbox_destroy(m->inbox);
    if (m->dso)
        dlclose(m->dso);
    for (int i = 0; i < m->argc; i++)
        free(m->argv[i]);
    free(m->argv);
    flux_msg_destroy(m->load_req);
    flux_msg_destroy(m->stop_req);
    flux_handover_destroy(m->inherited);
    flux_handover_destroy(m->leaves);
    free(m->name);
    free(m->path);
    free(m);
    errno = saved;
}

struct module *modhost_find(modhost_t *mh, const char *name)
{
    LIST_FOREACH(it, &mh->modules)
    {
        struct module *m = list_entry(it, struct module, node);
        if (strcmp(m->name, name) == 0)
            return m;
    }
    return NULL;
}

/* --- messages --- */

static void wake(struct module *m)
{
    list_remove(&m->asleep);
    m->place->wake(m);
}

void modhost_wake_later(struct module *m)
{
    if (list_empty(&m->asleep)) {
        list_append(&m->mh->asleep, &m->asleep);
        flux_watcher_start(m->mh->waker);
    }
}

/* Modules that are to be woken again meanwhile have their turn in the next pass. */
static void waker_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    modhost_t *mh = arg;
    struct list_node now;

    list_init(&now);
    list_splice(&now, &mh->asleep);
    while (!list_empty(&now))
        wake(list_entry(list_first(&now), struct module, asleep));
}

static void refuse(struct module *m, flux_msg_t *msg)
{
    core_t *core = m->mh->core;
    flux_msg_t *resp;

    if (flux_msg_has_flag(msg, FLUX_MSGF_NORESPONSE)) {
        if (m->dropped++ == 0)
            flux_log(core_handle(core), LOG_ERR,
                     "module %s does not keep up: %s from user %u was dropped, and possibly more "
                     "after it",
                     m->name, flux_msg_topic(msg), flux_msg_userid(msg));
    } else if ((resp = flux_msg_response_create(msg, EAGAIN))) {
        flux_msg_set_nodeid(resp, core_rank(core));
        if (flux_msg_set_json(
                resp, "the module has more requests than it can take: try again later") == 0)
            core_endpoint_input(m->ep, resp);
        else
            flux_msg_destroy(resp);
    }
    flux_msg_destroy(msg);
}

/* Send a message to the module.  A request that finds the mailbox full is refused: -1.  Messages
 * that must not be lost are accepted anyway. */
static int post(struct module *m, flux_msg_t *msg, uint32_t from)
{
    bool request = flux_msg_type(msg) == FLUX_MSG_REQUEST;
    bool waits = request && m->place->sleeps && flux_msg_has_flag(msg, FLUX_MSGF_LAZY);
    size_t limit = 0;
    int rc;

    if (request && !core_must_arrive(msg))
        limit = flux_msg_rolemask(msg) & FLUX_ROLE_BROKER ? MAILBOX_MAX : MAILBOX_CLIENTS_MAX;
    if ((rc = mailbox_post(m->inbox, (void *)(uintptr_t)from, msg, 0, limit)) < 0) {
        if (limit > 0)
            refuse(m, msg);
        else
            flux_msg_destroy(msg);
        return -1;
    }
    m->received++;
    if (rc != 1 || waits)
        return 0;
    if (m->place->posted(m))
        wake(m);
    else
        modhost_wake_later(m);
    return 0;
}

static void endpoint_send(void *arg, flux_msg_t *msg)
{
    (void)post(arg, msg, 0);
}

static int endpoint_queue(void *arg, flux_msg_t *msg, uint32_t from)
{
    struct module *m = arg;
    unsigned weight = core_request_weight(msg);

    atomic_fetch_add(&m->mh->queued, weight);
    if (post(m, msg, from) == 0)
        return 0;
    atomic_fetch_sub(&m->mh->queued, weight);
    return -1;
}

void modhost_taken(modhost_t *mh, uint32_t from, unsigned weight)
{
    if (from)
        atomic_fetch_sub(&mh->queued, weight);
    core_endpoint_taken(mh->core, from, weight);
}

static const struct endpoint_ops endpoint_ops = {.send = endpoint_send, .queue = endpoint_queue};

/* The module's name: the file's name up to the first dot. */
static char *name_of(const char *path)
{
    const char *base = strrchr(path, '/');

    base = base ? base + 1 : path;
    return strndup(base, strcspn(base, "."));
}

/* Another name of the same file: a file that is loaded by one name is found again under it, even if
 * another file has that name now.  NULL with ENOMEM. */
static char *other_name(const char *file)
{
    const char *base = strrchr(file, '/');
    char *other = NULL;

    base = base ? base + 1 : file;
    if (asprintf(&other, "%.*s%s%s", (int)(base - file), file, base == file ? "./" : "/", base) < 0)
        return NULL;
    return other;
}

/* `aside`: load it beside a module of that name, for inspection. */
static int open_dso(struct module *m, bool aside, errmsg_t *err)
{
    char symbol[128];
    char *file = flux_path_module(m->path, err);
    errmsg_t why;

    if (!file && errno == ENOENT && !strchr(m->path, '/')) {
        why = *err;
        return errmsg_fail(err, ENOENT, "there is no module %s: %.*s", m->name,
                           (int)sizeof(why.text) / 2, why.text);
    }
    if (!file)
        return -1;
    if (aside) {
        char *other = other_name(file);

        free(file);
        if (!(file = other))
            return errmsg_fail(err, ENOMEM, "out of memory");
    }
    if (!file_is_trusted(file, &why)) {
        free(file);
        return errmsg_fail(err, errno, "module %s", why.text);
    }
    m->dso = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!m->dso) {
        free(file);
        return errmsg_fail(err, ENOEXEC, "module %s cannot be loaded: %s", m->name, dlerror());
    }
    snprintf(symbol, sizeof(symbol), "flux_module_%.100s", m->name);
    m->desc = dlsym(m->dso, symbol);
    if (!m->desc || m->desc->abi != FLUX_MODULE_ABI || strcmp(m->desc->name, m->name) != 0) {
        errmsg_fail(err, ENOEXEC, "%.120s is not a module '%s' for this version of the broker",
                    file, m->name);
        free(file);
        return -1;
    }
    free(file);
    if (m->desc->prepare && !aside)
        m->desc->prepare();
    return 0;
}

static const struct module_place *place_named(const char *name, size_t len)
{
    const struct module_place *const all[] = {&modhost_in_thread, &modhost_on_loop};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (len == strlen(all[i]->name) && strncmp(name, all[i]->name, len) == 0)
            return all[i];
    return NULL;
}

/* The next of `*list`, comma-separated: its place and, with a colon, the module's name; `place` is
 * NULL for "declared".  0 at the end, -1 if it is not valid. */
static int next_place(const char **list, const char **name, size_t *len,
                      const struct module_place **place)
{
    size_t all = strcspn(*list, ",");
    const char *colon = memchr(*list, ':', all);
    const char *word = colon ? colon + 1 : *list;
    size_t n = all - (size_t)(word - *list);

    if (all == 0)
        return **list == '\0' ? 0 : -1;
    *name = colon ? *list : NULL;
    *len = colon ? (size_t)(colon - *list) : 0;
    *place = place_named(word, n);
    if (!*place && !(n == strlen("declared") && strncmp(word, "declared", n) == 0))
        return -1;
    *list += all;
    *list += **list == ',';
    return 1;
}

/* Is a module of this name among the initial modules, or could it be loaded by its name? */
static bool may_be_loaded(const struct modhost_config *cfg, const char *name)
{
    char *path = strchr(name, '/') ? NULL : flux_path_module(name, NULL);
    strvec_t *list = !path && cfg->modules ? strvec_split(cfg->modules, ',') : NULL;
    bool found = path != NULL;

    for (size_t i = 0; !found && list && i < strvec_count(list); i++) {
        char *one = name_of(strvec_at(list, i));
        found = one && strcmp(one, name) == 0;
        free(one);
    }
    strvec_destroy(list);
    free(path);
    return found;
}

static int no_such_module(const struct modhost_config *cfg, const char *name, errmsg_t *err)
{
    struct nearest near;
    const char *known;
    char words[80];

    nearest_init(&near, name);
    for (size_t i = 0; cfg->known && (known = cfg->known(i)); i++)
        nearest_feed(&near, known);
    return errmsg_fail(err, ENOENT, "attribute module.place=%.100s: there is no module '%s'%s",
                       cfg->places, name, nearest_words(&near, words, sizeof(words)));
}

static int check_places(const struct modhost_config *cfg, errmsg_t *err)
{
    const char *list = cfg->places, *at = list;
    const struct module_place *place;
    const char *name;
    char word[64];
    size_t len;
    int rc;

    while ((rc = next_place(&at, &name, &len, &place)) > 0) {
        snprintf(word, sizeof(word), "%.*s", (int)len, name ? name : "");
        if (name && !may_be_loaded(cfg, word))
            return no_such_module(cfg, word, err);
    }
    return rc == 0 ? 0
                   : errmsg_fail(err, EINVAL,
                                 "attribute module.place=%s: declared, loop or thread is expected, "
                                 "or NAME:loop, NAME:thread separated by commas",
                                 list);
}

/* The place of a module, by the first of: the option of its user; the session's setting for this
 * module, or for all; the declaration of the module. */
static const struct module_place *place_of(const struct module *m)
{
    const struct module_place *declared =
        m->desc->place == FLUX_PLACE_LOOP ? &modhost_on_loop : &modhost_in_thread;
    const struct module_place *of_all = NULL;
    const struct module_place *place;
    const char *list = m->mh->places ? m->mh->places : "";
    const char *name;
    size_t len;

    while (next_place(&list, &name, &len, &place) > 0) {
        if (!name)
            of_all = place;
        else if (len == strlen(m->name) && strncmp(name, m->name, len) == 0)
            return place ? place : declared;
    }
    return of_all ? of_all : declared;
}

/* Make a module ready to be started, with its endpoint; `argv` is copied.  `place` may be NULL. */
static struct module *module_create(modhost_t *mh, const char *path, int argc, char *const *argv,
                                    const struct module_place *place, errmsg_t *err)
{
    struct module *m = calloc(1, sizeof(*m));

    if (!m)
        goto nomem;
    list_init(&m->node);
    list_init(&m->asleep);
    m->mh = mh;
    m->seed = flux_random(core_handle(mh->core));
    if (!(m->path = strdup(path)) || !(m->name = name_of(path)) || !(m->queue = fairq_create()) ||
        !(m->argv = calloc((size_t)argc + 1, sizeof(*m->argv))))
        goto nomem;
    for (; m->argc < argc; m->argc++) {
        if (!(m->argv[m->argc] = strdup(argv[m->argc])))
            goto nomem;
    }
    if (open_dso(m, false, err) < 0) {
        module_free(m);
        return NULL;
    }
    m->place = place ? place : place_of(m);
    if (!(m->inbox = mailbox_create(m->place == &modhost_in_thread)) ||
        !(m->ep = core_endpoint_add(mh->core, ENDPOINT_MODULE, m->name, core_userid(mh->core),
                                    FLUX_ROLE_OWNER | FLUX_ROLE_BROKER, &endpoint_ops, m)))
        goto nomem;
    return m;
nomem:
    if (m)
        module_free(m);
    errmsg_fail(err, ENOMEM, "out of memory for module %s", path);
    return NULL;
}

static int start(struct module *m, errmsg_t *err)
{
    if (m->mh->loads)
        m->mh->loads(m->mh->arg, m->name);
    return m->place->start(m, err);
}

struct module *modhost_load(modhost_t *mh, const char *path, int argc, char *const *argv,
                            const char *place, errmsg_t *err)
{
    const struct module_place *where = place ? place_named(place, strlen(place)) : NULL;
    char *name;
    struct module *m;

    if (place && !where) {
        errmsg_fail(err, EINVAL, "a module is placed on the loop or in a thread, not '%.64s'",
                    place);
        return NULL;
    }
    name = name_of(path);

    if (name && modhost_find(mh, name)) {
        errmsg_fail(err, EEXIST, "module %s is already loaded: use reload", name);
        free(name);
        return NULL;
    }
    /* A module given by its path may have any arguments, whatever its name. */
    for (int i = 0; name && !strchr(path, '/') && i < argc; i++) {
        if (settings_check_argument(name, argv[i], err) < 0) {
            free(name);
            return NULL;
        }
    }
    free(name);
    if (!(m = module_create(mh, path, argc, argv, where, err)))
        return NULL;
    if (core_service_add(mh->core, m->name, m->ep) < 0) {
        errmsg_fail(err, errno, "there already is a service '%s'", m->name);
        goto error;
    }
    if (start(m, err) < 0)
        goto error;
    list_append(&mh->modules, &m->node);
    return m;
error:
    core_endpoint_remove(m->ep, ENOSYS, "the module could not be started");
    module_free(m);
    return NULL;
}

static void answer(modhost_t *mh, flux_msg_t **req, const char *json, int errnum, const char *error)
{
    if (*req) {
        if (errnum)
            flux_respond_error(core_handle(mh->core), *req, errnum, "%s", error);
        else
            flux_respond(core_handle(mh->core), *req, json);
        flux_msg_destroy(*req);
        *req = NULL;
    }
}

static void check_started(modhost_t *mh)
{
    modhost_done_f done = mh->start_done;

    if (mh->starting == 0 && done) {
        mh->start_done = NULL;
        done(mh, mh->start_error.text[0] ? mh->start_error.text : NULL, mh->start_arg);
    }
}

static void check_stopped(modhost_t *mh)
{
    modhost_done_f done = mh->stop_done;

    if (list_empty(&mh->modules) && done) {
        mh->stop_done = NULL;
        done(mh, NULL, mh->stop_arg);
    }
}

void modhost_ready(struct module *m)
{
    modhost_t *mh = m->mh;
    strbuf_t *sb = strbuf_create(0);

    if (m->state == LOADING)
        set_state(m, RUNNING);
    jsonout_object(sb, NULL);
    jsonout_str(sb, "name", m->name);
    if (jsonout_object_end(sb) == 0)
        answer(mh, &m->load_req, strbuf_str(sb), 0, NULL);
    else
        answer(mh, &m->load_req, NULL, ENOMEM, "out of memory for the response; the module runs");
    strbuf_destroy(sb);
    if (m->initial) {
        m->initial = false;
        mh->starting--;
        check_started(mh);
    }
}

/* Handle an envelope that the old instance has not read.  A successor that inherits gets it,
 * without regard to limits: it was accepted already.  Otherwise a request that is not in the table
 * of pending requests goes to `fresh` (NULL: there is no successor), and no longer counts against
 * its client. */
static void move_envelope(struct module *old, struct module *fresh, const struct envelope *l)
{
    if (!l->msg)
        return;
    if (fresh && fresh->inherited && mailbox_put(fresh->inbox, l->from, l->msg, 0, 0) == 0) {
        fresh->received++;
        return;
    }
    modhost_taken(old->mh, (uint32_t)(uintptr_t)l->from, core_request_weight(l->msg));
    if (fresh && fresh->inherited && flux_msg_type(l->msg) == FLUX_MSG_REQUEST)
        refuse(fresh, l->msg); /* memory is short */
    else if (fresh && flux_msg_type(l->msg) == FLUX_MSG_REQUEST &&
             flux_msg_has_flag(l->msg, FLUX_MSGF_NORESPONSE))
        endpoint_send(fresh, l->msg);
    else
        flux_msg_destroy(l->msg);
}

static void move_mail(struct module *old, struct module *fresh)
{
    struct envelope l;

    while (modhost_serve_next(old, &l))
        move_envelope(old, fresh, &l);
    old->rest = mailbox_take(old->inbox, &old->nrest);
    while (modhost_serve_next(old, &l))
        move_envelope(old, fresh, &l);
}

/* The old instance has stopped: start a new one in its place. */
static struct module *succeed(struct module *old, errmsg_t *err)
{
    modhost_t *mh = old->mh;
    unsigned form = old->desc->handover;
    struct module *m;

    /* Otherwise dlopen() would return the loaded object, although the file may be a different one
     * now. */
    dlclose(old->dso);
    old->dso = NULL;
    if (!(m = module_create(mh, old->path, old->argc, old->argv, old->place, err)))
        return NULL;
    if (old->leaves && m->desc->handover != form) {
        core_endpoint_remove(m->ep, ENOSYS, "the module was not reloaded");
        module_free(m);
        errmsg_fail(
            err, ENOTSUP,
            "its file was replaced meanwhile by a version that expects its state in another form");
        return NULL;
    }
    m->successor = true;
    m->inherited = old->leaves;
    old->leaves = NULL;
    /* Fill its mailbox before it starts: unanswered requests come first. */
    core_endpoint_replace(old->ep, m->ep, m->inherited != NULL);
    move_mail(old, m);
    if (start(m, err) < 0) {
        move_mail(m, NULL); /* these no longer count against their clients */
        core_endpoint_remove(m->ep, ENOSYS, "the module could not be started");
        module_free(m);
        return NULL;
    }
    m->load_req = old->stop_req;
    old->stop_req = NULL;
    list_append(&mh->modules, &m->node);
    return m;
}

void modhost_exited(struct module *m)
{
    modhost_t *mh = m->mh;
    char why[400];
    errmsg_t err = {""};

    m->place->join(m);
    if (m->reload && !mh->stop_done && m->errnum == 0) {
        if (succeed(m, &err))
            snprintf(why, sizeof(why), "module %.64s was reloaded", m->name);
        else {
            snprintf(why, sizeof(why), "module %.64s was not reloaded: %s", m->name, err.text);
            answer(mh, &m->stop_req, NULL, errno ? errno : EIO, why);
        }
    } else if (m->errnum)
        snprintf(why, sizeof(why), "module %.64s failed: %s", m->name, m->error.text);
    else if (m->state == STOPPING)
        snprintf(why, sizeof(why), "module %.64s was unloaded", m->name);
    else
        snprintf(why, sizeof(why), "module %.64s ended", m->name);
    if (m->errnum || m->state != STOPPING)
        flux_log(core_handle(mh->core), LOG_ERR, "%s", why);
    answer(mh, &m->load_req, NULL, m->errnum ? m->errnum : ENOSYS, why);
    if (m->reload) /* it has ended, but has no successor */
        answer(mh, &m->stop_req, NULL, m->errnum ? m->errnum : EIO, why);
    answer(mh, &m->stop_req, "{}", 0, NULL);
    move_mail(m, NULL);
    /* Others do not know whether a broker that ends has done what its modules were asked for. */
    if (core_state(mh->core) >= CORE_DOWN)
        core_endpoint_remove(m->ep, EHOSTUNREACH, "the broker has ended before it answered");
    else
        core_endpoint_remove(m->ep, ENOSYS, why);
    if (m->initial) {
        mh->starting--;
        if (mh->start_error.text[0] == '\0')
            errmsg_set(&mh->start_error, "%s", why);
    }
    module_free(m);
    check_started(mh);
    check_stopped(mh);
}

int modhost_may_follow(struct module *m, errmsg_t *err)
{
    struct module next = {.name = m->name, .path = m->path};
    int rc = open_dso(&next, true, err);

    if (rc == 0 && next.desc->handover != m->desc->handover)
        rc = errmsg_fail(err, ENOTSUP,
                         "the new version of module %s cannot continue the work of the one that is "
                         "loaded: wait until it has none, or use --force, which ends that work",
                         m->name);
    if (next.dso)
        dlclose(next.dso);
    return rc;
}

int modhost_stop_one(struct module *m, enum code code)
{
    if (m->state == STOPPING)
        return 0;
    if (mailbox_post(m->inbox, NULL, NULL, (int)code, 0) < 0)
        return -1;
    set_state(m, STOPPING);
    modhost_wake_later(m);
    return 0;
}

/* Stop without asking, at the end of the session. */
static void stop_for_good(struct module *m)
{
    m->reload = false;
    if (modhost_stop_one(m, CODE_STOP) < 0)
        flux_log(core_handle(m->mh->core), LOG_ERR, "module %s cannot be stopped: %s", m->name,
                 strerror(errno));
}

void modhost_refused(struct module *m)
{
    char why[400];

    snprintf(why, sizeof(why), "module %.64s stays loaded: %s", m->name, m->refused.text);
    set_state(m, RUNNING);
    m->reload = false;
    answer(m->mh, &m->stop_req, NULL, m->refusal, why);
    if (m->mh->stop_done)
        stop_for_good(m);
}

static void from_thread(modhost_t *mh, const struct envelope *l)
{
    struct module *m = l->from;

    if (l->code >= CODE_TOOK) {
        modhost_taken(mh, (uint32_t)(uintptr_t)l->from, (unsigned)(l->code - CODE_TOOK));
    } else if (l->msg) {
        m->sent++;
        core_endpoint_input(m->ep, l->msg);
    } else if (l->code == CODE_READY)
        modhost_ready(m);
    else if (l->code == CODE_REFUSED)
        modhost_refused(m);
    else
        modhost_exited(m); /* the module's last envelope */
}

/* Handle messages of threads, for one slice. */
static void outbox_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    modhost_t *mh = arg;
    struct flux_slice s;

    if (mh->nrest == 0)
        mh->rest = mailbox_take(mh->outbox, &mh->nrest);
    flux_slice_begin(&s, r, FLUX_SLICE_SHARED, FLUX_SLICE_THINGS);
    for (unsigned n = 0; mh->nrest > 0 && (n % PER_STEP || flux_slice_more(&s)); n++) {
        mh->nrest--;
        from_thread(mh, mh->rest++);
    }
    if (mh->nrest > 0)
        mailbox_again(mh->outbox);
}

/* --- life --- */

modhost_t *modhost_create(core_t *core, const struct modhost_config *cfg, errmsg_t *err)
{
    modhost_t *mh;

    if (cfg->places && check_places(cfg, err) < 0)
        return NULL;
    if (!(mh = calloc(1, sizeof(*mh)))) {
        errmsg_fail(err, ENOMEM, "out of memory for the module host");
        return NULL;
    }
    mh->core = core;
    mh->turn_max = cfg->turn_max;
    mh->loads = cfg->loads;
    mh->arg = cfg->arg;
    list_init(&mh->modules);
    list_init(&mh->asleep);
    if (!(mh->waker = flux_defer_create(core_reactor(core), waker_cb, mh)) ||
        !(mh->outbox = mailbox_create(true)) ||
        !(mh->watcher = flux_fd_watcher_create(core_reactor(core), mailbox_fd(mh->outbox),
                                               FLUX_POLLIN, outbox_cb, mh)) ||
        core_service_add_self(core, "module") < 0 ||
        !(mh->handlers = flux_handlers_add(core_handle(core), modhost_handlers, mh)) ||
        (cfg->places && !(mh->places = strdup(cfg->places)))) {
        errmsg_fail(err, errno, "the module host cannot start: %s", strerror(errno));
        modhost_destroy(mh);
        return NULL;
    }
    flux_watcher_start(mh->watcher);
    return mh;
}

void modhost_destroy(modhost_t *mh)
{
    if (mh) {
        int saved = errno;
        flux_handlers_remove(mh->handlers);
        flux_watcher_destroy(mh->watcher);
        flux_watcher_destroy(mh->waker);
        for (; mh->nrest > 0; mh->nrest--)
            flux_msg_destroy((mh->rest++)->msg);
        mailbox_destroy(mh->outbox);
        free(mh->places);
        free(mh);
        errno = saved;
    }
}

int modhost_start(modhost_t *mh, const char *names, modhost_done_f done, void *arg)
{
    char *copy = strdup(names);
    char *save = NULL;

    if (!copy)
        return -1;
    mh->start_done = done;
    mh->start_arg = arg;
    mh->starting = 1; /* this function counts itself */
    for (char *name = strtok_r(copy, ", ", &save); name; name = strtok_r(NULL, ", ", &save)) {
        errmsg_t err = {""};
        struct module *m = modhost_load(mh, name, 0, NULL, NULL, &err);
        if (m) {
            m->initial = true;
            mh->starting++;
        } else if (mh->start_error.text[0] == '\0')
            errmsg_set(&mh->start_error, "%s", err.text);
    }
    mh->starting--;
    free(copy);
    check_started(mh);
    return 0;
}

void modhost_stop(modhost_t *mh, modhost_done_f done, void *arg)
{
    mh->stop_done = done;
    mh->stop_arg = arg;
    LIST_FOREACH(it, &mh->modules)
    stop_for_good(list_entry(it, struct module, node));
    check_stopped(mh);
}

char *modhost_running(const modhost_t *mh)
{
    strbuf_t *sb = strbuf_create(0);

    LIST_FOREACH(it, &mh->modules)
    strbuf_addf(sb, "%s%s", strbuf_len(sb) ? "," : "", list_entry(it, struct module, node)->name);
    return strbuf_take(sb);
}
