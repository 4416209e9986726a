"""The command line and the shim: processes as users start them."""
