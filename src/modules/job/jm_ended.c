/* jm_ended.c - the records of ended jobs.
 *
 * Purpose: a small record in memory of each job whose end is in the store: one block of about two
 * hundred bytes, with its texts (names, hosts, exception) behind the numbers, from a slab allocator
 * (libutil/slab.h).
 *
 * Invariant: the list is in the order in which jobs ended.
 *
 * Failure: lack of memory is returned to the caller, and nothing has changed.
 */
#include "config.h"
#include "jm_private.h"
#include "libutil/slab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ENDED_STEPS 1000
#define TEXTS 9

struct jm_ended_table {
    slab_t *records;
    hmap_t *by_id;
    struct list_node list; /* jm_ended.node */
};

struct jm_ended *jm_ended_find(const struct jm *jm, uint64_t id)
{
    return hmap_get_u64(jm->ended->by_id, id);
}

const char *jm_ended_text(const struct jm_ended *e, int which)
{
    const char *p = e->text;

    for (int i = 0; i < which; i++)
        p += strlen(p) + 1;
    return p;
}

static void ended_free(struct jm *jm, struct jm_ended *e)
{
    slab_free(jm->ended->records, e, (size_t)(jm_ended_text(e, TEXTS) - (const char *)e));
}

struct jm_ended *jm_ended_create(const struct jm_job *j)
{
    idset_t *set = j->r ? rset_ranks(j->r) : NULL;
    char *ranks = set ? idset_format(set, 0) : NULL;
    char *hosts = j->r ? rset_hosts(j->r) : NULL;
    const char *texts[TEXTS] = {j->spec ? j->spec->name : NULL,
                                ranks,
                                hosts,
                                j->end.type,
                                j->end.note,
                                jm_control_uri(j),
                                j->end.failed,
                                j->switches,
                                j->warning};
    size_t len = 0;
    struct jm_ended *e = NULL;
    char *p;

    if (j->r && (!ranks || !hosts))
        goto out;
    for (size_t i = 0; i < TEXTS; i++)
        len += (texts[i] ? strlen(texts[i]) : 0) + 1;
    if (!(e = slab_alloc(j->jm->ended->records, sizeof(*e) + len)))
        goto out;
    memset(e, 0, sizeof(*e) + len);
    list_init(&e->node);
    e->id = j->id;
    e->t_submit = j->st.t_submit;
    e->t_depend = j->st.t_depend;
    e->t_run = j->st.t_run;
    e->t_cleanup = j->st.t_cleanup;
    e->t_inactive = j->st.t_inactive;
    e->uid = j->st.userid;
    e->canceled_by = j->end.canceled_by;
    e->urgency = (uint8_t)j->st.urgency;
    e->result = (uint8_t)jobstate_result(&j->st);
    e->code = jobstate_code(&j->st);
    e->hops = (float)j->hops;
    if (j->spec) {
        e->duration = j->spec->req.duration;
        e->nnodes = j->r ? (uint32_t)rset_nnodes(j->r) : j->spec->nnodes;
        e->ncores = j->r ? (uint32_t)rset_ncores(j->r) : j->spec->ncores;
        e->ntasks = j->spec->ntasks;
    }
    p = e->text;
    for (size_t i = 0; i < TEXTS; i++) {
        size_t n = texts[i] ? strlen(texts[i]) : 0;

        if (n)
            memcpy(p, texts[i], n);
        p += n + 1;
    }
out:
    idset_destroy(set);
    free(ranks);
    free(hosts);
    return e;
}

int jm_ended_add(struct jm *jm, struct jm_ended *e)
{
    struct list_node *n = &jm->ended->list;
    int steps = 0;

    if (hmap_put_u64(jm->ended->by_id, e->id, e) < 0) {
        ended_free(jm, e);
        errno = ENOMEM;
        return -1;
    }
    /* Jobs end in order, except those that are read back (jm_ended_sort()), and after the clock was
     * set back: then the order of the ends counts. */
    while (jm->ready && steps++ < ENDED_STEPS && n->prev != &jm->ended->list &&
           list_entry(n->prev, struct jm_ended, node)->t_inactive > e->t_inactive)
        n = n->prev;
    list_append(n, &e->node);
    return 0;
}

static int by_end(const struct list_node *a, const struct list_node *b)
{
    const struct jm_ended *x = list_entry(a, struct jm_ended, node);
    const struct jm_ended *y = list_entry(b, struct jm_ended, node);

    if (x->t_inactive != y->t_inactive)
        return x->t_inactive < y->t_inactive ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

void jm_ended_sort(struct jm *jm)
{
    list_sort(&jm->ended->list, by_end);
}

void jm_ended_drop(struct jm *jm, struct jm_ended *e)
{
    jm_env_drop_source(jm, e->id);
    (void)hmap_take_u64(jm->ended->by_id, e->id);
    jm_list_ended_gone(jm, e);
    list_remove(&e->node);
    jm_job_freed(jm);
    ended_free(jm, e);
}

int jm_ended_table_create(struct jm *jm)
{
    struct jm_ended_table *t = calloc(1, sizeof(*t));

    if (!t)
        return -1;
    jm->ended = t;
    list_init(&t->list);
    return (t->by_id = hmap_create_u64(NULL)) && (t->records = slab_create()) ? 0 : -1;
}

void jm_ended_table_destroy(struct jm *jm)
{
    struct jm_ended_table *t = jm->ended;

    if (!t)
        return;
    LIST_FOREACH_SAFE(it, tmp, &t->list)
    {
        struct jm_ended *e = list_entry(it, struct jm_ended, node);

        list_remove(it);
        ended_free(jm, e);
    }
    hmap_destroy(t->by_id);
    slab_destroy(t->records);
    free(t);
    jm->ended = NULL;
}

void jm_ended_stats(const struct jm *jm, struct job_stats *st)
{
    st->inactive = jm_ended_count(jm);
}

size_t jm_ended_count(const struct jm *jm)
{
    return hmap_count(jm->ended->by_id);
}

static struct jm_ended *at(const struct jm *jm, struct list_node *n)
{
    return n != &jm->ended->list ? list_entry(n, struct jm_ended, node) : NULL;
}

struct jm_ended *jm_ended_first(const struct jm *jm)
{
    return at(jm, jm->ended->list.next);
}

struct jm_ended *jm_ended_last(const struct jm *jm)
{
    return at(jm, jm->ended->list.prev);
}

struct jm_ended *jm_ended_next(const struct jm *jm, const struct jm_ended *e)
{
    return at(jm, e->node.next);
}

struct jm_ended *jm_ended_prev(const struct jm *jm, const struct jm_ended *e)
{
    return at(jm, e->node.prev);
}
