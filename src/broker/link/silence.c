/* silence.c - the time for which no message has arrived from a neighbor.
 *
 * Purpose: both ends of a connection send a sign of life twice in `probe` seconds, unasked.  So
 * data that waits on the way to a silent neighbor, in a queue of this process or of the kernel,
 * does not affect the verdict: only received data count.  A probe that had to be answered would
 * wait behind that queue.
 *
 * Terms: a line is one direction of a connection.  A round is a check of all lines.  There is a
 * round at each beat (flux_reactor_beat()) of SIGNS of a `probe`, so that all brokers wake up
 * together, and one more where a limit passes before the next beat.  A neighbor is silent from the
 * time on at which its next sign of life is due: it may have been stopped only just before that.
 *
 *    silent for        verdict on a neighbor         with patience
 *    slow              slow                          -
 *    lost              lost                          -
 *    patience          -                             lost
 *
 * Invariants:
 *  1. A limit that has passed is checked twice, DOUBT of a probe apart, so that data which have
 *     arrived in between are read before the verdict.  A round that is late is the second check
 *     only after LATE_LOOKS such rounds in a row: the process is busy then, and reads between them.
 *  2. A round checks its own clock first.  A round that is late by more than half of `lost` starts
 *     all lines anew; a shorter delay, from LATE of a probe on, is not counted as silence.  So a
 *     broker that was stopped, or suspended with its host, accuses no neighbor when it continues.
 *  3. A neighbor that stands still for less than a limit, and sends its signs of life in time
 *     before and after, is not the subject of the verdict.
 *  4. A verdict is given at the latest SIGNS + EARLY + DOUBT of a probe after the neighbor has
 *     stood still for the limit, if the rounds are in time.  If each round is late, by at most half
 *     of `lost`, the verdict is given LATE_LOOKS rounds later.
 *
 * Failure: none after silence_create().
 */
#include "config.h"
#include "silence.h"

#include <errno.h>
#include <stdlib.h>

#include "libutil/duration.h"

#define PROBE 1. /* defaults, in seconds */
#define SLOW 2.
#define LOST 3.
#define PATIENCE 60.
/* Fractions of a probe. */
/* Between two signs of life: below 0.5, so that with the usual limits a neighbor that stops is lost
 * within 3.5 s; and a fifth of the usual hb.period, so that heartbeats come while all brokers are
 * awake anyway. */
#define SIGNS 0.4
#define DOUBT 0.05 /* between the two checks of a limit */
#define EARLY 0.03 /* limits so close before a round wait for it */
#define LATE 0.25
#define LATE_LOOKS 3 /* rounds */
/* Seconds: a round at the very limit is not followed by rounds without end because of rounding. */
#define TINY 1e-6

struct silence {
    flux_reactor_t *r;
    struct silence_limits lim;
    void (*round)(void *arg, bool probe);
    void *arg;
    flux_watcher_t *timer;
    double due;   /* time of the next round */
    double probe; /* time of the next round with signs of life */
    double late;  /* delay of the present round; 0: in time */
    bool anew;    /* the delay is so long that all lines start anew */
};

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double most(double a, double b)
{
    return a > b ? a : b;
}

static int parse_one(const char *name, const char *text, double fallback, double *value,
                     errmsg_t *err)
{
    errmsg_t why;

    *value = fallback;
    if (text && duration_parse(text, value, &why) < 0)
        return errmsg_fail(err, EINVAL, "attribute %s=%s: %s", name, text, why.text);
    return 0;
}

int silence_limits_parse(struct silence_limits *lim, const char *probe, const char *slow,
                         const char *lost, const char *patience, errmsg_t *err)
{
    if (parse_one("live.lost", lost, LOST, &lim->lost, err) < 0 ||
        parse_one("live.probe", probe, least(PROBE, lim->lost / 3.), &lim->probe, err) < 0 ||
        parse_one("live.slow", slow, least(SLOW, lim->lost * 2. / 3.), &lim->slow, err) < 0 ||
        parse_one("live.patience", patience, most(PATIENCE, lim->lost), &lim->patience, err) < 0)
        return -1;
    if (lim->lost > 0. && !(0. < lim->probe && lim->probe < lim->slow && lim->slow < lim->lost &&
                            lim->lost <= lim->patience))
        return errmsg_fail(err, EINVAL,
                           "live.probe=%gs, live.slow=%gs, live.lost=%gs and live.patience=%gs: "
                           "each has to be longer than the one before",
                           lim->probe, lim->slow, lim->lost, lim->patience);
    return 0;
}

