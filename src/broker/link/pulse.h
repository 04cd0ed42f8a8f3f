/* Pulse: signs of life in memory that the processes of a host share.
 *
 * A process writes the time of its last sign of life to its pulse.  Another one, which has got the
 * descriptor of this memory, looks at that time when it wants to know.  A sign of life costs
 * neither of them a system call, and wakes nobody up.
 *
 * Thread rules: an object belongs to one thread.
 */
#ifndef BROKER_PULSE_H
#define BROKER_PULSE_H

typedef struct pulse pulse_t;

/* Create the pulse of this process.  Returns NULL with errno. */
pulse_t *pulse_create(void);
void pulse_destroy(pulse_t *p); /* NULL-safe, keeps errno */
/* Return the descriptor that shows the pulse, which belongs to it: to be passed to others. */
int pulse_fd(const pulse_t *p);
/* Give a sign of life. */
void pulse_beat(pulse_t *p);

typedef struct pulse_view pulse_view_t;

/* View the pulse of another process by its descriptor, which is taken over, also on failure.
 * Returns NULL with errno: EPROTO if the descriptor is not that of a pulse. */
pulse_view_t *pulse_view_create(int fd);
void pulse_view_destroy(pulse_view_t *v); /* NULL-safe, keeps errno */
/* Return the number of seconds since the last sign of life, or -1 if none was given since the last
 * call (at first: since the view was created). */
double pulse_view_ago(pulse_view_t *v);

#endif
