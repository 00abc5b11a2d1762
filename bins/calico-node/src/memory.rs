//! How the C library allocates in the agent's process. What an embedder's does is the embedder's to say.
//!
//! By itself it gives each thread that allocates an arena of its own, of which none takes what another has free, and returns to the
//! kernel little of what lies between things that are held. Here a dozen threads in turn read a store of 250 000 objects, once, and
//! what comes of it is held for ever.
#![expect(unsafe_code, reason = "the C library's settings have no safe wrapper")]

/// Lets all threads share two arenas. To be called while there is one thread.
pub(crate) fn share_arenas() {
    // SAFETY: it takes two numbers, and sets one; an answer of 0 means that all stays as it was.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 2);
    }
}

/// Returns to the kernel what is free. Blocks for milliseconds.
pub(crate) fn give_back() {
    // SAFETY: it takes a number, touches nothing that is allocated, and may be called by any thread at any time.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
