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

/// What the page shows of the example is in it, word for word.
#[test]
fn the_page_shows_the_example_as_it_is() {
    let at = |path| std::fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let (page, example) = (at("../../docs/conformance.md"), at("examples/conformance.rs"));
    let mut blocks = page.split("```rust\n").skip(1).filter_map(|rest| rest.split_once("```"));
    let (shown, _) = blocks.next().unwrap();
    assert!(shown.lines().count() > 50 && example.contains(shown), "docs/conformance.md shows another example");
}
