/* shm.c - removes the shared memory that MPICH leaves behind when it is killed.
 *
 * MPICH 5 names the segments of a host by the job: /dev/shm/mpich_shm_HASH_HOST and
 * mpich_vci_HASH_HOST.  HASH is the 32-bit FNV-1a digest (Fowler, Noll, Vo) of the name of the job
 * (the kvsname of PMI, the namespace of PMIx), in hexadecimal digits.  HOST is the number of the
 * host in PMI_process_mapping or in the list of nodes of PMIx (hosts.c).  Brokers of one host have
 * one number.  A name is given to one job only, so the names of the segments are known at the end
 * of the job.
 *
 * MPICH 4 leaves a file if it is killed during its start.  The first rank of a node makes a file
 * /dev/shm/mpich_shar_* and sends its name to the other ranks, which map it; then it removes the
 * name.  By this file they agree on a second, large file in the same way.  If the job dies before a
 * name is removed, the file stays until the host is rebooted.  These names are random, so they are
 * learned from the job itself:
 *
 *    first file   the value, in hexadecimal digits, of the PMI key -bcast-N-RANK that a task puts
 *    other files  the mappings of a task of a job with such a key, when the job gets a signal
 *
 * Invariants:
 *  1. Only regular files of our user are removed; for MPICH 4, only /dev/shm/mpich_shar_ followed
 *     by a name without a slash.
 *  2. They are removed only if a task has left without finalizing PMI or PMIx: in a job that ends
 *     well, MPICH has removed them.
 *
 * Failure: a file that cannot be removed stays; so does the file of a job that dies by itself after
 * it has made the file and before it has sent its name.
 */
#include "config.h"
#include "launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libpmi/pmi_pack.h"
#include "libpmi/pmi_server.h"
#include "libutil/fdutil.h"
#include "libutil/strutil.h"

#define PREFIX "/dev/shm/mpich_shar_"
#define NAMES_MAX 16
#define MAPS_MAX (1u << 20)

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decode text from hexadecimal digits.  Returns -1 if it is malformed or does not fit. */
static int decode(const char *hex, size_t len, char *out, size_t size)
{
    if (len % 2 || len / 2 >= size)
        return -1;
    for (size_t i = 0; i < len; i += 2) {
        int hi = digit(hex[i]), lo = digit(hex[i + 1]);

        if (hi < 0 || lo < 0 || (hi == 0 && lo == 0))
            return -1;
        out[i / 2] = (char)(hi * 16 + lo);
    }
    out[len / 2] = '\0';
    return 0;
}

static void add(struct nodejob *j, const char *name)
{
    if (!str_starts(name, PREFIX) || strchr(name + strlen(PREFIX), '/') || j->nshm == NAMES_MAX)
        return;
    for (size_t i = 0; i < j->nshm; i++)
        if (strcmp(j->shm[i], name) == 0)
            return;
    if ((j->shm || (j->shm = calloc(NAMES_MAX, sizeof(*j->shm)))) &&
        (j->shm[j->nshm] = strdup(name)))
        j->nshm++;
}

void shm_put(struct nodejob *j, const struct pmi_pair *pair)
{
    static const char key[] = "-bcast-";
    const size_t keylen = sizeof(key) - 1;
    char name[128];

    if (pair->keylen > keylen && memcmp(pair->key, key, keylen) == 0 &&
        decode(pair->value, pair->valuelen, name, sizeof(name)) == 0)
        add(j, name);
}

static bool within_mpi(const struct nodejob *j, uint32_t i)
{
    return (j->pmi && pmi_server_initialized(j->pmi, i) && !pmi_server_finalized(j->pmi, i)) ||
           pmix_within(j, i);
}

/* A removed file is skipped: in the mappings, " (deleted)" follows its name. */
static void add_mapped(struct nodejob *j, pid_t pid)
{
    char path[64], *text, *save = NULL;
    size_t len;

    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    if (file_read_all(path, MAPS_MAX, &text, &len) < 0)
        return;
    for (char *s = strtok_r(text, "\n", &save); s; s = strtok_r(NULL, "\n", &save))
        if ((s = strstr(s, PREFIX)) && !strchr(s, ' '))
            add(j, s);
    free(text);
}

void shm_look(struct nodejob *j)
{
    for (uint32_t i = 0; j->nshm > 0 && i < j->ntasks; i++) {
        if (j->tasks[i].pid > 0 && within_mpi(j, i)) {
            add_mapped(j, j->tasks[i].pid);
            return;
        }
    }
}

static bool ended_well(const struct nodejob *j)
{
    for (uint32_t i = 0; i < j->ntasks; i++)
        if (within_mpi(j, i))
            return false;
    return true;
}

static void remove_file(const char *path)
{
    struct stat st;

    if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid())
        unlink(path);
}

static uint32_t digest(const char *text)
{
    uint32_t h = 2166136261u;

    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * 16777619u;
    return h;
}

static void remove_named(const char *job, uint32_t host)
{
    static const char *const formats[] = {"/dev/shm/mpich_shm_%x_%u", "/dev/shm/mpich_vci_%x_%u"};
    char path[64];

    for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
        snprintf(path, sizeof(path), formats[i], digest(job), host);
        remove_file(path);
    }
}

void shm_remove(struct nodejob *j)
{
    bool bad = !ended_well(j);
    char name[PMIX_JOB_NAME_MAX];
    uint32_t host;

    if (bad && hosts_here(j, &host) == 0) {
        pmi_job_name(j, name, sizeof(name));
        remove_named(name, host);
        pmix_job_name(j, name);
        remove_named(name, host);
    }
    for (size_t i = 0; i < j->nshm; i++) {
        if (bad)
            remove_file(j->shm[i]);
        free(j->shm[i]);
    }
    free(j->shm);
    j->shm = NULL;
    j->nshm = 0;
}
