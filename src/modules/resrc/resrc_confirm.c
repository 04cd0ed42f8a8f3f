/* resrc_confirm.c - lost nodes, on which processes of jobs may still run.
 *
 *    state of the
 *    broker of a node  meaning                              left when (by)
 *    not listed        nothing of it is unconfirmed         it is lost (resrc_confirm_lost)
 *    missing           it was lost; what it ran may still   it has left in order after all
 *                      run                                  (resrc_confirm_left); it is up again
 *                                                           (resrc_confirm_back); an operator says
 *                                                           so (resrc_confirm_request)
 *    asked             it is up again, and was asked to     its wrexec has answered (answer_cb):
 *                      end that (wrexec.remains)            not listed, or missing if it cannot
 *                                                           confirm that; an operator says so
 *                                                           (resrc_confirm_request)
 *
 * Invariants:
 *  1. The nodes of a broker that is missing or asked are not given any work.
 *  2. A broker is asked once each time it comes back.
 *
 * Failure: a broker that cannot confirm the end of these processes, or cannot be asked, is logged,
 * and its nodes wait for the operator (flux resource confirm-dead).  If that broker has no module
 * wrexec, it cannot have run any process.  An instance that is loaded later does not know which
 * brokers were asked before.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "resrc_root.h"

/* A request to a broker. */
struct asked {
    struct list_node node;
    struct root *root;
    uint32_t rank;
    flux_future_t *f;
};

struct confirm {
    struct root *root;
    idset_t *missing;
    struct list_node asked;
};

const idset_t *resrc_confirm_missing(const struct confirm *c)
{
    return c->missing;
}

static void asked_free(struct asked *a)
{
    list_remove(&a->node);
    flux_future_destroy(a->f);
    free(a);
}

static void confirmed(struct confirm *c, const idset_t *brokers)
{
    if (!idset_intersects(c->missing, brokers))
        return;
    if (idset_subtract(c->missing, brokers) < 0)
        flux_log(c->root->ctx->h, LOG_ERR, "out of memory: nodes that were lost stay unconfirmed");
    if (c->root->brokers_up)
        resrc_root_changed(c->root, false);
}

static void answer_cb(flux_future_t *f, void *arg)
{
    struct asked *a = arg;
    struct root *r = a->root;
    int errnum = flux_future_errnum(f);
    idset_t *one = idset_create_range(a->rank, a->rank);

    if (one && (errnum == 0 || errnum == ENOSYS))
        confirmed(r->confirm, one);
    else if (errnum != EHOSTUNREACH) /* that is reported where the rank is lost again */
        flux_log(
            r->ctx->h, LOG_ERR,
            "rank %u was lost, and cannot confirm that nothing of before still runs there: %s; "
            "once that is certain: flux resource confirm-dead %u",
            a->rank, flux_future_error(f), a->rank);
    idset_destroy(one);
    asked_free(a);
}

static void ask(struct confirm *c, uint32_t rank)
{
    struct asked *a = calloc(1, sizeof(*a));

    if (a) {
        list_append(&c->asked, &a->node);
        a->root = c->root;
        a->rank = rank;
        a->f = flux_rpc(c->root->ctx->h, "wrexec.remains", NULL, rank, FLUX_MSGF_IDEMPOTENT);
    }
    if (!a || !a->f || flux_future_then(a->f, -1., answer_cb, a) < 0) {
        flux_log(c->root->ctx->h, LOG_ERR, "out of memory: rank %u stays unconfirmed", rank);
        if (a)
            asked_free(a);
    }
}

void resrc_confirm_lost(struct confirm *c, const idset_t *brokers)
{
    if (idset_add(c->missing, brokers) < 0)
        flux_log(c->root->ctx->h, LOG_ERR, "out of memory to note which nodes were lost");
}

void resrc_confirm_left(struct confirm *c, const idset_t *brokers)
{
    confirmed(c, brokers);
}

void resrc_confirm_back(struct confirm *c, const idset_t *brokers)
{
    for (uint32_t r = idset_first(brokers); r != IDSET_NONE; r = idset_next(brokers, r)) {
        if (idset_test(c->missing, r))
            ask(c, r);
    }
}

void resrc_confirm_request(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct root *r = ctx->root;
    struct resrc_ranks in = {0}, out = {0};
    idset_t *nodes = NULL, *brokers = NULL, *others = NULL;
    char *text = NULL;
    errmsg_t err = {"no memory for a confirmation"};
    json_t *owner;

    if (!r || !r->settled) {
        flux_respond_error(h, req, r ? EAGAIN : EINVAL,
                           r ? "the nodes of the session are not known yet"
                             : "nodes are confirmed at rank 0, not at rank %u",
                           ctx->rank);
        return;
    }
    if (flux_request_decode(h, req, &resrc_ranks_schema, &in, &owner) < 0)
        return;
    if (!(nodes = resrc_root_nodes_named(r, in.ranks, &err)) ||
        !(brokers = resrc_root_brokers_of(r, nodes)) ||
        !(others = idset_difference(brokers, r->confirm->missing)) ||
        !(text = idset_format(idset_empty(others) ? nodes : others, 0))) {
        flux_respond_error(h, req, errno, "%s", err.text);
    } else if (!idset_empty(others)) {
        flux_respond_error(h, req, ENOENT, "%s: not lost, or confirmed already", text);
    } else {
        flux_log(h, LOG_NOTICE, "user %u confirmed that nothing runs any more on rank%s %s",
                 flux_msg_userid(req), idset_count(brokers) == 1 ? "" : "s", text);
        confirmed(r->confirm, brokers);
        out.ranks = text;
        flux_respond_struct(h, req, &resrc_ranks_schema, &out);
    }
    free(text);
    idset_destroy(nodes);
    idset_destroy(brokers);
    idset_destroy(others);
    json_decref(owner);
}

struct confirm *resrc_confirm_create(struct root *r)
{
    struct confirm *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->root = r;
    list_init(&c->asked);
    if (!(c->missing = idset_create())) {
        free(c);
        return NULL;
    }
    return c;
}

void resrc_confirm_destroy(struct confirm *c)
{
    struct list_node *n;

    if (!c)
        return;
    while ((n = list_first(&c->asked)))
        asked_free(list_entry(n, struct asked, node));
    idset_destroy(c->missing);
    free(c);
}
