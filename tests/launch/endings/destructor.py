class Last:
    def __del__(self):
        print("gone")


kept = Last()
