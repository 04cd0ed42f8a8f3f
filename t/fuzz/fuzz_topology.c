/* fuzz_topology.c - any text as a tree file; the first byte chooses the size. */
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libtopology/topology.h"

/* Walking next hops must lead everywhere in as many steps as the distance says. */
static void check_routes(const topology_t *t)
{
    uint32_t n = topology_size(t);

    for (uint32_t from = 0; from < n; from++) {
        MUST(topology_subtree_count(t, from) >= 1 + topology_nchildren(t, from));
        for (uint32_t to = 0; to < n; to += 1 + n / 16) {
            uint32_t hops = 0;

            for (uint32_t at = from; at != to; at = topology_next_hop(t, at, to))
                MUST(++hops < n);
            MUST(hops == topology_distance(t, from, to));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t n;
    errmsg_t err;
    topology_t *t;

    if (size < 1)
        return 0;
    n = 1 + data[0] % 64;
    t = topology_create_text((const char *)data + 1, size - 1, "fuzz", n, &err);
    if (t) {
        char *file = topology_format_file(t);
        char *tree = topology_format_tree(t, NULL, NULL);
        char *dot = topology_format_dot(t, NULL, NULL);
        topology_t *back = topology_create_text(file, strlen(file), "back", n, &err);

        MUST(tree && dot && back);
        for (uint32_t r = 0; r < n; r++)
            MUST(topology_parent(t, r) == topology_parent(back, r));
        check_routes(t);
        topology_destroy(back);
        free(file);
        free(tree);
        free(dot);
    } else {
        MUST(err.text[0] != '\0');
    }
    topology_destroy(t);
    return 0;
}
