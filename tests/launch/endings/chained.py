try:
    print({}["x"])
except KeyError as error:
    raise RuntimeError("outer") from error
