/* holdpoint.c - stop at a point of the code that a test has named, so that it can be killed there.
 *
 * Invariant 1: a process that holds has removed the file before it stops, and does nothing after
 * that: neither what follows the point, nor what other threads have begun.
 *
 * Failure: without the file the point is passed, and not counted.
 */
#include "config.h"
#include <signal.h>
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
    (void)kill(getpid(), SIGSTOP);
    for (;;)
        (void)pause();
}
