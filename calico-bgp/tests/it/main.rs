//! Integration tests: the native backend over real TCP, and against BIRD.

mod native;
mod support;
