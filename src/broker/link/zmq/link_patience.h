/* The time that a connection from an address may take until its peer has proved its key.
 *
 * An address begins with `first` seconds.  Each connection from it that times out doubles the limit
 * of the next one, up to `most`: a neighbor on a busy host thus joins after some tries, however
 * slow its host is, and a stranger holds a connection no longer than `most`.  A neighbor that was
 * admitted gives its address the limit `most` for that time.
 *
 * Not thread-safe.  Times are seconds of one clock.
 */
#ifndef LINK_PATIENCE_H
#define LINK_PATIENCE_H

typedef struct link_patience link_patience_t;

/* Returns NULL with ENOMEM. */
link_patience_t *link_patience_create(double first, double most);
void link_patience_destroy(link_patience_t *p); /* NULL-safe, keeps errno */

/* Return the limit in seconds for a connection from `host` that begins now. */
double link_patience_limit(link_patience_t *p, const char *host, double now);
/* Note that a connection with a limit of `limit` seconds timed out. */
void link_patience_over(link_patience_t *p, const char *host, double limit, double now);
/* Note that a neighbor at `host` has proved its key. */
void link_patience_known(link_patience_t *p, const char *host, double now);

#endif
