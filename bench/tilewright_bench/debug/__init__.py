"""`tilewright debug`: the first tensor of a model on which two engines differ."""
