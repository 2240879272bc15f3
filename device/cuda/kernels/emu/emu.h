// The emulator's interface for those who link it: emu::registry() and emu::launch.
#pragma once
#ifndef GK_EMU
#define GK_EMU
#endif
#include "../src/device.h"
