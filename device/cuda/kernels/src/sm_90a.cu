// The module for Hopper alone.
#include "device.h"
