//! Integration tests: the native backend over real TCP, and against BIRD.
#![expect(clippy::disallowed_methods, reason = "tests on real sockets and daemons have real time and threads")]

#[cfg(test)]
mod bfd;
#[cfg(test)]
mod bird;
#[cfg(test)]
mod bird_backend;
#[cfg(test)]
mod bird_render;
mod native;
#[cfg(test)]
mod neighbour;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod support;
