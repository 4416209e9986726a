// What torch_api_begin.h took away is the program's again.
#pragma pop_macro("TORCH_TARGET_VERSION")
#pragma pop_macro("TORCH_STABLE_ONLY")
