//! The example of a rejected write does what it says.

#[path = "../../examples/rejected_write.rs"]
mod rejected_write;

#[test]
fn the_example_of_a_rejected_write_runs() {
    rejected_write::main().unwrap();
}
