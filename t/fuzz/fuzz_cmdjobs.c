/* What flux shows of jobs: output as it stands in the store (however it is cut into pieces, the
 * same must come of it), and templates of lists with texts that users chose. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "src/cmd/job/jobs_table.h"
#include "src/cmd/job/outrec.h"

/* Bytes and where they went, mixed so that pieces do not matter. */
static void mix(void *arg, uint32_t task, uint32_t stream, const void *data, size_t len)
{
    uint64_t *sum = arg;

    if (stream != 1 && stream != 2)
        abort();
    for (size_t i = 0; i < len; i++)
        *sum =
            (*sum ^ ((const uint8_t *)data)[i] ^ ((uint64_t)task << 8) ^ stream) * 0x100000001b3u;
}

static void records(const uint8_t *data, size_t size)
{
    struct outrec whole = {.nhead = 0}, cut = {.nhead = 0};
    uint64_t a = 1, b = 1;
    size_t step = 1 + size % 7;
    errmsg_t err;
    int rc = outrec_take(&whole, data, size, mix, &a, &err), rc2 = 0;

    for (size_t i = 0; rc2 == 0 && i < size; i += step)
        rc2 = outrec_take(&cut, data + i, size - i < step ? size - i : step, mix, &b, &err);
    if (rc != rc2 || a != b || (rc == 0 && whole.left != cut.left))
        abort();
}

static void tables(const char *text)
{
    const struct jobs_print p = {.header = true, .colors = true, .width = 40};
    struct job_info info = {.id = 7, .state = "RUN", .name = text, .note = text, .t_run = 1.};
    errmsg_t err;
    jobs_table_t *t = jobs_table_create(text, "id,name,state", &err);
    char *out = NULL;
    size_t size;
    FILE *f;

    if (!t && !(t = jobs_table_create("+note", "id,name:.9,state", &err)))
        abort();
    if (jobs_table_add(t, &info, 2.) == 0 && (f = open_memstream(&out, &size))) {
        jobs_table_print(t, f, &p);
        fclose(f);
    }
    free(out);
    jobs_table_destroy(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    records(data, size);
    if (text) {
        memcpy(text, data, size);
        text[size] = '\0';
        tables(text);
    }
    free(text);
    return 0;
}
