/* client.c - a program outside the tree: built against the installed libflux by pkg-config, it asks
 * the module hello (hello.c) for a greeting and checks it. */
#include <libflux/flux.h>
#include <stdio.h>
#include <string.h>

struct greeting {
    const char *text;
    uint32_t rank;
};
static const struct flux_field greeting_fields[] = {
    FLUX_FIELD_STR(struct greeting, text, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_U32(struct greeting, rank, FLUX_FIELD_REQUIRED),
    FLUX_FIELD_END,
};
static const struct flux_schema greeting_schema = FLUX_SCHEMA(struct greeting, greeting_fields);

int main(void)
{
    struct greeting g;
    errmsg_t err;
    flux_t *h = flux_open(NULL, NULL, &err);
    flux_future_t *f = h ? flux_rpc(h, "hello.greet", NULL, FLUX_NODEID_ANY, 0) : NULL;
    int rc = 1;

    if (!f)
        fprintf(stderr, "client: %s\n", h ? "out of memory" : err.text);
    else if (flux_rpc_wait_struct(f, 10., &greeting_schema, &g, &err) < 0)
        fprintf(stderr, "client: %s\n", err.text);
    else {
        printf("%s from rank %u\n", g.text, g.rank);
        rc = strcmp(g.text, "good day") != 0 || g.rank != flux_rank(h);
    }
    flux_future_destroy(f);
    flux_close(h);
    return rc;
}
