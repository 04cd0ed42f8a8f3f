/* reserve.c - memory for the time when there is none.
 *
 * Purpose: when a neighbor dies, a broker has to change what it knows of the session, and to tell
 * others, even if its address space is used up just then (RLIMIT_AS).  An event that only half of
 * the handlers have noted for want of 40 bytes could not be repaired later.  So the broker holds
 * RESERVE bytes that it does not use.  An allocation that fails gives them back and is tried again
 * (reserve_wrap.c): a heal needs a small part of that.
 *
 *    state   meaning                                        left when (by)
 *    full    the block is held                              an allocation fails (reserve_spend)
 *    spent   requests of clients are refused, with ENOMEM   there is memory again when one of them
 *            (connector_client.c)                           asks (reserve_fill)
 *
 * Limits: modules in threads of their own, and libraries other than those of reserve_libraries(),
 * allocate without it.  Memory that the kernel has promised, and cannot provide, does not make
 * malloc() fail.
 *
 * Failure: a broker that cannot fill its reserve starts without it.
 */
#include "config.h"
#include "reserve.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Above the threshold from which malloc() maps a block of its own, so that free() returns it to the
 * system. */
#define RESERVE ((size_t)2 << 20)

static _Atomic(void *) reserve;

int reserve_fill(void)
{
    void *none = NULL, *block;

    if (atomic_load(&reserve))
        return 0;
    if (!(block = malloc(RESERVE)))
        return -1;
    if (!atomic_compare_exchange_strong(&reserve, &none, block))
        free(block);
    return 0;
}

bool reserve_spend(void)
{
    void *block = atomic_exchange(&reserve, NULL);

    free(block);
    return block != NULL;
}
