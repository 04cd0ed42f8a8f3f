/* Whose is a process?  Tags that no task sheds by accident or without privilege.
 *
 * A process that has left its process group, and its session, lost its parent and cleared its
 * environment shows nothing of the job that it came from.  But its resource limits are inherited by
 * each fork(2) and execve(2), anybody may read those of a process of the same user, and a hard
 * limit can only be lowered.  RLIMIT_LOCKS limits nothing since Linux 2.4.25; so all that a
 * launcher starts has there a number that says which launcher and which job it is of:
 *
 *    bits 59-62   1010
 *    bits 38-58   random number of the launcher, part of its token
 *    bits 26-37   slot of the job in that launcher
 *    bits 10-25   random number of the launcher of a session inside that job
 *    bits  0-9    slot of the job in that one
 *
 *  1. The last two are all ones until a launcher inside the job gives out numbers below that, which
 *     needs no privilege.  A launcher deeper than that, or one that was started with another limit
 *     there, gives out none: its tasks keep what they have.
 *  2. Slots belong to one job at a time.  A job that finds none free goes without.
 *  3. What has the number of a launcher belongs to it; without, the mark in the environment and the
 *     process group are asked as well (nodejob.c).
 */
#include "config.h"
#include "launcher.h"

#include <stdlib.h>

#define MAGIC (10ull << 59)
#define MAGIC_BITS (15ull << 59)
#define LOW ((1ull << 26) - 1) /* of a session inside */
#define OUTER_SHIFT 38
#define OUTER_BITS ((1ull << 21) - 1)
#define INNER_SHIFT 10
#define INNER_NUMBERS 65535u

/* What the numbers of a launcher with this token begin with, down to bit `shift` - 1; 0: it gives
 * out none. */
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

bool tag_of_launcher(pid_t pid, const char *token)
{
    uint32_t slots;
    uint64_t tag;
    int shift = 0;
    uint64_t base = base_of(token, &shift, &slots);

    return begins_with(pid, base, shift, &tag);
}
