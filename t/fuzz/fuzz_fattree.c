/* fuzz_fattree.c - any text as a topology.conf. */
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libtopology/fattree.h"

/* Leaves and pods ascend with the nodes, and are those that the switches say. */
static void check_tree(const fattree_t *t)
{
    uint32_t nodes = fattree_nnodes(t), leaves = fattree_nleaves(t), below = 0, onleaf = 0;
    struct fattree_switch sw, up;

    MUST(nodes > 0 && leaves > 0 && fattree_npods(t) > 0);
    for (uint32_t i = 0; i < nodes; i++) {
        MUST(fattree_leaf(t, i) < leaves);
        MUST(i == 0 || fattree_leaf(t, i - 1) <= fattree_leaf(t, i));
        MUST(fattree_find(t, fattree_node_name(t, i)) == i);
    }
    for (uint32_t l = 0; l < leaves; l++) {
        MUST(fattree_pod(t, l) < fattree_npods(t));
        MUST(l == 0 || fattree_pod(t, l - 1) <= fattree_pod(t, l));
    }
    MUST(fattree_leaf(t, nodes) == FATTREE_NONE && fattree_pod(t, leaves) == FATTREE_NONE);
    for (uint32_t i = 0; fattree_switch(t, i, &sw); i++) {
        MUST(sw.name && (sw.leaf == FATTREE_NONE || sw.leaf < leaves));
        if (i == 0)
            below = sw.nnodes;
        else
            MUST(sw.parent < i && fattree_switch(t, sw.parent, &up) && sw.nnodes <= up.nnodes);
        if (sw.leaf != FATTREE_NONE)
            onleaf += sw.nnodes;
    }
    MUST(below == nodes && onleaf == nodes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    errmsg_t err;
    fattree_t *t;

    memset(&err, 0, sizeof(err));
    t = fattree_parse_conf((const char *)data, size, "fuzz", &err);
    if (t)
        check_tree(t);
    else
        MUST(err.text[0] != '\0');
    fattree_destroy(t);
    return 0;
}
