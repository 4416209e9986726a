// Headers of PyTorch's C++ API refuse to be read where a program keeps to the stable ABI. Ours may use them: what is
// compiled here runs with the PyTorch that it was compiled for.
#pragma push_macro("TORCH_STABLE_ONLY")
#pragma push_macro("TORCH_TARGET_VERSION")
#undef TORCH_STABLE_ONLY
#undef TORCH_TARGET_VERSION
