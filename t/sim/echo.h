/* A service for tests: "NAME.now" answers with the payload at once, "NAME.later" after a while. */
#ifndef SIM_ECHO_H
#define SIM_ECHO_H

#include "libflux/module.h"

extern const struct flux_module flux_module_echo, flux_module_spot;

#endif