static void tick_cb(flux_reactor_t *r, flux_watcher_t *w, int revents, void *arg)
{
    silence_t *s = arg;
    double now = flux_reactor_now(r);
    bool probe = now >= s->probe;

    (void)w, (void)revents;
    s->late = now - s->due > LATE * s->lim.probe ? now - s->due : 0.;
    s->anew = now - s->due > s->lim.lost / 2.;
    if (probe)
        s->probe = flux_reactor_beat(r, SIGNS * s->lim.probe);
    s->due = s->probe;
    s->round(s->arg, probe);
    flux_timer_start(s->timer, s->due > now ? s->due - now : 0., 0.);
}

silence_t *silence_create(flux_reactor_t *r, const struct silence_limits *lim,
                          void (*round)(void *arg, bool probe), void *arg)
{
    silence_t *s = calloc(1, sizeof(*s));

    if (!s || !(s->timer = flux_timer_create(r, tick_cb, s))) {
        free(s);
        errno = ENOMEM;
        return NULL;
    }
    s->r = r;
    s->lim = *lim;
    s->round = round;
    s->arg = arg;
    return s;
}

void silence_destroy(silence_t *s)
{
    int saved = errno;

    if (!s)
        return;
    flux_watcher_destroy(s->timer);
    free(s);
    errno = saved;
}

void silence_start(silence_t *s)
{
    if (s->lim.lost <= 0.)
        return;
    s->due = s->probe = flux_reactor_now(s->r) + SIGNS * s->lim.probe;
    flux_timer_start(s->timer, SIGNS * s->lim.probe, 0.);
}

void silence_begin(const silence_t *s, struct silence_line *line)
{
    *line = (struct silence_line){.heard = flux_reactor_now(s->r)};
}

void silence_heard(const silence_t *s, struct silence_line *line)
{
    line->heard = flux_reactor_now(s->r);
}

void silence_heard_ago(const silence_t *s, struct silence_line *line, double ago)
{
    line->heard = most(line->heard, flux_reactor_now(s->r) - ago);
}

double silence_length(const silence_t *s, const struct silence_line *line)
{
    return flux_reactor_now(s->r) - line->heard;
}

/* Ensure that there is a round at the time `at`, unless a round is due at about that time
 * anyway. */
static void look_at(silence_t *s, double at)
{
    if (at < s->probe - EARLY * s->lim.probe)
        s->due = least(s->due, at);
}

enum silence_verdict silence_judge(silence_t *s, struct silence_line *line, bool patient)
{
    double now = flux_reactor_now(s->r);
    double first = s->lim.probe * (SIGNS - DOUBT); /* of the two checks, after the limit */
    double limit = first + (patient ? s->lim.patience : line->slow ? s->lim.lost : s->lim.slow);
    bool over;

    line->heard = s->anew ? now : least(line->heard + s->late, now);
    if (line->slow && (patient || now - line->heard < s->lim.slow)) {
        line->slow = false;
        line->doubt = 0;
        return SILENCE_HEARD;
    }
    over = now - line->heard >= limit - TINY;
    if (over && line->doubt >= (s->late == 0. ? 1 : LATE_LOOKS)) {
        line->doubt = 0;
        if (patient || line->slow)
            return SILENCE_LOST;
        line->slow = true;
        look_at(s, line->heard + s->lim.lost + first);
        return SILENCE_SLOW;
    }
    line->doubt = over ? line->doubt + 1 : 0;
    look_at(s, over ? now + DOUBT * s->lim.probe : line->heard + limit);
    return SILENCE_FINE;
}
