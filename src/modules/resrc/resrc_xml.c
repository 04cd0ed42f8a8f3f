/* resrc_xml.c - resrc.xml: the full description of a broker's machine, by hwloc.
 *
 * Each request runs flux-inventory --xml, or is forwarded to the requested rank.  At most XMLS_MAX
 * requests are pending; further ones are refused with EAGAIN.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>

#include "resrc.h"

#define XMLS_MAX 16

struct xml {
    struct list_node node;
    struct ctx *ctx;
    flux_msg_t *req;
    probe_t *probe;
    flux_future_t *f;
};

static void xml_free(struct xml *x)
{
    list_remove(&x->node);
    x->ctx->nxmls--;
    resrc_probe_destroy(x->probe);
    flux_future_destroy(x->f);
    flux_msg_destroy(x->req);
    free(x);
}

/* These requests get no answer here: after a reload the next instance receives them; otherwise the
 * host answers. */
void resrc_xml_clear(struct ctx *ctx)
{
    struct list_node *n;

    while ((n = list_first(&ctx->xmls)))
        xml_free(list_entry(n, struct xml, node));
}

static void probe_cb(probe_t *p, const char *text, size_t len, const char *error, void *arg)
{
    struct xml *x = arg;
    struct resrc_xml out = {text};

    if (text)
        flux_respond_struct(x->ctx->h, x->req, &resrc_xml_schema, &out);
    else
        flux_respond_error(x->ctx->h, x->req, EIO, "%s", error);
    xml_free(x);
}

static void forward_cb(flux_future_t *f, void *arg)
{
    struct xml *x = arg;
    const char *json;

    if (flux_future_errnum(f))
        flux_respond_error(x->ctx->h, x->req, flux_future_errnum(f), "%s", flux_future_error(f));
    else if (flux_rpc_get_json(f, &json, NULL) < 0)
        flux_respond_error(x->ctx->h, x->req, EPROTO, "the answer is not JSON");
    else
        flux_respond(x->ctx->h, x->req, json);
    xml_free(x);
}

static int begin(struct xml *x, uint32_t rank, errmsg_t *err)
{
    flux_t *h = x->ctx->h;

    if (rank == x->ctx->rank) {
        x->probe = resrc_probe_start(h, "--xml", NULL, probe_cb, x, err);
        return x->probe ? 0 : -1;
    }
    if (!(x->f = flux_rpc(h, "resrc.xml", "{}", rank, FLUX_MSGF_IDEMPOTENT)) ||
        flux_future_then(x->f, -1., forward_cb, x) < 0)
        return errmsg_fail(err, errno, "cannot ask rank %u: out of memory", rank);
    return 0;
}

void resrc_xml_request(flux_t *h, const flux_msg_t *req, void *arg)
{
    struct ctx *ctx = arg;
    struct resrc_where in = {.rank = ctx->rank};
    struct xml *x;
    errmsg_t err;
    json_t *owner;

    if (flux_request_decode(h, req, &resrc_where_schema, &in, &owner) < 0)
        return;
    json_decref(owner);
    if (in.rank >= ctx->size) {
        flux_respond_error(h, req, EINVAL, "there is no rank %u", in.rank);
        return;
    }
    if (ctx->nxmls >= XMLS_MAX || !(x = calloc(1, sizeof(*x)))) {
        flux_respond_error(h, req, EAGAIN, "rank %u is asked for XML too often; try again",
                           ctx->rank);
        return;
    }
    x->ctx = ctx;
    x->req = flux_msg_incref(req);
    list_append(&ctx->xmls, &x->node);
    ctx->nxmls++;
    if (begin(x, in.rank, &err) < 0) {
        flux_respond_error(h, req, errno, "%s", err.text);
        xml_free(x);
    }
}
