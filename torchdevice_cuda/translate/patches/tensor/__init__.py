"""Methods of tensors: a file for each kind of thing that they do."""
