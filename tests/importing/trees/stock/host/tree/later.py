origin = "stock"
