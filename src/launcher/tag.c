/* tag.c - tags that identify the job of a process, and that no process loses by accident.
 *
 * Purpose: a process that has left its process group and session, lost its parent and cleared its
 * environment shows nothing of its job.  But fork(2) and execve(2) inherit resource limits, a user
 * may read the limits of all processes of the same user, and an unprivileged process can only lower
 * a hard limit.  RLIMIT_LOCKS has limited nothing since Linux 2.4.25.  So a launcher sets this
 * limit, in each process that it starts, to a number that identifies launcher and job.
 *
 * Format:
 *
 *    bits 59-62   1010
 *    bits 38-58   random number of the launcher, part of its token
 *    bits 26-37   slot of the job in that launcher
 *    bits 10-25   random number of the launcher of a session inside that job
 *    bits  0-9    slot of the job in that launcher
 *
 * Invariants:
 *  1. The last two fields are all ones until a launcher inside the job assigns lower numbers, which
 *     needs no privilege.  A launcher nested deeper, or started with another limit, assigns none:
 *     its tasks keep the number that they have.
 *  2. A slot belongs to one job at a time.  While half of the slots are in use, further jobs get no
 *     slot.
 *  3. A process with the number of a launcher belongs to that launcher.  For a process without such
 *     a number, the mark in its environment and its process group decide (hunt.c).
 *  4. A process can lower its limit, and so drop its tag.  The launcher finds such a process among
 *     its orphans (hunt.c); the successor of a lost launcher finds it among the orphans of the
 *     processes that it descends from (launcher.c).
 */
#include "config.h"
#include "launcher.h"

#include <stdlib.h>

#define MAGIC (10ull << 59)
#define MAGIC_BITS (15ull << 59)
#define LOW ((1ull << 26) - 1) /* fields of a session inside the job */
#define OUTER_SHIFT 38
#define OUTER_BITS ((1ull << 21) - 1)
#define INNER_SHIFT 10
#define INNER_NUMBERS 65535u

/* Return the prefix of the numbers of a launcher with this token, down to bit `shift`; 0 if it
 * assigns no numbers. */
static uint64_t base_of(const char *token, int *shift, uint32_t *slots)
{
    uint64_t random = strtoull(token, NULL, 16);
    struct rlimit rl;

    if (getrlimit(RLIMIT_LOCKS, &rl) < 0)
        return 0;
    if (rl.rlim_max == RLIM_INFINITY) {
        *shift = OUTER_SHIFT;
        *slots = 1u << 12;
        return MAGIC | (random & OUTER_BITS) << OUTER_SHIFT;
    }
    if ((rl.rlim_max & MAGIC_BITS) != MAGIC || rl.rlim_max >> 63 || (rl.rlim_max & LOW) != LOW)
        return 0;
    *shift = INNER_SHIFT;
    *slots = 1u << 10;
    return (rl.rlim_max & ~LOW) | (random % INNER_NUMBERS) << INNER_SHIFT;
}

void tag_init(struct launcher *l)
{
    l->tag_base = base_of(l->token, &l->tag_shift, &l->tag_slots);
}

void tag_take(struct nodejob *j)
{
    struct launcher *l = j->l;

    j->tag = 0;
    if (!l->tag_base || hmap_count(l->tags) >= l->tag_slots / 2)
        return;
    do
        l->tag_next = (l->tag_next + 1) % l->tag_slots;
    while (hmap_get_u64(l->tags, l->tag_next));
    if (hmap_put_u64(l->tags, l->tag_next, j) < 0)
        return;
    if (l->tag_shift == OUTER_SHIFT)
        j->tag = l->tag_base | (uint64_t)l->tag_next << 26 | LOW;
    else
        j->tag = l->tag_base | l->tag_next;
}

static uint32_t slot_of(const struct launcher *l, uint64_t tag)
{
    return (uint32_t)((l->tag_shift == OUTER_SHIFT ? tag >> 26 : tag) & (l->tag_slots - 1));
}

void tag_release(struct nodejob *j)
{
    if (j->tag)
        hmap_take_u64(j->l->tags, slot_of(j->l, j->tag));
    j->tag = 0;
}

bool tag_limit(const struct nodejob *j, struct rlimit *rl)
{
    *rl = (struct rlimit){j->tag, j->tag};
    return j->tag != 0;
}

static bool begins_with(pid_t pid, uint64_t base, int shift, uint64_t *tag)
{
    struct rlimit rl;

    if (!base || prlimit(pid, RLIMIT_LOCKS, NULL, &rl) < 0)
        return false;
    *tag = rl.rlim_max;
    return rl.rlim_max >> shift == base >> shift;
}

bool tag_job(struct launcher *l, pid_t pid, struct nodejob **j)
{
    uint64_t tag;

    if (!begins_with(pid, l->tag_base, l->tag_shift, &tag))
        return false;
    *j = hmap_get_u64(l->tags, slot_of(l, tag));
    return true;
}

bool tag_dropped(pid_t pid)
{
    struct rlimit own, rl;

    return getrlimit(RLIMIT_LOCKS, &own) == 0 && prlimit(pid, RLIMIT_LOCKS, NULL, &rl) == 0 &&
           rl.rlim_max < own.rlim_max && (rl.rlim_max & MAGIC_BITS) != MAGIC;
}

bool tag_of_launcher(pid_t pid, const char *token)
{
    uint32_t slots;
    uint64_t tag;
    int shift = 0;
    uint64_t base = base_of(token, &shift, &slots);

    return begins_with(pid, base, shift, &tag);
}
