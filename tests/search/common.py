"""What the tests of searches share: an operator that is soon compiled, verified and timed."""
OPERATOR = """operator add_one {
    symbols: N;
    tensors: X[N]: f32, Y[N]: f32;
    Y = X + 1
    case ragged { N=33; X: normal(0, 1) }
    case large { N=30000; X: normal(0, 1) }
}
"""
ELEMENTS = 30033  # of all cases
