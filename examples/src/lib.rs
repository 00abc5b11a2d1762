//! See the programs in `examples/`.
