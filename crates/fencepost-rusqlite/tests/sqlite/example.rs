//! The example of a rejected write does what it says.

#[path = "../../examples/stale_write.rs"]
mod stale_write;

#[test]
fn the_example_of_a_stale_write_runs() {
    stale_write::main().unwrap();
}
