//! What operators type: apply, create, get and delete resources.
