/* Where it was before it served all directories. */
#include "libutil/test/suite.h"
