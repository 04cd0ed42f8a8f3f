/* pmi_exchange.c - a program of the PMI-1 C API: every rank puts a card and gets those of all
 * ranks.
 *
 *   pmi_exchange [LIBPMI [GAP]]
 *
 * loads the library as Open MPI does (default: $FLUX_PMI_LIBRARY_PATH).  GAP is a text within the
 * values, by default a blank; some launchers cut values at a blank.
 *
 * Prints one line "rank R size N clique C sum S", in a spawned process with "spawned " before it,
 * and exits with 0 when all values are correct.
 */
#include "config.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libpmi/pmi.h"

#define CALL(name, ...)                                               \
    do {                                                              \
        __typeof__(&name) fn_ = (__typeof__(&name))dlsym(lib, #name); \
        int rc_ = fn_ ? fn_(__VA_ARGS__) : -99;                       \
        if (rc_ != PMI_SUCCESS) {                                     \
            fprintf(stderr, "pmi_exchange: %s: %d\n", #name, rc_);    \
            return 1;                                                 \
        }                                                             \
    } while (0)

int main(int argc, char **argv)
{
    const char *gap = argc > 2 ? argv[2] : " ";
    const char *path = argc > 1 ? argv[1] : getenv("FLUX_PMI_LIBRARY_PATH");
    void *lib = path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
    int spawned, rank, size, universe, appnum, nclique, max, *clique, found = 0;
    char kvs[257], key[64], want[64], *got;
    long sum = 0;

    if (!lib) {
        fprintf(stderr, "pmi_exchange: %s\n", path ? dlerror() : "no library named");
        return 1;
    }
    CALL(PMI_Init, &spawned);
    CALL(PMI_Get_rank, &rank);
    CALL(PMI_Get_size, &size);
    CALL(PMI_Get_universe_size, &universe);
    CALL(PMI_Get_appnum, &appnum);
    CALL(PMI_KVS_Get_my_name, kvs, sizeof(kvs));
    CALL(PMI_KVS_Get_value_length_max, &max);
    CALL(PMI_Get_clique_size, &nclique);
    clique = calloc((size_t)nclique, sizeof(*clique));
    got = malloc((size_t)max);
    if (!clique || !got)
        return 1;
    CALL(PMI_Get_clique_ranks, clique, nclique);
    for (int i = 0; i < nclique; i++)
        found += clique[i] == rank;
    snprintf(key, sizeof(key), "card/[%d]", rank);
    snprintf(want, sizeof(want), "address%sof=%d,port=%d", gap, rank, rank * 7);
    CALL(PMI_KVS_Put, kvs, key, want);
    CALL(PMI_KVS_Commit, kvs);
    CALL(PMI_Barrier);
    for (int i = 0; i < size; i++) {
        snprintf(key, sizeof(key), "card/[%d]", i);
        snprintf(want, sizeof(want), "address%sof=%d,port=%d", gap, i, i * 7);
        CALL(PMI_KVS_Get, kvs, key, got, max);
        if (strcmp(got, want) != 0) {
            fprintf(stderr, "pmi_exchange: %s is '%s'\n", key, got);
            return 1;
        }
        sum += i;
    }
    CALL(PMI_Barrier);
    CALL(PMI_Finalize);
    printf("%srank %d size %d clique %d sum %ld\n", spawned ? "spawned " : "", rank, size, nclique,
           sum);
    free(clique);
    free(got);
    dlclose(lib);
    return found == 1 && (universe >= size || universe == -1) ? 0 : 1;
}
