/* fuzz_stream_config.c - bytes as the file of settings of streams that FLUX_STREAM_CONFIG names.
 *
 * A file is accepted or refused for each name and side alike.  What is refused must say where; what
 * was set must be a value that programs can use.
 */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libstream/stream_config.h"

/* What was read counts for something. */
volatile size_t touched;

static void touch(const char *text, const char *held)
{
    if (!text)
        return;
    MUST(held != NULL);
    touched += strlen(text);
}

static int apply(const uint8_t *data, size_t size, const char *name, enum flux_stream_mode mode)
{
    struct flux_stream_opts o = {0};
    errmsg_t err = {""};
    char *held = NULL;
    int rc = stream_config_apply((const char *)data, size, name, mode, &o, &held, &err);

    if (rc < 0)
        MUST(errno == ENOMEM || (errno == EINVAL && strncmp(err.text, "line ", 5) == 0));
    touch(o.policy, held);
    touch(o.group, held);
    touch(o.key, held);
    touch(o.team, held);
    touch(o.transport, held);
    touch(o.secure, held);
    touch(o.share, held);
    touch(o.transforms, held);
    MUST(!o.team || mode == FLUX_STREAM_READ);
    MUST(isfinite(o.timeout) && !isnan(o.evict) && o.evict >= 0. && !isnan(o.resume) &&
         o.resume >= 0.);
    free(held);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int rc = apply(data, size, "heat", FLUX_STREAM_READ);

    MUST(apply(data, size, "heat", FLUX_STREAM_WRITE) == rc);
    MUST(apply(data, size, "sim.1", FLUX_STREAM_READ) == rc);
    MUST(apply(data, size, "", FLUX_STREAM_WRITE) == rc);
    return 0;
}
