"""Everything that touches CUDA: NVRTC, the cubin cache, arrays, tensor maps, launching, timing."""
