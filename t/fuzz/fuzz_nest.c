/* fuzz_nest.c - any text as a batch script, the address of a session, a path through sessions, and
 * what comes from a terminal. */
#include <stdlib.h>
#include <string.h>

#include "fuzz_must.h"
#include "src/cmd/nest/batchscript.h"
#include "src/cmd/nest/nesturi.h"
#include "src/cmd/nest/ptyframe.h"
#include "src/cmd/nest/sbatch.h"

/* A text as one line of options of sbatch. */
static void slurm(const char *text, size_t size)
{
    char *line = strndup(text, size);
    strvec_t *words = strvec_split(line, ' ');
    sbatch_t *s = sbatch_create();
    errmsg_t err;

    if (sbatch_line(s, (int)strvec_count(words), strvec_argv(words), &err) == 0)
        MUST(sbatch_finish(s, &err) == 0);
    for (size_t i = 0; i < strvec_count(sbatch_options(s)); i++)
        MUST(strncmp(strvec_at(sbatch_options(s), i), "--", 2) == 0);
    sbatch_destroy(s);
    strvec_destroy(words);
    free(line);
}

static void script(const char *text, size_t size)
{
    struct batchscript s;
    struct batch_directive d;
    size_t line = 0;
    bool late = false;

    batchscript_init(&s, text, size);
    while (batchscript_next(&s, &d)) {
        MUST(d.line > line);
        MUST(d.text >= text && d.text + d.len <= text + size);
        MUST(!memchr(d.text, '\n', d.len));
        MUST(d.late >= late);
        line = d.line;
        late = d.late;
    }
    slurm(text, size);
    MUST(batchscript_bad_line(text, size) <= size + 1);
}

static void frames(const uint8_t *data, size_t size)
{
    struct ptyframe f;
    errmsg_t err;
    ssize_t n;

    while ((n = ptyframe_parse(data, size, &f, &err)) > 0) {
        MUST((size_t)n <= size);
        MUST(f.type != PTYFRAME_DATA || f.len == (size_t)n - PTYFRAME_HEAD);
        data += n;
        size -= (size_t)n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    uint64_t ids[NESTURI_LEVELS_MAX];
    struct nesturi u;
    errmsg_t err;
    int n;

    script((const char *)data, size);
    frames(data, size);
    if (nesturi_parse(text, &u, &err) == 0)
        MUST(u.path[0] == '/' && u.host[0] && strlen(u.path) < sizeof(u.path));
    n = nesturi_path(text, ids, NESTURI_LEVELS_MAX, &err);
    MUST(n == -1 || (n > 0 && n <= NESTURI_LEVELS_MAX));
    free(text);
    return 0;
}
