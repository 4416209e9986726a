class Thing:
    kind = "stock"


def answer():
    return "stock"
