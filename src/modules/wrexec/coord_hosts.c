/* coord_hosts.c - the brokers that share a host, for MPI.
 *
 * Purpose: nodes of a job with the same name are one host for MPI, and their tasks share memory.
 * But brokers in different containers or network namespaces can have the same name, too, and their
 * tasks reach neither the same /dev/shm nor each other's local sockets; and two machines may both
 * be called localhost.  So each rank has a mark that identifies the memory and sockets which it can
 * reach (hostshare_get() of hostmark.h).  Before the first launch with several nodes of one name,
 * rank 0 asks these nodes for their marks.  If the marks of one name differ, the launch gets a list
 * of made-up names (wrexec_launch.hosts), which are equal for nodes that share a host.
 *
 *    state of a rank   meaning                            left when                  by
 *    unknown           not asked, or it gave an error     a launch needs its mark    ask_rank
 *    asked             wrexec.host has been sent          it answers                 answer_cb
 *    known             its mark is known: a number        never
 *
 * Invariants:
 *  1. Equal numbers mean equal marks, also after a reload.
 *  2. Launches wait for marks for at most PATIENCE seconds, and only once for each rank: a rank
 *     that is slow or answers with an error is `late`, and launches do not wait for it again.
 *     Until its mark is known, its name decides.
 *  3. A launch whose nodes all have different names does not cause requests.
 *
 * Failure: without memory, the launch fails.
 */
#include "config.h"
#include "coord.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libidset/hostlist.h"
#include "libutil/hostmark.h"
#include "libutil/strbuf.h"

#define PATIENCE 5.

struct rank_host {
    struct coord_hosts *all;
    uint32_t number; /* number of its mark; 0: not known */
    flux_future_t *f;
    bool late;
};

struct coord_hosts {
    struct coord *coord;
    struct rank_host *v; /* hosts by rank */
    hmap_t *numbers;     /* mark -> number, stored as a pointer */
    uint32_t nasked;     /* ranks that launches wait for */
    flux_watcher_t *timer;
};

/* Return the number of a mark, or 0 with ENOMEM. */
static uint32_t number_of(struct coord_hosts *hs, const char *mark)
{
    uint32_t number = (uint32_t)(uintptr_t)hmap_get(hs->numbers, mark);

    if (number)
        return number;
    number = (uint32_t)hmap_count(hs->numbers) + 1;
    return hmap_put(hs->numbers, mark, (void *)(uintptr_t)number) < 0 ? 0 : number;
}

/* --- requests for marks --- */

static void not_awaited(struct coord_hosts *hs)
{
    if (hs->nasked > 0 && --hs->nasked == 0) {
        flux_watcher_stop(hs->timer);
        coord_ready(hs->coord);
    }
}

static void answer_cb(flux_future_t *f, void *arg)
{
    struct rank_host *rh = arg;
    struct coord_hosts *hs = rh->all;
    struct wrexec_host host = {0};
    bool awaited = !rh->late;
    errmsg_t err;

    if (flux_rpc_get_struct(f, &wrexec_host_schema, &host, &err) == 0)
        rh->number = number_of(hs, host.mark);
    rh->late = rh->number == 0;
    flux_future_destroy(f);
    rh->f = NULL;
    if (awaited)
        not_awaited(hs);
}

static void patience_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    struct coord_hosts *hs = arg;

    for (uint32_t rank = 0; rank < hs->coord->ctx->size; rank++)
        hs->v[rank].late = hs->v[rank].late || hs->v[rank].f;
    hs->nasked = 0;
    coord_ready(hs->coord);
}

static void ask_rank(struct coord_hosts *hs, uint32_t rank)
{
    struct rank_host *rh = &hs->v[rank];

    rh->f = flux_rpc(hs->coord->ctx->h, "wrexec.host", NULL, rank, FLUX_MSGF_IDEMPOTENT);
    if (!rh->f || flux_future_then(rh->f, -1., answer_cb, rh) < 0) {
        flux_future_destroy(rh->f);
        rh->f = NULL;
        rh->late = true;
        return;
    }
    if (rh->late)
        return;
    if (hs->nasked++ == 0)
        flux_timer_start(hs->timer, PATIENCE, 0.);
}

