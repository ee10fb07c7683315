//! The example in the documentation is what it says: a receiver that conforms.

#[path = "../../examples/conformance.rs"]
mod documents;

use documents::Documents;
use fencepost_testkit::conformance;

fn adapter() -> Documents {
    Documents::new(&crate::in_memory(), &["--exact", "example::child", "--nocapture"]).unwrap()
}

#[test]
fn child() {
    conformance::child(&adapter());
}

#[test]
fn the_documents_of_the_example_conform() {
    let report = conformance::run(&adapter());
    println!("{report}");
    report.must_pass();
}
