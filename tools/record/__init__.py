"""Cases, where they run, the records of a GPU's answers, and comparisons with them."""