/* Return the names of the nodes of a launch, or NULL when all differ, or with ENOMEM. */
static hostlist_t *names_of(const struct spec *s)
{
    hostlist_t *hl;

    /* A list without a comma is one range, in which no name occurs twice. */
    if (!s->w.names || !strchr(s->w.names, ',') || s->w.exec)
        return NULL;
    hl = hostlist_parse(s->w.names, NULL);
    if (hl && hostlist_count(hl) == idset_count(s->ranks))
        return hl;
    hostlist_destroy(hl);
    return NULL;
}

/* Return the ranks whose names another rank of the launch has as well, or NULL with ENOMEM. */
static idset_t *namesakes(const struct spec *s, const hostlist_t *hl)
{
    hmap_t *first = hmap_create_str(NULL); /* name -> 1 + the first rank with it */
    idset_t *ranks = idset_create();
    char name[HOSTLIST_NAME_MAX + 1];
    size_t i = 0;
    int rc = first && ranks ? 0 : -1;

    for (uint32_t r = idset_first(s->ranks); rc == 0 && r != IDSET_NONE;
         r = idset_next(s->ranks, r)) {
        void *seen;

        if (!hostlist_nth(hl, i++, name, sizeof(name)))
            continue;
        if ((seen = hmap_get(first, name)))
            rc = idset_set(ranks, r) < 0 || idset_set(ranks, (uint32_t)((uintptr_t)seen - 1)) < 0
                     ? -1
                     : 0;
        else
            rc = hmap_put(first, name, (void *)((uintptr_t)r + 1));
    }
    hmap_destroy(first);
    if (rc == 0)
        return ranks;
    idset_destroy(ranks);
    return NULL;
}

static bool all_known(const struct coord_hosts *hs, const struct spec *s)
{
    for (uint32_t r = idset_first(s->ranks); r != IDSET_NONE; r = idset_next(s->ranks, r))
        if (!hs->v[r].number)
            return false;
    return true;
}

bool coord_hosts_known(struct coord_hosts *hs, const struct spec *s)
{
    hostlist_t *hl;
    idset_t *ranks;

    if (hs->nasked > 0)
        return false;
    if (all_known(hs, s) || !(hl = names_of(s)))
        return true;
    ranks = namesakes(s, hl);
    hostlist_destroy(hl);
    if (!ranks)
        return true;
    for (uint32_t r = idset_first(ranks); r != IDSET_NONE; r = idset_next(ranks, r)) {
        if (!hs->v[r].number && !hs->v[r].f)
            ask_rank(hs, r);
    }
    idset_destroy(ranks);
    return hs->nasked == 0;
}

/* --- made-up names --- */

/* Number the nodes by name and mark.  Returns 1 when the result differs from numbers by name, 0
 * when it does not, or -1 with ENOMEM. */
static int write_hosts(const struct coord_hosts *hs, const struct spec *s, const hostlist_t *hl,
                       strbuf_t *text)
{
    hmap_t *names = hmap_create_str(NULL); /* name -> its first known mark, or UINT32_MAX */
    hmap_t *hosts = hmap_create_str(NULL); /* name and mark -> 1 + number */
    char name[HOSTLIST_NAME_MAX + 32];
    size_t i = 0;
    int rc = names && hosts ? 0 : -1;

    for (uint32_t r = idset_first(s->ranks); rc >= 0 && r != IDSET_NONE;
         r = idset_next(s->ranks, r)) {
        uint32_t mark = hs->v[r].number, known;
        size_t len;
        void *host;

        if (!hostlist_nth(hl, i, name, HOSTLIST_NAME_MAX + 1))
            name[0] = '\0';
        known = (uint32_t)(uintptr_t)hmap_get(names, name);
        if (!known && mark && hmap_put(names, name, (void *)(uintptr_t)mark) < 0)
            rc = -1;
        if (!mark)
            mark = known;
        if (known && mark != known)
            rc = rc < 0 ? rc : 1;
        len = strlen(name);
        snprintf(name + len, sizeof(name) - len, " %u", mark);
        if (!(host = hmap_get(hosts, name))) {
            host = (void *)(uintptr_t)(hmap_count(hosts) + 1);
            if (hmap_put(hosts, name, host) < 0)
                rc = -1;
        }
        if (strbuf_addf(text, "%sh%zu", i++ ? "," : "", (size_t)(uintptr_t)host) < 0)
            rc = -1;
    }
    hmap_destroy(names);
    hmap_destroy(hosts);
    return rc;
}

