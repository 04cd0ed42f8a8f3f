/* heat_write.c - a field that cools down, step by step. */
#include <stdio.h>

#include "flux/stream.h"

int main(void)
{
    static double field[4][6];
    const uint64_t shape[] = {4, 6};
    const uint64_t offset[] = {0, 0};
    struct flux_stream_array all = {
        .type = "f64", .ndims = 2, .shape = shape, .offset = offset, .count = shape};
    struct flux_stream_opts opts = {.readers = 1}; /* none of the steps is lost */
    errmsg_t err;
    flux_t *h = flux_open(NULL, NULL, &err);
    flux_stream_t *s = h ? flux_stream_open(h, "heat", FLUX_STREAM_WRITE, &opts, &err) : NULL;
    int rc = s ? 0 : -1;

    for (int step = 0; rc == 0 && step < 10; step++) {
        for (int i = 0; i < 4; i++) {
            for (int k = 0; k < 6; k++)
                field[i][k] = 100. * (i + 1) / (step + 1);
        }
        if ((rc = flux_stream_put_array(s, "T", &all, field, &err)) == 0)
            rc = flux_stream_end_step(s, -1., &err);
    }
    if (rc < 0)
        fprintf(stderr, "heat_write: %s\n", err.text);
    flux_stream_close(s);
    flux_close(h);
    return rc < 0 ? 1 : 0;
}
