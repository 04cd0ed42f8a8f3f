/* Fuzz target: inventories and requests.  The text up to the first line feed is an inventory, the
 * rest a request: both are taken or refused with a sentence, an inventory prints to the same again,
 * and what it says about the request it says with a sentence. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libresource/resgraph.h"

static void ask(const resgraph_t *g, const char *text, size_t len)
{
    json_t *obj = json_loadb(text, len, 0, NULL);
    errmsg_t err = {""};
    struct rreq req, copy;

    if (!obj)
        return;
    if (rreq_from_json(obj, &req, &err) < 0) {
        MUST(err.text[0]);
    } else {
        MUST(rreq_copy(&copy, &req) == 0 && rreq_equal_resources(&req, &copy));
        MUST(rreq_hash(&req) == rreq_hash(&copy));
        if (resgraph_satisfiable(g, &req, &err) < 0)
            MUST(err.text[0]);
        rreq_clear(&copy);
        rreq_clear(&req);
    }
    json_decref(obj);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data, *line = memchr(text, '\n', size);
    size_t len = line ? (size_t)(line - text) : size;
    errmsg_t err = {""};
    resgraph_t *g = resgraph_parse(text, len, &err), *again;
    char *one, *two;

    if (!g) {
        MUST(err.text[0]);
        return 0;
    }
    if (line)
        ask(g, line + 1, size - len - 1);
    if (resgraph_nnodes(g) <= 4096) {
        MUST((one = resgraph_format(g)) != NULL);
        MUST((again = resgraph_parse(one, strlen(one), &err)) != NULL);
        MUST((two = resgraph_format(again)) != NULL && strcmp(one, two) == 0);
        free(one);
        free(two);
        resgraph_destroy(again);
    }
    resgraph_destroy(g);
    return 0;
}
