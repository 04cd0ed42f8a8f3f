/* flux-greet.c - flux greet NAME: ask the module greet for a greeting. */
#include <libflux/flux.h>
#include <stdio.h>

#include "greet_wire.h"

int main(int argc, char **argv)
{
    struct greet_guest in;
    struct greet_words out;
    flux_future_t *f;
    errmsg_t err;
    flux_t *h;
    int rc = 1;

    if (argc != 2) {
        fprintf(stderr, "flux greet: one NAME is needed\n");
        return 2;
    }
    in.name = argv[1];
    if (!(h = flux_open(NULL, NULL, &err))) {
        fprintf(stderr, "flux greet: %s\n", err.text);
        return 1;
    }
    if (!(f = flux_rpc_struct(h, "greet.hello", &greet_guest_schema, &in, FLUX_NODEID_ANY, 0)))
        fprintf(stderr, "flux greet: the request could not be sent\n");
    else if (flux_rpc_wait_struct(f, 10., &greet_words_schema, &out, &err) < 0)
        fprintf(stderr, "flux greet: %s\n", err.text);
    else {
        printf("%s\n", out.text);
        rc = 0;
    }
    flux_future_destroy(f);
    flux_close(h);
    return rc;
}
