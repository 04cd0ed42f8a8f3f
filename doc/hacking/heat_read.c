/* heat_read.c - the mean of two columns in each step. */
#include <inttypes.h>
#include <stdio.h>

#include "flux/stream.h"

int main(void)
{
    const uint64_t start[] = {0, 2};
    const uint64_t count[] = {4, 2};
    double box[4][2];
    uint64_t step;
    errmsg_t err;
    flux_t *h = flux_open(NULL, NULL, &err);
    flux_stream_t *s = h ? flux_stream_open(h, "heat", FLUX_STREAM_READ, NULL, &err) : NULL;
    int rc = s ? 1 : -1;

    while (rc > 0 && (rc = flux_stream_begin_step(s, FLUX_STREAM_NEXT, -1., &step, &err)) == 1) {
        double sum = 0.;

        if (flux_stream_get_box(s, "T", start, count, NULL, box, sizeof(box), &err) < 0) {
            rc = -1;
            break;
        }
        for (int i = 0; i < 4; i++)
            sum += box[i][0] + box[i][1];
        printf("%" PRIu64 " %.2f\n", step, sum / 8.);
        flux_stream_end_step(s, -1., &err);
    }
    if (rc < 0)
        fprintf(stderr, "heat_read: %s\n", err.text);
    flux_stream_close(s);
    flux_close(h);
    return rc < 0 ? 1 : 0;
}
