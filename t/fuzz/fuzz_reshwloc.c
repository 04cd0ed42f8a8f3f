/* Fuzz target: XML of hwloc.  What hwloc makes of it is a node, or refused with a sentence.  (hwloc
 * itself forgets memory over some malformed files: the program that reads one ends right after.) */
#include <stdint.h>
#include <stdlib.h>

#include "fuzz_must.h"
#include "libresource/resgraph_hwloc.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
    return 1;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    /* Quiet, and with hwloc's own reader of XML, the one that is there everywhere. */
    setenv("HWLOC_HIDE_ERRORS", "2", 1);
    setenv("HWLOC_LIBXML", "0", 1);
    setenv("HWLOC_PLUGINS_PATH", "/nowhere", 1);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    errmsg_t err = {""};
    resgraph_t *g = resgraph_from_xml_text((const char *)data, size, 0, NULL, &err);
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
