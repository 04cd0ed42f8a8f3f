/* Shared memory that MPICH leaves when it is killed.
 *
 * MPICH 5 names the segment of a node by the job: /dev/shm/mpich_shm_HASH_NODE and
 * mpich_vci_HASH_NODE, where HASH is the 32-bit FNV-1a digest (Fowler, Noll, Vo) of PMI's kvsname,
 * as hexadecimal digits, and NODE the number of the node in the job.  A kvsname is given to one job
 * only, and the end of that removes the segments of its node here.
 *
 * MPICH 4 leaves some when it is killed as it starts.  The first rank of a node makes a file
 * /dev/shm/mpich_shar_*, tells the others of its node its name, and they map it; when all have, it
 * removes the name.  By means of this file they agree about the next, a large one.  When the job
 * dies before a name is gone the file stays, until the machine is started again.
 *
 * The names are random, so that they are told apart only by what is seen of the job itself:
 *
 *    first file   the value, in hexadecimal digits, of the PMI key -bcast-N-RANK that a task has put
 *    others       what a task of a job with such a key has mapped, when the job gets a signal
 *
 *  1. Only regular files of our user are removed; of those of MPICH 4 only what is called
 *     /dev/shm/mpich_shar_ and something without a slash.
 *  2. And only when a task left without PMI's finalize: in a job that ends well MPICH has removed
 *     them, and nothing is touched.
 *
 * Failure: what cannot be removed stays; so does the file of a job that dies by itself, between
 * making it and telling its name.
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

/* Text from hexadecimal digits; -1 when it is none, or does not fit. */
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
    return pmi_server_initialized(j->pmi, i) && !pmi_server_finalized(j->pmi, i);
}

/* A removed one has " (deleted)" behind its name. */
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

static void remove_named(const struct nodejob *j)
{
    static const char *const formats[] = {"/dev/shm/mpich_shm_%x_%u", "/dev/shm/mpich_vci_%x_%u"};
    char name[64], path[64];

    pmi_job_name(j, name, sizeof(name));
    for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
        snprintf(path, sizeof(path), formats[i], digest(name), j->run.node);
        remove_file(path);
    }
}

void shm_remove(struct nodejob *j)
{
    bool bad = j->pmi && !ended_well(j);

    if (bad)
        remove_named(j);
    for (size_t i = 0; i < j->nshm; i++) {
        if (bad)
            remove_file(j->shm[i]);
        free(j->shm[i]);
    }
    free(j->shm);
    j->shm = NULL;
    j->nshm = 0;
}
