/* Where flux top gets what it shows: a session, asked again as things change there.
 *
 * Thread rules: those of the handle.
 */
#ifndef CMD_TOPDATA_H
#define CMD_TOPDATA_H

#include "libflux/handle.h"
#include "topview.h"

typedef struct topdata topdata_t;

/* `changed` is called when the model has changed, from the reactor; `model` is not taken over: its
 * rows belong to the topdata, path, help, selected and now to the caller.  NULL with ENOMEM. */
topdata_t *topdata_create(flux_t *h, struct topmodel *model, void (*changed)(void *arg), void *arg);
void topdata_destroy(topdata_t *d); /* NULL-safe, keeps errno; not from within `changed` */
/* Ask again soon. */
void topdata_refresh(topdata_t *d);
/* Show jobs that wait, or not. */
void topdata_show_pending(topdata_t *d, bool show);
/* Has everything been asked once? */
bool topdata_complete(const topdata_t *d);
/* Where the session is that this job is; NULL: it is none.  Valid until the next change. */
const char *topdata_address(const topdata_t *d, uint64_t id);

#endif
