//! Integration tests: the native backend over real TCP, and against BIRD.

#[cfg(test)]
mod bird;
mod native;
#[cfg(test)]
mod support;