int coord_hosts_tell(struct coord_hosts *hs, struct spec **spec, struct launchrec *rec, char **json,
                     errmsg_t *err)
{
    struct spec *s = *spec, *full = NULL;
    struct wrexec_launch w = s->w;
    hostlist_t *hl;
    strbuf_t *text;
    uint64_t id;
    int rc;

    *json = NULL;
    if (hmap_count(hs->numbers) < 2 || !(hl = names_of(s)))
        return 0;
    text = strbuf_create(0);
    rc = text ? write_hosts(hs, s, hl, text) : -1;
    hostlist_destroy(hl);
    if (rc > 0) {
        w.hosts = strbuf_str(text);
        if ((*json = flux_schema_encode(&wrexec_launch_schema, &w)))
            full = exec_spec_create(*json, strlen(*json), hs->coord->ctx->size, &id, err);
        rc = full ? 0 : -1;
    }
    strbuf_destroy(text);
    if (full) {
        rec->json = *json;
        rec->json_len = strlen(*json);
        exec_spec_destroy(s);
        *spec = full;
    }
    return rc == 0 ? 0 : errmsg_fail(err, ENOMEM, "no memory for the hosts of a job");
}

/* --- start, end, reload --- */

void coord_hosts_save(const struct coord_hosts *hs, flux_handover_t *o)
{
    size_t n = hmap_count(hs->numbers), pos = 0;
    const void *key;
    void *val;

    flux_handover_put(o, n);
    while (hmap_next(hs->numbers, &pos, &key, NULL, &val)) {
        flux_handover_put_str(o, key);
        flux_handover_put(o, (uintptr_t)val);
    }
    for (uint32_t r = 0; r < hs->coord->ctx->size; r++)
        flux_handover_put(o, hs->v[r].number);
}

void coord_hosts_load(struct coord_hosts *hs, flux_handover_t *o)
{
    uint64_t n = flux_handover_get(o, (uint64_t)hs->coord->ctx->size);

    for (uint64_t i = 0; i < n; i++) {
        const char *mark = flux_handover_get_str(o);
        uintptr_t number = (uintptr_t)flux_handover_get(o, n);

        if (!mark || !number)
            flux_handover_fail(o, EPROTO);
        else if (hmap_put(hs->numbers, mark, (void *)number) < 0)
            flux_handover_fail(o, ENOMEM);
    }
    for (uint32_t r = 0; r < hs->coord->ctx->size; r++)
        hs->v[r].number = (uint32_t)flux_handover_get(o, n);
}

struct coord_hosts *coord_hosts_create(struct coord *r)
{
    struct coord_hosts *hs = calloc(1, sizeof(*hs));

    if (!hs)
        return NULL;
    hs->coord = r;
    hs->v = calloc(r->ctx->size, sizeof(*hs->v));
    hs->numbers = hmap_create_str(NULL);
    hs->timer = flux_timer_create(flux_get_reactor(r->ctx->h), patience_cb, hs);
    if (!hs->v || !hs->numbers || !hs->timer) {
        coord_hosts_destroy(hs);
        errno = ENOMEM;
        return NULL;
    }
    for (uint32_t rank = 0; rank < r->ctx->size; rank++)
        hs->v[rank].all = hs;
    return hs;
}

void coord_hosts_destroy(struct coord_hosts *hs)
{
    int saved = errno;

    if (!hs)
        return;
    for (uint32_t rank = 0; hs->v && rank < hs->coord->ctx->size; rank++)
        flux_future_destroy(hs->v[rank].f);
    free(hs->v);
    hmap_destroy(hs->numbers);
    flux_watcher_destroy(hs->timer);
    free(hs);
    errno = saved;
}
