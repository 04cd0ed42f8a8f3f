/* flux-keygen.c - flux keygen: generate the keys with which brokers authenticate to each other.
 *
 *    flux keygen [--force] FILE...
 *
 * Each FILE becomes a certificate (boot_cert.h), and FILE.pub its public part.  This is a separate
 * program because it needs the libraries of ZeroMQ and libsodium, which `flux` is not linked with.
 */
#include "config.h"
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "broker/boot_cert.h"

static const char usage[] =
    "Usage: flux keygen [OPTION...] FILE...\n"
    "Generate a key pair for brokers: FILE, which only you can read and which must stay secret,\n"
    "and FILE.pub. All brokers of a session can share one key pair; if each has its own, a broker\n"
    "cannot impersonate another.\n"
    "\n"
    "  -f, --force  replace existing files\n"
    "  -h, --help   print this help\n";

static const struct option options[] = {
    {"force", no_argument, NULL, 'f'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

static int keygen(const char *path, bool force)
{
    struct cert cert;
    errmsg_t err = {""};
    int rc = boot_cert_generate(&cert, &err);

    if (rc == 0)
        rc = boot_cert_write(&cert, path, force, &err);
    boot_cert_wipe(&cert);
    if (rc < 0)
        fprintf(stderr, "flux keygen: %s\n", err.text);
    return rc;
}

int main(int argc, char **argv)
{
    bool force = false;
    int opt, rc = 0;

    argv[0] = "flux keygen"; /* as getopt names it */
    while ((opt = getopt_long(argc, argv, "fh", options, NULL)) >= 0) {
        switch (opt) {
        case 'f':
            force = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        default:
            fputs("Try 'flux keygen --help'.\n", stderr);
            return 2;
        }
    }
    if (optind == argc) {
        fputs("flux keygen: the name of a FILE is required; try 'flux keygen --help'\n", stderr);
        return 2;
    }
    for (int i = optind; i < argc; i++) {
        if (keygen(argv[i], force) < 0)
            rc = 1;
    }
    return rc;
}
