/* holdpoint.c - wait at a point of the code that a test has named, to be killed there.
 *
 * Only the thread waits: what other threads do, they do as if this one had not come further.  An
 * answer that must not be given before the point is passed, and is, reaches its client.
 *
 * Invariant 1: a thread that holds has removed the file, and does nothing after that.
 *
 * Failure: without the file the point is passed, and not counted.
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
