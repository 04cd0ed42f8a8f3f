/* Directives in a batch script: options that stand in its comments.
 *
 *    #FLUX: -N4 --time-limit=1h           sh, Python, Perl, Ruby, Lua (--FLUX:), C (//FLUX:), ...
 *    # flux: -N4                          as RFC 36 has them
 *    #FLUX -N4                            the colon may be missing where an option follows
 *    #SBATCH -N4                          of Slurm, at the beginning of a line
 *    #PBS -l nodes=4                      of other schedulers: reported as not understood
 *
 * Comments are those of the languages that scripts are written in: from "#", "//", "--", "%", ";",
 * "REM" or "dnl" to the end of the line; and the lines of a block between slash-star and
 * star-slash, three quotes and three quotes, "--[[" and "]]", "=begin" and "=end", "<!--" and
 * "-->", "{-" and "-}", "(*" and "*)".  Options begin where the script does and end with its first
 * line that is neither blank nor comment: what comes later may belong to a script that this script
 * writes.
 *
 * Thread rules: functions use nothing but their arguments.
 */
#ifndef CMD_BATCHSCRIPT_H
#define CMD_BATCHSCRIPT_H

#include <stdbool.h>
#include <stddef.h>

struct batchscript {
    const char *next;
    const char *end;
    size_t line;       /* number of the line before `next` */
    const char *close; /* what ends the block that `next` is in; NULL: in none */
    bool code;         /* the first line of the program has been seen */
};

enum batch_kind { BATCH_FLUX, BATCH_SBATCH, BATCH_OTHER };

struct batch_directive {
    enum batch_kind kind;
    size_t line;      /* from 1 */
    const char *text; /* behind "FLUX:" or "#SBATCH", without blanks around it; BATCH_OTHER: the
                         whole line; not NUL-terminated */
    size_t len;
    bool late; /* stands behind the first line of the program: it does not count */
};

/* `text` is kept. */
void batchscript_init(struct batchscript *s, const char *text, size_t len);
/* The next directive; false: there is none. */
bool batchscript_next(struct batchscript *s, struct batch_directive *d);

/* Can this travel in a job?  0 when it is text in UTF-8 without NUL; else the number of the first
 * line that has something else. */
size_t batchscript_bad_line(const char *text, size_t len);
/* Does a first line "#!..." end with CR and LF?  No interpreter is found then. */
bool batchscript_dos(const char *text, size_t len);

#endif
