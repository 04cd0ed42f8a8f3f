/* fuzz_topology.c - any text as a tree file; the first byte chooses the size. */
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libtopology/topology.h"

/* Next hops must lead to each rank on the shortest path: up to the common ancestor, and down. */
static void check_routes(const topology_t *t)
{
    uint32_t n = topology_size(t);

    for (uint32_t from = 0; from < n; from++) {
        MUST(topology_subtree_count(t, from) >= 1 + topology_nchildren(t, from));
        for (uint32_t to = 0; to < n; to += 1 + n / 16) {
            uint32_t hops = 0, top = from;

            for (uint32_t at = from; at != to; at = topology_next_hop(t, at, to))
                MUST(++hops < n);
            while (!topology_is_ancestor(t, top, to))
                top = topology_parent(t, top);
            MUST(hops ==
                 topology_depth(t, from) + topology_depth(t, to) - 2 * topology_depth(t, top));
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
