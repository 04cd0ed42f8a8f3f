/* holdpoint.c - wait at a point of the code that a test has named, to be killed there.
 *
 * Only this thread waits; other threads continue as if this one had not reached the end of the
 * point.  So if a response is wrongly sent before the point is passed, it reaches its client, and
 * the test notices.
 *
 * Invariant 1: a thread that holds has removed the file, and never continues.
 *
 * Failure: without the file, the thread passes the point without counting.
 */
#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "holdpoint.h"

void holdpoint_init(struct holdpoint *hp)
{
    const char *text = getenv("FLUX_HOLD_POINT");

    memset(hp, 0, sizeof(*hp));
    if (text && *text &&
        (sscanf(text, "%31[^:]:%u:%255[^\n]", hp->name, &hp->left, hp->path) != 3 || !hp->left)) {
        fprintf(stderr, "FLUX_HOLD_POINT: '%s' is not NAME:N:FILE\n", text);
        abort();
    }
}

void holdpoint_pass(struct holdpoint *hp, const char *name)
{
    if (!hp->left || strcmp(hp->name, name) != 0 || access(hp->path, F_OK) < 0 || --hp->left > 0)
        return;
    (void)unlink(hp->path);
    for (;;)
        (void)pause();
}
