/* Fuzz target: the section `resource` of configuration files. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "libresource/resgraph_lua.h"
#include "libutil/test/text_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = TEXT_FILE;
    errmsg_t err = {""};
    resgraph_t *g;
    char *text;

    text_file_create(path, data, size);
    g = resgraph_from_lua(path, NULL, &err);
    unlink(path);
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
