/* Options of Slurm's sbatch in a batch script ("#SBATCH -N4"), as options of flux batch.
 *
 *    sbatch_t *s = sbatch_create();
 *    for each line:  sbatch_line(s, argc, argv, &err)      its words; argv[0] does not count
 *    sbatch_finish(s, &err)                                what several lines say together
 *    sbatch_options(s)                                     "--nodes=4", "--time-limit=30", ...
 *    sbatch_ignored(s)                                     "--mail-type: no mail is sent", ...
 *
 * Nothing is dropped silently: what has no counterpart is among those that are ignored, with the
 * reason, unless leaving it out changes nothing.
 *
 * Not thread-safe: getopt(3) is not.
 */
#ifndef CMD_SBATCH_H
#define CMD_SBATCH_H

#include "libutil/errmsg.h"
#include "libutil/strvec.h"

typedef struct sbatch sbatch_t;

/* NULL with ENOMEM. */
sbatch_t *sbatch_create(void);
void sbatch_destroy(sbatch_t *s); /* NULL-safe, keeps errno */
/* Read the options in argv[1] to argv[argc - 1], which may be reordered.  -1 with EINVAL or ENOMEM
 * and an error message when a value is wrong. */
int sbatch_line(sbatch_t *s, int argc, char **argv, errmsg_t *err);
/* After the last line: add what depends on several options.  -1 with ENOMEM and an error
 * message. */
int sbatch_finish(sbatch_t *s, errmsg_t *err);
/* Owned by `s`. */
const strvec_t *sbatch_options(const sbatch_t *s);
const strvec_t *sbatch_ignored(const sbatch_t *s);

#endif
