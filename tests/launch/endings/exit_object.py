raise SystemExit([1])
