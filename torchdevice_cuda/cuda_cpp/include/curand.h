// cuRAND's functions of the host are not here (refusals.py names them); many sources include this for curand_kernel.h
// alone.
#pragma once
