//! Byte vectors: what is read, what is refused and how. Numbers in comments are those of the checklist of nasty inputs that the
//! design was made with (header 1–13, OPEN 14–21, UPDATE framing 22–27, attributes 28–36, NLRI 37–44).
#![expect(clippy::arithmetic_side_effects, reason = "a test that overflows fails")]

mod attribute;
mod build;
mod context;
mod differential;
mod encode;
mod header;
mod nlri;
mod old_speaker;
mod open;
mod properties;
mod update;
