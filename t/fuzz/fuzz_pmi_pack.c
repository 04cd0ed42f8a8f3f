/* fuzz_pmi_pack.c - blobs from other nodes, and process mappings, of any bytes. */
#include "config.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libpmi/pmi_mapping.h"
#include "libpmi/pmi_pack.h"
#include "libpmi/pmi_table.h"

/* What is accepted holds what it says, and is the same after packing again. */
static void blob(const uint8_t *data, size_t size)
{
    struct pmi_pack *pk = pmi_pack_create(0);
    struct pmi_table *t = pmi_table_create(0);
    struct pmi_unpack u;
    struct pmi_pair p;
    size_t count = 0, again = 0, len;
    int rc;

    MUST(pk && t);
    rc = pmi_unpack_check(data, size, &count);
    MUST(pmi_table_merge(t, data, size) == rc);
    if (rc == 0) {
        pmi_unpack_init(&u, data, size);
        while (pmi_unpack_next(&u, &p) == 1)
            MUST(pmi_pack_add(pk, &p) == 0);
        MUST(pmi_pack_count(pk) == count);
        MUST(pmi_unpack_check(pmi_pack_data(pk, &len), len, &again) == 0 && again == count);
        pmi_unpack_init(&u, pmi_pack_data(pk, &len), len);
        while (pmi_unpack_next(&u, &p) == 1)
            MUST(pmi_table_get(t, p.key, p.keylen, &p) == 0);
    } else {
        /* Nothing was taken, not even the pairs before the error. */
        pmi_unpack_init(&u, data, size);
        while (pmi_unpack_next(&u, &p) == 1)
            MUST(pmi_table_get(t, p.key, p.keylen, &p) < 0);
    }
    pmi_table_destroy(t);
    pmi_pack_destroy(pk);
}

static void mapping(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct pmi_mapping *m;
    size_t nranks = size % 100 + 1, n, sum = 0;

    MUST(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    m = pmi_mapping_parse(text, nranks);
    for (size_t i = 0; m && i < pmi_mapping_nnodes(m); i++) {
        (void)pmi_mapping_ranks(m, (uint32_t)i, &n);
        sum += n;
    }
    MUST(!m || sum == nranks);
    pmi_mapping_destroy(m);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    blob(data, size);
    mapping(data, size);
    return 0;
}
