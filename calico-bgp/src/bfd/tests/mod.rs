mod machine;
mod properties;
mod simulation;
