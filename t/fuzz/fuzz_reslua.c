/* Fuzz target: the section `resource` of configuration files. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libresource/resgraph_lua.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    errmsg_t err = {""};
    resgraph_t *g = resgraph_from_lua_text((const char *)data, size, "fuzz.lua", NULL, &err);
    char *text;

    if (!g) {
        if (!err.text[0])
            abort();
        return 0;
    }
    if (!(text = resgraph_format(g)))
        abort();
    free(text);
    resgraph_destroy(g);
    return 0;
}
