/* check.c - look whether what a store did, as logs tell it, keeps its promises.
 *
 *    history-check [--ns=NAME] [--master=RANK|none] LOG...
 *
 * LOGs are those of `record` (history.c has the format), read as one history.  Prints what there
 * was, and each violation with the operations that show it.  Exit code 0: no violation; 1: some;
 * 2: a log cannot be read.  --master: rank of the master (default 0) of the primary
 * namespace or the one named, whose readers see nothing older than anybody has been told; "none":
 * they need not.
 */
#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "history.h"
#include "libutil/strutil.h"

static int read_log(history_t *h, const char *name)
{
    FILE *f = fopen(name, "r");
    errmsg_t err = {""};
    int rc = -1;

    if (!f)
        fprintf(stderr, "history-check: %s: %s\n", name, strerror(errno));
    else if ((rc = history_read(h, f, name, &err)) < 0)
        fprintf(stderr, "history-check: %s\n", err.text);
    if (f)
        fclose(f);
    return rc;
}

static void print(const struct hist_report *r)
{
    printf("%zu operations: %zu commits, %zu calls of fences, %zu reads of %zu values; %zu "
           "versions\n",
           r->ops, r->commits, r->fences, r->reads, r->values, r->roots);
    printf("%zu commits refused, %zu of unknown outcome, of which %zu were seen; %zu guards "
           "passed\n",
           r->failed, r->unknown, r->unknown_seen, r->guards_passed);
    for (size_t i = 0; i < r->count && i < HIST_REPORT_MAX; i++)
        printf("VIOLATION %s\n", r->first[i].text);
    if (r->count == 0)
        printf("all promises were kept\n");
    else
        printf("%zu violations\n", r->count);
    for (int k = 0; k < HV_KINDS; k++) {
        if (r->of_kind[k])
            printf("  %zu x %s\n", r->of_kind[k], hist_kind_name((enum hist_kind)k));
    }
}

int main(int argc, char **argv)
{
    struct hist_options o = {.master_known = true, .master = 0};
    history_t *h = history_create();
    struct hist_report *r = malloc(sizeof(*r));
    int first = 1, rc = 2;

    for (; first < argc && str_starts(argv[first], "--"); first++) {
        const char *arg = argv[first];
        if (str_starts(arg, "--ns="))
            o.ns = arg + 5;
        else if (strcmp(arg, "--master=none") == 0)
            o.master_known = false;
        else if (!str_starts(arg, "--master=") || str2u32(arg + 9, &o.master) < 0)
            argc = 0;
    }
    if (argc <= first) {
        fputs("usage: history-check [--ns=NAME] [--master=RANK|none] LOG...\n", stderr);
    } else if (h && r) {
        rc = 0;
        for (int i = first; i < argc && rc == 0; i++)
            rc = read_log(h, argv[i]) < 0 ? 2 : 0;
        if (rc == 0 && history_check(h, &o, r) < 0) {
            fputs("history-check: out of memory\n", stderr);
            rc = 2;
        } else if (rc == 0) {
            print(r);
            rc = r->count > 0;
        }
    }
    history_destroy(h);
    free(r);
    return rc;
}
