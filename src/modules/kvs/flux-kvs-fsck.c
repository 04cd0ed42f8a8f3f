/* flux-kvs-fsck.c - flux kvs fsck: check the file that a session left on disk, while no session
 * uses it.
 *
 *    flux-kvs-fsck [--verbose] FILE|DIR
 *
 * This is a separate program, since it needs the libraries of SQLite and OpenSSL, which `flux` does
 * not load.  Each problem is a line on standard output; the last line is a summary.
 */
#include "config.h"
#include <getopt.h>
#include <stdio.h>

#include "km_fsck.h"

static const char usage[] =
    "Usage: flux kvs fsck [OPTION...] FILE|DIR\n"
    "Check the store that a session with --statedir=DIR has left, while no session uses it:\n"
    "the hash of each object, and that no object to which a root leads is missing. Nothing is\n"
    "changed.\n"
    "\n"
    "  -v, --verbose  print the contents of each namespace\n"
    "  -h, --help     print this text\n"
    "\n"
    "Exit code: 0 if no error was found, 1 if the store has an error or cannot be read.\n";

static const struct option options[] = {
    {"verbose", no_argument, NULL, 'v'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

static void report(void *arg, bool bad, const char *sentence)
{
    const bool *verbose = arg;

    if (bad || *verbose)
        printf("%s\n", sentence);
}

int main(int argc, char **argv)
{
    bool verbose = false;
    struct km_fsck f = {.report = report, .arg = &verbose};
    errmsg_t err;
    int opt;

    argv[0] = "flux kvs fsck"; /* the name in the messages of getopt */
    while ((opt = getopt_long(argc, argv, "vh", options, NULL)) >= 0) {
        switch (opt) {
        case 'v':
            verbose = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        default:
            fputs("Try 'flux kvs fsck --help'.\n", stderr);
            return 2;
        }
    }
    if (optind != argc - 1) {
        fputs("flux kvs fsck: one FILE or DIR is needed; try 'flux kvs fsck --help'\n", stderr);
        return 2;
    }
    if (km_fsck(argv[optind], &f, &err) < 0) {
        fflush(stdout);
        fprintf(stderr, "flux kvs fsck: %s\n", err.text);
        return 1;
    }
    printf("%s: %u namespace%s, %llu objects (%llu bytes), %llu rows: ", argv[optind], f.namespaces,
           f.namespaces == 1 ? "" : "s", (unsigned long long)(f.nodes + f.blobs),
           (unsigned long long)f.bytes, (unsigned long long)f.rows);
    if (f.problems)
        printf("%u problem%s\n", f.problems, f.problems == 1 ? "" : "s");
    else
        printf("sound\n");
    if (fflush(stdout) != 0) {
        perror("flux kvs fsck: standard output");
        return 1;
    }
    return f.problems ? 1 : 0;
}
