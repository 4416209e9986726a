class Thing:
    kind = "shadow"


def answer():
    return "shadow"
