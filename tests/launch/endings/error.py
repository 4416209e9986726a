def inner():
    return 1 / 0


inner()
