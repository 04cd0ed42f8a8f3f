/* The exchange at the start of every MPI program, and nothing else: each process puts a card, all
 * meet in a barrier, each gets the cards of all others and looks at them.
 *
 * Speaks the PMI-1 wire protocol, so it runs under any launcher that does.
 */
#include "config.h"
#include <stdio.h>
#include <string.h>

#include "libpmi/pmi_client.h"

static int failed(const errmsg_t *err)
{
    fprintf(stderr, "pmi_exchange: %s\n", err->text);
    return 1;
}

int main(void)
{
    errmsg_t err;
    struct pmi_client *c = pmi_client_create_env(&err);
    char key[32], want[128], got[1024];

    if (!c)
        return failed(&err);
    if (pmi_client_size(c) < 2) {
        fprintf(stderr, "pmi_exchange: started alone: no launcher that speaks PMI?\n");
        return 1;
    }
    for (int turn = 0; turn < 2; turn++) {
        int rank = turn ? 0 : pmi_client_rank(c), last = turn ? pmi_client_size(c) - 1 : rank;

        for (; rank <= last; rank++) {
            snprintf(key, sizeof(key), "card-%d", rank);
            /* About as much as a network address and a few capabilities take. */
            snprintf(want, sizeof(want), "%064d-%08x-%08x", rank, rank * 2654435761u, ~rank);
            if (turn == 0 ? pmi_client_put(c, key, want, &err) < 0
                          : pmi_client_get(c, key, got, sizeof(got), &err) < 0)
                return failed(&err);
            if (turn && strcmp(want, got) != 0) {
                fprintf(stderr, "pmi_exchange: wrong card of rank %d\n", rank);
                return 1;
            }
        }
        if (turn == 0 && pmi_client_barrier(c, &err) < 0)
            return failed(&err);
    }
    if (pmi_client_barrier(c, &err) < 0 || pmi_client_finalize(c, &err) < 0)
        return failed(&err);
    pmi_client_destroy(c);
    return 0;
}
